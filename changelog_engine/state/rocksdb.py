"""The RocksDB backend: tables on the local disk, for state that is larger than memory.

An entry is read once and kept decoded in a bounded cache; entries that changed are written in one batch at the end of the
epoch, or before it when the cache is full. The changelog sees every mutation all the same.

Timers stay on the heap (Flink's ``state.backend.rocksdb.timer-service.factory=HEAP``).
"""

from __future__ import annotations

from collections.abc import Callable

from changelog_engine.graph.nodes import StateKind
from changelog_engine.state.backend import StateTable
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.local_folder import LocalFolder
from changelog_engine.state.rocksdb_maps import RocksMapTable
from changelog_engine.state.rocksdb_store import RocksStore
from changelog_engine.state.rocksdb_tables import RocksTable


class RocksDBBackend(HeapBackend):
    """Keeps every state of one subtask in a RocksDB database on the local disk, and the timers on the heap.

    Args:
        open_store: opens the database; called when the first state is declared.
        cache_bytes: about how much memory decoded entries may use.
        rows_folder: makes a folder for restored rows.
    """

    def __init__(
        self, open_store: Callable[[], RocksStore], cache_bytes: int, rows_folder: Callable[[], LocalFolder]
    ) -> None:
        super().__init__()
        self.rows_folder = rows_folder
        self._open_store = open_store
        self._store: RocksStore | None = None
        self._cache_bytes = cache_bytes
        self._rocks: dict[tuple[str, str], RocksTable] = {}

    def table(self, operator: str, state: str, kind: StateKind | None = None) -> StateTable:
        """See StateBackend."""
        name = operator, state
        if name not in self._rocks:
            if self._store is None:
                self._store = self._open_store()
            table_class = RocksMapTable if kind is StateKind.MAP else RocksTable
            self._rocks[name] = table_class(self._store, len(self._rocks), self._room)
        return self._rocks[name]

    def end_epoch(self) -> None:
        """See StateBackend."""
        for table in self._rocks.values():
            table.end_epoch()

    def close(self) -> None:
        """See StateBackend."""
        super().close()
        self._rocks.clear()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _room(self) -> int:
        return self._cache_bytes // max(1, len(self._rocks))
