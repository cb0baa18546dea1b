"""Which executor each subtask prefers, on masters that have executors of their own.

A subtask's state is in a process of one executor, so an attempt begins when the executors are there that the
application asked for: one that came after the first epoch would get none of its subtasks before the next attempt.

Invariants:
    * Within an attempt a subtask prefers one executor, unless that one is gone.
    * Executors get subtasks by the tasks that they run at a time. One that has none may go, as dynamic allocation has it;
      one that has some stays, however long they wait for those of others.
    * Who waits says for what, and until when.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from changelog_engine.clock import monotonic_s
from changelog_engine.errors import EpochFailedError
from changelog_engine.readable import counted
from changelog_engine.spark.jvm import LOST, byte_array_tag
from changelog_engine.spark.session import task_cpus

log = logging.getLogger("changelog_engine")

_LOOK_S = 0.1
_TOLD_AFTER_S = 5.0
_TOLD_AGAIN_S = 30.0
_REGISTRATION_S = 60.0  # beside those that came, for the rest of them
_ASK_AGAIN_S = 5.0
_REPLACEMENT_S = 10.0  # for another one in a lost one's place
_NONE_S = 300.0  # for the first one
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"(\d+)\s*([a-z]*)")
_IDLE_S = 60.0  # Spark's own, after which dynamic allocation takes an executor away
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)")
_INITIAL = (
    "spark.dynamicAllocation.minExecutors",
    "spark.dynamicAllocation.initialExecutors",
    "spark.executor.instances",
)
_OF_YARN_AND_KUBERNETES = 2  # executors, where the application names no number

Setting = Callable[[str], str | None]


class Executor(NamedTuple):
    """An executor that is registered."""

    id: str  # Spark's
    host: str
    slots: int  # tasks that it runs at a time

    @property
    def location(self) -> str:
        """What a task that prefers it has among its locations."""
        return f"executor_{self.host}_{self.id}"


class _Stored(NamedTuple):
    """What executors store, so that they stay."""

    by: frozenset[str]  # their ids
    rdd: Any  # Scala's
    job: Any  # that has them store it: Java's future

    def replace(self, before: _Stored) -> None:
        """Let go of what was stored before, when this is."""
        with contextlib.suppress(*LOST):  # an executor is gone, and so the next attempt stores something else
            self.job.get()
        before.let_go()

    def let_go(self) -> None:
        with contextlib.suppress(*LOST):
            self.job.cancel(True)  # what has not run would be stored after all
            self.rdd.unpersist(False)


@dataclass(frozen=True)
class Wanted:
    """What has to be registered before an attempt begins."""

    executors: int | None  # as many as the application asked for; None where it did not say
    slots: int  # tasks at a time; what it asked for, else what the job's widest stage has

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
        return f"{counted(len(found), 'executor')} registered, with room for {slots} of {self.slots} tasks at a time"


def wanted(master: str, setting: Setting, subtasks: int) -> Wanted:
    """What an application asked its master for.

    Args:
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
        parallelisms: of the job's stages.
        cancelled: why waiting has to end; None as long as it has not.
        clock: seconds; for tests.
        pause: sleeps for a number of seconds; for tests.

    Attributes:
        awaited: what an attempt that begins waits for, in words; "" while it waits for no executor.
    """

    def __init__(
        self,
        context: SparkContext,
        parallelisms: Collection[int],
        cancelled: Callable[[], str | None],
        clock: Callable[[], float] = monotonic_s,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.executors: list[Executor] = []
        self._scala_context: Any = context._jsc.sc()
        self._task_scheduler: Any = self._scala_context.taskScheduler()  # a stopped context has none
        conf = context.getConf()
        jvm: Any = context._jvm
        self._nowhere: Any = jvm.PythonUtils.toScalaMap({})  # in particular
        self._tuple: Any = jvm.scala.Tuple2
        self._sequence: Any = jvm.PythonUtils.toSeq
        self._setting: Setting = conf.get
        self._master = context.master
        self.resize(parallelisms)
        self._used: frozenset[str] = frozenset()  # ids of those that have subtasks
        self._byte_array: Any = byte_array_tag(context)
        self._stored: _Stored | None = None  # by those with subtasks
        self._cancelled = cancelled
        self._clock = clock
        self._pause = pause
        self._attempt = 0
        self.awaited = ""

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
        before = self.executors
        try:
            self.executors = self._await_executors()
        finally:
            self.awaited = ""
        self._attempt = attempt
        self._used = self._with_subtasks()
        self._hold()
        return self.executors != before

    def _hold(self) -> None:
        """Have those with subtasks store a few bytes each: Spark takes none that stores something for idle.

        While a subtask waits for others, Spark runs no task of it, and would take its executor away, with its state. What
        they store is let go when the next ones store theirs, so that at no moment nobody stores anything.
        """
        before = self._stored
        if not dynamic_allocation(self._setting) or (before is not None and before.by == self._used):
            return
        held = [executor.location for executor in self.executors if executor.id in self._used]
        elements = [self._tuple(bytearray(), self._sequence([location])) for location in held]
        rdd = self._scala_context.makeRDD(self._sequence(elements), self._byte_array).cache()
        self._stored = _Stored(self._used, rdd, rdd.toJavaRDD().countAsync())
        if before is not None:
            threading.Thread(
                target=self._stored.replace, args=(before,), name="executors", daemon=True
            ).start()

    def let_go(self) -> None:
        """From now on Spark may take any executor away."""
        if self._stored is not None:
            self._stored.let_go()

    def resize(self, parallelisms: Collection[int]) -> None:
        """The job's stages have other numbers of subtasks; executors that are there are not waited for again."""
        self._parallelisms = frozenset(parallelisms)
        self._wanted = wanted(self._master, self._setting, max(parallelisms))

    def come(self, subtasks: int, over: Callable[[], bool]) -> list[Executor]:
        """Have the executors come that more subtasks need, beside the epochs; returns those that are there then.

        Where executors do not come with tasks, those that are there are all.

        Args:
            over: says whether they are not needed any more.
        """
        found, needed = self._staying(self._used), self._needed_executors(subtasks)
        until = self._clock() + self._registration_s()
        ask_at = self._clock()
        while len(found) < needed and self._clock() < until and not over():
            if self._clock() >= ask_at:
                ask_at += _ASK_AGAIN_S
                if not self._ask_for(needed):
                    break
            self._pause(_LOOK_S)
            found = self._staying(self._used)
        return found

    def _staying(self, busy: Collection[str] = ()) -> list[Executor]:
        """Executors but for those that Spark is about to take away, since they idled.

        Args:
            busy: ids of those that run subtasks, and do not go.
        """
        found = self._find()
        if not dynamic_allocation(self._setting):
            return found
        backend = self._scala_context.schedulerBackend()
        return [each for each in found if each.id in busy or backend.isExecutorActive(each.id)]

    def slots(self) -> int | None:
        """How many tasks executors run at a time, with those that dynamic allocation may bring; None: no bound is known."""
        found = sum(executor.slots for executor in self._find())
        if not dynamic_allocation(self._setting):
            return found or None
        most = self._setting("spark.dynamicAllocation.maxExecutors")
        return None if most is None else max(found, int(most) * self._slots_of_each())

    def location(self, subtask: int, parallelism: int, executors: list[Executor] | None = None) -> str:
        """The location that a subtask of a stage prefers; neighbours share an executor.

        Args:
            executors: that are there; None for those of the attempt.
        """
        slots = _slots(self.executors if executors is None else executors)
        return slots[subtask * len(slots) // parallelism].location

    def lost(self) -> list[str]:
        """Those of the executors with subtasks that are gone."""
        alive = self.alive()
        gone = self._used - alive
        return [executor.location for executor in self.executors if executor.id in gone]

    def there(self) -> list[Executor]:
        """Those of the attempt's executors that are not gone, with subtasks and without."""
        alive = self.alive()
        return [executor for executor in self.executors if executor.id in alive]

    def _await_executors(self) -> list[Executor]:
        began = last = self._clock()
        target, patience_s = self._target()
        tell_s, found = _TOLD_AFTER_S, self._staying()
        needed = max(self._needed_executors(max(self._parallelisms)), target.executors or 0)
        ask_at = began
        if needed > len(found):
            self._ask_for(needed)
            ask_at += _ASK_AGAIN_S
        while not target.suffices(found):
            self.awaited = target.told(found)
            if self._clock() >= ask_at:
                self._ask_for(needed)
                ask_at += _ASK_AGAIN_S
            if (reason := self._cancelled()) is not None:
                raise EpochFailedError(reason)
            waited_s = self._clock() - began
            left_s = patience_s - (self._clock() - last) if found else _NONE_S - waited_s
            if left_s <= 0:
                self._check_some_came(found)
                log.warning(
                    "%s on %s after %.0f s: the job goes on with what is there. Executors that come later take a share of "
                    "its subtasks when the job restarts",
                    target.told(found),
                    self._master,
                    waited_s,
                )
                break
            if waited_s >= tell_s:
                tell_s += _TOLD_AGAIN_S
                log.warning(
                    "%s on %s: the job waits for the rest, at most %.0f s more",
                    target.told(found),
                    self._master,
                    left_s,
                )
            self._pause(_LOOK_S)
            if len(now := self._staying()) > len(found):
                last = self._clock()
            found = now
        return found

    def _target(self) -> tuple[Wanted, float]:
        """What an attempt waits for, and for how many seconds since the last executor came."""
        if not self.executors:
            return self._wanted, self._while_idle(self._registration_s())
        # What never came is not waited for again, nor what had or will have nothing to do.
        most = min(len(self._used), len(self._with_subtasks()))
        fewer = Wanted(min(most, self._wanted.executors or most), self._wanted.slots)
        return fewer, self._while_idle(_REPLACEMENT_S)

    def _check_some_came(self, found: list[Executor]) -> None:
        """Raise where no executor came in all that time."""
        if not found:
            lost = ""
            if self._master.startswith("spark://"):
                lost = (
                    "; or the master has ended. One that began anew knows the application only with "
                    "spark.deploy.recoveryMode: without, run the job again, which goes on from its last checkpoint"
                )
            raise EpochFailedError(
                f"no executor registered within {_NONE_S:.0f} s on {self._master}: see there whether the application "
                "waits for cores or memory (spark.executor.cores, spark.executor.memory, spark.cores.max) or its "
                f"executors end at once (their logs say why){lost}"
            )

    def _with_subtasks(self) -> frozenset[str]:
        """Ids of those of the attempt's executors that some stage's subtask prefers."""
        slots = _slots(self.executors)
        return frozenset(
            slots[subtask * len(slots) // parallelism].id
            for parallelism in self._parallelisms
            for subtask in range(parallelism)
        )

    def _ask_for(self, executors: int) -> bool:
        """Have the application ask for this many in all; returns whether they come that way.

        Where they come and go with tasks, Spark asks when tasks wait, and before an attempt none do. Of what it asked for
        before, less or more by now than are there, it does not tell; and it may ask for fewer again. Executors of other
        profiles that have not come yet stay asked for: a master (standalone, YARN, Kubernetes) keeps the number
        of each profile that a request does not name. On YARN nobody answers while the application's own master is
        gone, until YARN has started another one: callers that wait ask again.
        """
        if not dynamic_allocation(self._setting):
            return False
        try:
            self._scala_context.requestTotalExecutors(executors, 0, self._nowhere)
        except Py4JJavaError:
            if self._scala_context.isStopped():
                raise
        return True

    def _registration_s(self) -> float:
        return self._time_s("spark.scheduler.maxRegisteredResourcesWaitingTime", "ms", _REGISTRATION_S)

    def _while_idle(self, wait_s: float) -> float:
        """How long to wait for executors, so that those that are there and idle meanwhile are not taken away."""
        if not dynamic_allocation(self._setting):
            return wait_s
        return min(wait_s, self._time_s("spark.dynamicAllocation.executorIdleTimeout", "s", _IDLE_S) / 2)

    def _time_s(self, key: str, unit: str, otherwise: float) -> float:
        """A setting that is a time; ``otherwise`` where it is not set, or cannot be read."""
        given = self._setting(key)
        parsed = _TIME.fullmatch(given.strip().lower()) if given is not None else None
        if parsed is None or (parsed[2] or unit) not in _UNITS_S:
            return otherwise
        return int(parsed[1]) * _UNITS_S[parsed[2] or unit]

    def _needed_executors(self, subtasks: int) -> int:
        each = self._slots_of_each()
        most = int(self._setting("spark.dynamicAllocation.maxExecutors") or subtasks)
        return max(1, min(most, math.ceil(subtasks / each)))

    def _slots_of_each(self) -> int:
        return max(1, int(self._setting("spark.executor.cores") or 1) // task_cpus(self._setting))

    def alive(self) -> set[str]:
        """Ids of the executors that the scheduler gives tasks to; as many calls however many there are.

        More are registered: on YARN and Kubernetes one whose connection is gone is so until these say what became of it, for
        a lost machine many minutes.
        """
        running = self._task_scheduler.runningTasksByExecutors()
        return set(str(running.keys().mkString("\n")).split("\n")) - {""}

    def _find(self) -> list[Executor]:
        """Executors, in order of their ids; those of other resource profiles are for others."""
        alive = self.alive()
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


def _slots(executors: list[Executor]) -> list[Executor]:
    """Each executor as often as it runs tasks at a time."""
    return [executor for executor in executors for _ in range(executor.slots)]
