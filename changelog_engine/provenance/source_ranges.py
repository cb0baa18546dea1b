"""The elements that a traced replay read: each range is kept, and read again when somebody asks what was in it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from changelog_engine.clock import Deadline, monotonic_s
from changelog_engine.replay.source import same

_PATIENCE_S = 10.0


class SourceRange:
    """The elements of one read of a split. They are read again when somebody asks what one of them was.

    Args:
        source: uid of the source's operator.
        reader: of the split, the source's own.
        begin, end: positions before and after the elements.
    """

    def __init__(
        self, source: str, name: str, split: str, reader: Any, begin: Any, end: Any, count: int
    ) -> None:
        self.source, self.name, self.split = source, name, split
        self.begin, self.end = begin, end
        self._reader = reader
        self._count = count
        self._records: list[tuple[Any, Any]] | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> RecordAt:
        return RecordAt(self, index)

    def record(self, index: int) -> tuple[Any, Any]:
        """Position and value of an element; None for the value when the source gives it no more."""
        if self._records is None:
            self._records = self._read_again()
        if index < len(self._records):
            return self._records[index]
        return (self.begin + index if self._dense else None), None

    def _read_again(self) -> list[tuple[Any, Any]]:
        """Each position and element: at once where every element takes one position, else one read after the other."""
        at, dense = self.begin, self._dense
        found: list[tuple[Any, Any]] = []
        deadline = Deadline(_PATIENCE_S, monotonic_s)
        while len(found) < self._count:
            read = self._reader.read(at, self._count - len(found) if dense else 1)
            found += [(at + index if dense else at, value) for index, value in enumerate(read.values)]
            if not same(at, read.next):
                at, deadline = read.next, Deadline(_PATIENCE_S, monotonic_s)
            elif read.finished or deadline.passed:  # a source may have nothing to give for a while
                break
            else:
                time.sleep(0.001)
        return found

    @property
    def _dense(self) -> bool:
        """Whether every element takes one position."""
        return type(self.begin) is int and type(self.end) is int and self.end - self.begin == self._count


class RecordAt(NamedTuple):
    """One element of a range; a place of None stands for what a source gave to a side output."""

    read: SourceRange
    place: int | None
