"""The Pulsar sink: at least once, or not even that.

Invariants:
    * An epoch ends only when the brokers have confirmed every message of it; what they did not take fails it.
    * Every wait is bounded: the client gives up a message after its send timeout.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.protocols import INPUT_END_MS, Sink, SinkWriter
from changelog_engine.connectors.pulsar.clients import Client
from changelog_engine.connectors.pulsar.properties import ClientProperties
from changelog_engine.connectors.pulsar.routing import Router, Routing, java_hash, murmur3_hash
from changelog_engine.connectors.reconnecting import connected
from changelog_engine.connectors.schemas import unwritable
from changelog_engine.connectors.still_ours import check_still_ours
from changelog_engine.errors import ConfigurationError, ConnectorError, TypeMismatchError
from changelog_engine.graph.hooks import hook_of

log = logging.getLogger("changelog_engine")

_PRODUCER = "pulsar.producer."
_PAUSE_S = 0.5
_REFRESH_MS = 30 * 60_000
_COMPRESSIONS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
_HASHES = {"java-hash": java_hash, "murmur-3-32-hash": murmur3_hash}


class OutgoingMessage(NamedTuple):
    """A message to write.

    Args:
        key: the partition key; None for none.
        event_time: in ms; None for the element's timestamp.
        ordering_key: for consumers that share a subscription by keys.
    """

    value: bytes
    key: str | None = None
    event_time: int | None = None
    properties: Mapping[str, str] | None = None
    ordering_key: str | None = None


@dataclass(eq=False, repr=False)
class PulsarSink(Sink):
    """Writes to topics of Pulsar. After a failure some messages are written again.

    Args:
        topics: where to; none of them with a custom router that names them itself.
        schema: has ``serialize(element)``, or ``serialize_message(element)``, which gives an OutgoingMessage.
        waits: whether an epoch ends only when the brokers have its messages; without, a failure may lose some.
        router: with CUSTOM: (element, key, partitions) to a topic's name.
        delay_ms: how long brokers keep messages from consumers of shared subscriptions.
    """

    topics: tuple[str, ...]
    schema: Any
    properties: ClientProperties
    waits: bool = True
    routing: Routing = Routing.ROUND_ROBIN
    router: Callable[[Any, str | None, Sequence[str]], str] | None = None
    delay_ms: int = 0

    def __post_init__(self) -> None:
        properties = self.properties
        what = properties.what
        if (self.router is not None) != (self.routing is Routing.CUSTOM):
            raise ConfigurationError(f"{what}: routing mode CUSTOM and set_topic_router() need each other")
        if not self.topics and self.router is None:
            raise ConfigurationError(f"{what}: call set_topics() first")
        Client(properties).close()
        self.producing = _producing(properties)
        self.refresh_s = properties.number("pulsar.sink.topicMetadataRefreshInterval", _REFRESH_MS, 1) / 1000
        self.hashing = properties.choice("pulsar.sink.messageKeyHash", tuple(_HASHES), "murmur-3-32-hash")

    def check_before_start(self) -> None:
        """Raise when Pulsar does not answer, does not let us in, or has no such topic."""
        with contextlib.closing(Client(self.properties)) as client:
            for topic in self.topics:
                client.partitions(topic)

    def writer(self, subtask: int, parallelism: int) -> PulsarWriter:
        return PulsarWriter(self)


class PulsarWriter(SinkWriter):
    """Writes one subtask's elements."""

    def __init__(self, sink: PulsarSink) -> None:
        self._sink = sink
        whole = hook_of(sink.schema, "serialize_message")
        self._whole = whole is not None
        self._encode: Callable[[Any], Any] = sink.schema.serialize if whole is None else whole
        switch = sink.producing["batching_max_messages"]
        self._router = Router(sink.routing, switch, _HASHES[sink.hashing], sink.router)
        self._one: dict[str, Any] = (
            {"deliver_after": timedelta(milliseconds=sink.delay_ms)} if sink.delay_ms else {}
        )
        self._failed: tuple[str, str] | None = None
        self._producers: dict[str, tuple[Any, Callable[[Any, Any], None]]] = {}
        self._client = Client(sink.properties)
        self._partitions = connected(self._look, self._client.named, _PAUSE_S)

    def _look(self) -> list[str]:
        self._looked_s = monotonic_s()
        found = (each for topic in self._sink.topics for each in self._client.partitions(topic))
        return list(dict.fromkeys(found))

    def write(self, values: Sequence[Any]) -> None:
        self.write_timed(values, None, 0)

    def write_timed(self, values: Sequence[Any], timestamps: Sequence[int] | None, watermark: int) -> None:
        """Raises ConnectorError when a message before was not taken."""
        encode, route, whole = self._encode, self._router.route, self._whole
        times = None if timestamps is None else iter(timestamps)
        for value in values:
            check_still_ours()
            made = encode(value)
            message = made if whole else OutgoingMessage(made)
            if not isinstance(message, OutgoingMessage) or not isinstance(message.value, bytes):
                raise _unwritable(made, whole, value)
            time_ms = -1 if times is None else next(times)
            if time_ms == INPUT_END_MS:
                time_ms = -1
            topic = route(value, message.key, self._partitions)
            producer, sent = self._producers.get(topic) or self._producer(topic)
            event_ms = message.event_time if message.event_time is not None else time_ms
            producer.send_async(
                message.value,
                sent,
                properties=message.properties,
                partition_key=message.key,
                ordering_key=message.ordering_key,
                event_timestamp=event_ms if event_ms > 0 else None,
                **self._one,
            )
        self._check()

    def _producer(self, topic: str) -> tuple[Any, Callable[[Any, Any], None]]:
        named, arguments = self._sink.properties.get(f"{_PRODUCER}producerName"), dict(self._sink.producing)
        if named is not None:
            arguments["producer_name"] = f"{named} - {uuid.uuid4().hex}"
        arguments["compression_type"] = self._client.pulsar.CompressionType.__members__[
            arguments["compression_type"]
        ]
        producer = connected(
            lambda: self._client.producer(topic, **arguments),
            f"{self._client.named}: writing to {topic!r}",
            _PAUSE_S,
        )
        taken = self._client.pulsar.Result.Ok

        def sent(result: Any, message_id: Any) -> None:
            if result != taken and self._failed is None:
                self._failed = (topic, result.name)

        self._producers[topic] = (producer, sent)
        return producer, sent

    def _check(self) -> None:
        if self._failed is not None:
            topic, kind = self._failed
            raise self._client.failure(f"writing to {topic!r}", topic, kind, kind)

    def flush(self) -> None:
        if self._sink.waits:
            self._wait()
        self._check()
        if self._sink.topics and monotonic_s() - self._looked_s >= self._sink.refresh_s:
            self._partitions = connected(self._look, self._client.named, _PAUSE_S)

    def _wait(self) -> None:
        for topic, (producer, _) in self._producers.items():
            self._client.asked(f"writing to {topic!r}", topic, producer.flush)

    def close(self) -> None:
        try:
            if not self._sink.waits:  # else what was not taken comes again
                if self._failed is None:
                    self._wait()
                self._check()
        except ConnectorError as error:
            log.warning("%s", error)
        self._client.close()


