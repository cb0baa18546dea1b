# topic: runtime context and life cycle
# checks: open of window functions and of a rolling reduce function (that of a window's reduce or aggregate
#         function is not called by real PyFlink); state taken in open of a window
#         function belongs to the key over all windows; global job parameters (process mode only).
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    MapFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Numbered(ProcessWindowFunction):
    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()
        self.windows = runtime_context.get_state(ValueStateDescriptor("windows", Types.INT()))

    def process(self, key, context, elements):
        n = (self.windows.value() or 0) + 1
        self.windows.update(n)
        yield "%s window number %d from %d subtask %d: %s" % (
            key,
            n,
            context.window().start,
            self.index,
            [e[1] for e in elements],
        )


class Applied(WindowFunction):
    def open(self, runtime_context):
        self.windows = runtime_context.get_state(ValueStateDescriptor("applied", Types.INT()))

    def apply(self, key, window, inputs):
        n = (self.windows.value() or 0) + 1
        self.windows.update(n)
        yield "%s applied %d" % (key, n)


class Adding(ReduceFunction):
    def open(self, runtime_context):
        self.opened = True

    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1] + (0 if self.opened else 1000000)


class Counting(AggregateFunction):
    def create_accumulator(self):
        return 100

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return "counted %d" % accumulator

    def merge(self, a, b):
        return a + b


class Parameter(MapFunction):
    def open(self, runtime_context):
        self.parameter = runtime_context.get_job_parameter("greeting", "none")

    def map(self, value):
        return "%s %s" % (self.parameter, value[0])


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.get_config().set_global_job_parameters({"greeting": "hello"})
ds = env.from_collection(
    [("a", 1), ("b", 2), ("a", 1003), ("a", 1004), ("b", 2005), ("a", 3006)],
    type_info=Types.TUPLE([Types.STRING(), Types.LONG()]),
).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
)
keyed = ds.key_by(lambda v: v[0], key_type=Types.STRING())
windowed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
streams = [
    windowed.process(Numbered(), Types.STRING()),
    windowed.apply(Applied(), Types.STRING()),
    windowed.reduce(lambda x, y: (x[0], x[1] + y[1])).map(lambda v: "reduced %s %d" % v, Types.STRING()),
    windowed.aggregate(Counting(), accumulator_type=Types.INT(), output_type=Types.STRING()),
    keyed.reduce(Adding()).map(lambda v: "rolling %s %d" % v, Types.STRING()),
    ds.map(Parameter(), Types.STRING()),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
