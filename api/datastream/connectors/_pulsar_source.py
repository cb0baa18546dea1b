"""PulsarSource and its builder."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Self

from changelog_engine.connectors import packages
from changelog_engine.connectors import pulsar as engine
from changelog_engine.connectors.pulsar import CursorKind, PulsarMessage, StartPosition, Stop
from changelog_engine.errors import ConfigurationError
from changelog_engine.types import TypeInformation

from ..._arguments import SuchAs, checked, required, several
from ..._needs import needs
from ..._unsupported import NamesOfPyFlink
from ...common.serialization import DeserializationSchema
from ._pulsar_cursors import StartCursor, StopCursor
from ._pulsar_options import LONGEST_MS, _PulsarBuilder, put_option
from .base import Source

_DISCOVERY_INTERVAL_MS = 5 * 60_000
_Stop = Annotated[StopCursor, SuchAs("StopCursor.latest()")]

_BY_KEYS = (
    "needs a Key_Shared subscription, in which the broker decides who reads what: read all, and leave messages out by "
    "a PulsarDeserializationSchema that returns None for their keys, or by filter()"
)


class SubscriptionType(Enum):
    """How consumers share a subscription. Here one reads each partition: `Exclusive` and `Failover` mean the same."""

    Exclusive = 0
    Shared = 1
    Failover = 2
    Key_Shared = 3


class RangeGenerator(NamesOfPyFlink):
    """Which keys are read: all."""

    _not_here: Mapping[str, str] = {"fixed_key": _BY_KEYS}

    @staticmethod
    def full() -> RangeGenerator:
        """All keys."""
        return RangeGenerator()


@checked
class PulsarDeserializationSchema(ABC):
    """Turns a whole message, with its key, times and properties, into a value. Beyond PyFlink you can write one."""

    @abstractmethod
    def deserialize_message(self, message: PulsarMessage) -> Any:
        """The value of a message.

        Args:
            message: topic, message_id (serialized), key, value, event_time, publish_time, properties, producer.

        Returns:
            The value; None for a message that is to be left out.
        """

    def get_produced_type(self) -> TypeInformation | None:
        """Type of the values; None, the default, for undeclared."""
        return None

    @staticmethod
    def flink_schema(deserialization_schema: DeserializationSchema) -> PulsarDeserializationSchema:
        """One that turns the values of messages into elements.

        Args:
            deserialization_schema: gets the bytes.
        """
        return _ValuesOnly(deserialization_schema)


class _ValuesOnly(PulsarDeserializationSchema):
    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    def deserialize_message(self, message: PulsarMessage) -> Any:
        value: Any = message.value  # None too, as the source gives it to a DeserializationSchema
        return self._schema.deserialize(value)

    def get_produced_type(self) -> TypeInformation | None:
        return self._schema.get_produced_type()


@needs(packages.PULSAR)
class PulsarSource(Source):
    """Reads topics; made by its `builder`.

    The job's checkpoints hold the message ids up to which it has read, so a restore reads exactly the same messages again.
    Elements have the event times of their messages, where producers have given some.
    """

    @staticmethod
    def builder() -> PulsarSourceBuilder:
        """A builder of such sources."""
        return PulsarSourceBuilder()


@checked
@needs(packages.PULSAR)
class PulsarSourceBuilder(_PulsarBuilder):
    """Builds a `PulsarSource`. Each method but `build` returns this object.

    Needed are the service URL, a subscription name, topics or a pattern, and a schema.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> source = (
        ...     PulsarSource.builder()
        ...     .set_service_url("pulsar://localhost:6650")
        ...     .set_subscription_name("billing")
        ...     .set_topics(["orders", "returns"])
        ...     .set_start_cursor(StartCursor.earliest())
        ...     .set_deserialization_schema(SimpleStringSchema())
        ...     .build()
        ... )
    """

    def __init__(self) -> None:
        super().__init__()
        self._topics: engine.Topics | None = None
        self._schema: Any = None
        self._start = StartPosition()
        self._stop = Stop()
        self._bounded = False

    def set_admin_url(self, admin_url: str) -> Self:
        """Where the brokers' HTTP service is; needed for topic patterns only.

        Args:
            admin_url: such as ``http://localhost:8080``.
        """
        return self._set("pulsar.admin.adminUrl", admin_url)

    def set_subscription_name(self, subscription_name: str) -> Self:
        """The durable subscription that keeps what the job may still need. No other program may use it."""
        return self._set("pulsar.consumer.subscriptionName", subscription_name)

    def set_subscription_type(self, subscription_type: SubscriptionType) -> Self:
        """How the subscription is used, of PyFlink before 1.18.

        Args:
            subscription_type: ``Exclusive`` or ``Failover``.

        Raises:
            NotSupportedError: one of the others.
        """
        what = "PulsarSourceBuilder.set_subscription_type: subscription_type"
        put_option(self._options, "pulsar.consumer.subscriptionType", subscription_type.name, what)
        return self

    def set_topics(self, topics: str | list[str]) -> Self:
        """All partitions of these topics, or single partitions.

        Args:
            topics: a topic, or several.
        """
        what = "PulsarSourceBuilder.set_topics"
        return self._read(what, engine.Topics(names=several(topics, f"{what}: topics", "a topic")))

    def set_topic_pattern(self, topic_pattern: str) -> Self:
        """All topics of a namespace whose whole name matches a pattern of Python's. New ones are found as they come.

        Args:
            topic_pattern: ``tenant/namespace/pattern``; a pattern alone is of public/default.
        """
        return self._read("PulsarSourceBuilder.set_topic_pattern", engine.Topics(pattern=topic_pattern))

    def set_consumer_name(self, consumer_name: str) -> Self:
        """What brokers show."""
        return self._set("pulsar.consumer.consumerName", consumer_name)

    def set_range_generator(self, range_generator: RangeGenerator) -> Self:
        """Which keys are read.

        Args:
            range_generator: ``RangeGenerator.full()``.
        """
        return self

    def set_start_cursor(self, start_cursor: Annotated[StartCursor, SuchAs("StartCursor.latest()")]) -> Self:
        """Where reading begins when the job starts from nothing; default: the oldest message."""
        self._start = start_cursor._start
        return self

    def set_unbounded_stop_cursor(self, stop_cursor: _Stop) -> Self:
        """Stop there, and count as unbounded nevertheless."""
        self._stop, self._bounded = stop_cursor._stop, False
        return self

    def set_bounded_stop_cursor(self, stop_cursor: _Stop) -> Self:
        """Stop there. The source can be used in BATCH mode."""
        self._stop, self._bounded = stop_cursor._stop, True
        return self

    def set_deserialization_schema(
        self, deserialization_schema: DeserializationSchema | PulsarDeserializationSchema
    ) -> Self:
        """What turns messages into elements.

        Args:
            deserialization_schema: of values; or one of whole messages.
        """
        self._schema = deserialization_schema
        return self

    def set_config_with_dict(self, config: Mapping[str, Any]) -> Self:
        """As `set_properties`, which PyFlink prefers."""
        warnings.warn(
            "set_config_with_dict is deprecated. Use set_properties instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.set_properties(config)

    def build(self) -> PulsarSource:
        """The source.

        Raises:
            ConfigurationError: something is missing, an option cannot be used, or pulsar-client is not installed.
            NotSupportedError: an option that only Java's client can use.
        """
        what = "PulsarSourceBuilder.build"
        topics = required(self._topics, what, "call set_topics() or set_topic_pattern()")
        schema = required(self._schema, what, "call set_deserialization_schema()")
        properties = engine.ClientProperties(self._options, "PulsarSource", "source", self._authentication)
        given = properties.number(
            "pulsar.source.partitionDiscoveryIntervalMs", _DISCOVERY_INTERVAL_MS, -LONGEST_MS, LONGEST_MS
        )
        arguments = (topics, schema, properties, self._start, self._stop, self._bounded)
        if self._bounded or self._stop.at is not CursorKind.NEVER or given <= 0:
            return PulsarSource(engine.PulsarSource(*arguments))
        return PulsarSource(engine.DiscoveringPulsarSource(*arguments, discovery_interval_ms=given))

    def _read(self, what: str, topics: engine.Topics) -> Self:
        if self._topics is not None:
            raise ConfigurationError(f"{what}: the topics were chosen before; choose them once")
        self._topics = topics
        return self
