"""The driver's loop round attempts: run, fail, restart, until the job has ended.

Invariant: a new attempt starts from the newest checkpoint that the log has of the attempt before, whatever the driver was
told of its commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.checkpoint.attempt import AttemptRun
from changelog_engine.checkpoint.contracts import EpochRunner, EpochStats, JobOutcome, Journal, Outputs
from changelog_engine.checkpoint.restart import FATAL, Restarts, strategy_of
from changelog_engine.checkpoint.savepoint_requests import SavepointRequests
from changelog_engine.checkpoint.sinks import CommittingSinks
from changelog_engine.connectors.protocols import CommittingSink
from changelog_engine.errors import ChangelogEngineError, JobExecutionError
from changelog_engine.graph.nodes import JobSettings, NodeKind
from changelog_engine.graph.plan import JobPlan

log = logging.getLogger("changelog_engine")


class Coordinator:
    """Runs one job to its end.

    Args:
        job_id: unique id of this run.
        plan: the job.
        settings: how it runs.
        runner: runs epochs.
        journal: the durable side; None when checkpointing is off.
        outputs: where output goes.
        observer: called after each epoch with its figures.
        clock: wall clock in ms.
    """

    def __init__(
        self,
        job_id: str,
        plan: JobPlan,
        settings: JobSettings,
        runner: EpochRunner,
        journal: Journal | None,
        outputs: Outputs,
        observer: Callable[[EpochStats], None] | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.job_id = job_id
        self.plan = plan
        self.settings = settings
        self.runner = runner
        self.journal = journal
        self.outputs = outputs
        self.observer = observer
        self.clock = clock
        self.restarts = Restarts(strategy_of(settings))
        self.last: Checkpoint | None = None
        self.sinks = CommittingSinks(plan)
        self.prepared_before: Checkpoint | None = None  # of a run that ended, where this one starts empty
        self.status = "CREATED"
        self.stopping = threading.Event()
        self._failed_beside: ChangelogEngineError | None = None
        self.draining = False  # the end of the input is played before the last checkpoint
        self.keeps_result = False  # stopped as asked for, with a savepoint: not a cancellation
        self.savepoints = SavepointRequests(None if journal is None else journal.folder)
        self.closes = _has_close(plan) or settings.state_backend != "hashmap"  # local files to remove

    def stop(self) -> None:
        """Ask the job to stop after a checkpoint; safe from any thread and from signal handlers."""
        self.stopping.set()

    def stop_for_savepoint(self, drain: bool) -> None:
        """Stop after a checkpoint that a savepoint is made of.

        Args:
            drain: let event time end first, so that all its timers and windows fire.
        """
        self.draining, self.keeps_result = drain, True
        self.stop()

    def fail(self, failure: ChangelogEngineError) -> None:
        """Fail the attempt at its next epoch: something beside the job failed for good. Safe from any thread."""
        self._failed_beside = failure

    def check(self) -> None:
        """Raise what ``fail`` was given, once.

        Raises:
            ChangelogEngineError: that.
        """
        failure, self._failed_beside = self._failed_beside, None
        if failure is not None:
            raise failure

    def run(self, start: Checkpoint | None) -> JobOutcome:
        """Run until the input ends or the job is stopped.

        Args:
            start: the checkpoint to go on from; None starts empty.

        Raises:
            JobExecutionError: it failed and the restart strategy gave up.
        """
        failure: BaseException | None = None
        try:
            return self._run(start)
        except BaseException as error:
            failure = error
            raise
        finally:
            self.savepoints.end(self.last, failure)

    def _run(self, start: Checkpoint | None) -> JobOutcome:
        began = time.monotonic()
        self.last = start
        if start is None and self.journal is not None and self.sinks.any:
            self.prepared_before = self.journal.finished_before()
        while True:
            attempt: AttemptRun | None = None
            try:
                self.status = "RUNNING"
                attempt = AttemptRun(self)
                attempt.run()
                break
            except ChangelogEngineError as failure:
                self._after_failure(failure, attempt)
        stopped = self.stopping.is_set() and not attempt.progress.finished
        self.status = "CANCELED" if stopped and not self.keeps_result else "FINISHED"
        return JobOutcome(
            self.job_id,
            int((time.monotonic() - began) * 1000),
            self.status == "CANCELED",
            None if self.last is None else self.last.id,
            self.restarts.count,
        )

    def _find_last(self, attempt: AttemptRun | None) -> None:
        """A commit that seemed to fail may have succeeded: the log decides where to go on, and which output is final."""
        if self.journal is not None and attempt is not None:
            try:
                newest = self.journal.newest_of_attempt(attempt.id)
            except ChangelogEngineError:
                return
            if newest is not None and (self.last is None or newest.id > self.last.id):
                self.last = newest
                attempt.hand_out_covered_by(newest)

    def _after_failure(self, failure: ChangelogEngineError, attempt: AttemptRun | None) -> None:
        name = self.plan.graph.name
        self._find_last(attempt)
        delay_ms = (
            None if isinstance(failure, FATAL) else self.restarts.after_failure(time.monotonic() * 1000)
        )
        if delay_ms is None or self.stopping.is_set():
            self.status = "FAILED"
            raise JobExecutionError(f"job {name!r} failed: {failure}") from failure
        self.status = "RESTARTING"
        back_to = "the start" if self.last is None else f"checkpoint {self.last.id}"
        log.warning(
            "job %r failed and restarts from %s in %.1f s (restart %d): %s",
            name,
            back_to,
            delay_ms / 1000,
            self.restarts.count,
            failure,
        )
        self.stopping.wait(delay_ms / 1000)


def _has_close(plan: JobPlan) -> bool:
    """Whether any function has a close() of its own, so that the job's end must reach the workers."""
    for node in plan.graph.nodes:
        close = getattr(type(node.function), "close", None)
        if node.kind is NodeKind.SINK and (
            hasattr(node.function, "writer") or isinstance(node.function, CommittingSink)
        ):
            return True
        own = close is not None and getattr(close, "__qualname__", "") != "Function.close"
        if own and node.kind is not NodeKind.SOURCE:
            return True
    return False
