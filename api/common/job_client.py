"""JobClient: a handle of a running job."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from api.common.completable_future import CompletableFuture
from api.common.job_execution_result import JobExecutionResult
from api.common.job_id import JobID
from api.common.job_status import JobStatus
from changelog_engine.errors import JobCancelledError, NotSupportedError


class JobClient:
    """A handle of a job that runs in the background, from ``execute_async``.

    Source: pyflink.common.JobClient
    """

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

        Returns:
            A future that is done when the job has ended.
        """
        return _later(self._cancel_and_wait)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Savepoints are not part of this version.

        Args:
            advance_to_end_of_event_time: whether windows and timers were to fire.
            savepoint_directory: where it was to lie.

        Raises:
            NotSupportedError: always; the message says what to use instead.
        """
        raise NotSupportedError(
            "JobClient.stop_with_savepoint: savepoints are not part of this version. With checkpointing on, "
            "cancel() stops after a checkpoint, and the next run goes on from it, or from any checkpoint with "
            "changelog.restore=<id>"
        )

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Savepoints are not part of this version.

        Args:
            savepoint_directory: where it was to lie.

        Raises:
            NotSupportedError: always; the message says what to use instead.
        """
        raise NotSupportedError(
            "JobClient.trigger_savepoint: savepoints are not part of this version. Every checkpoint of a job with "
            "the changelog on can be restored: start the job with changelog.restore=<id>"
        )

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
