# topic: event-time timers
# checks: with slow input timers fire as soon as the watermark passes them, in time order; elements after that see
#         the changed state; a timer set below the watermark fires at the next advance; on_timer sets
#         further timers; the watermark seen in on_timer.
import time

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Timers(KeyedProcessFunction):
    def open(self, runtime_context):
        self.fired = runtime_context.get_list_state(ListStateDescriptor("fired", Types.LONG()))

    def process_element(self, value, ctx):
        wm = ctx.timer_service().current_watermark()
        yield "element %d wm=%d fired=%s" % (value, wm, list(self.fired.get()))
        ctx.timer_service().register_event_time_timer(value + 500)
        ctx.timer_service().register_event_time_timer(value - 900)

    def on_timer(self, timestamp, ctx):
        self.fired.add(timestamp)
        wm = ctx.timer_service().current_watermark()
        yield "timer %d wm=%s" % (timestamp, "the end" if wm == 2**63 - 1 else wm)


def slow(value):
    time.sleep(1.5)
    return value


config = Configuration()
config.set_string("python.execution-mode", "thread")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.get_config().set_auto_watermark_interval(50)
ds = env.from_collection([1000, 2000, 2300, 2600, 1500], type_info=Types.LONG())
result = (
    ds.rebalance()
    .map(slow, Types.LONG())
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: 1, key_type=Types.INT())
    .process(Timers(), Types.STRING())
)
with result.execute_and_collect() as it:
    for r in it:
        print(r)
