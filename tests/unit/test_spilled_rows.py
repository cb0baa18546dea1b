"""Restores that hold little in memory: rows wait in files, and a snapshot or a long log is read piece by piece."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.materialized import damage, stopped

from changelog_engine.changelog.bulk_fold import live_rows
from changelog_engine.changelog.fold import group_by_state
from changelog_engine.changelog.spilled_rows import spilled
from changelog_engine.errors import StorageError
from changelog_engine.ledger import reading
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.state.local_folder import LocalFolder
from materializer.materialize import materialize

NAMES = st.tuples(st.sampled_from(["one", "two"]), st.sampled_from(["count", "list"]))
ALL_GROUPS = range(32_768)


def table_of(names: list[tuple[str, str]], first: int) -> pa.Table:
    """Rows of these states, each with a number of its own; the dictionaries are the table's own."""
    columns: dict[str, Any] = {
        "operator": pa.array([operator for operator, _ in names], pa.string()).dictionary_encode(),
        "state": pa.array([state for _, state in names], pa.string()).dictionary_encode(),
        "value": pa.array([str(first + index) for index in range(len(names))], pa.string()),
    }
    return pa.table(columns)


@given(st.lists(st.lists(NAMES, max_size=8), max_size=6))
def test_rows_come_back_by_state_and_in_order(tables: list[list[tuple[str, str]]]) -> None:
    rows = [table_of(names, 100 * index) for index, names in enumerate(tables)]
    folder = LocalFolder(None, "test")
    found = spilled(iter(rows), folder)
    assert not Path(folder.path).exists()
    expected = group_by_state(rows)
    assert {name: pa.concat_tables(pieces).to_pylist() for name, pieces in found.items()} == {
        name: pa.concat_tables(pieces).to_pylist() for name, pieces in expected.items()
    }


def test_rows_that_wait_take_no_memory_of_arrow() -> None:
    before = pa.total_allocated_bytes()
    found = spilled(
        (table_of([("one", "count")] * 100_000, index) for index in range(20)), LocalFolder(None, "test")
    )
    (pieces,) = found.values()
    assert sum(piece.num_rows for piece in pieces) == 2_000_000
    assert sum(piece.nbytes for piece in pieces) > 30_000_000
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_a_disk_that_is_full() -> None:
    folder = LocalFolder(None, "test")
    full = mock.patch.object(
        pa.ipc, "new_stream", lambda _, schema: pa.RecordBatchStreamWriter("/dev/full", schema)
    )
    with (
        full,
        pytest.raises(StorageError, match=f"restored rows cannot be kept in {folder.path}: .*No space left"),
    ):
        spilled([table_of([("one", "count")] * 100_000, 0)], folder)
    assert not os.path.exists(folder.path)


def rows_of(folder: JobFolder, bounded: bool) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The live rows that a restore of the newest checkpoint comes to."""
    point = plan_restore(folder, Lineage(folder.open_changelog()).newest_checkpoint())
    if bounded:
        waiting = reading.give_parts(
            lambda tables: spilled(tables, LocalFolder(None, "test")), point, ALL_GROUPS
        )
        live = live_rows([table for tables in waiting.values() for table in tables])
    else:
        live = live_rows(list(reading.read_parts(point, ALL_GROUPS)))
    return {name: table.select(["key", "operation", "value"]).to_pylist() for name, table in live.items()}


@pytest.mark.parametrize("snapshots", [(), (2,), (2, 4)])
def test_a_restore_piece_by_piece_comes_to_the_same(tmp_path: Path, snapshots: tuple[int, ...]) -> None:
    _, _, folder = stopped(tmp_path, epochs=6)
    for checkpoint in snapshots:
        materialize(folder, checkpoint)
    expected = rows_of(folder, bounded=False)
    assert len(expected["process", "count"]) == 5
    assert rows_of(folder, bounded=True) == expected
    with mock.patch.multiple(reading, _MANY_ROWS=0, CONDENSE_ROWS=3):
        assert rows_of(folder, bounded=True) == expected


def test_a_damaged_snapshot_is_found_before_its_first_row_is_used(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path, epochs=6)
    expected = rows_of(folder, bounded=False)
    materialize(folder, 3)
    materialize(folder, 5)
    damage(sorted((tmp_path / "job" / "snapshots").glob("part-5-*.parquet"))[-1])
    assert rows_of(folder, bounded=True) == expected
