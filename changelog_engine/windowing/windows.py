"""Windows: finite groups of a key's elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

MAX_TIMESTAMP = 2**63 - 1


class Window(ABC):
    """A finite group of elements. Programs may have kinds of their own: equal windows must have equal hashes."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that belongs to the window, in ms; its state goes when the watermark passes it."""


class TimeWindow(Window):
    """The time from a start to an end.

    Args:
        start: first ms of the window.
        end: first ms after it.

    Example:
        >>> TimeWindow(0, 1000).max_timestamp()
        999
        >>> TimeWindow(0, 1000).cover(TimeWindow(500, 1500))
        TimeWindow(start=0, end=1500)
    """

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        """The last ms of the window."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows overlap or touch.

        Args:
            other: another window.
        """
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that covers both.

        Args:
            other: another window.
        """
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window that a time belongs to, when windows of one size follow on each other.

        Args:
            timestamp: ms.
            offset: a time at which a window starts, ms.
            window_size: ms.

        Example:
            >>> TimeWindow.get_window_start_with_offset(-1, 0, 1000)
            -1000
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: Any) -> None:
        """Tell a callback which windows overlap or touch, and what covers them.

        Args:
            windows: the candidates.
            callback: its ``merge(to_be_merged, merge_result)`` is called once for each group of two or more.
        """
        group: list[TimeWindow] = []
        cover: TimeWindow | None = None
        for window in sorted(set(windows)):
            if cover is not None and cover.intersects(window):
                cover = cover.cover(window)
                group.append(window)
                continue
            if cover is not None and len(group) > 1:
                callback.merge(group, cover)
            cover, group = window, [window]
        if cover is not None and len(group) > 1:
            callback.merge(group, cover)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __lt__(self, other: TimeWindow) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: TimeWindow) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return (self.start, self.end) <= (other.start, other.end)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(Window):
    """A window of elements that were counted.

    Args:
        id: tells it from the key's other windows.
    """

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        """The largest timestamp there is: count windows do not end by time."""
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.id == other.id

    def __hash__(self) -> int:
        return hash(("CountWindow", self.id))

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The window of all elements of a key."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """The window."""
        return _GLOBAL_WINDOW

    def max_timestamp(self) -> int:
        """The largest timestamp there is: the window does not end."""
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash("GlobalWindow")

    def __repr__(self) -> str:
        return "GlobalWindow"


_GLOBAL_WINDOW = GlobalWindow()
