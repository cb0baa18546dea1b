"""What a program asks to be executed: run in this process, or taken without running.

Both tell ``changelog_engine.launch`` what makes jobs while a program runs; nothing starts Spark.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from changelog_engine.clock import WallClock, wall_ms
from changelog_engine.driver.protocols import JobOutcome
from changelog_engine.driver.rescaling import Rescaled
from changelog_engine.errors import ConfigurationError, NotSupportedError
from changelog_engine.graph.files import JobFiles
from changelog_engine.graph.nodes import JobGraph, JobSettings
from changelog_engine.graph.rescaling import Parallelism
from changelog_engine.whose_code import calling_line

if TYPE_CHECKING:
    from changelog_engine.in_process.runner import InProcessRunner
    from changelog_engine.spark.shipping import ShippedJob


Answer = TypeVar("Answer")


@contextlib.contextmanager
def without_spark(clock: WallClock | None = None) -> Iterator[None]:
    """Within it, ``execute()``, ``execute_async()`` and ``execute_and_collect()`` run jobs in this process.

    The same stages, log, checkpoints and restarts as on Spark, one subtask after the other, in milliseconds. Functions are
    pickled as for Spark and run in this process; Python files and archives that were added to the job are refused.

    Args:
        clock: wall clock in ms that functions and timers see; None, the default, for the real one.

    Raises:
        NotSupportedError: in it, a job that ships files to its workers.

    Source: no counterpart in PyFlink; Flink's MiniClusterWithClientResource

    Example:
        >>> with without_spark():  # doctest: +SKIP
        ...     found = list(env.from_collection([1, 2]).map(str).execute_and_collect())
    """
    from changelog_engine.launch import RunningJob, launched_by

    with launched_by(partial(RunningJob, cluster=_InProcess(clock or wall_ms))), _exit_is_told():
        yield


@contextlib.contextmanager
def _exit_is_told() -> Iterator[None]:
    """Within it, ``os._exit()`` says so before it ends this process: on Spark a function that calls it ends a worker."""
    before, pid = os._exit, os.getpid()

    def exit_told(status: int) -> NoReturn:
        if os.getpid() == pid:  # not a child, which ends so by right
            said = f"os._exit({status}) ends this process, and the jobs that it runs without Spark: {calling_line()}\n"
            with contextlib.suppress(OSError):
                os.write(2, said.encode(errors="backslashreplace"))
        before(status)

    os._exit = exit_told
    try:
        yield
    finally:
        os._exit = before


class _InProcess:
    """This process as what runs a job's epochs; see launch.Cluster."""

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock

    def stage(self, given: JobFiles) -> None:
        if replace(given, jars=()) != JobFiles():  # jars are for Java, and there is none here
            raise NotSupportedError(
                "without_spark: this job ships files to workers, and there are none here: put its modules on sys.path, and "
                "call add_python_file(), set_python_requirements() and add_python_archive() only for Spark"
            )

    def starting(self, settings: JobSettings) -> str:
        return "starting"

    def runner(self, job: ShippedJob, staged: None) -> InProcessRunner:
        from changelog_engine.in_process.runner import InProcessRunner

        return InProcessRunner(job, self._clock)


class _Taken(BaseException):
    """Ends the program whose job was taken; programs catch no such thing by accident."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure


def capture_job(
    program: Callable[[], Any],
    action: Callable[[JobGraph, JobSettings], Answer],
    name: str | None,
    asked_by: str,
) -> Answer:
    """Run a program up to the execution of a job, which is given to an action instead of being run.

    The action is called within the program's ``execute()``, with its main module, classes and globals in place; the program
    ends there.

    Args:
        action: takes the job and its settings; what it returns is returned.
        name: of the job; None for the first. Executions of other jobs before it do nothing and succeed.
        asked_by: the function that users called; errors begin with it.

    Raises:
        ConfigurationError: the program executes no such job; names those that it executes.
        Exception: what the program raises before it, or the action.
    """
    from changelog_engine.launch import launched_by

    seen: list[str] = []
    answers: list[Answer] = []

    def take(graph: JobGraph, settings: JobSettings) -> _Skipped:
        seen.append(graph.name)
        if name is None or graph.name == name:
            try:
                answers.append(action(graph, settings))
            except Exception as error:
                raise _Taken(error) from None
            raise _Taken(None)
        return _Skipped(graph.name)

    with launched_by(take):
        try:
            program()
        except _Taken as taken:
            if taken.failure is not None:
                raise taken.failure from None
            return answers[0]
    wanted = "no job" if name is None else f"no job {name!r}"
    there = f"; it executes {', '.join([repr(other) for other in seen])}" if seen else ""
    raise ConfigurationError(f"{asked_by}: the program executes {wanted}{there}")


class _Skipped:
    """A job that does nothing and has finished; see launch.LaunchedJob."""

    job_id = "captured"
    makes_checkpoints = False
    last_checkpoint = None

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self) -> JobOutcome:
        return self.wait()

    def start(self) -> None:
        pass

    def status(self) -> str:
        return "FINISHED"

    def cancel(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def trigger_savepoint(self, directory: str | None = None) -> str:
        raise NotSupportedError(f"job {self.name!r} is not run here, so there is no savepoint of it")

    def stop_with_savepoint(self, drain: bool, directory: str | None = None) -> str:
        return self.trigger_savepoint(directory)

    def rescale(self, wanted: Parallelism) -> Rescaled:
        raise NotSupportedError(f"job {self.name!r} is not run here, so it cannot be rescaled")

    def wait(self, timeout_s: float | None = None) -> JobOutcome:
        return JobOutcome(self.job_id, 0, False, None, 0)

    def results(self, node: int) -> Iterator[Any]:
        return iter(())
