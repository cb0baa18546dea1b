"""A job is asked to stop by signal handlers, which run in the middle of whatever the driver's thread does."""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.functions import Count
from support.graphs import keyed_job, sink_job
from support.jobs import TestJob
from support.part_files import lines, sink_to
from support.script import Script

from changelog_engine.driver.control import JobControl
from changelog_engine.driver.protocols import JobOutcome
from changelog_engine.errors import EpochFailedError, JobExecutionError
from changelog_engine.in_process.runner import InProcessRunner
from changelog_engine.inspection.timeline import Timeline
from changelog_engine.spark.task import failure_of_spark


@pytest.mark.parametrize("waits", ["wait", "rest"])
def test_a_stop_at_any_instruction_of_a_wait_lets_it_end(waits: str) -> None:
    plan: Any = None
    for instruction in itertools.count():
        control = JobControl(None, plan, lambda _: None)
        thread = threading.Thread(target=wait_and_stop, args=(control, waits, instruction), daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive(), f"a stop at instruction {instruction} waits forever"
        if not control.stopping:  # the wait has no more instructions
            break
    assert instruction > 10


def wait_and_stop(control: JobControl, waits: str, instruction: int) -> None:
    """Wait, and ask for a stop in the middle of it, as a signal handler does."""
    left = instruction

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode":
            if left == 0:
                sys.settrace(None)
                control.stop()
            left -= 1
        return traced

    sys._getframe().f_trace_opcodes = (
        True  # Python 3.12 looks at that when the tracing begins, and then no more
    )
    sys.settrace(traced)
    try:
        getattr(control, waits)(5)
    finally:
        sys.settrace(None)


class StopsAtACheckpoint(TestJob):
    """Asked to stop at its first checkpoint; what Spark says comes out of the epoch after it."""

    def __init__(self, base: Path, said: str, monkeypatch: pytest.MonkeyPatch, epoch: int = 2) -> None:
        super().__init__(base, Script((epoch,), (True,)))
        run = InProcessRunner.run

        def run_or_fail(runner: InProcessRunner, *arguments: Any) -> Any:
            if self.coordinator.control.stopping:
                raise failure_of_spark(said)
            return run(runner, *arguments)

        monkeypatch.setattr(InProcessRunner, "run", run_or_fail)

    def on_commit(self, checkpoint: Any) -> None:
        self.coordinator.control.stop()


def stopped(base: Path, said: str, monkeypatch: pytest.MonkeyPatch) -> JobOutcome:
    return StopsAtACheckpoint(base, said, monkeypatch).run_driver(keyed_job(["a", "b", "c", "d"], Count()))


@pytest.mark.parametrize(
    "said",
    [
        "SparkContext has been shutdown",
        "Job 5 cancelled because SparkContext was shut down",
        "Python worker exited unexpectedly (crashed)",
    ],
)
def test_a_stop_that_ends_spark_first_is_a_stop(
    tmp_path: Path, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As `systemctl stop` without KillMode=mixed, and `timeout`, which signal Spark's processes too."""
    outcome = stopped(tmp_path, said, monkeypatch)
    assert (outcome.cancelled, outcome.last_checkpoint, outcome.restarts) == (True, 1, 0)
    assert [row.end for row in Timeline(str(tmp_path / "job")).attempts] == ["stopped"]
    assert "stops without another checkpoint: Spark's processes ended first" in caplog.text


def test_a_stop_that_ends_spark_before_the_last_commit_of_the_sinks_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job counted as finished, so that the next run began anew, and nobody committed what had been prepared."""
    job = StopsAtACheckpoint(tmp_path / "jobs", "SparkContext has been shutdown", monkeypatch, epoch=20)
    graph = sink_job(sink_to(tmp_path / "out"), ["a", "b", "c", "d"])
    with pytest.raises(JobExecutionError, match="the next run only completes this one"):
        job.run_driver(graph)
    assert not lines(tmp_path / "out")
    job.on_commit = lambda row: None  # type: ignore[method-assign]
    job.run_driver(graph)
    assert lines(tmp_path / "out") == Counter("abcd")


def test_a_stop_during_which_something_fails_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JobExecutionError, match="disk full") as failed:
        stopped(tmp_path, "java.io.IOException: No space left on device", monkeypatch)
    assert isinstance(failed.value.__cause__, EpochFailedError)
