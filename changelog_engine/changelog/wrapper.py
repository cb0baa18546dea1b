"""Change logging round any state backend: the same handles, which log before they change a table.

Invariants:
    * The wrapped backend is not edited: logging handles work on its tables.
    * Every mutation path is logged; reads are not.

``LoggingCell.update`` and ``LoggingMap.put`` run once per record in many jobs. Keep them free of what isn't needed.
"""

from __future__ import annotations

from typing import Any

from changelog_engine.changelog import rows
from changelog_engine.changelog.buffer import ChangelogBuffer, StateLog
from changelog_engine.codec.values import CLEARED, codec_for
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state.backend import Cursor, NamespaceScope, StateBackend, StateTable
from changelog_engine.state.handles import Admission, CellHandle, CopyingCellHandle, ListHandle, MapHandle
from changelog_engine.state.heap import shaped
from changelog_engine.state.timers import TimerQueue
from changelog_engine.types import TypeInformation


class LoggingCell(CellHandle):
    """A cell of immutable values that logs."""

    def __init__(self, table: StateTable, cursor: Cursor, admission: Admission, log: StateLog) -> None:
        super().__init__(table, cursor, admission)
        self._log_key = log.keys.append
        self._log_value = log.values.append

    def update(self, value: Any) -> None:
        if type(value) is not self._exact:
            if value is None:
                self.clear()
                return
            if self._plain is None or not self._plain(value):
                value = self._admission.admit(value)
        key = self._cursor.key
        self._log_key(key)
        self._log_value(value)
        self._table[key] = value

    def clear(self) -> None:
        key = self._cursor.key
        if self._get(key) is not None:
            self._log_key(key)
            self._log_value(CLEARED)
            self._table.pop(key, None)


class TimedLoggingCell(LoggingCell):
    """A logging cell in a stream with timestamps: it logs the element's timestamp too."""

    def __init__(self, table: StateTable, cursor: Cursor, admission: Admission, log: StateLog) -> None:
        super().__init__(table, cursor, admission, log)
        assert log.times is not None
        self._log_time = log.times.append

    def update(self, value: Any) -> None:
        if type(value) is not self._exact:
            if value is None:
                self.clear()
                return
            if self._plain is None or not self._plain(value):
                value = self._admission.admit(value)
        cursor = self._cursor
        key = cursor.key
        self._log_key(key)
        self._log_value(value)
        self._log_time(cursor.timestamp)
        self._table[key] = value

    def clear(self) -> None:
        cursor = self._cursor
        key = cursor.key
        if self._get(key) is not None:
            self._log_key(key)
            self._log_value(CLEARED)
            self._log_time(cursor.timestamp)
            self._table.pop(key, None)


class LoggingCopyingCell(CopyingCellHandle):
    """A cell of mutable values that logs: each value is encoded when it is set."""

    def __init__(self, table: StateTable, cursor: Cursor, admission: Admission, log: StateLog) -> None:
        super().__init__(table, cursor, admission)
        self._log = log
        self._encode = codec_for(admission.type).encode

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        value = self._admission.admit(value)
        encoded = self._encode(value)
        copied = self._admission.copy(value)
        record(self._log, self._cursor, encoded)
        self._table[self._cursor.key] = copied

    def clear(self) -> None:
        if self._get(self._cursor.key) is not None:
            record(self._log, self._cursor, CLEARED)
            super().clear()


class LoggingList(ListHandle):
    """A list that logs one mutation per element: ``append``, or ``replace`` (the list becomes just this element)."""

    def __init__(self, table: StateTable, cursor: Cursor, admission: Admission, log: StateLog) -> None:
        super().__init__(table, cursor, admission)
        self._log = log
        self._freeze = codec_for(admission.type).encode if admission.mutable else None

    def _append(self, values: list[Any]) -> None:
        self._log_elements(values, rows.APPEND)
        super()._append(values)

    def _replace(self, values: list[Any]) -> None:
        self._log_elements(values, rows.REPLACE)
        super()._replace(values)

    def _log_elements(self, values: list[Any], operation: str) -> None:
        freeze = self._freeze
        frozen = values if freeze is None else [freeze(value) for value in values]
        for value in frozen:
            record(self._log, self._cursor, value, operation)
            operation = rows.APPEND

    def clear(self) -> None:
        if self._table.get(self._cursor.key) is not None:
            record(self._log, self._cursor, CLEARED, rows.CLEAR)
            super().clear()


