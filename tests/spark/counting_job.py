"""A job for tests: counts numbers by key, then the counts by parity. Configuration comes from the file.

python counting_job.py NAME NUMBERS KEYS

It crawls until told to hurry, so that whoever disturbs it has the time for it on any machine.
"""

import os
import sys
import time

from api.common import Types, WatermarkStrategy
from api.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from api.datastream.connectors.number_seq import NumberSequenceSource
from api.datastream.state import ValueStateDescriptor


class Crawl(MapFunction):
    """Lets through 50 elements a second in each subtask until there is a file named ``hurry`` in the driver's folder.

    So few that a job has a thousand or so for each test that takes its time, and is soon done when told to hurry.
    """

    per_second = 50

    def __init__(self):
        self.hurry = os.path.abspath("hurry")

    def open(self, runtime_context):
        self.began, self.seen, self.crawls = time.monotonic(), 0, True

    def map(self, value):
        if self.crawls:
            self.seen += 1
            ahead = self.seen / self.per_second - (time.monotonic() - self.began)
            if ahead > 0:
                time.sleep(ahead)
            self.crawls = not os.path.exists(self.hurry)
        return value


class Count(KeyedProcessFunction):
    """Counts the elements of a key and passes the count on."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield count


def main(name, numbers, keys):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = NumberSequenceSource(0, numbers - 1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    counts = (
        stream.map(Crawl(), Types.LONG())
        .key_by(lambda number: number % keys, Types.LONG())
        .process(Count(), Types.LONG())
        .uid("by key")
    )
    parities = (
        counts.key_by(lambda count: count % 2, Types.LONG()).process(Count(), Types.LONG()).uid("by parity")
    )
    parities.filter(lambda count: count % 1000 == 0).print()
    env.execute(name)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]))
    print("THE JOB ENDED")
