"""A job for tests: counts the lines of files and then the records of a topic by key, and gives each count to every sink.

python sinks_job.py FOLDER OUT BOOTSTRAP_SERVERS FROM TO JDBC_URL USER, with the password in TEST_PASSWORD. Configuration
comes from the file.
"""

import os
import sys
import time

from counting_job import Count, Crawl

from api.common import Encoder, Types, WatermarkStrategy
from api.common.serialization import SimpleStringSchema
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import (
    BucketAssigner,
    DeliveryGuarantee,
    FileSink,
    FileSource,
    JdbcConnectionOptions,
    JdbcSink,
    RollingPolicy,
    StreamFormat,
)
from api.datastream.connectors.file_system import FileCompactor, FileCompactStrategy
from api.datastream.connectors.hybrid_source import HybridSource
from api.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from api.datastream.formats.parquet import ParquetBulkWriters

KEYS = 5
LINES = 3_000  # the numbers below are in the files, the others in the topic
ROW = Types.ROW_NAMED(["key", "count", "number"], [Types.LONG(), Types.LONG(), Types.LONG()])


class Paced(Crawl):
    """The test waits for nearly all lines of the files, and then has its time."""

    def map(self, value):
        if self.crawls:
            time.sleep(0.006 if int(value) < LINES else 0.05)
            self.crawls = not os.path.exists(self.hurry)
        return value


class Keyed(Count):
    """Gives each number with its key and count."""

    def process_element(self, value, ctx):
        for count in super().process_element(value, ctx):
            yield ctx.get_current_key(), count, int(value)


def line(row):
    return f"{row[0]}:{row[1]}:{row[2]}"


def main(folder, out, servers, read, written, url, user):
    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
    topic = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(read)
    topic.set_value_only_deserializer(SimpleStringSchema()).set_group_id(f"group of {read}")
    topic.set_bounded(KafkaOffsetsInitializer.latest())
    source = HybridSource.builder(files).add_source(topic.build()).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "hybrid").uid("source")
    keyed = stream.map(Paced(), Types.STRING()).key_by(lambda text: int(text) % KEYS, Types.LONG())
    rows = keyed.process(Keyed(), ROW).uid("by key")
    lines = rows.map(line, Types.STRING()).uid("lines")

    record = KafkaRecordSerializationSchema.builder().set_topic(written)
    kafka = KafkaSink.builder().set_bootstrap_servers(servers)
    kafka.set_record_serializer(record.set_value_serialization_schema(SimpleStringSchema()).build())
    kafka.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("sinks")
    lines.sink_to(kafka.build()).uid("kafka")
    lines.sink_to(
        FileSink.for_row_format(f"{out}/text", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=10_000))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    ).uid("text")
    rows.sink_to(
        FileSink.for_bulk_format(f"{out}/parquet", ParquetBulkWriters.for_row_type(ROW))
        .with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy"))
        .enable_compact(
            FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build(),
            FileCompactor.record_wise_file_compactor(),
        )
        .build()
    ).uid("parquet")
    rows.to_spark(f"{out}/delta", partition_by=["key"]).uid("delta")
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_user_name(user)
    options = builder.with_password(os.environ["TEST_PASSWORD"]).build()
    rows.add_sink(JdbcSink.exactly_once_sink("INSERT INTO counts VALUES (?, ?, ?)", ROW, options)).uid("jdbc")
    env.execute(f"sinks {written}")


if __name__ == "__main__":
    main(*sys.argv[1:8])
    print("THE JOB ENDED")
