"""Sessions of event time with the trigger of their own, where a key has one session at most when an element comes.

Invariants:
    * State, timers, results and their order are those of ``WindowOperator`` with the same windows and trigger; an element of
      a key with several sessions goes the general way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changelog_engine.operators.messages import MAX_WATERMARK, MIN_WATERMARK
from changelog_engine.operators.windows import WindowOperator
from changelog_engine.windowing.session_windows import EventTimeSessionWindows
from changelog_engine.windowing.spec import WindowSpec
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
        values: Sequence[Any],
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
        cursor, place, held_by_key = self.cursor, self.place, self.merging.held
        add, register = self.contents.add, self.timers.event.register
        lateness, watermark = self.lateness, self.timers.watermark
        for key, time, value in zip(identities, times, values, strict=True):
            cursor.key = key
            cursor.timestamp = place.timestamp = time
            new = (time, time + gap)
            held = held_by_key()
            span, home = held[0] if held else (new, new)
            if len(held) > 1 or span[0] > new[1] or span[1] < time:
                if not self._add_merging(key, TimeWindow(*new), value, time, out, out_times):
                    self.late(value, time)
                continue
            if not held:
                if new[1] - 1 + lateness <= watermark:
                    self.late(value, time)
                    continue
                self.merging.put(new, new)
            elif time < span[0] or new[1] > span[1]:
                span = self._extend(key, span, home, new)
            place.key = state = (key, home)
            add(value)
            place.key = own = (key, span)
            end = span[1] - 1
            if end > watermark:
                register(end)
            else:
                self._act(TriggerResult.FIRE, TimeWindow(*span), own, state, out, out_times)
            if lateness:
                register(end + lateness)

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
