"""Requests to run a job with another parallelism: who wants it waits until the job goes on with it.

Threads: ``take`` runs in the threads of those who want it, all else in the coordinator's.

Invariants:
    * What cannot be is refused in the asker's thread, and the job hears nothing of it.
    * One request at a time; every request ends: with the job running on, or with the reason why it does not.
    * A request that failed the job's attempt is not tried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.errors import (
    MAKES_NO_CHECKPOINTS,
    ChangelogEngineError,
    ConfigurationError,
    JobExecutionError,
)
from changelog_engine.graph.plan import JobPlan
from changelog_engine.graph.rescaling import Parallelism, ParallelismChange, changes, in_words, rescaled

Prepare = Callable[[JobPlan, Callable[[], bool]], None]


@dataclass(frozen=True)
class Rescaled:
    """A job that goes on with another parallelism.

    Args:
        checkpoint: at which it changed; None when the job had this parallelism already, and nothing was done.
        changes: what changed, by stage.
        pause_ms: how long nothing was processed.
        why: of a change that the job made by itself; "" where somebody asked.
    """

    checkpoint: int | None
    changes: tuple[ParallelismChange, ...]
    pause_ms: float
    why: str = ""

    @property
    def at(self) -> str:
        """Such as "rescaled 2 -> 4 at checkpoint 17", and in brackets why."""
        if self.checkpoint is None:
            return "not rescaled: the job has this parallelism"
        why = f" ({self.why})" if self.why else ""
        return f"rescaled {in_words(self.changes)} at checkpoint {self.checkpoint}{why}"

    def __str__(self) -> str:
        paused = "" if self.checkpoint is None else f", paused for {self.pause_ms / 1000:.1f} s"
        return f"{self.at}{paused}"


@dataclass
class Request:
    """One request."""

    plan: JobPlan  # the job as it is to be
    changes: tuple[ParallelismChange, ...]
    why: str = ""  # see Rescaled
    answer: Future[Rescaled] = field(default_factory=Future)
    checkpoint: Checkpoint | None = None  # at which it changed; None before
    paused_ms: float = 0.0  # since when nothing is processed, on the monotonic clock


class RescaleRequests:
    """Requests for another parallelism of one job.

    Args:
        makes_checkpoints: whether there will be anything that state could be taken from.
        prepare: see ``EpochRunner.prepare``.
    """

    def __init__(self, plan: JobPlan, makes_checkpoints: bool, prepare: Prepare) -> None:
        self._plan = plan
        self._makes_checkpoints = makes_checkpoints
        self._prepare = prepare
        self._in_turn = threading.Lock()
        self._lock = threading.Lock()
        self._request: Request | None = None
        self._ended: str | None = None

    @property
    def plan(self) -> JobPlan:
        """The job with the parallelism that it has."""
        return self._plan

    @property
    def waiting(self) -> Request | None:
        """The request for which the next epoch shall hand over; None for none."""
        request = self._request
        return request if request is not None and request.checkpoint is None else None

    def take(self, wanted: Parallelism, why: str = "", of: JobPlan | None = None) -> Rescaled:
        """Have the job go on with another parallelism; returns when it does.

        Args:
            wanted: see ``graph.rescaling.rescaled``.
            why: for people; "", the default, where they know.
            of: the plan that it was decided for: when somebody else has changed it in the meantime, nothing is done. None,
                the default, for any.

        Raises:
            ConfigurationError: it cannot be, or the job makes no checkpoints.
            InvalidJobError: ``forward()`` would connect operators of different parallelism.
            JobExecutionError: the job ended before, or its attempt failed. A job that goes on after a failure has the
                parallelism that it had.
        """
        if not self._makes_checkpoints:
            raise ConfigurationError(f"a job is rescaled at a checkpoint, and {MAKES_NO_CHECKPOINTS}")
        with self._in_turn:
            self._refuse_when_ended()
            if of is not None and of is not self._plan:
                return Rescaled(None, (), 0.0)
            plan = rescaled(self._plan, wanted)
            made = changes(self._plan, plan)
            if not made:
                return Rescaled(None, (), 0.0)
            self._prepare(plan, lambda: self._ended is not None)
            request = Request(plan, made, why)
            with self._lock:
                self._refuse_when_ended()
                self._request = request
            return request.answer.result()

    def handed_over(self, request: Request, checkpoint: Checkpoint, paused_ms: float) -> None:
        """The attempt has ended at a checkpoint, and the next one begins with the request's plan."""
        self._plan = request.plan
        request.checkpoint, request.paused_ms = checkpoint, paused_ms

    def goes_on(self, idle_until_ms: float) -> Rescaled | None:
        """The first epoch of an attempt has ended; returns what there is to say of the request that it was for, if any.

        Args:
            idle_until_ms: when that epoch had its state and began to process, on the monotonic clock.
        """
        request = self._request
        if request is None or request.checkpoint is None:
            return None
        made = Rescaled(
            request.checkpoint.id, request.changes, max(0.0, idle_until_ms - request.paused_ms), request.why
        )
        self._answered(request)
        request.answer.set_result(made)
        return made

    def refuse(self, request: Request, failure: ChangelogEngineError) -> None:
        """The attempt failed that was to hand over for a request."""
        if request.checkpoint is None and self._answered(request):
            error = JobExecutionError(
                f"the job was not rescaled: its attempt failed before, and it keeps its parallelism: {failure}"
            )
            error.__cause__ = failure
            request.answer.set_exception(error)

    def end(self, failure: BaseException | None) -> None:
        """The job ended."""
        with self._lock:
            self._ended = "the job has ended" if failure is None else "the job failed"
            request, self._request = self._request, None
        if request is not None:
            why = self._ended if failure is None else f"{self._ended}: {failure}"
            request.answer.set_exception(JobExecutionError(f"the job was not rescaled: {why}"))

    def _answered(self, request: Request) -> bool:
        with self._lock:
            mine = self._request is request
            if mine:
                self._request = None
        return mine

    def _refuse_when_ended(self) -> None:
        if self._ended is not None:
            raise JobExecutionError(
                f"{self._ended}, so it cannot be rescaled: run it again with the parallelism that it is to have; its state "
                "is taken along"
            )
