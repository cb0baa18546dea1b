"""A job for tests: counts the records of a topic by key, and writes each count to a topic exactly once.

python kafka_job.py BOOTSTRAP_SERVERS FROM TO. Configuration comes from the file.
"""

import sys

from counting_job import Count, Crawl

from api.common import Types, WatermarkStrategy
from api.common.serialization import SimpleStringSchema
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import DeliveryGuarantee
from api.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

KEYS = 10


class Keyed(Count):
    """Gives each count with its key."""

    def process_element(self, value, ctx):
        for count in super().process_element(value, ctx):
            yield f"{ctx.get_current_key()}:{count}"


def main(servers, read, written):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(read)
    source.set_value_only_deserializer(SimpleStringSchema()).set_group_id(f"group of {read}")
    source.set_bounded(KafkaOffsetsInitializer.latest())
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "kafka", Types.STRING())
    counts = stream.uid("source").map(Crawl(), Types.STRING())
    counts = counts.key_by(lambda text: int(text) % KEYS, Types.LONG()).process(Keyed(), Types.STRING())
    record = KafkaRecordSerializationSchema.builder().set_topic(written)
    sink = KafkaSink.builder().set_bootstrap_servers(servers)
    sink.set_record_serializer(record.set_value_serialization_schema(SimpleStringSchema()).build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("spark")
    counts.uid("by key").sink_to(sink.build()).uid("sink")
    env.execute(f"kafka {written}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
    print("THE JOB ENDED")
