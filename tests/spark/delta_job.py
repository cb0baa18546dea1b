"""A job for tests: numbers into a Delta table. Configuration comes from the file.

python delta_job.py TABLE NUMBERS
"""

import sys

from counting_job import Crawl

from api.common import Types, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import NumberSequenceSource


def main(table, numbers):
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(
        NumberSequenceSource(0, numbers - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    row = Types.ROW_NAMED(["n", "digit"], [Types.LONG(), Types.INT()])
    paced = stream.map(Crawl(), Types.LONG())
    paced.map(lambda number: (number, number % 10), row).to_spark(table, partition_by=["digit"]).uid("table")
    env.execute("delta")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    print("THE JOB ENDED")
