# topic: session windows
# checks: a custom trigger on session windows: on_merge gets the merged window, merge_partitioned_state adds up
#         reducing state; firing early by merged count; timers set again in on_merge. (Thread mode: process mode
#         keeps only one of the merged accumulators.)
from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment, Trigger, TriggerResult
from pyflink.datastream.state import ReducingStateDescriptor
from pyflink.datastream.window import EventTimeSessionWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class EveryThird(Trigger):
    def __init__(self):
        self.count = ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        count = ctx.get_partitioned_state(self.count)
        count.add(1)
        if count.get() >= 3:
            count.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.count)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.delete_event_time_timer(window.max_timestamp())
        ctx.get_partitioned_state(self.count).clear()


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        w = context.window()
        yield "%s [%d, %d) %s" % (key, w.start, w.end, sorted(e[1] for e in elements))


config = Configuration()
config.set_string("python.execution-mode", "thread")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 0), ("a", 200), ("b", 5), ("a", 100), ("a", 110), ("a", 1000), ("b", 50), ("b", 60), ("a", 1010)],
    type_info=Types.TUPLE([Types.STRING(), Types.LONG()]),
)
result = (
    ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: v[0], key_type=Types.STRING())
    .window(EventTimeSessionWindows.with_gap(Time.milliseconds(120)))
    .trigger(EveryThird())
    .process(Tell(), Types.STRING())
)
with result.execute_and_collect() as it:
    for r in it:
        print(r)
