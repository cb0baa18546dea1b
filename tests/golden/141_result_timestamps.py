# topic: timestamps and watermarks
# checks: what windows emit has the window's max_timestamp as its time stamp, what on_timer emits has the timer's,
#         reduce and map keep the element's; so windows of windows work; side outputs carry them too.
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.window import CountTrigger, SlidingEventTimeWindows, TumblingEventTimeWindows

side = OutputTag("side", Types.STRING())


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Show(ProcessFunction):
    def __init__(self, name):
        self.name = name

    def process_element(self, value, ctx):
        yield "%s %s ts=%s" % (self.name, value, ctx.timestamp())


class Timer(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] + 7)
        yield "element"

    def on_timer(self, timestamp, ctx):
        yield "timer"
        yield side, "side of timer"


class Window(ProcessWindowFunction):
    def __init__(self, with_side=True):
        self.with_side = with_side

    def process(self, key, context, elements):
        if self.with_side:  # real PyFlink: when no tag at all is read, such a pair goes to the main output
            yield side, "side of %s" % key
        yield "%s has %d" % (key, len(list(elements)))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
ds = env.from_collection([("a", 10), ("b", 20), ("a", 1030), ("a", 1040), ("b", 2050)], type_info=pair)
timed = ds.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
)
keyed = timed.key_by(lambda v: v[0], key_type=Types.STRING())
second = TumblingEventTimeWindows.of(Time.seconds(1))
timers = keyed.process(Timer(), Types.STRING())
windows = keyed.window(second).process(Window(), Types.STRING())
sums = keyed.window(second).reduce(lambda x, y: (x[0], x[1] + y[1]), output_type=pair)
total = sums.window_all(second).reduce(lambda x, y: (x[0] + y[0], x[1] + y[1]), output_type=pair)
longer = (
    sums.key_by(lambda v: v[0], key_type=Types.STRING())
    .window(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)))
    .reduce(lambda x, y: (x[0], x[1] + y[1]), output_type=pair)
)
counted = keyed.window(second).trigger(CountTrigger.of(1)).process(Window(with_side=False), Types.STRING())
streams = [
    timers.process(Show("timers"), Types.STRING()),
    timers.get_side_output(side).process(Show("timers"), Types.STRING()),
    windows.process(Show("windows"), Types.STRING()),
    windows.get_side_output(side).process(Show("windows"), Types.STRING()),
    sums.process(Show("sums"), Types.STRING()),
    total.process(Show("total"), Types.STRING()),
    longer.process(Show("longer"), Types.STRING()),
    counted.process(Show("counted"), Types.STRING()),
    keyed.reduce(lambda x, y: (x[0], x[1] + y[1])).process(Show("rolling"), Types.STRING()),
    timed.map(lambda v: v[1], Types.LONG()).filter(lambda v: v > 30).process(Show("mapped"), Types.STRING()),
    timed.flat_map(lambda v: [v[0]] * 2, Types.STRING()).process(Show("flat"), Types.STRING()),
    keyed.count_window(2).reduce(lambda x, y: y).process(Show("count window"), Types.STRING()),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
