# topic: batch and streaming mode
# checks: BATCH: stateless functions, union, connected maps, min, max, min_by per key give final results only;
#         a keyed map with state gets every element; count windows and sum; process functions see all.
from pyflink.common import Types
from pyflink.datastream import CoMapFunction, MapFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor


class Seen(MapFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def map(self, value):
        self.seen.add(value[1])
        return "%s %s" % (value[0], list(self.seen.get()))


class Both(CoMapFunction):
    def map1(self, value):
        return "left %s" % value[0]

    def map2(self, value):
        return "right %s" % value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 3), ("b", 10), ("a", 1), ("c", 100), ("b", 20), ("a", 2)],
    type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
)
other = env.from_collection(["x", "y"], type_info=Types.STRING())
keyed = ds.key_by(lambda v: v[0], key_type=Types.STRING())


def tell(name, stream):
    return stream.map(lambda v: "%s %s" % (name, v), Types.STRING())


streams = [
    tell("min", keyed.min(1)),
    tell("max", keyed.max(1)),
    tell("min_by", keyed.min_by(1)),
    tell("seen", keyed.map(Seen(), Types.STRING())),
    tell("both", ds.connect(other).map(Both(), Types.STRING())),
    tell("twice", keyed.sum(1).key_by(lambda v: "all", key_type=Types.STRING()).sum(1)),
    tell("flat", ds.flat_map(lambda v: [v[1]] * 2, Types.INT())),
    tell("union", ds.union(ds)),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
