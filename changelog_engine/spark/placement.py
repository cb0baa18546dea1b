"""Which executor each subtask prefers, on masters that have executors of their own.

A subtask's state is in a process of one executor, so an attempt begins when the executors are there that the
application asked for: one that came after the first epoch would get none of its subtasks before the next attempt.

Invariants:
    * Within an attempt a subtask prefers one executor, unless that one is gone.
    * Executors get subtasks by the tasks that they run at a time.
    * Who waits says for what, and until when.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark import SparkContext

from changelog_engine.clock import monotonic_s
from changelog_engine.errors import EpochFailedError
from changelog_engine.spark.session import task_cpus

log = logging.getLogger("changelog_engine")

_LOOK_S = 0.1
_TOLD_AFTER_S = 5.0
_TOLD_AGAIN_S = 30.0
_REGISTRATION_S = 60.0  # beside those that came, for the rest of them
_REPLACEMENT_S = 10.0  # for another one in a lost one's place
_NONE_S = 300.0  # for the first one
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"(\d+)\s*([a-z]*)")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)")
_INITIAL = (
    "spark.dynamicAllocation.minExecutors",
    "spark.dynamicAllocation.initialExecutors",
    "spark.executor.instances",
)
_OF_YARN_AND_KUBERNETES = 2  # executors, where the application names no number

Setting = Callable[[str], str | None]


class Executor(NamedTuple):
    """An executor that is registered.

    Args:
        id: Spark's.
        host: its address.
        slots: tasks that it runs at a time.
    """

    id: str
    host: str
    slots: int

    @property
    def location(self) -> str:
        """What a task that prefers it has among its locations."""
        return f"executor_{self.host}_{self.id}"


@dataclass(frozen=True)
class Wanted:
    """What has to be registered before an attempt begins.

    Args:
        executors: as many as the application asked for; None where it did not say.
        slots: tasks at a time; what it asked for, else what the job's widest stage has.
    """

    executors: int | None
    slots: int

    def suffices(self, found: list[Executor]) -> bool:
        """Whether these executors are enough."""
        if self.executors is not None:
            return len(found) >= max(1, self.executors)
        return sum(executor.slots for executor in found) >= self.slots

    def told(self, found: list[Executor]) -> str:
        """What is there of what is wanted, in words."""
        if self.executors is not None:
            return f"{len(found)} of {self.executors} executors registered"
        slots = sum(executor.slots for executor in found)
        return f"{len(found)} executors registered, which run {slots} of {self.slots} tasks at a time"


def wanted(master: str, setting: Setting, subtasks: int) -> Wanted:
    """What an application asked its master for.

    Args:
        master: the Spark master.
        setting: gives the value of a ``spark.*`` key; None for one that is not set.
        subtasks: of the job's widest stage.
    """
    ratio = min(1.0, float(setting("spark.scheduler.minRegisteredResourcesRatio") or 1))
    local = _LOCAL_CLUSTER.match(master)
    if local is not None:
        return Wanted(int(local[1]), subtasks)
    if dynamic_allocation(setting):
        initial = max(int(setting(key) or 0) for key in _INITIAL)
        return Wanted(math.ceil(initial * ratio), subtasks) if initial else Wanted(None, subtasks)
    if master.startswith("spark://"):  # each worker gives what it has, up to spark.cores.max
        most = setting("spark.cores.max")
        if most is None:
            return Wanted(None, subtasks)
        each = setting("spark.executor.cores")
        if each is not None:
            return Wanted(math.ceil(int(most) // int(each) * ratio), subtasks)
        return Wanted(None, math.ceil(int(most) // task_cpus(setting) * ratio))
    given = setting("spark.executor.instances")
    if given is not None:
        return Wanted(math.ceil(int(given) * ratio), subtasks)
    if master.startswith(("yarn", "k8s://")):
        return Wanted(math.ceil(_OF_YARN_AND_KUBERNETES * ratio), subtasks)
    return Wanted(None, subtasks)


def dynamic_allocation(setting: Setting) -> bool:
    """Whether the application's executors come and go with its tasks."""
    return (setting("spark.dynamicAllocation.enabled") or "").lower() == "true"


