# topic: lateness and triggers
# checks: ContinuousEventTimeTrigger fires every interval and at the end of the window; CountTrigger on time windows
#         does not fire at the end; ProcessingTimeTrigger does not fire event-time windows;
#         EventTimeTrigger on its own.
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
)


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Tell(ProcessWindowFunction):
    def __init__(self, name):
        self.name = name

    def process(self, key, context, elements):
        w = context.window()
        yield "%s %s [%d, %d) %s" % (self.name, key, w.start, w.end, sorted(e[1] for e in elements))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 10), ("a", 450), ("b", 20), ("a", 1200), ("a", 1300), ("a", 1400), ("b", 2999)],
    type_info=Types.TUPLE([Types.STRING(), Types.LONG()]),
)
keyed = ds.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
).key_by(lambda v: v[0], key_type=Types.STRING())


def tumbling(name, trigger):
    return (
        keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .trigger(trigger)
        .process(Tell(name), Types.STRING())
    )


streams = [
    tumbling("count", CountTrigger.of(2)),
    tumbling("count purging", PurgingTrigger.of(CountTrigger.of(2))),
    tumbling("event", EventTimeTrigger.create()),
    tumbling("event purging", PurgingTrigger.of(EventTimeTrigger.create())),
    tumbling("continuous", ContinuousEventTimeTrigger.of(Time.seconds(1))),
    keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(500)))
    .trigger(CountTrigger.of(2))
    .process(Tell("session count"), Types.STRING()),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
