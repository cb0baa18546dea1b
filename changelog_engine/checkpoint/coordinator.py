"""The driver's loop round attempts: run, fail, restart, until the job has ended.

Invariant: a new attempt starts from the newest checkpoint that the log has of the attempt before, whatever the driver was
told of its commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.checkpoint.attempt import AttemptRun
from changelog_engine.checkpoint.contracts import EpochRunner, EpochStats, JobOutcome, Journal, Outputs
from changelog_engine.checkpoint.mistakes import Repetitions, is_final, is_mistake
from changelog_engine.checkpoint.restart import Restarts, strategy_of
from changelog_engine.checkpoint.savepoint_requests import SavepointRequests
from changelog_engine.checkpoint.sinks import CommittingSinks
from changelog_engine.clock import Clock, SystemClock
from changelog_engine.connectors.protocols import CommittingSink
from changelog_engine.errors import (
    ChangelogEngineError,
    JobExecutionError,
    SparkEndedError,
    StateLostError,
)
from changelog_engine.graph.nodes import JobSettings, Node, NodeKind, is_empty_hook
from changelog_engine.graph.plan import JobPlan
from changelog_engine.operators.forked import ends_in_forked_children

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
        clock: where time comes from.
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
        clock: Clock | None = None,
    ) -> None:
        self.job_id = job_id
        self.plan = plan
        self.settings = settings
        self.runner = runner
        self.journal = journal
        self.outputs = outputs
        self.observer = observer
        self.clock = SystemClock() if clock is None else clock
        self.restarts = Restarts(strategy_of(settings))
        self.repetitions = Repetitions(settings.same_failure_limit)
        self.last: Checkpoint | None = None
        self.sinks = CommittingSinks(plan)
        self.prepared_before: Checkpoint | None = None  # of a run that ended, where this one starts empty
        self.status = "CREATED"
        self.stopping = threading.Event()
        self._failed_beside: ChangelogEngineError | None = None
        self.draining = False  # the end of the input is played before the last checkpoint
        self.keeps_result = False  # stopped as asked for, with a savepoint: not a cancellation
        self.savepoints = SavepointRequests(None if journal is None else journal.folder)
        self.lost_state = False  # workers no longer held what was newer than the last checkpoint
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
            with ends_in_forked_children():  # sources and sinks have functions that run here
                return self._run(start)
        except BaseException as error:
            failure = error
            raise
        finally:
            self.savepoints.end(self.last, failure)

    def _run(self, start: Checkpoint | None) -> JobOutcome:
        began_ms = self.clock.monotonic_ms()
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
            int(self.clock.monotonic_ms() - began_ms),
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
        self._find_last(attempt)
        self.lost_state = self.lost_state or isinstance(failure, StateLostError)
        once_too_often = self.repetitions.reached(failure, self.last)
        delay_ms = None if is_final(failure) else self.restarts.after_failure(self.clock.monotonic_ms())
        if delay_ms is None or once_too_often or self.stopping.is_set():
            self.status = "FAILED"
            raise self._given_up(failure, once_too_often) from failure
        self.status = "RESTARTING"
        log.warning(
            "job %r failed and restarts from %s in %.1f s (restart %d): %s",
            self.plan.graph.name,
            "the start" if self.last is None else f"checkpoint {self.last.id}",
            delay_ms / 1000,
            self.restarts.count,
            self._told(failure),
        )
        self.stopping.wait(delay_ms / 1000)

    def _kept(self) -> str:
        """What is safe although Spark is gone."""
        if self.journal is None:
            return "The job makes no checkpoints, so nothing is kept: run it again in a new process, it begins anew"
        if self.last is None:
            return "There was no checkpoint yet: run the job again in a new process, it begins anew"
        safe = f"The state is safe up to checkpoint {self.last.id}"
        return f"{safe}: run the job again in a new process, it goes on from there"

    def _told(self, failure: ChangelogEngineError) -> str:
        """A failure in the log; of a mistake that comes again, the first line."""
        seen = self.repetitions.seen
        if not is_mistake(failure) or seen < 2:
            return str(failure)
        return (
            f"{str(failure).partition(chr(10))[0]} (the same mistake {seen} times, no checkpoint in between)"
        )

    def _given_up(self, failure: ChangelogEngineError, once_too_often: bool) -> JobExecutionError:
        text = f"job {self.plan.graph.name!r} failed: {failure}"
        if isinstance(failure, SparkEndedError):
            text += f". {self._kept()}"
        if not once_too_often:
            return JobExecutionError(text)
        seen = self.repetitions.seen
        given_up = JobExecutionError(
            f"{text}\nseen {seen} times, no checkpoint in between: the job is not restarted again. Mend the program and "
            "run it again, or let it be tried more often: changelog.restart.same-failure-limit, 0 for always"
        )
        given_up.seen = seen
        return given_up


def _has_close(plan: JobPlan) -> bool:
    """Whether any function has a close() of its own, so that the job's end must reach the workers."""
    for node in plan.graph.nodes:
        if node.kind is NodeKind.ASYNC:  # its event loop is closed
            return True
        if node.kind is NodeKind.SINK and (
            hasattr(node.function, "writer") or isinstance(node.function, CommittingSink)
        ):
            return True
        if node.kind is not NodeKind.SOURCE and any(_closes(function) for function in _functions(node)):
            return True
    return False


def _functions(node: Node) -> list[Any]:
    """The user's functions in a node."""
    if node.kind is NodeKind.BROADCAST_PROCESS:
        return [node.function.function]
    if node.kind is NodeKind.WINDOW:
        return [node.function.function, node.function.contents.function]
    return [node.function]


def _closes(function: Any) -> bool:
    close = getattr(type(function), "close", None)
    return close is not None and not is_empty_hook(close)
