# topic: batch and streaming mode
# checks: BATCH: a key's elements come sorted by time stamp and before its timers; windows give one result each; late
#         does not exist; session and count windows; keyed co-process. (Thread mode: process mode mixes up
#         keys in on_timer and emits no windows.)
from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from pyflink.datastream.state import ListStateDescriptor
from pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Collect(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 1)

    def on_timer(self, timestamp, ctx):
        yield "%s timer %d seen %s" % (ctx.get_current_key(), timestamp, list(self.seen.get()))


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element1(self, value, ctx):
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(10000)

    def process_element2(self, value, ctx):
        self.seen.add(-value[1])

    def on_timer(self, timestamp, ctx):
        yield "%s both %s" % (ctx.get_current_key(), sorted(self.seen.get()))


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        w = context.window()
        yield "%s [%d, %d) %s" % (key, w.start, w.end, sorted(e[1] for e in elements))


config = Configuration()
config.set_string("python.execution-mode", "thread")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
ds = env.from_collection(
    [("a", 500), ("b", 700), ("a", 100), ("c", 1), ("b", 200), ("a", 1500), ("a", 900)], type_info=pair
).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
)
keyed = ds.key_by(lambda v: v[0], key_type=Types.STRING())


def tell(name, stream):
    return stream.map(lambda v: "%s: %s" % (name, v), Types.STRING())


streams = [
    tell("timers", keyed.process(Collect(), Types.STRING())),
    tell("both", keyed.connect(keyed).process(Both(), Types.STRING())),
    tell(
        "tumbling", keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Tell(), Types.STRING())
    ),
    tell(
        "session",
        keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(400))).process(
            Tell(), Types.STRING()
        ),
    ),
    tell(
        "sum",
        keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda x, y: (x[0], x[1] + y[1])),
    ),
    tell(
        "all",
        ds.window_all(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda x, y: ("all", x[1] + y[1])),
    ),
    tell("count", keyed.count_window(2).reduce(lambda x, y: (x[0], x[1] + y[1]))),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
