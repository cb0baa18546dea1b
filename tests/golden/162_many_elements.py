# topic: value state
# checks: thousands of elements over many keys, at parallelism 3, two keyed stages and a window: exact sums; every
#         key stays in one instance.
from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Total(KeyedProcessFunction):
    """Tells the total of a key at the end."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.places = runtime_context.get_map_state(
            MapStateDescriptor("places", Types.INT(), Types.BOOLEAN())
        )
        self.index = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value)
        self.places.put(self.index, True)
        ctx.timer_service().register_event_time_timer(2**62)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.total.value(), len(list(self.places.keys()))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(3)
ds = env.from_source(
    NumberSequenceSource(1, 6000), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(60)).with_timestamp_assigner(At())
)
triple = Types.TUPLE([Types.LONG(), Types.LONG(), Types.INT()])
by_remainder = ds.key_by(lambda v: v % 97, key_type=Types.LONG()).process(Total(), triple)
in_all = (
    by_remainder.map(lambda v: (v[0] % 3, v[1], v[2]), triple)
    .key_by(lambda v: v[0], key_type=Types.LONG())
    .window(TumblingEventTimeWindows.of(Time.days(1)))
    .reduce(lambda x, y: (x[0], x[1] + y[1], max(x[2], y[2])))
    .map(lambda v: "in all %d: %d places %d" % v, Types.STRING())
)
some = by_remainder.filter(lambda v: v[0] % 10 == 0).map(lambda v: "%d: %d places %d" % v, Types.STRING())
windows = (
    ds.key_by(lambda v: v % 2, key_type=Types.LONG())
    .window(TumblingEventTimeWindows.of(Time.milliseconds(1000)))
    .reduce(lambda a, b: a + b)
    .map(lambda v: "window %d" % v, Types.STRING())
)
with in_all.union(some, windows).execute_and_collect() as it:
    for r in it:
        print(r)
