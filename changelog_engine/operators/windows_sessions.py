"""Sessions of event time with the trigger of their own, where an element belongs to one session at most.

Invariants:
    * State, timers, results and their order are those of ``WindowOperator`` with the same windows and trigger; an element
      that makes sessions of its key one goes the general way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from changelog_engine.operators.messages import MAX_WATERMARK, MIN_WATERMARK
from changelog_engine.operators.windows import WindowOperator
from changelog_engine.windowing.session_windows import EventTimeSessionWindows
from changelog_engine.windowing.spec import Firing, WindowSpec
from changelog_engine.windowing.time_triggers import EventTimeTrigger
from changelog_engine.windowing.trigger import TriggerResult
from changelog_engine.windowing.windows import TimeWindow

Span = tuple[int, int]


def is_session(spec: WindowSpec) -> bool:
    """Whether the operator of this module can do what a spec says; subclasses of assigners and triggers it cannot."""
    return type(spec.assigner) is EventTimeSessionWindows and type(spec.trigger) is EventTimeTrigger


class SessionWindowOperator(WindowOperator):
    """Elements of a key in sessions of event time. Args as `WindowOperator`."""

    assigner: Any

    def run(
        self,
        identities: list[Any],
        values: Iterator[Any],
        times: Sequence[int] | None,
        out: list[Any],
        out_times: list[int] | None,
    ) -> None:
        gap = self.assigner.session_gap
        longest = gap + self.lateness
        if times is None or min(times) == MIN_WATERMARK or max(times) + longest >= MAX_WATERMARK:
            super().run(identities, values, times, out, out_times)  # rare: it knows what to say of these
            return
        assert self.merging is not None
        cursor, place, touching = self.cursor, self.place, self.merging.touching
        add, register = self.contents.add, self.timers.event.register
        lateness, watermark = self.lateness, self.timers.watermark
        for key, time, value in zip(identities, times, values, strict=True):
            cursor.key = key
            cursor.timestamp = place.timestamp = time
            end = time + gap
            count, span, home = touching(time, end)
            if count > 1:
                if not self._add_merging(key, TimeWindow(time, end), value, time, out, out_times):
                    self.late(value, time)
                continue
            if not count:
                if end - 1 + lateness <= watermark:
                    self.late(value, time)
                    continue
                span = home = (time, end)
                self.merging.put(span, home)
                last, known = end - 1, False
            else:
                known = span[0] <= time and end <= span[1]
                if not known:
                    span = self._extend(key, span, home, (time, end))
                last = span[1] - 1
            place.key = state = (key, home)
            add(value)
            place.key = own = (key, span)
            if last <= watermark:
                self._act(TriggerResult.FIRE, TimeWindow(*span), own, state, out, out_times)
            elif not known:
                register(last)
            if lateness and not known:
                register(last + lateness)

    def _due(self, queue: Any, until: int) -> Iterable[Any]:
        return queue.take_due(until)  # type: ignore[no-any-return] # nothing sets timers while these fire

    def on_timer(self, time: int, event_time: bool, out: list[Any], out_times: list[int] | None) -> None:
        assert self.merging is not None
        place = self.place
        key, span = own = place.key
        home = self.merging.state_window(span)
        if home is None:  # the session has gone, and left a timer behind
            return
        place.key = state = (key, home)
        last = span[1] - 1
        if time == last:
            contents = self.contents.get()
            if contents if self.listed else contents is not None:
                if self.spec.firing is Firing.EMIT:
                    self.collect(out, (contents,))
                    if out_times is not None:
                        out_times.append(time)
                else:
                    place.key = own
                    self.fire(TimeWindow(*span), contents, out, out_times)
                    place.key = state
        if time == last + self.lateness:
            self.contents.clear()
            place.key = own
            if self._clear is not None:
                self.clear_function(TimeWindow(*span))
            self.merging.remove(span)

    def _extend(self, key: Any, span: Span, home: Span, new: Span) -> Span:
        """Let the key's session cover a new window too; returns the times of the longer session."""
        assert self.merging is not None
        merged = min(span[0], new[0]), max(span[1], new[1])
        place, timers = self.place, self.timers.event
        self.merging.remove(span)
        self.merging.put(merged, home)
        if merged[1] - 1 > self.timers.watermark:
            place.key = (key, merged)
            timers.register(merged[1] - 1)
        place.key = (key, span)
        timers.delete(span[1] - 1)
        if self.lateness:
            timers.delete(span[1] - 1 + self.lateness)
        return merged
