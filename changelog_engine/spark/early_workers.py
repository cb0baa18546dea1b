"""Processes of subtasks that start before a task needs them: all when a job begins, further ones before a rescale."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from pyspark import SparkContext

from changelog_engine.graph.plan import JobPlan
from changelog_engine.spark.job_group import JobGroups, name_stages
from changelog_engine.spark.jvm import LOST
from changelog_engine.spark.pinned import PinnedFunctions
from changelog_engine.spark.placement import Executor, Placement
from changelog_engine.spark.stage_rdds import StageRdds

_LOOK_S = 1.0  # from one look to the next whether the executors are there


class EarlyWorkers:
    """Starts processes; what fails is not told, since the first epoch's failure says more.

    Args:
        placement: of the subtasks, on masters with executors of their own.
    """

    def __init__(
        self,
        context: SparkContext,
        run_id: str,
        functions: PinnedFunctions,
        placement: Placement | None,
        groups: JobGroups,
    ) -> None:
        self._context = context
        self._group = f"{run_id} rescale"
        self._functions = functions
        self._placement = placement
        self._groups = groups
        self._started = threading.Event()

    def start(self, plan: JobPlan) -> None:
        """Start those of a plan, where that is before the first epoch: with a local master."""
        try:
            if self._placement is None:
                with contextlib.suppress(*LOST):
                    self._functions.start_workers((stage.id, stage.parallelism) for stage in plan.stages)
        finally:
            self._started.set()

    def wait(self) -> None:
        """Wait until ``start``, which another thread may run, has come to an end once."""
        self._started.wait()

    def start_more(self, before: JobPlan, plan: JobPlan, rdds: StageRdds, over: Callable[[], bool]) -> None:
        """Have executors come and the processes of further subtasks start there, and import what they need."""
        added = [
            (stage, range(old.parallelism, stage.parallelism))
            for old, stage in zip(before.stages, plan.stages, strict=True)
            if stage.parallelism > old.parallelism
        ]
        # Where executors are still waited for, the first epoch starts all processes where they are to be.
        if not added or (self._placement is not None and not self._placement.executors):
            return
        count = sum(len(subtasks) for _, subtasks in added)
        with contextlib.suppress(*LOST):
            executors: list[Executor] = []
            if self._placement is not None:
                executors = self._placement.come(max(plan.parallelism_of.values()), over)
                if over() or not executors:
                    return
            self.start(plan)
            what = f"starting {count} more workers of {plan.graph.name}"
            self._groups.enter(self._group, what)
            name_stages(self._context, what)
            starts = [rdds.warm_up(stage, subtasks, executors) for stage, subtasks in added]
            ended = threading.Event()
            threading.Thread(
                target=self._watch,
                args=(ended, over, {each.id for each in executors}),
                name="rescale",
                daemon=True,
            ).start()
            try:
                rdds.collect(starts)
            finally:
                ended.set()

    def _watch(self, ended: threading.Event, over: Callable[[], bool], executors: set[str]) -> None:
        """Cancel the start of further processes when it is for nothing, as where an executor for them is lost."""
        while not ended.wait(_LOOK_S):
            with contextlib.suppress(*LOST):
                gone = self._placement is not None and not executors <= self._placement.alive()
                if gone or over():
                    self._context.cancelJobGroup(self._group)
