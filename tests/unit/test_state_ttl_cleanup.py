"""The clean-up of expired entries that nobody reads."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.ttl_bench import TTL, TtlBench

from api.common.typeinfo import Types
from changelog_engine.graph.nodes import StateKind, StateSpec, TtlSpec
from changelog_engine.state.cursor import Cursor, NamespaceScope
from changelog_engine.state.ttl_sweep import ELEMENTS_A_KEY, EPOCH_ENTRIES, Sweep
from changelog_engine.windowing.namespaces import TimeWindows


class DiskTable:
    """A table that is no dict, as one on disk; counts the entries that are read in turn."""

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}
        self.scanned = 0
        self.get = self.entries.get
        self.pop = self.entries.pop

    def __setitem__(self, key: Any, entry: Any) -> None:
        self.entries[key] = entry

    def __len__(self) -> int:
        return len(self.entries)

    def items(self) -> Any:
        for pair in list(self.entries.items()):
            self.scanned += 1
            yield pair


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., TtlBench]:
    return lambda *args, **more: TtlBench(tmp_path, *args, **more)


def fill(b: TtlBench, keys: int) -> None:
    for number in range(keys):
        b.key(f"k{number}").state.update(number)
    b.logged()


def test_incremental_cleanup_goes_round_a_few_keys_at_a_time(bench):
    b = bench(incremental_size=3)
    fill(b, 10)
    b.now += TTL
    left = [len(b.table)]
    while left[-1] and len(left) < 20:
        b.key("other").state.value()
        assert b.store.cursor.key == "other"
        left.append(len(b.table))
    assert left[-1] == 0
    assert {before - after for before, after in itertools.pairwise(left)} <= {0, 1, 2, 3}
    assert left.index(0) <= 8  # at most one round to end, and one more
    assert sorted(b.logged()) == sorted(("clear", f"k{number}") for number in range(10))


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_clock_that_is_set_back_does_not_end_the_cleanup(bench, on_disk):
    """It rested until the time of the wrong clock."""
    b = bench(table=DiskTable(), filter_entries=10) if on_disk else bench(incremental_size=3)
    years = 1_000 * TTL
    b.now += years
    b.state.update(0)
    for _ in range(3):
        b.state.value()
        b.store.expiring.end_epoch(False)
    b.now -= years
    fill(b, 10)
    b.store.expiring.end_epoch(False)
    b.now += TTL
    for _ in range(10):
        b.key("a").state.value()
        b.store.expiring.end_epoch(False)
    assert len(list(b.table.items())) == 1  # that of the wrong time


@pytest.mark.parametrize("table", [dict, DiskTable])
@pytest.mark.parametrize("rounds", [0, 1])
def test_a_handle_that_outlives_its_store_cleans_nothing(bench, table, rounds):
    """The table may be the next attempt's by then, whose log would not have it."""
    b = bench(table=table(), incremental_size=3, filter_entries=3)
    fill(b, 10)
    for _ in range(rounds * 10):
        b.state.value()
    kept = b.table
    held = dict(kept.items())
    b.store.close()
    b.now += TTL
    for _ in range(10):
        b.key("other").state.value()
        b.store.expiring.end_epoch(False)
    assert dict(kept.items()) == held


def test_incremental_cleanup_of_elements_and_map_entries(bench):
    b = bench(StateKind.LIST, incremental_size=5)
    b.state.add(1)
    b.now += 50
    b.state.add(2)
    b.logged()
    b.now += 50
    b.key("other").state.get()
    assert b.logged() == [("replace", "a", (1_050, 2))]
    assert b.table == {"a": [(1_050, 2)]}

    m = bench(StateKind.MAP, incremental_size=5)
    m.state.put("x", 1)
    m.state.put("z", 1)
    m.now += 50
    m.state.put("y", 2)
    m.logged()
    m.now += 50
    m.key("other").state.get("x")
    assert m.logged() == [("remove", "a", "x"), ("remove", "a", "z")]
    assert m.table == {"a": {"y": (1_050, 2)}}
    m.now += 50
    m.state.is_empty()
    assert m.logged() == [("clear", "a")]


