"""Timers of one operator in one time domain, as operators and timer services use them: a timer table, and its log.

Invariants:
    * A timer exists once per key and timestamp, however often it is registered.
    * Due timers come out by timestamp, then in the order of registration, which the changelog keeps: the same after a
      restore as before.
    * A mutation is in its log before the table changes. What comes between the two where a function sets or deletes a timer,
      the guard knows.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop
from typing import Any

from changelog_engine.state.cursor import Cursor
from changelog_engine.state.guarded import FailureGuard
from changelog_engine.state.handles_in_c import CALLS, parts_of_log
from changelog_engine.state.mutation_log import DELETE_TIMER, REGISTER_TIMER, MutationLog
from changelog_engine.state.timer_table import HeapTimers, Timer, TimerTable

_LEAST_MS, _MOST_MS = -(2**63), 2**63 - 1


class TimeDomain(enum.Enum):
    """Which clock a timer that fires follows.

    EVENT_TIME is that of the watermarks, PROCESSING_TIME that of the machine.
    """

    EVENT_TIME = 0
    PROCESSING_TIME = 1


def of_whole_ms(action: Callable[[int], None], whole_ms: Callable[[Any], int]) -> Callable[[Any], None]:
    """An action of a queue for timestamps of users' functions.

    Args:
        action: takes a 64-bit int.
        whole_ms: makes one of whatever else a timestamp may be, or raises.
    """

    def act(timestamp: Any) -> None:
        if type(timestamp) is not int or not _LEAST_MS <= timestamp <= _MOST_MS:
            timestamp = whole_ms(timestamp)
        action(timestamp)

    return act


def _in_c(
    kind: str,
    operation: str,
    reference: Callable[[Any], Any],
    table: HeapTimers,
    cursor: Cursor,
    log: MutationLog | None,
    guard: FailureGuard,
) -> Callable[[Any], Any]:
    """A function in C for one in Python, where there is one."""
    if CALLS is None:
        return reference
    names: dict[str, Any] = {"table": table, "cursor": cursor, "add": table.add, "added": table.added}
    names["guard"] = guard
    names |= {"first_operation": operation, "next_operation": operation}
    names |= parts_of_log(log)
    found: Callable[[Any], Any] = CALLS.call_of(kind, reference, names, None)
    return found


def _taker(
    table: HeapTimers, cursor: Cursor, log: MutationLog | None, guard: FailureGuard
) -> Callable[[Timer], bool]:
    """Takes a timer of those that fire off the table, and moves the cursor to it; False if it was deleted meanwhile."""
    get = table.get

    def take(timer: Timer) -> bool:
        if get(timer) != 0:
            return False
        cursor.timestamp, cursor.key = timestamp, key = timer
        if log is not None:
            log.record(key, timestamp, DELETE_TIMER, timestamp)
        del table[timer]
        return True

    return _in_c("timer_take", DELETE_TIMER, take, table, cursor, log, guard)


class TimerQueue:
    """Pending timers.

    Args:
        log: of the timers; None logs nothing.
        guard: remembers what came in the middle of a change; None for one that nobody asks.
    """

    def __init__(
        self,
        table: TimerTable,
        cursor: Cursor,
        log: MutationLog | None = None,
        guard: FailureGuard | None = None,
    ) -> None:
        self.guard = FailureGuard() if guard is None else guard
        self.table = table
        self._cursor = cursor
        self._log = log
        self._is_set, self._add, self._remove = table.__contains__, table.add, table.remove
        self._first = table.first
        self._take_fired = _taker(table, cursor, log, self.guard) if type(table) is HeapTimers else None

    def register(self, timestamp: int) -> None:
        """Set a timer for the current key."""
        timer = (timestamp, self._cursor.key)
        if self._is_set(timer):
            return
        try:
            self._record(timer, REGISTER_TIMER)
            self._add(timer)
        except BaseException as error:
            self.guard.unfinished = error
            raise

    def setter(self, whole_ms: Callable[[Any], int]) -> Callable[[Any], None]:
        """``register`` as users' functions call it: in C where the table allows, since it comes with each record.

        Args:
            whole_ms: as of ``of_whole_ms``.
        """
        reference = of_whole_ms(self.register, whole_ms)
        if type(self.table) is not HeapTimers:
            return reference
        return _in_c("timer_set", REGISTER_TIMER, reference, self.table, self._cursor, self._log, self.guard)

    def delete(self, timestamp: int) -> None:
        """Remove the current key's timer, if it is set."""
        timer = (timestamp, self._cursor.key)
        if not self._is_set(timer):
            return
        try:
            self._record(timer, DELETE_TIMER)
            self._remove(timer)
        except BaseException as error:
            self.guard.unfinished = error
            raise

    def move(self, timer: Timer, to: Timer) -> None:
        """Set a timer, and remove another one, as two calls of ``register`` and ``delete`` would at the keys of both."""
        if not self._is_set(to):
            self._record(to, REGISTER_TIMER)
            self._add(to)
        if self._is_set(timer):
            self._record(timer, DELETE_TIMER)
            self._remove(timer)

    def next_timestamp(self) -> int | None:
        """The earliest pending timestamp, or None."""
        timer = self._first()
        return None if timer is None else timer[0]

    def pop_due(self, until: int) -> Timer | None:
        """Take the earliest timer at or before a time off the queue; the cursor moves to its key and timestamp."""
        timer = self._first()
        if timer is None or timer[0] > until:
            return None
        self._take(timer)
        return timer

    def firing(self, until: int, told: Callable[[int], None] | None = None) -> Iterator[Timer]:
        """Take the timers at or before a time off the queue one by one, those included that are set meanwhile.

        Args:
            until: ms.
            told: is called once, with the time of the last one, where so many were set meanwhile that they may have no end:
                100,000, and 100 for each timer that was there. Of tables on the heap only.

        Returns:
            What ``pop_due`` would give, call by call; the cursor moves to each. Nothing else may ask what is due meanwhile.
        """
        if type(self.table) is HeapTimers:
            return self._firing(self.table, until, told)
        return iter(partial(self.pop_due, until), None)  # drives our own code

    def _firing(self, table: HeapTimers, until: int, told: Callable[[int], None] | None) -> Iterator[Timer]:
        get, soon, take = table.get, table.soon, self._take_fired
        assert take is not None
        rest = table.begin_firing(until, told)
        try:
            for timer in rest:
                if soon and soon[0][0] < timer[0]:
                    table.waiting = timer
                    while soon and soon[0][0] < timer[0]:
                        _, number, early = heappop(soon)
                        if get(early) == number:
                            self._take(early)
                            yield early
                    table.waiting = None
                if take(timer):
                    yield timer
            while soon:
                _, number, timer = heappop(soon)
                if get(timer) == number:
                    self._take(timer)
                    yield timer
        finally:
            table.end_firing(rest)

    def _take(self, timer: Timer) -> None:
        """Take a timer off the queue, and move the cursor to it."""
        self._cursor.timestamp, self._cursor.key = timer
        self._record(timer, DELETE_TIMER)
        self._remove(timer)

    def take_due(self, until: int) -> list[Timer]:
        """Take all timers at or before a time off the queue, for a caller that sets and deletes none while they fire.

        Args:
            until: ms.

        Returns:
            (timestamp, key) in the order in which ``pop_due`` would give them; the cursor stays where it is.
        """
        due = self.table.due(until)
        log = self._log
        if log is not None:
            timestamps = [timestamp for timestamp, _ in due]
            log.keys.extend([key for _, key in due])
            log.values.extend(timestamps)
            if log.operations is not None:
                log.operations.extend([DELETE_TIMER] * len(due))
            if log.times is not None:
                log.times.extend(timestamps)
        self.table.remove_due(due)
        return due

    def _record(self, timer: Timer, operation: str) -> None:
        if self._log is not None:
            self._log.record(timer[1], timer[0], operation, self._cursor.timestamp)


