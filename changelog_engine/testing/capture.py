"""What a program asks to be executed: run in this process, or taken without running.

Both stand in for ``changelog_engine.spark.launch`` while a program runs; nothing starts Spark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

from changelog_engine.clock import wall_ms
from changelog_engine.errors import NotSupportedError
from changelog_engine.graph.files import JobFiles
from changelog_engine.graph.nodes import JobGraph, JobSettings


@contextlib.contextmanager
def without_spark(clock: Callable[[], int] | None = None) -> Iterator[None]:
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
    from changelog_engine.spark import launch
    from changelog_engine.testing.in_process import InProcessRunner

    def runner(context: Any, job: Any, shipped: Any) -> Any:
        return InProcessRunner(job, clock or wall_ms)

    files = SimpleNamespace(stage=_stage, session_options=lambda settings: {}, ship=lambda *given: None)
    with (
        mock.patch.object(launch, "spark_context"),
        mock.patch.object(launch, "SparkEpochRunner", runner),
        mock.patch.object(launch, "files", files),
    ):
        yield


def _stage(given: JobFiles) -> None:
    if given != JobFiles():
        raise NotSupportedError(
            "without_spark: this job ships files to workers, and there are none here: put its modules on sys.path, and call "
            "add_python_file(), set_python_requirements() and add_python_archive() only for Spark"
        )


class _Taken(BaseException):
    """Ends the program whose job was taken; programs catch no such thing by accident.

    Args:
        failure: what the action raised.
    """

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure


def capture_job(
    program: Callable[[], Any], action: Callable[[JobGraph, JobSettings], None], name: str | None = None
) -> list[str] | None:
    """Run a program up to the execution of a job, which is given to an action instead of being run.

    The action is called within the program's ``execute()``, with its main module, classes and globals in place; the program
    ends there.

    Args:
        program: builds the job and executes it.
        action: takes the job and its settings.
        name: of the job; None for the first. Executions of other jobs before it do nothing and succeed.

    Returns:
        None; or the names of all jobs that the program executed, when the wanted one is not among them.

    Raises:
        Exception: what the program raises before it, or the action.
    """
    from changelog_engine.checkpoint.contracts import JobOutcome
    from changelog_engine.spark import launch

    seen: list[str] = []

    def take(graph: JobGraph, settings: JobSettings, observer: Any = None) -> Any:
        seen.append(graph.name)
        if name is None or graph.name == name:
            try:
                action(graph, settings)
            except Exception as error:
                raise _Taken(error) from None
            raise _Taken(None)
        return JobOutcome("captured", 0, False, None, 0)

    def take_started(graph: JobGraph, settings: JobSettings, observer: Any = None) -> Any:
        outcome = take(graph, settings)
        return SimpleNamespace(
            job_id=outcome.job_id,
            name=graph.name,
            status=lambda: "FINISHED",
            cancel=lambda: None,
            stop=lambda: None,
            wait=lambda timeout_s=None: outcome,
            results=lambda node: iter(()),
        )

    with mock.patch.object(launch, "run_job", take), mock.patch.object(launch, "start_job", take_started):
        try:
            program()
        except _Taken as taken:
            if taken.failure is not None:
                raise taken.failure from None
            return None
    return seen
