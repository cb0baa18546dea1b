"""A job for tests: counts large elements by key. Configuration comes from the file.

python full_disk_job.py NAME NUMBERS KEYS
"""

import os
import sys

from counting_job import Count

from api.common import Types, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors.number_seq import NumberSequenceSource

BYTES = 2_000


def main(name, numbers, keys):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = NumberSequenceSource(0, numbers - 1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    pairs = stream.map(
        lambda number: (number % keys, os.urandom(BYTES)),
        Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()]),
    )
    counts = pairs.key_by(lambda pair: pair[0], Types.LONG()).process(Count(), Types.LONG()).uid("count")
    counts.filter(lambda count: False).print()
    env.execute(name)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]))
