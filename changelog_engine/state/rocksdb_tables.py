"""State tables in RocksDB, with a cache of decoded entries before it.

Invariants:
    * What ``get`` gives is the last entry that was set, wherever it lies: changed entries go before cached ones, those
      before the store.
    * An entry that was changed in place and set again is written again.
    * When a write has failed, what was half-way between memory and the store may be in neither. So each write after it fails
      too, whoever caught the first failure: an epoch never ends with such a table.
    * The number of entries in memory is bounded by the cache's size and the average size of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from changelog_engine.state.backend import KeyIdentity
from changelog_engine.state.entry_bytes import dump, load
from changelog_engine.state.identity_bytes import after, decode, encoder
from changelog_engine.state.rocksdb_store import BatchWriter, RocksStore

FIRST_SIZE = 4096  # bytes of an entry as long as none was seen: the first cache is small
OVERHEAD = 200  # bytes that Python needs for an entry beside its data
UNREAD: Any = object()


class RocksTable:
    """A state table in RocksDB: entries are pickled whole.

    Args:
        store: where it lies.
        number: tells it from the store's other tables.
        room: how many bytes of memory it may use now.
    """

    def __init__(self, store: RocksStore, number: int, room: Callable[[], int]) -> None:
        self._store = store
        self._prefix = number.to_bytes(2, "big")
        self._bytes_of = encoder(self._prefix)
        self._room = room
        self._changed: dict[KeyIdentity, Any] = {}  # None: removed
        self._cached: dict[KeyIdentity, Any] = {}  # None: not there
        self._changed_get = self._changed.get
        self._cached_get = self._cached.get
        self._limit = self._entries_of(FIRST_SIZE)
        self._failure: BaseException | None = None  # of the first write that failed

    @property
    def whole(self) -> bool:
        """Whether no write has failed."""
        return self._failure is None

    def get(self, key: KeyIdentity, default: Any = None, /) -> Any:
        entry = self._changed_get(key, UNREAD)
        if entry is UNREAD:
            entry = self._cached_get(key, UNREAD)
            if entry is UNREAD:
                entry = self._load(key)
        return default if entry is None else entry

    def pop(self, key: KeyIdentity, default: Any, /) -> Any:
        entry = self.get(key)
        if entry is None:
            return default
        self[key] = None
        return entry

    def __setitem__(self, key: KeyIdentity, entry: Any, /) -> None:
        self._changed[key] = entry
        if len(self._changed) > self._limit:
            self.spill()

    def items(self) -> Iterator[tuple[KeyIdentity, Any]]:
        """All entries, by the order of their keys' bytes."""
        self.end_epoch()
        for key, data in self._store.scan(self._prefix):
            yield decode(key, len(self._prefix))[0], load(data)

    def end_epoch(self) -> None:
        """Write what changed; it stays in the cache."""
        self.write_back()
        if len(self._cached) + len(self._changed) > self._limit:
            self._cached.clear()
        self._cached.update(self._changed)
        self._changed.clear()

    def spill(self) -> None:
        """Write what changed and empty the cache."""
        self.write_back()
        self._changed.clear()
        self._cached.clear()

    def write_back(self) -> None:
        """Write what changed.

        Raises:
            StorageError: it could not be written, now or at an earlier time.
            NotSerializableError: a value can't be kept.
        """
        if self._failure is not None:
            raise self._failure
        if self._changed:
            try:
                self._limit = self._entries_of(self._write(self._sorted()))
            except BaseException as error:
                self._failure = error
                raise

    def clear(self) -> None:
        """Remove everything."""
        self._changed.clear()
        self._cached.clear()
        writer = BatchWriter(self._store)
        writer.delete_range(self._prefix, after(self._prefix))
        writer.finish()

    def _sorted(self) -> list[KeyIdentity]:
        try:
            return sorted(self._changed)  # RocksDB takes them faster in order
        except TypeError:
            return list(self._changed)

    def _write(self, keys: list[KeyIdentity]) -> int:
        writer, changed, bytes_of = BatchWriter(self._store), self._changed, self._bytes_of
        put = writer.put
        for key in keys:
            entry = changed[key]
            if entry is None:
                writer.delete(bytes_of(key))
            else:
                put(bytes_of(key), dump(entry))
        return writer.finish()

    def _load(self, key: KeyIdentity) -> Any:
        data = self._store.get(self._bytes_of(key))
        entry = None if data is None else self._decoded(key, data)
        if len(self._cached) >= self._limit:
            self._cached.clear()
        self._cached[key] = entry
        return entry

    def _decoded(self, key: KeyIdentity, data: bytes) -> Any:
        return load(data)

    def _entries_of(self, size: int) -> int:
        """How many entries of a size fit, half of them changed and half of them cached."""
        return max(1, self._room() // (2 * (2 * size + OVERHEAD)))
