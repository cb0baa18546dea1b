# topic: map state
# checks: MapState with None values (items has them), the operators `in`, [] and del on it, tuple keys,
#         pickled keys, keys() after remove. (Thread mode compares pickled and composite keys by identity.)
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor


class Maps(KeyedProcessFunction):
    def open(self, runtime_context):
        self.m = runtime_context.get_map_state(
            MapStateDescriptor("m", Types.TUPLE([Types.STRING(), Types.INT()]), Types.LIST(Types.STRING()))
        )
        self.p = runtime_context.get_map_state(
            MapStateDescriptor("p", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        key, n = value
        at = (key, n % 2)
        self.m.put(at, (self.m.get(at) or []) + ["v%d" % n])
        self.p.put(n, None if n % 2 else {"n": n})
        yield "%s m=%s in=%s" % (value, sorted(self.m.items()), (key, 1) in self.m)
        yield "%s p=%s contains=%s get=%s" % (
            value,
            sorted(self.p.items(), key=str),
            self.p.contains(99),
            self.p.get(1),
        )
        if n == 4:
            self.p[50] = "set by item"
            got = self.p[50]
            del self.p[50]
            yield "%s item=%s gone=%s" % (value, got, 50 in self.p)
            for k in list(self.p.keys()):
                self.p.remove(k)
            yield "%s all removed keys=%s empty=%s" % (value, list(self.p.keys()), self.p.is_empty())
            self.p.put(7, 7)
            yield "%s again keys=%s iterated=%s" % (value, list(self.p.keys()), list(self.p))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 1), ("a", 2), ("b", 2), ("a", 3), ("a", 4), ("b", 5), ("a", 6)],
    type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = ds.key_by(lambda v: v[0], key_type=Types.STRING()).process(Maps(), Types.STRING())
with result.execute_and_collect() as it:
    for r in it:
        print(r)
