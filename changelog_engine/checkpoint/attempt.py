"""One attempt of a job: epoch after epoch from a checkpoint (or nothing), until the end or a failure.

The steps of an epoch with a checkpoint, as crash tests name them:
    1. Orders go out; subtasks read, process and log.
    2. Parts are durable; reports come in. Nothing refers to the parts yet.
    3. One commit makes parts, positions and watermarks durable. This is the acknowledgement.
    4. Collected output is handed out. Committing sinks commit: those that do it with one commit for all here, the others at
       the beginning of the next epoch.
A crash before 3 repeats the epoch from the last checkpoint; after 3 the job goes on from the new one.

Invariants:
    * State, positions and output never run ahead of each other: all go back to the same checkpoint.
    * Parts reported by an attempt that failed are never committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from changelog_engine.changelog.model import Checkpoint, Part, RestorePoint, Segment
from changelog_engine.checkpoint.compatibility import describe_operators, learn
from changelog_engine.checkpoint.contracts import EpochStats
from changelog_engine.checkpoint.mistakes import FATAL
from changelog_engine.checkpoint.pacing import (
    FIRST_RECORDS,
    FIRST_RECORDS_IN_MEMORY,
    BarrierClock,
    EpochSizer,
)
from changelog_engine.checkpoint.progress import SourceProgress
from changelog_engine.checkpoint.restore_notice import RestoreNotice
from changelog_engine.clock import MonotonicMs, WallMs
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.graph.plan import JobPlan
from changelog_engine.ledger.lineage import extend
from changelog_engine.operators.messages import EpochOrder, EpochReport

if TYPE_CHECKING:
    from changelog_engine.checkpoint.coordinator import Coordinator

log = logging.getLogger("changelog_engine")

_IDLE_MS = (20, 1_000)
_SOURCE_BUDGET_MS = 1_000
_ONE_BY_ONE = 32  # so many records, in thread mode
_SHARED = "shared"  # where a stage keeps what all of its subtasks have alike
# An epoch that took so long may be followed by one in which a worker is idle for Spark's minute.
_NEAR_A_MINUTE_MS = 30_000
_LEAST_TARGET_MS = 200  # an epoch costs about 100 ms, however small it is


class AttemptRun:
    """One attempt: from a checkpoint (or nothing) until the end or a failure."""

    def __init__(self, job: Coordinator) -> None:
        self.job = job
        self.plan = job.plan
        self.settings = job.settings
        self.progress = SourceProgress(job.plan, {} if job.last is None else job.last.sources)
        journal = job.journal
        self.id = job.restarts.count + 1 if journal is None else journal.begin_attempt(job.last)
        self.point = None if journal is None else journal.restore_point(job.last)
        self.folder, self.branches = "", frozenset[int]()  # see SinkContext
        if journal is not None and job.sinks.any:
            self.folder, self.branches = journal.identity, journal.branches(job.last)
        self.epoch = 0
        self.committed_epoch = 0
        self.pending: list[Part] = []
        self.held: list[tuple[int, list[Any]]] = []
        self.tried: list[
            tuple[Checkpoint, int]
        ] = []  # since the last one: checkpoints, and how much of held each covers
        self.acknowledged_ms: float | None = None  # of this attempt's newest checkpoint
        self.states: dict[str, dict[str, dict[str, Any]]] = {}  # uid -> state's name -> its description
        for operator in () if job.last is None else job.last.operators:
            self._learn(operator["uid"], operator.get("states"))
        self.restored_ms: float | None = None
        self.dirty = False
        self.idle_ms = 0
        self.failed_checkpoints = 0
        interval = self.settings.checkpoint_interval_ms
        target_ms = self.settings.epoch_target_ms or max(_LEAST_TARGET_MS, min(interval or 1_000, 1_000))
        self.sizer = EpochSizer(target_ms / 1000, self._first_records(), self.settings.epoch_max_records)
        self.budget_ms = min(target_ms, _SOURCE_BUDGET_MS)
        self.barriers = BarrierClock(interval, self.settings.min_pause_ms, job.clock.monotonic_ms())
        self.epoch_began_ms = job.clock.monotonic_ms()
        self.last_epoch_ms = 0.0
        self.read_records = 0
        kinds = [node.kind for node in self.plan.graph.nodes]
        # Several sources would wait for each other's slow records, and an async function takes many at a time.
        self._slow_start = (
            self.settings.thread_mode and kinds.count(NodeKind.SOURCE) == 1 and NodeKind.ASYNC not in kinds
        )
        self.next_timer_ms: int | None = None
        self.confirming = journal is not None and (job.sinks.any or _acknowledges(job.plan))
        self.sinks_wait = False  # something is prepared that the next epoch commits
        prepared = self._prepared()
        if prepared is not None:
            job.sinks.commit_all(prepared, job.job_id, self.id)

    def run(self) -> None:
        """Epochs until there is nothing left to do."""
        while True:
            self.job.check()
            stopping = self.job.stopping.is_set()
            ending = self.progress.finished and self.epoch > 0
            if ending and not self._needs_last_epoch():
                return
            last = ending or stopping
            barrier = self.job.journal is not None and (
                last
                or self._careful
                or self.job.savepoints.waiting
                or self.barriers.due(self.job.clock.monotonic_ms(), self.last_epoch_ms)
            )
            if not last and self.progress.discover(self.job.clock.monotonic_ms()):
                self.dirty = True
            reads = not last
            if self.progress.unsettled and self.job.journal is not None:
                barrier, reads = True, False
            records = self._epoch(barrier, reads=reads, ends=last)
            if last:
                if self.confirming:
                    self._confirm()
                return
            if not self.progress.finished and not self.sinks_wait:
                self._rest(records)

    @property
    def _careful(self) -> bool:
        """Whether the next epoch must not be lost, as one before it was.

        Spark ends a Python worker that was idle for a minute. Where others restore for longer, as on a busy machine, those
        that wait lose what they hold; with a checkpoint at its end that is nothing, and the job comes forward. Without, each
        attempt would end as the one before.
        """
        return self.job.lost_state and (self.epoch == 0 or self.last_epoch_ms > _NEAR_A_MINUTE_MS)

    def _first_records(self) -> int:
        nodes = self.plan.graph.nodes
        sources = [node.function for node in nodes if node.kind is NodeKind.SOURCE]
        in_memory = all(getattr(source, "in_memory", False) for source in sources)
        return FIRST_RECORDS_IN_MEMORY if in_memory else FIRST_RECORDS

    def _needs_last_epoch(self) -> bool:
        """Whether the end still has to be checkpointed, or functions to be closed."""
        uncommitted = self.job.journal is not None and (
            self.committed_epoch < self.epoch or self.job.last is None
        )
        return uncommitted or self.job.closes or self.confirming

    def _confirm(self) -> None:
        """After the last checkpoint: have the sinks commit and the sources acknowledge, then close."""
        self.epoch += 1
        order = partial(self._order, barrier=False, reads=False, ends=False)
        self.job.runner.run(
            lambda s, p: order(s, p)._replace(final=True, commits_only=True), self._timeout_s(False)
        )

    def _epoch(self, barrier: bool, reads: bool, ends: bool) -> int:
        """Run one epoch (steps 1 to 4); returns how many records the sources read."""
        job = self.job
        # An epoch that restores may take longer than a checkpoint may.
        timeout_s = self._timeout_s(barrier and not self._careful)
        self.epoch_began_ms, self.epoch = job.clock.monotonic_ms(), self.epoch + 1
        run = partial(job.runner.run, lambda s, p: self._order(s, p, barrier, reads, ends), timeout_s)
        reports = self._restoring(run) if self.epoch == 1 else run()
        self.sinks_wait = False
        records, share = self._take(reports)
        checkpoint, acknowledged_ms = None, None
        if barrier:
            checkpoint, acknowledged_ms = self._checkpoint(reports, ends)
            if self.committed_epoch == self.epoch and job.last is not None:
                job.savepoints.taken(job.last, ends)
        self._hand_out()
        if checkpoint is not None and job.last is not None:
            job.sinks.commit_all(job.last, job.job_id, self.id)
        self.last_epoch_ms = job.clock.monotonic_ms() - self.epoch_began_ms
        if reads and not self._one_by_one:
            self.sizer.observe(share, self.last_epoch_ms / 1000, _work_s(reports))
        self.read_records += records
        if job.observer is not None:
            mutations = sum(report.mutations for report in reports)
            metrics = {name: figure for report in reports for name, figure in report.metrics.items()}
            job.observer(
                EpochStats(
                    self.epoch, records, mutations, self.last_epoch_ms, checkpoint, acknowledged_ms, metrics
                )
            )
        if checkpoint is not None and job.journal is not None:
            job.journal.after_commit()
        return records

    def _restoring(self, run: Callable[[], list[EpochReport]]) -> list[EpochReport]:
        """Run the epoch in which the subtasks take their state."""
        with RestoreNotice(self.plan.graph.name, self.point) as notice:
            reports = run()
        times = [report.restored_ms for report in reports if report.restored_ms is not None]
        notice.restored(max(times, default=None))
        return reports

    def _order(self, stage: int, subtask: int, barrier: bool, reads: bool, ends: bool) -> EpochOrder:
        job, planned = self.job, self.plan.stages[stage]
        last, journal = job.last, job.journal
        point = None
        restores = (
            self.epoch == self.committed_epoch + 1
        )  # whether a subtask without state can take the restore point's
        prepared = self._prepared() if restores else None
        small: dict[str, Any] = {}
        shared: dict[str, Any] = {}
        if journal is not None:
            point = self.point
            if last is not None:
                of_stage = last.operator_state.get(planned.uid, {})
                small, shared = of_stage.get(str(subtask), {}), of_stage.get(_SHARED, {})
        return EpochOrder(
            run=job.job_id,
            attempt=self.id,
            restarts=job.restarts.count,
            epoch=self.epoch,
            committed_epoch=self.committed_epoch,
            restore=point,
            restored_operators=[] if last is None or not restores else last.operators,
            operator_state=small,
            shared_state=shared,
            checkpoint_id=0 if journal is None else journal.next_id(),
            barrier=barrier,
            # Sources without positions to read have ended, and say so by the largest watermark.
            positions={} if ends and job.draining else self.progress.for_subtask(planned, subtask),
            max_records=0 if not reads else 1 if self._one_by_one else self.sizer.records,
            budget_ms=self.budget_ms,
            final=ends and not self.confirming,
            paced=self._one_by_one,
            sinks={} if prepared is None else job.sinks.restored(prepared, planned, subtask),
            ends=ends,
            drains=ends and job.draining,
            folder=self.folder,
            branches=self.branches,
        )

    def _prepared(self) -> Checkpoint | None:
        """The checkpoint whose prepared output a writer commits first."""
        return self.job.prepared_before if self.job.last is None else self.job.last

    @property
    def _one_by_one(self) -> bool:
        return self._slow_start and self.read_records < _ONE_BY_ONE

    def _take(self, reports: list[EpochReport]) -> tuple[int, int]:
        """Positions, parts and output of the reports; returns records read, in all and by the busiest source subtask."""
        records = share = 0
        timers = []
        next_id = 0 if self.job.journal is None else self.job.journal.next_id()
        for report in reports:
            if report.sources:
                self.dirty = self.dirty or report.records_in > 0
                records += report.records_in
                share = max(share, report.records_in)
            before = self.progress.finished
            self.progress.advance(report.sources)
            ended = self.progress.finished != before
            # Output is handed out once, so never to be repeated.
            if report.mutations or report.moved or ended or report.driver_output:
                self.dirty = True
            self.pending.extend(report.parts)
            for uid, states in report.states.items():
                known, stage = self.states.setdefault(uid, {}), self.plan.stages[report.stage]
                learn(known, states, stage, report.subtask, next_id, self.job.last is None)
            if report.next_timer_ms is not None:
                timers.append(report.next_timer_ms)
            self._take_output(report)
            if report.restored_ms is not None:
                self.restored_ms = max(self.restored_ms or 0.0, report.restored_ms)
        self.next_timer_ms = min(timers, default=None)
        return records, share

    def _learn(self, uid: str, states: list[dict[str, Any]] | None) -> None:
        """A state stays known once it was declared: subtasks may declare theirs late, or not again after a restore."""
        if states is not None:
            self.states.setdefault(uid, {}).update({state["name"]: state for state in states})

    def _take_output(self, report: EpochReport) -> None:
        nodes = self.plan.graph.nodes
        for node, output in report.driver_output.items():
            if hasattr(nodes[node].function, "lines"):
                self.job.outputs.printed(output)
            else:
                self.held.append((node, output))

    def _hand_out(self) -> None:
        """Collected output is final once it can't be repeated: after a checkpoint, or at once without checkpointing."""
        if self.job.journal is None or self.committed_epoch == self.epoch:
            self._hand_out_first(len(self.held))

    def hand_out_covered_by(self, checkpoint: Checkpoint) -> None:
        """Hand out what a checkpoint made final whose commit had seemed to fail."""
        document = checkpoint.to_json()
        for tried, covered in self.tried:
            if tried.to_json() == document:
                self._hand_out_first(covered)

    def _hand_out_first(self, count: int) -> None:
        for node, elements in self.held[:count]:
            self.job.outputs.collected(node, elements)
        del self.held[:count]

    def _checkpoint(self, reports: list[EpochReport], final: bool) -> tuple[int | None, float | None]:
        """Step 3. Returns the checkpoint's id and barrier-to-commit time; None when nothing had changed."""
        job, journal = self.job, self.job.journal
        assert journal is not None
        ended = self.progress.finished
        if not self.dirty and not self.pending and not final and job.last is not None:
            self.committed_epoch = self.epoch
            return None, None
        barrier_ms = WallMs(int(max(report.barrier_ms for report in reports)))
        checkpoint = self._row(reports, barrier_ms, finished=ended, stopped=final and not ended)
        began_ms = job.clock.monotonic_ms()
        self.tried.append((checkpoint, len(self.held)))
        try:
            journal.commit(checkpoint, self.pending)
        except FATAL:
            raise
        except ChangelogEngineError as failure:
            self.failed_checkpoints += 1
            if self.failed_checkpoints > self.settings.tolerable_failures or final:
                raise
            log.warning("checkpoint %d failed and is left out: %s", checkpoint.id, failure)
            if not self.settings.changelog:
                self.pending = []  # the next snapshot is a full one again
            return None, None
        acknowledged_ms = self.acknowledged_ms = self._age_ms(barrier_ms)
        now_ms = job.clock.monotonic_ms()
        log.debug("checkpoint %d: commit took %.1f ms", checkpoint.id, now_ms - began_ms)
        self.failed_checkpoints = 0
        self.tried = []
        self.pending = []
        self.dirty = self.progress.unsettled = False
        self.committed_epoch = self.epoch
        job.last = checkpoint
        assert self.point is not None
        snapshot = self.point.snapshot if self.settings.changelog else checkpoint.id
        self.point = RestorePoint(self.point.table, checkpoint.id, checkpoint.lineage, snapshot)
        self.barriers.completed(MonotonicMs(now_ms - acknowledged_ms), now_ms)
        self.sinks_wait = job.sinks.has_committables(checkpoint)
        return checkpoint.id, acknowledged_ms

    def _row(
        self, reports: list[EpochReport], barrier_ms: WallMs, finished: bool, stopped: bool
    ) -> Checkpoint:
        job, journal = self.job, self.job.journal
        assert journal is not None
        identity = journal.next_id()
        last = job.last
        lineage: tuple[Segment, ...] = () if last is None else last.lineage
        small: dict[str, dict[str, Any]] = {}
        for report in reports:
            if report.operator_state:
                uid = self.plan.stages[report.stage].uid
                small.setdefault(uid, {})[str(report.subtask)] = report.operator_state
            if report.shared_state:
                uid = self.plan.stages[report.stage].uid
                small.setdefault(uid, {})[_SHARED] = report.shared_state
        if stopped and job.draining:  # whoever goes on from here starts event time anew
            for subtasks in small.values():
                for state in subtasks.values():
                    state.pop("inputs", None)
        snapshot = None if last is None else last.snapshot
        if not self.settings.changelog:
            snapshot = identity
        return Checkpoint(
            id=identity,
            attempt=self.id,
            parent=None if last is None else last.id,
            lineage=extend(lineage, self.id, identity),
            time_ms=barrier_ms if last is None else max(barrier_ms, last.time_ms),
            duration_ms=int(self._age_ms(barrier_ms)),
            parent_acknowledged_ms=self.acknowledged_ms,
            restored_ms=self.restored_ms,
            rows=sum(part.rows for part in self.pending),
            bytes=sum(part.size for part in self.pending),
            parts=len(self.pending),
            snapshot=snapshot,
            sources=self.progress.to_json(),
            operator_state=small,
            operators=describe_operators(self.plan, self.states),
            finished=finished,
            stopped=stopped,
        )

    def _age_ms(self, barrier_ms: WallMs) -> float:
        """How long ago a barrier of this epoch was.

        Workers tell when it was by the wall clock, which may be another machine's, or may have been set since: so it was
        neither before the epoch began nor after now.
        """
        longest_ms = self.job.clock.monotonic_ms() - self.epoch_began_ms
        return min(max(0.0, float(self.job.clock.wall_ms() - barrier_ms)), longest_ms)

    def _timeout_s(self, barrier: bool) -> float:
        timeout_ms = self.settings.checkpoint_timeout_ms
        return max(timeout_ms, 1 if barrier else self.settings.epoch_timeout_ms) / 1000

    def _rest(self, records: int) -> None:
        """Wait a little when there was nothing to read; a due timer or a stop ends the wait."""
        if records:
            self.idle_ms = 0
            return
        self.idle_ms = min(max(2 * self.idle_ms, _IDLE_MS[0]), _IDLE_MS[1])
        wait_ms: float = self.idle_ms
        if self.next_timer_ms is not None:
            wait_ms = min(wait_ms, max(0, self.next_timer_ms - self.job.clock.wall_ms()))
        self.job.stopping.wait(wait_ms / 1000)


def _work_s(reports: list[EpochReport]) -> float:
    """How long an epoch's subtasks worked on records: the busiest of each stage, one stage after the other."""
    busiest: dict[int, float] = {}
    for report in reports:
        busiest[report.stage] = max(busiest.get(report.stage, 0.0), report.work_ms)
    return sum(busiest.values()) / 1000


def _acknowledges(plan: JobPlan) -> bool:
    """Whether any source wants to know what is durable."""
    return any(
        node.kind is NodeKind.SOURCE and getattr(node.function, "acknowledges", False)
        for node in plan.graph.nodes
    )
