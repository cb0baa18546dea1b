# topic: side outputs
# checks: side outputs of a process window function, a keyed process function, a co-process function and of
#         a window with aggregate and window function; two tags with one stream; get_side_output twice.
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.functions import AggregateFunction, ProcessAllWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

large = OutputTag("large", Types.STRING())
numbers = OutputTag("numbers", Types.INT())
rows = OutputTag("rows", Types.ROW([Types.STRING(), Types.INT()]))


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Window(ProcessWindowFunction):
    def process(self, key, context, elements):
        n = len(list(elements))
        if n > 1:
            yield large, "%s has %d" % (key, n)
        yield numbers, n
        yield "window %s %d" % (key, context.window().start)


class All(ProcessAllWindowFunction):
    def process(self, context, elements):
        for e in elements:
            yield numbers, e[1]


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield numbers, value[1]
        if value[1] > 999:
            yield large, "keyed %s" % value[0]


class Co(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield numbers, value[1]

    def process_element2(self, value, ctx):
        yield large, value
        yield "co " + value


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 1), ("b", 2), ("a", 3), ("a", 1004), ("b", 1005), ("b", 1006)],
    type_info=Types.TUPLE([Types.STRING(), Types.LONG()]),
).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
)
keyed = ds.key_by(lambda v: v[0], key_type=Types.STRING())
tumbling = TumblingEventTimeWindows.of(Time.seconds(1))


def sides(name, stream):
    return (
        stream.map(lambda v: "%s main %s" % (name, v), Types.STRING())
        .union(stream.get_side_output(large).map(lambda v: "%s large %s" % (name, v), Types.STRING()))
        .union(stream.get_side_output(numbers).map(lambda v: "%s number %d" % (name, v), Types.STRING()))
        .union(stream.get_side_output(numbers).map(lambda v: "%s again %d" % (name, v), Types.STRING()))
    )


words = env.from_collection(["x", "y"], type_info=Types.STRING())
streams = [
    sides("window", keyed.window(tumbling).process(Window(), Types.STRING())),
    sides("all", ds.window_all(tumbling).process(All(), Types.STRING())),
    sides("keyed", keyed.process(Keyed(), Types.STRING())),
    sides("co", ds.connect(words).process(Co(), Types.STRING())),
    sides(
        "aggregate",
        keyed.window(tumbling).aggregate(
            Count(), window_function=Window(), accumulator_type=Types.INT(), output_type=Types.STRING()
        ),
    ),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
