"""Sessions of event time with the trigger of their own, where an element belongs to one session at most.

Invariants:
    * State, timers, results and their order are those of ``WindowOperator`` with the same windows and trigger; an element
      that makes sessions of its key one goes the general way.
    * Sessions of a key neither overlap nor touch, so an element at or after the start of the newest one, which is remembered
      outside the table, can touch no other.

``run`` goes once through each record and ``fire_timers`` once through each session. Keep them free of what isn't needed:
sessions are pairs of start and end, and texts in the map of windows; a ``TimeWindow`` is made only for the user's function.
"""

from __future__ import annotations

import sys
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

Session = tuple[int, int, str, Pair, str]
"""Start, end, their text, the key and the window that holds the contents, and that window's text."""

_MOST_NEWEST = 65_536  # sessions that are remembered where the state is not on the heap


def is_session(spec: WindowSpec) -> bool:
    """Whether the operator of this module can do what a spec says; subclasses of assigners and triggers it cannot."""
    return type(spec.assigner) is EventTimeSessionWindows and type(spec.trigger) is EventTimeTrigger


class SessionWindowOperator(WindowOperator):
    """Elements of a key in sessions of event time. Args as `WindowOperator`."""

    net = True
    assigner: Any
    cell: Any = None

    def open(self) -> None:
        super().open()
        assert self.merging is not None
        self.cell = None if self.listed else self.contents.cell
        self._newest: dict[Any, Session] = {}
        self._most_newest = sys.maxsize if self.merging.handle.on_heap else _MOST_NEWEST

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
            self._newest.clear()
            super().run(identities, values, times, out, out_times)  # rare: it knows what to say of these
            return
        assert self.merging is not None
        cursor, place, merging = self.cursor, self.place, self.merging
        held, touching, put = merging.handle.entry, merging.touching, merging.handle.put
        add, register, newest = self._adding(), self.timers.event.register, self._newest
        lateness, watermark = self.lateness, self.timers.watermark
        for key, time, value in zip(identities, times, values, strict=True):
            cursor.key = key
            cursor.timestamp = place.timestamp = time
            end = time + gap
            session, is_newest = newest.get(key), True
            if session is None or time < session[0]:
                entry = held()
                if entry is not None:
                    count, span, text, home = touching(entry, time, end)
                    if count > 1:
                        newest.pop(key, None)
                        if not self._add_merging(key, TimeWindow(time, end), value, time, out, out_times):
                            self.late(value, time)
                        continue
                    is_newest = len(entry) == count or (session is not None and text == session[2])
                    session = (span[0], span[1], text, (key, merging.read(home)), home) if count else None
                    if session is not None and is_newest:
                        self._remember(key, session)
            elif time > session[1]:
                session = None
            if session is not None:
                start, until, text, state, home = session
                known = start <= time and end <= until
                if not known:
                    merged = time if time < start else start, end if end > until else until
                    longer = f"[{merged[0]},{merged[1]}]"
                    self._extend((key, (start, until)), (key, merged), text, longer, home)
                    start, until = merged
                    if is_newest:
                        self._remember(key, (start, until, longer, state, home))
                place.key = state
                add(value)
                last = until - 1
                if last <= watermark:
                    place.key = pair = key, (start, until)
                    self._act(TriggerResult.FIRE, TimeWindow(start, until), pair, state, out, out_times)
                if lateness and not known:
                    place.key = key, (start, until)
                    register(last + lateness)
                continue
            last = end - 1
            if last + lateness <= watermark:
                self.late(value, time)
                continue
            text = f"[{time},{end}]"
            put(text, text)
            place.key = pair = key, (time, end)
            if is_newest:
                self._remember(key, (time, end, text, pair, text))
            add(value)
            if last <= watermark:
                self._act(TriggerResult.FIRE, TimeWindow(time, end), pair, pair, out, out_times)
            else:
                register(last)
            if lateness:
                register(last + lateness)

    def _remember(self, key: Any, session: Session) -> None:
        """Remember a key's newest session."""
        if len(self._newest) >= self._most_newest:
            self._newest.clear()
        self._newest[key] = session

    def fire_timers(self, queue: TimerQueue, until: int, domain: TimeDomain) -> None:
        if domain is not TimeDomain.EVENT_TIME:
            return  # none was ever set
        assert self.merging is not None
        cursor, place, merging, lateness = self.cursor, self.place, self.merging, self.lateness
        held, forget, clear = merging.handle.entry, merging.handle.remove, (self.cell or self.contents).clear
        newest = self._newest
        contents_of, emits, copies = self._contents(), self.spec.firing is Firing.EMIT, self.copies
        out: list[Any] = []
        out_times: list[int] = []
        self.call = "on_event_time"
        try:
            for timestamp, pair in queue.take_due(until):  # nothing sets timers while these fire
                key, span = pair
                cursor.key = key
                session = newest.get(key)
                if session is not None and session[0] == span[0] and session[1] == span[1]:
                    text, state = session[2], session[3]
                else:
                    entry = held()
                    if entry is None:
                        continue
                    text = f"[{span[0]},{span[1]}]"
                    home = entry.get(text)
                    if home is None:  # the session has gone, and left a timer behind
                        continue
                    state = key, merging.read(home)
                cursor.timestamp = place.timestamp = timestamp
                last = span[1] - 1
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
                    if session is not None and text == session[2]:
                        del newest[key]
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

    def _extend(self, pair: Pair, longer: Pair, text: str, longer_text: str, home: str) -> None:
        """Put a longer session in the place of a key's session; its contents stay where they are."""
        assert self.merging is not None
        handle, timers = self.merging.handle, self.timers.event
        last, longer_last = pair[1][1] - 1, longer[1][1] - 1
        handle.remove(text)
        handle.put(longer_text, home)
        if longer_last > self.timers.watermark:
            timers.move((last, pair), (longer_last, longer))
        else:
            self.place.key = pair
            timers.delete(last)
        if self.lateness:
            self.place.key = pair
            timers.delete(last + self.lateness)
