"""Sessions of event time with the trigger of their own, where an element belongs to one session at most.

Invariants:
    * State, timers, results and their order are those of ``WindowOperator`` with the same windows and trigger; an element
      that makes sessions of its key one goes the general way.

``run`` goes once through each record and ``fire_timers`` once through each session. Keep them free of what isn't needed:
sessions are pairs of start and end, and texts in the map of windows; a ``TimeWindow`` is made only for the user's function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from changelog_engine.graph.nodes import StateKind
from changelog_engine.operators.messages import MAX_WATERMARK, MIN_WATERMARK
from changelog_engine.operators.windows import EMIT_AT, WindowOperator
from changelog_engine.state.timers import TimeDomain, TimerQueue
from changelog_engine.types.copies import IMMUTABLE, own
from changelog_engine.windowing.session_windows import EventTimeSessionWindows
from changelog_engine.windowing.spec import Firing, WindowSpec
from changelog_engine.windowing.time_triggers import EventTimeTrigger
from changelog_engine.windowing.trigger import TriggerResult
from changelog_engine.windowing.windows import TimeWindow

Pair = tuple[Any, tuple[int, int]]
"""The identity of a key, and the start and end of a session."""


def is_session(spec: WindowSpec) -> bool:
    """Whether the operator of this module can do what a spec says; subclasses of assigners and triggers it cannot."""
    return type(spec.assigner) is EventTimeSessionWindows and type(spec.trigger) is EventTimeTrigger


class SessionWindowOperator(WindowOperator):
    """Elements of a key in sessions of event time. Args as `WindowOperator`."""

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
        gap = self.assigner.session_gap
        longest = gap + self.lateness
        if times is None or min(times) == MIN_WATERMARK or max(times) + longest >= MAX_WATERMARK:
            super().run(identities, values, times, out, out_times)  # rare: it knows what to say of these
            return
        assert self.merging is not None
        cursor, place, merging = self.cursor, self.place, self.merging
        held, touching, put = merging.handle.entry, merging.touching, merging.handle.put
        add, register = self._adding(), self.timers.event.register
        lateness, watermark = self.lateness, self.timers.watermark
        for key, time, value in zip(identities, times, values, strict=True):
            cursor.key = key
            cursor.timestamp = place.timestamp = time
            end = time + gap
            entry = held()
            if entry is not None:
                count, span, text, home = touching(entry, time, end)
                if count > 1:
                    if not self._add_merging(key, TimeWindow(time, end), value, time, out, out_times):
                        self.late(value, time)
                    continue
                if count:
                    known = span[0] <= time and end <= span[1]
                    pair = key, span
                    state = pair if home == text else (key, merging.read(home))
                    if not known:
                        pair = self._extend(pair, text, home, time, end)
                    place.key = state
                    add(value)
                    last = pair[1][1] - 1
                    if last <= watermark:
                        place.key = pair
                        self._act(TriggerResult.FIRE, TimeWindow(*pair[1]), pair, state, out, out_times)
                    if lateness and not known:
                        place.key = pair
                        register(last + lateness)
                    continue
            last = end - 1
            if last + lateness <= watermark:
                self.late(value, time)
                continue
            text = f"[{time},{end}]"
            put(text, text)
            place.key = pair = key, (time, end)
            add(value)
            if last <= watermark:
                self._act(TriggerResult.FIRE, TimeWindow(time, end), pair, pair, out, out_times)
            else:
                register(last)
            if lateness:
                register(last + lateness)

    def fire_timers(self, queue: TimerQueue, until: int, domain: TimeDomain) -> None:
        if domain is not TimeDomain.EVENT_TIME:
            return  # none was ever set
        assert self.merging is not None
        cursor, place, merging, lateness = self.cursor, self.place, self.merging, self.lateness
        held, forget, clear = merging.handle.entry, merging.handle.remove, (self.cell or self.contents).clear
        contents_of, emits, copies = self._contents(), self.spec.firing is Firing.EMIT, self.copies
        out: list[Any] = []
        out_times: list[int] = []
        self.call = "on_event_time"
        try:
            for timestamp, pair in queue.take_due(until):  # nothing sets timers while these fire
                key, span = pair
                cursor.key, place.key = key, pair
                entry = held()
                if entry is None:
                    continue
                text = f"[{span[0]},{span[1]}]"
                home = entry.get(text)
                if home is None:  # the session has gone, and left a timer behind
                    continue
                cursor.timestamp = place.timestamp = timestamp
                last = span[1] - 1
                state = pair if home == text else (key, merging.read(home))
                place.key = state
                if timestamp == last:
                    contents = contents_of()
                    if not (contents if self.listed else contents is not None):
                        pass
                    elif emits:
                        out.append(own(contents) if copies and type(contents) not in IMMUTABLE else contents)
                        out_times.append(timestamp)
                    else:
                        place.key = pair
                        self.fire(TimeWindow(*span), contents, out, out_times)
                        place.key = state
                if timestamp == last + lateness:
                    clear()
                    if self._clear is not None:
                        place.key = pair
                        self.clear_function(TimeWindow(*span))
                    forget(text)
                if len(out) >= EMIT_AT:
                    self.emit_results(out, out_times)
                    out, out_times = [], []
        except BaseException as error:
            raise self.failure(error, self.call) from error
        finally:
            self.call = self._element_call
            cursor.leave()
            place.leave()
        self.emit_results(out, out_times)

    def _adding(self) -> Any:
        """Adds an element to the contents at the cursor."""
        if self.listed:
            return self.contents.add
        value_of, update, function = self.cell.value, self.cell.update, self.spec.contents.function
        if self.spec.contents.kind is StateKind.AGGREGATING:

            def aggregate(value: Any) -> None:
                before = value_of()
                update(function.add(value, function.create_accumulator() if before is None else before))

            return aggregate
        reduce = function.reduce

        def combine(value: Any) -> None:
            before = value_of()
            combined = value if before is None else reduce(before, value)
            if combined is None:
                self.contents.add(value)  # raises: a reduction holds no None
            update(combined)

        return combine

    def _contents(self) -> Any:
        """Gives the contents at the cursor; None or an empty list when there are none."""
        return self.cell.value if self.spec.contents.kind is StateKind.REDUCING else self.contents.get

    def _extend(self, pair: Pair, text: str, home: str, start: int, end: int) -> Pair:
        """Let a key's session cover a new window too; returns the key and the times of the longer session."""
        assert self.merging is not None
        key, span = pair
        merged = start if start < span[0] else span[0], end if end > span[1] else span[1]
        handle, timers, last = self.merging.handle, self.timers.event, span[1] - 1
        handle.remove(text)
        handle.put(f"[{merged[0]},{merged[1]}]", home)
        longer = key, merged
        if merged[1] - 1 > self.timers.watermark:
            timers.move((last, pair), (merged[1] - 1, longer))
        else:
            self.place.key = pair
            timers.delete(last)
        if self.lateness:
            self.place.key = pair
            timers.delete(last + self.lateness)
        return longer
