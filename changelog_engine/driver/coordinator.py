"""The driver's loop round attempts: run, fail, restart, until the job has ended.

Invariant: a new attempt starts from the newest checkpoint that the log has of the attempt before, whatever the driver was
told of its commit.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.driver.attempt import AttemptRun
from changelog_engine.driver.attempt_notes import AttemptNotes
from changelog_engine.driver.control import JobControl
from changelog_engine.driver.job import AttemptStart, Job
from changelog_engine.driver.mistakes import Repetitions, ended_from_outside, is_final, is_mistake
from changelog_engine.driver.protocols import JobOutcome
from changelog_engine.driver.rescaling import Request
from changelog_engine.driver.restart import Restarts, strategy_of
from changelog_engine.errors import (
    ChangelogEngineError,
    FencedError,
    JobExecutionError,
    RestoreError,
    SparkEndedError,
    StateLostError,
    StorageError,
    UserFunctionError,
)
from changelog_engine.ledger.attempt_notes import FINISHED, STOPPED
from changelog_engine.operators.failures import forget_our_frames
from changelog_engine.operators.forked import ends_in_forked_children

log = logging.getLogger("changelog_engine")


class Coordinator:
    """Runs one job to its end.

    Attributes:
        status: CREATED, RUNNING, RESTARTING, FINISHED, FAILED or CANCELED.
        last: the newest checkpoint, as far as attempts that have ended know.
    """

    def __init__(self, job: Job) -> None:
        folder = None if job.journal is None else job.journal.folder
        self.control = JobControl(folder, job.plan, job.runner.prepare)
        self.status = "CREATED"
        self.last: Checkpoint | None = None
        self.restarts = Restarts(strategy_of(job.settings))
        self._job = job
        self._notes = AttemptNotes(folder, job.plan, job.clock)
        self._repetitions = Repetitions(job.settings.same_failure_limit)
        self._prepared_before: Checkpoint | None = None  # of a run that ended, where this one starts empty
        self._lost_state = False  # workers no longer held what was newer than the last checkpoint

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
            self.control.savepoints.end(self.last, failure)
            self.control.rescales.end(failure)

    def _run(self, start: Checkpoint | None) -> JobOutcome:
        job, control = self._job, self.control
        began_ms = job.clock.monotonic_ms()
        self.last = start
        if start is None and job.journal is not None and job.sinks.any:
            self._prepared_before = job.journal.finished_before()
        attempt: AttemptRun | None = None
        before: AttemptRun | None = None  # the newest that began
        ran_out = True
        while True:
            before, attempt = attempt or before, None
            try:
                self._become("RUNNING")
                attempt = AttemptRun(self._job, control, self._start())
                self._run_attempt(attempt)
                if attempt.rescale is None:
                    break
                self._rescale(attempt, attempt.rescale)
            except ChangelogEngineError as failure:
                self._find_last(attempt or before)
                if attempt is not None and self._was_stopped_with_spark(failure, attempt):
                    ran_out = False
                    break
                self._after_failure(failure, attempt)
        stopped = control.stopping and not (ran_out and attempt.input_ended)
        self._notes.ended(attempt.id, STOPPED if stopped else FINISHED)
        self._become("CANCELED" if stopped and not control.keeps_result else "FINISHED")
        return JobOutcome(
            job_id=job.id,
            net_runtime_ms=max(1, int(job.clock.monotonic_ms() - began_ms)),  # programs divide by it
            cancelled=self.status == "CANCELED",
            last_checkpoint=None if self.last is None else self.last.id,
            restarts=self.restarts.count,
        )

    def _rescale(self, attempt: AttemptRun, request: Request) -> None:
        """The attempt has handed over at its last checkpoint: the next one has the request's plan.

        What fails here leaves the job as it was, so that it restarts with the parallelism it had.
        """
        assert attempt.last is not None
        self._job.monitor.status("RESCALING")
        self._job.runner.rescale(request.plan)
        self._job = replace(self._job, plan=request.plan)
        self._notes.rescaled(attempt.id, request.plan, request.changes)
        self.control.rescales.handed_over(request, attempt.last, attempt.paused_ms)

    def _become(self, status: str, **facts: Any) -> None:
        self.status = status
        self._job.monitor.status(status, **facts)

    def _start(self) -> AttemptStart:
        prepared = self._prepared_before if self.last is None else self.last
        return AttemptStart(self.last, prepared, self.restarts.count, self._lost_state)

    def _run_attempt(self, attempt: AttemptRun) -> None:
        self._notes.begin(attempt.id)
        try:
            attempt.run()
        except (Exception, KeyboardInterrupt) as failure:
            self._notes.failed(attempt.id, failure)
            raise
        finally:
            self.last = attempt.last

    def _find_last(self, attempt: AttemptRun | None) -> None:
        """A commit that seemed to fail may have succeeded: the log decides where to go on, and which output is final."""
        if self._job.journal is not None and attempt is not None:
            try:
                newest = self._job.journal.newest_of_attempt(attempt.id)
            except ChangelogEngineError:
                return
            if newest is not None and (self.last is None or newest.id > self.last.id):
                self.last = newest
                attempt.hand_out_covered_by(newest)

    def _after_failure(self, failure: ChangelogEngineError, attempt: AttemptRun | None) -> None:
        if attempt is not None and attempt.rescale is not None:
            self.control.rescales.refuse(attempt.rescale, failure)
        self._lost_state = self._lost_state or isinstance(failure, StateLostError)
        failure = self._explained(failure)
        once_too_often = self._repetitions.reached(failure, self.last)
        delay_ms = None if is_final(failure) else self.restarts.after_failure(self._job.clock.monotonic_ms())
        if delay_ms is None or once_too_often or self.control.stopping:
            self._become("FAILED")
            if isinstance(failure, UserFunctionError) and failure.traceback:
                forget_our_frames(failure)
            raise self._given_up(failure, once_too_often) from failure
        self._job.monitor.failure = str(failure).partition("\n")[0]
        self._become("RESTARTING", restarts=self.restarts.count)
        log.warning(
            "job %r failed and restarts from %s in %.1f s (restart %d): %s",
            self._job.name,
            "the start" if self.last is None else f"checkpoint {self.last.id}",
            delay_ms / 1000,
            self.restarts.count,
            self._told(failure),
        )
        self.control.wait(delay_ms)

    def _explained(self, failure: ChangelogEngineError) -> ChangelogEngineError:
        """Files that are missing may be swept ones: by a driver that took the job over, which is what there is to say."""
        if isinstance(failure, StorageError | RestoreError) and self._job.journal is not None:
            try:
                self._job.journal.check_owner()
            except FencedError as fenced:
                fenced.__cause__ = failure
                return fenced
            except ChangelogEngineError:
                pass
        return failure

    def _was_stopped_with_spark(self, failure: ChangelogEngineError, attempt: AttemptRun) -> bool:
        """Whether the job was to stop and Spark ended first, as where a signal goes to all processes: nothing failed.

        Behind its last checkpoint something did: it was about to commit what its sinks had prepared.
        """
        if not self.control.stopping or self.control.keeps_result or not ended_from_outside(failure):
            return False
        if self.last is not None and self.last.attempt == attempt.id and self.last.ends:
            return False
        log.warning(
            "job %r stops without another checkpoint: Spark's processes ended first, as where SIGTERM goes to all of them "
            "(docs/operations.md says how it goes to the driver alone). What was read since is read again",
            self._job.name,
        )
        return True

    def _kept(self) -> str:
        """What is safe although Spark is gone."""
        if self._job.journal is None:
            return "The job makes no checkpoints, so nothing is kept: run it again in a new process, it begins anew"
        if self.last is None:
            return "There was no checkpoint yet: run the job again in a new process, it begins anew"
        safe = f"The state is safe up to checkpoint {self.last.id}"
        return f"{safe}: run the job again in a new process, it goes on from there"

    def _told(self, failure: ChangelogEngineError) -> str:
        """A failure in the log; of a mistake that comes again, the first line."""
        seen = self._repetitions.seen
        if not is_mistake(failure) or seen < 2:
            return str(failure)
        return (
            f"{str(failure).partition(chr(10))[0]} (the same mistake {seen} times, no checkpoint in between)"
        )

    def _given_up(self, failure: ChangelogEngineError, once_too_often: bool) -> JobExecutionError:
        text = f"job {self._job.name!r} failed: {failure}"
        if isinstance(failure, SparkEndedError):
            text += f". {self._kept()}"
        if self.last is not None and self.last.finished:
            text += (
                f". All of its input is in checkpoint {self.last.id}: by default the next run only completes this one, and "
                "commits what its sinks have prepared"
            )
        if not once_too_often:
            return JobExecutionError(text)
        seen = self._repetitions.seen
        given_up = JobExecutionError(
            f"{text}\nseen {seen} times, no checkpoint in between: the job is not restarted again. Mend what it tells of "
            "and run it again, or let it be tried more often: changelog.restart.same-failure-limit, 0 for always"
        )
        given_up.seen = seen
        return given_up
