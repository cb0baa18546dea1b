"""Reliability cases 6, 13 and 14: checkpoints that take long, fail or are not wanted any more, and storage that is slow.

A worker that is stuck for real needs processes of its own: tests/spark/test_stuck_worker.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.functions import Count, by_key, counted, rounds
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob
from support.memory_disk import Call, MemoryDisk
from support.script import Failure, Fault, Script

from api.common.typeinfo import Types
from changelog_engine.changelog import part_writer
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.driver import control
from changelog_engine.driver.journal import JobJournal
from changelog_engine.errors import EpochFailedError, FencedError, JobExecutionError
from changelog_engine.in_process.runner import InProcessRunner
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.operators import part_stream
from changelog_engine.operators.messages import EpochOrder
from changelog_engine.savepoints import requests
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage

ELEMENTS = rounds(3, 60)
EXPECTED = by_key(counted(ELEMENTS))


def graph(function: Any = None, parallelism: int = 1) -> Any:
    return keyed_job(ELEMENTS, function or Count(), key_type=Types.LONG(), parallelism=parallelism)


class SlowDisk(MemoryDisk):
    """Parts get their names when the gate is open, and not before.

    Args:
        folder: see MemoryDisk.
        after: so many parts find it open.
    """

    def __init__(self, folder: Path, after: int) -> None:
        super().__init__(str(folder))
        self.left = after
        self.reached, self.gate = threading.Event(), threading.Event()
        self.waiting = self.most_waiting = 0
        self.on("rename", self.wait, times=1_000, path="/part-")

    def wait(self, call: Call) -> None:
        """Called before a part gets its name."""
        self.left -= 1
        if self.left < 0:
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
            self.reached.set()
            assert self.gate.wait(300)
            self.waiting -= 1


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[BaseException]]:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, failures


def test_case_6_slow_storage_holds_the_source_back_and_a_stop_comes_through(tmp_path: Path) -> None:
    """While one part is written nothing more is read or held; a stop that comes meanwhile ends the job after it."""
    job = TestJob(tmp_path, Script(sizes=(5,)), part_max_bytes=1)
    slow = SlowDisk(tmp_path, after=2)
    counting, processed = Count.process_element, []

    def process_element(function: Count, value: Any, ctx: Any) -> Any:
        processed.append(value)
        return counting(function, value, ctx)

    with (
        slow.mounted(),
        mock.patch.object(part_stream, "FLUSH_ROWS", 1),
        mock.patch.object(Count, "process_element", process_element),
    ):
        thread, failures = in_thread(lambda: job.run_driver(graph()))
        assert slow.reached.wait(300)
        held_back, committed = len(processed), len(job.commits)
        job.coordinator.control.stop()
        assert len(processed) == held_back < len(ELEMENTS)
        assert len(job.commits) == committed
        slow.gate.set()
        thread.join(300)
        assert not thread.is_alive()
        assert failures == []
        assert slow.most_waiting == 1
        assert job.coordinator.status == "CANCELED"
        stopped_after = len(job.output)
        assert held_back <= stopped_after < len(ELEMENTS)
        job.run_driver(graph())
    assert by_key(job.output) == EXPECTED


def test_case_6_mutations_do_not_pile_up_until_the_barrier(tmp_path: Path) -> None:
    """Nine epochs without a checkpoint: each one's mutations go out as parts of bounded size, so few wait in memory."""
    elements = [(number % 7, number) for number in range(5_000)]
    sizes: list[int] = []
    inner = LocalDisk.write_durable

    def write_durable(storage: Storage, path: str, data: Any, background: bool = False) -> Any:
        if path.startswith("part-"):
            sizes.append(data.size)
        return inner(storage, path, data, background)

    script = Script(sizes=(500,), barriers=(*[False] * 9, True))
    job = TestJob(tmp_path, script, part_max_bytes=512)
    with (
        mock.patch.object(part_stream, "FLUSH_ROWS", 100),
        mock.patch.object(part_writer, "ROW_GROUP_ROWS", 100),
        mock.patch.object(LocalDisk, "write_durable", write_durable),
    ):
        job.run(keyed_job(elements, Count(), key_type=Types.LONG()))
    ahead = [part for reports in job.reports[:9] for report in reports for part in report.parts]
    assert sum(part.rows for part in ahead) == 9 * 500
    assert len(ahead) >= 9
    assert max(sizes) < 16 * 1024


