"""A job for tests: counts numbers by key, and writes each count to a database exactly once.

python jdbc_job.py URL USER NUMBERS, with the password in TEST_PASSWORD. Configuration comes from the file.
"""

import os
import sys

from counting_job import Count, Crawl

from api.common import Types, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import JdbcConnectionOptions, JdbcSink, NumberSequenceSource

KEYS = 10


class Keyed(Count):
    """Gives each count with its key."""

    def process_element(self, value, ctx):
        for count in super().process_element(value, ctx):
            yield ctx.get_current_key(), count


def main(url, user, numbers):
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(
        NumberSequenceSource(0, numbers - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    row = Types.ROW([Types.LONG(), Types.LONG()])
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_user_name(user)
    options = builder.with_password(os.environ["TEST_PASSWORD"]).build()
    counts = stream.map(Crawl(), Types.LONG()).key_by(lambda number: number % KEYS, Types.LONG())
    counts.process(Keyed(), Types.TUPLE([Types.LONG(), Types.LONG()])).uid("by key").add_sink(
        JdbcSink.exactly_once_sink("INSERT INTO counts VALUES (?, ?)", row, options)
    ).uid("sink")
    env.execute("jdbc")


if __name__ == "__main__":
    main(*sys.argv[1:3], int(sys.argv[3]))
    print("THE JOB ENDED")
