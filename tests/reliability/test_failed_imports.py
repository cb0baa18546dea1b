"""A savepoint that was copied into a job whose program then turned out not to fit; cases 26, 31 and 42 for savepoints."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.functions import Count, Keep, by_key
from support.graphs import keyed_job
from support.jobs import TestJob
from support.materialized import ELEMENTS, stopped
from support.script import Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.errors import JobExecutionError, RestoreError
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.restore_decision import decide_restore
from changelog_engine.operators.store import KeyedStore
from changelog_engine.savepoints.folder import open_savepoint
from changelog_engine.savepoints.writer import create_savepoint


class CountsInText(KeyedProcessFunction):
    """Declares the state of Count with a type that it never had."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update("one")
        return ()


def program(function: Any) -> Any:
    return keyed_job(ELEMENTS, function, key_type=Types.LONG(), parallelism=2)


def savepoint_of(base: Path, function: Any = None, epochs: int = 2) -> str:
    """A savepoint of another job, at ten elements."""
    _, _, folder = stopped(base, function, epochs=epochs)
    newest = Lineage(folder.open_changelog()).newest_checkpoint()
    assert newest is not None
    return create_savepoint(folder, newest, str(base)).path


def refused_import(job: TestJob, path: str) -> None:
    """A start from the savepoint with a program that declares another type."""
    with pytest.raises(JobExecutionError, match=r"'count'.*value type LONG.*value type STRING") as raised:
        job.run_driver(program(CountsInText()), restore=path, claim_savepoint=True)
    assert isinstance(raised.value.__cause__, RestoreError)
    assert job.coordinator.restarts.count == 0
    open_savepoint(
        path
    ).verify()  # CLAIM disposes of it after a checkpoint of the job's own, and there is none


def test_case_26_the_next_run_goes_on_from_what_was_imported(tmp_path: Path) -> None:
    """The job had checkpoints; the program is mended: ``auto`` has the savepoint's state, and the old branch is whole."""
    path = savepoint_of(tmp_path / "other")
    job, _, folder = stopped(tmp_path / "own", epochs=4)
    refused_import(job, path)
    rows = Lineage(folder.open_changelog())
    assert {number: entry.attempt for number, entry in rows.checkpoints.items()} == {
        1: 1,
        2: 1,
        3: 1,
        4: 1,
        5: 2,
    }
    assert decide_restore(rows, "auto").checkpoint == rows.checkpoint(5)
    job.outputs.clear()
    job.run_driver(program(Count()))
    assert by_key(job.output) == {key: [3, 4, 5, 6, 7, 8] for key in range(5)}


@pytest.mark.parametrize("twice", [False, True])
def test_case_31_a_refused_import_leaves_the_jobs_own_branch(tmp_path: Path, twice: bool) -> None:
    """What the job had before is gone on with by its id, however often the import was tried."""
    path = savepoint_of(tmp_path / "other")
    job, graph, _ = stopped(tmp_path / "own", epochs=4)
    for _ in range(1 + twice):
        refused_import(job, path)
    job.outputs.clear()
    job.run_driver(graph, restore="4")
    assert by_key(job.output) == {key: [5, 6, 7, 8] for key in range(5)}


def test_case_42_a_start_from_pickled_values_says_so_before_it_loads_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning for savepoints, which may be anybody's; a line at INFO for the job's own checkpoints."""
    plain, pickled = savepoint_of(tmp_path / "plain"), savepoint_of(tmp_path / "pickled", Keep())
    said_first: list[bool] = []
    inner = KeyedStore.load

    def load(store: KeyedStore, *given: Any) -> bool:
        said_first.append("pickled values" in caplog.text)
        return inner(store, *given)

    monkeypatch.setattr(KeyedStore, "load", load)
    caplog.set_level(logging.INFO, logger="changelog_engine")
    TestJob(tmp_path / "a", Script(sizes=(5,))).run_driver(program(Count()), restore=plain)
    assert "pickled" not in caplog.text.replace(str(tmp_path), "")
    said_first.clear()
    TestJob(tmp_path / "b", Script(sizes=(5,))).run_driver(program(Keep()), restore=pickled)
    [warning] = [record for record in caplog.records if "may hold pickled values in" in record.getMessage()]
    assert warning.levelno == logging.WARNING
    assert f"the savepoint {pickled} may hold pickled values in process.kept" in warning.getMessage()
    assert said_first
    assert all(said_first)
    caplog.clear()
    TestJob(tmp_path / "b", Script(sizes=(5,))).run_driver(program(Keep()), restore="1")
    assert "goes on from checkpoint 1, and may load pickled values of process.kept" in caplog.text


class Halves(Count):
    """Keeps a text that JSON cannot carry, so that it is a payload in spite of its declared type."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update("\ud800")
        return ()


def test_case_42_pickled_values_of_a_declared_type_are_found_in_the_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = savepoint_of(tmp_path / "from", Halves())
    caplog.set_level(logging.WARNING, logger="changelog_engine")
    TestJob(tmp_path / "to", Script(sizes=(5,))).run_driver(program(Halves()), restore=path)
    assert "may hold pickled values in process.count: loading one" in caplog.text
