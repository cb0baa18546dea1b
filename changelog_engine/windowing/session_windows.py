"""Sessions: windows of time that end when a key has had no elements for a while."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

from changelog_engine.config.numbers import whole_number
from changelog_engine.errors import ArgumentTypeError, InvalidJobError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.windowing.assigner import (
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    milliseconds,
)
from changelog_engine.windowing.time_windows import ByMachine, ByTimestamp, TimeWindowAssigner
from changelog_engine.windowing.windows import TimeWindow


class SessionWindows(TimeWindowAssigner, MergingWindowAssigner[Any, TimeWindow]):
    """What sessions of all kinds share: an element begins a window as long as its gap, and windows that touch merge."""

    @abstractmethod
    def gap(self, element: Any) -> int:
        """The gap after an element, ms."""

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)

    def windows_of(self, element: Any, time: int) -> list[TimeWindow]:
        return [TimeWindow(time, time + self.gap(element))]


class _FixedGap(SessionWindows):
    def __init__(self, session_gap: int) -> None:
        self.session_gap = whole_number(session_gap, f"{type(self).__name__}: the gap in ms", 1)

    @classmethod
    def with_gap(cls, size: Any) -> Self:
        """New sessions.

        Args:
            size: a Time; a session ends when it has passed without an element.

        Raises:
            ConfigurationError: no Time, or less than 1 ms.
        """
        return cls(milliseconds(size, f"{cls.__name__}.with_gap: size"))

    def gap(self, element: Any) -> int:
        return self.session_gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_gap})"


class _DynamicGap(SessionWindows):
    def __init__(self, session_window_time_gap_extractor: Any) -> None:
        extractor = session_window_time_gap_extractor
        if hook_of(extractor, "extract") is None:
            raise ArgumentTypeError(
                f"{type(self).__name__}: the extractor must be a SessionWindowTimeGapExtractor, got {extractor!r}"
            )
        self.extractor = extractor

    @classmethod
    def with_dynamic_gap(cls, extractor: SessionWindowTimeGapExtractor) -> Self:
        """New sessions.

        Args:
            extractor: says for each element how long after it the session ends.

        Raises:
            ConfigurationError: no extractor.
        """
        return cls(extractor)

    def gap(self, element: Any) -> int:
        gap = self.extractor.extract(element)
        if isinstance(gap, bool) or not isinstance(gap, int) or gap <= 0:
            raise InvalidJobError(
                f"extract of {type(self.extractor).__name__} returned {gap!r}; a session's gap is an int of at least 1 ms"
            )
        return gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.extractor).__name__})"


class DynamicEventTimeSessionWindows(_DynamicGap, ByTimestamp):
    """Sessions by the elements' timestamps, with a gap that depends on the element.

    Args:
        session_window_time_gap_extractor: says the gap.

    Raises:
        ConfigurationError: no extractor.
    """


class DynamicProcessingTimeSessionWindows(_DynamicGap, ByMachine):
    """Sessions by the machine's clock, with a gap that depends on the element.

    Args and Raises as `DynamicEventTimeSessionWindows`.
    """


class EventTimeSessionWindows(_FixedGap, ByTimestamp):
    """Sessions by the elements' timestamps: a key's session ends when it has had no element for a gap.

    Args:
        session_gap: ms.

    Raises:
        ConfigurationError: a gap of less than 1.
    """

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Sessions whose gap depends on the element; see `DynamicEventTimeSessionWindows`."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap, ByMachine):
    """Sessions by the machine's clock. Args and Raises as `EventTimeSessionWindows`."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Sessions whose gap depends on the element; see `DynamicProcessingTimeSessionWindows`."""
        return DynamicProcessingTimeSessionWindows(extractor)