class Placement:
    """The executors of a job's subtasks.

    Args:
        subtasks: of the job's widest stage.
        cancelled: why waiting has to end; None as long as it has not.
        clock: seconds; for tests.
        pause: sleeps for a number of seconds; for tests.
    """

    def __init__(
        self,
        context: SparkContext,
        subtasks: int,
        cancelled: Callable[[], str | None],
        clock: Callable[[], float] = monotonic_s,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.executors: list[Executor] = []
        self._scala_context: Any = context._jsc.sc()
        conf = context.getConf()
        self._setting: Setting = conf.get
        self._master = context.master
        self._wanted = wanted(context.master, conf.get, subtasks)
        self._subtasks = subtasks
        self._cancelled = cancelled
        self._clock = clock
        self._pause = pause
        self._attempt = 0

    def place(self, attempt: int) -> bool:
        """Choose the executors: once an attempt, and anew when one of them is gone.

        An executor that joins gets its share with the next attempt only: a subtask that moves leaves its state behind.

        Returns:
            Whether they are others than before.

        Raises:
            EpochFailedError: there is no executor, and none came; or the job was cancelled.
        """
        if self.executors and attempt == self._attempt and not self.lost():
            return False
        found = self._awaited()
        self._attempt = attempt
        if found == self.executors:
            return False
        self.executors = found
        return True

    def resize(self, subtasks: int) -> None:
        """The job's widest stage has another number of subtasks; executors that are there are not waited for again."""
        self._subtasks = subtasks
        self._wanted = wanted(self._master, self._setting, subtasks)

    def slots(self) -> int | None:
        """How many tasks executors run at a time, with those that dynamic allocation may bring; None: no bound is known."""
        found = sum(executor.slots for executor in self._find())
        if not dynamic_allocation(self._setting):
            return found or None
        most = self._setting("spark.dynamicAllocation.maxExecutors")
        return None if most is None else max(found, int(most) * self._slots_of_each())

    def location(self, subtask: int, parallelism: int) -> str:
        """The location that a subtask of a stage prefers; neighbours share an executor."""
        slots = [executor for executor in self.executors for _ in range(executor.slots)]
        return slots[subtask * len(slots) // parallelism].location

    def lost(self) -> list[str]:
        """Those of the chosen executors that are gone."""
        alive = self._alive()
        return [executor.location for executor in self.executors if executor.id not in alive]

    def _awaited(self) -> list[Executor]:
        began = self._clock()
        replaced = bool(self.executors)
        target = self._wanted
        if replaced:  # what never came is not waited for again
            target = Wanted(min(len(self.executors), target.executors or len(self.executors)), target.slots)
        patience = _REPLACEMENT_S if replaced else self._registration_s()
        told, last = _TOLD_AFTER_S, began
        found = self._find()
        if dynamic_allocation(self._setting) and self._needed_executors() > len(found):
            # Spark asks for executors when tasks wait, and before the first epoch none do.
            self._scala_context.requestExecutors(self._needed_executors() - len(found))
        while not target.suffices(found):
            if (reason := self._cancelled()) is not None:
                raise EpochFailedError(reason)
            waited = self._clock() - began
            if found and self._clock() - last >= patience:
                log.warning(
                    "%s on %s after %.0f s: the job goes on with what is there. Executors that come later take a share of "
                    "its subtasks when the job restarts",
                    target.told(found),
                    self._master,
                    waited,
                )
                break
            if not found and waited >= _NONE_S:
                raise EpochFailedError(
                    f"no executor registered within {_NONE_S:.0f} s on {self._master}: see there whether the application "
                    "waits for cores or memory (spark.executor.cores, spark.executor.memory, spark.cores.max) or its "
                    "executors end at once (their logs say why)"
                )
            if waited >= told:
                told += _TOLD_AGAIN_S
                log.warning(
                    "%s on %s: the job waits for the rest, at most %.0f s more",
                    target.told(found),
                    self._master,
                    patience - (self._clock() - last) if found else _NONE_S - waited,
                )
            self._pause(_LOOK_S)
            if len(now := self._find()) > len(found):
                last = self._clock()
            found = now
        return found

    def _registration_s(self) -> float:
        given = self._setting("spark.scheduler.maxRegisteredResourcesWaitingTime")
        parsed = _TIME.fullmatch(given.strip().lower()) if given is not None else None
        if parsed is None or (parsed[2] or "ms") not in _UNITS_S:
            return _REGISTRATION_S
        return int(parsed[1]) * _UNITS_S[parsed[2] or "ms"]

    def _needed_executors(self) -> int:
        each = self._slots_of_each()
        most = int(self._setting("spark.dynamicAllocation.maxExecutors") or self._subtasks)
        return max(1, min(most, math.ceil(self._subtasks / each)))

    def _slots_of_each(self) -> int:
        return max(1, int(self._setting("spark.executor.cores") or 1) // task_cpus(self._setting))

    def _alive(self) -> set[str]:
        """Ids of the executors that the scheduler gives tasks to; one call, however many there are."""
        return set(str(self._scala_context.getExecutorIds().mkString("\n")).split("\n")) - {""}

    def _find(self) -> list[Executor]:
        """Executors, in order of their ids; those of other resource profiles are for others."""
        alive = self._alive()
        if not alive:
            return []
        listed: Any = self._scala_context.statusStore().executorList(True)
        cpus = task_cpus(self._setting)
        found = []
        for number in range(listed.size()):
            summary = listed.apply(number)
            if str(summary.id()) in alive and not summary.resourceProfileId():
                host = str(summary.hostPort() or "").rpartition(":")[0]
                if not host:
                    continue  # it is about to be there: its place comes with its storage, after itself
                found.append(Executor(str(summary.id()), host, max(1, summary.totalCores() // cpus)))
        return sorted(found, key=lambda executor: (len(executor.id), executor.id))
