"""What a record had a part in, out of what a traced replay has kept."""

from __future__ import annotations

from typing import Any

from changelog_engine.provenance.source_ranges import RecordAt
from changelog_engine.provenance.trace import Event, Origin, Step, Via


class Touched:
    """Follows a record forwards, of one split, or of any where it is None."""

    def __init__(self, sources: set[str], position: Any, split: str | None) -> None:
        self._sources = sources
        self._position = position
        self._split = split
        self._ranges: dict[int, dict[int, bool]] = {}
        self._events: set[int] = set()
        self._calls: dict[Step, bool] = {}
        self.seen = False

    def mutation(self, event: Event) -> bool:
        """Whether the record had a part in a mutation; asked of all of them in their order."""
        step = event.step
        part = (step is not None and self._called(step)) or any(
            id(each) in self._events for each in event.reads
        )
        if part:
            self._events.add(id(event))
        return part

    def origin(self, origin: Origin) -> bool:
        """Whether an element comes from the record."""
        while isinstance(origin, Via):
            origin = origin.origin
        if isinstance(origin, RecordAt):
            return self._is_it(origin)
        if isinstance(origin, Step):
            return self._called(origin) or any(id(each) in self._events for each in origin.reads or ())
        return False

    def _called(self, step: Step) -> bool:
        """Whether a call was made because of the record: for an element that comes from it, or a timer."""
        chain = []
        while (found := self._calls.get(step)) is None:
            chain.append(step)
            if step.timer is None or step.origin is None:
                found = self.origin(step.origin)
                break
            step = step.origin
            if any(id(each) in self._events for each in step.reads or ()):
                found = True
                break
        self._calls.update(dict.fromkeys(chain, found))
        return found

    def _is_it(self, record: RecordAt) -> bool:
        read, index = record.read, record.place
        if read.source not in self._sources or (self._split is not None and read.split != self._split):
            return False
        if index is None:
            return False
        begin, end = read.begin, read.end
        if type(begin) is int and type(end) is int and type(self._position) is int:
            if not begin <= self._position < end:
                return False
            if end - begin == len(read):
                found = begin + index == self._position
                self.seen = self.seen or found
                return found
        known = self._ranges.setdefault(id(read), {})
        if index not in known:
            known[index] = read.record(index)[0] == self._position
        self.seen = self.seen or known[index]
        return known[index]
