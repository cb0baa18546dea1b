# topic: lateness and triggers
# checks: late data with its type to a side output, of windows with reduce, aggregate and window_all;
#         allowed lateness with late output: late within the lateness fires again at once per element;
#         sessions: a late element that merges with a living session is not late.
import time

from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

pair = Types.TUPLE([Types.STRING(), Types.LONG()])


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        w = context.window()
        yield "%s [%d, %d) %s" % (key, w.start, w.end, sorted(e[1] for e in elements))


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return "total %d" % accumulator

    def merge(self, a, b):
        return a + b


def slow(value):
    time.sleep(1.2)
    return value


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.get_config().set_auto_watermark_interval(50)
ds = env.from_collection(
    [("a", 100), ("a", 1200), ("a", 150), ("a", 160), ("b", 3300), ("a", 170), ("a", 1300), ("b", 3400)],
    type_info=pair,
)
timed = (
    ds.rebalance()
    .map(slow, pair)
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
)
keyed = timed.key_by(lambda v: v[0], key_type=Types.STRING())
second = TumblingEventTimeWindows.of(Time.seconds(1))


def fresh_tag(name):
    # A tag per window, with a type of its own: real PyFlink cannot ship a tag whose tuple type was used before.
    return OutputTag("late " + name, Types.TUPLE([Types.STRING(), Types.LONG()]))


def both(name, windowed, lateness, build):
    late = fresh_tag(name)
    stream = build(windowed.allowed_lateness(lateness).side_output_late_data(late))
    return stream.map(lambda v: "%s: %s" % (name, v), Types.STRING()).union(
        stream.get_side_output(late).map(lambda v: "%s late: %s %d" % (name, v[0], v[1]), Types.STRING())
    )


def process(windowed):
    return windowed.process(Tell(), Types.STRING())


def total(windowed):
    return windowed.aggregate(Total(), accumulator_type=Types.LONG(), output_type=Types.STRING())


def add(windowed):
    return windowed.reduce(lambda x, y: (x[0] + y[0], x[1] + y[1]), output_type=pair)


streams = [
    both("process", keyed.window(second), 1000, process),
    both("reduce", keyed.window(second), 1000, add),
    both("aggregate", keyed.window(second), 1000, total),
    both("all", timed.window_all(second), 0, add),
    both("session", keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(1050))), 0, process),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
