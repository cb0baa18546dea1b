# topic: event-time timers
# checks: on_timer that sets the next timer: a chain of timers at the end of bounded input, in time order over
#         keys; state changed in on_timer; clear; timers at equal times of several keys. (Thread mode, see 110.)
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Chain(KeyedProcessFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.INT()))

    def process_element(self, value, ctx):
        if self.left.value() is None:
            self.left.update(3)
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        self.seen.put(value[1], self.left.value())

    def on_timer(self, timestamp, ctx):
        left = self.left.value()
        yield "%s timer %d left %s seen %s" % (
            ctx.get_current_key(),
            timestamp,
            left,
            sorted(self.seen.items()),
        )
        if left is None:
            return
        if left > 0:
            self.left.update(left - 1)
            self.seen.put(timestamp, -left)
            ctx.timer_service().register_event_time_timer(timestamp + 10)
            ctx.timer_service().register_event_time_timer(timestamp + 10)
        else:
            self.left.clear()
            self.seen.clear()
            ctx.timer_service().register_event_time_timer(timestamp + 100)


config = Configuration()
config.set_string("python.execution-mode", "thread")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 1), ("b", 1), ("a", 5), ("c", 7), ("b", 2)], type_info=Types.TUPLE([Types.STRING(), Types.LONG()])
)
result = (
    ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: v[0], key_type=Types.STRING())
    .process(Chain(), Types.STRING())
)
with result.execute_and_collect() as it:
    for r in it:
        print(r)
