# topic: map state
# checks: a None value in a MapState: items, keys and is_empty have the entry. (contains says no in real PyFlink's
#         process mode, which asks whether get gives None, and yes in its thread mode.)
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor


class Nones(KeyedProcessFunction):
    def open(self, runtime_context):
        self.m = runtime_context.get_map_state(
            MapStateDescriptor("m", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        self.m.put("none", None)
        self.m.put("zero", 0)
        yield "%d keys=%s" % (value, sorted(self.m.keys()))
        yield "%d items=%s empty=%s" % (value, sorted(self.m.items()), self.m.is_empty())
        yield "%d none: %s" % (value, self.m.get("none"))
        yield "%d zero: %s %s" % (value, self.m.contains("zero"), self.m.get("zero"))
        self.m.remove("zero")
        yield "%d removed: %s" % (value, list(self.m.keys()))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([1, 2], type_info=Types.INT())
result = ds.key_by(lambda v: 0, key_type=Types.INT()).process(Nones(), Types.STRING())
with result.execute_and_collect() as it:
    for r in it:
        print(r)
