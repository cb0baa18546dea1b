"""Map state in RocksDB: small maps are pickled whole, large ones lie in it entry by entry.

A map's first record lies under its key: the whole map (``W``), or how many entries it has and the next number to give
(``S``). The entries of a spread map lie under its key followed by the map key, each with the number that it got when it was
added, so that a map is read in the order of insertion as a dict is.

Invariants:
    * A spread map is read and written entry by entry; only ``items``, ``keys`` and ``values`` read all of it.
    * The first record agrees with the entries whenever the table has written back.
    * When a spread map is removed or replaced, its entries go before anything new is written under its key.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from changelog_engine.state.backend import KeyIdentity
from changelog_engine.state.entry_bytes import dump, load
from changelog_engine.state.identity_bytes import after, decode, encode
from changelog_engine.state.rocksdb_store import BatchWriter, RocksStore
from changelog_engine.state.rocksdb_tables import UNREAD, RocksTable

WHOLE_ENTRIES = 64  # a larger map is spread
WHOLE_BYTES = 64 * 1024
_EARLY_ENTRIES = 4096  # a map that grows past it is spread before the end of the epoch
_WHOLE, _SPREAD = b"W", b"S"
_HEAD = struct.Struct(">QQ")


class SpreadMap:
    """A map that lies in RocksDB entry by entry, as a dict.

    Args:
        prefix: bytes of its key.
        number: of the next entry that is added.
    """

    def __init__(self, table: RocksMapTable, prefix: bytes, count: int, number: int) -> None:
        self._table = table
        self._prefix = prefix
        self._count = count
        self._number = number
        self._known: dict[Any, tuple[int, Any] | None] = {}  # None: not there
        self._changed: set[Any] = set()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, map_key: Any) -> bool:
        return self._find(map_key) is not None

    def get(self, map_key: Any, default: Any = None, /) -> Any:
        """The value of a map key, or the default."""
        found = self._find(map_key)
        return default if found is None else found[1]

    def __setitem__(self, map_key: Any, value: Any) -> None:
        found = self._find(map_key)
        if found is None:
            number = self._number
            self._number += 1
            self._count += 1
        else:
            number = found[0]
        self._known[map_key] = number, value
        self._changed.add(map_key)

    def __delitem__(self, map_key: Any) -> None:
        if self._find(map_key) is None:
            raise KeyError(map_key)
        self._known[map_key] = None
        self._changed.add(map_key)
        self._count -= 1

    def pop(self, map_key: Any, default: Any, /) -> Any:
        """Remove a map key and give its value, or the default."""
        found = self._find(map_key)
        if found is None:
            return default
        del self[map_key]
        return found[1]

    def items(self) -> list[tuple[Any, Any]]:
        """All entries in the order of insertion."""
        start = len(self._prefix)
        found: dict[Any, tuple[int, Any]] = {}
        for key, data in self._table.scan(self._prefix):
            if len(key) > start:
                map_key = decode(key, start)[0]
                if map_key not in self._changed:
                    found[map_key] = load(data)
        for map_key in self._changed:
            known = self._known[map_key]
            if known is not None:
                found[map_key] = known
        return in_order(found)

    def values(self) -> list[Any]:
        """All values in the order of insertion."""
        return [value for _, value in self.items()]

    def __iter__(self) -> Iterator[Any]:
        return iter([map_key for map_key, _ in self.items()])

    def head(self) -> bytes:
        """The first record."""
        return _SPREAD + _HEAD.pack(self._count, self._number)

    def write(self, writer: BatchWriter) -> None:
        """Write what changed, and forget what was read."""
        for map_key in self._changed:
            known = self._known[map_key]
            if known is None:
                writer.delete(self._prefix + encode(map_key))
            else:
                writer.put(self._prefix + encode(map_key), dump(known))
        self._changed.clear()
        self._known.clear()

    def forget(self) -> None:
        """Forget what was read and has not changed."""
        self._known = {map_key: self._known[map_key] for map_key in self._changed}

    def _find(self, map_key: Any) -> tuple[int, Any] | None:
        found: tuple[int, Any] | None = self._known.get(map_key, UNREAD)
        if found is UNREAD:
            self._table.make_room()
            try:
                data = self._table.store.get(self._prefix + encode(map_key))
                found = self._known[map_key] = None if data is None else load(data)
            except BaseException as error:
                self._table.has_failed(error)
                raise
        return found


class RocksMapTable(RocksTable):
    """A table of maps: dicts while they are small, else spread ones."""

    def __init__(self, store: RocksStore, number: int, room: Callable[[], int]) -> None:
        super().__init__(store, number, room)
        self.store = store
        # Keys whose spread map was removed and is still in the store.
        self._replaced: set[KeyIdentity] = set()
        self._found = 0

    def __setitem__(self, key: KeyIdentity, entry: Any, /) -> None:
        if type(entry) is not SpreadMap:
            if type(self.get(key)) is SpreadMap:
                self._replaced.add(key)
            if entry is not None and len(entry) > _EARLY_ENTRIES:
                self.changed[key] = entry
                self.spill()
                return
        super().__setitem__(key, entry)

    def items(self) -> Iterator[tuple[KeyIdentity, Any]]:
        """All entries as dicts, by the order of their keys' bytes."""
        self._write_all()
        prefix, parts = b"", dict[Any, tuple[int, Any]]()
        for raw, data in self.scan(self._prefix):
            if prefix and raw.startswith(prefix):
                parts[decode(raw, len(prefix))[0]] = load(data)
                continue
            if parts:
                yield decode(prefix, len(self._prefix))[0], dict(in_order(parts))
            prefix, parts = b"", {}
            if data[:1] == _WHOLE:
                yield decode(raw, len(self._prefix))[0], load(data[1:])
            else:
                prefix = raw
        if parts:
            yield decode(prefix, len(self._prefix))[0], dict(in_order(parts))

    def make_room(self) -> None:
        """One more entry of a spread map is read: write and forget all when they are too many."""
        self._found += 1
        if self._found > self._limit:
            self.spill()

    def _write_all(self) -> None:
        self._forget_found()
        super()._write_all()

    def spill(self) -> None:
        self._forget_found()
        super().spill()

    def _forget_found(self) -> None:
        self._found = 0
        for entry in self._cached.values():
            if type(entry) is SpreadMap:
                entry.forget()

    def _write(self, keys: list[KeyIdentity]) -> int:
        writer = BatchWriter(self._store)
        for key in self._replaced:
            prefix = self._bytes_of(key)
            writer.delete_range(prefix, after(prefix))
        self._replaced.clear()
        for key in keys:
            entry, prefix = self.changed[key], self._bytes_of(key)
            if entry is None:
                writer.delete(prefix)
            elif type(entry) is SpreadMap:
                entry.write(writer)
                writer.put(prefix, entry.head())
            elif not self._write_whole(writer, prefix, entry):
                self.changed[key] = self._spread(writer, prefix, entry)
        return writer.finish()

    def _write_whole(self, writer: BatchWriter, prefix: bytes, entry: dict[Any, Any]) -> bool:
        if len(entry) > WHOLE_ENTRIES:
            return False
        data = dump(entry)
        if len(entry) > 1 and len(data) > WHOLE_BYTES:
            return False
        writer.put(prefix, _WHOLE + data)
        return True

    def _spread(self, writer: BatchWriter, prefix: bytes, entry: dict[Any, Any]) -> SpreadMap:
        for number, (map_key, value) in enumerate(entry.items()):
            writer.put(prefix + encode(map_key), dump((number, value)))
        spread = SpreadMap(self, prefix, len(entry), len(entry))
        writer.put(prefix, spread.head())
        return spread

    def _decoded(self, key: KeyIdentity, data: bytes) -> Any:
        if data[:1] == _WHOLE:
            return load(data[1:])
        return SpreadMap(self, self._bytes_of(key), *_HEAD.unpack(data[1:]))


def in_order(entries: dict[Any, tuple[int, Any]]) -> list[tuple[Any, Any]]:
    """Numbered entries in the order of their numbers."""
    return [(map_key, value) for map_key, (_, value) in sorted(entries.items(), key=lambda item: item[1][0])]
