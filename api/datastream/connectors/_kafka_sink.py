"""KafkaSink, its builder, and what turns elements into records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, Self

from changelog_engine.connectors import kafka as engine
from changelog_engine.connectors import packages
from changelog_engine.errors import ArgumentTypeError

from ..._arguments import MadeBy, checked, checked_later, required
from ..._needs import needs
from ...common.serialization import SerializationSchema
from ._kafka_keys import key_schema
from .base import DeliveryGuarantee, Sink

_PREFIX = "kafka-sink"


class KafkaTopicSelector(ABC):
    """Chooses the topic of each element."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic of an element."""


@checked
class KafkaRecordSerializationSchema:
    """Turns elements into records; made by its `builder`."""

    def __init__(
        self, schema: Annotated[engine.RecordSchema, MadeBy("KafkaRecordSerializationSchema.builder()")]
    ) -> None:
        self._schema = schema

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """A builder of such schemas."""
        return KafkaRecordSerializationSchemaBuilder()


@checked
class KafkaRecordSerializationSchemaBuilder:
    """Builds a `KafkaRecordSerializationSchema`. Each method but `build` returns this object.

    Needed are a topic or a selector, and a value schema.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> schema = (
        ...     KafkaRecordSerializationSchema.builder()
        ...     .set_topic_selector(lambda text: f"texts-{text[0]}")
        ...     .set_value_serialization_schema(SimpleStringSchema())
        ...     .build()
        ... )
    """

    def __init__(self) -> None:
        self._topic: str | None = None
        self._select: Callable[[Any], str] | None = None
        self._key_schema: SerializationSchema | None = None
        self._value_schema: SerializationSchema | None = None

    def set_topic(self, topic: str) -> Self:
        """All records go to one topic.

        Args:
            topic: its name.
        """
        self._topic, self._select = topic, None
        return self

    def set_topic_selector(self, topic_selector: Callable[[Any], str] | KafkaTopicSelector) -> Self:
        """The topic hangs on the element.

        Args:
            topic_selector: a KafkaTopicSelector, or a function of the element that gives a topic.
        """
        select = topic_selector.apply if isinstance(topic_selector, KafkaTopicSelector) else topic_selector
        if not callable(select):
            raise ArgumentTypeError(
                "KafkaRecordSerializationSchemaBuilder.set_topic_selector: topic_selector must be a KafkaTopicSelector or "
                f"a function, got {topic_selector!r}"
            )
        self._topic, self._select = None, select
        return self

    def set_key_serialization_schema(self, key_serialization_schema: SerializationSchema) -> Self:
        """What turns an element into its record's key; without it records have none.

        A JSON or Avro schema of rows may declare some of the row's fields; they are found by their names.
        """
        self._key_schema = key_schema(key_serialization_schema)
        return self

    def set_value_serialization_schema(self, value_serialization_schema: SerializationSchema) -> Self:
        """What turns an element into its record's value."""
        self._value_schema = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema.

        Raises:
            ConfigurationError: something is missing.
        """
        what = "KafkaRecordSerializationSchemaBuilder.build"
        required(self._topic or self._select, what, "call set_topic() or set_topic_selector()")
        value_schema = required(self._value_schema, what, "call set_value_serialization_schema()")
        return KafkaRecordSerializationSchema(
            engine.RecordSchema(self._topic, self._select, value_schema, self._key_schema)
        )


@needs(packages.KAFKA)
class KafkaSink(Sink):
    """A sink of records for Kafka's topics; made by its `builder`.

    What each guarantee means here:
        * ``NONE`` (default): records may be lost or written again after a failure.
        * ``AT_LEAST_ONCE``: an epoch ends only when the brokers have its records; a failure writes some again.
        * ``EXACTLY_ONCE``: records are written in transactions, which checkpoints commit. Readers with
          ``isolation.level=read_committed`` see each record once. Without checkpoints all is committed when the input ends.

    Records get their elements' timestamps.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> schema = KafkaRecordSerializationSchema.builder().set_topic("counts")
        >>> schema = schema.set_value_serialization_schema(SimpleStringSchema()).build()
        >>> sink = (
        ...     KafkaSink.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_record_serializer(schema)
        ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        ...     .set_transactional_id_prefix("billing")
        ...     .build()
        ... )
    """

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """A builder of such sinks."""
        return KafkaSinkBuilder()


@checked
@needs(packages.KAFKA)
class KafkaSinkBuilder:
    """Builds a `KafkaSink`. Each method but `build` returns this object.

    Needed are bootstrap servers and a record serializer.
    """

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix = _PREFIX
        self._schema: KafkaRecordSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Where the cluster is.

        Args:
            bootstrap_servers: ``host:port``, several with commas between them.
        """
        self._properties["bootstrap.servers"] = bootstrap_servers
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """What holds after a failure; default NONE.

        Args:
            delivery_guarantee: see `KafkaSink`.
        """
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> Self:
        """With what the ids of transactions begin; default ``kafka-sink``.

        The job's name and the sink's uid follow it. Keep them the same from run to run, or what an older run left open is
        aborted only after its timeout, and readers wait for that.
        """
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> Self:
        """What turns elements into records."""
        self._schema = record_serializer
        return self

    def set_property(self, key: str, value: Annotated[str, checked_later]) -> Self:
        """A property of the producer.

        Args:
            key: Java's name or librdkafka's.
        """
        self._properties[key] = value
        return self

    def build(self) -> KafkaSink:
        """The sink.

        Raises:
            ConfigurationError: something is missing, or a property cannot be used.
            NotSupportedError: a property that only Java's clients can use.
        """
        what = "KafkaSinkBuilder.build"
        required(self._properties.get("bootstrap.servers"), what, "call set_bootstrap_servers()")
        schema = required(self._schema, what, "call set_record_serializer()")._schema
        properties = engine.ClientProperties(self._properties, "KafkaSink")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return KafkaSink(engine.TransactionalKafkaSink(schema, properties, self._prefix))
        waits = self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        return KafkaSink(engine.KafkaSink(schema, properties, waits))
