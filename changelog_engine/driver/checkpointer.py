"""Takes the checkpoints of one attempt: what the subtasks made durable becomes one row and one commit.

Invariants:
    * ``last`` is acknowledged: its commit has returned, or the attempt began with it.
    * Parts are committed once, with the next checkpoint that succeeds; those of an attempt that failed never.
    * A checkpoint with nothing new in it is not made.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from changelog_engine.changelog.model import Checkpoint, Part, RestorePoint, Segment
from changelog_engine.changelog.segments import extend
from changelog_engine.changelog.small_state import KeptBroadcast, SmallState, StageState
from changelog_engine.changelog.split_ends import ends_of, with_ends
from changelog_engine.clock import MonotonicMs, WallMs
from changelog_engine.driver.compatibility import perhaps_renamed
from changelog_engine.driver.declared_states import DeclaredStates
from changelog_engine.driver.epoch import Epoch
from changelog_engine.driver.held_output import HeldOutput
from changelog_engine.driver.job import Job
from changelog_engine.driver.journal import JobJournal
from changelog_engine.driver.mistakes import FATAL
from changelog_engine.driver.source_progress import SourceProgress
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.ledger.ownership import CommittedAfterAllError
from changelog_engine.operators.messages import EpochReport

log = logging.getLogger("changelog_engine")


class Acknowledged(NamedTuple):
    """A checkpoint that was just committed."""

    checkpoint: Checkpoint
    age_ms: float  # from its barrier to the end of the commit
    at_ms: MonotonicMs

    @property
    def barrier_ms(self) -> MonotonicMs:
        """When its barrier was."""
        return MonotonicMs(self.at_ms - self.age_ms)


class Checkpointer:
    """Begins an attempt in the log, and takes its checkpoints.

    Args:
        journal: its durable side.
        start: the checkpoint that the attempt goes on from; None for empty state.
        output: collected output, which is told what each checkpoint covers.

    Attributes:
        last: the newest checkpoint that is acknowledged; None before the first.
        committed_epoch: the newest epoch whose effects are in it, or that had none; 0 for where the attempt began.
        point: where the state at ``last`` is found.
        changed: whether there is anything that ``last`` does not have.

    Raises:
        FencedError: another driver took the job over.
    """

    def __init__(
        self,
        job: Job,
        journal: JobJournal,
        start: Checkpoint | None,
        progress: SourceProgress,
        output: HeldOutput,
    ) -> None:
        self._job = job
        self._journal = journal
        self._progress = progress
        self._output = output
        self.attempt = journal.begin_attempt(start)
        self.last = start
        self.committed_epoch = 0
        self.point = journal.restore_point(start)
        self.changed = False
        self._parts: list[Part] = []  # that no checkpoint has yet
        self._states = DeclaredStates(job.plan, start)
        self._start = start  # until its states were compared with those that the program declares
        self._restored_ms: float | None = None
        self._acknowledged_ms: float | None = None  # of this attempt's newest checkpoint
        self._failed = 0  # in a row

    @property
    def next_id(self) -> int:
        """The id that the next checkpoint will have."""
        return self._journal.next_id()

    def take(self, report: EpochReport, ended: bool) -> None:
        """Take what a subtask reports: parts, states, and whether anything changed.

        Args:
            ended: the sources came to their end with it.
        """
        read = bool(report.sources) and report.records_in > 0
        # Output is handed out once, so never to be repeated.
        if read or report.mutations or report.parts or report.moved or ended or report.driver_output:
            self.changed = True
        self._parts.extend(report.parts)
        self._states.take(report, self.next_id, first=self.last is None)
        if report.restored_ms is not None:
            self._restored_ms = max(self._restored_ms or 0.0, report.restored_ms)

    def checkpoint(self, epoch: Epoch, reports: list[EpochReport]) -> Acknowledged | None:
        """Commit a checkpoint of the epoch that has just ended with a barrier.

        Returns:
            None when nothing had changed, and when the commit failed and the job tolerates that.

        Raises:
            ChangelogEngineError: the commit failed for good, or too often in a row.
        """
        ends = epoch.kind.ends
        if not self.changed and not ends and self.last is not None:
            self.committed_epoch = epoch.number
            return None
        if self._start is not None:
            self._compare_states(self._start, reports)
            self._start = None
        barrier_ms = WallMs(int(max(report.barrier_ms for report in reports)))
        checkpoint = self._row(epoch, reports, barrier_ms)
        began_ms = self._job.clock.monotonic_ms()
        self._output.trying(checkpoint)
        try:
            self._journal.commit(checkpoint, self._parts)
        except (*FATAL, CommittedAfterAllError):
            raise
        except ChangelogEngineError as failure:
            self._failed += 1
            if self._failed > self._job.settings.tolerable_failures or ends or epoch.kind.hands_over:
                raise
            log.warning("checkpoint %d failed and is left out: %s", checkpoint.id, failure)
            self._job.monitor.failed_checkpoint()
            if not self._job.settings.changelog:
                self._parts = []  # the next snapshot is a full one again
            return None
        age_ms = self._age_ms(epoch, barrier_ms)
        now_ms = self._job.clock.monotonic_ms()
        log.debug("checkpoint %d: commit took %.1f ms", checkpoint.id, now_ms - began_ms)
        self._take_over(epoch, checkpoint)
        self._acknowledged_ms = age_ms
        self._job.monitor.checkpointed(checkpoint, age_ms, now_ms - began_ms)
        return Acknowledged(checkpoint, age_ms, now_ms)

    def _compare_states(self, start: Checkpoint, reports: list[EpochReport]) -> None:
        declared: dict[str, set[str]] = {}
        for report in reports:
            for uid, states in report.states.items():
                declared.setdefault(uid, set()).update([state.name for state in states])
        for words in perhaps_renamed(start, declared):
            log.warning("job %r: %s", self._job.plan.graph.name, words)

    def _take_over(self, epoch: Epoch, checkpoint: Checkpoint) -> None:
        self._failed = 0
        self._parts = []
        self.changed = False
        self._progress.settled()
        self.committed_epoch = epoch.number
        self.last = checkpoint
        snapshot = self.point.snapshot if self._job.settings.changelog else checkpoint.id
        self.point = RestorePoint(self.point.table, checkpoint.id, checkpoint.lineage, snapshot)

    def _row(self, epoch: Epoch, reports: list[EpochReport], barrier_ms: WallMs) -> Checkpoint:
        identity, last = self._journal.next_id(), self.last
        finished = self._progress.finished
        stopped = epoch.kind.ends and not finished
        lineage: tuple[Segment, ...] = () if last is None else last.lineage
        before = None if last is None else last.snapshot
        time_ms = barrier_ms if last is None else max(barrier_ms, last.time_ms)
        return Checkpoint(
            id=identity,
            attempt=self.attempt,
            parent=None if last is None else last.id,
            lineage=extend(lineage, self.attempt, identity),
            time_ms=time_ms,
            clock_ms=None if barrier_ms == time_ms else barrier_ms,
            duration_ms=int(self._age_ms(epoch, barrier_ms)),
            parent_acknowledged_ms=self._acknowledged_ms,
            restored_ms=self._restored_ms,
            rows=sum(part.rows for part in self._parts),
            bytes=sum(part.size for part in self._parts),
            parts=len(self._parts),
            snapshot=before if self._job.settings.changelog else identity,
            sources=self._progress.reached(),
            operator_state=self._operator_state(reports, with_inputs=not (stopped and epoch.drains)),
            operators=self._states.operators(),
            finished=finished,
            stopped=stopped,
            figures=self._job.monitor.row(),
        )

    def _operator_state(self, reports: list[EpochReport], with_inputs: bool) -> dict[str, StageState]:
        """The subtasks' small state by stage and subtask, and what all subtasks of a stage have alike."""
        subtasks: dict[str, dict[int, SmallState]] = {}
        shared: dict[str, Mapping[str, KeptBroadcast]] = {}
        for report in reports:
            uid = self._job.plan.stages[report.stage].uid
            state = self._with_new_ends(report.operator_state)
            if state:  # a job that goes on without times of inputs starts event time anew
                subtasks.setdefault(uid, {})[report.subtask] = (
                    state if with_inputs else replace(state, inputs=None)
                )
            if report.shared_state:
                shared[uid] = report.shared_state
        return {uid: StageState(subtasks.get(uid, {}), shared.get(uid, {})) for uid in {**subtasks, **shared}}

    def _with_new_ends(self, state: SmallState) -> SmallState:
        """Of where a subtask's epochs ended, keep those that the checkpoint before does not have, numbered from 1.

        A subtask that was told to begin the epoch while the one before ran did not know of that one's checkpoint.
        """
        operators = dict(state.operators)
        for uid in self._progress.positions:
            if uid in operators:
                kept = operators.pop(uid)
                ends = [(number - self.committed_epoch, moved) for number, moved in ends_of(kept)]
                if new := with_ends(kept, [end for end in ends if end[0] > 0]):
                    operators[uid] = new
        return replace(state, operators=operators)

    def _age_ms(self, epoch: Epoch, barrier_ms: WallMs) -> float:
        """How long ago a barrier of an epoch was.

        Workers tell when it was by the wall clock, which may be another machine's, or may have been set since: so it was
        neither before the epoch began nor after now.
        """
        longest_ms = self._job.clock.monotonic_ms() - epoch.began_ms
        return min(max(0.0, float(self._job.clock.wall_ms() - barrier_ms)), longest_ms)
