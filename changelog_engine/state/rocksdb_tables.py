"""State tables in RocksDB, with a cache of decoded entries before it.

Invariants:
    * What ``get`` gives is the last entry that was set, wherever it lies: changed entries go before cached ones, those
      before the store.
    * An entry that was changed in place and set again is written again.
    * When a write has failed, what was half-way between memory and the store may be in neither; when a read has, a mutation
      may be logged that the table does not have. So each write after it fails too, whoever caught the first failure: an
      epoch never ends with such a table.
    * The number of entries in memory is bounded by the cache's size and the average size of entries.
    * Entries of a size that is fixed are written when there is no room for them, some at a time, or when all are asked for:
      nothing of the database outlives the process. Others are written when the next epoch begins, which tells their size: a
      checkpoint needs the log alone and does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any

from changelog_engine.state.backend import BufferedTable, KeyIdentity
from changelog_engine.state.entry_bytes import dump, load
from changelog_engine.state.identity_bytes import after, decode, encoder
from changelog_engine.state.rocksdb_store import BatchWriter, RocksStore

_FIXED_SIZE = 16  # bytes of an entry whose size is fixed, as long as none was written
FIRST_SIZE = 4096  # bytes of an entry as long as none was seen: the first cache is small
_PARTS = 16  # of a full table whose entries wait, what is written at once
OVERHEAD = 200  # bytes that Python needs for an entry beside its data
UNREAD: Any = object()


class RocksTable(BufferedTable):
    """A state table in RocksDB: entries are pickled whole.

    Args:
        number: tells it from the store's other tables.
        room: how many bytes of memory it may use now.
    """

    def __init__(self, store: RocksStore, number: int, room: Callable[[], int]) -> None:
        self._store = store
        self._prefix = number.to_bytes(2, "big")
        self._bytes_of = encoder(self._prefix)
        self._room = room
        self.changed: dict[KeyIdentity, Any] = {}  # None: removed
        self._cached: dict[KeyIdentity, Any] = {}  # None: not there
        self._changed_get = self.changed.get
        self._cached_get = self._cached.get
        self._fixed = False
        self._limit = self._entries_of(FIRST_SIZE)
        self._stored = False  # whether the store may have anything of this table
        self._failure: BaseException | None = None  # of the first write or read that failed
        self._failed_at: TracebackType | None = None  # what is raised again and again would grow

    @property
    def whole(self) -> bool:
        """Whether no write and no read has failed."""
        return self._failure is None

    def of_fixed_size(self, fixed: bool) -> None:
        if fixed != self._fixed:
            self.spill()  # of entries of fixed size a key is in one of both dicts
            self._fixed = fixed
            self._limit = self._entries_of(_FIXED_SIZE if fixed else FIRST_SIZE)

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
        self.changed[key] = entry
        if self._fixed:
            self._cached.pop(key, None)
            if len(self.changed) + len(self._cached) > self._limit:
                self._make_room()
        elif len(self.changed) > self._limit:
            self.spill()

    def items(self) -> Iterator[tuple[KeyIdentity, Any]]:
        """All entries, by the order of their keys' bytes."""
        self._write_all()
        for key, data in self.scan(self._prefix):
            yield decode(key, len(self._prefix))[0], load(data)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Everything in the store that begins with the prefix."""
        try:
            yield from self._store.scan(prefix)
        except Exception as error:
            self.has_failed(error)
            raise

    def begin_epoch(self) -> None:
        """Write what changed, unless it can wait; it stays in the cache.

        Raises:
            StorageError: something could not be written, now or at an earlier time.
        """
        if not self._fixed:
            self._write_all()

    def end_epoch(self) -> None:
        """Let no epoch end with a table of which something could not be read or written."""
        self._refuse_failed()

    def _write_all(self) -> None:
        self.write_back()
        if len(self._cached) + len(self.changed) > self._limit:
            self._cached.clear()
        self._cached.update(self.changed)
        self.changed.clear()

    def spill(self) -> None:
        """Write what changed and empty the cache."""
        self.write_back()
        self._cached.clear()  # first: what it has of a changed key is old, and a signal handler may raise in between
        self.changed.clear()

    def write_back(self) -> None:
        """Write what changed.

        Raises:
            StorageError: it could not be written, now or at an earlier time.
            NotSerializableError: a value can't be kept.
        """
        self._write_of(self.changed)

    def _make_room(self) -> None:
        """Let go of what was read, or write what changed first and let go of that, whichever is more.

        It is written in parts: all at once would be a pause of a second.
        """
        if len(self._cached) > len(self.changed):
            self._cached.clear()
            return
        oldest = list(islice(self.changed, len(self.changed) // _PARTS + 1))
        self._write_of(oldest)
        for key in oldest:
            del self.changed[key]

    def _write_of(self, keys: Collection[KeyIdentity]) -> None:
        self._refuse_failed()
        if keys:
            self._stored = True
            try:
                self._limit = self._entries_of(self._write(_sorted(keys)))
            except BaseException as error:
                self.has_failed(error)
                raise

    def _refuse_failed(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(self._failed_at)

    def clear(self) -> None:
        """Remove everything."""
        self.changed.clear()
        self._cached.clear()
        writer = BatchWriter(self._store)
        writer.delete_range(self._prefix, after(self._prefix))
        writer.finish()

    def _write(self, keys: list[KeyIdentity]) -> int:
        writer, changed, bytes_of = BatchWriter(self._store), self.changed, self._bytes_of
        put = writer.put
        for key in keys:
            entry = changed[key]
            if entry is None:
                writer.delete(bytes_of(key))
            else:
                put(bytes_of(key), dump(entry))
        return writer.finish()

    def _load(self, key: KeyIdentity) -> Any:
        entry = None
        if self._stored:
            try:
                data = self._store.get(self._bytes_of(key))
                entry = None if data is None else self._decoded(key, data)
            except BaseException as error:
                self.has_failed(error)
                raise
        if self._fixed:
            if len(self.changed) + len(self._cached) >= self._limit:
                self._make_room()
        elif len(self._cached) >= self._limit:
            self._cached.clear()
        self._cached[key] = entry
        return entry

    def has_failed(self, error: BaseException) -> None:
        """Something of it could not be read or written."""
        if self._failure is None:
            self._failure, self._failed_at = error, error.__traceback__

    def _decoded(self, key: KeyIdentity, data: bytes) -> Any:
        return load(data)

    def _entries_of(self, size: int) -> int:
        """How many entries of a size fit: changed and cached ones together if they are of fixed size, else of each."""
        return max(1, self._room() // ((2 * size + OVERHEAD) * (1 if self._fixed else 2)))


def _sorted(keys: Iterable[KeyIdentity]) -> list[KeyIdentity]:
    try:
        return sorted(keys)  # RocksDB takes them faster in order
    except TypeError:
        return list(keys)
