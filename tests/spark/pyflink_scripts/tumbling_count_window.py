"""Sums of every two numbers of a key."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import WindowFunction
from pyflink.datastream.window import CountWindow


class SumOfWindow(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key, window, inputs):
        return [(key, sum(value[1] for value in inputs))]


def tumbling_count_window():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection(
        [(1, 1), (1, 2), (2, 5), (1, 4), (1, 8), (2, 7), (1, 99)],
        type_info=Types.TUPLE([Types.INT(), Types.INT()]),
    )
    keyed = numbers.key_by(lambda value: value[0])
    keyed.count_window(2).apply(SumOfWindow(), Types.TUPLE([Types.INT(), Types.INT()])).print()
    env.execute()


if __name__ == "__main__":
    tumbling_count_window()
