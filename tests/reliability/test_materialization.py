"""Reliability, materialization: cases 12, 15 to 17, 28, 32 and 37, with real files.

Reliability case 15 and reliability case 17: tests name theirs.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from servers.process import wait_for
from support.functions import Count, by_key, counted, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.killed_upkeep import killing
from support.live import LiveStates
from support.materialized import (
    AT_ONCE,
    ELEMENTS,
    finishes,
    killed_after,
    states,
    stopped,
)
from support.memory_disk import MemoryDisk
from support.model import pictured
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction, RuntimeContext
from api.datastream.state import ListStateDescriptor, ValueStateDescriptor
from changelog_engine.clock import WallMs
from changelog_engine.driver.figures import JobMonitor, UpkeepFigures
from changelog_engine.errors import (
    StorageError,
)
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.observing.words import running_words
from changelog_engine.storage import locks as locks_module
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage
from changelog_engine.verification.verify import verify
from materializer.fold import state_at
from materializer.lock import materializer_lock
from materializer.materialize import materialize
from materializer.processes import FoldProcesses
from materializer.runner import HERE
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
    with killing(tmp_path) as killed:
        for step in range(4):
            assert killed("materialize", step)
            assert complete_snapshots(folder) == {}
            assert states(tmp_path) == before
            assert verify(folder).faults == []
        assert not killed("materialize", 4)
    assert complete_snapshots(folder) == {4: {1}}
    assert states(tmp_path) == before
    finishes(job, graph)


def test_case_17_one_in_flight(tmp_path: Path) -> None:
    """Reliability case 17: while one runs, others are refused."""
    _, _, folder = stopped(tmp_path)

    def map_(function: Any, tasks: Any) -> Any:
        with pytest.raises(StorageError, match="another process materializes the job"):
            materialize(folder)
        with pytest.raises(StorageError, match="another process materializes the job"):
            truncate(folder, AT_ONCE)
        return HERE.map(function, tasks)

    assert materialize(folder, run=mock.Mock(map=map_)) is not None


@pytest.mark.parametrize("lost", [lambda results: results[:-1], lambda results: [None, *results[1:]]])
def test_case_17_a_task_without_a_result_makes_no_snapshot(tmp_path: Path, lost: Any) -> None:
    """Its key groups would be missing."""
    _, _, folder = stopped(tmp_path)
    before = states(tmp_path)
    losing = mock.Mock(map=lambda function, tasks: lost(HERE.map(function, tasks)))
    with pytest.raises(StorageError, match="not all gave a result"):
        materialize(folder, run=losing)
    assert complete_snapshots(folder) == {}
    assert states(tmp_path) == before


def test_case_17_who_holds_the_lock_for_long_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Reliability case 17: it may be stopped, and the log grows meanwhile."""
    _, _, folder = stopped(tmp_path)
    schedule = Schedule(folder, 10, None, 0, mock.Mock(), lambda: [HERE])
    caplog.set_level(logging.INFO, "changelog_engine")
    folder.open_snapshots()
    with materializer_lock(folder):
        schedule.once()
        schedule.once()
    busy = [record for record in caplog.records if "materializes the job" in record.message]
    assert [record.levelname for record in busy] == ["INFO", "WARNING"]
    assert f"pid {os.getpid()}" in busy[1].message
    assert "2 times in a row" in busy[1].message
    schedule.once()
    assert schedule.done is not None


def test_case_17_failures_are_tolerated_then_fail_the_job(tmp_path: Path) -> None:
    """Reliability case 17: failures in a row are counted, and the next one succeeds."""
    _, _, folder = stopped(tmp_path)
    given_up: list[Exception] = []
    failing = mock.Mock(map=mock.Mock(side_effect=StorageError("disk full")))
    monitor, processes = JobMonitor(), FoldProcesses()
    schedule = Schedule(folder, 10, None, 2, given_up.append, lambda: [failing], monitor)
    for _ in range(2):
        schedule.once()
    assert (schedule.failures, given_up) == (2, [])
    schedule.once()
    assert [str(error) for error in given_up] == ["disk full"]
    assert monitor.upkeep == UpkeepFigures(0, 3, 3)
    monitor.end_epoch(1.0)
    assert "the last 3 snapshots beside it failed" in running_words(monitor.latest, monitor.latest, WallMs(0))
    away = mock.Mock(ready=lambda: False)  # machines that do not come
    working = Schedule(folder, 10, AT_ONCE, 0, given_up.append, lambda: [away, processes], monitor)
    working.once()
    assert working.done is not None
    assert (working.done.checkpoint, working.failures, len(given_up)) == (4, 0, 1)
    assert monitor.upkeep == UpkeepFigures(1, 3, 0, 4, working.done.seconds)


def test_case_17_a_process_that_is_stopped_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reliability case 17: it goes on where it stood."""
    monkeypatch.setattr(locks_module, "_LOOK_S", 0.05)
    run = FoldProcesses(1)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(run.map, signal.raise_signal, [signal.SIGSTOP])
        wait_for(lambda: bool(caplog.messages), "a word", 60)
        (worker,) = run.workers
        os.kill(worker.pid, signal.SIGCONT)
        assert answer.result(60) == [None]
    assert [f"(pid {worker.pid}) is stopped" in message for message in caplog.messages] == [True]


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
            job.coordinator.control.fail(StorageError("no snapshot any more"))

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


def test_case_32_each_file_is_read_once_by_a_materialization(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path, parallelism=1)
    materialize(folder, 2)
    reads: list[str] = []
    inner = LocalDisk.read

    def read(storage: Storage, path: str, size: int | None = None) -> Any:
        reads.append(path)
        return inner(storage, path)

    with mock.patch.object(LocalDisk, "read", read):
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


class Collected(KeyedProcessFunction):
    """Keeps each key's numbers, and the newest of them below 100; one from 100 on takes that away."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.small = runtime_context.get_state(ValueStateDescriptor("small", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.numbers.add(value[1])
        if value[1] < 100:
            self.small.update(value[1])
        else:
            self.small.clear()
        yield value


@pytest.mark.parametrize(("before", "now"), [(10**6, 64), (64, 10**6)])
def test_other_pieces_than_before_hold_what_theirs_did(tmp_path: Path, before: int, now: int) -> None:
    """Of the previous snapshot's pieces a part is still wanted: of most keys nothing has come since."""
    elements = [*rounds(20, 40), *((0, 100 + number) for number in range(40))]
    _, _, folder = stopped(tmp_path, Collected(), epochs=12, parallelism=1, elements=elements)
    live = states(tmp_path)
    materialize(folder, 8, piece_bytes=before)
    assert materialize(folder, 12, piece_bytes=now) is not None
    truncate(folder, AT_ONCE)
    assert states(tmp_path) == live


def test_case_12_disk_full_while_materializing(tmp_path: Path) -> None:
    job, graph, folder = stopped(tmp_path)
    with MemoryDisk(str(tmp_path)).mounted() as disk:
        disk.fail("write", errno.ENOSPC, path="/snapshots/[^/]*$")
        on_disk = find_job_folder(str(tmp_path), "job")
        with pytest.raises(StorageError, match="disk full: could not write"):
            materialize(on_disk)
    assert complete_snapshots(folder) == {}
    assert materialize(folder) is not None
    finishes(job, graph)


def test_a_schedule_runs_beside_and_stops(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path)
    made = threading.Event()
    processes = FoldProcesses(keep=True)
    schedule = Schedule(folder, 1, AT_ONCE, 3, lambda error: None, lambda: [processes])
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
