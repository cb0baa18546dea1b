# topic: word count and number sequence
# checks: NumberSequenceSource gives every number from first to last, both included, in parallel too; a range of one;
#         sums by key are right at parallelism 2; with event time from the number, windows.
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.window import TumblingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)


def numbers(first, last, name):
    return env.from_source(
        NumberSequenceSource(first, last), WatermarkStrategy.no_watermarks(), name, Types.LONG()
    )


small = numbers(-2, 2, "small").map(lambda v: "small %d" % v, Types.STRING())
one = numbers(7, 7, "one").map(lambda v: "one %d" % v, Types.STRING())
windows = (
    numbers(1, 25, "timed")  # a Python assigner given to from_source would not be used
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: v % 2, key_type=Types.LONG())
    .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    .reduce(lambda a, b: a + b)
    .map(lambda v: "window sum %d" % v, Types.STRING())
)
with small.union(one, windows).execute_and_collect() as it:
    for r in it:
        print(r)

env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(2)
numbers(1, 1000, "many").key_by(lambda v: v % 3, key_type=Types.LONG()).reduce(lambda a, b: a + b).print()
env.execute()
