# topic: session windows
# checks: session windows with a fixed gap merge (also by a bridging element, and touching sessions merge),
#         with a dynamic gap taken from the element; reduce, aggregate and process of merged sessions;
#         per-key; the elements of merged windows come in arrival order per window, first window's first.
#         (Expected by hand: 'aggregated 4 elements, 719 in all'. Real PyFlink says 3: of merged windows it
#         keeps one accumulator and loses the others.)
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 50 if element[0] == "a" else 1000


class Describe(ProcessWindowFunction):
    def process(self, key, context, elements):
        w = context.window()
        yield "%s [%d, %d) %s" % (key, w.start, w.end, sorted(e[1] for e in elements))


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator):
        return "%d elements, %d in all" % accumulator

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [
        ("a", 0), ("a", 250), ("b", 100), ("a", 120), ("a", 500), ("b", 200), ("a", 600), ("b", 2000),
        ("b", 3500), ("a", 349), ("b", 1050), ("c", 7), ("c", 7),
    ],
    type_info=Types.TUPLE([Types.STRING(), Types.LONG()]),
)  # fmt: skip
keyed = ds.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
).key_by(lambda v: v[0], key_type=Types.STRING())


def gap(ms):
    return EventTimeSessionWindows.with_gap(Time.milliseconds(ms))


fixed = keyed.window(gap(100)).process(Describe(), Types.STRING()).map(lambda t: "fixed " + t, Types.STRING())
wide = keyed.window(gap(150)).process(Describe(), Types.STRING()).map(lambda t: "wide " + t, Types.STRING())
dynamic = (
    keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap()))
    .process(Describe(), Types.STRING())
    .map(lambda t: "dynamic " + t, Types.STRING())
)
reduced = (
    keyed.window(gap(150))
    .reduce(lambda x, y: (x[0], x[1] + y[1]))
    .map(lambda v: "reduced %s %d" % v, Types.STRING())
)
aggregated = (
    keyed.window(gap(150))
    .aggregate(Total(), accumulator_type=Types.TUPLE([Types.INT(), Types.LONG()]), output_type=Types.STRING())
    .map(lambda t: "aggregated " + t, Types.STRING())
)
with fixed.union(wide, dynamic, reduced, aggregated).execute_and_collect() as it:
    for r in it:
        print(r)
