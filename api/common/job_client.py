"""JobClient: a handle of a running job."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from changelog_engine.config import absolute_path
from changelog_engine.errors import JobCancelledError

from .. import _arguments
from .._arguments import checked
from .completable_future import CompletableFuture
from .job_execution_result import JobExecutionResult
from .job_id import JobID
from .job_status import JobStatus


@checked
class JobClient:
    """A handle of a job that runs in the background, from ``execute_async``."""

    def __init__(self, running_job: Any) -> None:
        self._running = running_job

    def get_job_id(self) -> JobID:
        """The identity of the run."""
        return JobID(self._running.job_id)

    def get_job_status(self) -> CompletableFuture:
        """A future of the `JobStatus`."""
        return _later(lambda: JobStatus[self._running.status()])

    def cancel(self) -> CompletableFuture:
        """Cancel the job.

        With checkpointing on it stops after a checkpoint. DELETE_ON_CANCELLATION then removes the job's checkpoints;
        savepoints stay.

        Returns:
            A future that is done when the job has ended.
        """
        return _later(self._cancel_and_wait)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Stop the job after a checkpoint and make a savepoint of it. The job counts as finished, not as cancelled.

        Args:
            advance_to_end_of_event_time: let event time end first, so that all its timers and windows fire. A job that
                goes on from such a savepoint begins event time anew: a window that fired before its end fires again.
            savepoint_directory: folder or URI below which the savepoint shall lie; None for the default, which
                ``set_default_savepoint_directory`` or ``state.savepoints.dir`` sets.

        Returns:
            A future of the savepoint's path. Its ``result()`` raises ConfigurationError when there is no directory or
            the job makes no checkpoints, StorageError when the directory cannot be written (in these cases the job
            goes on), and JobExecutionError when the job ended before.

        Example:
            >>> path = job_client.stop_with_savepoint(False, "/savepoints").result()  # doctest: +SKIP
        """
        directory = _absolute(savepoint_directory)
        return _later(lambda: self._running.stop_with_savepoint(advance_to_end_of_event_time, directory))

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Make a savepoint of a checkpoint that is taken at once. The job goes on meanwhile.

        Args:
            savepoint_directory: folder or URI below which the savepoint shall lie; None for the default, which
                ``set_default_savepoint_directory`` or ``state.savepoints.dir`` sets.

        Returns:
            A future of the savepoint's path, for ``execution.savepoint.path`` or ``changelog.restore``. Its ``result()``
            raises ConfigurationError when there is no directory or the job makes no checkpoints, StorageError when the
            savepoint cannot be written, and JobExecutionError when the job ended before.

        Example:
            >>> path = job_client.trigger_savepoint("/savepoints").result()  # doctest: +SKIP
        """
        directory = _absolute(savepoint_directory)
        return _later(lambda: self._running.trigger_savepoint(directory))

    def rescale(self, parallelism: int | dict[str, int]) -> CompletableFuture:
        """Have the job go on with another parallelism, without a restart.

        A checkpoint is taken at once; keyed state and timers move with their key groups, and sources' splits are shared
        out anew. A run that begins later has the program's parallelism again.

        Args:
            parallelism: of all operators for which the program sets no parallelism of their own; or a dict, by the uid of
                an operator, which changes those that are chained to it too. At most the max parallelism.

        Returns:
            A future, done when the job goes on, whose result has ``checkpoint`` (at which it changed; None: it had that
            parallelism), ``changes`` and ``pause_ms``. Its ``result()`` raises ConfigurationError when the job cannot have
            the parallelism or makes no checkpoints (it goes on as it was), and JobExecutionError when it ended before, or
            failed before and restarts with the parallelism that it had.

        Source: no counterpart in PyFlink; Flink's REST call /jobs/:jobid/resource-requirements

        Example:
            >>> print(job_client.rescale(4).result())  # doctest: +SKIP
            rescaled 2 -> 4 at checkpoint 17, paused for 0.6 s
        """
        what = "JobClient.rescale"
        if isinstance(parallelism, dict):
            wanted: int | dict[str, int] = {
                _arguments.text(uid, f"{what}: a uid"): _arguments.parallelism(each, what)
                for uid, each in parallelism.items()
            }
        else:
            wanted = _arguments.parallelism(parallelism, what)
        return _later(lambda: self._running.rescale(wanted))

    def get_accumulators(self) -> CompletableFuture:
        """A future of the accumulators by name: an empty dict, as Python functions cannot register any."""
        return _later(dict)

    def get_job_execution_result(self) -> CompletableFuture:
        """A future of the `JobExecutionResult`, done when the job ends.

        Its ``result()`` raises JobExecutionError when the job fails, and JobCancelledError when it is
        cancelled.
        """
        return _later(lambda: to_result(self._running.wait()))

    def _cancel_and_wait(self) -> None:
        self._running.cancel()
        with contextlib.suppress(JobCancelledError):
            self._running.wait()


def to_result(outcome: Any) -> JobExecutionResult:
    """The engine's outcome as users see it.

    Raises:
        JobCancelledError: the job was cancelled.
    """
    if outcome.cancelled:
        last = "no checkpoint" if outcome.last_checkpoint is None else f"checkpoint {outcome.last_checkpoint}"
        raise JobCancelledError(
            f"job {outcome.job_id} was cancelled before it finished; its last one is {last}"
        )
    return JobExecutionResult(outcome.job_id, outcome.net_runtime_ms)


def _absolute(directory: str | None) -> str | None:
    return None if directory is None else absolute_path(directory)


def _later(action: Callable[[], Any]) -> CompletableFuture:
    future: Future[Any] = Future()

    def run() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(action())
            except BaseException as error:  # handed to whoever waits
                future.set_exception(error)

    # A daemon: a script that ends does not wait for a future that nobody looks at.
    threading.Thread(target=run, name="job-client", daemon=True).start()
    return CompletableFuture(future)
