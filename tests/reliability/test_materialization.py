"""Reliability, materialization: cases 12, 15 to 17, 28 to 30, 32 and 37, with real files.

Reliability case 15 and reliability case 17: tests name theirs.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.functions import Count, by_key, counted, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.killed_upkeep import killed
from support.live import LiveStates
from support.materialized import (
    AT_ONCE,
    ELEMENTS,
    damage,
    finishes,
    killed_after,
    merging_few,
    states,
    stopped,
)
from support.model import pictured
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from changelog_engine.checkpoint.job_folder import JobFolder, find_job_folder
from changelog_engine.checkpoint.ownership import write_row
from changelog_engine.checkpoint.restore_plan import complete_snapshots
from changelog_engine.checkpoint.verification import verify
from changelog_engine.errors import (
    CorruptChangelogError,
    RestoreError,
    StorageError,
)
from changelog_engine.storage.filesystem import Storage
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.processes import FoldProcesses
from materializer.retention import Retention
from materializer.schedule import Schedule
from materializer.truncation import truncate


def test_case_15_a_failed_checkpoint_removes_nothing(tmp_path: Path) -> None:
    """Reliability case 15: truncation runs while a checkpoint is under way that then fails: parts of earlier ones
    stay, and so do its own."""
    job = TestJob(
        tmp_path, Script(sizes=(5,), failures=(Failure(4, Fault.COMMIT_FAILS),)), tolerable_failures=1
    )
    folder = find_job_folder(str(tmp_path), "job")
    inner = job.strike

    def strike(*faults: Fault, **where: Any) -> Any:
        if Fault.COMMIT_FAILS in faults and job.commits:  # parts are written, and not committed yet
            materialize(folder)
            truncate(folder, AT_ONCE)
            truncate(folder, AT_ONCE)
        return inner(*faults, **where)

    job.strike = strike  # type: ignore[method-assign]
    job.run_driver(keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), parallelism=2))
    assert job.coordinator.restarts.count == 0
    assert by_key(job.output) == by_key(counted(ELEMENTS))
    assert state_at(job.table()).states["process", "count"] == dict.fromkeys(range(5), 8)


@pytest.mark.parametrize("snapshots", [(), (2,), (4,), (2, 4)])
def test_case_16_restore_twice_in_a_row(tmp_path: Path, snapshots: tuple[int, ...]) -> None:
    job, graph, folder = stopped(tmp_path)
    before = states(tmp_path)
    for checkpoint in snapshots:
        assert materialize(folder, checkpoint) is not None
    assert states(tmp_path) == before
    job.progress.waiting.append(Failure(6, Fault.HANDED_OUT))  # type: ignore[union-attr]
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    finishes(job, graph)


def test_case_17_killed_at_any_step_leaves_nothing_that_a_reader_sees(tmp_path: Path) -> None:
    """Reliability case 17, in this process, at every step."""
    _, _, folder = stopped(tmp_path)
    before = states(tmp_path)
    tried = 0
    while not complete_snapshots(folder):
        with killed_after(tried):
            materialize(folder)
        assert states(tmp_path) == before
        tried += 1
    # The table, the pieces, the marker, the commit.
    assert tried >= 5
    assert states(tmp_path) == before
    truncate(folder, AT_ONCE)
    files = {entry.name for entry in folder.snapshots.list() if entry.name.endswith(".parquet")}
    assert files == set(folder.open_snapshots().files()["path"].to_pylist())


def test_case_17_killed_with_sigkill_leaves_nothing_that_a_reader_sees(tmp_path: Path) -> None:
    """Reliability case 17: kill -9 of the process at numbered steps; its lock goes with it, and the next one succeeds."""
    job, graph, folder = stopped(tmp_path)
    before = states(tmp_path)
    folder.open_snapshots()
    # Two pieces, the marker, the commit.
    for step in range(4):
        assert killed("materialize", tmp_path, step)
        assert complete_snapshots(folder) == {}
        assert states(tmp_path) == before
        assert verify(folder).faults == []
    assert not killed("materialize", tmp_path, 4)
    assert complete_snapshots(folder) == {4: {1}}
    assert states(tmp_path) == before
    finishes(job, graph)


def test_case_17_one_in_flight(tmp_path: Path) -> None:
    """Reliability case 17: while one runs, others are refused."""
    _, _, folder = stopped(tmp_path)

    def run(tasks: Any) -> Any:
        with pytest.raises(StorageError, match="another process materializes the job"):
            materialize(folder)
        with pytest.raises(StorageError, match="another process materializes the job"):
            truncate(folder, AT_ONCE)
        return [truncated.fold_range(task) for task in tasks]

    from materializer import fold_task as truncated

    assert materialize(folder, run=run) is not None


def test_case_17_failures_are_tolerated_then_fail_the_job(tmp_path: Path) -> None:
    """Reliability case 17: failures in a row are counted, and the next one succeeds."""
    _, _, folder = stopped(tmp_path)
    given_up: list[Exception] = []
    schedule = Schedule(
        folder, 10, None, 2, given_up.append, mock.Mock(side_effect=StorageError("disk full"))
    )
    for _ in range(2):
        schedule.once()
    assert (schedule.failures, given_up) == (2, [])
    schedule.once()
    assert [str(error) for error in given_up] == ["disk full"]
    working = Schedule(folder, 10, AT_ONCE, 0, given_up.append, FoldProcesses(1))
    working.once()
    assert working.done is not None
    assert (working.done.checkpoint, working.failures, len(given_up)) == (4, 0, 1)


def test_case_17_a_process_that_dies_is_a_failure(tmp_path: Path) -> None:
    """Reliability case 17."""
    _, _, folder = stopped(tmp_path)
    run = FoldProcesses(1)
    run.stop()
    with pytest.raises(StorageError, match="stopped"):
        materialize(folder, run=run)
    assert complete_snapshots(folder) == {}


def test_case_17_a_schedule_that_gives_up_fails_the_attempt_once(tmp_path: Path) -> None:
    """Reliability case 17."""
    job = TestJob(tmp_path, Script(sizes=(5,)))

    def on_commit(checkpoint: Any) -> None:
        if checkpoint.id == 2:
            job.coordinator.fail(StorageError("no snapshot any more"))

    job.on_commit = on_commit  # type: ignore[method-assign]
    job.run_driver(keyed_job(ELEMENTS, Count(), key_type=Types.LONG()))
    assert job.coordinator.restarts.count == 1
    assert by_key(job.output) == by_key(counted(ELEMENTS))


class Alarms(KeyedProcessFunction):
    """A timer for each element, long after it."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1_000 + value[1] // 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp


