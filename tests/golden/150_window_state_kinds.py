# topic: per-window state and window_all
# checks: window_state and global_state give list, map, reducing and aggregating state too; global state lives on
#         from window to window; clear of the window function; context.current_processing_time.
#         (Thread mode: process mode mixes up window state and global state of one name.)
from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
)
from pyflink.datastream.window import CountTrigger, TumblingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Text(AggregateFunction):
    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return accumulator + str(value)

    def get_result(self, accumulator):
        return "<%s>" % accumulator

    def merge(self, a, b):
        return a + b


class States(ProcessWindowFunction):
    def open(self, runtime_context):
        self.list = ListStateDescriptor("list", Types.LONG())
        self.map = MapStateDescriptor("map", Types.LONG(), Types.LONG())
        self.sum = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
        self.text = AggregatingStateDescriptor("text", Text(), Types.STRING())

    def process(self, key, context, elements):
        elements = [e[1] for e in elements]
        for name, store in (("window", context.window_state()), ("global", context.global_state())):
            store.get_list_state(self.list).add(elements[-1])
            store.get_map_state(self.map).put(context.window().start, len(elements))
            store.get_reducing_state(self.sum).add(elements[-1])
            store.get_aggregating_state(self.text).add(len(elements))
            yield "%s %d %s: %s %s %s %s" % (
                key,
                context.window().start,
                name,
                list(store.get_list_state(self.list).get()),
                sorted(store.get_map_state(self.map).items()),
                store.get_reducing_state(self.sum).get(),
                store.get_aggregating_state(self.text).get(),
            )
        assert context.current_processing_time() > 1600000000000

    def clear(self, context):
        context.window_state().get_list_state(self.list).clear()
        context.window_state().get_map_state(self.map).clear()
        context.window_state().get_reducing_state(self.sum).clear()
        context.window_state().get_aggregating_state(self.text).clear()


config = Configuration()
config.set_string("python.execution-mode", "thread")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 1), ("a", 1002), ("a", 3), ("b", 4), ("a", 5), ("a", 1006), ("a", 7), ("b", 8)],
    type_info=Types.TUPLE([Types.STRING(), Types.LONG()]),
)
result = (
    ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: v[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.seconds(1)))
    .trigger(CountTrigger.of(2))
    .process(States(), Types.STRING())
)
with result.execute_and_collect() as it:
    for r in it:
        print(r)
