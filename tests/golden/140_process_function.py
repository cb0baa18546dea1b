# topic: timestamps and watermarks
# checks: ProcessFunction on a stream that is not keyed: timestamp, current_processing_time, several outputs, none;
#         yield of a tuple whose first element is no tag; a process function that returns a list; returning None.
from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1000


class Generator(ProcessFunction):
    def process_element(self, value, ctx):
        assert ctx.timer_service().current_processing_time() > 1600000000000
        if value == 2:
            return
        yield ("pair", ctx.timestamp())
        yield ("again", value)


class Listed(ProcessFunction):
    def process_element(self, value, ctx):
        return [value, value * 2] if value != 2 else None


class KeyedListed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            ctx.timer_service().register_event_time_timer(value)
            return None
        return (ctx.get_current_key(), value)

    def on_timer(self, timestamp, ctx):
        return [timestamp, ctx.timestamp()]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([1, 2, 3], type_info=Types.LONG()).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
)
pairs = ds.process(Generator(), Types.TUPLE([Types.STRING(), Types.LONG()]))
listed = ds.process(Listed(), Types.LONG())
keyed = ds.key_by(lambda v: v % 2, key_type=Types.LONG()).process(KeyedListed(), Types.LONG())
untyped = ds.process(Generator())
streams = [
    pairs.map(lambda v: "pair %s %d" % v, Types.STRING()),
    listed.map(lambda v: "listed %d" % v, Types.STRING()),
    keyed.map(lambda v: "keyed %d" % v, Types.STRING()),
    untyped.map(lambda v: "untyped %s %s" % (type(v).__name__, v), Types.STRING()),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
