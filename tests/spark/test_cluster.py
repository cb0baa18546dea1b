"""A standalone cluster: workers with addresses and folders of their own, the state and the output on S3.

Reliability case 22: whatever is lost of it, state and output are exact.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from cluster_job import key_of
from driver_process import Driver, newest_checkpoint, pinned_of, processes_of, wait_for
from pyarrow import fs
from servers import spark_classes
from servers.s3 import S3Server
from servers.spark_cluster import SparkMaster, SparkWorker

from changelog_engine.inspection.timeline import Timeline
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.verification.verify import verify
from materializer.fold import state_at

pytestmark = pytest.mark.slow

NUMBERS = 75_000
STOPPED_S = 4
JAVA = spark_classes.for_sessions()
RESTARTS = "failed and restarts"
RESCALE = [sys.executable, "-c", "from changelog_engine.cli import main; main()", "rescale"]


@pytest.fixture(scope="module")
def master() -> Iterator[SparkMaster]:
    with SparkMaster() as master:
        yield master


@pytest.fixture(scope="module")
def machines(master: SparkMaster) -> Iterator[list[SparkWorker]]:
    """Three for all tests, which say by `run` how many of them there are; a worker's start costs 1.3 CPU seconds."""
    with ExitStack() as stack:
        hosts = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
        yield [stack.enter_context(closing(SparkWorker(master, host))) for host in hosts]


def run(machines: list[SparkWorker], count: int) -> list[SparkWorker]:
    """Have the first so many in the cluster, without an executor of the test before, and the others not; returns all."""
    for number, machine in enumerate(machines):
        if number >= count:
            machine.kill()
        elif not machine.running:
            machine.start()
    wait_for(lambda: not any(machine.executors() for machine in machines))
    return machines


def on(master: SparkMaster, driver: str, folder: Path) -> dict[str, object]:
    """The configuration of a job on the cluster: executors of one core, and a restart after each failure.

    Args:
        master: of the cluster.
        driver: the driver's address.
        folder: for Spark's own files.
    """
    return {
        "state.changelog.enabled": "true",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 50,
        "restart-strategy.fixed-delay.delay": "0 s",
        "spark.master": master.url,
        "spark.executor.extraJavaOptions": spark_classes.java_options(),
        "spark.executor.cores": 1,
        "spark.executor.memory": "512m",
        "spark.driver.host": driver,
        "spark.driver.bindAddress": driver,
        "spark.local.dir": folder / "spark",
    }


