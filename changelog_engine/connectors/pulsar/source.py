"""The Pulsar source: a split is a partition, a position says behind which message reading goes on.

Invariants:
    * Where a partition begins and ends is decided once, on the driver, when the job starts from nothing or finds the
      partition, and is in the job's checkpoints.
    * A durable subscription of each partition is set to that place before anything is read: brokers delete what no
      subscription needs any more.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from changelog_engine.config import parse_duration_ms
from changelog_engine.config.options import CHECKPOINT_INTERVAL
from changelog_engine.connectors.data_loss import DataLoss
from changelog_engine.connectors.protocols import DiscoveringSource, Position, Source, Split
from changelog_engine.connectors.pulsar.clients import Client, topics_of_namespace
from changelog_engine.connectors.pulsar.cursors import (
    AFTER,
    EARLIEST,
    FROM,
    CursorKind,
    StartPosition,
    Stop,
    id_of,
    key_of,
    shown,
)
from changelog_engine.connectors.pulsar.properties import ClientProperties
from changelog_engine.connectors.pulsar.reader import PartitionReader, ReadOptions
from changelog_engine.connectors.reconnecting import Trouble, connected
from changelog_engine.connectors.shared_client import SharedClient
from changelog_engine.errors import ConfigurationError, NotSupportedError

log = logging.getLogger("changelog_engine")

_PARTITION = re.compile(r"-partition-\d+$")
_PAUSE_S = 0.5
_LOOK_MS = 5_000


@dataclass(frozen=True)
class Topics:
    """What is read: topics by name or by pattern. One of them is given.

    Args:
        names: all partitions of these topics, which must exist; or single partitions.
        pattern: all topics of a namespace whose whole name matches: ``tenant/namespace/pattern``, or a pattern alone for
            public/default.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def check(self, properties: ClientProperties) -> None:
        """Refuse what cannot be read.

        Raises:
            ConfigurationError: the pattern is not valid, or no service is named that could be asked.
            NotSupportedError: a topic that keeps nothing.
        """
        for each in self.names if self.pattern is None else (self.pattern,):
            if each.startswith("non-persistent://"):
                raise NotSupportedError(
                    f"{properties.what}: {each!r} keeps no messages, so nothing could be read again after a "
                    "failure: read a persistent:// topic"
                )
        if self.pattern is None:
            return
        if properties.admin_url is None:
            raise ConfigurationError(
                f"{properties.what}: a topic pattern needs set_admin_url(): Pulsar's Python client cannot list topics"
            )
        self._parts()

    def _parts(self) -> tuple[str, re.Pattern[str]]:
        assert self.pattern is not None
        text = self.pattern.removeprefix("persistent://")
        pieces = text.split("/", 2)
        namespace, name = ("/".join(pieces[:2]), pieces[2]) if len(pieces) == 3 else ("public/default", text)
        try:
            return namespace, re.compile(name)
        except re.error as error:
            raise ConfigurationError(f"topic pattern {self.pattern!r} can't be used: {error}") from None

    def of(self, client: Client) -> list[str]:
        """The partitions.

        Raises:
            ConnectorError: a topic is missing, or nobody answers.
        """
        names: list[str] = list(self.names)
        if self.pattern is not None:
            namespace, pattern = self._parts()
            there = {_PARTITION.sub("", each) for each in topics_of_namespace(client.properties, namespace)}
            short = {each.rpartition("/")[2]: each for each in there}
            names = [
                short[name] for name in sorted(short) if not name.startswith("__") and pattern.fullmatch(name)
            ]
        return list(dict.fromkeys(each for name in names for each in client.partitions(name)))


