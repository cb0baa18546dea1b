"""What a driver notes of its attempts for people: see ``ledger.attempt_notes``.

Invariant: a note that cannot be written is a warning, and neither fails the job nor hides why it failed.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import replace

from changelog_engine.clock import Clock
from changelog_engine.errors import (
    ChangelogEngineError,
    ForeignPathError,
    JobCancelledError,
    LostCommitError,
    StorageError,
    UserFunctionError,
)
from changelog_engine.graph.plan import JobPlan
from changelog_engine.graph.rescaling import ParallelismChange
from changelog_engine.ledger.attempt_notes import (
    RESCALED,
    AttemptFailure,
    AttemptNote,
    OperatorEdge,
    drop_old_note,
    write_note,
)
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.operators.failures import user_traceback

log = logging.getLogger("changelog_engine")

CHAIN = "chain"


class AttemptNotes:
    """Writes the notes of a run's attempts into the job's folder; None where nothing is durable."""

    def __init__(self, folder: JobFolder | None, plan: JobPlan, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._edges = () if folder is None else edges_of(plan)
        self._changes: tuple[ParallelismChange, ...] = ()

    def begin(self, attempt: int) -> None:
        """An attempt begins."""
        if self._folder is None:
            return
        try:
            write_note(self._folder.changelog, self._note(attempt))
            drop_old_note(self._folder.changelog, attempt)
        except StorageError as error:
            log.warning("attempt %d could not be noted for people to look at: %s", attempt, error)

    def _note(self, attempt: int) -> AttemptNote:
        return AttemptNote(attempt, self._edges, rescaled=self._changes)

    def ended(self, attempt: int, how: str) -> None:
        """An attempt has come to its end, perhaps without a checkpoint; ``how`` as in ``AttemptNote.ended``."""
        self._over(replace(self._note(attempt), ended=how))

    def rescaled(self, attempt: int, plan: JobPlan, changes: tuple[ParallelismChange, ...]) -> None:
        """An attempt has ended, and the next one has another parallelism."""
        self.ended(attempt, RESCALED)
        self._edges = () if self._folder is None else edges_of(plan)
        self._changes = changes

    def failed(self, attempt: int, error: BaseException) -> None:
        """An attempt has ended with an error."""
        # What lies there belongs to another job by now.
        if not isinstance(error, LostCommitError | ForeignPathError):
            self._over(replace(self._note(attempt), failure=failure_of(error, self._clock.wall_ms())))
            self._changes = ()

    def _over(self, note: AttemptNote) -> None:
        if self._folder is None:
            return
        try:
            write_note(self._folder.changelog, note)
        except StorageError as fault:
            log.warning("how attempt %d ended could not be noted: %s", note.attempt, fault)


def edges_of(plan: JobPlan) -> tuple[OperatorEdge, ...]:
    """How the operators of a job are connected, each way once."""
    found: dict[OperatorEdge, None] = {}
    for stage in plan.stages:
        for edge in stage.inputs:
            for node in edge.to_nodes:
                ends = plan.uids[edge.from_node], plan.uids[node]
                found[OperatorEdge(stage.uid, *ends, edge.partitioner.value)] = None
        for node, targets in stage.links.items():
            for target in targets:
                found[OperatorEdge(stage.uid, plan.uids[node], plan.uids[target], CHAIN)] = None
    return tuple(found)


def failure_of(error: BaseException, now_ms: int) -> AttemptFailure:
    """An error as it is kept."""
    cancelled = isinstance(error, JobCancelledError | KeyboardInterrupt)
    told = str(error) if isinstance(error, ChangelogEngineError) else ""  # others' may have passwords in it
    if not isinstance(error, UserFunctionError):
        return AttemptFailure(now_ms, type(error).__name__, told, _frames(error), cancelled)
    lines = error.traceback
    return AttemptFailure(
        now_ms,
        type(error).__name__,
        told if lines is None else told.removesuffix(lines).rstrip(),
        user_traceback(error) if lines is None else lines,
        cancelled,
        error.operator,
        error.call,
        error.key,
        error.element,
    )


def _frames(error: BaseException, left: int = 10) -> str:
    """The lines of code that an error and those behind it came through.

    Of the engine's errors the text is there too. What another library's error says is left out: the engine's errors hide
    passwords, and those of a database's driver may not.
    """
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = f"{_frames(behind, left - 1)}\nwhich led to:\n" if behind is not None and left else ""
    lines = "".join(traceback.format_tb(error.__traceback__))
    text = f": {error}" if isinstance(error, ChangelogEngineError) else ""
    return f"{before}{lines}{type(error).__name__}{text}"
