"""An epoch runner in this process: the same stages, blocks and orders as on Spark, one subtask after the other.

It is the small reference implementation of ``EpochRunner``; tests use it to run hundreds of jobs with crashes in the time
that Spark takes to start.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from changelog_engine.clock import WallClock, wall_ms
from changelog_engine.driver.mistakes import in_engine
from changelog_engine.driver.protocols import Following, Orders
from changelog_engine.errors import ChangelogEngineError, EpochFailedError
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.operators.blocks import decode
from changelog_engine.operators.build import StageBuilder
from changelog_engine.operators.failures import is_ctrl_c
from changelog_engine.operators.messages import Durable, EpochReport
from changelog_engine.spark.notes import NotedWorkers
from changelog_engine.spark.runtimes import Assemble, Runtimes
from changelog_engine.spark.shipping import ShippedJob

Crash = Callable[[int, int, int], bool]


@dataclass
class _Epoch:
    """What subtasks of an epoch have sent: to others, by (stage, subtask), and to the driver."""

    inboxes: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)
    reports: list[EpochReport] = field(default_factory=list)


class _Ahead(NamedTuple):
    """The next epoch (run, attempt, number), and the stages that have run it; or what failed there."""

    of: tuple[str, int, int]
    stages: frozenset[int]
    epoch: _Epoch
    failure: ChangelogEngineError | None


class InProcessRunner:
    """Runs epochs of one job here.

    Args:
        clock: wall clock in ms.
        crash: (epoch since the start of this runner, stage, subtask) -> True to lose the worker process before that
            subtask reports. None never crashes.
        stages: those that run; None for all.
        assemble: makes the stages' runtimes, as in Runtimes.
        tells: sinks commit when a checkpoint is durable; without, in the epoch behind it.
    """

    def __init__(
        self,
        job: ShippedJob,
        clock: WallClock = wall_ms,
        crash: Crash | None = None,
        stages: frozenset[int] | None = None,
        assemble: Assemble = StageBuilder.build,
        tells: bool = True,
    ) -> None:
        self.job = job
        self.tells = tells
        self.runtimes = Runtimes(clock, assemble)
        self.stages = frozenset(stage.id for stage in job.plan.stages) if stages is None else stages
        self.crash = crash
        self.epochs = 0
        self._ahead: _Ahead | None = None

    def run(self, orders: Orders, timeout_s: float, following: Following | None = None) -> list[EpochReport]:
        """See EpochRunner; the timeout is not kept, because nothing here runs in the background."""
        self.epochs += 1
        stages = [stage for stage in self.job.plan.stages if stage.id in self.stages]
        ahead, self._ahead = self._ahead, None
        epoch = _Epoch()
        if ahead is not None and ahead.of == orders(0, 0).of_epoch:
            if ahead.failure is not None:
                raise ahead.failure
            epoch, stages = ahead.epoch, [stage for stage in stages if stage.id not in ahead.stages]
        if following is not None:
            first = [stage for stage in stages if stage.id in following.stages]
            self._run_stages(first, orders, epoch)
            stages = [stage for stage in stages if stage.id not in following.stages]
            if (next_orders := following.orders()) is not None:
                self._ahead = self._run_ahead(following.stages, next_orders)
        self._run_stages(stages, orders, epoch)
        return sorted(epoch.reports, key=lambda report: (report.stage, report.subtask))

    def _run_ahead(self, stages: frozenset[int], orders: Orders) -> _Ahead:
        """Run stages in the next epoch; that one fails of what fails here."""
        epoch, failure = _Epoch(), None
        try:
            self._run_stages([stage for stage in self.job.plan.stages if stage.id in stages], orders, epoch)
        except ChangelogEngineError as error:
            failure = error
        return _Ahead(orders(0, 0).of_epoch, stages, epoch, failure)

    def _run_stages(self, stages: list[Stage], orders: Orders, epoch: _Epoch) -> None:
        for stage in stages:
            for subtask in range(stage.parallelism):
                data = epoch.inboxes.pop((stage.id, subtask), [])
                try:
                    sent = self.runtimes.run(
                        lambda: self.job, orders(stage.id, subtask), stage.id, subtask, data
                    )
                except ChangelogEngineError:
                    raise
                except BaseException as error:  # an element's __reduce__ may call sys.exit()
                    if is_ctrl_c(error):
                        raise
                    raise in_engine(error, repr(error)) from error
                if self.crash is not None and self.crash(self.epochs, stage.id, subtask):
                    self.runtimes.clear()
                    raise EpochFailedError(f"worker of stage {stage.id}, subtask {subtask} was lost")
                self._deliver(sent, stage, epoch)

    def _deliver(self, sent: list[tuple[int, bytes]], stage: Stage, epoch: _Epoch) -> None:
        offsets = stage.partitions(self.job.plan.parallelism_of)
        for partition, encoded in sent:
            if partition < 0:
                report = decode(encoded)
                assert isinstance(report, EpochReport)
                epoch.reports.append(report)
            else:
                edge = bisect.bisect_right(offsets, partition) - 1
                target = (stage.outputs[edge].to_stage, partition - offsets[edge])
                if target[0] in self.stages:
                    epoch.inboxes.setdefault(target, []).append(encoded)
                elif isinstance(report := decode(encoded), EpochReport):
                    epoch.reports.append(report)

    def tell(self, durable: Durable, stages: Iterable[int]) -> None:
        """See EpochRunner: sinks commit at once."""
        if self.tells:
            self.runtimes.commit(durable)

    def prepare(self, plan: JobPlan, over: Callable[[], bool]) -> None:
        """See EpochRunner: there is nothing to do."""

    def rescale(self, plan: JobPlan) -> None:
        self.job = self.job.with_plan(plan)

    def slots(self) -> None:
        """See EpochRunner: nothing here runs at the same time, however many subtasks there are."""

    def noted(self, attempt: int) -> NotedWorkers:
        """See ClosingRunner: all are up at once, since no worker is started here; when they have their state is not told."""
        return NotedWorkers(sum(stage.parallelism for stage in self.job.plan.stages))

    def background(self) -> tuple[()]:
        """See EpochRunner. Without Spark nothing runs tasks in the background."""
        return ()

    def close(self) -> None:
        """Let go of all state."""
        self.runtimes.clear()
