"""Tumbling and sliding windows with the trigger of their own, without an object per record.

Invariants:
    * State, timers, results and their order are those of ``WindowOperator`` with the same windows and trigger; only the way
      there is shorter: windows are pairs of start and end, computed here, and timers are set when a window begins. Those of
      windows that a restore brought are set with each element: another trigger or lateness may have kept these.

``_run_tumbling`` runs once per record in most jobs with windows. Keep it free of what isn't needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from changelog_engine.event_time import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from changelog_engine.operators.keyed import KeyedElements
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

    def open(self) -> None:
        super().open()
        ends = [pair[1][1] for _, pair in self.own_timers.table]
        self._restored = max(ends, default=MIN_WATERMARK)

    def resume(self, watermark: int) -> None:
        super().resume(watermark)
        self._restored = max(self._restored, watermark + 1)  # timers of windows that end by then have fired

    def run(self, batch: KeyedElements) -> None:
        times = batch.times
        if not self.event_time:
            self._run_processing_time(batch)
            return
        longest = self.assigner.size + self.lateness
        if times is None or min(times) == NO_TIMESTAMP or max(times) + longest >= MAX_WATERMARK:
            super().run(batch)  # rare: it knows what to say of these
        elif self.assigner.slide == self.assigner.size:
            self._run_tumbling(batch, times)
        else:
            self._run_sliding(batch, times)

    def _due(self, queue: Any, until: int) -> Iterable[Any]:
        due: Iterable[Any] = queue.take_due(until)  # nothing sets timers while these fire
        return due

    def on_timer(self, time: int, event_time: bool, out: list[Any], out_times: list[int] | None) -> None:
        start, end = self.place.key[1]
        if time == end - 1:
            self._fire(start, end, out, out_times)
        if time == end - 1 + self.lateness:
            self.contents.clear()
            if self._clear is not None:
                self.clear_function(TimeWindow(start, end))

    def _run_tumbling(self, batch: KeyedElements, times: Sequence[int]) -> None:
        """Add elements to tumbling windows of event time."""
        identities, values, _, out, out_times = batch
        cursor, place = self.cursor, self.place
        begins, register = self.contents.begins, self.timers.event.register
        size, offset, lateness = self.assigner.size, self.assigner.offset, self.lateness
        restored, over = self._restored, self.timers.watermark + 1  # windows that end by then have fired
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
            first = begins(value) or end <= restored
            if end <= over:
                cursor.timestamp = time
                self._fire(start, end, out, out_times)
            elif first:
                register(end - 1)
            if lateness and first:
                register(end - 1 + lateness)

    def _run_sliding(self, batch: KeyedElements, times: Sequence[int]) -> None:
        """Add elements to sliding windows of event time."""
        identities, values, _, out, out_times = batch
        cursor, place = self.cursor, self.place
        begins, register = self.contents.begins, self.timers.event.register
        assigner, lateness, watermark = self.assigner, self.lateness, self.timers.watermark
        size, slide, offset = assigner.size, assigner.slide, assigner.offset
        restored, over = self._restored, watermark + 1
        gone = over - lateness
        last = end = MIN_WATERMARK
        windows: list[tuple[int, int]] = []  # of all times from last to end, those that take elements
        for cursor.key, time, value in zip(identities, times, values, strict=True):
            place.timestamp = time
            key = cursor.key
            if not last <= time < end:
                first = time - (time - offset) % slide
                # Windows end at times of their own when they are not a whole number of slides long.
                last, end = (first, first + slide) if size % slide == 0 else (time, time + 1)
                windows = [
                    (start, start + size)
                    for start in range(first, time - size, -slide)
                    if start + size > gone
                ]
            for window in windows:
                place.key = (key, window)
                begun = begins(value) or window[1] <= restored
                if window[1] <= over:
                    cursor.timestamp = time
                    self._fire(*window, out, out_times)
                elif begun:
                    register(window[1] - 1)
                if lateness and begun:
                    register(window[1] - 1 + lateness)
            if not windows and time + lateness <= watermark:
                self.late(value, time)

    def _run_processing_time(self, batch: KeyedElements) -> None:
        """Add elements to windows of processing time."""
        identities, values, times, _, _ = batch
        cursor, place, clock = self.cursor, self.place, self.timers.clock
        begins, register = self.contents.begins, self.timers.processing.register
        size, slide, offset = self.assigner.size, self.assigner.slide, self.assigner.offset
        place.timestamp = NO_TIMESTAMP
        for index, value in enumerate(values):
            cursor.key = key = identities[index]
            if times is not None:
                place.timestamp = times[index]
            now = clock()
            for start in range(now - (now - offset) % slide, now - size, -slide):
                place.key = (key, (start, start + size))
                if begins(value) or start + size <= self._restored:
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