@pytest.mark.parametrize("kind", [StateKind.LIST, StateKind.MAP])
def test_incremental_cleanup_of_large_collections_costs_what_that_of_small_ones_does(
    bench, kind, monkeypatch
):
    """It was the size of the map at each access, several times."""
    looked_at = Counter()
    name = "_since_of_list" if kind is StateKind.LIST else "_since_of_map"
    look = getattr(Sweep, name)

    def counted(entry):
        looked_at[kind] += len(entry)
        return look(entry)

    monkeypatch.setattr(Sweep, name, staticmethod(counted))
    b = bench(kind, incremental_size=5)
    accesses = elements = 2_000
    for number in range(elements):
        b.state.add(number) if kind is StateKind.LIST else b.state.put(f"{number}", number)
        b.now += number % 5 == 0  # so that some are always about to expire
    assert elements < looked_at.pop(kind) < 2 * elements * 5 * ELEMENTS_A_KEY
    b.key("other")
    for _ in range(accesses):
        b.state.get() if kind is StateKind.LIST else b.state.get("x")
    assert looked_at[kind] < 2 * elements  # a round tells that nothing is due any more
    b.now += TTL
    for _ in range(elements // ELEMENTS_A_KEY):  # what was looked at last is paid for by then
        b.state.get() if kind is StateKind.LIST else b.state.get("x")
    assert not b.table


def test_no_background_cleanup_leaves_expired_state_where_it_is(bench):
    b = bench()
    fill(b, 5)
    b.now += TTL
    b.key("other").state.value()
    b.store.expiring.after_records(1000)
    b.store.expiring.end_epoch(False)
    assert len(b.table) == 5


def test_cleanup_for_every_record(bench):
    b = bench(incremental_size=2, every_record=True)
    fill(b, 10)
    b.now += TTL
    b.store.expiring.after_records(0)
    assert len(b.table) == 10
    b.store.expiring.after_records(2)
    b.store.expiring.after_records(2)
    assert len(b.table) <= 6
    b.store.expiring.after_records(16_384)
    b.store.expiring.after_records(16_384)
    assert b.table == {}


def test_a_table_on_disk_is_checked_at_the_end_of_epochs(bench):
    disk = DiskTable()
    b = bench(table=disk, incremental_size=5, every_record=True, filter_entries=1_000)
    fill(b, EPOCH_ENTRIES + 10)
    disk.scanned = 0
    b.now += TTL
    b.key("other").state.value()
    b.store.expiring.after_records(100)
    assert disk.scanned == 0  # incremental clean-up is the heap's
    b.store.expiring.end_epoch(False)
    assert disk.scanned == EPOCH_ENTRIES
    assert len(disk) == 10
    b.store.expiring.end_epoch(False)
    assert len(disk) == 0
    assert len(b.logged()) == EPOCH_ENTRIES + 10


@pytest.mark.parametrize("kind", [StateKind.VALUE, StateKind.LIST, StateKind.MAP])
def test_what_is_set_anew_while_a_round_goes_through_a_table_on_disk_stays(bench, kind):
    """The round has the entries as they were when it began."""
    disk = DiskTable()
    b = bench(kind, table=disk, filter_entries=1)
    put = {StateKind.VALUE: "update", StateKind.LIST: "add", StateKind.MAP: "put"}[kind]
    name = ("x",) if kind is StateKind.MAP else ()
    keys = [f"k{number}" for number in range(EPOCH_ENTRIES + 2)]
    for key in keys:
        getattr(b.key(key).state, put)(*name, 1)
    b.now += TTL
    b.store.expiring.end_epoch(False)
    renewed, old = keys[-2:]
    assert set(disk.entries) == {renewed, old}
    if kind is StateKind.LIST:
        b.key(renewed).state.clear()
    getattr(b.key(renewed).state, put)(*name, 2)
    b.logged()
    b.store.expiring.end_epoch(False)
    assert set(disk.entries) == {renewed}
    assert b.logged() == [("clear", old)]


def test_the_check_of_a_table_on_disk_reads_the_clock_after_so_many_entries(bench):
    b = bench(table=DiskTable(), filter_entries=4)
    fill(b, 10)
    b.readings = 0
    b.store.expiring.end_epoch(False)
    assert b.readings == 4  # whether it was set back; for 4, 4 and 2 entries


def test_full_snapshots_leave_expired_entries_out_where_they_shall(bench):
    for leave_out in (True, False):
        b = bench(in_full_snapshot=leave_out)
        fill(b, 3)
        b.now += 50
        b.key("late").state.update(9)
        b.now += 50
        b.store.expiring.end_epoch(False)
        assert len(b.table) == 4
        b.store.expiring.end_epoch(True)
        assert set(b.table) == ({"late"} if leave_out else {"k0", "k1", "k2", "late"})


def test_state_of_windows_is_cleaned_where_it_lies(bench):
    b = bench()
    scope = NamespaceScope(Cursor(), TimeWindows())
    spec = StateSpec("window:s", StateKind.VALUE, Types.LONG(), ttl=TtlSpec(TTL, incremental_size=5))
    state = b.store.state("op", spec, scope)
    for window in ((0, 10), (10, 20)):
        scope.cursor.key = "a", window
        state.update(1)
        b.now += 50
    b.store.buffer.drain()
    scope.cursor.key = "b", (0, 10)
    assert state.value() is None
    assert b.store.tables["op", "window:s"] == {("a", (10, 20)): (1_050, 1)}
    assert scope.cursor.key == ("b", (0, 10))
    ((count, columns),) = b.store.buffer.drain()
    assert count == 1
    assert (columns["key"].to_pylist(), columns["namespace"].to_pylist()) == (['"a"'], ["[0,10]"])
    assert columns["operation"].to_pylist() == ["clear"]
