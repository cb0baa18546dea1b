"""Jobs let go of what they hold, and tell those who wait, however they begin and end."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.graphs import GraphBuilder

from changelog_engine import launch
from changelog_engine.connectors.hybrid import HybridSource
from changelog_engine.connectors.scripted import ScriptedSource
from changelog_engine.driver.figures import JobMonitor
from changelog_engine.errors import EnvironmentNotReadyError, JobExecutionError
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind, RestartKind, RestartSettings
from changelog_engine.in_process.runner import InProcessRunner
from changelog_engine.launch import RUNNING, RunningJob, launched_by, run_job, start_job, untold_failures
from changelog_engine.testing import without_spark

WAIT_S = 60


class EndsBadly(ScriptedSource):
    """A source whose hook raises."""

    def job_ended(self) -> None:
        raise OSError("the consumer could not be taken off")


class Counted(ScriptedSource):
    """A source that counts the ends of its jobs, in a list that copies of it share."""

    ends: list[str] = []  # noqa: RUF012

    def job_ended(self) -> None:
        self.ends.append("ended")


class Divides:
    """A MapFunction that raises at 0."""

    def map(self, value: int) -> int:
        return 1 // value


def graph(source: Any = None, function: Any = None) -> JobGraph:
    build = GraphBuilder()
    before = build.source(source or Counted([1, 2]))
    if function is not None:
        before = build.add(NodeKind.MAP, "map", before, function=function)
    build.collect(before)
    return build.graph()


@pytest.fixture
def settings(tmp_path: Path) -> JobSettings:
    none = RestartSettings(RestartKind.NONE)
    return JobSettings(base_path=str(tmp_path), checkpoint_interval_ms=1, changelog=True, restart=none)


def runs(settings: JobSettings) -> bool:
    """Whether the next driver of the job gets its lock."""
    with without_spark():
        return run_job(graph(), replace(settings, restore="none")).cancelled is False


def test_a_hook_that_raises_at_the_end_is_told(settings: JobSettings) -> None:
    with (
        without_spark(),
        pytest.raises(JobExecutionError, match=r"came to its end, and .* the consumer could not"),
    ):
        run_job(graph(EndsBadly([1])), settings)
    assert runs(settings)


def test_whoever_waits_for_a_job_whose_hook_raises_hears_of_it(settings: JobSettings) -> None:
    with without_spark():
        job = start_job(graph(EndsBadly([1, 2])), settings)
        with pytest.raises(JobExecutionError, match="the consumer could not be taken off"):
            job.wait(WAIT_S)
        elements: list[Any] = []
        with pytest.raises(JobExecutionError, match="the consumer could not be taken off"):
            elements.extend(job.results(1))
    assert (job.status(), job in RUNNING) == ("FAILED", False)
    assert runs(settings)


def test_the_failure_of_the_job_is_told_before_that_of_a_hook(
    settings: JobSettings, caplog: pytest.LogCaptureFixture
) -> None:
    with without_spark(), pytest.raises(JobExecutionError, match="ZeroDivisionError"):
        run_job(graph(EndsBadly([0]), Divides()), settings)
    assert "the consumer could not be taken off" in caplog.text
    assert runs(settings)


def test_all_sources_are_told_that_their_job_has_ended(settings: JobSettings) -> None:
    counted = Counted([1])
    counted.ends = []
    build = GraphBuilder()
    build.collect(build.source(EndsBadly([1])))
    build.collect(build.source(counted))
    with without_spark(), pytest.raises(JobExecutionError, match="the consumer"):
        run_job(build.graph(), settings)
    with pytest.raises(OSError, match="the consumer"):
        HybridSource([EndsBadly([1]), counted]).job_ended()
    assert counted.ends == ["ended", "ended"]


def test_a_failure_in_the_background_that_nobody_asked_for_is_told_once(settings: JobSettings) -> None:
    untold_failures()
    with without_spark():
        asked, unasked = (
            start_job(replace(graph(Counted([0]), Divides()), name=name), settings)
            for name in ("asked", "unasked")
        )
        with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
            asked.wait(WAIT_S)
        assert unasked._done.wait(WAIT_S)
    (told,) = untold_failures()
    assert told.startswith("job 'unasked' failed: map of operator 'map', element 0 raised ZeroDivisionError")
    assert untold_failures() == []


def test_a_program_that_ends_before_its_job_says_so(
    settings: JobSettings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    untold_failures()
    go_on = threading.Event()
    monkeypatch.setattr(JobMonitor, "end_epoch", lambda *_: go_on.wait(WAIT_S))
    with without_spark():
        job = start_job(graph(), settings)
        launch._tell_at_exit()
        go_on.set()
        job.wait(WAIT_S)
    assert caplog.messages == [
        f"job {job.name!r} ran in the background when the program ended, and ends with it. To wait for it, call "
        "get_job_execution_result().result() of what execute_async() returned"
    ]
    caplog.clear()
    launch._tell_at_exit()
    assert caplog.messages == []


class NoCluster:
    def stage(self, given: Any) -> None:
        """It has no files."""

    def starting(self, settings: JobSettings) -> str:
        return "starting"

    def runner(self, job: Any, staged: None) -> Any:
        raise OSError("no cluster answers")


def test_a_job_whose_cluster_does_not_answer_lets_go_of_its_lock(settings: JobSettings) -> None:
    with launched_by(partial(RunningJob, cluster=NoCluster())), pytest.raises(OSError, match="no cluster"):
        run_job(graph(), settings)
    assert runs(settings)


@pytest.mark.parametrize("part", ["Coordinator", "beside_job"])
def test_a_job_that_cannot_be_put_together_lets_go_of_all(
    settings: JobSettings, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fail(*given: Any) -> None:
        raise OSError("no room")

    closed = []
    monkeypatch.setattr(InProcessRunner, "close", lambda self: closed.append(self))
    with monkeypatch.context() as broken, without_spark():
        broken.setattr(launch, part, fail)
        with pytest.raises(OSError, match="no room"):
            run_job(graph(), settings)
    assert len(closed) == 1
    assert runs(settings)


def test_a_job_that_no_thread_can_be_started_for_ends(
    settings: JobSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **named: Any) -> Any:
        raise RuntimeError("can't start new thread")

    with without_spark(), monkeypatch.context() as full:
        full.setattr(launch.threading, "Thread", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            start_job(graph(), settings)
    assert not RUNNING
    assert runs(settings)


@pytest.mark.parametrize(
    "refused",
    [RuntimeError("can't start new thread"), BlockingIOError(11, "Resource temporarily unavailable")],
)
def test_a_start_that_the_limit_of_processes_ends_names_it(
    settings: JobSettings, monkeypatch: pytest.MonkeyPatch, refused: Exception
) -> None:
    def refuse(*given: Any) -> None:
        raise refused

    with without_spark(), monkeypatch.context() as full:
        full.setattr(launch, "beside_job", refuse)
        with pytest.raises(EnvironmentNotReadyError, match=r"ulimit -u.*pids\.max") as error:
            run_job(graph(), settings)
    assert str(refused) in error.value.fault
    assert runs(settings)


def test_jobs_are_launched_as_before_when_a_launch_of_its_own_ends(settings: JobSettings) -> None:
    with pytest.raises(ZeroDivisionError), launched_by(lambda *given: 1 // 0):
        run_job(graph(), settings)
    assert runs(settings)


def test_whoever_looks_at_a_programs_job_decides_and_not_the_program(settings: JobSettings) -> None:
    with pytest.raises(ZeroDivisionError), launched_by(lambda *given: 1 // 0), without_spark():
        run_job(graph(), settings)
