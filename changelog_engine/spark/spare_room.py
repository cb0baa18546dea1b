"""Where tasks beside the epochs have room.

A session that a job with a schedule of materializations starts with a local master has one slot more than was asked for
(``spark_context``), and one background task at a time runs in it. In a session of the user's there is room where slots are
left that no epoch takes, on other masters in executors of their own (``own_executors``), or in one that has more slots than
subtasks.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator

from pyspark import SparkContext

from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.spark.background import BackgroundTasks
from changelog_engine.spark.files import WorkerFiles
from changelog_engine.spark.own_executors import ExecutorsWanted, OwnExecutors
from changelog_engine.spark.placement import Placement
from changelog_engine.spark.session import BACKGROUND_SLOTS, local_slots

log = logging.getLogger("changelog_engine")


class SpareRoom:
    """Finds what may run tasks beside the epochs of a job.

    Args:
        placement: of the job's subtasks, on masters with executors of their own.
    """

    def __init__(
        self,
        context: SparkContext,
        job: str,
        files: WorkerFiles,
        wanted: ExecutorsWanted,
        placement: Placement | None,
    ) -> None:
        self._context = context
        self._job = job
        self._files = files
        self._wanted = wanted
        self._placement = placement
        self._elsewhere: BackgroundTasks | None = None
        self._here: BackgroundTasks | None = None
        self._told_no_room = False

    def runners(self, plan: JobPlan, ahead: Collection[int]) -> list[BackgroundTasks]:
        """The runners that there are now, the best first; the same objects in each call. None where there is no room."""
        elsewhere = self._placement is not None and OwnExecutors.may_come(self._context, self._wanted)
        waits = self._placement is not None and not self._placement.executors
        if elsewhere and waits:
            return []  # what the cluster has is for the epochs first
        found = [self._tasks_elsewhere()] if elsewhere else []
        here = self._tasks_here(plan, ahead)
        if here is not None:
            found.append(here)
        if not found and not waits:
            self._tell_no_room()
        return found

    def _tasks_elsewhere(self) -> BackgroundTasks:
        """Tasks in executors of their own."""
        if self._elsewhere is None:
            self._elsewhere = self._tasks(OwnExecutors(self._context, self._wanted, self._upkeep))
        return self._elsewhere

    def _tasks_here(self, plan: JobPlan, ahead: Collection[int]) -> BackgroundTasks | None:
        """Tasks in a slot that the epochs leave free; None where they leave none."""
        locations: list[str] = []
        if self._placement is None:
            room = room_beside(self._context, plan, ahead)
        else:
            spare = spare_location(self._placement, plan)
            locations, room = [] if spare is None else [spare], spare is not None
        if not room:
            return None
        if self._here is None:
            self._here = self._tasks()
        self._here.locations = locations
        return self._here

    def _tasks(self, executors: OwnExecutors | None = None) -> BackgroundTasks:
        return BackgroundTasks(self._context, self._upkeep, files=self._files, executors=executors)

    @property
    def _upkeep(self) -> str:
        """What Spark's interface says of the tasks."""
        return f"upkeep of {self._job}"

    def _tell_no_room(self) -> None:
        if not self._told_no_room:
            self._told_no_room = True
            log.info(
                "Spark (%s) has no slot that epochs of %r leave free: a process on this machine makes its snapshots",
                self._context.master,
                self._job,
            )


def room_beside(context: SparkContext, plan: JobPlan, ahead: Collection[int] = ()) -> bool:
    """Whether a local master has a slot that no epoch of a job takes.

    The session was started with one more, or has more than any stages that run at the same time have subtasks.
    """
    slots = local_slots(context)
    if slots is None:
        return False
    if context.getConf().contains(BACKGROUND_SLOTS):
        return True
    return slots > max(
        sum(stage.parallelism for stage in stages) for stages in concurrent_stages(plan, ahead)
    )


def spare_location(placement: Placement, plan: JobPlan) -> str | None:
    """The location of the executor with the most slots that no subtask of a job takes; None where there is none."""
    there = placement.there() if placement.executors else []
    if not there:
        return None
    taken = dict.fromkeys((executor.location for executor in there), 0)
    for stages in concurrent_stages(plan):
        subtasks = Counter(
            placement.location(subtask, stage.parallelism)
            for stage in stages
            for subtask in range(stage.parallelism)
        )
        taken = {location: max(count, subtasks[location]) for location, count in taken.items()}
    spare = {executor.location: executor.slots - taken[executor.location] for executor in there}
    best = max(spare, key=spare.__getitem__)
    return best if spare[best] > 0 else None


def concurrent_stages(plan: JobPlan, ahead: Collection[int] = ()) -> Iterator[list[Stage]]:
    """For each stage, itself and all that may run at the same time: those that neither need its output nor give it any.

    Args:
        ahead: stages that run an epoch while those that need their output run the one before.
    """
    before = {stage.id: plan.upstream(stage.id) for stage in plan.stages}
    for stage in plan.stages:
        yield [
            other
            for other in plan.stages
            if (other.id not in before[stage.id] or other.id in ahead)
            and (stage.id not in before[other.id] or stage.id in ahead)
        ]
