"""Forks, savepoints, takeovers and history on tables that were materialized, merged and truncated; case 18 for them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.functions import Count, by_key, counted, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import logged_state
from support.materialized import AT_ONCE, damage, merging_few
from support.model import pictured
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from changelog_engine.errors import NotLoggedError, RestoreError
from changelog_engine.history.tables import Tables
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import begin_attempt
from changelog_engine.ledger.restore_decision import decide_restore
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage
from changelog_engine.verification.verify import verify
from materializer import truncation
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

ELEMENTS = rounds(5, 80)
EPOCHS = 12
HISTORY = Retention(grace_ms=0)  # all of these tests' checkpoints are younger than a week


def graph(name: str = "job") -> Any:
    return keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), name=name, parallelism=2)


def states(base: Path, name: str = "job", checkpoint: int | None = None) -> Any:
    return pictured(logged_state(str(base), name, checkpoint))


def checkpoints(folder: JobFolder) -> list[int]:
    return sorted(Lineage(folder.open_changelog()).checkpoints)


def listed(folder: JobFolder, prefix: str) -> list[str]:
    return [path for path in folder.open_changelog().files()["path"].to_pylist() if path.startswith(prefix)]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Twelve checkpoints; the log before 6 is truncated, its parts up to 9 and its rows are merged; a driver was killed."""
    job = TestJob(tmp_path, Script(sizes=(5,), failures=(Failure(EPOCHS, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph())
    folder = find_job_folder(str(tmp_path), "job")
    materialize(folder, 6)
    truncate(folder, AT_ONCE._replace(retained=6))
    for checkpoint in (9, 11):
        materialize(folder, checkpoint)
    with merging_few():
        truncate(folder, HISTORY)
    assert len(listed(folder, "merged-")) == 1
    assert len(listed(folder, "checkpoints-")) == 1
    assert len(listed(folder, "checkpoint-")) == 1
    assert checkpoints(folder) == list(range(6, EPOCHS + 1))
    return tmp_path


def goes_on(base: Path, name: str, at: int) -> None:
    """From a checkpoint to the end: the output after it is that of an undisturbed run."""
    job = TestJob(base, Script(sizes=(5,)))
    job.run_driver(graph(name))
    rest = {key: values[at:] for key, values in by_key(counted(ELEMENTS)).items()}
    assert by_key(job.output) == rest


@pytest.mark.parametrize("at", [6, 8, 9, 12])
def test_case_18_a_fork_of_a_truncated_job_is_independent(base: Path, at: int) -> None:
    """Reliability case 18: the log before the fork's base is gone and its rows are merged with those of others. The parent
    truncates all that it doesn't need, then goes altogether; the fork stays whole."""
    folder = find_job_folder(str(base), "job")
    held = {number: states(base, checkpoint=number) for number in range(6, at + 1)}
    fork = fork_job(folder, Lineage(folder.open_changelog()).checkpoint(at), str(base / "fork")).folder
    assert checkpoints(fork) == list(range(6, at + 1))
    assert Lineage(fork.open_changelog()).newest_attempt().parent == at  # type: ignore[union-attr]
    truncate(folder, AT_ONCE)
    assert checkpoints(folder) == [11, 12]
    shutil.rmtree(base / "job")
    assert {number: states(base, "fork", number) for number in held} == held
    found = verify(fork)
    assert found.faults == []
    assert found.lost == []
    goes_on(base, "fork", at)
    materialize(fork)
    with merging_few():
        truncate(fork, HISTORY)
    assert {number: states(base, "fork", number) for number in held} == held
    assert verify(fork).faults == []


def test_case_18_what_a_fork_truncates_does_not_reach_the_parent(base: Path) -> None:
    """Reliability case 18: the other way round."""
    folder = find_job_folder(str(base), "job")
    held = {number: states(base, checkpoint=number) for number in checkpoints(folder)}
    fork = fork_job(folder, Lineage(folder.open_changelog()).checkpoint(10), str(base / "fork")).folder
    materialize(fork)
    truncate(fork, AT_ONCE)
    assert checkpoints(fork) == [10]
    assert {number: states(base, checkpoint=number) for number in held} == held
    shutil.rmtree(base / "fork")
    assert verify(folder).faults == []
    goes_on(base, "job", EPOCHS)


@pytest.mark.parametrize("at", [6, 8, 12])
def test_case_18_a_savepoint_of_a_truncated_job_is_self_contained(base: Path, at: int) -> None:
    """Reliability case 18: its parent truncates and goes; a job restores it."""
    folder = find_job_folder(str(base), "job")
    held = states(base, checkpoint=at)
    savepoint = create_savepoint(folder, Lineage(folder.open_changelog()).checkpoint(at), str(base / "kept"))
    truncate(folder, AT_ONCE)
    shutil.rmtree(base / "job")
    job = TestJob(base, Script(sizes=(5,)))
    first: list[Any] = []

    def on_commit(checkpoint: Any) -> None:
        if not first:
            first.append(states(base, checkpoint=min(checkpoints(find_job_folder(str(base), "job")))))

    job.on_commit = on_commit  # type: ignore[method-assign]
    job.run_driver(graph(), restore=savepoint.path)
    assert first == [held]
    assert by_key(job.output) == {key: values[at:] for key, values in by_key(counted(ELEMENTS)).items()}


def test_a_driver_rewinds_to_a_merged_row(base: Path) -> None:
    """A branch of a checkpoint whose row and parts are in merged files; the abandoned branch stays."""
    held = {number: states(base, checkpoint=number) for number in range(6, EPOCHS + 1)}
    job = TestJob(base, Script(sizes=(5,)))
    job.run_driver(graph(), restore="7")
    assert by_key(job.output) == {key: values[7:] for key, values in by_key(counted(ELEMENTS)).items()}
    folder = find_job_folder(str(base), "job")
    with merging_few():
        for _ in range(2):
            materialize(folder)
            truncate(folder, HISTORY)
    assert {number: states(base, checkpoint=number) for number in held} == held
    assert verify(folder).faults == []
    truncate(folder, AT_ONCE)
    left = Lineage(folder.open_changelog())
    assert sorted(left.attempts) == [2]
    assert states(base) == states(base, checkpoint=left.newest_checkpoint_id)


def test_merging_the_row_that_a_driver_starts_from_does_not_refuse_it(base: Path) -> None:
    """Its file left the table since the driver decided; its row did not. When the row did, the driver is refused."""
    folder = find_job_folder(str(base), "job")
    log = folder.open_changelog()
    job = TestJob(base, Script(sizes=(5,), failures=(Failure(3, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph())
    newest = Lineage(log).newest_checkpoint_id
    rows = listed(folder, "checkpoint-")
    with merging_few():
        truncate(folder, HISTORY)
    assert listed(folder, "checkpoint-") != rows
    begin_attempt(log, 2, newest - 1)
    stale = folder.open_changelog()
    materialize(folder, newest - 1)
    truncate(folder, AT_ONCE)
    assert checkpoints(folder) == [newest - 1, newest]
    with pytest.raises(RestoreError, match="was truncated just now"):
        begin_attempt(stale, 3, newest - 2)


def test_what_a_start_opens(base: Path) -> None:
    """The newest rows have files of their own: no merged file is opened, however many rows it has."""
    opened: list[str] = []
    inner = LocalDisk.read

    def read(storage: Storage, path: str, size: int | None = None) -> Any:
        opened.append(path)
        return inner(storage, path)

    folder = find_job_folder(str(base), "job")
    with mock.patch.object(LocalDisk, "read", read):
        lineage = Lineage(folder.open_changelog())
        decision = decide_restore(lineage, "auto")
    assert decision.checkpoint is not None
    assert [path.split("-")[0] for path in opened if path.endswith(".parquet")] == ["attempt", "checkpoint"]
    with mock.patch.object(LocalDisk, "read", read):
        opened.clear()
        for checkpoint in range(6, EPOCHS):
            assert lineage.checkpoint(checkpoint).id == checkpoint
    assert 1 <= len(opened) <= 2  # the merged file: once for its ids, once for its documents


def test_history_reads_merged_rows(base: Path) -> None:
    """All checkpoints are found by id and time, and views name the files that have their rows."""
    tables = Tables(str(base / "job"))
    rows = tables.lineage.checkpoints
    assert sorted(rows) == list(range(6, EPOCHS + 1))
    assert sorted(rows.paths()) == sorted(
        [*listed(tables.folder, "checkpoint-"), *listed(tables.folder, "checkpoints-")]
    )
    for number in rows:
        assert tables.checkpoint(number).id == number
        time_ms = rows.time_of(rows[number])
        found = tables.lineage.at_or_before(time_ms)
        assert found is not None
        assert (found.id >= number, found.time_ms) == (True, time_ms)
    first, times = tables.times(tables.checkpoint())
    assert (first, [time is None for time in times]) == (1, [True] * 5 + [False] * 7)
    history = tables.history(tables.checkpoint(), "process")
    assert history.snapshot == 6
    assert any(path.startswith("merged-") for path in history.log)
    assert not any(path.startswith("checkpoint") for path in [*history.log, *history.base])


def test_commits_of_a_truncation_are_small_and_the_job_gets_through(tmp_path: Path) -> None:
    """Each has at most so many actions; a checkpoint's commit that loses against one is tried again at once, not more often
    than there were commits in between."""
    job = TestJob(tmp_path, Script(sizes=(2,)))
    folder = find_job_folder(str(tmp_path), "job")
    sizes: list[int] = []
    tries: list[int] = []
    inner = DeltaLog.commit

    def commit(log: DeltaLog, adds: Any, removes: Any = (), metadata: Any = None) -> int:
        if metadata and "truncated" in metadata:
            sizes.append(len(adds) + len(removes))
        elif metadata and "checkpoint" in metadata:
            tries[-1] += 1
            if tries[-1] == 1 and len(tries) % 10 == 0:  # a truncation comes between the look and the commit
                materialize(folder)
                truncate(folder, AT_ONCE)
        return inner(log, adds, removes, metadata)

    def on_commit(checkpoint: Any) -> None:
        tries.append(0)

    job.on_commit = on_commit  # type: ignore[method-assign]
    tries.append(0)
    with (
        mock.patch.object(truncation, "MOST_ACTIONS", 6),
        mock.patch.object(truncation, "_PAUSE_S", 0),
        mock.patch.object(DeltaLog, "commit", commit),
    ):
        job.run(graph())
    assert len(sizes) > 8
    assert max(sizes) <= 6
    assert set(tries[:-1]) == {1, 2}
    assert by_key(job.output) == by_key(counted(ELEMENTS))
    assert job.coordinator.restarts.count == 0


def test_history_passes_a_snapshot_over_that_cannot_be_used(base: Path) -> None:
    """Its row is damaged: states are read from an older one and more of the log."""
    at = Tables(str(base / "job")).checkpoint()
    assert Tables(str(base / "job")).state(at, "process").snapshot == 11
    damage(next((base / "job" / "snapshots").glob("snapshot-11-*.parquet")))
    tables = Tables(str(base / "job"))
    assert sorted(tables.snapshots) == [6, 9]
    assert tables.state(at, "process").snapshot == 9
    assert [row[0] for row in tables.snapshot_rows()] == [6, 9]


def test_an_error_that_is_raised_again_keeps_its_length(base: Path) -> None:
    """A ledger that lives long keeps what it found, and raised it with a longer traceback each time."""
    ledger = Ledger(find_job_folder(str(base), "job").open_changelog())
    newest = ledger.lineage.newest_checkpoint()
    assert newest is not None
    deep = []
    for _ in range(3):
        with pytest.raises(NotLoggedError) as failure:
            ledger.following(newest.lineage, None)
        deep.append(len(failure.traceback))
    assert deep[1] == deep[2]
