"""StartCursor and StopCursor: where reading a Pulsar topic begins and ends."""

from __future__ import annotations

from typing import Annotated, Any

from changelog_engine.connectors.pulsar import CursorKind, StartPosition, Stop
from changelog_engine.errors import ArgumentTypeError

from ..._arguments import MadeBy, Whole, checked
from ._pulsar_options import LONGEST_MS

_METHODS = "its static methods, such as {}.latest()"


def _id_of_a_message(value: Any, what: str) -> bytes:
    if not isinstance(value, bytes):
        raise ArgumentTypeError(f"{what} must be bytes, as MessageId.serialize() returns them, got {value!r}")
    return value


_MessageId = Annotated[bytes, _id_of_a_message]
_Time = Annotated[int, Whole(0, LONGEST_MS)]


@checked
class StartCursor:
    """Where reading begins when the job starts from nothing; made by its static methods.

    Each partition's place is looked up once, on the driver; a restore goes on where its checkpoint is.
    """

    def __init__(self, start: Annotated[StartPosition, MadeBy(_METHODS.format("StartCursor"))]) -> None:
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
    def from_message_id(message_id: _MessageId, inclusive: bool = True) -> StartCursor:
        """A message.

        Args:
            message_id: what ``MessageId.serialize()`` of Pulsar's client returns; it applies to every partition.
            inclusive: whether this message is read.
        """
        return StartCursor(StartPosition(CursorKind.MESSAGE_ID, message_id, inclusive=inclusive))

    @staticmethod
    def from_publish_time(timestamp: _Time) -> StartCursor:
        """The first message that was published then or later; the end where there is none.

        Args:
            timestamp: ms.
        """
        return StartCursor(StartPosition(CursorKind.PUBLISH_TIME, time_ms=timestamp))


@checked
class StopCursor:
    """Where reading a partition ends; made by its static methods."""

    def __init__(self, stop: Annotated[Stop, MadeBy(_METHODS.format("StopCursor"))]) -> None:
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
    def at_event_time(timestamp: _Time) -> StopCursor:
        """The first message whose event time is this or later; it is not read.

        Args:
            timestamp: ms.
        """
        return StopCursor(Stop(CursorKind.EVENT_TIME, time_ms=timestamp, inclusive=False))

    @staticmethod
    def after_event_time(timestamp: _Time) -> StopCursor:
        """The first message whose event time is later; it is not read.

        Args:
            timestamp: ms.
        """
        return StopCursor(Stop(CursorKind.EVENT_TIME, time_ms=timestamp, inclusive=True))

    @staticmethod
    def at_publish_time(timestamp: _Time) -> StopCursor:
        """The first message that was published then or later; it is not read.

        Args:
            timestamp: ms.
        """
        return StopCursor(Stop(CursorKind.PUBLISH_TIME, time_ms=timestamp, inclusive=False))

    @staticmethod
    def after_publish_time(timestamp: _Time) -> StopCursor:
        """The first message that was published later; it is not read.

        Args:
            timestamp: ms.
        """
        return StopCursor(Stop(CursorKind.PUBLISH_TIME, time_ms=timestamp, inclusive=True))

    @staticmethod
    def at_message_id(message_id: _MessageId) -> StopCursor:
        """This message; it is not read.

        Args:
            message_id: what ``MessageId.serialize()`` of Pulsar's client returns.
        """
        return StopCursor(Stop(CursorKind.MESSAGE_ID, message_id, inclusive=False))

    @staticmethod
    def after_message_id(message_id: _MessageId) -> StopCursor:
        """Behind this message, which is read.

        Args:
            message_id: what ``MessageId.serialize()`` of Pulsar's client returns.
        """
        return StopCursor(Stop(CursorKind.MESSAGE_ID, message_id))
