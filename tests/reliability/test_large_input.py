"""Reliability case 40: values, keys and epochs that are much larger or smaller than others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.changelog.part_selection import part_files
from changelog_engine.connectors.protocols import Range, Source, Split, SplitReader
from changelog_engine.ledger.job_folder import find_job_folder
from materializer.fold import state_at
from materializer.materialize import materialize

LARGE = 100_000_000


class Swells(KeyedProcessFunction):
    """Keeps a text as long as the element says."""

    def open(self, runtime_context: Any) -> None:
        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        before = self.text.value() or ""
        self.text.update("x" * value)
        yield len(before)


def test_case_40_a_value_of_100_mb(tmp_path: Path) -> None:
    """Logged, folded, restored, and replaced by a small one."""
    job = TestJob(tmp_path, Script(sizes=(1,), failures=(Failure(1, Fault.HANDED_OUT),)))
    graph = keyed_job([LARGE, 5, 7], Swells(), key=lambda element: "key", key_type=Types.STRING())
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    assert len(state_at(job.table()).states["process", "text"]["key"]) == LARGE
    assert materialize(find_job_folder(str(tmp_path), "job")) is not None
    job.run_driver(graph)
    assert job.output == [0, LARGE, 5]
    assert state_at(job.table()).states["process", "text"] == {"key": "x" * 7}


def test_case_40_a_key_of_100_mb(tmp_path: Path) -> None:
    """It goes through the exchange, the log and a restore; the table's list of files does not get larger for it."""
    job = TestJob(tmp_path, Script(sizes=(2,), failures=(Failure(1, Fault.HANDED_OUT),)))
    graph = keyed_job(
        [3, 1, 3, 1],
        Swells(),
        key=lambda length: "k" * (LARGE if length == 3 else 1),
        key_type=Types.STRING(),
    )
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    job.run_driver(graph)
    assert job.output == [0, 0, 3, 1]
    found = state_at(job.table()).states["process", "text"]
    assert {len(key): value for key, value in found.items()} == {LARGE: "xxx", 1: "x"}
    commits = Path(job.table(), "_delta_log").glob("*.json")
    assert max(path.stat().st_size for path in commits) < 1_000_000


class Hammers(KeyedProcessFunction):
    """So many mutations for one element."""

    def open(self, runtime_context: Any) -> None:
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        update = self.number.update
        for number in range(value):
            update(number)
        return ()


def test_case_40_a_million_mutations_of_one_key_in_one_epoch(tmp_path: Path) -> None:
    """All are in the log; the snapshot has one row."""
    job = TestJob(tmp_path, Script(sizes=(1,)))
    job.run(keyed_job([1_000_000], Hammers(), key=lambda element: 0, key_type=Types.LONG()))
    folder = find_job_folder(str(tmp_path), "job")
    parts = [part for part in part_files(folder.open_changelog().files()) if part.name is not None]
    assert sum(part.rows or 0 for part in parts) == 1_000_000
    assert sum(part.size for part in parts) < 12_000_000
    made = materialize(folder)
    assert made is not None
    assert (made.log_rows, made.written) == (1_000_000, 1)
    assert state_at(job.table()).states["process", "number"] == {0: 999_999}


class Hesitates(Source, SplitReader):
    """A source that often has nothing: numbers 0 to 4, one in every fourth read."""

    bounded = True
    parallel = False
    output_type: Any = Types.LONG()

    def __init__(self) -> None:
        self.reads = 0

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("s", 0)]

    def reader(self, split: Split) -> Hesitates:
        return self

    def read(self, position: int, max_records: int) -> Range:
        self.reads += 1
        to = position + (self.reads % 4 == 0)
        return Range(list(range(position, to)), to, to == 5)


def test_case_40_empty_epochs_commit_nothing(tmp_path: Path) -> None:
    """A barrier after an epoch in which nothing happened makes no checkpoint and no file."""
    job = TestJob(tmp_path, Script(sizes=(5,)))
    job.run(keyed_job(Hesitates(), Swells(), key=lambda element: "key", key_type=Types.STRING()))
    empty = [reports for reports in job.reports if not any(report.records_in for report in reports)]
    assert len(empty) > 5
    assert not any(report.parts for reports in empty for report in reports)
    assert len(job.output) == 5
    # One for each number, one for the first epoch and one for the end at most.
    assert 5 <= len(job.commits) <= 7