class PulsarSource(Source):
    """Reads topics of Pulsar, from message ids of its own: nothing that other readers do changes what this one gives.

    Args:
        schema: has ``deserialize(bytes)``, or ``deserialize_message(PulsarMessage)``; None leaves a message out.
            ``get_produced_type`` says of what type its elements are.
        start: where, when the job starts from nothing.
        bounded: whether the job may count on its end.

    Raises:
        NotSupportedError: a topic that cannot be read.
    """

    parallel = True
    timed = True
    watermarks_by_split = True
    acknowledges = True

    def __init__(
        self,
        topics: Topics,
        schema: Any,
        properties: ClientProperties,
        start: StartPosition | None = None,
        stop: Stop | None = None,
        bounded: bool = False,
    ) -> None:
        what = properties.what
        subscription = properties.get("pulsar.consumer.subscriptionName")
        if subscription is None:
            raise ConfigurationError(f"{what}: call set_subscription_name() first")
        topics.check(properties)
        Client(properties).close()
        self.topics = topics
        self.properties = properties
        self.start = (start or StartPosition()).resolved(what)
        self.stop = (stop or Stop()).resolved(what)
        self.bounded = bounded
        self.output_type = schema.get_produced_type()
        verify = ("WARN_ON_MISMATCH", "FAIL_ON_MISMATCH")
        self._id_must_exist = (
            properties.choice("pulsar.source.verifyInitialOffsets", verify, verify[0]) == verify[1]
        )
        self._every_s = _duration_ms(properties, "pulsar.source.autoCommitCursorInterval", "5 s") / 1000
        self._reading = ReadOptions(
            schema,
            subscription,
            properties.get("pulsar.consumer.consumerName"),
            properties.number("pulsar.consumer.receiverQueueSize", 1000, 1, 1_000_000),
            DataLoss(properties),
            None,
        )
        self._client = SharedClient(partial(Client, properties))

    def with_options(self, options: Mapping[str, str]) -> Self:
        """This source, knowing whether the job makes checkpoints."""
        made = copy.copy(self)
        every_s = None if CHECKPOINT_INTERVAL.key in options else self._every_s
        made._reading = replace(self._reading, acknowledges_every_s=every_s)
        return made

    def check_before_start(self) -> None:
        """Raise when Pulsar does not answer, does not let us in, or has no such topic."""
        with self._client.taken() as client:
            self.topics.of(client)

    def splits(self, parallelism: int) -> list[Split]:
        with self._client.taken() as client:
            topics = self.topics.of(client)
            if not topics:
                log.warning(
                    "%s: no topic matches %r. Create one, or correct it", client.named, self.topics.pattern
                )
            return [self._planned(client, topic, self.start) for topic in topics]

    def _planned(self, client: Client, topic: str, start: StartPosition) -> Split:
        reading = self._reading
        consumer = connected(
            lambda: client.subscribed(topic, reading.subscription, reading.name),
            f"{client.named}: the subscription of {topic!r}",
            _PAUSE_S,
        )
        try:
            last: Any = client.asked(f"reading {topic!r}", topic, consumer.get_last_message_id)
            if last.entry_id() < 0:
                last = None
            kind, message_id = self._first(client, topic, start, last)
            place = client.pulsar.MessageId.earliest if message_id is None else message_id
            client.asked(f"setting the subscription of {topic!r}", topic, consumer.seek, place)
        finally:
            with contextlib.suppress(client.pulsar.PulsarException):
                consumer.close()
        text = None if message_id is None else message_id.serialize().hex()
        return Split(topic, [kind, text, self.stop.of(last)])

    def _first(self, client: Client, topic: str, start: StartPosition, last: Any) -> tuple[str, Any]:
        """Where a partition begins: the kind of its position, and a message id."""
        if start.at is CursorKind.EARLIEST or (last is None and start.at is not CursorKind.MESSAGE_ID):
            return EARLIEST, None
        if start.at is CursorKind.LATEST:
            return AFTER, last
        if start.at is CursorKind.PUBLISH_TIME:
            found = self._published(client, topic, start.time_ms)
            return (AFTER, last) if found is None else (FROM, found)
        message_id = id_of(start.message_id.hex())
        self._check_there(client, topic, message_id)
        return FROM if start.inclusive else AFTER, message_id

    def _published(self, client: Client, topic: str, time_ms: int) -> Any:
        """The first message that was published then or later; None if there is none."""
        reader = client.reader(topic, client.pulsar.MessageId.earliest, True, None, self._reading.queue)
        doing = f"looking for {topic!r} by time"
        try:
            client.asked(doing, topic, reader.seek, time_ms)
            while client.asked(doing, topic, reader.has_message_available):
                message: Any = client.asked(doing, topic, reader.read_next, _LOOK_MS)
                if message.publish_timestamp() >= time_ms:
                    return message.message_id()
            return None
        finally:
            with contextlib.suppress(client.pulsar.PulsarException):
                reader.close()

    def _check_there(self, client: Client, topic: str, message_id: Any) -> None:
        """Say so when a start cursor's message is not there."""
        reader = client.reader(topic, message_id, True, None, 1)
        doing = f"looking for a message of {topic!r}"
        try:
            if client.asked(doing, topic, reader.has_message_available):
                message: Any = client.asked(doing, topic, reader.read_next, _LOOK_MS)
                wanted, found = key_of(message_id), key_of(message.message_id())
                if found == wanted or (wanted[2] < 0 and found[:2] == wanted[:2]):
                    return
        finally:
            with contextlib.suppress(client.pulsar.PulsarException):
                reader.close()
        error = ConfigurationError(
            f"{client.named}: {topic!r} has no message {shown(message_id)}, where the start cursor is: it was deleted, is "
            "of another partition, or comes later"
        )
        if self._id_must_exist:
            raise error
        log.warning("%s; reading begins with the next one that there is", error)

    def reader(self, split: Split) -> PartitionReader:
        return PartitionReader(self._client.take(), self._client.give_back, self._reading, split.id)


class DiscoveringPulsarSource(PulsarSource, DiscoveringSource):
    """Also reads partitions that come while the job runs, from their beginnings."""

    def __init__(self, *arguments: Any, discovery_interval_ms: int, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.discovery_interval_ms = discovery_interval_ms
        self._trouble = Trouble(f"{self.properties.what}: looking for new partitions")

    def discover(self, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        """When Pulsar does not answer, it is asked again later."""
        found: list[Split] = []
        with self._trouble.told(), self._client.taken() as client:
            new = [topic for topic in self.topics.of(client) if topic not in known]
            found = [self._planned(client, topic, StartPosition()) for topic in new]
        return found


def _duration_ms(properties: ClientProperties, name: str, default: str) -> int:
    text = properties.get(name) or default
    try:
        return int(parse_duration_ms(text))
    except ValueError as error:
        raise ConfigurationError(f"{properties.what}: option {name!r}: {error}") from None
