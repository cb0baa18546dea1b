"""Sources and sinks of Kafka. They need ``pip install 'changelog-engine[kafka]'``."""

from changelog_engine.connectors.kafka import KafkaRecord

from ._kafka_consumer import FlinkKafkaConsumer
from ._kafka_offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from ._kafka_producer import FlinkKafkaProducer, Semantic
from ._kafka_sink import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
)
from ._kafka_source import (
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    SimpleStringValueKafkaRecordDeserializationSchema,
)

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
