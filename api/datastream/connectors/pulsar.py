"""Sources and sinks of Apache Pulsar. They need ``pip install 'changelog-engine[pulsar]'``.

Source: pyflink.datastream.connectors.pulsar
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from changelog_engine.connectors import packages
from changelog_engine.connectors import pulsar as engine
from changelog_engine.connectors.pulsar import CursorKind, OutgoingMessage, PulsarMessage, StartPosition, Stop
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, NotSupportedError
from changelog_engine.types import TypeInformation

from ... import _arguments
from ..._kept_settings import kept
from ..._needs import needs
from ..._unsupported import NamesOfPyFlink, module_getattr
from ...common.config_options import ConfigOption
from ...common.serialization import DeserializationSchema, SerializationSchema
from ...common.time import Duration
from .base import DeliveryGuarantee, Sink, Source

__all__ = [
    "MessageDelayer",
    "OutgoingMessage",
    "PulsarDeserializationSchema",
    "PulsarMessage",
    "PulsarSerializationSchema",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "SubscriptionType",
    "TopicRoutingMode",
]

_DISCOVERY_INTERVAL_MS = 5 * 60_000
_MOST_MS = 2**63 - 1
_SERVICE_URL, _ADMIN_URL = "pulsar.client.serviceUrl", "pulsar.admin.adminUrl"
_BY_KEYS = (
    "needs a Key_Shared subscription, in which the broker decides who reads what: read all, and leave messages out by "
    "a PulsarDeserializationSchema that returns None for their keys, or by filter()"
)


class StartCursor:
    """Where reading begins when the job starts from nothing; made by its static methods.

    Each partition's place is looked up once, on the driver; a restore goes on where its checkpoint is.

    Source: pyflink.datastream.connectors.pulsar.StartCursor
    """

    def __init__(self, start: StartPosition) -> None:
        if not isinstance(start, StartPosition):
            raise ArgumentTypeError("StartCursor is made by its static methods, such as StartCursor.latest()")
        self._start = start

    @staticmethod
    def default_start_cursor() -> StartCursor:
        """The oldest message there is."""
        return StartCursor.earliest()

    @staticmethod
    def earliest() -> StartCursor:
        """The oldest message there is."""
        return StartCursor(StartPosition(CursorKind.EARLIEST))

    @staticmethod
    def latest() -> StartCursor:
        """The end, as it is when the job starts."""
        return StartCursor(StartPosition(CursorKind.LATEST))

    @staticmethod
    def from_message_id(message_id: bytes, inclusive: bool = True) -> StartCursor:
        """A message.

        Args:
            message_id: what ``MessageId.serialize()`` of Pulsar's client returns; it applies to every partition.
            inclusive: whether this message is read.
        """
        what = "StartCursor.from_message_id"
        given = _arguments.flag(inclusive, f"{what}: inclusive")
        return StartCursor(
            StartPosition(CursorKind.MESSAGE_ID, _message_id(message_id, what), inclusive=given)
        )

    @staticmethod
    def from_publish_time(timestamp: int) -> StartCursor:
        """The first message that was published then or later; the end where there is none.

        Args:
            timestamp: ms.
        """
        return StartCursor(
            StartPosition(CursorKind.PUBLISH_TIME, time_ms=_time(timestamp, "StartCursor.from_publish_time"))
        )


class StopCursor:
    """Where reading a partition ends; made by its static methods.

    Source: pyflink.datastream.connectors.pulsar.StopCursor
    """

    def __init__(self, stop: Stop) -> None:
        if not isinstance(stop, Stop):
            raise ArgumentTypeError("StopCursor is made by its static methods, such as StopCursor.latest()")
        self._stop = stop

    @staticmethod
    def default_stop_cursor() -> StopCursor:
        """Never."""
        return StopCursor.never()

    @staticmethod
    def never() -> StopCursor:
        """Nowhere: new messages are waited for."""
        return StopCursor(Stop(CursorKind.NEVER))

    @staticmethod
    def latest() -> StopCursor:
        """The end, as it is when the job starts."""
        return StopCursor(Stop(CursorKind.LATEST))

    @staticmethod
    def at_event_time(timestamp: int) -> StopCursor:
        """The first message whose event time is this or later; it is not read.

        Args:
            timestamp: ms.
        """
        return _stop(CursorKind.EVENT_TIME, timestamp, False, "StopCursor.at_event_time")

    @staticmethod
    def after_event_time(timestamp: int) -> StopCursor:
        """The first message whose event time is later; it is not read.

        Args:
            timestamp: ms.
        """
        return _stop(CursorKind.EVENT_TIME, timestamp, True, "StopCursor.after_event_time")

    @staticmethod
    def at_publish_time(timestamp: int) -> StopCursor:
        """The first message that was published then or later; it is not read.

        Args:
            timestamp: ms.
        """
        return _stop(CursorKind.PUBLISH_TIME, timestamp, False, "StopCursor.at_publish_time")

    @staticmethod
    def after_publish_time(timestamp: int) -> StopCursor:
        """The first message that was published later; it is not read.

        Args:
            timestamp: ms.
        """
        return _stop(CursorKind.PUBLISH_TIME, timestamp, True, "StopCursor.after_publish_time")

    @staticmethod
    def at_message_id(message_id: bytes) -> StopCursor:
        """This message; it is not read.

        Args:
            message_id: what ``MessageId.serialize()`` of Pulsar's client returns.
        """
        given = _message_id(message_id, "StopCursor.at_message_id")
        return StopCursor(Stop(CursorKind.MESSAGE_ID, given, inclusive=False))

    @staticmethod
    def after_message_id(message_id: bytes) -> StopCursor:
        """Behind this message, which is read.

        Args:
            message_id: what ``MessageId.serialize()`` of Pulsar's client returns.
        """
        return StopCursor(Stop(CursorKind.MESSAGE_ID, _message_id(message_id, "StopCursor.after_message_id")))


def _stop(at: CursorKind, timestamp: int, inclusive: bool, what: str) -> StopCursor:
    return StopCursor(Stop(at, time_ms=_time(timestamp, what), inclusive=inclusive))


def _time(timestamp: int, what: str) -> int:
    return _arguments.whole_number(timestamp, f"{what}: timestamp", 0, _MOST_MS)


def _message_id(message_id: bytes, what: str) -> bytes:
    if not isinstance(message_id, bytes):
        raise ArgumentTypeError(
            f"{what}: message_id must be bytes, as MessageId.serialize() returns them, got {message_id!r}"
        )
    return message_id


class SubscriptionType(Enum):
    """How consumers share a subscription. Here one reads each partition: `Exclusive` and `Failover` mean the same.

    Source: pyflink.datastream.connectors.pulsar.SubscriptionType
    """

    Exclusive = 0
    Shared = 1
    Failover = 2
    Key_Shared = 3


class RangeGenerator(NamesOfPyFlink):
    """Which keys are read: all.

    Source: pyflink.datastream.connectors.pulsar.RangeGenerator
    """

    _not_here: Mapping[str, str] = {"fixed_key": _BY_KEYS}

    @staticmethod
    def full() -> RangeGenerator:
        """All keys."""
        return RangeGenerator()


class PulsarDeserializationSchema(ABC):
    """Turns a whole message, with its key, times and properties, into a value. Beyond PyFlink you can write one in Python.

    Source: pyflink.datastream.connectors.pulsar.PulsarDeserializationSchema
    """

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
        return _ValuesOnly(_deserializer(deserialization_schema, "PulsarDeserializationSchema.flink_schema"))


class _ValuesOnly(PulsarDeserializationSchema):
    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    def deserialize_message(self, message: PulsarMessage) -> Any:
        value: Any = message.value  # None too, as the source gives it to a DeserializationSchema
        return self._schema.deserialize(value)

    def get_produced_type(self) -> TypeInformation | None:
        return self._schema.get_produced_type()


class PulsarSerializationSchema(ABC):
    """Turns an element into a whole message, with key and properties. Beyond PyFlink you can write one in Python.

    Example:
        >>> class ByUser(PulsarSerializationSchema):
        ...     def serialize_message(self, element):
        ...         return OutgoingMessage(element["text"].encode(), key=element["user"])

    Source: pyflink.datastream.connectors.pulsar.PulsarSerializationSchema
    """

    @abstractmethod
    def serialize_message(self, element: Any) -> OutgoingMessage:
        """The message of an element.

        Args:
            element: of the stream.
        """

    @staticmethod
    def flink_schema(serialization_schema: SerializationSchema) -> PulsarSerializationSchema:
        """One that turns elements into the values of messages without keys.

        Args:
            serialization_schema: gives the bytes.
        """
        return _WithoutKeys(_serializer(serialization_schema, "PulsarSerializationSchema.flink_schema"))


class _WithoutKeys(PulsarSerializationSchema):
    def __init__(self, schema: SerializationSchema) -> None:
        self._schema = schema

    def serialize_message(self, element: Any) -> OutgoingMessage:
        return OutgoingMessage(self._schema.serialize(element))


def _deserializer(schema: Any, what: str) -> Any:
    if not isinstance(schema, (DeserializationSchema, PulsarDeserializationSchema)):
        raise ArgumentTypeError(
            f"{what}: deserialization_schema must be a DeserializationSchema or a PulsarDeserializationSchema, got "
            f"{schema!r}"
        )
    return schema


def _serializer(schema: Any, what: str) -> Any:
    if not isinstance(schema, (SerializationSchema, PulsarSerializationSchema)):
        raise ArgumentTypeError(
            f"{what}: serialization_schema must be a SerializationSchema or a PulsarSerializationSchema, got {schema!r}"
        )
    return schema


def _authentication(plugin: str, params: Any, what: str) -> engine.Authentication:
    name = _arguments.text(plugin, f"{what}: auth_plugin_class_name")
    if isinstance(params, Mapping):
        return engine.Authentication(name, {str(key): str(value) for key, value in params.items()})
    if not isinstance(params, str):
        raise ArgumentTypeError(
            f"{what}: auth_params_string must be a str or a dict, got a {type(params).__name__}"
        )
    return engine.Authentication(name, params)


def _topics(topics: str | list[str], what: str) -> tuple[str, ...]:
    names = [topics] if isinstance(topics, str) else topics
    if not isinstance(names, (list, tuple)) or not names:
        raise ArgumentTypeError(f"{what}: topics must be a topic or several, got {topics!r}")
    return tuple(dict.fromkeys(_arguments.text(name, f"{what}: topics") for name in names))


def _put(options: dict[str, Any], key: Any, value: Any, what: str) -> None:
    """Note an option; each once, or with the same value, as in Flink."""
    name = key.key if isinstance(key, ConfigOption) else _arguments.text(key, f"{what}: key")
    if options.setdefault(name, value) != value:
        raise ConfigurationError(f"{what}: option {name!r} was set before, to another value; set it once")


@needs(packages.PULSAR)
class PulsarSource(Source):
    """Reads topics; made by its `builder`.

    The job's checkpoints hold the message ids up to which it has read, so a restore reads exactly the same messages again.
    Elements have the event times of their messages, where producers have given some.

    Source: pyflink.datastream.connectors.pulsar.PulsarSource
    """

    @staticmethod
    def builder() -> PulsarSourceBuilder:
        """A builder of such sources."""
        return PulsarSourceBuilder()


@needs(packages.PULSAR)
class PulsarSourceBuilder:
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

    Source: pyflink.datastream.connectors.pulsar.PulsarSourceBuilder
    """

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}
        self._authentication: engine.Authentication | None = None
        self._topics: engine.Topics | None = None
        self._schema: Any = None
        self._start = StartPosition()
        self._stop = Stop()
        self._bounded = False

    def set_admin_url(self, admin_url: str) -> PulsarSourceBuilder:
        """Where the brokers' HTTP service is; needed for topic patterns only.

        Args:
            admin_url: such as ``http://localhost:8080``.
        """
        self._options[_ADMIN_URL] = _arguments.text(admin_url, "PulsarSourceBuilder.set_admin_url: admin_url")
        return self

    def set_service_url(self, service_url: str) -> PulsarSourceBuilder:
        """Where the brokers are.

        Args:
            service_url: such as ``pulsar://localhost:6650``, or ``pulsar+ssl://...`` with TLS.
        """
        what = "PulsarSourceBuilder.set_service_url: service_url"
        self._options[_SERVICE_URL] = _arguments.text(service_url, what)
        return self

    def set_subscription_name(self, subscription_name: str) -> PulsarSourceBuilder:
        """The durable subscription that keeps what the job may still need. No other program may use it."""
        what = "PulsarSourceBuilder.set_subscription_name: subscription_name"
        self._options["pulsar.consumer.subscriptionName"] = _arguments.text(subscription_name, what)
        return self

    def set_subscription_type(self, subscription_type: SubscriptionType) -> PulsarSourceBuilder:
        """How the subscription is used, of PyFlink before 1.18.

        Args:
            subscription_type: ``Exclusive`` or ``Failover``.

        Raises:
            NotSupportedError: one of the others.
        """
        what = "PulsarSourceBuilder.set_subscription_type: subscription_type"
        if not isinstance(subscription_type, SubscriptionType):
            raise ArgumentTypeError(f"{what} must be a SubscriptionType, got {subscription_type!r}")
        _put(self._options, "pulsar.consumer.subscriptionType", subscription_type.name, what)
        return self

    def set_topics(self, topics: str | list[str]) -> PulsarSourceBuilder:
        """All partitions of these topics, or single partitions.

        Args:
            topics: a topic, or several.
        """
        what = "PulsarSourceBuilder.set_topics"
        return self._read(what, engine.Topics(names=_topics(topics, what)))

    def set_topic_pattern(self, topic_pattern: str) -> PulsarSourceBuilder:
        """All topics of a namespace whose whole name matches a pattern of Python's. New ones are found as they come.

        Args:
            topic_pattern: ``tenant/namespace/pattern``; a pattern alone is of public/default.
        """
        what = "PulsarSourceBuilder.set_topic_pattern"
        pattern = _arguments.text(topic_pattern, f"{what}: topic_pattern")
        return self._read(what, engine.Topics(pattern=pattern))

    def set_consumer_name(self, consumer_name: str) -> PulsarSourceBuilder:
        """What brokers show."""
        what = "PulsarSourceBuilder.set_consumer_name: consumer_name"
        self._options["pulsar.consumer.consumerName"] = _arguments.text(consumer_name, what)
        return self

    def set_range_generator(self, range_generator: RangeGenerator) -> PulsarSourceBuilder:
        """Which keys are read.

        Args:
            range_generator: ``RangeGenerator.full()``.
        """
        if not isinstance(range_generator, RangeGenerator):
            raise ArgumentTypeError(
                f"PulsarSourceBuilder.set_range_generator: range_generator must be a RangeGenerator, got {range_generator!r}"
            )
        return self

    def set_start_cursor(self, start_cursor: StartCursor) -> PulsarSourceBuilder:
        """Where reading begins when the job starts from nothing; default: the oldest message."""
        if not isinstance(start_cursor, StartCursor):
            raise ArgumentTypeError(
                "PulsarSourceBuilder.set_start_cursor: start_cursor must be a StartCursor such as StartCursor.latest(), got "
                f"{start_cursor!r}"
            )
        self._start = start_cursor._start
        return self

    def set_unbounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Stop there, and count as unbounded nevertheless."""
        return self._stop_at(stop_cursor, False, "set_unbounded_stop_cursor")

    def set_bounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Stop there. The source can be used in BATCH mode."""
        return self._stop_at(stop_cursor, True, "set_bounded_stop_cursor")

    def _stop_at(self, stop_cursor: Any, bounded: bool, method: str) -> PulsarSourceBuilder:
        if not isinstance(stop_cursor, StopCursor):
            raise ArgumentTypeError(
                f"PulsarSourceBuilder.{method}: stop_cursor must be a StopCursor such as StopCursor.latest(), got "
                f"{stop_cursor!r}"
            )
        self._stop, self._bounded = stop_cursor._stop, bounded
        return self

    def set_deserialization_schema(
        self, deserialization_schema: DeserializationSchema | PulsarDeserializationSchema
    ) -> PulsarSourceBuilder:
        """What turns messages into elements.

        Args:
            deserialization_schema: of values; or one of whole messages.
        """
        what = "PulsarSourceBuilder.set_deserialization_schema"
        self._schema = _deserializer(deserialization_schema, what)
        return self

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | Mapping[str, str]
    ) -> PulsarSourceBuilder:
        """Who asks.

        Args:
            auth_plugin_class_name: Java's AuthenticationToken, AuthenticationTls, AuthenticationBasic, AuthenticationOAuth2
                or AuthenticationAthenz, with or without its package.
            auth_params_string: as Java's class takes them, ``key:value,...`` or JSON; or a dict.
        """
        what = "PulsarSourceBuilder.set_authentication"
        self._authentication = _authentication(auth_plugin_class_name, auth_params_string, what)
        return self

    def set_config(self, key: str | ConfigOption[Any], value: Any) -> PulsarSourceBuilder:
        """An option of the source or of Pulsar's client, by Flink's names.

        Args:
            key: such as ``pulsar.source.partitionDiscoveryIntervalMs``.
            value: a str, a number or a bool.
        """
        _put(self._options, key, value, "PulsarSourceBuilder.set_config")
        return self

    def set_config_with_dict(self, config: Mapping[str, Any]) -> PulsarSourceBuilder:
        """As `set_properties`, which PyFlink prefers."""
        warnings.warn(
            "set_config_with_dict is deprecated. Use set_properties instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.set_properties(config)

    def set_properties(self, config: Mapping[str, Any]) -> PulsarSourceBuilder:
        """Several options.

        Args:
            config: see `set_config`.
        """
        for key, value in config.items():
            _put(self._options, key, value, "PulsarSourceBuilder.set_properties")
        return self

    def build(self) -> PulsarSource:
        """The source.

        Raises:
            ConfigurationError: something is missing, an option cannot be used, or pulsar-client is not installed.
            NotSupportedError: an option that only Java's client can use.
        """
        what = "PulsarSourceBuilder.build"
        if self._topics is None:
            raise ConfigurationError(f"{what}: call set_topics() or set_topic_pattern() first")
        if self._schema is None:
            raise ConfigurationError(f"{what}: call set_deserialization_schema() first")
        properties = engine.ClientProperties(self._options, "PulsarSource", "source", self._authentication)
        given = properties.number(
            "pulsar.source.partitionDiscoveryIntervalMs", _DISCOVERY_INTERVAL_MS, -_MOST_MS, _MOST_MS
        )
        arguments = (self._topics, self._schema, properties, self._start, self._stop, self._bounded)
        if self._bounded or self._stop.at is not CursorKind.NEVER or given <= 0:
            return PulsarSource(engine.PulsarSource(*arguments))
        return PulsarSource(engine.DiscoveringPulsarSource(*arguments, discovery_interval_ms=given))

    def _read(self, what: str, topics: engine.Topics) -> PulsarSourceBuilder:
        if self._topics is not None:
            raise ConfigurationError(f"{what}: what is read was chosen before; choose once")
        self._topics = topics
        return self


class TopicRoutingMode(Enum):
    """Which partition a message is written to.

    ``ROUND_ROBIN``: one after the other, with as many messages each as a batch may have. ``MESSAGE_KEY_HASH``: that of the
    key's hash; any for messages without a key. ``CUSTOM``: the topic router decides.

    Source: pyflink.datastream.connectors.pulsar.TopicRoutingMode
    """

    ROUND_ROBIN = 0
    MESSAGE_KEY_HASH = 1
    CUSTOM = 2


class MessageDelayer:
    """How long brokers keep messages from consumers of shared subscriptions; made by its static methods.

    Source: pyflink.datastream.connectors.pulsar.MessageDelayer
    """

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms = _arguments.whole_number(delay_ms, "MessageDelayer: delay_ms", 0, _MOST_MS)

    @staticmethod
    def never() -> MessageDelayer:
        """Not at all."""
        return MessageDelayer(0)

    @staticmethod
    def fixed(duration: Duration) -> MessageDelayer:
        """A fixed delay.

        Args:
            duration: from 1 ms on.
        """
        what = "MessageDelayer.fixed: duration"
        if not isinstance(duration, Duration):
            raise ArgumentTypeError(f"{what} must be a Duration, got {duration!r}")
        return MessageDelayer(_arguments.whole_number(duration.to_milliseconds(), what, 1, _MOST_MS))


@needs(packages.PULSAR)
class PulsarSink(Sink):
    """Writes to topics; made by its `builder`.

    Source: pyflink.datastream.connectors.pulsar.PulsarSink
    """

    @staticmethod
    def builder() -> PulsarSinkBuilder:
        """A builder of such sinks."""
        return PulsarSinkBuilder()


@needs(packages.PULSAR)
class PulsarSinkBuilder:
    """Builds a `PulsarSink`. Each method but `build` returns this object.

    Needed are the service URL, topics and a schema.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> sink = (
        ...     PulsarSink.builder()
        ...     .set_service_url("pulsar://localhost:6650")
        ...     .set_topics("totals")
        ...     .set_serialization_schema(SimpleStringSchema())
        ...     .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        ...     .build()
        ... )

    Source: pyflink.datastream.connectors.pulsar.PulsarSinkBuilder
    """

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}
        self._authentication: engine.Authentication | None = None
        self._topics: tuple[str, ...] = ()
        self._schema: Any = None
        self._guarantee: DeliveryGuarantee | None = None
        self._routing = TopicRoutingMode.ROUND_ROBIN
        self._router: Callable[[Any, str | None, Sequence[str]], str] | None = None
        self._delay_ms = 0

    @kept
    def set_admin_url(self, admin_url: str) -> PulsarSinkBuilder:
        """Where the brokers' HTTP service is.

        Args:
            admin_url: such as ``http://localhost:8080``.
        """
        _arguments.text(admin_url, "PulsarSinkBuilder.set_admin_url: admin_url")
        return self

    def set_service_url(self, service_url: str) -> PulsarSinkBuilder:
        """Where the brokers are.

        Args:
            service_url: such as ``pulsar://localhost:6650``, or ``pulsar+ssl://...`` with TLS.
        """
        what = "PulsarSinkBuilder.set_service_url: service_url"
        self._options[_SERVICE_URL] = _arguments.text(service_url, what)
        return self

    def set_producer_name(self, producer_name: str) -> PulsarSinkBuilder:
        """What brokers show; every producer has an id of its own behind it."""
        what = "PulsarSinkBuilder.set_producer_name: producer_name"
        self._options["pulsar.producer.producerName"] = _arguments.text(producer_name, what)
        return self

    def set_topics(self, topics: str | list[str]) -> PulsarSinkBuilder:
        """Where to: all partitions of these topics, or single partitions.

        Args:
            topics: a topic, or several; they must exist.
        """
        self._topics = _topics(topics, "PulsarSinkBuilder.set_topics")
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> PulsarSinkBuilder:
        """What holds after a failure.

        Args:
            delivery_guarantee: ``AT_LEAST_ONCE``, or ``NONE``, the default: what was on its way to the brokers may be lost.

        Raises:
            NotSupportedError: ``EXACTLY_ONCE``.
        """
        what = "PulsarSinkBuilder.set_delivery_guarantee"
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ArgumentTypeError(
                f"{what}: delivery_guarantee must be a DeliveryGuarantee, got {delivery_guarantee!r}"
            )
        self._guarantee = _not_exactly_once(delivery_guarantee, what)
        return self

    def set_topic_routing_mode(self, topic_routing_mode: TopicRoutingMode) -> PulsarSinkBuilder:
        """Which partition a message is written to; default: ``ROUND_ROBIN``."""
        if not isinstance(topic_routing_mode, TopicRoutingMode):
            raise ArgumentTypeError(
                "PulsarSinkBuilder.set_topic_routing_mode: topic_routing_mode must be a TopicRoutingMode, got "
                f"{topic_routing_mode!r}"
            )
        self._routing = topic_routing_mode
        return self

    def set_topic_router(
        self, topic_router_class_name: Callable[[Any, str | None, Sequence[str]], str]
    ) -> PulsarSinkBuilder:
        """Choose topics yourself, which is routing mode ``CUSTOM``. In PyFlink it is a Java class, here a function.

        Args:
            topic_router_class_name: gets the element, its key (None for none) and the partitions of the topics, by their
                full names; returns one of these, or the name of another topic.

        Raises:
            NotSupportedError: the name of a Java class.
        """
        what = "PulsarSinkBuilder.set_topic_router"
        if isinstance(topic_router_class_name, str):
            raise NotSupportedError(
                f"{what}: Java classes cannot be used in this engine; give a function of element, key and partitions"
            )
        if not callable(topic_router_class_name):
            raise ArgumentTypeError(f"{what}: a router must be a function, got {topic_router_class_name!r}")
        self._router = topic_router_class_name
        self._routing = TopicRoutingMode.CUSTOM
        return self

    def set_serialization_schema(
        self, serialization_schema: SerializationSchema | PulsarSerializationSchema
    ) -> PulsarSinkBuilder:
        """What turns elements into messages.

        Args:
            serialization_schema: into values; or into whole messages, with keys.
        """
        what = "PulsarSinkBuilder.set_serialization_schema"
        self._schema = _serializer(serialization_schema, what)
        return self

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | Mapping[str, str]
    ) -> PulsarSinkBuilder:
        """Who asks.

        Args:
            auth_plugin_class_name: see `PulsarSourceBuilder.set_authentication`.
            auth_params_string: as there.
        """
        what = "PulsarSinkBuilder.set_authentication"
        self._authentication = _authentication(auth_plugin_class_name, auth_params_string, what)
        return self

    def delay_sending_message(self, message_delayer: MessageDelayer) -> PulsarSinkBuilder:
        """How long brokers keep messages from consumers of shared subscriptions."""
        if not isinstance(message_delayer, MessageDelayer):
            raise ArgumentTypeError(
                f"PulsarSinkBuilder.delay_sending_message: message_delayer must be a MessageDelayer, got {message_delayer!r}"
            )
        self._delay_ms = message_delayer._delay_ms
        return self

    def set_config(self, key: str | ConfigOption[Any], value: Any) -> PulsarSinkBuilder:
        """An option of the sink or of Pulsar's client, by Flink's names.

        Args:
            key: such as ``pulsar.producer.compressionType``.
            value: a str, a number or a bool.
        """
        _put(self._options, key, value, "PulsarSinkBuilder.set_config")
        return self

    def set_properties(self, config: Mapping[str, Any]) -> PulsarSinkBuilder:
        """Several options.

        Args:
            config: see `set_config`.
        """
        for key, value in config.items():
            _put(self._options, key, value, "PulsarSinkBuilder.set_properties")
        return self

    def build(self) -> PulsarSink:
        """The sink.

        Raises:
            ConfigurationError: something is missing, an option cannot be used, or pulsar-client is not installed.
            NotSupportedError: an option that only Java's client can use.
        """
        what = "PulsarSinkBuilder.build"
        if self._schema is None:
            raise ConfigurationError(f"{what}: call set_serialization_schema() first")
        properties = engine.ClientProperties(self._options, "PulsarSink", "sink", self._authentication)
        named = properties.choice(
            "pulsar.sink.deliveryGuarantee", ("none", "at-least-once", "exactly-once"), "none"
        )
        guarantee = self._guarantee or DeliveryGuarantee[named.upper().replace("-", "_")]
        return PulsarSink(
            engine.PulsarSink(
                self._topics,
                self._schema,
                properties,
                _not_exactly_once(guarantee, what) is DeliveryGuarantee.AT_LEAST_ONCE,
                engine.Routing[self._routing.name],
                self._router,
                self._delay_ms,
            )
        )


def _not_exactly_once(guarantee: DeliveryGuarantee, what: str) -> DeliveryGuarantee:
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        raise NotSupportedError(
            f"{what}: EXACTLY_ONCE needs Pulsar's transactions, which its Python client does not have: take AT_LEAST_ONCE "
            "and let readers drop what comes twice, by an id in the messages; KafkaSink and FileSink write exactly once"
        )
    return guarantee


__getattr__ = module_getattr(__name__)
