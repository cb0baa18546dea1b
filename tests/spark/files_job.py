"""A job for tests: numbers out of text files, counted by key; each count goes to text files and to compacted Parquet files.

python files_job.py INPUT TEXT PARQUET. Configuration comes from the file.
"""

import sys

from counting_job import Crawl
from jdbc_job import KEYS, Keyed

from api.common import Encoder, Types, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import BucketAssigner, FileSink, FileSource, RollingPolicy, StreamFormat
from api.datastream.connectors.file_system import FileCompactor, FileCompactStrategy
from api.datastream.formats.parquet import ParquetBulkWriters

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
ROW = Types.ROW_NAMED(["key", "count"], [Types.LONG(), Types.LONG()])


def main(numbers, text, parquet):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), numbers).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    counts = (
        stream.map(Crawl(), Types.STRING())
        .map(int, Types.LONG())
        .key_by(lambda number: number % KEYS, Types.LONG())
        .process(Keyed(), PAIR)
        .uid("by key")
    )
    counts.sink_to(
        FileSink.for_row_format(text, Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=20_000))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    ).uid("text")
    counts.sink_to(
        FileSink.for_bulk_format(parquet, ParquetBulkWriters.for_row_type(ROW))
        .with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy"))
        .enable_compact(
            FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build(),
            FileCompactor.record_wise_file_compactor(),
        )
        .build()
    ).uid("parquet")
    env.execute("files")


if __name__ == "__main__":
    main(*sys.argv[1:4])
    print("THE JOB ENDED")
