# topic: tumbling windows
# checks: window reduce and aggregate, with and without a window function: the window function gets exactly
#         one element, the result; accumulator, result and output types differ; ReduceFunction class.
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from pyflink.datastream.window import TumblingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        w = context.window()
        yield "%s [%d, %d) %s wm=%s" % (key, w.start, w.end, list(elements), context.current_watermark())


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        return ["%s %d %s" % (key, window.max_timestamp(), list(inputs))]


class Bigger(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 if value1[1] >= value2[1] else value2


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
three = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()])
ds = env.from_collection(
    [("a", 3, 10), ("b", 5, 20), ("a", 9, 900), ("a", 4, 1100), ("b", 1, 999), ("b", 8, 2500), ("a", 9, 30)],
    type_info=three,
)
windowed = (
    ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: v[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.seconds(1)))
)
pair = Types.TUPLE([Types.INT(), Types.INT()])


def tell(name, stream):
    return stream.map(lambda v: "%s %s" % (name, v), Types.STRING())


streams = [
    tell("reduce", windowed.reduce(Bigger())),
    tell("reduce typed", windowed.reduce(lambda x, y: (x[0], x[1] + y[1], y[2]), output_type=three)),
    tell("reduce process", windowed.reduce(Bigger(), window_function=Tell(), output_type=Types.STRING())),
    tell("reduce apply", windowed.reduce(Bigger(), window_function=Apply(), output_type=Types.STRING())),
    tell("aggregate", windowed.aggregate(Mean(), accumulator_type=pair, output_type=Types.DOUBLE())),
    tell("aggregate untyped", windowed.aggregate(Mean())),
    tell(
        "aggregate process",
        windowed.aggregate(Mean(), window_function=Tell(), accumulator_type=pair, output_type=Types.STRING()),
    ),
    tell(
        "aggregate apply",
        windowed.aggregate(
            Mean(), window_function=Apply(), accumulator_type=pair, output_type=Types.STRING()
        ),
    ),
    tell("apply untyped", windowed.apply(Apply())),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
