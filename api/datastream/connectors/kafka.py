"""Sources and sinks of Kafka. They need ``pip install 'changelog-engine[kafka]'``.

Source: pyflink.datastream.connectors.kafka
"""

from api.datastream.connectors._kafka_consumer import FlinkKafkaConsumer
from api.datastream.connectors._kafka_offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from api.datastream.connectors._kafka_producer import FlinkKafkaProducer, Semantic
from api.datastream.connectors._kafka_sink import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
)
from api.datastream.connectors._kafka_source import (
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    SimpleStringValueKafkaRecordDeserializationSchema,
)
from changelog_engine.connectors.kafka import KafkaRecord

OffsetsInitializer = KafkaOffsetsInitializer

__all__ = [
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "OffsetsInitializer",
    "Semantic",
    "SimpleStringValueKafkaRecordDeserializationSchema",
]
