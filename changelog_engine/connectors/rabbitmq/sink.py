"""Writing to a queue: at least once.

Invariants:
    * An epoch ends only when the broker has confirmed its messages: it has them, on its disk if the queue is durable.
    * A message that no queue takes, or that the broker refuses, fails the job.
    * What is on its way and not confirmed is bounded, and so is the time for which the broker confirms nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.packages import RABBITMQ
from changelog_engine.connectors.protocols import Sink, SinkWriter
from changelog_engine.connectors.rabbitmq.link import ANSWER_TIMEOUT_S, GONE, connected, declare, failure
from changelog_engine.connectors.rabbitmq.options import ConnectionOptions
from changelog_engine.connectors.schemas import unwritable
from changelog_engine.connectors.still_ours import check_still_ours
from changelog_engine.errors import RefusedForGoodError

log = logging.getLogger("changelog_engine")

_PERSISTENT = 2
_BATCH = 500
_BATCH_BYTES = 1 << 20
_LARGEST_ON_THE_WAY = 10_000
_LARGEST_BYTES_ON_THE_WAY = 32 << 20
_LOOK_S = 1.0


@dataclass(eq=False, repr=False)
class QueueSink(Sink):
    """Writes elements to a queue, by the default exchange."""

    options: ConnectionOptions
    queue: str  # its name; a queue that is missing when the job starts is made, durable
    schema: Any  # has ``serialize(element)``

    def __post_init__(self) -> None:
        RABBITMQ.load()

    def check_before_start(self) -> None:
        """Raise when the broker cannot be reached or does not let us; make the queue if it is missing."""
        declare(self.options, self.queue)

    def writer(self, subtask: int, parallelism: int) -> QueueWriter:
        return QueueWriter(self)


class QueueWriter(SinkWriter):
    """Writes one subtask's elements."""

    def __init__(self, sink: QueueSink) -> None:
        self._options = sink.options
        self._queue = sink.queue
        self._serialize = sink.schema.serialize
        self._changed = threading.Condition()
        self._on_the_way: dict[int, int] = {}  # delivery tag -> bytes
        self._bytes_on_the_way = 0
        self._published = 0
        self._properties = RABBITMQ.load().BasicProperties(delivery_mode=_PERSISTENT)
        self._link = connected(sink.options, self._changed)
        try:
            self._link.call(self._begin, "asking for confirmations")
        except BaseException:
            self._link.close()
            raise

    def _begin(self, answered: Any) -> None:
        channel = self._link.channel
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._confirmed, callback=answered)

    def write(self, values: Sequence[Any]) -> None:
        bodies: list[bytes] = []
        size = 0
        for value in values:
            body = self._serialize(value)
            if not isinstance(body, (bytes, bytearray)):
                raise unwritable("RMQSink: the serialization schema", body, value)
            bodies.append(bytes(body))
            size += len(body)
            if len(bodies) >= _BATCH or size >= _BATCH_BYTES:
                self._publish(bodies, size)
                bodies, size = [], 0
        if bodies:
            self._publish(bodies, size)

    def _publish(self, bodies: list[bytes], size: int) -> None:
        self._wait(_LARGEST_ON_THE_WAY, _LARGEST_BYTES_ON_THE_WAY)
        check_still_ours()
        with self._changed:
            for body in bodies:
                self._published += 1
                self._on_the_way[self._published] = len(body)
            self._bytes_on_the_way += size
        self._link.soon(lambda: self._send(bodies))

    def _send(self, bodies: list[bytes]) -> None:
        publish, queue, properties = self._link.channel.basic_publish, self._queue, self._properties
        for body in bodies:
            publish("", queue, body, properties, mandatory=True)

    def _confirmed(self, frame: Any) -> None:
        """In the link's thread: the broker has, or refuses, a message or all up to it."""
        method = frame.method
        if method.NAME != "Basic.Ack":
            self._link.refuse(
                f"writing to queue {self._queue!r}",
                "the broker refused a message (a queue with a limit and x-overflow reject-publish is full, or the "
                "broker could not store it)",
            )
            return
        tag = method.delivery_tag
        with self._changed:
            waiting = self._on_the_way
            done = _up_to(tag, waiting) if method.multiple else [tag]
            for one in done:
                self._bytes_on_the_way -= waiting.pop(one, 0)
            self._changed.notify_all()

    def _returned(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        why = (
            f"the broker cannot deliver: {method.reply_code} {method.reply_text}. There is no such queue: {GONE}. The "
            "program makes it when it is started again"
        )
        self._link.fail(
            RefusedForGoodError(str(failure(self._options, f"writing to queue {self._queue!r}", why)))
        )

    def _wait(self, most: int, most_bytes: int) -> None:
        """Wait until no more than this is in flight, while the broker confirms anything or says why it does not."""
        with self._changed:
            patience, left = monotonic_s() + ANSWER_TIMEOUT_S, len(self._on_the_way)
            while True:
                self._link.check()
                if len(self._on_the_way) <= most and self._bytes_on_the_way <= most_bytes:
                    return
                now = monotonic_s()
                if len(self._on_the_way) < left or self._link.blocked is not None:  # that has its own timeout
                    patience, left = now + ANSWER_TIMEOUT_S, len(self._on_the_way)
                elif now >= patience:
                    raise failure(
                        self._options,
                        f"writing to queue {self._queue!r}",
                        f"the broker has confirmed none of {left} messages for {ANSWER_TIMEOUT_S:.0f} s. Its log says what "
                        "it waits for: a slow disk, or too few of a quorum queue's members",
                    )
                self._changed.wait(_LOOK_S)

    def flush(self) -> None:
        self._wait(0, 0)

    def close(self) -> None:
        self._link.close()


def _up_to(tag: int, waiting: Iterable[int]) -> list[int]:
    """The tags up to one: they rise, so these come first."""
    found: list[int] = []
    for each in waiting:
        if each > tag:
            break
        found.append(each)
    return found