def test_case_13_only_epochs_with_a_barrier_have_the_checkpoints_timeout(tmp_path: Path) -> None:
    """``execution.checkpointing.timeout`` bounds what makes a checkpoint, ``changelog.epoch.timeout`` the other epochs."""
    for settings, other_s in [
        ({}, 3600.0),
        ({"epoch_timeout_ms": 9_000}, 9.0),
        ({"epoch_timeout_ms": 5_000}, 7.0),
    ]:
        script = Script(sizes=(5,), barriers=(False, True))
        job = TestJob(tmp_path / str(other_s), script, checkpoint_timeout_ms=7_000, **settings)
        given = timeouts(job, graph())
        assert {barrier for barrier, _ in given} == {True, False}
        assert [timeout for _, timeout in given] == [7.0 if barrier else other_s for barrier, _ in given]


def test_cases_13_14_an_epoch_that_times_out_goes_back_to_its_checkpoint(tmp_path: Path) -> None:
    """The runner reports the timeout as a failed epoch; the restart strategy decides, and nothing is lost or doubled."""

    def times_out(epoch: int, timeout_s: float) -> None:
        if epoch in (3, 6):
            raise EpochFailedError(f"the epoch took longer than {timeout_s:.0f} s")

    job = TestJob(tmp_path / "restarts", Script(sizes=(5,)), checkpoint_timeout_ms=7_000)
    timeouts(job, graph(parallelism=2), times_out)
    assert job.coordinator.restarts.count == 2
    assert by_key(job.output) == EXPECTED
    strict = TestJob(tmp_path / "fails", Script(sizes=(5,)), checkpoint_timeout_ms=7_000, restart=NO_RESTART)
    with pytest.raises(JobExecutionError, match="took longer than 7 s"):
        timeouts(strict, graph(), times_out)
    assert [commit.id for commit in strict.commits] == [1, 2]


def test_cases_6_13_a_disk_that_stalls_is_a_checkpoint_that_timed_out(tmp_path: Path) -> None:
    """Writes are part of the epoch, so its limit is theirs; the job goes back and on."""
    job = TestJob(tmp_path, Script(sizes=(5,)), checkpoint_timeout_ms=2_000)
    epochs = [0.0]

    def times_out(epoch: int, timeout_s: float) -> None:
        epochs.append(time.monotonic())
        if epoch > 1 and epochs[-1] - epochs[-2] > timeout_s:
            raise EpochFailedError(f"the epoch took longer than {timeout_s:.0f} s")

    with MemoryDisk(str(tmp_path)).mounted() as disk:
        disk.stall("rename", 2.5, path="/part-3-")
        timeouts(job, graph(parallelism=2), times_out)
    assert job.coordinator.restarts.count >= 1
    assert by_key(job.output) == EXPECTED


def timeouts(
    job: TestJob, job_graph: Any, after: Callable[[int, float], None] | None = None
) -> list[tuple[bool, float]]:
    """Run a driver; each epoch's barrier and timeout. ``after`` is called with number and timeout after each."""
    given: list[tuple[bool, float]] = []
    inner = InProcessRunner.run

    def run(
        runner: InProcessRunner,
        orders: Callable[[int, int], EpochOrder],
        timeout_s: float,
        following: Callable[[], Any] | None = None,
    ) -> Any:
        given.append((orders(0, 0).kind.barrier, timeout_s))
        reports = inner(runner, orders, timeout_s, following)
        if after is not None:
            after(len(given), timeout_s)
        return reports

    with mock.patch.object(InProcessRunner, "run", run):
        job.run_driver(job_graph)
    return given


@pytest.mark.parametrize("tolerable", [0, 1, 2])
def test_case_13_more_failures_than_are_tolerable_fail_the_attempt(tmp_path: Path, tolerable: int) -> None:
    """Failures in a row count; a checkpoint that succeeds begins the count anew."""
    failures = tuple(Failure(epoch, Fault.COMMIT_FAILS) for epoch in (2, 4, 5, 7, 8, 9))
    job = TestJob(tmp_path, Script(sizes=(5,), failures=failures), tolerable_failures=tolerable)
    job.run(graph())
    # In a row: one, then two, then three. Each attempt that fails is followed by one with the same tolerance.
    assert job.coordinator.restarts.count == {0: 6, 1: 2, 2: 1}[tolerable]
    assert by_key(job.output) == EXPECTED


