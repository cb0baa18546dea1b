# topic: sliding windows
# checks: sliding windows with reduce and aggregate; size no multiple of the slide; a slide longer than the size
#         leaves elements out; offset; negative time stamps; sliding count windows per key with aggregate and process.
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import SlidingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Names(AggregateFunction):
    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return accumulator + "%d;" % value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        w = context.window()
        yield "%s [%d, %d) %s" % (key, w.start, w.end, list(elements))


class TellCount(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %s" % (key, list(elements))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
ds = env.from_collection(
    [("a", 0), ("a", 120), ("b", -30), ("a", 250), ("a", 90), ("b", 70), ("a", 500)], type_info=pair
)
keyed = ds.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
).key_by(lambda v: v[0], key_type=Types.STRING())


def sliding(size, slide, offset=0):
    return keyed.window(
        SlidingEventTimeWindows.of(
            Time.milliseconds(size), Time.milliseconds(slide), Time.milliseconds(offset)
        )
    )


def tell(name, stream):
    return stream.map(lambda t: "%s: %s" % (name, t), Types.STRING())


def aggregated(windowed, function=None):
    return windowed.aggregate(
        Names(), window_function=function, accumulator_type=Types.STRING(), output_type=Types.STRING()
    )


streams = [
    tell("sum", sliding(200, 100).reduce(lambda x, y: (x[0], x[1] + y[1]))),
    tell("odd", aggregated(sliding(250, 100), Tell())),
    tell("gaps", aggregated(sliding(50, 100), Tell())),
    tell("offset", aggregated(sliding(200, 100, 30), Tell())),
    tell("count", keyed.count_window(3, 1).process(TellCount(), Types.STRING())),
    tell("count sum", keyed.count_window(2, 1).reduce(lambda x, y: (x[0], x[1] + y[1]))),
    tell("count every 2", aggregated(keyed.count_window(2, 2), TellCount())),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
