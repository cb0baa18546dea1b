"""Where reading a partition begins, goes on and ends.

A position is ``[kind, message id, stop]``, with ids as hexadecimal text:

* ``earliest``: the oldest message there is;
* ``from``: the message with this id, and what follows;
* ``after``: what follows the message with this id;
* ``read``: the same, and the job has read that message: it must still be there. A checkpoint adds when it was published, in
  ms: another message under that id is another topic's.

A stop is None, ``["nothing"]`` when the partition was empty, ``["id", id, inclusive]``, or the time in ms at which the first
message that is so late ends it: ``["event" or "publish", ms, inclusive]``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from changelog_engine.connectors.packages import PULSAR
from changelog_engine.errors import ConfigurationError

EARLIEST, FROM, AFTER, READ = "earliest", "from", "after", "read"
NOTHING, ID, EVENT, PUBLISH = "nothing", "id", "event", "publish"
Key = tuple[int, int, int]
_LATEST = 2**63 - 1


class CursorKind(Enum):
    """What a cursor goes by."""

    EARLIEST = "earliest"
    LATEST = "latest"
    MESSAGE_ID = "message id"
    EVENT_TIME = "event time"
    PUBLISH_TIME = "publish time"
    NEVER = "never"


@dataclass(frozen=True)
class StartPosition:
    """Where reading begins when the job starts from nothing."""

    at: CursorKind = CursorKind.EARLIEST  # EARLIEST, LATEST, MESSAGE_ID or PUBLISH_TIME
    message_id: bytes = b""  # as Pulsar's client serializes it
    time_ms: int = 0
    inclusive: bool = True  # whether the message with the id is read

    def resolved(self, what: str) -> StartPosition:
        """This one, with ids that stand for an end of the topic named as such.

        Raises:
            ConfigurationError: the id is not one.
        """
        return replace(self, at=_end_of(self.at, self.message_id, what))


@dataclass(frozen=True)
class Stop:
    """Where reading ends."""

    at: CursorKind = CursorKind.NEVER  # NEVER, LATEST, MESSAGE_ID, EVENT_TIME or PUBLISH_TIME
    message_id: bytes = b""
    time_ms: int = 0  # the event time or publish time
    inclusive: bool = True  # whether messages with this very id or time are read

    def resolved(self, what: str) -> Stop:
        """As `StartPosition.resolved`.

        Raises:
            ConfigurationError: the id is not one, or stands for the beginning.
        """
        at = _end_of(self.at, self.message_id, what)
        if at is CursorKind.EARLIEST:
            raise ConfigurationError(f"{what}: a stop cursor cannot be at MessageId.earliest")
        return replace(self, at=at)

    def of(self, last: Any) -> list[Any] | None:
        """The stop of a partition.

        Args:
            last: the partition's last message id; None when it is empty.
        """
        if self.at is CursorKind.NEVER:
            return None
        if self.at is CursorKind.LATEST:
            return [NOTHING] if last is None else [ID, last.serialize().hex(), self.inclusive]
        if self.at is CursorKind.MESSAGE_ID:
            return [ID, self.message_id.hex(), self.inclusive]
        return [EVENT if self.at is CursorKind.EVENT_TIME else PUBLISH, self.time_ms, self.inclusive]


def _end_of(at: CursorKind, message_id: bytes, what: str) -> CursorKind:
    if at is not CursorKind.MESSAGE_ID:
        return at
    # Pulsar's client writes to the standard error when it cannot read an id; every id begins with the ledger's field.
    try:
        if message_id[:1] != b"\x08":
            raise ValueError
        ledger = PULSAR.load().MessageId.deserialize(message_id).ledger_id()
    except ValueError:
        raise ConfigurationError(
            f"{what}: {message_id!r} is not a message id: give what MessageId.serialize() of Pulsar's client returns"
        ) from None
    return CursorKind.EARLIEST if ledger == -1 else CursorKind.LATEST if ledger == _LATEST else at


def key_of(message_id: Any) -> Key:
    """What orders the ids of a partition."""
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


def id_of(text: str) -> Any:
    """The message id of a position."""
    return PULSAR.load().MessageId.deserialize(bytes.fromhex(text))


def shown(message_id: Any) -> str:
    """A message id as Pulsar's tools write it."""
    ledger, entry, index = key_of(message_id)
    return f"{ledger}:{entry}" if index < 0 else f"{ledger}:{entry}:{index}"
