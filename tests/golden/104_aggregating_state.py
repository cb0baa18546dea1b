# topic: reducing and aggregating state
# checks: AggregatingState.get is None before the first add; accumulator and result types differ; add is
#         called with (value, accumulator); clear starts from create_accumulator again; per key.
from pyflink.common import Types
from pyflink.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import AggregatingStateDescriptor


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0.0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator):
        return "no value" if accumulator[0] == 0 else "%.2f" % (accumulator[1] / accumulator[0])

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Collect(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return "+".join(str(v) for v in accumulator)

    def merge(self, a, b):
        return a + b


class Aggregate(KeyedProcessFunction):
    def open(self, runtime_context):
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.INT(), Types.DOUBLE()]))
        )
        self.all = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("all", Collect(), Types.LIST(Types.DOUBLE()))
        )

    def process_element(self, value, ctx):
        key, n = value
        before = self.mean.get()
        self.mean.add(n)
        self.all.add(n)
        yield "%s %s: %s -> %s all %s" % (key, n, before, self.mean.get(), self.all.get())
        if n < 0:
            self.mean.clear()
            yield "%s cleared: %s all %s" % (key, self.mean.get(), self.all.get())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 1.0), ("b", 10.0), ("a", 2.0), ("a", -6.0), ("b", 5.0), ("a", 4.0), ("b", -1.0), ("b", 8.0)],
    type_info=Types.TUPLE([Types.STRING(), Types.DOUBLE()]),
)
result = ds.key_by(lambda v: v[0], key_type=Types.STRING()).process(Aggregate(), Types.STRING())
with result.execute_and_collect() as it:
    for r in it:
        print(r)
