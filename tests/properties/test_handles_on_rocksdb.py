"""Handles on tables of RocksDB, in C and in Python, against the same handles on a dict: whatever is written when.

The cache is so small that entries go to the database and come back all the time, or so large that none does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.backends import rocks_backend

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.errors import TypeMismatchError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state import compiled_handles, factory
from changelog_engine.state.compiled_handles import compiled
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.rocksdb import RocksDBBackend
from changelog_engine.state.rocksdb_store import BatchWriter, RocksStore
from changelog_engine.types import Types


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocksDBBackend]:
    """One database for all examples, which take tables of their own and give them back."""
    made = rocks_backend(tmp_path_factory.mktemp("rocksdb"))
    yield made
    made.close()


class Add:
    """Adds up; gives None for 13, which is an error or clears the state."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return None if accumulator + value == 13 else accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def reduce(self, before: Any, value: Any) -> Any:
        return before + value


class Side:
    """One handle with its own table, log and cursor; all that it does is compared."""

    def __init__(self, spec: StateSpec, table: Any, calls: Any) -> None:
        self.cursor, self.table = Cursor(), table
        self.log = ChangelogBuffer(Types.LONG(), True, 128).log_of("op", spec)
        made = factory._handle(factory.OpenState("op", spec, spec, table, self.cursor, self.log))
        with mock.patch.object(compiled_handles, "CALLS", calls):
            self.handle = compiled(made)

    def call(self, key: int, name: str, *arguments: Any) -> Any:
        self.cursor.key, self.cursor.timestamp = key, 7
        try:
            found = getattr(self.handle, name)(*arguments)
        except TypeMismatchError as error:  # None in place of an accumulator
            return str(error)
        return list(found) if name in ("items", "keys", "values") else found

    def logged(self) -> Any:
        log = self.log
        return repr((log.keys, log.values, log.map_keys, log.operations, log.times))


def _content(table: Any) -> dict[Any, Any]:
    return {
        key: list(entry.items()) if hasattr(entry, "items") else entry
        for key, entry in table.items()
        if entry is not None
    }


NUMBERS = st.integers(-3, 9)
CALLS: dict[StateKind, list[tuple[Any, ...]]] = {
    StateKind.VALUE: [("value",), ("update", NUMBERS), ("update", NUMBERS), ("clear",)],
    StateKind.REDUCING: [("get",), ("add", NUMBERS), ("begins", NUMBERS), ("clear",)],
    StateKind.AGGREGATING: [("get",), ("add", NUMBERS), ("begins", NUMBERS), ("clear",)],
    StateKind.LIST: [
        ("get",),
        ("add", NUMBERS),
        ("begins", NUMBERS),
        ("update", st.lists(NUMBERS, min_size=1, max_size=3)),
        ("clear",),
    ],
    StateKind.MAP: [
        ("get", NUMBERS),
        ("put", NUMBERS, NUMBERS),
        ("put", NUMBERS, NUMBERS),
        ("contains", NUMBERS),
        ("remove", NUMBERS),
        ("items",),
        ("clear",),
    ],
}


