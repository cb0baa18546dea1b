"""Tumbling and sliding windows with the trigger of their own, without an object per record.

Invariants:
    * State, timers, results and their order are those of ``WindowOperator`` with the same windows and trigger; only the way
      there is shorter: windows are pairs of start and end, computed here, and timers are set when a window begins.

``_run_tumbling`` runs once per record in most jobs with windows. Keep it free of what isn't needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from changelog_engine.graph.nodes import StateKind
from changelog_engine.operators.messages import MAX_WATERMARK, MIN_WATERMARK
from changelog_engine.operators.windows import WindowOperator
from changelog_engine.types.copies import IMMUTABLE, own
from changelog_engine.windowing.spec import Firing, WindowSpec
from changelog_engine.windowing.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from changelog_engine.windowing.time_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from changelog_engine.windowing.windows import TimeWindow

_OWN_TRIGGER = {
    TumblingEventTimeWindows: EventTimeTrigger,
    SlidingEventTimeWindows: EventTimeTrigger,
    TumblingProcessingTimeWindows: ProcessingTimeTrigger,
    SlidingProcessingTimeWindows: ProcessingTimeTrigger,
}


def is_aligned(spec: WindowSpec) -> bool:
    """Whether the operator of this module can do what a spec says; subclasses of assigners and triggers it cannot."""
    return _OWN_TRIGGER.get(type(spec.assigner)) is type(spec.trigger)


class AlignedWindowOperator(WindowOperator):
    """Elements of a key in tumbling or sliding windows. Args as `WindowOperator`."""

    net = True
    assigner: Any
    cell: Any = None

    def open(self) -> None:
        super().open()
        self.cell = None if self.listed else self.contents.cell

    def run(
        self,
        identities: list[Any],
        values: Iterator[Any],
        times: Sequence[int] | None,
        out: list[Any],
        out_times: list[int] | None,
    ) -> None:
        if not self.event_time:
            self._run_processing_time(identities, values, times)
            return
        longest = self.assigner.size + self.lateness
        if times is None or min(times) == MIN_WATERMARK or max(times) + longest >= MAX_WATERMARK:
            super().run(identities, values, times, out, out_times)  # rare: it knows what to say of these
        elif self.cell is not None and self.assigner.slide == self.assigner.size:
            self._run_tumbling(identities, values, times, out, out_times)
        elif self.cell is not None:
            self._run_sliding(identities, values, times, out, out_times)
        else:
            self._run_lists(identities, values, times, out, out_times)

    def _due(self, queue: Any, until: int) -> Iterable[Any]:
        return queue.take_due(until)  # type: ignore[no-any-return] # nothing sets timers while these fire

    def on_timer(self, time: int, event_time: bool, out: list[Any], out_times: list[int] | None) -> None:
        start, end = self.place.key[1]
        if time == end - 1:
            self._fire(start, end, out, out_times)
        if time == end - 1 + self.lateness:
            self.contents.clear()
            if self._clear is not None:
                self.clear_function(TimeWindow(start, end))

    def _run_tumbling(
        self,
        identities: list[Any],
        values: Iterator[Any],
        times: Sequence[int],
        out: list[Any],
        out_times: list[int] | None,
    ) -> None:
        """Combine elements in tumbling windows of event time."""
        cursor, place, register = self.cursor, self.place, self.timers.event.register
        value_of, update, combine = self.cell.value, self.cell.update, self.spec.contents.function
        reducing = self.spec.contents.kind is StateKind.REDUCING
        reduce = combine.reduce if reducing else None
        size, offset, lateness = self.assigner.size, self.assigner.offset, self.lateness
        over = self.timers.watermark + 1  # windows that end by then have fired
        gone = over - lateness  # windows that end by then take no elements any more
        start = end = MIN_WATERMARK
        window = (start, end)
        for cursor.key, time, value in zip(identities, times, values, strict=True):
            if not start <= time < end:
                start = time - (time - offset) % size
                end = start + size
                window = (start, end)
            place.timestamp = time
            if end <= gone:
                self.late(value, time)
                continue
            place.key = (cursor.key, window)
            before = value_of()
            if reduce is not None:
                combined = value if before is None else reduce(before, value)
                if combined is None:
                    self.contents.add(value)  # raises: a reduction holds no None
            else:
                combined = combine.add(value, combine.create_accumulator() if before is None else before)
            update(combined)
            if end <= over:
                cursor.timestamp = time
                self._fire(start, end, out, out_times)
            elif before is None:
                register(end - 1)
            if lateness and before is None:
                register(end - 1 + lateness)

    def _run_sliding(
        self,
        identities: list[Any],
        values: Iterator[Any],
        times: Sequence[int],
        out: list[Any],
        out_times: list[int] | None,
    ) -> None:
        """Combine elements in sliding windows of event time."""
        cursor, place, register = self.cursor, self.place, self.timers.event.register
        value_of, update, combine = self.cell.value, self.cell.update, self.spec.contents.function
        reducing = self.spec.contents.kind is StateKind.REDUCING
        reduce = combine.reduce if reducing else None
        assigner, lateness, watermark = self.assigner, self.lateness, self.timers.watermark
        size, slide, offset = assigner.size, assigner.slide, assigner.offset
        over = watermark + 1
        gone = over - lateness
        last = end = MIN_WATERMARK
        windows: list[tuple[int, int]] = []  # of all times from last to end
        for cursor.key, time, value in zip(identities, times, values, strict=True):
            place.timestamp = time
            key = cursor.key
            if not last <= time < end:
                first = time - (time - offset) % slide
                # Windows end at times of their own when they are not a whole number of slides long.
                last, end = (first, first + slide) if size % slide == 0 else (time, time + 1)
                windows = [(start, start + size) for start in range(first, time - size, -slide)]
            taken = False
            for window in windows:
                if window[1] <= gone:
                    continue
                taken = True
                place.key = (key, window)
                before = value_of()
                if reduce is not None:
                    combined = value if before is None else reduce(before, value)
                    if combined is None:
                        self.contents.add(value)  # raises: a reduction holds no None
                else:
                    combined = combine.add(value, combine.create_accumulator() if before is None else before)
                update(combined)
                if window[1] <= over:
                    cursor.timestamp = time
                    self._fire(*window, out, out_times)
                elif before is None:
                    register(window[1] - 1)
                if lateness and before is None:
                    register(window[1] - 1 + lateness)
            if not taken and time + lateness <= watermark:
                self.late(value, time)

    def _run_lists(
        self,
        identities: list[Any],
        values: Iterator[Any],
        times: Sequence[int],
        out: list[Any],
        out_times: list[int] | None,
    ) -> None:
        """Add elements to the lists of windows of event time."""
        cursor, place = self.cursor, self.place
        add, register = self.contents.add, self.timers.event.register
        assigner, lateness, watermark = self.assigner, self.lateness, self.timers.watermark
        size, slide, offset = assigner.size, assigner.slide, assigner.offset
        over = watermark + 1
        gone = over - lateness
        for cursor.key, time, value in zip(identities, times, values, strict=True):
            place.timestamp = time
            taken = False
            for start in range(time - (time - offset) % slide, time - size, -slide):
                end = start + size
                if end <= gone:
                    continue
                taken = True
                place.key = (cursor.key, (start, end))
                add(value)
                if end <= over:
                    cursor.timestamp = time
                    self._fire(start, end, out, out_times)
                else:
                    register(end - 1)
                if lateness:
                    register(end - 1 + lateness)
            if not taken and time + lateness <= watermark:
                self.late(value, time)

    def _run_processing_time(
        self, identities: list[Any], values: Iterator[Any], times: Sequence[int] | None
    ) -> None:
        """Add elements to windows of processing time."""
        cursor, place, clock = self.cursor, self.place, self.timers.clock
        add, register = self.contents.add, self.timers.processing.register
        size, slide, offset = self.assigner.size, self.assigner.slide, self.assigner.offset
        place.timestamp = MIN_WATERMARK
        for index, value in enumerate(values):
            cursor.key = key = identities[index]
            if times is not None:
                place.timestamp = times[index]
            now = clock()
            for start in range(now - (now - offset) % slide, now - size, -slide):
                place.key = (key, (start, start + size))
                add(value)
                register(start + size - 1)

    def _fire(self, start: int, end: int, out: list[Any], out_times: list[int] | None) -> None:
        contents = self.contents.get()
        if not (contents if self.listed else contents is not None):
            return
        if self.spec.firing is not Firing.EMIT:
            self.fire(TimeWindow(start, end), contents, out, out_times)
            return
        out.append(own(contents) if self.copies and type(contents) not in IMMUTABLE else contents)
        if out_times is not None:
            out_times.append(self.place.timestamp)
