"""Reliability case 20: whoever began to read finishes while truncations and deletions run, with real files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from support.materialized import LATER, merging_few, rows_read, states, stopped

from changelog_engine.history.tables import Tables
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.reading import read_parts
from changelog_engine.verification.verify import verify
from materializer import fold_task
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate


class Slow:
    """A reader that stops in the middle, until truncation and deletion have run: a step of a generator."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self.rows = rows
        self.first = next(rows)

    def rest(self) -> list[Any]:
        return [self.first, *self.rows]


def vacuum(folder: JobFolder) -> None:
    """Two truncations within the grace time: what is noted by the first is not deleted by the second."""
    now = [time.time()]
    truncate(folder, LATER, lambda: now[0])
    now[0] += 59
    assert truncate(folder, LATER, lambda: now[0]).deleted == 0


def test_case_20_a_slow_restore_finishes(tmp_path: Path) -> None:
    """Reliability case 20: a restore that holds its list of files reads on while they leave the table."""
    _, _, folder = stopped(tmp_path)
    expected = read_whole(folder)
    point = plan_restore(folder, Lineage(folder.open_changelog()).newest_checkpoint())
    slow = Slow(read_parts(point, range(32_768)))
    materialize(folder)
    vacuum(folder)
    assert rows_read(folder) == []
    assert pa.concat_tables(slow.rest()).to_pylist() == expected


def test_case_20_a_slow_history_query_finishes(tmp_path: Path) -> None:
    """Reliability case 20: views hold names of files, of merged rows, too."""
    _, _, folder = stopped(tmp_path, epochs=6)
    materialize(folder, 2)
    materialize(folder)
    tables = Tables(folder.storage.root)
    selected = tables.history(tables.checkpoint(), "process")
    rows = tables.lineage.checkpoints.paths()
    truncate(folder, Retention(grace_ms=60_000))
    with merging_few():
        vacuum(folder)
    on_disk = {entry.name for entry in folder.changelog.list()}
    assert on_disk >= {*selected.log, *rows}
    assert not set(selected.log) & set(rows_read(folder))
    assert sum(pq.read_metadata(f"{folder.changelog.root}/{path}").num_rows for path in selected.log) == 30


def test_case_20_a_slow_materialization_finishes(tmp_path: Path) -> None:
    """Reliability case 20: on storage without locks another process materializes and truncates while it folds."""
    _, _, folder = stopped(tmp_path, epochs=6, parallelism=1)
    materialize(folder, 4)
    before = states(tmp_path)
    inner, others = fold_task.read_suffix, []

    def holds_its_list(*arguments: Any) -> Any:
        rows = inner(*arguments)
        if not others:
            others.append(None)
            others.append(materialize(folder))
            vacuum(folder)
        return rows

    with (
        mock.patch("materializer.materialize.materializer_lock", return_value=contextlib.nullcontext()),
        mock.patch.object(fold_task, "read_suffix", holds_its_list),
    ):
        slow = materialize(folder)
    assert slow is not None
    assert others[1] is not None
    assert (slow.log_rows, others[1].log_rows) == (10, 10)
    assert rows_read(folder) == []
    assert states(tmp_path) == before
    assert verify(folder).faults == []


def read_whole(folder: JobFolder) -> list[Any]:
    point = plan_restore(folder, Lineage(folder.open_changelog()).newest_checkpoint())
    return pa.concat_tables(read_parts(point, range(32_768))).to_pylist()
