# topic: per-window state and window_all
# checks: window_all with ProcessAllWindowFunction, reduce and aggregate; sliding and
#         session; window_all runs once for all keys even with parallelism 2.
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from pyflink.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Tell(ProcessAllWindowFunction):
    def process(self, context, elements):
        w = context.window()
        yield "[%d, %d) %s" % (w.start, w.end, sorted(elements))


class Apply(AllWindowFunction):
    def apply(self, window, inputs):
        yield "%s" % sorted(inputs)


class Biggest(AggregateFunction):
    def create_accumulator(self):
        return -1

    def add(self, value, accumulator):
        return max(value, accumulator)

    def get_result(self, accumulator):
        return "biggest %d" % accumulator

    def merge(self, a, b):
        return max(a, b)


def tell(name, stream):
    return stream.map(lambda v: "%s: %s" % (name, v), Types.STRING())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
ds = env.from_collection([5, 950, 1000, 700, 2600, 1999, 4100], type_info=Types.LONG())
timed = ds.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
)
tumbling = TumblingEventTimeWindows.of(Time.seconds(1))
streams = [
    tell("tumbling", timed.window_all(tumbling).process(Tell(), Types.STRING())),
    tell("rebalanced", timed.rebalance().window_all(tumbling).process(Tell(), Types.STRING())),
    tell("apply", timed.window_all(tumbling).apply(Apply(), Types.STRING())),
    tell("sum", timed.window_all(tumbling).reduce(lambda x, y: x + y)),
    tell(
        "aggregate",
        timed.window_all(tumbling).aggregate(
            Biggest(), accumulator_type=Types.LONG(), output_type=Types.STRING()
        ),
    ),
    tell(
        "aggregate process",
        timed.window_all(tumbling).aggregate(
            Biggest(), window_function=Tell(), accumulator_type=Types.LONG(), output_type=Types.STRING()
        ),
    ),
    tell(
        "sliding",
        timed.window_all(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))).process(
            Tell(), Types.STRING()
        ),
    ),
    tell(
        "session",
        timed.window_all(EventTimeSessionWindows.with_gap(Time.milliseconds(900))).process(
            Tell(), Types.STRING()
        ),
    ),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