class Toggle(Add):
    """Begins with nothing, and forgets with each second element what the first one left."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value if accumulator is None else None


CHANGES: dict[StateKind, tuple[Any, ...]] = {
    StateKind.VALUE: ("update", 4),
    StateKind.REDUCING: ("add", 4),
    StateKind.AGGREGATING: ("add", 4),
    StateKind.LIST: ("add", 4),
    StateKind.MAP: ("put", 4, 4),
}


@pytest.mark.parametrize("kind", list(CHANGES), ids=lambda kind: kind.value)
@pytest.mark.parametrize("value_type", [Types.LONG(), Types.BIG_INT()], ids=str)
def test_an_entry_is_what_it_became_last_wherever_the_ones_before_lie(
    calls: ModuleType, backend: RocksDBBackend, kind: StateKind, value_type: Any
) -> None:
    """All that may come of four changes, removals and writes, each of them of a key of its own."""
    function = {StateKind.REDUCING: Add(), StateKind.AGGREGATING: Toggle()}.get(kind)
    map_key_type = Types.LONG() if kind is StateKind.MAP else None
    spec = StateSpec("s", kind, value_type, map_key_type=map_key_type, function=function)
    backend._cache_bytes = 1 << 24
    tables: list[Any] = [backend.table("op", "in C", kind), backend.table("op", "in Python", kind)]
    sides = [Side(spec, dict[Any, Any](), None), Side(spec, tables[0], calls), Side(spec, tables[1], None)]
    read = next(call[0] for call in CALLS[kind] if call[0] in ("value", "get", "items"))
    for key, steps in enumerate(product(("change", "clear", "spill", "begin_epoch"), repeat=4)):
        for step in steps:
            if step == "change":
                assert len({repr(side.call(key, *CHANGES[kind])) for side in sides}) == 1
            elif step == "clear":
                assert [side.call(key, "clear") for side in sides] == [None] * 3
            else:
                for table in tables:
                    getattr(table, step)()
        arguments = (4,) if (kind, read) == (StateKind.MAP, "get") else ()
        assert len({repr(side.call(key, read, *arguments)) for side in sides}) == 1, steps
    contents = [_content(side.table) for side in sides]
    assert contents[1] == contents[0] == contents[2]
    assert sides[1].logged() == sides[0].logged() == sides[2].logged()
    for table in tables:
        backend.remove(table)


@pytest.mark.parametrize("kind", list(CALLS), ids=lambda kind: kind.value)
@pytest.mark.parametrize("value_type", [Types.LONG(), Types.BIG_INT()], ids=str)
@given(data=st.data())
def test_a_handle_on_rocksdb_does_what_one_on_a_dict_does(
    calls: ModuleType, backend: RocksDBBackend, kind: StateKind, value_type: Any, data: st.DataObject
) -> None:
    of_map = kind is StateKind.MAP
    function = Add() if kind in (StateKind.REDUCING, StateKind.AGGREGATING) else None
    spec = StateSpec("s", kind, value_type, map_key_type=Types.LONG() if of_map else None, function=function)
    backend._cache_bytes = 2 * data.draw(st.sampled_from([0, 900, 2_000, 1 << 20]))
    tables: list[Any] = [backend.table("op", "in C", kind), backend.table("op", "in Python", kind)]
    model = Side(spec, dict[Any, Any](), None)
    sides = [Side(spec, tables[0], calls), Side(spec, tables[1], None)]
    try:
        steps = st.tuples(st.integers(0, 9), st.integers(0, 11))
        for key, chance in data.draw(st.lists(steps, max_size=60)):
            if chance == 0:
                backend.begin_epoch()
            elif chance == 1:
                for table in tables:
                    assert _content(table) == _content(model.table)
            else:
                name, *strategies = data.draw(st.sampled_from(CALLS[kind]))
                arguments = [data.draw(strategy) for strategy in strategies]
                wanted = model.call(key, name, *arguments)
                for side in sides:
                    assert side.call(key, name, *arguments) == wanted, (name, arguments)
        for side in sides:
            assert side.logged() == model.logged()
            assert _content(side.table) == _content(model.table)
            if side.table._fixed:
                assert len(side.table.changed) + len(side.table._cached) <= side.table._limit + 1
    finally:
        for table in tables:
            backend.remove(table)


def test_entries_of_fixed_size_are_written_when_there_is_no_room(tmp_path: Path) -> None:
    """A LONG waits, however many epochs end; of others each epoch writes what changed."""
    backend = rocks_backend(tmp_path, 2 * 1_000 * 232)
    number: Any = backend.table("op", "number", StateKind.VALUE)
    text: Any = backend.table("op", "text", StateKind.VALUE)
    for table, kind in ((number, Types.LONG()), (text, Types.STRING())):
        spec = StateSpec("s", StateKind.VALUE, kind)
        factory._handle(factory.OpenState("op", spec, spec, table, Cursor(), None))
    writes: list[int] = []
    put, get = BatchWriter.put, RocksStore.get
    reads: list[bytes] = []
    with (
        mock.patch.object(
            BatchWriter, "put", lambda self, key, data: writes.append(key[1]) or put(self, key, data)
        ),
        mock.patch.object(RocksStore, "get", lambda self, key: reads.append(key) or get(self, key)),
    ):
        for _ in range(3):
            for key in range(1_000):
                number[key] = (number.get(key) or 0) + 1
            text["key"] = "x"
            backend.begin_epoch()
        assert (writes, reads) == ([1, 1, 1], [])
        most = 0
        for key in range(1_000, 3_000):
            number[key] = 1
            most = max(most, len(number.changed) + len(number._cached))
        assert most == 1_000
        assert 2_000 <= len(writes) < 2_100
        # What waits to be written leaves room for what is read.
        for key in [*range(3_000)] * 2:
            assert number.get(key) == (3 if key < 1_000 else 1)
            assert len(number.changed) + len(number._cached) <= number._limit + 1
        assert len(number.changed) < 600
    assert 1_500 < backend.sizes()["op", ""].entries <= 3_001  # about
    backend.close()


def test_what_a_restore_cleared_and_put_again_stays_where_sizes_are_fixed_from_then_on(
    tmp_path: Path,
) -> None:
    """A restore fills a table before its handle says of which size the entries are."""
    backend = rocks_backend(tmp_path, 10_000)
    table: Any = backend.table("op", "s", StateKind.VALUE)
    table.pop("key", None)
    table["key"] = 7
    table.of_fixed_size(True)
    for other in range(2 * table._limit):
        table[other] = other
    assert table.get("key") == 7
    backend.close()
