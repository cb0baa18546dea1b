"""close() is called whatever a class is called, and whatever fails before or beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob
from support.script import Script

from api.datastream import KeyedProcessFunction
from changelog_engine.errors import JobExecutionError, StateLostError, UserFunctionError
from changelog_engine.operators.messages import Durable
from changelog_engine.operators.stage import StageRuntime
from changelog_engine.spark.runtimes import Runtimes

ELEMENTS = [(1, "a"), (2, "b")]
CLOSED: list[str] = []


class Function(KeyedProcessFunction):
    """A user's class with the name of the base class."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def close(self) -> None:
        CLOSED.append("Function")


class Unwritten(Function):
    """A class that inherits from such a one, and whose close() finds that something went wrong."""

    def close(self) -> None:
        raise ValueError("half of it was not written")


class _Renamed(Unwritten):
    def close(self) -> None:
        super().close()


_Renamed.close.__qualname__ = "Function.close"  # as in a user's module whose class is called Function


@pytest.mark.parametrize("function", [Unwritten(), _Renamed()])
def test_the_end_of_a_job_reaches_a_class_called_function(tmp_path: Path, function: Any) -> None:
    """Not only what is thrown away with the process: its errors fail the job."""
    job = TestJob(tmp_path, checkpoint_interval_ms=None, changelog=False, restart=NO_RESTART)
    with pytest.raises(JobExecutionError, match="half of it was not written"):
        job.run(keyed_job(ELEMENTS, function))


class FailsToOpen(Function):
    """Its open() takes something and fails."""

    def open(self, runtime_context: Any) -> None:
        CLOSED.append("opened")
        raise ValueError("there is no such server")


def test_what_was_opened_is_closed_when_a_stage_cannot_start(tmp_path: Path) -> None:
    CLOSED.clear()
    closed: list[StageRuntime] = []
    inner = StageRuntime.close

    def close(runtime: StageRuntime) -> None:
        closed.append(runtime)
        inner(runtime)

    job = TestJob(tmp_path, Script(sizes=(5,)), restart=NO_RESTART)
    with (
        mock.patch.object(StageRuntime, "close", close),
        pytest.raises(JobExecutionError, match="no such server"),
    ):
        job.run(keyed_job(ELEMENTS, FailsToOpen()))
    assert CLOSED == ["opened", "Function"]
    assert [runtime.stage for runtime in closed].count(1) == 1


class Resource:
    """Notes that it was closed; fails at it if asked to."""

    def __init__(self, name: str, fails: bool = False) -> None:
        self.name, self.fails = name, fails

    def close(self) -> None:
        CLOSED.append(self.name)
        if self.fails:
            raise UserFunctionError(self.name)


def test_a_close_that_fails_keeps_nothing_else_open() -> None:
    CLOSED.clear()
    runtime = StageRuntime.__new__(StageRuntime)
    runtime.operators = {0: Resource("a", True), 1: Resource("b", True)}  # type: ignore[dict-item]
    runtime.exchanges, runtime.sources = [Resource("c")], [Resource("d")]  # type: ignore[list-item]
    runtime.store = Resource("state")  # type: ignore[assignment]
    with pytest.raises(UserFunctionError, match="a"):
        runtime.close()
    assert CLOSED == ["a", "b", "c", "d", "state"]


def test_no_runtime_is_held_that_did_not_start() -> None:
    runtime = mock.Mock()
    runtime.start.side_effect = MemoryError
    runtime.close.side_effect = ValueError  # must not hide why
    runtimes = Runtimes()
    order = mock.Mock(committed_epoch=0, epoch=1)
    with mock.patch.object(Runtimes, "_build", return_value=runtime), pytest.raises(MemoryError):
        runtimes.run(mock.Mock(), order, 0, 0, [])
    assert not runtimes.held
    runtime.close.assert_called_once()


def test_an_epoch_that_closed_a_job_is_not_run_again_by_the_same_process(tmp_path: Path) -> None:
    """As when Spark repeats a stage whose output it could not fetch: its tasks pass for first ones."""
    runs: list[tuple[Runtimes, tuple[Any, ...]]] = []
    inner = Runtimes.run

    def run(runtimes: Runtimes, *arguments: Any) -> Any:
        runs.append((runtimes, arguments))
        return inner(runtimes, *arguments)

    job = TestJob(tmp_path)
    with mock.patch.object(Runtimes, "run", run):
        job.run(keyed_job(ELEMENTS, Function()))
    closing = [(runtimes, arguments) for runtimes, arguments in runs if arguments[1].kind.closes]
    assert closing
    for runtimes, arguments in closing * 2:
        with pytest.raises(StateLostError, match="a second time"):
            runtimes.run(*arguments)


def test_what_a_process_holds_of_another_run_or_attempt_is_neither_gone_on_with_nor_committed() -> None:
    """A subtask that was in another process meanwhile comes back to it: by its epochs it would go on."""
    runtimes, made = Runtimes(), []

    def begin(run: str, attempt: int) -> None:
        order = mock.Mock(run=run, attempt=attempt, epoch=2, committed_epoch=1)
        made.append(mock.Mock(done=1))
        with mock.patch.object(Runtimes, "_build", return_value=made[-1]):
            runtimes._runtime(mock.Mock(), order, (0, 0), None)

    begin("a", 1)
    for run, attempt in (("a", 2), ("b", 2)):
        before = runtimes.held[0, 0].runtime
        begin(run, attempt)
        before.close.assert_called_once()
        assert runtimes.held[0, 0].runtime is made[-1]
    for run, attempt in (("a", 2), ("b", 1), ("b", 3)):
        runtimes.commit(Durable(run, attempt, 1))
    made[-1].commit.assert_not_called()
    runtimes.commit(Durable("b", 2, 1))
    made[-1].commit.assert_called_once_with(1)
