# topic: print() in functions
# checks: what functions print goes to standard output, in the order of each function's calls, and with it what the program
# prints before and after
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, MapFunction
from pyflink.datastream.state import ValueStateDescriptor


class Told(MapFunction):
    def open(self, runtime_context):
        print("map opened")

    def close(self):
        print("map closed")

    def map(self, value):
        print("map", value)
        return value


class Counted(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        print("key", ctx.get_current_key(), "count", self.count.value(), sep="-", end="!\n")
        yield value


print("before")
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3], Types.INT()).map(Told(), Types.INT())
numbers.key_by(lambda v: v % 2, Types.INT()).process(Counted(), Types.INT()).print("out")
env.execute()
print("after")
