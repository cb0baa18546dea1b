"""A job for tests: counts numbers by a skewed key, and gives each count to files. Configuration comes from the file.

python cluster_job.py NAME NUMBERS OUTPUT
"""

import sys

from counting_job import Crawl

from api.common import Encoder, Types, WatermarkStrategy
from api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from api.datastream.connectors import BucketAssigner, FileSink
from api.datastream.connectors.number_seq import NumberSequenceSource
from api.datastream.state import ValueStateDescriptor

KEYS = 40


def key_of(number):
    """Three numbers of four have the key 0."""
    return number // 4 % KEYS if number % 4 == 0 else 0


class Count(KeyedProcessFunction):
    """Counts the elements of a key and gives "key count"."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()} {count}"


def built(numbers, output):
    """The environment with the job in it."""
    env = StreamExecutionEnvironment.get_execution_environment()
    source = NumberSequenceSource(0, int(numbers) - 1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    counts = (
        stream.map(Crawl(), Types.LONG())
        .key_by(key_of, Types.LONG())
        .process(Count(), Types.STRING())
        .uid("by key")
    )
    counts.sink_to(
        FileSink.for_row_format(output, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    ).uid("text")
    return env


def main(name, numbers, output):
    built(numbers, output).execute(name)


if __name__ == "__main__":
    main(*sys.argv[1:4])
    print("THE JOB ENDED")
