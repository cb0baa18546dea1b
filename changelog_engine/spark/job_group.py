"""What Spark's scheduler and its interface know of the jobs that a thread submits."""

from __future__ import annotations

from pyspark import SparkContext

from changelog_engine.readable import counted

_CALL_SITE = ("callSite.short", "callSite.long")
_POOL = "spark.scheduler.pool"
_PROPERTIES = (
    _POOL,
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
    *_CALL_SITE,
)


class JobGroups:
    """Has threads submit jobs of a group, in the pool of the thread that made this: they share the cores as its own do."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._pool = context.getLocalProperty(_POOL)
        self._before: list[tuple[str, str | None]] | None = None

    def enter(self, group: str, what: str) -> None:
        """Have the jobs that this thread submits from now on be of a group."""
        self._context.setJobGroup(group, what)
        if self._pool is not None:
            self._context.setLocalProperty(_POOL, self._pool)

    def keep(self) -> None:
        """Note what this thread's jobs are of, once, so that ``give_back`` knows."""
        if self._before is None:
            self._before = [(name, self._context.getLocalProperty(name)) for name in _PROPERTIES]

    def give_back(self) -> None:
        """Give this thread what ``keep`` has noted."""
        for name, value in self._before or ():
            self._context.setLocalProperty(name, value)  # None removes it


def name_stages(context: SparkContext, name: str) -> None:
    """Set what Spark's interface calls the stages that this thread makes from now on."""
    for each in _CALL_SITE:
        context.setLocalProperty(each, name)


def unfinished_stages(context: SparkContext, group: str) -> str:
    """Which stages of a group's jobs have tasks that run, in words behind others; "" for none."""
    tracker, found = context.statusTracker(), {}
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None or info.status != "RUNNING" else info.stageIds:
            tasks = tracker.getStageInfo(stage)
            if tasks is not None and tasks.numActiveTasks:
                found[stage] = (
                    f"{tasks.name!r} runs in {tasks.numActiveTasks} of {counted(tasks.numTasks, 'subtask')}"
                )
    return f": {', '.join(found.values())}" if found else ""
