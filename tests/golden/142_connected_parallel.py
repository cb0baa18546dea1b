# topic: connected streams
# checks: connected streams at parallelism 2 see each element once; keyed one side's state from the other side, with
#         a control stream finished first (data slowed down); ctx.timestamp per input; untyped output; CoMap open, close.
import time

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return len(value) * 100


class Plain(CoMapFunction):
    def open(self, runtime_context):
        self.word = "opened"

    def map1(self, value):
        return self.word, value

    def map2(self, value):
        return self.word, value * 2


class Block(CoFlatMapFunction):
    def open(self, runtime_context):
        self.blocked = runtime_context.get_state(ValueStateDescriptor("blocked", Types.BOOLEAN()))

    def flat_map1(self, value):
        self.blocked.update(True)

    def flat_map2(self, value):
        if not self.blocked.value():
            yield "let through " + value


class Lookup(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.names = runtime_context.get_map_state(MapStateDescriptor("names", Types.STRING(), Types.INT()))

    def process_element1(self, value, ctx):
        self.names.put(value, len(value))

    def process_element2(self, value, ctx):
        yield "%s knows %s" % (value, sorted(self.names.items()))


class Stamps(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield "first %s %d" % (value, ctx.timestamp())

    def process_element2(self, value, ctx):
        yield "second %s %d" % (value, ctx.timestamp())


def later(value):
    time.sleep(4 if value == "drop" else 0)
    return value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
control = env.from_collection(["drop", "ignore", "dr"], type_info=Types.STRING())
data = (
    env.from_collection(["drop", "this", "ignore", "data", "d"], type_info=Types.STRING())
    .map(later, Types.STRING())
    .set_parallelism(1)
)
whole = control.key_by(lambda w: w, key_type=Types.STRING()).connect(
    data.key_by(lambda w: w, key_type=Types.STRING())
)
letter = control.connect(data).key_by(lambda w: w[0], lambda w: w[0])
timed = control.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
)
streams = [
    whole.flat_map(Block(), Types.STRING()),
    letter.process(Lookup(), Types.STRING()),
    control.connect(data).map(Plain()).map(lambda v: "plain %s %s" % v, Types.STRING()),
    timed.connect(timed.rebalance()).process(Stamps(), Types.STRING()),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
