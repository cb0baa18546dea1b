# topic: clear and isolation
# checks: getting a state twice by one descriptor gives the same state; None and absent are alike for
#         value state; state set in one key is not seen in another; keys 1 and "1" and (1,) are different.
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Twice(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("v", Types.STRING())
        self.one = runtime_context.get_state(descriptor)
        self.two = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        before = self.two.value()
        self.one.update("%s after %s" % (value[1], before))
        yield "%r %r: %s" % (ctx.get_current_key(), before, self.two.value())
        if value[1] == 3:
            self.two.clear()
            yield "%r cleared: %s" % (ctx.get_current_key(), self.one.value())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [(1, 1), ("1", 1), ((1,), 1), (1, 2), ("1", 3), ((1,), 2), ("1", 4), (None, 5), (None, 6)]
)
result = ds.key_by(lambda v: v[0]).process(Twice(), Types.STRING())
with result.execute_and_collect() as it:
    for r in it:
        print(r)
