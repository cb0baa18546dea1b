"""In which order the elements of an async function leave it. Plain data: no threads, no loop, no clock.

Invariants:
    * ORDERED: entries and signals leave in the order in which they came.
    * UNORDERED: entries leave as they are done, but none passes a signal, in either direction.
    * A signal (a watermark, mostly) leaves when everything before it has left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol


class QueueEntry:
    """An element on its way through.

    Args:
        time: its timestamp in ms, or None.
    """

    __slots__ = ("done", "results", "segment", "task", "time", "value")

    def __init__(self, value: Any, time: int | None) -> None:
        self.value = value
        self.time = time
        self.results: Any = ()
        self.done = False
        self.task: Any = None
        self.segment: Any = None


class Signal:
    """What stands between elements and must keep its place: a watermark, or that the stream is idle or no longer."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act


class Queue(Protocol):
    """Elements under way; what may leave is appended to ``ready``."""

    ready: list[QueueEntry | Signal]
    size: int  # entries that have not left

    def add(self, entry: QueueEntry) -> None:
        """Take an element."""

    def signal(self, signal: Signal) -> None:
        """Take a signal."""

    def completed(self, entry: QueueEntry) -> None:
        """An element that was taken is done."""


class OrderedQueue:
    """See Queue: first in, first out."""

    def __init__(self) -> None:
        self.ready: list[QueueEntry | Signal] = []
        self.size = 0
        self._waiting: deque[QueueEntry | Signal] = deque()

    def add(self, entry: QueueEntry) -> None:
        self._waiting.append(entry)
        self.size += 1

    def signal(self, signal: Signal) -> None:
        if self._waiting:
            self._waiting.append(signal)
        else:
            self.ready.append(signal)

    def completed(self, entry: QueueEntry) -> None:
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, QueueEntry):
                if not first.done:
                    return
                self.size -= 1
            self.ready.append(waiting.popleft())


class _Segment:
    """The entries between two signals."""

    __slots__ = ("closing", "done", "open")

    def __init__(self) -> None:
        self.open = 0  # entries that are not done
        # Of a segment that is not the first: they wait for the signal before it.
        self.done: list[QueueEntry] = []
        self.closing: Signal | None = None


class UnorderedQueue:
    """See Queue: as they are done, between signals."""

    def __init__(self) -> None:
        self.ready: list[QueueEntry | Signal] = []
        self.size = 0
        self._segments: deque[_Segment] = deque([_Segment()])

    def add(self, entry: QueueEntry) -> None:
        segment = entry.segment = self._segments[-1]
        segment.open += 1
        self.size += 1

    def signal(self, signal: Signal) -> None:
        segments = self._segments
        if len(segments) == 1 and not segments[0].open:
            self.ready.append(signal)
            return
        segments[-1].closing = signal
        segments.append(_Segment())

    def completed(self, entry: QueueEntry) -> None:
        segment, segments = entry.segment, self._segments
        segment.open -= 1
        if segment is not segments[0]:
            segment.done.append(entry)
            return
        self.size -= 1
        self.ready.append(entry)
        while not segments[0].open and (closing := segments[0].closing) is not None:
            self.ready.append(closing)
            segments.popleft()
            following = segments[0]
            self.size -= len(following.done)
            self.ready.extend(following.done)
            following.done = []
