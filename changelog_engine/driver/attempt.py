"""One attempt of a job: epoch after epoch from a checkpoint (or nothing), until the end or a failure.

The steps of an epoch with a checkpoint, as crash tests name them:
    1. Orders go out; subtasks read, process and log.
    2. Parts are durable; reports come in. Nothing refers to the parts yet.
    3. One commit makes parts, positions and watermarks durable. This is the acknowledgement.
    4. Collected output is handed out. Committing sinks commit: those that do it with one commit for all here, the others
       where they run, as soon as they are told, at the latest at the beginning of the next epoch.
A crash before 3 repeats the epoch from the last checkpoint; after 3 the job goes on from the new one.

Invariants:
    * State, positions and output never run ahead of each other: all go back to the same checkpoint.
    * Parts reported by an attempt that failed are never committed.
"""

from __future__ import annotations

import logging
from functools import partial

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.driver.checkpointer import Acknowledged, Checkpointer
from changelog_engine.driver.control import JobControl
from changelog_engine.driver.epoch import Epoch
from changelog_engine.driver.held_output import HeldOutput
from changelog_engine.driver.job import AttemptStart, Job
from changelog_engine.driver.orders import EpochOrders
from changelog_engine.driver.pace import Pace, work_ms
from changelog_engine.driver.plan_traits import acknowledges, closes, stages_ahead
from changelog_engine.driver.protocols import Following, Orders
from changelog_engine.driver.rescaling import Request
from changelog_engine.driver.restore_notice import RestoreNotice
from changelog_engine.driver.source_progress import SourceProgress
from changelog_engine.graph import subtask_warnings
from changelog_engine.operators.messages import Durable, EpochKind, EpochReport
from changelog_engine.readable import iso

log = logging.getLogger("changelog_engine")

_CONFIRMED = (EpochKind.LAST_TO_CONFIRM, EpochKind.HAND_OVER_TO_CONFIRM)