class LoggingMap(MapHandle):
    """A map that logs one mutation per map key."""

    def __init__(self, table: StateTable, cursor: Cursor, admission: Admission, log: StateLog) -> None:
        super().__init__(table, cursor, admission)
        assert log.map_keys is not None
        assert log.operations is not None
        self._log = log
        self._freeze = codec_for(admission.type).encode if admission.mutable else None
        self._exact_value = None if admission.mutable else admission.exact
        self._log_key, self._log_value = log.keys.append, log.values.append
        self._log_map_key, self._log_operation = log.map_keys.append, log.operations.append
        self._log_time = None if log.times is None else log.times.append

    def put(self, map_key: Any, value: Any) -> None:
        if type(map_key) is not self._exact_key or type(value) is not self._exact_value:
            super().put(map_key, value)
            return
        # The short way of what super() does with plain keys and values.
        cursor, table = self._cursor, self._table
        key = cursor.key
        self._log_key(key)
        self._log_map_key(map_key)
        self._log_value(value)
        self._log_operation(rows.PUT)
        if self._log_time is not None:
            self._log_time(cursor.timestamp)
        entry = table.get(key)
        if entry is None:
            entry = {}
        entry[map_key] = value
        table[key] = entry

    __setitem__ = put

    def _put(self, identity: Any, value: Any) -> None:
        frozen = value if self._freeze is None else self._freeze(value)
        self._record(identity, frozen, rows.PUT)
        super()._put(identity, value)

    def _remove(self, identity: Any, entry: dict[Any, Any]) -> None:
        self._record(identity, CLEARED, rows.REMOVE)
        super()._remove(identity, entry)

    def clear(self) -> None:
        if self._table.get(self._cursor.key) is not None:
            self._record(CLEARED, CLEARED, rows.CLEAR)
            super().clear()

    def _record(self, identity: Any, value: Any, operation: str) -> None:
        self._log_key(self._cursor.key)
        self._log_map_key(identity)
        self._log_value(value)
        self._log_operation(operation)
        if self._log_time is not None:
            self._log_time(self._cursor.timestamp)


class LoggingTimers(TimerQueue):
    """A timer queue that logs."""

    def __init__(self, cursor: Cursor, log: StateLog) -> None:
        super().__init__(cursor)
        assert log.operations is not None
        self._log = log
        self._log_key, self._log_value = log.keys.append, log.values.append
        self._log_operation = log.operations.append
        self._log_time = None if log.times is None else log.times.append

    def register(self, timestamp: int) -> None:
        timer = (timestamp, self._cursor.key)
        if timer not in self.live:
            self._record(timer, rows.REGISTER_TIMER)
            self.add(*timer)

    def delete(self, timestamp: int) -> None:
        timer = (timestamp, self._cursor.key)
        if timer in self.live:
            self._record(timer, rows.DELETE_TIMER)
            del self.live[timer]

    def _taking(self, due: list[tuple[int, Any]]) -> None:
        log = self._log
        timestamps = [timestamp for timestamp, _ in due]
        log.keys.extend([key for _, key in due])
        log.values.extend(timestamps)
        if log.operations is not None:
            log.operations.extend([rows.DELETE_TIMER] * len(due))
        if log.times is not None:
            log.times.extend(timestamps)

    def _record(self, timer: tuple[int, Any], operation: str) -> None:
        self._log_key(timer[1])
        self._log_value(timer[0])
        self._log_operation(operation)
        if self._log_time is not None:
            self._log_time(self._cursor.timestamp)


def record(log: StateLog, cursor: Cursor, value: Any, operation: str | None = None) -> None:
    """Append one mutation of the current key to a log."""
    log.keys.append(cursor.key)
    log.values.append(value)
    if log.operations is not None and operation is not None:
        log.operations.append(operation)
    if log.times is not None:
        log.times.append(cursor.timestamp)


class ChangelogBackend:
    """A state backend that logs every mutation of the one it wraps.

    Args:
        inner: the backend that keeps the tables.
        buffer: where mutations wait for their part.
    """

    def __init__(self, inner: StateBackend, buffer: ChangelogBuffer) -> None:
        self.inner = inner
        self.buffer = buffer
        self.cursor = inner.cursor

    def state(
        self,
        operator: str,
        spec: StateSpec,
        key_type: TypeInformation | None,
        scope: NamespaceScope | None = None,
    ) -> Any:
        """See StateBackend."""
        cursor, namespaces = (self.cursor, None) if scope is None else scope
        table = self.inner.table(operator, spec.name, spec.kind)
        log = self.buffer.log_of(operator, spec, namespaces)
        admission = Admission(operator, spec, cursor)
        if spec.kind is StateKind.LIST:
            return LoggingList(table, cursor, admission, log)
        if spec.kind is StateKind.MAP:
            return LoggingMap(table, cursor, admission, log)
        if admission.mutable:
            return shaped(LoggingCopyingCell(table, cursor, admission, log), spec, admission)
        cell = LoggingCell if log.times is None else TimedLoggingCell
        return shaped(cell(table, cursor, admission, log), spec, admission)

    def timers(
        self,
        operator: str,
        domain: str,
        key_type: TypeInformation | None,
        scope: NamespaceScope | None = None,
    ) -> TimerQueue:
        """See StateBackend."""
        cursor, namespaces = (self.cursor, None) if scope is None else scope
        queues = self.inner.queues
        if (operator, domain) not in queues:
            log = self.buffer.timer_log(operator, domain, namespaces)
            queues[operator, domain] = LoggingTimers(cursor, log)
        queue: TimerQueue = queues[operator, domain]
        return queue

    def end_epoch(self) -> None:
        """See StateBackend."""
        self.inner.end_epoch()

    def close(self) -> None:
        """See StateBackend."""
        self.inner.close()