def test_case_13_a_savepoint_that_waits_does_not_use_up_the_tolerable_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the next checkpoint that is due, as all else does then; one asked for later does not."""

    class Requests(requests.SavepointRequests):
        def __init__(self, folder: JobFolder | None) -> None:
            super().__init__(folder)
            self._request(last=False)

        def _answer(self, answer: Future[Any], checkpoint: Checkpoint) -> None:
            answered.append(checkpoint.id)
            if len(answered) == 1:
                self._request(last=False)

    answered: list[int] = []
    monkeypatch.setattr(control, "SavepointRequests", Requests)
    failures = (Failure(1, Fault.COMMIT_FAILS), Failure(2, Fault.COMMIT_FAILS))
    job = TestJob(tmp_path, Script((1,), (*[False] * 3, True), failures), tolerable_failures=2)
    job.run(graph())
    assert [stats.checkpoint for stats in job.stats][:10] == [*[None] * 8, 1, 2]
    assert answered == [1, 2]
    assert by_key(job.output) == EXPECTED


def test_case_13_so_many_checkpoints_are_kept(tmp_path: Path) -> None:
    """``num-retained`` without changelog: older full snapshots are retired after each checkpoint."""
    job = TestJob(tmp_path, Script(sizes=(5,)), changelog=False, retained_checkpoints=2)
    kept: list[list[int]] = []
    job.on_commit = lambda row: kept.append(  # type: ignore[method-assign]
        sorted(complete_snapshots(find_job_folder(str(tmp_path), "job")))
    )
    job.run(graph())
    assert kept[0] == [1]
    assert all(len(each) <= 3 for each in kept)  # the newest is committed before the oldest is retired
    newest = job.commits[-1].id
    assert sorted(complete_snapshots(find_job_folder(str(tmp_path), "job"))) == [newest - 1, newest]


def test_case_13_a_new_driver_keeps_those_of_the_earlier_one(tmp_path: Path) -> None:
    """Its first checkpoint retires no snapshot that ``num-retained`` promises to keep."""
    failures = (Failure(6, Fault.DRIVER),)
    job = TestJob(tmp_path, Script(sizes=(5,), failures=failures), changelog=False, retained_checkpoints=4)
    kept: dict[int, list[int]] = {}

    def on_commit(row: Any) -> None:
        kept[row.id] = sorted(complete_snapshots(find_job_folder(str(tmp_path), "job")))

    job.on_commit = on_commit  # type: ignore[method-assign]
    job.run(graph())
    assert job.drivers == 2
    newest = job.commits[-1].id
    assert newest > 6
    for checkpoint, snapshots in kept.items():
        assert set(range(max(1, checkpoint - 3), checkpoint + 1)) <= set(snapshots), checkpoint
    assert sorted(complete_snapshots(find_job_folder(str(tmp_path), "job"))) == [
        *range(newest - 3, newest + 1)
    ]


def test_case_13_a_driver_that_was_replaced_deletes_nothing(tmp_path: Path) -> None:
    """On object stores nothing keeps a second driver out: whoever is cancelled may not own the job any more."""
    for begun in (True, False):
        first = JobJournal.open(str(tmp_path), "job")
        start = first.start_point("latest")
        if begun:
            first.begin_attempt(start)
        first.close()  # the lock of a local disk; see above
        TestJob(tmp_path, Script(sizes=(20,))).run(graph())
        with pytest.raises(FencedError, match=r"another driver .* took the job in .* over"):
            first.discard()
        assert find_job_folder(str(tmp_path), "job").open_changelog().files().num_rows


def test_case_13_deletion_on_cancellation_leaves_other_jobs_alone(tmp_path: Path) -> None:
    """What the launcher does for a cancelled job with DELETE_ON_CANCELLATION: the job's folder goes, its neighbour stays."""
    for name in ("job", "other"):
        TestJob(tmp_path, Script(sizes=(20,))).run(
            keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), name=name)
        )
    journal = JobJournal.open(str(tmp_path), "job")
    journal.discard()
    journal.close()
    assert not (tmp_path / "job").exists()
    assert complete_snapshots(find_job_folder(str(tmp_path), "other")) == {}
    again = TestJob(tmp_path, Script(sizes=(20,)))
    again.run(graph())
    assert by_key(again.output) == EXPECTED
    assert again.commits[0].id == 1
