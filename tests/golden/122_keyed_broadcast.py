# topic: broadcast state
# checks: KeyedBroadcastProcessFunction: keyed state and read-only broadcast state together; on_timer sees the
#         broadcast state; several broadcast states; each parallel instance gets every broadcast element.
import time

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

factors = MapStateDescriptor("factors", Types.STRING(), Types.INT())
counts = MapStateDescriptor("counts", Types.INT(), Types.INT())


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Multiply(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(factors).put(value[0], value[1])
        state = ctx.get_broadcast_state(counts)
        state.put(0, (state.get(0) or 0) + 1)
        yield "broadcast %s number %d" % (value[0], state.get(0))

    def process_element(self, value, ctx):
        factor = ctx.get_broadcast_state(factors).get(value[0]) or 1
        self.total.update((self.total.value() or 0) + factor * value[1])
        ctx.timer_service().register_event_time_timer(1000)
        yield "%s %d times %d total %d ts=%d" % (
            ctx.get_current_key(),
            value[1],
            factor,
            self.total.value(),
            ctx.timestamp(),
        )

    def on_timer(self, timestamp, ctx):
        yield "%s timer %d total %d seen %s" % (
            ctx.get_current_key(),
            timestamp,
            self.total.value(),
            sorted(ctx.get_broadcast_state(factors).items()),
        )


def later(value):
    time.sleep(4 if value == ("a", 1) else 0)
    return value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
rules = env.from_collection(
    [("a", 10), ("b", 100), ("a", 20)], type_info=Types.TUPLE([Types.STRING(), Types.INT()])
)
data = (
    env.from_collection([("a", 1), ("b", 2), ("c", 3), ("a", 4)], type_info=pair)
    .map(later, pair)
    .assign_timestamps_and_watermarks(strategy)
)
rules = rules.assign_timestamps_and_watermarks(strategy)
result = (
    data.key_by(lambda v: v[0], key_type=Types.STRING())
    .connect(rules.broadcast(factors, counts))
    .process(Multiply(), Types.STRING())
)
with result.execute_and_collect() as it:
    for r in it:
        print(r)
