"""Sessions of event time with the trigger of their own, where an element belongs to one session at most.

Invariants:
    * State, timers, results and their order are those of ``WindowOperator`` with the same windows and trigger.
    * Sessions of a key neither overlap nor touch. Those that were looked at are remembered outside the table, the newest one
      by itself: an element at or after its start can touch no other.
    * Between watermarks what is remembered is ahead of the map of windows and the timers, which have logs of net changes.
      Before event time moves on, and at the end of an epoch, those of the sessions that changed are set, in the order of
      their last changes; a session that the watermark passes needs neither.

``run`` goes once through each record and ``fire_timers`` once through each session. Keep them free of what isn't needed:
a ``TimeWindow`` is made only for the user's function.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

from changelog_engine.event_time import MAX_WATERMARK, NO_TIMESTAMP
from changelog_engine.graph.nodes import StateKind
from changelog_engine.operators.keyed import KeyedElements
from changelog_engine.operators.windows import EMIT_AT, WindowOperator
from changelog_engine.operators.windows_context import merge_entries
from changelog_engine.state.timers import TimeDomain, TimerQueue
from changelog_engine.types.copies import IMMUTABLE, own
from changelog_engine.windowing.session_windows import EventTimeSessionWindows
from changelog_engine.windowing.spec import Firing, WindowSpec
from changelog_engine.windowing.time_triggers import EventTimeTrigger
from changelog_engine.windowing.trigger import TriggerResult
from changelog_engine.windowing.windows import TimeWindow

_MOST_KEYS = 65_536  # whose sessions are remembered where the state is not on the heap
_MOST_CHANGED = 131_072  # sessions whose map and timers wait


@dataclass(slots=True, eq=False)
class OpenSession:
    """A session that is remembered.

    Args:
        start, end: as it is now.
        state: identities of the key and of the window that holds the contents.
        span, text: start and end as the map of windows and the timers have them, and as text; None and "" before that.
        home: text of the window that holds the contents.
        at: time of the element that changed it last, ms; ``NO_TIMESTAMP`` of one that was read and has had none since.
    """

    start: int
    end: int
    state: tuple[Any, tuple[int, int]]
    span: tuple[int, int] | None
    text: str
    home: str
    at: int


_START, _END, _TIME = attrgetter("start"), attrgetter("end"), itemgetter(0)


def is_session(spec: WindowSpec) -> bool:
    """Whether the operator of this module can do what a spec says; subclasses of assigners and triggers it cannot."""
    return type(spec.assigner) is EventTimeSessionWindows and type(spec.trigger) is EventTimeTrigger


class SessionWindowOperator(WindowOperator):
    """Elements of a key in sessions of event time. Args as `WindowOperator`."""

    net = True
    assigner: Any

    def open(self) -> None:
        super().open()
        assert self.merging is not None
        self._newest: dict[Any, OpenSession] = {}  # of a key
        self._older: dict[Any, list[OpenSession]] = {}  # a key's others, by their starts; no empty lists
        self._changed: dict[OpenSession, None] = {}  # map and timers wait, in the order of the last changes
        self._ended: list[OpenSession] = []  # of these, those that the watermark passes
        self._most_keys = sys.maxsize if self.merging.handle.on_heap else _MOST_KEYS

    def abandon(self) -> None:
        super().abandon()
        self._forget_all()

    def watermark(self, watermark: int) -> None:
        self._settle(watermark)
        super().watermark(watermark)

    def end_key(self) -> None:
        key = self.cursor.key
        self._settle(MAX_WATERMARK)
        self.cursor.key = key
        super().end_key()

    def end_epoch(self, now_ms: int) -> None:
        self._settle(self.timers.watermark)
        super().end_epoch(now_ms)

    def run(self, batch: KeyedElements) -> None:
        identities, values, times, out, out_times = batch
        gap = self.assigner.session_gap
        longest = gap + self.lateness
        if times is None or min(times) == NO_TIMESTAMP or max(times) + longest >= MAX_WATERMARK:
            self._settle(self.timers.watermark)
            self._forget_all()
            super().run(batch)  # rare: it knows what to say of these
            return
        cursor, place, changed = self.cursor, self.place, self._changed
        newest_of, older_of, add = self._newest.get, self._older, self.contents.add
        lateness, watermark = self.lateness, self.timers.watermark
        for key, time, value in zip(identities, times, values, strict=True):
            cursor.key = key
            cursor.timestamp = place.timestamp = time
            end = time + gap
            newest = session = newest_of(key) or self._read(key)
            if newest is not None:
                if time < newest.start:
                    session = self._touched(key, time, end, newest)
                elif time > newest.end:
                    session = None
            if session is None:
                if end - 1 + lateness <= watermark:
                    self.late(value, time)
                    continue
                place.key = pair = key, (time, end)
                session = OpenSession(time, end, pair, None, "", "", time)
                if newest is None or newest.start < time:
                    if newest is not None:
                        older_of.setdefault(key, []).append(newest)
                    self._newest[key] = session
                else:
                    others = older_of.setdefault(key, [])
                    others.insert(bisect_right(others, time, key=_START), session)
                changed[session] = None
                add(value)
            else:
                if time < session.start or end > session.end:
                    session.start = min(time, session.start)
                    session.end = max(end, session.end)
                    session.at = time
                    changed.pop(session, None)
                    changed[session] = None
                elif session.at == NO_TIMESTAMP:
                    self._wake(session, time)
                place.key = session.state
                add(value)
            if session.end - 1 <= watermark:
                window = TimeWindow(session.start, session.end)
                place.key = pair = key, (session.start, session.end)
                self._act(TriggerResult.FIRE, window, pair, session.state, out, out_times)
        if len(changed) >= _MOST_CHANGED:
            self._settle(watermark)

    def _wake(self, session: OpenSession, time: int) -> None:
        """The first element is in a session that was read: another trigger or lateness may have set other timers for it."""
        session.at = time
        own, last = (session.state[0], session.span), session.end - 1
        wanted = {last, last + self.lateness} if last > self.timers.watermark else {last + self.lateness}
        if any((timestamp, own) not in self.timers.event.table for timestamp in wanted):
            self._changed[session] = None

    def _touched(self, key: Any, time: int, end: int, newest: OpenSession) -> OpenSession | None:
        """A key's session that overlaps or touches a span that begins before the newest one; several become one."""
        older = self._older.get(key, [])
        stop = bisect_right(older, time, key=_START)
        begin = stop - 1 if stop and older[stop - 1].end >= time else stop
        while stop < len(older) and older[stop].start <= end:
            stop += 1
        touched = older[begin:stop]
        if end >= newest.start:
            touched.append(newest)
        if len(touched) < 2:
            return touched[0] if touched else None
        session, *others = touched
        del older[begin + 1 : stop]
        if others[-1] is newest:
            self._newest[key] = session
            del older[begin]
            if not older:
                del self._older[key]
        session.end, session.at = others[-1].end, time
        changed = self._changed
        for each in touched:
            changed.pop(each, None)
        changed[session] = None
        self._unset(others)
        states = [each.state for each in others]
        merge_entries(self.contents, self.spec.contents, self.place, session.state, states)
        return session

    def _unset(self, sessions: list[OpenSession]) -> None:
        """Take sessions of the current key that have become part of another one out of the map and the timers."""
        assert self.merging is not None
        place, timers = self.place, self.timers.event
        for session in sessions:
            if session.span is not None:
                self.merging.handle.remove(session.text)
                place.key = session.state[0], session.span
                last = session.span[1] - 1
                timers.delete(last)
                timers.delete(last + self.lateness)

    def _settle(self, until: int) -> None:
        """Put the sessions that changed into the map of windows and set their timers, before event time moves on to a time.

        Args:
            until: ms; sessions that end by then wait in ``_ended``, in the order in which they end.
        """
        if not self._changed:
            return
        assert self.merging is not None
        cursor, place, timers, lateness = self.cursor, self.place, self.timers.event, self.lateness
        put, rename = self.merging.handle.put, self.merging.handle.rename
        register, move, watermark = timers.register, timers.move, self.timers.watermark
        if until > watermark and not lateness:
            self._take_ended(until)
        for session in self._changed:
            before, state = session.span, session.state
            key, home = state
            cursor.key = key
            cursor.timestamp = place.timestamp = session.at
            start, end = session.start, session.end
            text = f"[{start},{end}]"
            last = end - 1
            if before is None:
                if home[0] == start and home[1] == end:
                    session.span, session.home, place.key = home, text, state
                else:
                    session.span = span = start, end
                    session.home, place.key = f"[{home[0]},{home[1]}]", (key, span)
                put(text, session.home)
                if last > watermark:
                    register(last)
                if lateness:
                    register(last + lateness)
            elif before == (start, end):
                place.key = key, before
                if last > watermark or not lateness:
                    register(last)
                if lateness:
                    register(last + lateness)
            else:
                session.span = span = start, end
                rename(session.text, text, session.home)
                old, new = (key, before), (key, span)
                if last > watermark or not lateness:
                    move((before[1] - 1, old), (last, new))
                if lateness:
                    move((before[1] - 1 + lateness, old), (last + lateness, new))
            session.text = text
        self._changed.clear()
        cursor.leave()
        place.leave()

    def _take_ended(self, until: int) -> None:
        """Take the sessions that end by a time out of those that changed, and their timers off the queue."""
        ended = [session for session in self._changed if session.end - 1 <= until]
        ended.sort(key=_END)
        for session in ended:
            del self._changed[session]
            if session.span is not None:
                self.place.key = session.state[0], session.span
                self.place.timestamp = session.at
                self.timers.event.delete(session.span[1] - 1)
        self._ended = ended

    def _read(self, key: Any) -> OpenSession | None:
        """The newest session of the current key, of which nothing is remembered, or None; all of its sessions are then."""
        assert self.merging is not None
        if len(self._newest) >= self._most_keys and not (self._changed or self._ended):
            self._forget_all()
        entry, read = self.merging.handle.held(), self.merging.read
        if entry is None:
            return None
        found = []
        for text, home in entry.items():
            start, end = span = read(text)
            found.append(OpenSession(start, end, (key, read(home)), span, text, home, NO_TIMESTAMP))
        found.sort(key=_START)
        newest = self._newest[key] = found.pop()
        if found:
            self._older[key] = found
        return newest

    def _forget(self, key: Any, session: OpenSession) -> None:
        """A session of a key has gone."""
        older = self._older.get(key)
        if older is None:
            del self._newest[key]
            return
        if session is self._newest[key]:
            self._newest[key] = older.pop()
        else:
            older.remove(session)
        if not older:
            del self._older[key]

    def _forget_all(self) -> None:
        """Remember no sessions any more."""
        self._newest.clear()
        self._older.clear()
        self._changed.clear()
        self._ended = []

    def fire_timers(self, queue: TimerQueue, until: int, domain: TimeDomain) -> None:
        if domain is not TimeDomain.EVENT_TIME:
            return  # none was ever set
        assert self.merging is not None
        cursor, place, lateness = self.cursor, self.place, self.lateness
        forget, clear = self.merging.handle.remove, self.contents.clear
        newest_of, older_of = self._newest.get, self._older.get
        contents_of, emits, copies = self._contents(), self.spec.firing is Firing.EMIT, self.copies
        out: list[Any] = []
        out_times: list[int] = []
        session: OpenSession | None
        self.call = "on_event_time"
        try:
            firing: list[Any] = queue.take_due(until)  # nothing sets timers while these fire
            if self._ended:
                firing = sorted([*firing, *[(each.end - 1, each) for each in self._ended]], key=_TIME)
            for timestamp, due in firing:
                if type(due) is OpenSession:
                    session = due
                    key = session.state[0]
                    cursor.key = key
                else:
                    key, span = due
                    cursor.key = key
                    session = newest_of(key) or self._read(key)
                    if session is not None and session.start != span[0]:
                        older = older_of(key, ())
                        index = bisect_left(older, span[0], key=_START)
                        session = older[index] if index < len(older) else None
                    if session is None or session.span != span:
                        continue  # the session has gone, and left a timer behind
                state = session.state
                cursor.timestamp = place.timestamp = timestamp
                last = session.end - 1
                place.key = state
                if timestamp == last:
                    contents = contents_of()
                    if not (contents if self.listed else contents is not None):
                        pass
                    elif emits:
                        out.append(own(contents) if copies and type(contents) not in IMMUTABLE else contents)
                        out_times.append(timestamp)
                    else:
                        place.key = key, (session.start, session.end)
                        self.fire(TimeWindow(session.start, session.end), contents, out, out_times)
                        place.key = state
                if timestamp == last + lateness:
                    clear()
                    if self._clear is not None:
                        place.key = key, (session.start, session.end)
                        self.clear_function(TimeWindow(session.start, session.end))
                    if session.span is not None:
                        forget(session.text)
                    self._forget(key, session)
                if len(out) >= EMIT_AT:
                    self.emit_results(out, out_times)
                    out, out_times = [], []
        except BaseException as error:
            raise self.failure(error, self.call) from error
        finally:
            self.call = self._element_call
            cursor.leave()
            place.leave()
        self._ended = []
        self.emit_results(out, out_times)

    def _contents(self) -> Any:
        """Gives the contents at the cursor; None or an empty list when there are none."""
        contents = self.contents
        return contents.cell.value if self.spec.contents.kind is StateKind.REDUCING else contents.get
