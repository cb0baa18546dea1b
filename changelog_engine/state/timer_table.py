"""Tables of timers: what a state backend keeps for an operator's timers, and the one on the heap that all have by default.

Invariants of every timer table:
    * A timer is in it at most once.
    * ``first`` and ``due`` give timers by timestamp, those of one timestamp in the order in which they were added. A timer
      that was removed and added again counts as added last.
    * Iteration gives all timers in the order in which they were added: a full snapshot writes them so, and a restore adds
      them so. Keys need no order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from heapq import heappush
from operator import itemgetter
from typing import Any

Timer = tuple[int, Any]
"""A timestamp in ms and a key identity."""

_TIMESTAMP = itemgetter(0)
_NEVER = -(2**63) - 1  # before all timestamps
_MOST_GONE = 4096
_MANY = 100_000


class TimerTable(ABC):
    """The pending timers of one operator in one time domain, in one subtask; see the module for their order.

    It is created empty, and used from one thread. The engine logs a timer before it adds or removes it.
    """

    __slots__ = ()

    @abstractmethod
    def __contains__(self, timer: object, /) -> bool: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Timer]: ...

    @abstractmethod
    def add(self, timer: Timer) -> None:
        """Add a timer that is not there."""

    @abstractmethod
    def remove(self, timer: Timer) -> None:
        """Remove a timer that is there."""

    @abstractmethod
    def first(self) -> Timer | None:
        """The timer that is due first, or None when there are none."""

    def due(self, until: int) -> list[Timer]:
        """All timers at or before a time (ms), in the order in which they are due; they stay. By default all are read."""
        return sorted([timer for timer in self if timer[0] <= until], key=_TIMESTAMP)

    def remove_due(self, timers: list[Timer]) -> None:
        """Remove what ``due`` gave just now."""
        for timer in timers:
            self.remove(timer)

    def fill(self, timers: list[Timer]) -> None:
        """Add many timers to an empty table, in this order: a restore."""
        for timer in timers:
            self.add(timer)


class HeapTimers(dict[Timer, int], TimerTable):
    """Timers on the heap: a dict of them in the order of their additions, and lists in the order in which they are due.

    What is added is sorted when somebody asks what is due: one sort for thousands of timers. Each list is at least twice as
    long as the next one, so a timer is sorted again only as often as the table doubles. What is removed stays in its list
    until it is due, and ``_gone`` counts it: of equal timers in the lists, those that were removed come first.

    The timers that fire are taken off the lists all at once (``begin_firing``) and stay in the dict until their turn comes;
    their value is 0. One that is set meanwhile and is due as well waits in ``soon``, with its number as its value.
    """

    __slots__ = (
        "_firing",
        "_gone",
        "_many",
        "_number",
        "_runs",
        "_told",
        "added",
        "firing_until",
        "soon",
        "waiting",
    )

    def __init__(self) -> None:
        super().__init__()
        self.added: list[Timer] = []
        # The longest and oldest first, each with the timer that is due first at its end.
        self._runs: list[list[Timer]] = []
        self._gone: dict[Timer, int] = {}
        self._firing: Iterator[Timer] | None = None
        self.firing_until = _NEVER  # timers at or before it are firing
        self._number = self._many = 0
        self._told: Callable[[int], None] | None = None
        self.soon: list[tuple[int, int, Timer]] = []  # a heap
        self.waiting: Timer | None = None  # its turn comes after those in ``soon`` that are due before it

    def add(self, timer: Timer) -> None:
        if timer[0] > self.firing_until:
            self[timer] = 0
            self.added.append(timer)
        else:
            self._number += 1
            self[timer] = self._number
            heappush(self.soon, (timer[0], self._number, timer))
            if self._number == self._many and self._told is not None:
                self._told(timer[0])

    def remove(self, timer: Timer) -> None:
        del self[timer]
        if timer[0] <= self.firing_until:
            return
        runs = self._runs
        if runs and runs[-1] and runs[-1][-1] is timer:
            runs[-1].pop()
            return
        gone = self._gone
        gone[timer] = gone.get(timer, 0) + 1
        if len(gone) > len(self) + _MOST_GONE and self._firing is None:
            self._arrange(list(self))

    def first(self) -> Timer | None:
        self._settle()
        runs, gone = self._runs, self._gone
        while True:
            found: list[Timer] | None = None
            for run in runs:
                if run and (found is None or run[-1][0] < found[-1][0]):
                    found = run
            if found is None:
                return None
            timer = found[-1]
            if timer not in gone:
                return timer
            self._forget(found.pop())

    def due(self, until: int) -> list[Timer]:
        self._settle()
        parts = [run[_where(run, until) :] for run in self._runs]
        due: list[Timer] = []
        for part in parts:
            part.reverse()
            due += part
        if len(parts) > 1:
            due.sort(key=_TIMESTAMP)
        if self._gone:
            gone = self._gone
            live = []
            for timer in due:
                if timer in gone:
                    self._forget(timer)
                else:
                    live.append(timer)
            if len(live) < len(due):
                self._cut(until)
                self._put_back(live)
                return live
        return due

    def remove_due(self, timers: list[Timer]) -> None:
        if timers:
            self._cut(timers[-1][0])
            for timer in timers:
                del self[timer]

    def fill(self, timers: list[Timer]) -> None:
        self.update(dict.fromkeys(timers, 0))
        self._arrange(timers)

    def begin_firing(self, until: int, told: Callable[[int], None] | None = None) -> Iterator[Timer]:
        """Take timers at or before a time (ms) off the lists, to fire them in the order in which they are due.

        Args:
            told: see ``TimerQueue.firing``.

        Returns:
            Those that are due now. They are in the dict, with 0, until whoever fires them removes them: one that is there no
            more, or with a number, was removed meanwhile. Those in ``soon`` have to fire with them.
        """
        due = self.due(until)
        if due:
            self._cut(until)
        self.firing_until, self._told = until, told
        # Timers that set a few others each, as retries do, are not reported.
        self._many = self._number + _MANY + 100 * len(due)
        self._firing = rest = iter(due)
        return rest

    def end_firing(self, firing: Iterator[Timer]) -> None:
        """No timers are fired any more; those whose turn did not come are put back.

        Args:
            firing: what ``begin_firing`` gave. Nothing happens when others are firing by now.
        """
        if firing is not self._firing:
            return
        rest = [timer for timer in (self.waiting, *firing) if timer is not None and self.get(timer) == 0]
        rest += [timer for _, number, timer in sorted(self.soon) if self.get(timer) == number]
        self._firing = self._told = self.waiting = None
        self.firing_until = _NEVER
        self.soon.clear()
        if rest:
            self.update(dict.fromkeys(rest, 0))
            rest.sort(key=_TIMESTAMP)
            self._put_back(rest)

    def _settle(self) -> None:
        """Sort what was added since the last time."""
        if self._firing is not None:
            self.end_firing(self._firing)
        if not self.added:
            return
        run, runs = sorted(self.added, key=_TIMESTAMP), self._runs
        self.added.clear()
        while runs and len(runs[-1]) < 2 * len(run):
            older = runs.pop()
            older.reverse()
            older += run
            older.sort(key=_TIMESTAMP)
            run = older
        run.reverse()
        runs.append(run)

    def _arrange(self, timers: list[Timer]) -> None:
        """Make one list of all timers, which come in the order of their additions."""
        self.added.clear()
        self._gone.clear()
        run = sorted(timers, key=_TIMESTAMP)
        run.reverse()
        self._runs = [run]

    def _cut(self, until: int) -> None:
        """Take what is due at a time off the lists."""
        for run in self._runs:
            del run[_where(run, until) :]
        self._runs = [run for run in self._runs if run]

    def _put_back(self, due: list[Timer]) -> None:
        """Put timers back that were cut off, in the order in which they are due. No others of their times may be there."""
        if due:
            self._runs.insert(0, due[::-1])

    def _forget(self, timer: Timer) -> None:
        """A removed timer has left the lists."""
        self._gone[timer] -= 1
        if not self._gone[timer]:
            del self._gone[timer]


def _where(run: list[Timer], until: int) -> int:
    """Where in a list the timers begin that are at or before a time."""
    if not run or run[-1][0] > until:
        return len(run)
    return bisect_left(run, -until, key=_before_epoch)


def _before_epoch(timer: Timer) -> int:
    return -timer[0]
