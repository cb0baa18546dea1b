"""KafkaSource and its builder."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Annotated, Any, Self

from changelog_engine.connectors import kafka as engine
from changelog_engine.connectors import packages
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.tags import OutputTag
from changelog_engine.types import TypeInformation

from ..._arguments import Properties, checked, checked_later, required, text
from ..._needs import needs
from ...common.serialization import DeserializationSchema, SimpleStringSchema
from ._kafka_offsets import Initializer, KafkaOffsetsInitializer, KafkaTopicPartition
from .base import Source

_DISCOVERY_INTERVAL_MS = 300_000
LONGEST_INTERVAL_MS = 2**63 - 1


class KafkaRecordDeserializationSchema(ABC):
    """Turns a whole record, with its key, headers and place, into a value. Beyond PyFlink you can write one in Python."""

    @abstractmethod
    def deserialize_record(self, record: engine.KafkaRecord) -> Any:
        """The value of a record.

        Args:
            record: topic, partition, offset, timestamp (ms), key, value, headers.

        Returns:
            The value; None for a record that is to be left out.
        """

    def get_produced_type(self) -> TypeInformation | None:
        """Type of the values; None, the default, for undeclared."""
        return None


class SimpleStringValueKafkaRecordDeserializationSchema(KafkaRecordDeserializationSchema):
    """The record's value as text.

    Args:
        charset: any encoding that Python knows; default UTF-8.

    Raises:
        ConfigurationError: an unknown charset.
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._schema = SimpleStringSchema(charset)

    def deserialize_record(self, record: engine.KafkaRecord) -> Any:
        """The value as text."""
        if record.value is None:
            raise ValueError(
                "the record has no value: read the topic with a schema that knows records without one"
            )
        return self._schema.deserialize(record.value)

    def get_produced_type(self) -> TypeInformation | None:
        """``Types.STRING()``."""
        return self._schema.get_produced_type()


@needs(packages.KAFKA)
class KafkaSource(Source):
    """A source of records of Kafka's topics; made by its `builder`.

    The job's checkpoints hold how far it has read, so a restore reads exactly the same records again. Elements have their
    records' timestamps; a watermark strategy right after the source watches each partition for itself.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> source = (
        ...     KafkaSource.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_topics("orders")
        ...     .set_group_id("billing")
        ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        ...     .set_value_only_deserializer(SimpleStringSchema())
        ...     .build()
        ... )
    """

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """A builder of such sources."""
        return KafkaSourceBuilder()


