"""Snapshots and truncation beside a job on Spark whose driver is killed: reliability cases 17 and 22."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from driver_process import Driver, checkpoints, wait_for
from final_state import assert_counted_once
from pyspark import SparkContext
from session_jobs import Count, Slowly, environment

from api.common import JobStatus, Types, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors.number_seq import NumberSequenceSource
from changelog_engine.errors import StorageError
from changelog_engine.launch import RUNNING
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.spark.background import BackgroundTasks
from changelog_engine.storage import locks as locks_module
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import Storage
from changelog_engine.verification.verify import verify
from materializer.fold import state_at
from materializer.processes import FoldProcesses
from materializer.schedule import Schedule

pytestmark = pytest.mark.slow

NUMBERS, KEYS = 15_000, 50
OFTEN = {
    "state__changelog__periodic_materialize__interval": "100ms",
    "changelog__history__retention": "0ms",
}


def test_a_driver_killed_beside_materializations(tmp_path: Path) -> None:
    """The log is truncated at once, so the second driver restores from a snapshot that the first one's schedule made.

    Reliability case 12 as well: a cleaner removes the first one's temporary files.
    """
    folder = find_job_folder(str(tmp_path / "log"), "count")
    options = {
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        "state.changelog.periodic-materialize.interval": "500ms",
        "changelog.history.retention": "0ms",
        "changelog.truncation.grace": "2s",
        "execution.checkpointing.interval": "500ms",
        "parallelism.default": 2,
        "spark.master": "local[2]",
        "spark.local.dir": tmp_path / "spark",
    }
    job = ("counting_job.py", "count", NUMBERS, KEYS)
    ahead = {**options, "changelog.epoch.read-ahead": "true"}
    with Driver(*job, options=ahead, work=tmp_path / "first") as first:
        first.wait_for(lambda: len(complete_snapshots(folder)) > 0, what="snapshot")
        first.wait_for(lambda: not _listed(folder.changelog, "checkpoint-1-"), what="truncation")
        first.wait_for(first.background, what="worker beside the job")
        (worker,) = first.background()
        assert os.getpriority(os.PRIO_PROCESS, worker) >= 10
        for folder_of_driver in (tmp_path / "spark").glob("spark-*/pyspark-*"):
            shutil.rmtree(folder_of_driver)
        os.kill(worker, signal.SIGKILL)
        newest = max(complete_snapshots(folder))
        first.wait_for(lambda: max(complete_snapshots(folder)) > newest, what="snapshot after the kill")
        assert "begins again" not in first.output
        assert "failed and restarts" not in first.output
        os.kill(first.pinned()["0/0/0"][0], signal.SIGKILL)
        first.wait_for(lambda: "out of which a new worker takes the job's program, is gone" in first.output)
        reached = checkpoints(Path(folder.changelog.root))
        first.wait_for(lambda: checkpoints(Path(folder.changelog.root)) > reached, what="checkpoint")
        first.kill()
        first.wait_gone()
    assert complete_snapshots(folder)
    calm = {**options, "state.changelog.periodic-materialize.interval": "5s"}
    with Driver(*job, options=calm, work=tmp_path / "second") as second:
        second.hurry()
        assert second.end(240) == 0, second.output
    assert_counted_once(tmp_path / "log" / "count" / "changelog", NUMBERS, KEYS)


@pytest.mark.usefixtures("spark")
def test_a_task_that_can_only_be_asked_to_end_is_waited_for(tmp_path: Path) -> None:
    """As on clusters, where no lock tells whether a worker still writes: a folder is discarded after its last file."""
    tasks = BackgroundTasks(SparkContext.getOrCreate(), "late", most=2)
    started, go, written = (tmp_path / name for name in ("started", "go", "written"))
    late = f"touch {started}; while [ ! -e {go} ]; do sleep 0.02; done; touch {written}"
    answers: list[list[int]] = []
    thread = threading.Thread(
        target=lambda: answers.append(tasks.map(subprocess.check_call, [["sh", "-c", late]]))
    )
    thread.start()
    wait_for(started.exists)
    tasks.let_end()
    assert thread.is_alive()
    go.touch()
    thread.join(60)
    assert written.exists()
    assert answers == [[0]]
    with pytest.raises(StorageError, match="was stopped"):
        tasks.map(subprocess.check_call, [["true"]])


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("parallelism", "runner"), [(1, BackgroundTasks), (2, FoldProcesses)])
def test_in_a_session_of_the_users(
    tmp_path: Path,
    parallelism: int,
    runner: type,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of its two slots a job with one subtask leaves one: snapshots are made there; with two subtasks in a process.

    A worker is stopped, which is told, and then killed; the job is cancelled while another one folds, and goes on.
    """
    monkeypatch.setattr(locks_module, "_LOOK_S", 0.05)
    gate, folder = tmp_path / "gate", find_job_folder(str(tmp_path / "log"), "beside")

    def build() -> StreamExecutionEnvironment:
        env = environment(tmp_path / "log", parallelism, **OFTEN)
        numbers = env.from_source(
            NumberSequenceSource(0, 9_999), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
        )
        slow = numbers.map(Slowly(0.005, gate), Types.LONG())
        slow.key_by(lambda v: v % 7, Types.LONG()).process(Count()).uid("counts").filter(
            lambda v: False
        ).print()
        return env

    with caplog.at_level("INFO", "changelog_engine"):
        client = build().execute_async("beside")
        (job,) = RUNNING
        schedule = job._beside  # type: ignore[attr-defined]
        wait_for(lambda: schedule.done is not None)
    assert [type(run) for run in schedule._runners] == [runner]
    assert ("has no slot that epochs" in caplog.text) == (runner is FoldProcesses)
    worker = _busy(schedule)
    os.kill(worker, signal.SIGSTOP)  # while it folds, or between two tasks
    wait_for(lambda: f"a process of the materializer (pid {worker}) is stopped" in caplog.text)
    os.kill(worker, signal.SIGKILL)
    killed_at = schedule.done.checkpoint
    wait_for(lambda: schedule.done.checkpoint > killed_at)
    assert client.get_job_status().result() == JobStatus.RUNNING
    assert job.coordinator.restarts.count == 0  # type: ignore[attr-defined]

    _busy(schedule)
    client.cancel().result()
    wait_for(lambda: client.get_job_status().result() == JobStatus.CANCELED)
    wait_for(lambda: job not in RUNNING)
    assert not schedule._thread.is_alive()
    assert not SparkContext.getOrCreate().statusTracker().getActiveJobsIds()
    assert verify(folder).faults == []
    assert complete_snapshots(folder)

    gate.touch()
    build().execute("beside")
    counts = state_at(folder.changelog.root).states["counts", "count"]
    assert counts == {key: len(range(key, 10_000, 7)) for key in range(7)}


def _worker(schedule: Schedule) -> int | None:
    """The process that folds or truncates just now."""
    (run,) = schedule._runners
    if isinstance(run, BackgroundTasks):
        return run.worker
    assert isinstance(run, FoldProcesses)
    return next((worker.pid for worker in list(run.workers) if worker.poll() is None), None)


def _busy(schedule: Schedule) -> int:
    found: list[int] = []

    def look() -> bool:
        found.extend(filter(None, [_worker(schedule)]))
        return bool(found)

    wait_for(look)
    return found[0]


def _listed(table: Storage, prefix: str) -> bool:
    return any(path.startswith(prefix) for path in DeltaLog(table).files()["path"].to_pylist())
