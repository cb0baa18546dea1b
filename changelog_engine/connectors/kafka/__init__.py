"""Kafka: topics as sources, read by offsets of the job's own, and as sinks, at least once or exactly once.

librdkafka (confluent-kafka) reads and writes. Nothing here imports it before a client is made: a program without Kafka does
not need it.
"""

from changelog_engine.connectors.kafka.exactly_once import TransactionalKafkaSink
from changelog_engine.connectors.kafka.offsets import Kind, Offsets, Reset, TopicPartition
from changelog_engine.connectors.kafka.producing import RecordSchema
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.kafka.reader import KafkaRecord
from changelog_engine.connectors.kafka.sink import KafkaSink
from changelog_engine.connectors.kafka.source import DiscoveringKafkaSource, KafkaSource, Topics

__all__ = [
    "ClientProperties",
    "DiscoveringKafkaSource",
    "KafkaRecord",
    "KafkaSink",
    "KafkaSource",
    "Kind",
    "Offsets",
    "RecordSchema",
    "Reset",
    "TopicPartition",
    "Topics",
    "TransactionalKafkaSink",
]
