# topic: timestamps and watermarks
# checks: the time stamp of what a window emits: an element's where the element made it fire, else that of the timer;
#         for custom triggers, late firings and windows of all kinds; also of elements without time stamps.
import time

from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    Trigger,
    TriggerResult,
)
from pyflink.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
)


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s%s" % (key, [e[1] for e in elements])


class Show(ProcessFunction):
    def __init__(self, name):
        self.name = name

    def process_element(self, value, ctx):
        yield "%s %s ts=%d" % (self.name, value, ctx.timestamp())


class Middle(Trigger):
    """Fires at the middle of the window only."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.start + 500)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


def slow(value):
    time.sleep(1.2)
    return value


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.get_config().set_auto_watermark_interval(50)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
ds = env.from_collection([("a", 100), ("a", 1200), ("a", 150), ("a", 1250), ("a", 4000)], type_info=pair)
keyed = (
    ds.rebalance()
    .map(slow, pair)
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: v[0], key_type=Types.STRING())
)
second = TumblingEventTimeWindows.of(Time.seconds(1))


def show(name, windowed):
    return windowed.process(Tell(), Types.STRING()).process(Show(name), Types.STRING())


streams = [
    show("plain", keyed.window(second)),
    show("late", keyed.window(second).allowed_lateness(10000)),
    show("middle", keyed.window(second).trigger(Middle())),
    show("count", keyed.window(second).trigger(CountTrigger.of(2))),
    show("session", keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(300)))),
    show(
        "session count",
        keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(9))).trigger(CountTrigger.of(3)),
    ),
    show("global", keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2))),
    show("count window", keyed.count_window(2)),
    show("sliding count", keyed.count_window(2, 1)),
    show(
        "no time stamps",
        ds.key_by(lambda v: v[0], key_type=Types.STRING())
        .window(GlobalWindows.create())
        .trigger(CountTrigger.of(4)),
    ),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
