"""The RocksDB backend: tables on the local disk, for state that is larger than memory.

An entry is read once and kept decoded in a bounded cache; entries that changed are written in one batch when the next epoch
begins, or before it when the cache is full, those of a fixed size only then. The changelog sees every mutation all the same.

Timers stay on the heap (Flink's ``state.backend.rocksdb.timer-service.factory=HEAP``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping

from changelog_engine.graph.nodes import StateKind
from changelog_engine.state.backend import KeptBackend, StateTable, TableSize
from changelog_engine.state.rocksdb_maps import RocksMapTable
from changelog_engine.state.rocksdb_store import RocksStore
from changelog_engine.state.rocksdb_tables import OVERHEAD, RocksTable


class RocksDBBackend(KeptBackend):
    """Keeps every state of one subtask in a RocksDB database on the local disk, and the timers on the heap.

    Args:
        open_store: opens the database; called when the first state is declared.
        cache_bytes: about how much memory decoded entries may use.
        root: local folder below which all that it keeps lies; None for the machine's folder for temporary files.
    """

    def __init__(self, open_store: Callable[[], RocksStore], cache_bytes: int, root: str | None) -> None:
        self._root = root
        self._open_store = open_store
        self._store: RocksStore | None = None
        self._cache_bytes = cache_bytes
        self._tables: list[RocksTable] = []
        self._names: list[tuple[str, str]] = []
        self._numbered = 0  # tables, with those that were removed

    def table(self, operator: str, state: str, kind: StateKind) -> StateTable:
        if self._store is None:
            self._store = self._open_store()
        table_class = RocksMapTable if kind is StateKind.MAP else RocksTable
        table = table_class(self._store, self._numbered, self._room)
        self._numbered += 1
        self._tables.append(table)
        self._names.append((operator, state))
        return table

    def rows_folder(self) -> str:
        return self._root or tempfile.gettempdir()

    def sizes(self) -> Mapping[tuple[str, str], TableSize]:
        """Of one database for all states: it is told for what they have in common."""
        if self._store is None:
            return {}
        operators = {operator for operator, _ in self._names}
        name = (
            self._names[0] if len(self._names) == 1 else (operators.pop() if len(operators) == 1 else "", "")
        )
        entries, size = self._store.size()
        # Of a key that was written before and has changed since both know, so neither number is added to the other.
        waiting = sum(len(table.changed) for table in self._tables)
        return {
            name: TableSize(
                None if entries is None else max(entries, waiting),
                None if size is None else size + waiting * OVERHEAD,
            )
        }

    def is_whole(self) -> bool:
        return all(table.whole for table in self._tables)

    def remove(self, table: StateTable) -> None:
        assert isinstance(table, RocksTable)
        table.clear()
        place = self._tables.index(table)
        del self._tables[place], self._names[place]

    def begin_epoch(self) -> None:
        for table in self._tables:
            table.begin_epoch()

    def end_epoch(self) -> None:
        for table in self._tables:
            table.end_epoch()

    def close(self) -> None:
        self._tables.clear()
        self._names.clear()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _room(self) -> int:
        return self._cache_bytes // max(1, len(self._tables))
