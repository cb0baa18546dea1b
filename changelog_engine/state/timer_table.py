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
from bisect import bisect_right
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Any

Timer = tuple[int, Any]
"""A timestamp in ms and a key identity."""

_TIMESTAMP = itemgetter(0)


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
    """Timers on the heap: a dict from timers to the order of their additions, and a heap by time and order."""

    __slots__ = ("_due", "_heap", "_order")

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[int, int, Any]] = []  # what was removed may still be in it
        self._due: list[tuple[int, int, Any]] = []  # taken off the heap by due(), and not removed until now
        self._order = 0

    def add(self, timer: Timer) -> None:
        self._order += 1
        self[timer] = self._order
        heappush(self._heap, (timer[0], self._order, timer[1]))

    def remove(self, timer: Timer) -> None:
        order, heap = self.pop(timer), self._heap
        if heap and heap[0][1] == order:
            heappop(heap)

    def first(self) -> Timer | None:
        if self._due:
            self._put_back()
        heap = self._heap
        while heap:
            timestamp, order, key = heap[0]
            timer = timestamp, key
            if self.get(timer) == order:
                return timer
            heappop(heap)
        return None

    def due(self, until: int) -> list[Timer]:
        if self._due:
            self._put_back()
        heap, get = self._heap, self.get
        taken: list[tuple[int, int, Any]] = []
        for _ in range(1 + len(heap) // 16):
            if not heap or heap[0][0] > until:
                break
            taken.append(heappop(heap))
        else:  # a large part of them: sorted at once, which leaves a heap as well
            heap.sort()
            count = bisect_right(heap, until, key=_TIMESTAMP)
            taken += heap[:count]
            del heap[:count]
        self._due = taken
        return [(timestamp, key) for timestamp, order, key in taken if get((timestamp, key)) == order]

    def remove_due(self, timers: list[Timer]) -> None:
        for timer in timers:
            del self[timer]
        self._due = []

    def fill(self, timers: list[Timer]) -> None:
        self.update({timer: order for order, timer in enumerate(timers)})
        self._order = len(timers)
        self._heap = [(timer[0], order, timer[1]) for timer, order in self.items()]
        heapify(self._heap)

    def _put_back(self) -> None:
        self._heap += self._due
        heapify(self._heap)
        self._due = []
