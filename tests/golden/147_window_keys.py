# topic: tumbling windows
# checks: the key given to window functions has the key type: tuple, row, None (untyped), int; windows of days with
#         an offset; windows at the year 1969; elements that are rows; apply with a generator of several results.
from pyflink.common import Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

DAY = 24 * 60 * 60 * 1000


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        w = context.window()
        yield "%s %r [%d, %d) %s" % (type(key).__name__, key, w.start, w.end, [e.name for e in elements])


class Each(WindowFunction):
    def apply(self, key, window, inputs):
        for i, element in enumerate(inputs):
            yield "%s %d %d %s" % (key, window.start, i, element)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [
        Row(name="x", at=5),
        Row(name="yy", at=DAY - 1),
        Row(name="z", at=-5),
        Row(name="yy", at=6),
        Row(name="x", at=DAY + 3),
    ],
    type_info=Types.ROW_NAMED(["name", "at"], [Types.STRING(), Types.LONG()]),
).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
)
day = TumblingEventTimeWindows.of(Time.days(1))
shifted = TumblingEventTimeWindows.of(Time.days(1), Time.hours(8))


def tell(name, stream):
    return stream.map(lambda t: "%s: %s" % (name, t), Types.STRING())


streams = [
    tell(
        "tuple",
        ds.key_by(lambda r: (r.name, 1), key_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .window(day)
        .process(Tell(), Types.STRING()),
    ),
    tell(
        "row",
        ds.key_by(lambda r: Row(r.name), key_type=Types.ROW([Types.STRING()]))
        .window(day)
        .process(Tell(), Types.STRING()),
    ),
    tell(
        "untyped",
        ds.key_by(lambda r: r.name if r.name == "x" else None).window(day).process(Tell(), Types.STRING()),
    ),
    tell(
        "int",
        ds.key_by(lambda r: len(r.name), key_type=Types.INT())
        .window(shifted)
        .process(Tell(), Types.STRING()),
    ),
    tell(
        "each", ds.key_by(lambda r: r.name, key_type=Types.STRING()).window(day).apply(Each(), Types.STRING())
    ),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