def test_a_cluster_loses_executors_machines_and_its_driver(
    master: SparkMaster, machines: list[SparkWorker], s3: S3Server, s3_options: dict[str, str], tmp_path: Path
) -> None:
    bucket = s3.create_bucket()
    base, output = f"s3://{bucket}/log", f"s3://{bucket}/out"
    options = {
        **s3_options,
        "state.changelog.dstl.dfs.base-path": base,
        "execution.checkpointing.interval": "1s",
        "parallelism.default": 2,
        **on(master, "127.0.0.5", tmp_path),
    }
    job = ("asking_cluster_job.py", "cluster", NUMBERS, output)
    first, second, _ = run(machines, 1)
    with Driver(*job, options={**options, "spark.cores.max": 2}, work=tmp_path, environment=JAVA) as driver:
        goes_on = _more_checkpoints(driver, base)
        driver.wait_for(lambda: "the job waits for the rest" in driver.output, what="wait for an executor")
        assert " of 2 executors registered on spark://" in driver.output
        second.start()
        goes_on("start")
        assert RESTARTS not in driver.output, "the start was not a healthy one"
        assert first.executors()
        assert second.executors()

        second.send(signal.SIGSTOP)
        _for_seconds(STOPPED_S, lambda: driver.process.poll() is None)
        second.send(signal.SIGCONT)
        goes_on("slow executor")
        assert RESTARTS not in driver.output, "a slow executor is not a lost one"

        lost = first.executors()
        for pid in lost:
            os.kill(pid, signal.SIGKILL)
        goes_on("lost executor")
        driver.wait_for(lambda: set(first.executors()) - set(lost), what="executor in the lost one's place")

        driver.wait_for(second.executors, what="executor of the other worker")
        (tmp_path / "rescale-3").touch()
        driver.wait_for(lambda: "ASKED" in driver.output, what="request")
        for pid in second.executors():
            os.kill(pid, signal.SIGKILL)
        driver.wait_for(lambda: _answered(driver), what="answer to the rescale")
        goes_on("executor lost in a rescale")

        second.kill()
        goes_on("lost machine")
        assert "the job goes on with what is there" in driver.output
        assert "\tat " not in driver.output, "pages of Java"

        driver.kill()
        driver.wait_gone()
    reached = newest_checkpoint(base, "cluster")
    second.start()
    elsewhere = {"spark.driver.host": "127.0.0.6", "spark.driver.bindAddress": "127.0.0.6"}
    dynamic = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "5s",
    }
    with Driver(*job, options={**options, **elsewhere, **dynamic}, work=tmp_path, environment=JAVA) as driver:
        _more_checkpoints(driver, base)("restart of the driver")
        assert first.executors()
        assert second.executors()
        driver.hurry()
        assert driver.end() == 0, driver.output
        assert RESTARTS not in driver.output, "the next driver's start was not a healthy one"
        assert s3.secret_key not in driver.output
    folder = find_job_folder(base, "cluster")
    assert newest_checkpoint(base, "cluster") > reached
    assert verify(folder).faults == []
    expected = Counter(key_of(number) for number in range(NUMBERS))
    folded = state_at(folder.changelog.root)
    assert folded.checkpoint.finished
    assert folded.states["by key", "count"] == expected
    lines = _lines(s3.filesystem(), f"{bucket}/out")
    assert lines == Counter(f"{key} {count + 1}" for key, most in expected.items() for count in range(most))


def test_parallelism_follows_executors_that_come_and_go(
    master: SparkMaster, machines: list[SparkWorker], tmp_path: Path
) -> None:
    output, job = tmp_path / "out", str(tmp_path / "log" / "cluster")
    options = {
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        "execution.checkpointing.interval": "2s",  # subtasks work most of the time, also where epochs cost much
        "parallelism.default": 1,
        "changelog.autoscale": "true",
        "changelog.autoscale.calm-period": "8s",  # longer than until the executor goes, or it is not the cause
        "changelog.log.format": "json",
        **on(master, "127.0.0.7", tmp_path),
    }

    def rescaled_to(expected: list[str]) -> Callable[[], bool]:
        return lambda: [each.rescaled for each in Timeline(job).attempts if each.rescaled] == expected

    _, second, _ = run(machines, 1)
    with Driver(
        "cluster_job.py", "cluster", NUMBERS, output, options=options, work=tmp_path, environment=JAVA
    ) as driver:
        driver.wait_for(lambda: newest_checkpoint(str(tmp_path / "log"), "cluster") > 1, what="checkpoint")
        second.start()
        driver.wait_for(rescaled_to(["1 -> 2"]), what="rescale up")
        assert second.executors()
        assert RESTARTS not in driver.output
        _more_checkpoints(driver, str(tmp_path / "log"), 1)("rescale up")
        second.kill()
        driver.wait_for(rescaled_to(["1 -> 2", "2 -> 1"]), what="rescale down")
        driver.hurry()
        assert driver.end() == 0, driver.output
    assert "changelog.autoscale 2 -> 1: the executors run 1 tasks at a time" in driver.output
    expected = Counter(key_of(number) for number in range(NUMBERS))
    assert state_at(f"{job}/changelog").states["by key", "count"] == expected
    lines = Counter(
        itertools.chain.from_iterable(
            file.read_text().splitlines() for file in output.rglob("[!.]*") if file.is_file()
        )
    )
    assert lines == Counter(f"{key} {count + 1}" for key, most in expected.items() for count in range(most))


