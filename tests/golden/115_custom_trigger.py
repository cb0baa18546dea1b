# topic: lateness and triggers
# checks: a custom trigger on event-time windows: on_element fires early for marked elements, timers it sets
#         come to on_event_time with their time; EventTimeTrigger's behaviour by hand; trigger clear is called
#         at the end of the window; PURGE drops the elements; delete_event_time_timer.
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment, Trigger, TriggerResult
from pyflink.datastream.window import TumblingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %d: %s" % (key, context.window().start, ["%d%s" % (e[1], e[2]) for e in elements])


class Marked(Trigger):
    def on_element(self, element, timestamp, window, ctx):
        assert timestamp == element[1]
        ctx.register_event_time_timer(window.max_timestamp())
        ctx.register_event_time_timer(window.start + 500)
        if element[2] == "!":
            return TriggerResult.FIRE
        if element[2] == "p":
            return TriggerResult.PURGE
        if element[2] == "b":
            return TriggerResult.FIRE_AND_PURGE
        if element[2] == "d":
            ctx.delete_event_time_timer(window.start + 500)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        if time == window.max_timestamp():
            return TriggerResult.FIRE_AND_PURGE
        return TriggerResult.FIRE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.delete_event_time_timer(window.max_timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [
        ("a", 1, "."), ("a", 2, "!"), ("a", 3, "."), ("b", 4, "b"), ("b", 5, "."), ("c", 6, "p"), ("a", 1007, "."),
        ("a", 1008, "p"), ("c", 1009, "."), ("c", 1010, "d"), ("d", 1, "b"),
    ],
    type_info=Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()]),
)  # fmt: skip
result = (
    ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: v[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.seconds(1)))
    .trigger(Marked())
    .process(Tell(), Types.STRING())
)
with result.execute_and_collect() as it:
    for r in it:
        print(r)
