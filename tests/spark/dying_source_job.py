"""Jobs for tests: a source's process dies while it reads ahead. Configuration comes from the file.

python dying_source_job.py NUMBER MARK

In the first it dies once, when it makes the file MARK; another source, which takes its time, reads on, and the job is in a
pool.
In the second it dies for good, at twice the number.
"""

import os
import signal
import sys
import time

from pyspark import SparkContext

from api.common import RestartStrategies, Types, WatermarkStrategy
from api.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from api.datastream.connectors.number_seq import NumberSequenceSource
from api.datastream.state import ValueStateDescriptor


class Dies(MapFunction):
    """Lets numbers through, up to one at which its process is killed."""

    def __init__(self, number, mark):
        self.number, self.mark = number, mark

    def map(self, value):
        if self.mark is not None:
            time.sleep(0.001)
        if value == self.number and not (self.mark and os.path.exists(self.mark)):
            if self.mark is not None:
                open(self.mark, "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return value


class Slowly(MapFunction):
    """Takes its time for each number."""

    def map(self, value):
        time.sleep(0.001)
        return value


class Count(KeyedProcessFunction):
    """Counts the elements of a key, and takes its time.

    Args:
        seconds: that it takes for each.
    """

    def __init__(self, seconds):
        self.seconds = seconds

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        time.sleep(self.seconds)
        return ()


def run(name, number, mark=None):
    env = StreamExecutionEnvironment.get_execution_environment()
    if mark is None:
        env.set_restart_strategy(RestartStrategies.no_restart())

    def numbers(name):
        source = NumberSequenceSource(0, 3 * number - 1)
        return env.from_source(source, WatermarkStrategy.no_watermarks(), name, Types.LONG()).uid(name)

    stream = numbers("dies").map(Dies(number, mark), Types.LONG())
    if mark is not None:
        stream = stream.union(numbers("slow").map(Slowly(), Types.LONG()))
    counted = stream.key_by(lambda each: each % 3, Types.LONG())
    counted.process(Count(0 if mark else 0.001)).uid("count").print()
    env.execute(name)


def main(number, mark):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([0]).print()
    env.execute("starts Spark")
    SparkContext.getOrCreate().setLocalProperty("spark.scheduler.pool", "mine")
    run("dying-once", number, mark)
    print("THE JOB ENDED")
    run("dying-for-good", 2 * number)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
