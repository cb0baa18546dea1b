"""A running sum by key, in value state that takes anything."""

from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor


class Sum(KeyedProcessFunction):
    def __init__(self):
        self.state = None

    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_state(ValueStateDescriptor("sum", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        current = (self.state.value() or 0) + value[1]
        self.state.update(current)
        yield value[0], current


def state_access():
    env = StreamExecutionEnvironment.get_execution_environment()
    amounts = env.from_collection(collection=[("ada", 1.5), ("emmy", 2.0), ("ada", 2.5), ("emmy", 0.25)])
    amounts.key_by(lambda value: value[0]).process(Sum()).print()
    env.execute()


if __name__ == "__main__":
    state_access()