class AttemptRun:
    """One attempt: from a checkpoint (or nothing) until the end or a failure.

    Attributes:
        rescale: the request for which it hands over to the next attempt, once it does.
        paused_ms: since when it then processes nothing, on the monotonic clock.
    """

    def __init__(self, job: Job, control: JobControl, start: AttemptStart) -> None:
        self._job = job
        self._control = control
        self._start = start
        last = start.checkpoint
        self._progress = SourceProgress(job.plan, {} if last is None else last.sources)
        self._output = HeldOutput(job.outputs, job.plan)
        self._checkpointer: Checkpointer | None = None
        branches = frozenset[int]()
        if job.journal is not None:
            if job.sinks.any:  # what cannot be read is an error before the attempt is in the log
                branches = job.journal.branches(last)
            self._checkpointer = Checkpointer(job, job.journal, last, self._progress, self._output)
        self.id = start.restarts + 1 if self._checkpointer is None else self._checkpointer.attempt
        job.monitor.begin_attempt(job.plan, self.id, start.restarts, last)
        self._pace = Pace(job.plan, job.settings, job.clock)
        self._orders = EpochOrders(
            job, start, self.id, self._progress, self._pace, self._checkpointer, branches
        )
        self._epoch = 0
        self._next_timer_ms: int | None = None
        self._with_timers: set[int] = set()  # stages that wait for one
        self._sinks_wait = False  # something is prepared that sinks commit before the next epoch, or in it
        self._stages_ahead = stages_ahead(job.plan, job.settings)
        self._slots = job.runner.slots() if self._stages_ahead else None
        self._ahead: EpochKind | None = None  # of the next epoch, which sources have begun to read
        self.rescale: Request | None = None
        self.paused_ms = job.clock.monotonic_ms()

    @property
    def last(self) -> Checkpoint | None:
        """The newest checkpoint, as far as this attempt knows; None before the first."""
        return self._start.checkpoint if self._checkpointer is None else self._checkpointer.last

    @property
    def input_ended(self) -> bool:
        """Whether no source will have more."""
        return self._progress.finished

    def hand_out_covered_by(self, checkpoint: Checkpoint) -> None:
        """Hand out what a checkpoint made final whose commit had seemed to fail."""
        self._output.hand_out_covered_by(checkpoint)

    def run(self) -> None:
        """Epochs until there is nothing left to do, or the next attempt is to go on."""
        if self._start.prepared is not None:
            self._job.sinks.commit_all(self._start.prepared, self._job.id, self.id, anew=True)
        while True:
            self._control.check()
            ahead, self._ahead = self._ahead, None
            kind = ahead or self._next_kind()
            if kind is None:
                break
            records = self._run_epoch(kind, ahead is not None)
            if kind in _CONFIRMED:
                self._confirm()
            if kind.ends or kind.hands_over:
                break
            if not self._progress.finished and not self._sinks_wait and self._ahead is None:
                rest_ms = self._pace.rest_ms(records, self._next_timer_ms)
                if rest_ms:
                    self._control.rest(rest_ms)
        if self._next_timer_ms is not None and self._progress.finished and not self._control.stopping:
            self._tell_dropped_timers(self._next_timer_ms)

    def _tell_dropped_timers(self, first_ms: int) -> None:
        graph, stages = self._job.plan.graph, self._job.plan.stages
        log.warning(
            "job %r: timers of processing time are still set in %s, the first for %s UTC, and its input has ended: they "
            "do not fire, and windows of processing time that are open give nothing, as in Flink. A source that goes on "
            "lets them fire; windows of event time give their results at the end",
            self._job.name,
            ", ".join(repr(graph.nodes[stages[stage].nodes[0]].name) for stage in sorted(self._with_timers)),
            iso(first_ms),
        )

    def _next_kind(self) -> EpochKind | None:
        """What the next epoch is for; None when there is nothing left to do."""
        ending = self._progress.finished and self._epoch > 0
        if ending and not self._needs_last_epoch():
            return None
        if ending or self._control.stopping:
            return self._last_kind()
        self.rescale = self._control.rescales.waiting
        if self.rescale is not None:
            return EpochKind.HAND_OVER_TO_CONFIRM if self._confirms else EpochKind.HAND_OVER
        checkpointer = self._checkpointer
        due = checkpointer is not None and (
            self._careful or self._control.savepoints.waiting or self._pace.checkpoint_due()
        )
        found = self._progress.discover(self._job.clock.monotonic_ms())
        if checkpointer is None:
            self._progress.settled()  # nothing will be restored, so no checkpoint has to have a part's first splits
        else:
            checkpointer.changed = checkpointer.changed or found
            if self._progress.unsettled and (due or not self._pace.after_failure):
                return EpochKind.SETTLE
        return EpochKind.CHECKPOINT if due else EpochKind.READ

    def _following(self, epoch: Epoch) -> Orders | None:
        """The orders with which stages run the next epoch while those behind them run this one; None: they wait.

        They wait where something must come between the two epochs. What is asked for later comes behind the next one.
        """
        pace, control, checkpointer = self._pace, self._control, self._checkpointer
        asked = control.stopping or control.savepoints.waiting or control.rescales.waiting is not None
        if (
            asked
            or self._progress.finished
            or not pace.reads_ahead(self._slots)
            or self._progress.discovery_due(self._job.clock.monotonic_ms())
        ):
            return None
        due = checkpointer is not None and pace.checkpoint_due_behind(epoch.kind.barrier)
        self._ahead = EpochKind.CHECKPOINT if due else EpochKind.READ
        following = Epoch(epoch.number + 1, self._ahead, False, self._job.clock.monotonic_ms())
        if checkpointer is not None and epoch.kind.barrier:
            checkpointer.changed = True  # the parts of the next epoch count on this one's checkpoint
        return self._orders.of(following, before=epoch)

    def _last_kind(self) -> EpochKind:
        if self._checkpointer is None:
            return EpochKind.END
        return EpochKind.LAST_TO_CONFIRM if self._confirms else EpochKind.LAST

    @property
    def _confirms(self) -> bool:
        """Whether somebody in the workers hears of the last checkpoint."""
        return self._checkpointer is not None and (self._job.sinks.any or acknowledges(self._job.plan))

    @property
    def _careful(self) -> bool:
        """Whether the next epoch must not be lost, as one before it was.

        Spark ends a Python worker that was idle for a minute. Where others restore for longer, as on a busy machine, those
        that wait lose what they hold; with a checkpoint at its end that is nothing, and the job comes forward. Without, each
        attempt would end as the one before.
        """
        return self._start.lost_state and (self._epoch == 0 or self._pace.long)

    def _needs_last_epoch(self) -> bool:
        """Whether the end still has to be checkpointed, or functions to be closed."""
        checkpointer = self._checkpointer
        uncommitted = checkpointer is not None and checkpointer.committed_epoch < self._epoch
        return uncommitted or self._confirms or closes(self._job.plan, self._job.settings)

    def _begin(self, kind: EpochKind) -> Epoch:
        self._epoch += 1
        drains = kind.ends and self._control.draining
        return Epoch(self._epoch, kind, drains, self._job.clock.monotonic_ms())

    def _run_epoch(self, kind: EpochKind, begun: bool) -> int:
        """Run one epoch (steps 1 to 4); returns how many records the sources read.

        Args:
            begun: its sources have begun to read it.
        """
        job = self._job
        # An epoch that restores may take longer than a checkpoint may.
        timeout_s = self._timeout_s(kind.barrier and not self._careful)
        epoch = self._begin(kind)
        if kind.hands_over:
            self.paused_ms = epoch.began_ms
        reports = self._reports(epoch, timeout_s)
        subtask_warnings.tell([report.warnings for report in reports], job.warned_of)
        job.monitor.take(epoch.number, job.clock.monotonic_ms() - epoch.began_ms, reports)
        self._sinks_wait = False
        records = self._take(reports)
        acknowledged = self._make_final(epoch, reports)
        if acknowledged is not None:
            job.sinks.commit_all(acknowledged.checkpoint, job.id, self.id)
            if self._sinks_wait:
                job.runner.tell(Durable(job.id, self.id, epoch.number), job.sinks.stages)
        duration_ms = job.clock.monotonic_ms() - epoch.began_ms
        self._pace.observe(kind.reads, duration_ms, records, reports, begun or self._ahead is not None)
        job.monitor.end_epoch(duration_ms)
        if acknowledged is not None and job.journal is not None:
            job.journal.after_commit()
        return records

    def _reports(self, epoch: Epoch, timeout_s: float) -> list[EpochReport]:
        """Steps 1 and 2. In its first epoch the subtasks take their state."""
        orders = self._orders.of(epoch)
        if epoch.number > 1:
            following = None
            if self._stages_ahead and epoch.kind.reads and not self._careful:
                following = Following(self._stages_ahead, partial(self._following, epoch))
            reports = self._job.runner.run(orders, timeout_s, following)
            self._tell_replaced(reports)
            return reports
        point = None if self._checkpointer is None else self._checkpointer.point
        with RestoreNotice(self._job.name, point, self._job.monitor) as notice:
            reports = self._job.runner.run(orders, timeout_s)
        times = [report.restored_ms for report in reports if report.restored_ms is not None]
        notice.restored(max(times, default=None), sum(report.kept for report in reports))
        made = self._control.rescales.goes_on(self._job.clock.monotonic_ms() - work_ms(reports))
        if made is not None:
            self._job.monitor.rescaled(made)
            log.info("job %r: %s", self._job.name, made)
        return reports

    def _tell_replaced(self, reports: list[EpochReport]) -> None:
        """Say which subtasks took their state in the middle of an attempt: their processes ended between two epochs."""
        plan, last = self._job.plan, self.last
        replaced = [
            f"{plan.stages[report.stage].uid} ({report.subtask + 1}/{plan.stages[report.stage].parallelism})"
            for report in reports
            if report.restored_ms is not None
        ]
        if replaced:
            log.warning(
                "job %r: the worker process of %s ended between two epochs, and another one has gone on from %s",
                self._job.name,
                ", ".join(replaced),
                "the start" if last is None else f"checkpoint {last.id}",
            )

    def _take(self, reports: list[EpochReport]) -> int:
        """Positions, parts and output of the reports; returns how many records were read."""
        progress, checkpointer = self._progress, self._checkpointer
        records = 0
        for report in reports:
            if report.sources:
                records += report.records_in
            before = progress.finished
            progress.advance(report.sources)
            if checkpointer is not None:
                checkpointer.take(report, ended=progress.finished != before)
            self._output.take(report.driver_output)
        timers = [report.next_timer_ms for report in reports if report.next_timer_ms is not None]
        self._next_timer_ms = min(timers, default=None)
        self._with_timers = {report.stage for report in reports if report.next_timer_ms is not None}
        return records

    def _make_final(self, epoch: Epoch, reports: list[EpochReport]) -> Acknowledged | None:
        """Step 3, and output that is final by it is handed out; without checkpointing all is, at once."""
        job, checkpointer = self._job, self._checkpointer
        if checkpointer is None:
            self._output.hand_out()
            return None
        if not epoch.kind.barrier:
            return None
        acknowledged = checkpointer.checkpoint(epoch, reports)
        if acknowledged is not None:
            self._pace.checkpointed(acknowledged.barrier_ms, acknowledged.at_ms)
            self._sinks_wait = job.sinks.has_committables(acknowledged.checkpoint)
        elif checkpointer.committed_epoch != epoch.number:
            self._pace.checkpoint_failed()
            self._control.savepoints.checkpoint_failed()
        if checkpointer.committed_epoch == epoch.number:
            if checkpointer.last is not None:
                self._control.savepoints.taken(checkpointer.last, epoch.kind.ends)
            self._output.hand_out()
        return acknowledged

    def _confirm(self) -> None:
        """After the last checkpoint: have the sinks commit and the sources acknowledge, then close."""
        orders = self._orders.of(self._begin(EpochKind.CONFIRM))
        self._job.runner.run(orders, self._timeout_s(False))

    def _timeout_s(self, barrier: bool) -> float:
        settings = self._job.settings
        return max(settings.checkpoint_timeout_ms, 1 if barrier else settings.epoch_timeout_ms) / 1000
