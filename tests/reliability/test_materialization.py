"""Reliability, materialization and truncation: cases 4, 15 to 19, 21, 28, 29, 32 and 37, with real files."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.functions import Count, by_key, counted, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import LiveStates, logged_state
from support.materialized import killed_after
from support.model import pictured
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.checkpoint import commit as commit_module
from changelog_engine.checkpoint.job_folder import JobFolder, find_job_folder
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.checkpoint.ownership import begin_attempt
from changelog_engine.checkpoint.protection import protecting
from changelog_engine.checkpoint.restore_plan import complete_snapshots
from changelog_engine.errors import (
    CorruptChangelogError,
    FencedError,
    JobExecutionError,
    RestoreError,
    StorageError,
)
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.filesystem import Storage
from materializer import truncation
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.processes import FoldProcesses
from materializer.retention import Retention
from materializer.schedule import Schedule
from materializer.truncation import truncate

ELEMENTS = rounds(5, 40)
AT_ONCE = Retention(history_ms=0, retained=1, grace_ms=0)
LATER = Retention(history_ms=0, retained=1, grace_ms=60_000)


def stopped(
    tmp_path: Path, function: Any = None, epochs: int = 4, parallelism: int = 2, **more: Any
) -> tuple[TestJob, Any, JobFolder]:
    """A job of five elements an epoch whose driver was killed after some checkpoints."""
    script = Script(sizes=(5,), failures=(Failure(epochs, Fault.HANDED_OUT),))
    job = TestJob(tmp_path, script)
    graph = keyed_job(
        more.pop("elements", ELEMENTS),
        function or Count(),
        key_type=Types.LONG(),
        parallelism=parallelism,
        **more,
    )
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    return job, graph, find_job_folder(str(tmp_path), "job")


def states(tmp_path: Path, checkpoint: int | None = None) -> Any:
    return pictured(logged_state(str(tmp_path), checkpoint=checkpoint))


def rows_read(folder: JobFolder) -> list[str]:
    """Names of the parts of the changelog that are in the table."""
    return [p for p in folder.open_changelog().files()["path"].to_pylist() if p.startswith("part-")]


def finishes(job: TestJob, graph: Any) -> None:
    job.run_driver(graph)
    assert by_key(job.output) == by_key(counted(ELEMENTS))


def test_case_4_a_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    job, graph, folder = stopped(tmp_path)
    materialize(folder)
    truncate(folder, AT_ONCE)
    with pytest.raises(RestoreError, match=r"no checkpoint 2 .*there are checkpoints 4"):
        job.run_driver(graph, restore="2")
    finishes(job, graph)


def test_case_4_a_log_without_its_beginning_is_refused(tmp_path: Path) -> None:
    """The snapshots are gone and the log begins in the middle: an error, never an empty or a wrong state."""
    job, graph, folder = stopped(tmp_path)
    materialize(folder)
    truncate(folder, AT_ONCE)
    folder.snapshots.delete_tree()
    with pytest.raises(RestoreError, match="needs the log from checkpoint 1 on, which was truncated"):
        job.run_driver(graph)
    with pytest.raises(RestoreError, match="was truncated"):
        materialize(folder)
    assert complete_snapshots(folder) == {}


def test_case_15_a_failed_checkpoint_removes_nothing(tmp_path: Path) -> None:
    """Truncation runs while a checkpoint is under way that then fails: parts of earlier ones stay, and so do its own."""
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


def test_case_17_one_in_flight(tmp_path: Path) -> None:
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
    _, _, folder = stopped(tmp_path)
    run = FoldProcesses(1)
    run.stop()
    with pytest.raises(StorageError, match="stopped"):
        materialize(folder, run=run)
    assert complete_snapshots(folder) == {}


def test_case_17_a_schedule_that_gives_up_fails_the_attempt_once(tmp_path: Path) -> None:
    job = TestJob(tmp_path, Script(sizes=(5,)))

    def on_commit(checkpoint: Any) -> None:
        if checkpoint.id == 2:
            job.coordinator.fail(StorageError("no snapshot any more"))

    job.on_commit = on_commit  # type: ignore[method-assign]
    job.run_driver(keyed_job(ELEMENTS, Count(), key_type=Types.LONG()))
    assert job.coordinator.restarts.count == 1
    assert by_key(job.output) == by_key(counted(ELEMENTS))


def test_case_18_parts_stay_while_a_retained_checkpoint_needs_them(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path, epochs=6)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 7)}
    materialize(folder, 2)
    materialize(folder)
    truncate(folder, AT_ONCE._replace(retained=3))  # 4, 5 and 6 need snapshot 2 and the log of 3 to 5
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [2, 3, 4, 5, 6]
    assert {int(path.split("-")[1]) for path in rows_read(folder)} == {3, 4, 5}
    for checkpoint in range(2, 7):
        assert states(tmp_path, checkpoint) == held[checkpoint]
    truncate(folder, AT_ONCE)
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [6]
    assert rows_read(folder) == []
    assert states(tmp_path) == held[6]


def test_case_18_parts_stay_while_a_copy_or_the_history_needs_them(tmp_path: Path) -> None:
    job, _, folder = stopped(tmp_path, epochs=6)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 7)}
    materialize(folder)
    with protecting(folder, 3, None, "a test"):
        truncate(folder, AT_ONCE)
        assert sorted(Lineage(folder.open_changelog()).checkpoints) == [1, 2, 3, 6]
        assert states(tmp_path, 3) == held[3]
    times = {checkpoint.id: checkpoint.time_ms for checkpoint in job.commits}
    window = Retention(history_ms=1_000, retained=1, grace_ms=0)
    truncate(folder, window, lambda: (times[3] + 900) / 1000)
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [1, 2, 3, 6]
    truncate(folder, window, lambda: (times[6] + 5_000) / 1000)
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [6]


class Clears(KeyedProcessFunction):
    """Writes each key once; later elements of key 0 clear key 0."""

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.entries = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value[1] < 5:
            self.value.update(value[1])
            self.entries.put(1, value[1])
            self.entries.put(2, value[1])
            self.list.add(value[1])
        elif value[0] == 0:
            self.value.clear()
            self.entries.remove(1)
            self.list.clear()
        yield value


def test_case_19_an_idle_keys_last_write_survives_and_deleted_entries_stay_deleted(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path, Clears(), epochs=6)
    for checkpoint in (1, 3, None):  # key 1 to 4 were written before the first of them, and never since
        materialize(folder, checkpoint)
        truncate(folder, AT_ONCE._replace(retained=6 if checkpoint else 1))
    assert rows_read(folder) == []
    folded = state_at(folder.changelog.root).states
    assert folded["process", "value"] == {key: key for key in range(1, 5)}
    assert folded["process", "list"] == {key: [key] for key in range(1, 5)}
    assert {key: dict(entry.items()) for key, entry in folded["process", "map"].items()} == {
        0: {2: 0},
        **{key: {1: key, 2: key} for key in range(1, 5)},
    }


def test_case_20_a_reader_that_has_begun_finishes(tmp_path: Path) -> None:
    """Files leave the table at once and the disk after the grace time."""
    _, _, folder = stopped(tmp_path)
    before = states(tmp_path)
    reading = Storage(folder.changelog.root)
    names = rows_read(folder)
    materialize(folder)
    now = [1_000.0]
    truncate(folder, LATER, lambda: now[0])
    assert rows_read(folder) == []
    assert all(reading.size(name) for name in names)
    now[0] += 59
    assert truncate(folder, LATER, lambda: now[0]).deleted == 0
    now[0] += 1
    assert (
        truncate(folder, LATER, lambda: now[0]).deleted == len(names) + 3
    )  # and the rows of checkpoints 1 to 3
    assert not any(reading.exists(name) for name in names)
    assert states(tmp_path) == before


def test_case_21_a_truncation_that_dies_is_finished_by_the_next(tmp_path: Path) -> None:
    job, graph, folder = stopped(tmp_path)
    before = states(tmp_path)
    materialize(folder, 2)
    materialize(folder)
    for steps in range(30):
        with killed_after(steps):
            truncate(folder, AT_ONCE)
        assert states(tmp_path) == before
    for table in (folder.changelog, folder.snapshots):
        on_disk = {entry.name for entry in table.list() if entry.name.endswith(".parquet")}
        assert on_disk == set(DeltaLog(table).files()["path"].to_pylist())
    assert rows_read(folder) == []
    finishes(job, graph)


def test_a_driver_that_takes_over_keeps_what_it_starts_from(tmp_path: Path) -> None:
    """It begins an attempt between the truncation's decision and its commit: the truncation decides anew."""
    _, _, folder = stopped(tmp_path)
    held = states(tmp_path, 2)
    materialize(folder)
    inner = truncation.merge_small

    def rewinds(*arguments: Any) -> Any:
        if Lineage(folder.open_changelog()).newest_attempt_id == 1:
            begin_attempt(folder.open_changelog(), 1, 2, "test")
        return inner(*arguments)

    with mock.patch.object(truncation, "merge_small", rewinds):
        truncate(folder, AT_ONCE)
    assert states(tmp_path, 2) == held


