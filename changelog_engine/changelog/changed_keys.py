"""Which keys the mutations of a subtask changed since a checkpoint: what a subtask that keeps its state has to read again.

Invariants:
    * What was added stays known until the whole is let go of: a key may be named that has its old value again, and none is
      missing.
    * It is bounded. Where there would be more, ``complete`` becomes False, and it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from changelog_engine.changelog.rows import LogColumns
from changelog_engine.codec.columns import as_strings
from changelog_engine.graph.nodes import StateId
from changelog_engine.state.backend import TIMER_STATES

MOST_BYTES = 64 * 1024 * 1024


class ChangedKeys:
    """The keys of each state, and the timestamps of timers, in columns that the log was encoded into.

    Args:
        most_bytes: it becomes incomplete when it would hold more.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.complete = True
        self._most_bytes = most_bytes
        self._bytes = 0
        self._tables: dict[StateId, list[pa.Table]] = {}

    def add(self, drained: Iterable[LogColumns]) -> None:
        """Take what ``ChangelogBuffer.drain`` gave."""
        for each in drained:
            name, columns = each.name, each.columns
            wanted = ("value",) if name[1] in TIMER_STATES else ("key", "namespace")
            self._take(name, pa.table({of: columns[of] for of in wanted if columns[of] is not None}))
        self._bound()

    def join(self, later: ChangedKeys) -> None:
        """Take what another one has."""
        self.complete = self.complete and later.complete
        for name, tables in later._tables.items():
            for table in tables:
                self._take(name, table)
        self._bound()

    def tables(self) -> dict[StateId, pa.Table]:
        """(operator, state) to distinct rows: ``key``, and ``namespace`` of namespaced state; of timers ``value``."""
        return {name: _distinct(tables) for name, tables in self._tables.items()}

    def _take(self, name: StateId, table: pa.Table) -> None:
        self._tables.setdefault(name, []).append(table)
        self._bytes += table.nbytes

    def _bound(self) -> None:
        if self._bytes > self._most_bytes:
            self._tables = {name: [_distinct(tables)] for name, tables in self._tables.items()}
            self._bytes = sum(tables[0].nbytes for tables in self._tables.values())
            self.complete = self.complete and self._bytes <= self._most_bytes // 2
        if not self.complete:
            self._tables, self._bytes = {}, 0


def _distinct(tables: list[pa.Table]) -> pa.Table:
    names = tables[0].column_names
    whole = pa.concat_tables(
        [pa.table({name: as_strings(table[name]) for name in names}) for table in tables]
    )
    return whole.group_by(names, use_threads=False).aggregate([])
