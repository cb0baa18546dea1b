"""What the subtasks are told of an epoch."""

from __future__ import annotations

from collections.abc import Callable

from changelog_engine.changelog.small_state import SmallState
from changelog_engine.driver.checkpointer import Checkpointer
from changelog_engine.driver.epoch import Epoch
from changelog_engine.driver.job import AttemptStart, Job
from changelog_engine.driver.merged_state import merged_state
from changelog_engine.driver.pace import Pace
from changelog_engine.driver.source_progress import SourceProgress
from changelog_engine.operators.messages import EpochOrder


class EpochOrders:
    """Makes the orders of one attempt; the checkpointer is None when checkpointing is off."""

    def __init__(
        self,
        job: Job,
        start: AttemptStart,
        attempt: int,
        progress: SourceProgress,
        pace: Pace,
        checkpointer: Checkpointer | None,
        branches: frozenset[int],
    ) -> None:
        self._job = job
        self._start = start
        self._attempt = attempt
        self._progress = progress
        self._pace = pace
        self._checkpointer = checkpointer
        self._merged = {} if start.checkpoint is None else merged_state(job.plan, start.checkpoint)
        # See SinkContext.
        self._folder = "" if job.journal is None or not job.sinks.any else job.journal.identity
        self._branches = branches

    def of(self, epoch: Epoch, before: Epoch | None = None) -> Callable[[int, int], EpochOrder]:
        """The orders of an epoch: (stage, subtask) to what it is asked to do.

        Args:
            before: the epoch before it, where it still runs. Sources then go on from where that one's did, and a checkpoint
                that it ends with takes the number before.
        """
        ahead = before is not None
        job, start, pace, checkpointer = self._job, self._start, self._pace, self._checkpointer
        last = start.checkpoint if checkpointer is None else checkpointer.last
        committed = 0 if checkpointer is None else checkpointer.committed_epoch
        # Whether a subtask without state can take the restore point's.
        restores = epoch.number == committed + 1
        restored = last if restores else None
        prepared = (start.prepared if last is None else last) if restores else None
        common = EpochOrder(
            run=job.id,
            attempt=self._attempt,
            restarts=start.restarts,
            epoch=epoch.number,
            kind=epoch.kind,
            committed_epoch=committed,
            restore=None if checkpointer is None else checkpointer.point,
            restored_operators=[] if restored is None else restored.operators,
            operator_state=SmallState(),
            shared_state={},
            checkpoint_id=0 if checkpointer is None else checkpointer.next_id + _checkpoints(before),
            positions={},
            max_records=pace.records if epoch.kind.reads else 0,
            budget_ms=pace.budget_ms,
            paced=pace.one_by_one,
            drains=epoch.drains,
            folder=self._folder,
            branches=self._branches,
            goes_on=ahead,
        )

        def order(stage: int, subtask: int) -> EpochOrder:
            planned = job.plan.stages[stage]
            kept = SmallState() if restored is None else restored.small_state(planned.uid, subtask)
            merged = self._merged.get(planned.uid) if restores and last is start.checkpoint else None
            sinks, beside = ({}, {}) if prepared is None else job.sinks.restored(prepared, planned, subtask)
            return common._replace(
                operator_state=kept if merged is None else merged,
                shared_state={} if restored is None else restored.shared_state(planned.uid),
                # Sources without positions to read have ended, and say so by the largest watermark.
                positions={}
                if epoch.drains or ahead
                else self._progress.for_subtask(planned, subtask, epoch.kind.reads),
                sinks=sinks,
                sinks_beside=beside if epoch.number == 1 else None,
            )

        return order


def _checkpoints(epoch: Epoch | None) -> int:
    """How many checkpoints an epoch ends with."""
    return int(epoch is not None and epoch.kind.barrier)
