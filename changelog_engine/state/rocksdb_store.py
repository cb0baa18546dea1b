"""One RocksDB database of a worker process: opened empty, written in batches, removed at the end.

It has no write-ahead log: what makes state durable is the changelog, or the snapshot.

Invariant: a scan gives all that there is, or raises. RocksDB's own iteration ends without a word where it cannot read on. So
the last key of the database is nobody's, and a scan that comes neither to it nor to another key behind its own has failed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from changelog_engine.config import rocksdb_options as keys
from changelog_engine.errors import DiskFullError, StorageError
from changelog_engine.readable import size_text
from changelog_engine.state.local_folder import LocalFolder
from changelog_engine.state.sizes import TableSize

_BATCH_BYTES = 16 << 20
_PAUSE_S = 0.001
_STALLED = "write stall"
_LAST = b"\xff" * 3  # behind every table's keys
_FULL = ("no space left on device", "disk quota exceeded")  # RocksDB gives the system's words and no number


class RocksStore:
    """One RocksDB database in a folder of this process, which is removed with everything at the end."""

    def __init__(self, folder: LocalFolder, options: Options) -> None:
        self.folder = folder
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True  # type: ignore[method-assign,assignment]  # a property; its stub errs
        self._at_once = WriteOptions()
        self._at_once.disable_wal = self._at_once.no_slowdown = True  # type: ignore[method-assign,assignment]
        last = WriteBatch(raw_mode=True)
        last.put(_LAST, b"")
        try:
            self._db = Rdict(folder.path, options)
            self._db.write(last, self._write_options)
        except Exception as error:
            failure = _failure(folder.path, "be opened", error, 0)
            folder.remove()
            raise failure from error

    def get(self, key: bytes) -> bytes | None:
        """The bytes of a key, or None."""
        try:
            data: bytes | None = self._db.get(key)
        except Exception as error:
            raise _failure(self.folder.path, "read", error, 0) from error
        return data

    def write(self, batch: WriteBatch) -> None:
        """Apply a batch."""
        size = batch.size_in_bytes()  # a batch that was written, in vain or not, says nothing any more
        try:
            self._await_turn()
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise _failure(self.folder.path, "write", error, size) from error

    def _await_turn(self) -> None:
        """Wait while the database takes no writes, as its memory is full until a file is written or merged.

        Its own wait lets nothing else of the process run, and does not end when that fails: it waits for room on the disk.
        """
        while True:
            try:
                self._db.write(WriteBatch(raw_mode=True), self._at_once)
                return
            except Exception as error:
                if _STALLED not in str(error).lower():
                    raise
                if self._db.property_int_value("rocksdb.background-errors"):
                    raise OSError(f"{_FULL[0]} for a file that was written in the background") from error
            time.sleep(_PAUSE_S)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All that begins with the prefix, in the order of the bytes, as it is at the call."""
        try:
            items: Iterator[tuple[Any, Any]] = self._db.items(from_key=prefix)
            for key, data in items:
                if not key.startswith(prefix):
                    return
                yield key, data
            self._tell_why(prefix)
        except Exception as error:
            raise _failure(self.folder.path, "read", error, 0) from error

    def _tell_why(self, prefix: bytes) -> None:
        """Raise what ended an iteration before its end."""
        items = self._db.iter()
        items.seek(prefix)
        while items.valid():
            items.next()
        items.status()
        raise EOFError("an iteration ended before the last key")

    def size(self) -> TableSize:
        """About how many keys it holds, and bytes on the disk and in tables that wait to be written."""
        entries = self._db.property_int_value("rocksdb.estimate-num-keys")
        on_disk = self._db.property_int_value("rocksdb.estimate-live-data-size")
        in_memory = self._db.property_int_value("rocksdb.cur-size-all-mem-tables")
        entries = None if entries is None else max(0, entries - 1)  # without the last key
        return TableSize(entries, None if on_disk is None else on_disk + (in_memory or 0))

    def close(self) -> None:
        """Close the database and remove its files; that it could not write what nobody will read is no failure."""
        with contextlib.suppress(Exception):
            self._db.close()
        self.folder.remove()


def _failure(path: str, what: str, error: Exception, needed_bytes: int) -> StorageError:
    """RocksDB's error as ours; of a full disk, with how much there is and what to do."""
    if not any(words in str(error).lower() for words in _FULL):
        return StorageError(f"RocksDB cannot {what} in {path}: {error}")
    try:
        free: int | None = shutil.disk_usage(path).free
    except OSError:
        free = None
    held = _size_of(path)
    needed = (
        f"the {size_text(needed_bytes)} that it has to write now" if needed_bytes else "what it has to write"
    )
    left = "" if free is None else f", where {size_text(free)} are left"
    return DiskFullError(
        f"disk full: RocksDB cannot {what} in {path}: there is no room for {needed}{left}. The folder holds "
        f"{size_text(held)} of state, and merging its files takes up to as much again for a while. Nothing that was "
        "acknowledged is lost: free space on that file system, raise the quota, or name folders on a larger disk by "
        f"{keys.LOCAL_DIR.key}, and run the job again: it goes on from its last checkpoint. More subtasks on more machines "
        "make each folder smaller",
        path,
        needed_bytes,
        free,
        held,
    )


def _size_of(path: str) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except OSError:  # RocksDB removes files as it merges them
                continue
    return total


class BatchWriter:
    """Writes to a store in batches of bounded size."""

    def __init__(self, store: RocksStore) -> None:
        self._store = store
        self._batch = WriteBatch(raw_mode=True)
        self._waiting = 0
        self._records = 0
        self._bytes = 0

    def put(self, key: bytes, data: bytes) -> None:
        """Set the bytes of a key."""
        self._batch.put(key, data)
        self._records += 1
        self._waiting += len(key) + len(data)
        if self._waiting > _BATCH_BYTES:
            self._flush()

    def delete(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        self._batch.delete(key)
        self._records += 1
        self._waiting += len(key)
        if self._waiting > _BATCH_BYTES:
            self._flush()

    def delete_range(self, begin: bytes, end: bytes) -> None:
        """Remove all keys from one on and before another one."""
        self._batch.delete_range(begin, end)

    def finish(self) -> int:
        """Write the rest; returns the average size of a record in bytes."""
        self._flush()
        return self._bytes // max(1, self._records)

    def _flush(self) -> None:
        if not self._batch.is_empty():
            self._store.write(self._batch)
            self._batch = WriteBatch(raw_mode=True)
        self._bytes += self._waiting
        self._waiting = 0
