"""Reading a queue: exactly once with correlation ids, at least once without.

A queue has no positions: what was acknowledged is gone, what was not comes again, perhaps in another order. So messages are
acknowledged when a checkpoint that covers them is durable, and not before. What a checkpoint needs besides is in the
position that it keeps: the correlation ids of messages that were read and may come again. After a restore they are dropped.

A position is ``{"reader": id, "read": messages}``: only the reader that gave it can go on from it. At a barrier
``"ids": [...]`` is added; another reader begins there. The position of a job that starts from nothing is ``{}``.

Invariants:
    * A message is acknowledged only when a checkpoint that covers it is durable; in a job without checkpoints, when it was
      handed to the job.
    * A message is part of the state of a checkpoint, or its id is not among the checkpoint's and it comes again.
    * An id is forgotten only some time after the broker has said that it has the acknowledgement: a broker that is killed
      forgets those that it has not written yet, and brings the messages again.
    * What was delivered and not read yet is bounded in messages and bytes.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from changelog_engine.clock import monotonic_s
from changelog_engine.config.options import CHECKPOINT_INTERVAL
from changelog_engine.connectors.packages import RABBITMQ
from changelog_engine.connectors.protocols import Position, Range, Source, Split, SplitReader
from changelog_engine.connectors.rabbitmq.link import Link, connected, declare
from changelog_engine.connectors.rabbitmq.options import ConnectionOptions
from changelog_engine.connectors.schemas import unreadable
from changelog_engine.errors import RefusedForGoodError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.types.copies import as_given
from changelog_engine.types.typeinfo import shown_bytes

log = logging.getLogger("changelog_engine")

_SPLIT = "queue"
_WAIT_S = 0.01
_DROPS_S = 0.2  # for which a read goes on when it has dropped all it was given
_NEXT_WINDOW_S = 0.1
_FIRST_WINDOW, _LARGEST_WINDOW = 4, 4_096
_WINDOW_BYTES = 32 << 20
_REMEMBERED_S = 10.0  # ids after their acknowledgement; a broker writes it within half a second
_REMEMBERED = 50_000  # and not more of them
# Ids of a checkpoint: the reader before may keep the messages until its connection ends
_RESTORED_S = 600.0


@dataclass(eq=False, repr=False)
class QueueSource(Source):
    """Reads one queue in one subtask."""

    parallel = False
    acknowledges = True
    replayable = False

    options: ConnectionOptions
    queue: str  # its name; a queue that is missing when the job starts is made, durable
    by_correlation_id: bool  # drop messages whose correlation id was read before
    schema: Any  # has ``deserialize(bytes)``, ``is_end_of_stream(element)`` and ``get_produced_type()``
    checkpoints: bool = True  # whether the job makes some
    made: bool = False  # whether the queue was missing when the program ran

    def __post_init__(self) -> None:
        RABBITMQ.load()
        self.output_type = self.schema.get_produced_type()

    def with_options(self, options: Mapping[str, str]) -> QueueSource:
        return replace(self, checkpoints=CHECKPOINT_INTERVAL.key in options)

    def check_before_start(self) -> None:
        """Raise when the broker cannot be reached or does not let us; make the queue if it is missing."""
        self.made = declare(self.options, self.queue)

    def splits(self, parallelism: int) -> list[Split]:
        return [Split(_SPLIT, {})]

    def reader(self, split: Split) -> QueueReader:
        return QueueReader(self)


class Message(NamedTuple):
    """A message as it was delivered."""

    tag: int
    redelivered: bool
    id: str | None
    body: bytes


class Delivery:
    """What the broker delivers: consumers of one link, one after the other.

    A consumer has credit for a window of messages. When they were all delivered and most were taken, the next consumer
    begins with credit of its own: however many messages wait for a checkpoint to be acknowledged, few wait to be read. Where
    the user has set a prefetch count, that is the credit, and it comes back by acknowledgements only.

    Args:
        options: where the broker is; the prefetch count.
        arrived: told of what arrives, and guards it.
    """

    def __init__(
        self, options: ConnectionOptions, link: Link, queue: str, arrived: threading.Condition
    ) -> None:
        self._options = options
        self._link = link
        self._queue = queue
        self._fixed = bool(options.prefetch_count)
        self._window = options.prefetch_count or _FIRST_WINDOW
        self._arrived = arrived
        self._messages: deque[Message] = deque()
        self._bytes = self._count = 0  # of all messages so far
        # Of the newest consumer:
        self._consumer = ""
        self._credit = 0  # what it may still be given
        self._first_tag: int | None = None
        self._acknowledged_tag = 0
        # What waits for the change to another consumer
        self._changing: list[Callable[[], None]] | None = None
        link.call(self._begin, f"reading queue {queue!r}")

    def _begin(self, answered: Callable[..., None]) -> None:
        self._link.channel.add_on_cancel_callback(self._cancelled)
        self._consume(answered)

    def _consume(self, answered: Callable[..., None] = lambda *_: None) -> None:
        """In the link's thread: begin a consumer, then end the one before: a queue may go with its last one.

        The one before has no credit left, and gets none by acknowledgements until it has ended: what it was given while it
        ends would go back into the queue, and out of order.
        """
        channel, before = self._link.channel, self._consumer
        self._consumer = after = f"changelog-engine-{uuid.uuid4().hex}"

        def ended(frame: Any = None) -> None:
            waiting, self._changing = self._changing or [], None
            for work in waiting:
                work()

        def begun(frame: Any) -> None:
            answered(frame)
            if before and channel.is_open:
                channel.basic_cancel(before, callback=ended)
            else:
                ended()

        def set_up(frame: Any) -> None:
            if channel.is_open:
                channel.basic_consume(self._queue, self._deliver, consumer_tag=after, callback=begun)

        if not channel.is_open:
            return
        self._changing = []
        with self._arrived:
            self._credit, self._first_tag = self._window, None
        channel.basic_qos(prefetch_count=self._window, callback=set_up)

    def _cancelled(self, frame: Any) -> None:
        self._link.refuse(
            f"reading queue {self._queue!r}",
            "the broker ended it: the queue was deleted, or moved to another node",
        )

    def _deliver(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        """In the link's thread."""
        if not self._count and "x-stream-offset" in (properties.headers or ()):
            self._link.refuse(
                f"reading queue {self._queue!r}",
                "it is a stream (x-queue-type), which keeps what was acknowledged: bind a queue to the exchange "
                "that fills it, and read that",
            )
            return
        message = Message(method.delivery_tag, method.redelivered, properties.correlation_id, body)
        with self._arrived:
            if self._first_tag is None:
                self._first_tag = self._acknowledged_tag = message.tag
                self._acknowledged_tag -= 1
            self._messages.append(message)
            self._credit -= 1
            self._count += 1
            self._bytes += len(body)
            self._arrived.notify_all()

    def take(self, most: int, wait_s: float) -> list[Message]:
        """The next messages, in the order of delivery."""
        messages = self._messages
        with self._arrived:
            if not messages:
                self._arrived.wait_for(lambda: messages or self._link.failed, wait_s)
            taken = [messages.popleft() for _ in range(min(most, len(messages)))]
            renews = not self._fixed and self._credit <= 0 and len(messages) <= self._window // 2
            if renews:
                most_of_size = max(1, _WINDOW_BYTES * self._count // max(1, self._bytes))
                self._window = min(_LARGEST_WINDOW, 2 * self._window, most_of_size)
                self._credit = self._window  # nobody else asks for the next consumer
        self._link.check()
        if renews:
            self._link.soon(self._consume)
        return taken

    def acknowledge(self, tag: int) -> None:
        """Acknowledge all messages up to one, and wait until the broker has read it."""

        def work(answered: Callable[..., None]) -> None:
            def acknowledged() -> None:
                self._acknowledge(tag)
                # A channel does one thing after the other: who has the answer to this has had the acknowledgement.
                self._link.channel.basic_qos(prefetch_count=self._window, callback=answered)

            self._in_order(acknowledged)

        self._link.call(work, "acknowledging messages")

    def acknowledge_soon(self, tag: int) -> None:
        """Acknowledge all messages up to one."""
        self._link.soon(lambda: self._in_order(lambda: self._acknowledge(tag)))

    def _in_order(self, work: Callable[[], None]) -> None:
        """In the link's thread: do it when no consumer is being changed for another."""
        if self._changing is None:
            work()
        else:
            self._changing.append(work)

    def _acknowledge(self, tag: int) -> None:
        self._link.channel.basic_ack(tag, multiple=True)
        with self._arrived:
            if self._first_tag is not None and tag > self._acknowledged_tag:
                self._credit += tag - self._acknowledged_tag
                self._acknowledged_tag = tag


class Remembered:
    """The correlation ids of messages that may come again.

    Those of a checkpoint are remembered until some time after the first message that nobody was given before: what was given
    to somebody and not acknowledged goes back to the head of the queue.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = monotonic_s) -> None:
        self._clock = clock
        self._unacknowledged: dict[str, None] = {}  # in the order in which they were read
        self._acknowledged: dict[str, float] = {}  # -> when it may be forgotten
        self._restored: dict[str, None] = {}
        self._restored_until: float | None = None

    def restore(self, ids: list[str]) -> None:
        """Those of a checkpoint."""
        self._restored.update(dict.fromkeys(ids))

    def is_new(self, message_id: str, redelivered: bool) -> bool:
        """Note the id of a message that was read; returns whether it is the first time."""
        if not redelivered and self._restored_until is None:
            self._restored_until = self._clock() + _RESTORED_S
        unacknowledged = self._unacknowledged
        if message_id in unacknowledged:
            return False
        known = message_id in self._restored or message_id in self._acknowledged
        if known:
            self._restored.pop(message_id, None)
            self._acknowledged.pop(message_id, None)
        unacknowledged[message_id] = None
        return not known

    def acknowledged(self) -> None:
        """The broker knows that all that was read is done."""
        until = self._clock() + _REMEMBERED_S
        self._acknowledged.update(dict.fromkeys(self._unacknowledged, until))
        self._unacknowledged = {}

    def all(self) -> list[str]:
        """For a checkpoint."""
        now, ids = self._clock(), self._acknowledged
        while ids and (len(ids) > _REMEMBERED or next(iter(ids.values())) <= now):
            del ids[next(iter(ids))]
        if self._restored_until is not None and self._restored_until <= now:
            self._restored.clear()
        return [*self._restored, *self._acknowledged, *self._unacknowledged]


class QueueReader(SplitReader):
    """Reads the queue."""

    def __init__(self, source: QueueSource) -> None:
        self._options = source.options
        self._queue = source.queue
        self._schema = source.schema
        self._is_end = hook_of(source.schema, "is_end_of_stream")
        self._checkpoints = source.checkpoints
        self._by_id = source.by_correlation_id and source.checkpoints
        self._id = uuid.uuid4().hex
        self._made = source.made
        self._stands = False
        self._read = 0
        self._last_tag = 0
        self._acknowledged_tag = 0
        self._remembered = Remembered()
        self._warned = False
        self._arrived = threading.Condition()
        self._link: Link | None = None
        self._delivery: Delivery | None = None

    def read(self, position: Position, max_records: int) -> Range:
        """A position behind the reader's own cannot be read again.

        Raises:
            ConnectorError: the broker is lost, or a message cannot be read.
        """
        self._stand_at(position)
        delivery = self._connected()
        values: list[Any] = []
        is_end, ended = self._is_end, False
        drops_until = monotonic_s() + _DROPS_S
        messages = delivery.take(max_records, _WAIT_S)
        while messages:
            for message in messages:
                self._read += 1
                self._last_tag = message.tag
                if self._by_id and not self._is_new(message):
                    continue
                value = self._decoded(message)
                if value is None:
                    continue
                if is_end is not None and is_end(value):
                    ended = True
                    break
                values.append(value)
            if values or ended or monotonic_s() >= drops_until:
                break
            # All were dropped. A job rests after an epoch without elements; it is not to rest after each known message.
            messages = delivery.take(max_records, _NEXT_WINDOW_S)
        if not self._checkpoints and self._last_tag > self._acknowledged_tag:
            delivery.acknowledge_soon(self._last_tag)
            self._acknowledged_tag = self._last_tag
        return Range(values, self._position(), ended)

    def at_barrier(self, position: Position) -> Position:
        """With the ids that a restore needs."""
        if not self._stands:  # nothing was read: it is what a checkpoint before had, or the start
            return position
        return {**self._position(), "ids": self._remembered.all()}

    def acknowledged(self, position: Position) -> None:
        """Let the broker forget what the checkpoint covers."""
        self._stand_at(position)
        if self._delivery is not None and self._last_tag > self._acknowledged_tag:
            self._delivery.acknowledge(self._last_tag)
            self._acknowledged_tag = self._last_tag
        self._remembered.acknowledged()

    def close(self) -> None:
        """What was not acknowledged is the next reader's."""
        if self._link is not None:
            self._link.close()

    def _position(self) -> dict[str, Any]:
        return {"reader": self._id, "read": self._read}

    def _stand_at(self, position: Position) -> None:
        if position.get("reader") == self._id:
            if position["read"] != self._read:
                raise RefusedForGoodError(
                    f"{self._options.where}: queue {self._queue!r} cannot be read again from message {position['read']} of "
                    f"this reader, which stands at {self._read}: a queue has no positions"
                )
            return
        if self._stands or (position and "ids" not in position):
            raise RefusedForGoodError(
                f"{self._options.where}: queue {self._queue!r} cannot be read from the position of another reader that no "
                "checkpoint has kept"
            )
        if position and self._made:
            log.warning(
                "%s: queue %r, which the job's checkpoint has read, was not there, and was made anew: the queue was "
                "deleted, or the broker has lost its storage, and what waited in the queue with it",
                self._options.where,
                self._queue,
            )
        if self._by_id:
            self._remembered.restore(position.get("ids", []))
        self._stands = True

    def _connected(self) -> Delivery:
        if self._delivery is None:
            self._link = connected(self._options, self._arrived)
            self._delivery = Delivery(self._options, self._link, self._queue, self._arrived)
        return self._delivery

    def _is_new(self, message: Message) -> bool:
        if message.id is None:
            raise RefusedForGoodError(
                f"{self._options.where}: a message of queue {self._queue!r} has no correlation id, and RMQSource was given "
                f"use_correlation_id=True. It is {shown_bytes(message.body)}. Let the producer set one, which no other "
                "message has, or give use_correlation_id=False (at least once)"
            )
        new = self._remembered.is_new(message.id, message.redelivered)
        if not new and not message.redelivered and not self._warned:
            self._warned = True
            log.warning(
                "%s: queue %r: the message with correlation id %r was sent twice, and is left out the second time; more of "
                "them are left out without a word. Correlation ids must be unique",
                self._options.where,
                self._queue,
                message.id,
            )
        return new

    def _decoded(self, message: Message) -> Any:
        try:
            return as_given(self._schema.deserialize(message.body))
        except Exception as error:
            named = "" if message.id is None else f" with correlation id {message.id!r}"
            raise unreadable(
                f"{self._options.where}: a message{named} of queue {self._queue!r}",
                error,
                message.body,
                "It stays in the queue; let the schema return None for such messages, or take it out of the queue",
            ) from error