def test_a_driver_whose_start_was_truncated_is_refused(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path)
    log = folder.open_changelog()  # decides to start from checkpoint 2
    materialize(folder)
    truncate(folder, AT_ONCE)
    with pytest.raises(RestoreError, match=r"checkpoint 2 .* was truncated just now"):
        begin_attempt(log, 1, 2, "test")
    assert Lineage(folder.open_changelog()).newest_attempt_id == 1


def test_a_running_driver_commits_past_a_truncation_and_not_past_a_driver(tmp_path: Path) -> None:
    """Foreign commits that are no driver's do not fence."""
    job = TestJob(tmp_path, Script(sizes=(5,)))
    folder = find_job_folder(str(tmp_path), "job")
    inner = commit_module.commit_fenced

    def with_a_truncation_before(log: DeltaLog, *arguments: Any) -> None:
        if job.commits:
            materialize(folder)
            truncate(folder, AT_ONCE)
        if len(job.commits) == 5:
            begin_attempt(folder.open_changelog(), 1, job.commits[-1].id, "another")
        inner(log, *arguments)

    with (
        mock.patch.object(commit_module, "commit_fenced", with_a_truncation_before),
        pytest.raises(JobExecutionError, match="took the job") as raised,
    ):
        job.run_driver(keyed_job(ELEMENTS, Count(), key_type=Types.LONG()))
    assert isinstance(raised.value.__cause__, FencedError)
    assert [checkpoint.id for checkpoint in job.commits] == [1, 2, 3, 4, 5]


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


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


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


def test_case_30_a_flipped_bit_in_a_merged_part_is_detected(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path, epochs=6)
    for checkpoint in (4, 5, 6):
        materialize(folder, checkpoint)
    held = states(tmp_path, 3)
    with mock.patch.object(truncation.merge_small, "__defaults__", (2,)):
        done = truncate(folder, Retention(grace_ms=0))
    assert (done.merged, done.log_files) == (1, 10)  # the parts of 1 to 5
    assert states(tmp_path, 3) == held
    damage(next((tmp_path / "job" / "changelog").glob("merged-1-5-*.parquet")))
    with pytest.raises(CorruptChangelogError, match=r"merged-1-5-.* was changed after it was written"):
        states(tmp_path, 3)


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
