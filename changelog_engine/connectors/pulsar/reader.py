"""Reading a partition in a worker.

Invariants:
    * What is given out begins exactly behind the position asked for, and follows the partition without a gap: a reader that
      goes on behind a message begins with that message, and drops it. Where it is not there any more, or was published at
      another time, the job says so.
    * A message that the client gives again, after its connection was lost, is not given out twice. One with an old id that
      was published after all that were read is another topic's: its ids began anew, as brokers lost their storage.
    * The subscription is acknowledged up to the entry before the last one that a durable checkpoint covers: so the message
      with which a restore begins stays.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors import reconnecting
from changelog_engine.connectors.data_loss import DataLoss
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.connectors.pulsar.clients import Client
from changelog_engine.connectors.pulsar.cursors import (
    AFTER,
    EARLIEST,
    EVENT,
    FROM,
    ID,
    NOTHING,
    READ,
    Key,
    id_of,
    key_of,
    shown,
)
from changelog_engine.connectors.reconnecting import Trouble, connected
from changelog_engine.connectors.schemas import unreadable
from changelog_engine.errors import RefusedForGoodError
from changelog_engine.event_time import NO_TIMESTAMP
from changelog_engine.graph.hooks import hook_of
from changelog_engine.types.copies import as_given

log = logging.getLogger("changelog_engine")

_WAIT_MS = 5
_FIRST_WAIT_MS = 200  # for the first messages of a reader that was just made
_PAUSE_S = 0.5
# How often a reader without messages looks whether its topic is still the one that it has read
_LOOK_S = 10.0
_MADE_AGAIN = (
    "the topic was deleted and made again, or its brokers lost their storage with messages that were not read"
)


class PulsarMessage(NamedTuple):
    """A message as it is stored.

    Args:
        topic: the partition's full name.
        message_id: as Pulsar's client serializes it.
        key: the partition key; None for none.
        value: None for a message without a value.
        event_time: in ms; None for none.
        publish_time: in ms.
        producer: its name.
    """

    topic: str
    message_id: bytes
    key: str | None
    value: bytes | None
    event_time: int | None
    publish_time: int
    properties: Mapping[str, str]
    producer: str


@dataclass(frozen=True)
class ReadOptions:
    """How partitions are read.

    Args:
        schema: see `PulsarSource`.
        name: of consumers and readers; None for the client's own.
        queue: how many messages a reader has in store.
        loss: what becomes of messages that were deleted before the job read them.
        acknowledges_every_s: in a job without checkpoints; None in one with.
    """

    schema: Any
    subscription: str
    name: str | None
    queue: int
    loss: DataLoss
    acknowledges_every_s: float | None


class PartitionReader(SplitReader):
    """Reads one partition.

    Args:
        closed: called when it is closed.
        topic: the partition's full name.
    """

    def __init__(
        self,
        client: Client,
        closed: Callable[[], None],
        reading: ReadOptions,
        topic: str,
        clock: Callable[[], float] = monotonic_s,
    ) -> None:
        self._client = client
        self._closed = closed
        self._reading = reading
        self._topic = topic
        self._clock = clock
        self._whole = hook_of(reading.schema, "deserialize_message")
        self._reader: Any = None
        self._consumer: Any = None  # of the subscription
        self._place: Position = None
        self._last: Key | None = None  # of what was given out, or is not to be
        self._newest_ms = 0  # when the newest message that was read was published
        self._expected: Any = None  # the message that the reader is to begin with
        self._expected_ms: int | None = None  # when it was published, where that is known
        self._place_ms: int | None = None  # the same of the message at ``_place``
        self._stop: list[Any] | None = None
        self._stop_key: Key | None = None
        self._wait_ms = _FIRST_WAIT_MS
        self._named = f"{client.named}: reading {topic!r}"
        self._trouble = Trouble(self._named, clock)
        self._lost_s: float | None = None
        self._looked_s: float | None = None
        self._acknowledged_s = clock()

    def read(self, position: Position, max_records: int) -> Range:
        if not self._stands_at(position):
            self._turn(position)
        if self._is_at_stop(position):
            return Range((), position, True, ())
        messages, finished = self._take(max_records)
        values, times = self._decoded(messages)
        if messages:
            self._place = [READ, messages[-1].message_id().serialize().hex(), self._stop]
            self._place_ms = messages[-1].publish_timestamp()
        self._acknowledge_at_times()
        reached = self._place
        if finished:
            self._place = None  # the client's reader may stand behind the stop
        return Range(values, reached, finished, times)

    def at_barrier(self, position: Position) -> Position:
        if position[0] != READ or self._place_ms is None or not self._stands_at(position):
            return position
        return [*position[:3], self._place_ms]

    def _stands_at(self, position: Position) -> bool:
        return self._place is not None and self._place[:3] == position[:3]

    def _is_at_stop(self, position: Position) -> bool:
        kind, text, stop = position[:3]
        if stop is None or stop[0] != ID:
            return stop is not None and stop[0] == NOTHING
        if kind not in (READ, AFTER):
            return False
        return key_of(id_of(text)) >= key_of(id_of(stop[1]))

    def _turn(self, position: Position) -> None:
        """Read from another position on."""
        self._close_reader()
        kind, text, stop, *published_ms = position
        self._expected = self._last = None
        self._place_ms = self._expected_ms = published_ms[0] if published_ms else None
        self._newest_ms = 0
        self._stop = stop
        self._stop_key = key_of(id_of(stop[1])) if stop is not None and stop[0] == ID else None
        self._wait_ms = _FIRST_WAIT_MS
        self._looked_s = None
        message_id = self._client.pulsar.MessageId.earliest if kind == EARLIEST else id_of(text)
        if kind == READ:
            self._expected = message_id
        if not self._is_at_stop(position):
            connected(lambda: self._open(message_id, kind in (FROM, READ)), self._named, _PAUSE_S)
        self._place = position

    def _open(self, message_id: Any, inclusive: bool) -> None:
        reading = self._reading
        if self._consumer is None:
            self._consumer = self._client.subscribed(self._topic, reading.subscription, reading.name)
        self._reader = self._client.reader(self._topic, message_id, inclusive, reading.name, reading.queue)

    def _take(self, most: int) -> tuple[list[Any], bool]:
        """The next messages, and whether the partition's stop is behind them."""
        taken: list[Any] = []
        next_of, wait_ms = self._reader.read_next, self._wait_ms
        stops = self._stop is not None
        try:
            while len(taken) < most:
                message = next_of(wait_ms)
                wait_ms = 0
                key, published_ms = key_of(message.message_id()), message.publish_timestamp()
                if self._expected is not None:
                    known, self._expected = self._expected, None
                    if key == key_of(known):
                        if self._expected_ms not in (None, published_ms):
                            self._is_another(known)
                            return taken, False
                        self._last, self._newest_ms = key, published_ms
                        self._place_ms = published_ms
                        continue
                    self._missing(known, message.message_id())
                if self._last is not None and key <= self._last:
                    if published_ms <= self._newest_ms:
                        continue  # the client's connection was lost, and it began a little earlier
                    self._began_anew(message.message_id())
                self._newest_ms = max(self._newest_ms, published_ms)
                if stops:
                    before, with_it = self._stops_at(message, key)
                    if before:
                        return taken, True
                    if with_it:
                        self._last = key
                        taken.append(message)
                        return taken, True
                self._last = key
                taken.append(message)
        except self._client.pulsar.Timeout:
            self._check_connection(bool(taken))
        except self._client.pulsar.PulsarException as error:
            raise self._client.failure(
                f"reading {self._topic!r}", self._topic, type(error).__name__, str(error)
            ) from None
        self._wait_ms = _WAIT_MS
        return taken, False

    def _stops_at(self, message: Any, key: Key) -> tuple[bool, bool]:
        """Whether the partition ends before this message, or with it."""
        assert self._stop is not None
        kind, value, inclusive = self._stop
        if self._stop_key is not None:
            return (key > self._stop_key or (key == self._stop_key and not inclusive)), key == self._stop_key
        time_ms = message.event_timestamp() if kind == EVENT else message.publish_timestamp()
        return time_ms > value or (time_ms == value and not inclusive), False

    def _missing(self, expected: Any, found: Any) -> None:
        self._lost(
            f"up to message {shown(expected)}, which is not there any more: the next one is {shown(found)}, and messages "
            "between may have been deleted, by a time to live or a backlog quota, because somebody acknowledged or removed "
            "the subscription, or as this is an older checkpoint"
        )

    def _began_anew(self, found: Any) -> None:
        assert self._last is not None
        last = ":".join(map(str, self._last[:2]))  # drives our own code
        self._lost(
            f"up to message {last}, and the next one is {shown(found)}, although it was published later: {_MADE_AGAIN}"
        )

    def _is_another(self, known: Any) -> None:
        self._lost(
            f"up to message {shown(known)}, and another one has that id now, which was published at another time: "
            f"{_MADE_AGAIN}"
        )
        self._read_from_the_beginning()

    def _read_from_the_beginning(self) -> None:
        """Read all that the topic has now."""
        self._close_reader()
        self._expected = self._last = None
        self._newest_ms = 0
        connected(lambda: self._open(self._client.pulsar.MessageId.earliest, False), self._named, _PAUSE_S)

    def _lost(self, how: str) -> None:
        self._reading.loss.found(f"{self._client.named}: the job has read {self._topic!r} {how}")

    def _check_connection(self, got: bool) -> None:
        """The client connects again by itself, and says nothing when it can't."""
        if got or self._reader.is_connected():
            self._lost_s = None
            self._trouble.over()
            if not got:
                self._look_at_the_end()
            return
        now_s = self._clock()
        self._trouble.again(f"{self._named}: the connection was lost")
        if self._lost_s is None:
            self._lost_s = now_s
        elif now_s - self._lost_s > reconnecting.PATIENCE_S:
            raise self._client.failure(
                f"reading {self._topic!r}",
                self._topic,
                "NotConnected",
                f"not connected for {reconnecting.PATIENCE_S:.0f} s (or the topic was deleted)",
            )

    def _look_at_the_end(self) -> None:
        """A broker that has lost its storage gives nothing before the place where the reader stands, for ever."""
        place = self._last if self._expected is None else key_of(self._expected)
        now_s = self._clock()
        if place is None or (self._looked_s is not None and now_s - self._looked_s < _LOOK_S):
            return
        self._looked_s = now_s
        try:
            end = key_of(self._consumer.get_last_message_id()) if self._consumer.is_connected() else place
        except self._client.pulsar.PulsarException as error:
            log.debug("%s: the last message's id: %s", self._named, error)
            return
        if end[0] < 0 or end[:2] >= place[:2]:
            return  # nothing is there, as all was deleted that was read; or all is as it was
        ids = [":".join(map(str, key[:2])) for key in (place, end)]  # drives our own code
        self._lost(f"up to message {ids[0]}, and its last one is {ids[1]} now: {_MADE_AGAIN}")
        self._read_from_the_beginning()

    def acknowledged(self, position: Position) -> None:
        """The broker need not keep what lies before the last message that was read."""
        kind, text = position[:2]
        if kind != READ or self._consumer is None:
            return
        last = id_of(text)
        if last.entry_id() < 1:
            return
        before = self._client.pulsar.MessageId(last.partition(), last.ledger_id(), last.entry_id() - 1, -1)
        try:
            self._consumer.acknowledge_cumulative(before._msg_id)
        except self._client.pulsar.PulsarException as error:
            log.debug(
                "%s: an acknowledgement of %r is left to the next: %s", self._client.named, self._topic, error
            )

    def _acknowledge_at_times(self) -> None:
        every_s = self._reading.acknowledges_every_s
        if every_s is not None and self._clock() - self._acknowledged_s >= every_s:
            self._acknowledged_s = self._clock()
            self.acknowledged(self._place)

    def close(self) -> None:
        self._close_reader()
        if self._consumer is not None:
            with contextlib.suppress(self._client.pulsar.PulsarException):
                self._consumer.close()
            self._consumer = None
        self._closed()

    def _close_reader(self) -> None:
        if self._reader is not None:
            with contextlib.suppress(self._client.pulsar.PulsarException):
                self._reader.close()
            self._reader = None

    def _decoded(self, messages: list[Any]) -> tuple[list[Any], list[int]]:
        values, times = [], []
        decode = self._reading.schema.deserialize if self._whole is None else self._whole
        for message in messages:
            try:
                value = as_given(decode(value_of(message) if self._whole is None else self._record(message)))
            except Exception as error:
                raise self._unreadable(message, error) from error
            if value is not None:
                values.append(value)
                times.append(message.event_timestamp() or NO_TIMESTAMP)
        return values, times

    def _record(self, message: Any) -> PulsarMessage:
        return PulsarMessage(
            self._topic,
            message.message_id().serialize(),
            message.partition_key() or None,
            value_of(message),
            message.event_timestamp() or None,
            message.publish_timestamp(),
            message.properties(),
            message.producer_name(),
        )

    def _unreadable(self, message: Any, error: Exception) -> RefusedForGoodError:
        return unreadable(
            f"{self._client.named}: message {shown(message.message_id())} of {self._topic!r}",
            error,
            value_of(message),
            "Let the schema return None for messages that are to be left out",
        )


def value_of(message: Any) -> bytes | None:
    """The bytes of a message; None for one without a value."""
    return None if message.has_null_value() else message.data()
