"""Timers of one operator in one time domain, by (timestamp, key).

Invariants:
    * A timer exists once per key and timestamp, however often it is registered.
    * Due timers come out by timestamp, then in the order of registration, which the changelog keeps: the same after a
      restore as before.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from heapq import heapify, heappop, heappush
from operator import itemgetter

from changelog_engine.state.backend import Cursor, KeyIdentity


class TimeDomain(enum.Enum):
    """Which clock a timer that fires follows.

    EVENT_TIME is that of the watermarks, PROCESSING_TIME that of the machine.

    Source: pyflink.datastream.TimeDomain
    """

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerQueue:
    """Pending timers; ``live`` maps (timestamp, key) to the order of registration."""

    def __init__(self, cursor: Cursor) -> None:
        self.live: dict[tuple[int, KeyIdentity], int] = {}
        self._cursor = cursor
        self._heap: list[tuple[int, int, KeyIdentity]] = []
        self._order = 0

    def register(self, timestamp: int) -> None:
        """Set a timer for the current key."""
        timer = (timestamp, self._cursor.key)
        if timer not in self.live:
            self.add(*timer)

    def delete(self, timestamp: int) -> None:
        """Remove the current key's timer, if it is set."""
        self.live.pop((timestamp, self._cursor.key), None)

    def add(self, timestamp: int, key: KeyIdentity) -> None:
        """Set a timer that is known not to be set."""
        self._order += 1
        self.live[timestamp, key] = self._order
        heappush(self._heap, (timestamp, self._order, key))

    def restore(self, timers: list[tuple[int, KeyIdentity]]) -> None:
        """Fill an empty queue, in order of registration."""
        self.live = {timer: order for order, timer in enumerate(timers)}
        self._order = len(timers)
        self._heap = [(timer[0], order, timer[1]) for timer, order in self.live.items()]
        heapify(self._heap)

    def next_timestamp(self) -> int | None:
        """The earliest pending timestamp, or None."""
        heap = self._heap
        while heap:
            timestamp, order, key = heap[0]
            if self.live.get((timestamp, key)) == order:
                return timestamp
            heappop(heap)
        return None

    def pop_due(self, until: int) -> tuple[int, KeyIdentity] | None:
        """Take the earliest timer at or before a time off the queue; the cursor moves to its key and timestamp."""
        timestamp = self.next_timestamp()
        if timestamp is None or timestamp > until:
            return None
        key = heappop(self._heap)[2]
        self._cursor.key = key
        self._cursor.timestamp = timestamp
        self.delete(timestamp)
        return timestamp, key

    def take_due(self, until: int) -> list[tuple[int, KeyIdentity]]:
        """Take all timers at or before a time off the queue, for a caller that sets and deletes none while they fire.

        Args:
            until: ms.

        Returns:
            (timestamp, key) in the order in which ``pop_due`` would give them; the cursor stays where it is.
        """
        heap, live = self._heap, self.live
        taken: list[tuple[int, int, KeyIdentity]] = []
        for _ in range(1 + len(heap) // 16):
            if not heap or heap[0][0] > until:
                break
            taken.append(heappop(heap))
        else:  # a large part of them: sorted at once, which leaves a heap as well
            heap.sort()
            count = bisect_right(heap, until, key=itemgetter(0))
            taken += heap[:count]
            del heap[:count]
        # What is in the heap and not alive was deleted, or deleted and set again.
        due = [(timestamp, key) for timestamp, order, key in taken if live.get((timestamp, key)) == order]
        try:
            self._taking(due)
        except BaseException:  # they are still set: a heap that has lost them would never fire them
            heap.extend(taken)
            heapify(heap)
            raise
        for timer in due:
            del live[timer]
        return due

    def _taking(self, due: list[tuple[int, KeyIdentity]]) -> None:
        """Called before due timers are taken off the queue; if it raises, they stay."""
