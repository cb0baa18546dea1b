"""Counts numbers by key, slowly: slow_count.py NUMBERS SECONDS_EACH."""

import sys

from pacing import Slowly
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)


def main(numbers, seconds):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = NumberSequenceSource(0, numbers - 1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    rows = stream.map(Slowly(seconds), Types.ROW_NAMED(["number"], [Types.LONG()]))
    rows.key_by(lambda row: row.number % 5, Types.LONG()).process(Count()).uid("count").print()
    env.execute()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
    print("THE JOB ENDED")
