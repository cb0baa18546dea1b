"""A job for tests: counts the lines of files and then the records of a topic by key, and writes each count exactly once.

python hybrid_job.py FOLDER BOOTSTRAP_SERVERS FROM TO. Configuration comes from the file.
"""

import sys

from counting_job import Count, Crawl

from api.common import Types, WatermarkStrategy
from api.common.serialization import SimpleStringSchema
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import DeliveryGuarantee, FileSource, StreamFormat
from api.datastream.connectors.hybrid_source import HybridSource
from api.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

KEYS = 10


class Faster(Crawl):
    """The test waits for nearly all lines of the files."""

    per_second = 200


class Keyed(Count):
    """Gives each number with its key and count."""

    def process_element(self, value, ctx):
        for count in super().process_element(value, ctx):
            yield f"{ctx.get_current_key()}:{count}:{value}"


def main(folder, servers, read, written):
    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
    topic = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(read)
    topic.set_value_only_deserializer(SimpleStringSchema()).set_bounded(KafkaOffsetsInitializer.latest())
    source = HybridSource.builder(files).add_source(topic.build()).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "hybrid")
    counts = stream.uid("source").map(Faster(), Types.STRING())
    counts = counts.key_by(lambda text: int(text) % KEYS, Types.LONG()).process(Keyed(), Types.STRING())
    record = KafkaRecordSerializationSchema.builder().set_topic(written)
    sink = KafkaSink.builder().set_bootstrap_servers(servers)
    sink.set_record_serializer(record.set_value_serialization_schema(SimpleStringSchema()).build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("hybrid")
    counts.uid("by key").sink_to(sink.build()).uid("sink")
    env.execute(f"hybrid {written}")


if __name__ == "__main__":
    main(*sys.argv[1:5])
    print("THE JOB ENDED")