def _producing(properties: ClientProperties) -> dict[str, Any]:
    """Arguments of the client's producers."""
    number = properties.number
    return {
        "send_timeout_millis": number(f"{_PRODUCER}sendTimeoutMs", 30_000, 1),
        "batching_enabled": properties.flag(f"{_PRODUCER}batchingEnabled", True),
        "batching_max_messages": number(f"{_PRODUCER}batchingMaxMessages", 1000, 1),
        "batching_max_allowed_size_in_bytes": number(f"{_PRODUCER}batchingMaxBytes", 128 * 1024, 1),
        "batching_max_publish_delay_ms": max(
            1, number(f"{_PRODUCER}batchingMaxPublishDelayMicros", 1000, 0) // 1000
        ),
        "compression_type": properties.choice(f"{_PRODUCER}compressionType", _COMPRESSIONS, "NONE"),
        "properties": _map(properties),
        "block_if_queue_full": True,
    }


def _map(properties: ClientProperties) -> dict[str, str] | None:
    name = f"{_PRODUCER}properties"
    if name in properties.maps:
        return properties.maps[name]
    text = properties.get(name)
    if text is None:
        return None
    pairs = [pair.partition(":") for pair in text.split(",")]
    if not all(colon for _, colon, _ in pairs):
        raise ConfigurationError(
            f"{properties.what}: option {name!r} must look like name:value,name:value, got {text!r}"
        )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _unwritable(made: Any, whole: bool, element: Any) -> TypeMismatchError:
    if isinstance(made, OutgoingMessage):
        made, whole = made.value, False
    return unwritable("the serialization schema", made, element, "an OutgoingMessage" if whole else "bytes")
