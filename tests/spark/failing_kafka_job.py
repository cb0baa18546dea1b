"""A job for tests: numbers into a topic, exactly once, until one of them is refused.

python failing_kafka_job.py BOOTSTRAP_SERVERS TOPIC CLOSED. The folder CLOSED gets a file from each function that is closed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from api.common import Types, WatermarkStrategy
from api.common.serialization import SimpleStringSchema
from api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from api.datastream.connectors import DeliveryGuarantee, NumberSequenceSource
from api.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink

REFUSED = 1_500  # behind the first epoch


class Text(KeyedProcessFunction):
    """Numbers as text."""

    def __init__(self, closed: str) -> None:
        self.closed = closed

    def process_element(self, value, ctx):
        time.sleep(0.001)  # some epochs, and no checkpoint
        if value == REFUSED:
            raise ValueError(f"{value} is refused")
        yield str(value)

    def close(self):
        (Path(self.closed) / str(os.getpid())).touch()


def main() -> None:
    servers, topic, closed = sys.argv[1:]
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_source(
        NumberSequenceSource(1, 2 * REFUSED), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    texts = numbers.key_by(lambda number: number % 2, Types.LONG()).process(Text(closed), Types.STRING())
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    texts.sink_to(
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(topic)
        .build()
    )
    env.execute("failing")


if __name__ == "__main__":
    main()
