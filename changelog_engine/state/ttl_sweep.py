"""The clean-up of expired entries that nobody reads: a few keys at a time, or a whole table at once.

* Heap tables are cleaned incrementally: some keys at each access to the state, and at each record when asked for.
* Tables on disk take the place of RocksDB's compaction filter by a check at the end of each epoch, because the filter would
  remove entries without a mutation in the log.
* What a restore brings back is checked as a whole before the user's function sees it; so is, before each full snapshot, a
  state whose expired entries it is to leave out.

Invariants:
    * A check reads each key at most once in a round through the table, and takes a bounded number of keys a call.
    * What accesses check costs the same on average however large lists and maps are: one that is larger than
      ``ELEMENTS_A_KEY`` counts as several keys, which the checks after it do without.
    * A sweep leaves the cursor as it found it.
    * Nothing is checked before ``due_ms``: no entry can have expired then, because a round through the table saw the
      earliest access, and later ones are later. When the clock is set back, what expires meanwhile is removed later, by a
      time to live at most: the end of an epoch notices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from changelog_engine.codec.keys import key_codec_for
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state.backend import StateTable
from changelog_engine.state.cursor import Cursor

ELEMENTS_A_KEY = 8
_ALWAYS = -(2**63)  # before all times
_FIRST = itemgetter(0)
EPOCH_ENTRIES = 4_096  # keys of a table on disk that the end of an epoch looks at


class Sweep:
    """Finds and removes the expired entries of one state.

    Args:
        spec: the user's state, with its time to live.
        inner: the handle of the stored state.
        cursor: tells the inner handle which key it works on.
        clock: wall clock in ms.

    Attributes:
        due_ms: wall clock in ms; before it no entry expires, and nobody needs to check.
    """

    def __init__(
        self, spec: StateSpec, inner: Any, table: StateTable, cursor: Cursor, clock: Callable[[], int]
    ) -> None:
        assert spec.ttl is not None
        self.ttl = spec.ttl
        self._dict = table if isinstance(table, dict) else None
        self.incremental = self._dict is not None
        self._inner = inner
        self._table = table
        self._cursor = cursor
        self._clock = clock
        self._rest: Iterator[tuple[Any, Any]] = iter(())
        self._since: Callable[[Any], int]
        self._since, self._remove = {
            StateKind.LIST: (self._since_of_list, self._remove_elements),
            StateKind.MAP: (self._since_of_map, self._remove_map_keys),
        }.get(spec.kind, (_FIRST, self._remove_cell))
        self._by_elements = self._since is not _FIRST  # whether a key counts by what it has
        self.due_ms = _ALWAYS
        self._earliest = _ALWAYS  # access that this round has seen
        self._ahead = 0  # keys' worth of elements that were checked and that later calls do without
        self._map_keys = key_codec_for(spec.map_key_type) if spec.kind is StateKind.MAP else None

    def check(self, keys: int) -> int:
        """Check the next keys, from where the last call stopped; after the table's last key, the next call starts anew.

        Args:
            keys: how many at most.

        Returns:
            How many were checked; 0 only for an empty table, and when no entry can have expired.
        """
        return self._check(keys, by_elements=False)

    def check_some(self, keys: int) -> None:
        """As ``check``, for accesses: it goes by the elements of lists and maps."""
        if self._ahead >= keys:
            self._ahead -= keys
        else:
            checked = self._check(keys - self._ahead, self._by_elements)
            self._ahead = max(0, self._ahead + checked - keys)

    def _check(self, keys: int, by_elements: bool) -> int:
        now = self._clock()
        if now < self.due_ms:
            return 0
        until = now - self.ttl.ttl_ms
        checked = self._check_until(keys, until, by_elements)
        if not checked and not self._round_over(now):
            checked = self._check_until(keys, until, by_elements)
        return checked

    def _round_over(self, now: int) -> bool:
        """Begin a round through the table, unless the one that is over saw that nothing is due; tells whether that is so."""
        self.due_ms = self._earliest + self.ttl.ttl_ms
        if now < self.due_ms:
            return True
        self._earliest = now  # what comes into the table from now on is accessed now or later
        self._rest = self._entries()
        return False

    def _check_until(self, keys: int, until: int, by_elements: bool) -> int:
        """Check up to this many keys, or as many elements as keys usually have; returns how many keys that were."""
        checked, since_of, earliest = 0, self._since, self._earliest
        for key, entry in self._rest:
            checked += 1
            if entry is not None:
                if by_elements:
                    checked += len(entry) // ELEMENTS_A_KEY
                since = since_of(entry)
                if since < earliest:
                    earliest = since
                if since <= until:
                    self._at(key, until)
            if checked >= keys:
                break
        self._earliest = earliest
        return checked

    def _entries(self) -> Iterator[tuple[Any, Any]]:
        table = self._dict
        if table is not None:
            return ((key, table.get(key)) for key in list(table))  # each entry as it is when its turn comes
        return iter(self._table.items())  # as the table is now, whatever changes until the round's end

    def check_all(self) -> int:
        """Check the whole table now; returns how many keys had expired entries."""
        until = self._clock() - self.ttl.ttl_ms
        found = [key for key, entry in self._table.items() if self._since(entry) <= until]
        for key in found:
            self._at(key, until)
        return len(found)

    def after_records(self, records: int) -> None:
        """Clean up as a number of records would."""
        if self._dict is not None and self.ttl.every_record:
            self.check_some(min(records * self.ttl.incremental_size, len(self._dict)))

    def end_epoch(self) -> None:
        """The check that stands for the compaction filter; a clock that was set back begins the rounds anew."""
        if self.due_ms - self._clock() > self.ttl.ttl_ms:
            self.due_ms = self._earliest = _ALWAYS
            self._rest = iter(())
        every = self.ttl.filter_entries
        if self.incremental or not every:
            return
        left = EPOCH_ENTRIES
        while left > 0:
            asked = min(every, left)
            if self.check(asked) < asked:
                return
            left -= asked

    def close(self) -> None:
        """Let go of the table: nothing of it is removed any more, whoever still has a handle."""
        self._rest, self._table = iter(()), {}
        if self._dict is not None:
            self._dict = {}

    def _at(self, key: Any, until: int) -> None:
        cursor = self._cursor
        before = cursor.key if cursor.placed else None  # no identity of a key is None
        cursor.key = key
        try:
            self._remove(key, until)
        finally:
            if before is None:
                cursor.leave()
            else:
                cursor.key = before

    @staticmethod
    def _since_of_list(entry: Any) -> int:
        """The earliest access of a list's elements."""
        return int(min([since for since, _ in entry]))

    @staticmethod
    def _since_of_map(entry: Any) -> int:
        """The earliest access of a map's entries."""
        return int(min([since for since, _ in entry.values()]))

    def _remove_cell(self, key: Any, until: int) -> None:
        entry = self._table.get(key)
        if entry is not None and entry[0] <= until:
            self._inner.clear()

    def _remove_elements(self, key: Any, until: int) -> None:
        entry = self._table.get(key) or []
        live = [element for element in entry if element[0] > until]
        if len(live) < len(entry):
            self._inner.update(live)

    def _remove_map_keys(self, key: Any, until: int) -> None:
        entry = self._table.get(key) or {}
        expired = [map_key for map_key, (since, _) in entry.items() if since <= until]
        if expired and len(expired) == len(entry):
            self._inner.clear()
            return
        assert self._map_keys is not None
        for map_key in expired:
            self._inner.remove(self._map_keys.key_of(map_key))
