"""Tumbling and sliding windows of time: fixed in advance, the same for all keys."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from changelog_engine.config.numbers import whole_number
from changelog_engine.errors import ConfigurationError
from changelog_engine.windowing.assigner import WindowAssigner, milliseconds, timestamp_of
from changelog_engine.windowing.serializers import TimeWindowSerializer
from changelog_engine.windowing.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from changelog_engine.windowing.windows import TimeWindow


class TimeWindowAssigner(WindowAssigner[Any, TimeWindow]):
    """Puts an element into windows by a time, which one of the two clocks gives."""

    @abstractmethod
    def windows_of(self, element: Any, time: int) -> list[TimeWindow]:
        """The windows of an element whose time (ms) is this."""

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()


class ByTimestamp(TimeWindowAssigner):
    """Goes by the elements' timestamps."""

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return self.windows_of(element, timestamp_of(self, timestamp))

    def get_default_trigger(self, env: Any) -> EventTimeTrigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class ByMachine(TimeWindowAssigner):
    """Goes by the machine's clock."""

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return self.windows_of(element, context.get_current_processing_time())

    def get_default_trigger(self, env: Any) -> ProcessingTimeTrigger:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class AlignedWindows(TimeWindowAssigner):
    """What tumbling and sliding windows share: windows of one size start at regular times."""

    size: int
    slide: int
    offset: int

    def windows_of(self, element: Any, time: int) -> list[TimeWindow]:
        return self.windows_at(time)

    def windows_at(self, time: int) -> list[TimeWindow]:
        """The windows that hold a time, the latest first.

        Args:
            time: ms.
        """
        last, size = time - (time - self.offset) % self.slide, self.size
        return [TimeWindow(start, start + size) for start in range(last, time - size, -self.slide)]


class _Tumbling(AlignedWindows):
    def __init__(self, size: int, offset: int = 0) -> None:
        name = type(self).__name__
        self.size = self.slide = whole_number(size, f"{name}: the size in ms", 1)
        self.offset = whole_number(offset, f"{name}: the offset in ms")
        if abs(offset) >= size:
            raise ConfigurationError(
                f"{name}: the offset must be smaller than the size, {size} ms; got {offset} ms"
            )

    @classmethod
    def of(cls, size: Any, offset: Any = None) -> Self:
        """New windows.

        Args:
            size: length of a window, a Time.
            offset: a Time by which windows start later than at multiples of their size since 1970-01-01 UTC; None for 0.
                ``Time.hours(-8)`` lets windows of a day start at midnight of UTC+8.

        Raises:
            ConfigurationError: no Time, a size of less than 1 ms, or an offset that is not smaller than the size.
        """
        name = cls.__name__
        shift = 0 if offset is None else milliseconds(offset, f"{name}.of: offset")
        return cls(milliseconds(size, f"{name}.of: size"), shift)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.offset})"


class _Sliding(AlignedWindows):
    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        name = type(self).__name__
        self.size = whole_number(size, f"{name}: the size in ms", 1)
        self.slide = whole_number(slide, f"{name}: the slide in ms", 1)
        self.offset = whole_number(offset, f"{name}: the offset in ms")
        if abs(offset) >= slide:
            raise ConfigurationError(
                f"{name}: the offset must be smaller than the slide, {slide} ms; got {offset} ms"
            )

    @classmethod
    def of(cls, size: Any, slide: Any, offset: Any = None) -> Self:
        """New windows.

        Args:
            size: length of a window, a Time.
            slide: a Time; a window starts that often.
            offset: a Time by which windows start later than at multiples of the slide since 1970-01-01 UTC; None for 0.

        Raises:
            ConfigurationError: no Time, a size or slide of less than 1 ms, or an offset that is not smaller than the slide.
        """
        name = cls.__name__
        shift = 0 if offset is None else milliseconds(offset, f"{name}.of: offset")
        return cls(milliseconds(size, f"{name}.of: size"), milliseconds(slide, f"{name}.of: slide"), shift)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.slide}, {self.offset})"


class TumblingEventTimeWindows(_Tumbling, ByTimestamp):
    """Windows of one size, one after the other, by the elements' timestamps.

    Args:
        size: ms.
        offset: ms by which windows start later than at multiples of the size.

    Raises:
        ConfigurationError: a size of less than 1, or an offset that is not smaller than the size.

    Example:
        >>> TumblingEventTimeWindows(1000, 0).windows_at(1500)
        [TimeWindow(start=1000, end=2000)]
    """


class TumblingProcessingTimeWindows(_Tumbling, ByMachine):
    """Windows of one size, one after the other, by the machine's clock. Args and Raises as `TumblingEventTimeWindows`."""


class SlidingEventTimeWindows(_Sliding, ByTimestamp):
    """Windows of one size that start at regular times and may overlap, by the elements' timestamps.

    Args:
        size: ms.
        slide: how many ms lie between the starts of windows.
        offset: ms by which windows start later than at multiples of the slide.

    Raises:
        ConfigurationError: a size or slide of less than 1, or an offset that is not smaller than the slide.

    Example:
        >>> SlidingEventTimeWindows(1000, 500, 0).windows_at(700)
        [TimeWindow(start=500, end=1500), TimeWindow(start=0, end=1000)]
    """


class SlidingProcessingTimeWindows(_Sliding, ByMachine):
    """Windows of one size that start at regular times and may overlap, by the machine's clock.

    Args and Raises as `SlidingEventTimeWindows`.
    """
