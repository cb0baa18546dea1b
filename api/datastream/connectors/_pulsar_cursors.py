"""StartCursor and StopCursor: where reading a Pulsar topic begins and ends."""

from __future__ import annotations

from changelog_engine.connectors.pulsar import CursorKind, StartPosition, Stop
from changelog_engine.errors import ArgumentTypeError

from ... import _arguments
from ._pulsar_options import LONGEST_MS


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
    return _arguments.whole_number(timestamp, f"{what}: timestamp", 0, LONGEST_MS)


def _message_id(message_id: bytes, what: str) -> bytes:
    if not isinstance(message_id, bytes):
        raise ArgumentTypeError(
            f"{what}: message_id must be bytes, as MessageId.serialize() returns them, got {message_id!r}"
        )
    return message_id
