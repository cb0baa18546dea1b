"""An epoch runner in this process: the same stages, blocks and orders as on Spark, one subtask after the other.

It is the small reference implementation of ``EpochRunner``; tests use it to run hundreds of jobs with crashes in the time
that Spark takes to start.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable

from changelog_engine.clock import WallClock, wall_ms
from changelog_engine.driver.mistakes import in_engine
from changelog_engine.errors import ChangelogEngineError, EpochFailedError
from changelog_engine.graph.plan import JobPlan
from changelog_engine.operators.blocks import decode
from changelog_engine.operators.messages import EpochOrder, EpochReport
from changelog_engine.spark.shipping import ShippedJob
from changelog_engine.spark.worker import Registry

Crash = Callable[[int, int, int], bool]


class InProcessRunner:
    """Runs epochs of one job here.

    Args:
        job: what to run.
        clock: wall clock in ms.
        crash: (epoch since the start of this runner, stage, subtask) -> True to lose the worker process before that
            subtask reports. None never crashes.
        stages: those that run; None for all.
        registry: holds the runtimes; None for one of its own.
    """

    def __init__(
        self,
        job: ShippedJob,
        clock: WallClock = wall_ms,
        crash: Crash | None = None,
        stages: frozenset[int] | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.job = job
        self.registry = registry or Registry(clock)
        self.stages = frozenset(stage.id for stage in job.plan.stages) if stages is None else stages
        self.crash = crash
        self.epochs = 0

    def run(self, orders: Callable[[int, int], EpochOrder], timeout_s: float) -> list[EpochReport]:
        """See EpochRunner; the timeout is not kept, because nothing here runs in the background."""
        self.epochs += 1
        plan = self.job.plan
        parallelism = plan.parallelism_of
        inboxes: dict[tuple[int, int], list[bytes]] = {}
        reports: list[EpochReport] = []
        for stage in plan.stages:
            if stage.id not in self.stages:
                continue
            offsets = stage.partitions(parallelism)
            for subtask in range(stage.parallelism):
                data = inboxes.pop((stage.id, subtask), [])
                try:
                    sent = self.registry.run(
                        lambda: self.job, orders(stage.id, subtask), stage.id, subtask, data
                    )
                except ChangelogEngineError:
                    raise
                except Exception as error:
                    raise in_engine(error, repr(error)) from error
                if self.crash is not None and self.crash(self.epochs, stage.id, subtask):
                    self.registry.clear()
                    raise EpochFailedError(f"worker of stage {stage.id}, subtask {subtask} was lost")
                for partition, encoded in sent:
                    if partition < 0:
                        report = decode(encoded)
                        assert isinstance(report, EpochReport)
                        reports.append(report)
                    else:
                        edge = bisect.bisect_right(offsets, partition) - 1
                        target = (stage.outputs[edge].to_stage, partition - offsets[edge])
                        if target[0] in self.stages:
                            inboxes.setdefault(target, []).append(encoded)
                        elif isinstance(report := decode(encoded), EpochReport):
                            reports.append(report)
        return sorted(reports, key=lambda report: (report.stage, report.subtask))

    def prepare(self, plan: JobPlan) -> None:
        """See EpochRunner: there is nothing to do."""

    def rescale(self, plan: JobPlan) -> None:
        """See EpochRunner."""
        self.job = self.job.with_plan(plan)

    def slots(self) -> None:
        """See EpochRunner: nothing here runs at the same time, however many subtasks there are."""

    def noted(self, attempt: int) -> tuple[int, int, int] | None:
        """See EpochRunner: no worker is started here."""
        return None

    def background(self) -> tuple[()]:
        """See EpochRunner. Without Spark nothing runs tasks in the background."""
        return ()

    def close(self) -> None:
        """Let go of all state."""
        self.registry.clear()