class NetTimerQueue(TimerQueue):
    """Pending timers with a log of net changes: one that is set and goes before the log is written is not in it.

    Args as `TimerQueue`; the log has net changes.
    """

    _log: MutationLog

    def __init__(
        self, table: TimerTable, cursor: Cursor, log: MutationLog, guard: FailureGuard | None = None
    ) -> None:
        super().__init__(table, cursor, log, guard)
        assert log.fresh is not None
        self._fresh = log.fresh

    def setter(self, whole_ms: Callable[[Any], int]) -> Callable[[Any], None]:
        return of_whole_ms(self.register, whole_ms)

    def register(self, timestamp: int) -> None:
        cursor = self._cursor
        timer = (timestamp, cursor.key)
        if self._is_set(timer):
            return
        try:
            self._fresh[timer] = cursor.timestamp
            self._add(timer)
        except BaseException as error:
            self.guard.unfinished = error
            raise

    def move(self, timer: Timer, to: Timer) -> None:
        if not self._is_set(to):
            self._fresh[to] = self._cursor.timestamp
            self._add(to)
        if self._is_set(timer):
            if self._fresh.pop(timer, None) is None:
                super()._record(timer, DELETE_TIMER)
            self._remove(timer)

    def firing(self, until: int, told: Callable[[int], None] | None = None) -> Iterator[Timer]:
        return iter(partial(self.pop_due, until), None)  # drives our own code

    def take_due(self, until: int) -> list[Timer]:
        due = self.table.due(until)
        for timer in due:
            if self._fresh.pop(timer, None) is None:
                self._log.record(timer[1], timer[0], DELETE_TIMER, timer[0])
        self.table.remove_due(due)
        return due

    def _record(self, timer: Timer, operation: str) -> None:
        if operation == DELETE_TIMER and self._fresh.pop(timer, None) is not None:
            return
        super()._record(timer, operation)
