"""PulsarSink and its builder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Annotated, Any, Self

from changelog_engine.connectors import packages
from changelog_engine.connectors import pulsar as engine
from changelog_engine.connectors.pulsar import OutgoingMessage
from changelog_engine.errors import ArgumentTypeError, NotSupportedError

from ..._arguments import Whole, checked, required, several
from ..._kept_settings import kept
from ..._needs import needs
from ...common.serialization import SerializationSchema
from ...common.time import AtLeast, Duration
from ._pulsar_options import LONGEST_MS, _PulsarBuilder
from .base import DeliveryGuarantee, Sink


@checked
class PulsarSerializationSchema(ABC):
    """Turns an element into a whole message, with key and properties. Beyond PyFlink you can write one in Python.

    Example:
        >>> class ByUser(PulsarSerializationSchema):
        ...     def serialize_message(self, element):
        ...         return OutgoingMessage(element["text"].encode(), key=element["user"])
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
        return _WithoutKeys(serialization_schema)


class _WithoutKeys(PulsarSerializationSchema):
    def __init__(self, schema: SerializationSchema) -> None:
        self._schema = schema

    def serialize_message(self, element: Any) -> OutgoingMessage:
        return OutgoingMessage(self._schema.serialize(element))


class TopicRoutingMode(Enum):
    """Which partition a message is written to.

    ``ROUND_ROBIN``: one after the other, with as many messages each as a batch may have. ``MESSAGE_KEY_HASH``: that of the
    key's hash; any for messages without a key. ``CUSTOM``: the topic router decides.
    """

    ROUND_ROBIN = 0
    MESSAGE_KEY_HASH = 1
    CUSTOM = 2


@checked
class MessageDelayer:
    """How long brokers keep messages from consumers of shared subscriptions; made by its static methods."""

    def __init__(self, delay_ms: Annotated[int, Whole(0, LONGEST_MS)]) -> None:
        self._delay_ms = delay_ms

    @staticmethod
    def never() -> MessageDelayer:
        """Not at all."""
        return MessageDelayer(0)

    @staticmethod
    def fixed(duration: Annotated[Duration, AtLeast(1)]) -> MessageDelayer:
        """A fixed delay.

        Args:
            duration: from 1 ms on.
        """
        return MessageDelayer(duration.to_milliseconds())


@needs(packages.PULSAR)
class PulsarSink(Sink):
    """Writes to topics; made by its `builder`."""

    @staticmethod
    def builder() -> PulsarSinkBuilder:
        """A builder of such sinks."""
        return PulsarSinkBuilder()


@checked
@needs(packages.PULSAR)
class PulsarSinkBuilder(_PulsarBuilder):
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
    """

    def __init__(self) -> None:
        super().__init__()
        self._topics: tuple[str, ...] = ()
        self._schema: Any = None
        self._guarantee: DeliveryGuarantee | None = None
        self._routing = TopicRoutingMode.ROUND_ROBIN
        self._router: Callable[[Any, str | None, Sequence[str]], str] | None = None
        self._delay_ms = 0

    @kept
    def set_admin_url(self, admin_url: str) -> Self:
        """Where the brokers' HTTP service is.

        Args:
            admin_url: such as ``http://localhost:8080``.
        """
        return self

    def set_producer_name(self, producer_name: str) -> Self:
        """What brokers show; every producer has an id of its own behind it."""
        return self._set("pulsar.producer.producerName", producer_name)

    def set_topics(self, topics: str | list[str]) -> Self:
        """Where to: all partitions of these topics, or single partitions.

        Args:
            topics: a topic, or several; they must exist.
        """
        self._topics = several(topics, "PulsarSinkBuilder.set_topics: topics", "a topic")
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """What holds after a failure.

        Args:
            delivery_guarantee: ``AT_LEAST_ONCE``, or ``NONE``, the default: what was on its way to the brokers may be lost.

        Raises:
            NotSupportedError: ``EXACTLY_ONCE``.
        """
        self._guarantee = _not_exactly_once(delivery_guarantee, "PulsarSinkBuilder.set_delivery_guarantee")
        return self

    def set_topic_routing_mode(self, topic_routing_mode: TopicRoutingMode) -> Self:
        """Which partition a message is written to; default: ``ROUND_ROBIN``."""
        self._routing = topic_routing_mode
        return self

    def set_topic_router(
        self, topic_router_class_name: Callable[[Any, str | None, Sequence[str]], str]
    ) -> Self:
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
    ) -> Self:
        """What turns elements into messages.

        Args:
            serialization_schema: into values; or into whole messages, with keys.
        """
        self._schema = serialization_schema
        return self

    def delay_sending_message(self, message_delayer: MessageDelayer) -> Self:
        """How long brokers keep messages from consumers of shared subscriptions."""
        self._delay_ms = message_delayer._delay_ms
        return self

    def build(self) -> PulsarSink:
        """The sink.

        Raises:
            ConfigurationError: something is missing, an option cannot be used, or pulsar-client is not installed.
            NotSupportedError: an option that only Java's client can use.
        """
        what = "PulsarSinkBuilder.build"
        schema = required(self._schema, what, "call set_serialization_schema()")
        properties = engine.ClientProperties(self._options, "PulsarSink", "sink", self._authentication)
        named = properties.choice(
            "pulsar.sink.deliveryGuarantee", ("none", "at-least-once", "exactly-once"), "none"
        )
        guarantee = self._guarantee or DeliveryGuarantee[named.upper().replace("-", "_")]
        return PulsarSink(
            engine.PulsarSink(
                self._topics,
                schema,
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