@pytest.mark.parametrize("snapshot", [None, 2, 4])
def test_case_28_timers_survive_and_fire_once_in_their_order(tmp_path: Path, snapshot: int | None) -> None:
    """Timers of one time fire in the order of registration, over all keys of a subtask."""
    elements = [(7 * number % 11, number) for number in range(40)]
    undisturbed = TestJob(tmp_path / "undisturbed", Script(sizes=(5,)))
    timed = {"elements": elements, "timestamp": lambda element: element[1]}
    undisturbed.run_driver(
        keyed_job(elements, Alarms(), key_type=Types.LONG(), parallelism=2, timestamp=timed["timestamp"])
    )
    job, graph, folder = stopped(tmp_path, Alarms(), **timed)
    if snapshot is not None:
        materialize(folder, snapshot, piece_bytes=64)
    job.run_driver(graph)
    assert len(job.output) == len({(key, 1_000 + at // 10) for key, at in elements})
    assert job.output == undisturbed.output


@pytest.mark.parametrize("truncated", [False, True])
def test_case_29_a_corrupt_snapshot(tmp_path: Path, truncated: bool) -> None:
    """An older one and a longer replay; without them a clear error, and nothing changes."""
    job, graph, folder = stopped(tmp_path, epochs=6)
    before = states(tmp_path)
    materialize(folder, 3)
    materialize(folder, 5)
    if truncated:
        truncate(folder, AT_ONCE)
    damage(next((tmp_path / "job" / "snapshots").glob("part-5-*.parquet")))
    if truncated:
        with pytest.raises(CorruptChangelogError, match=r"part-5-.* was changed after it was written"):
            states(tmp_path)
        with pytest.raises(RestoreError, match=r"snapshot of checkpoint 5 .* can't be read"):
            materialize(folder)
        return
    assert states(tmp_path) == before
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (6, 3)
    assert states(tmp_path) == before
    finishes(job, graph)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings so far."""
    caplog.set_level(logging.WARNING, "changelog_engine")
    return lambda: [record.getMessage() for record in caplog.records]


def marker_of(folder: JobFolder, checkpoint: int) -> Path:
    return next(Path(folder.snapshots.root).glob(f"snapshot-{checkpoint}-*.parquet"))


DAMAGES = {
    "a flipped bit": damage,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:50]),
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("harm", DAMAGES)
@pytest.mark.parametrize("what", ["its row", "a piece"])
def test_case_29_a_snapshot_that_cannot_be_used_is_passed_over(
    tmp_path: Path, warned: Callable[[], list[str]], harm: str, what: str
) -> None:
    """Reliability cases 29 and 30: it is named once, the next snapshot is built on an older one; truncation goes on."""
    job, graph, folder = stopped(tmp_path, epochs=6)
    before = states(tmp_path)
    materialize(folder, 3)
    materialize(folder, 5)
    piece = next(Path(folder.snapshots.root).glob("part-5-*.parquet"))
    harmed = marker_of(folder, 5) if what == "its row" else piece
    DAMAGES[harm](harmed)
    assert states(tmp_path) == before
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (6, 3)
    for _ in range(2):
        truncate(folder, Retention(grace_ms=0))
        truncate(folder, AT_ONCE)
    named = [message for message in warned() if harmed.name in message]
    assert len(named) == 1
    assert "the snapshot of checkpoint 5 can't be used" in named[0]
    assert complete_snapshots(folder) == {6: {1}}
    assert not harmed.exists()
    assert states(tmp_path) == before
    assert verify(folder).faults == []
    finishes(job, graph)


def test_case_29_the_newest_checkpoints_snapshot_is_made_again(
    tmp_path: Path, warned: Callable[[], list[str]]
) -> None:
    """Reliability case 29: although no checkpoint came since, and its file has the same name."""
    _, _, folder = stopped(tmp_path)
    before = states(tmp_path)
    materialize(folder)
    damage(marker_of(folder, 4))
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (4, None)
    assert any(marker_of(folder, 4).name in message for message in warned())
    truncate(folder, AT_ONCE)
    assert states(tmp_path) == before
    assert verify(folder).faults == []


@pytest.mark.parametrize(
    "document",
    [
        "no JSON",
        "[]",
        "{}",
        '{"checkpoint": 9, "attempt": 1, "parts": 1}',
        '{"checkpoint": 5, "attempt": 1, "parts": "many"}',
        '{"checkpoint": 5, "attempt": 1, "parts": 1, "files": [["part-x"]]}',
        '{"checkpoint": 5, "attempt": 1, "parts": 1, "files": [["../x", "o", "entries", 0, 1]]}',
        '{"checkpoint": 5, "attempt": 1, "parts": 7}',
    ],
)
def test_case_29_a_foreign_row_is_no_snapshot(
    tmp_path: Path, warned: Callable[[], list[str]], document: str
) -> None:
    """Reliability case 29: a row that somebody else committed, with a good checksum and whatever in it."""
    job, graph, folder = stopped(tmp_path, epochs=6)
    before = states(tmp_path)
    materialize(folder, 3)
    foreign = write_row(folder.snapshots, "snapshot", 5, 1, document, 0)
    folder.open_snapshots().commit([foreign])
    assert states(tmp_path) == before
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (6, 3)
    truncate(folder, AT_ONCE)
    assert any(foreign.path in message for message in warned())
    assert complete_snapshots(folder) == {6: {1}}
    assert states(tmp_path) == before
    finishes(job, graph)


def test_case_29_a_longer_replay_of_merged_parts_and_rows(tmp_path: Path) -> None:
    """Reliability case 29: the parts and rows after the older snapshot were merged since."""
    job, graph, folder = stopped(tmp_path, epochs=7)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 8)}
    for checkpoint in (2, 5, 6):
        materialize(folder, checkpoint)
    with merging_few():
        assert truncate(folder, Retention(grace_ms=0)).merged == 2
    for checkpoint in (6, 5):
        damage(marker_of(folder, checkpoint))
        assert {number: states(tmp_path, number) for number in held} == held
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (7, 2)
    assert {number: states(tmp_path, number) for number in held} == held
    finishes(job, graph)


def test_case_32_each_file_is_read_once_by_a_materialization(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path, parallelism=1)
    materialize(folder, 2)
    reads: list[str] = []
    inner = Storage.read

    def read(storage: Storage, path: str) -> Any:
        reads.append(path)
        return inner(storage, path)

    with mock.patch.object(Storage, "read", read):
        materialize(folder)
    parts = [path for path in reads if path.startswith("part-")]
    assert sorted(path.split("-")[1] for path in parts) == ["2", "3", "4"]


def test_case_37_fold_live_and_snapshot_agree_at_every_checkpoint(tmp_path: Path) -> None:
    live = LiveStates()
    folder = find_job_folder(str(tmp_path), "job")
    job = TestJob(tmp_path, Script(sizes=(5, 3)))
    agreed: list[int] = []

    def on_commit(checkpoint: Any) -> None:
        by_log = states(tmp_path)
        materialize(folder)
        assert by_log == states(tmp_path) == pictured(live.of(1, checkpoint.id))
        agreed.append(checkpoint.id)

    job.on_commit = on_commit  # type: ignore[method-assign]
    with live.watched():
        job.run_driver(keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), parallelism=3))
    assert agreed == [checkpoint.id for checkpoint in job.commits]
    assert len(agreed) >= 8


def test_what_the_log_has_not_touched_is_not_written_again(tmp_path: Path) -> None:
    """From the second epoch on, only key 0 changes."""
    elements = [*rounds(20, 20), *((0, number) for number in range(20))]
    _, _, folder = stopped(tmp_path, epochs=5, elements=elements)
    first = materialize(folder, 4, piece_bytes=64)
    second = materialize(folder, piece_bytes=64)
    assert first is not None
    assert second is not None
    assert (second.written, second.log_rows, second.log_parts) == (1, 5, 1)
    assert second.kept == first.written - 1
    truncate(folder, AT_ONCE)
    assert state_at(folder.changelog.root).states["process", "count"] == {
        0: 6,
        **dict.fromkeys(range(1, 20), 1),
    }


def test_case_12_disk_full_while_materializing(tmp_path: Path) -> None:
    job, graph, folder = stopped(tmp_path)
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        mock.patch("changelog_engine.storage.filesystem._write_local", side_effect=full),
        pytest.raises(StorageError, match="disk full: could not write"),
    ):
        materialize(folder)
    assert complete_snapshots(folder) == {}
    assert materialize(folder) is not None
    finishes(job, graph)


def test_a_schedule_runs_beside_and_stops(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path)
    made = threading.Event()
    schedule = Schedule(folder, 1, AT_ONCE, 3, lambda error: None)
    inner = schedule.once

    def once() -> None:
        inner()
        if schedule.done is not None:
            made.set()

    schedule.once = once  # type: ignore[method-assign]
    schedule.start()
    assert made.wait(120)
    schedule.stop()
    assert set(complete_snapshots(folder)) == {4}