@checked
@needs(packages.KAFKA)
class KafkaSourceBuilder:
    """Builds a `KafkaSource`. Each method but `build` returns this object.

    Needed are bootstrap servers, what to read, and a deserializer.
    """

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}
        self._topics: engine.Topics | None = None
        self._start = KafkaOffsetsInitializer.earliest()
        self._stop: KafkaOffsetsInitializer | None = None
        self._bounded = False
        self._schema: Any = None
        self._bad_tag: str | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Where the cluster is.

        Args:
            bootstrap_servers: ``host:port``, several with commas between them.
        """
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> Self:
        """The consumer group that offsets are committed to, for monitoring, when a checkpoint is durable.

        Args:
            group_id: its name. Without one nothing is committed.
        """
        return self.set_property("group.id", group_id)

    def set_client_id_prefix(self, prefix: str) -> Self:
        """How the brokers' logs call this source's clients."""
        return self.set_property("client.id", prefix)

    def set_topics(self, *topics: str) -> Self:
        """Read all partitions of these topics.

        Args:
            *topics: names; they must exist when the job starts.

        Raises:
            ConfigurationError: none, or something else was chosen before.
        """
        what = "KafkaSourceBuilder.set_topics"
        if not topics:
            raise ConfigurationError(f"{what}: give at least one topic")
        names = tuple(dict.fromkeys(text(topic, f"{what}: topic") for topic in topics))
        return self._read(what, engine.Topics(names=names))

    def set_topic_pattern(self, topic_pattern: str) -> Self:
        """Read all topics, except Kafka's own, whose whole name matches.

        Args:
            topic_pattern: a regular expression, of Python's kind.

        Raises:
            ConfigurationError: no regular expression, or something else was chosen before.
        """
        what = "KafkaSourceBuilder.set_topic_pattern"
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise ConfigurationError(
                f"{what}: topic_pattern {topic_pattern!r} is not a regular expression: {error}"
            ) from None
        return self._read(what, engine.Topics(pattern=topic_pattern))

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> Self:
        """Read these partitions.

        Args:
            partitions: which; they must exist when the job starts.

        Raises:
            ConfigurationError: none, or something else was chosen before.
        """
        what = "KafkaSourceBuilder.set_partitions"
        chosen = list(partitions)
        if not chosen or not all(isinstance(each, KafkaTopicPartition) for each in chosen):
            raise ArgumentTypeError(f"{what}: partitions must be KafkaTopicPartitions, got {chosen!r}")
        return self._read(what, engine.Topics(partitions=tuple({each._which for each in chosen})))

    def set_starting_offsets(self, starting_offsets_initializer: Initializer) -> Self:
        """Where reading starts when the job starts from nothing; default: earliest."""
        self._start = starting_offsets_initializer
        return self

    def set_unbounded(self, stopping_offsets_initializer: Initializer) -> Self:
        """Stop at these offsets, and count as unbounded nevertheless.

        Args:
            stopping_offsets_initializer: where.
        """
        self._stop, self._bounded = stopping_offsets_initializer, False
        return self

    def set_bounded(self, stopping_offsets_initializer: Initializer) -> Self:
        """Stop at these offsets, which are looked up when the job starts. The source can be used in BATCH mode.

        Args:
            stopping_offsets_initializer: where.
        """
        self._stop, self._bounded = stopping_offsets_initializer, True
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> Self:
        """What turns the values of records into elements."""
        self._schema = deserialization_schema
        return self

    def set_deserializer(self, kafka_record_deserialization_schema: KafkaRecordDeserializationSchema) -> Self:
        """What turns whole records into elements."""
        self._schema = kafka_record_deserialization_schema
        return self

    def set_bad_records_tag(self, tag: OutputTag) -> Self:
        """Where records go that the schema fails at; without it the job fails. Not in PyFlink.

        Args:
            tag: a side output, without a type. Its elements are rows of topic, partition, offset, timestamp, key, value
                and error.
        """
        self._bad_tag = tag.tag_id
        return self

    def set_property(self, key: str, value: Annotated[str, checked_later]) -> Self:
        """A property of the consumer, or of the source.

        Args:
            key: Java's name or librdkafka's; of the source: ``partition.discovery.interval.ms`` (default 5 minutes, 0 or
                less for never) and ``commit.offsets.on.checkpoint`` (default true).
        """
        self._properties[key] = value
        return self

    def set_properties(self, props: Properties) -> Self:
        """Several properties.

        Args:
            props: see `set_property`.
        """
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """The source.

        Raises:
            ConfigurationError: something is missing, or a property cannot be used.
        """
        what = "KafkaSourceBuilder.build"
        topics = required(self._topics, what, "call set_topics(), set_topic_pattern() or set_partitions()")
        schema = required(self._schema, what, "call set_value_only_deserializer() or set_deserializer()")
        required(self._properties.get("bootstrap.servers"), what, "call set_bootstrap_servers()")
        properties = engine.ClientProperties(self._properties, "KafkaSource")
        interval_ms = properties.number(
            "partition.discovery.interval.ms",
            _DISCOVERY_INTERVAL_MS,
            -LONGEST_INTERVAL_MS,
            LONGEST_INTERVAL_MS,
        )
        return KafkaSource(
            source_of(
                topics,
                schema,
                properties,
                self._start._offsets,
                None if self._stop is None else self._stop._offsets,
                bounded=self._bounded,
                commits=properties.flag("commit.offsets.on.checkpoint", True),
                bad_tag=self._bad_tag,
                interval_ms=None if self._stop is not None or topics.partitions else interval_ms,
            )
        )

    def _read(self, what: str, topics: engine.Topics) -> Self:
        if self._topics is not None:
            raise ConfigurationError(f"{what}: the topics were chosen before; choose them once")
        self._topics = topics
        return self


def source_of(*arguments: Any, interval_ms: int | None, **more: Any) -> engine.KafkaSource:
    """The engine's source; one that looks for new partitions where there is an interval."""
    if interval_ms is None or interval_ms <= 0:
        return engine.KafkaSource(*arguments, **more)
    return engine.DiscoveringKafkaSource(*arguments, discovery_interval_ms=interval_ms, **more)
