# topic: connected streams
# checks: KeyedCoProcessFunction: both inputs of one key share state; timers set in either input fire
#         with the key, ctx.timestamp is the element's; side output from on_timer; connecting two keyed
#         streams with different key selectors; keyed connected map and flat_map with state.
from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
)
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

unmatched = OutputTag("unmatched", Types.STRING())


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Match(KeyedCoProcessFunction):
    """Everything is reported by timers, so that the order of the two inputs does not show."""

    def open(self, runtime_context):
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.LONG()))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", Types.LONG()))

    def process_element1(self, value, ctx):
        self.left.add(value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)

    def process_element2(self, value, ctx):
        self.right.add(value[1])
        ctx.timer_service().register_event_time_timer(5000)
        ctx.timer_service().register_event_time_timer(6000)
        ctx.timer_service().delete_event_time_timer(6000)
        yield "right %s %d %s" % (ctx.get_current_key(), ctx.timestamp(), value[2])

    def on_timer(self, timestamp, ctx):
        left, right = sorted(self.left.get()), sorted(self.right.get())
        text = "%s at %d %s: %s %s" % (
            ctx.get_current_key(),
            timestamp,
            ctx.time_domain().name,
            left,
            right,
        )
        if left and right:
            yield text
        else:
            yield unmatched, text


class CountBoth(CoMapFunction):
    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))

    def up(self):
        self.n.update((self.n.value() or 0) + 1)
        return self.n.value()

    def map1(self, value):
        return "%s element %d" % (value[0], self.up())

    def map2(self, value):
        return "%s element %d" % (value[0], self.up())


class Some(CoFlatMapFunction):
    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))

    def flat_map1(self, value):
        self.n.update((self.n.value() or 0) + 1)
        if self.n.value() % 2 == 0:
            yield "two of %s" % value[0]

    def flat_map2(self, value):
        yield "right %s" % value[0]
        yield "right %s" % value[0]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
first = env.from_collection(
    [("a", 1), ("b", 2), ("a", 3), ("c", 4)], type_info=Types.TUPLE([Types.STRING(), Types.LONG()])
).assign_timestamps_and_watermarks(strategy)
second = env.from_collection(
    [("b", 10, "x"), ("d", 20, "y"), ("a", 30, "z"), ("b", 40, "w")],
    type_info=Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()]),
).assign_timestamps_and_watermarks(strategy)
connected = first.connect(second).key_by(lambda v: v[0], lambda v: v[0], key_type=Types.STRING())
matched = connected.process(Match(), Types.STRING())
keyed = first.key_by(lambda v: v[0], key_type=Types.STRING()).connect(
    second.key_by(lambda v: v[0], key_type=Types.STRING())
)
streams = [
    matched.map(lambda t: "matched " + t, Types.STRING()),
    matched.get_side_output(unmatched).map(lambda t: "unmatched " + t, Types.STRING()),
    keyed.map(CountBoth(), Types.STRING()),
    keyed.flat_map(Some(), Types.STRING()),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