def test_executors_come_with_subtasks_and_snapshots_and_go_without_a_restart(
    master: SparkMaster, machines: list[SparkWorker], tmp_path: Path
) -> None:
    """Dynamic allocation takes away what idles, also of what the application began with."""
    output, job = tmp_path / "out", tmp_path / "log" / "cluster"
    options = {
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        # Late, so that there is one, or few: each has an executor or two of its own, of five CPU seconds.
        "state.changelog.periodic-materialize.interval": "45s",
        "changelog.materialization.executor.memory": "600m",
        "execution.checkpointing.interval": "1s",
        "parallelism.default": 1,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.initialExecutors": 2,
        "spark.dynamicAllocation.executorIdleTimeout": "4s",
        **on(master, "127.0.0.8", tmp_path),
    }
    workers = run(machines, 3)
    with Driver(
        "cluster_job.py", "cluster", NUMBERS, output, options=options, work=tmp_path, environment=JAVA
    ) as driver:

        def executors() -> int:
            """Those of the epochs."""
            return sum(len(worker.executors(profile=0)) for worker in workers)

        def own() -> list[int]:
            """Those of the snapshots."""
            return [pid for worker in workers for pid in worker.executors(profile=1)]

        folder = find_job_folder(str(tmp_path / "log"), "cluster")
        goes_on = _more_checkpoints(driver, str(tmp_path / "log"))
        driver.wait_for(lambda: executors() == 2, what="executors")
        driver.wait_for(lambda: executors() == 1, what="end of the executor without a subtask")
        goes_on("its end")
        for parallelism in (2, 1):
            asked = subprocess.run(
                [*RESCALE, job, str(parallelism)], capture_output=True, text=True, timeout=170
            )
            assert asked.returncode == 0, f"{asked.stderr}\n{driver.output}"
            driver.wait_for(lambda count=parallelism: executors() == count, what="executors")  # type: ignore[misc]
            goes_on("rescale")
            if parallelism == 2:
                before = _pins(workers)
                assert sorted(map(sorted, before)) == [["0/0/0", "0/1/0"], ["0/0/1", "0/1/1"]], driver.output
                goes_on("a look at its processes")
                assert _pins(workers) == before, "subtasks keep their processes"
        driver.wait_for(own, what="executor for a snapshot")
        driver.wait_for(lambda: complete_snapshots(folder), what="snapshot")
        driver.wait_for(lambda: not own(), what="end of the executor that has nothing to do")
        assert executors() == 1
        driver.hurry()
        assert driver.end() == 0, driver.output
        assert RESTARTS not in driver.output
        assert "makes its snapshots" not in driver.output
        assert "no executor of its own" not in driver.output
    expected = Counter(key_of(number) for number in range(NUMBERS))
    assert state_at(f"{job}/changelog").states["by key", "count"] == expected
    assert verify(folder).faults == []


def _pins(workers: list[SparkWorker]) -> list[dict[str, list[int]]]:
    """The subtasks on each machine that has some, with their processes."""
    found = [pinned_of(list(processes_of(worker.pid))) for worker in workers if worker.pid is not None]
    return [pinned for pinned in found if pinned]


def _more_checkpoints(driver: Driver, base: str, more: int = 2) -> Callable[[str], None]:
    """Waits for so many checkpoints more than there are."""

    def wait(what: str) -> None:
        before = newest_checkpoint(base, "cluster")
        driver.wait_for(
            lambda: newest_checkpoint(base, "cluster") >= before + more, what=f"checkpoint after {what}"
        )

    return wait


def _answered(driver: Driver) -> bool:
    """Whether the job was rescaled, or said that it failed before: either is right where an executor is lost meanwhile."""
    failed = "REFUSED JobExecutionError: the job was not rescaled: its attempt failed before"
    return "ANSWER rescaled 2 -> 3" in driver.output or failed in driver.output


def _for_seconds(seconds: float, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > end or not holds())
    assert holds()


def _lines(store: fs.S3FileSystem, folder: str) -> Counter[str]:
    found = store.get_file_info(fs.FileSelector(folder, recursive=True))
    texts = (store.open_input_file(file.path).read().decode() for file in found if file.is_file)
    return Counter(itertools.chain.from_iterable(text.splitlines() for text in texts))
