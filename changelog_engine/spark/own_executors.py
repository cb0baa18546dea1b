"""Executors for tasks beside the epochs: they come when such tasks wait, and go when they have nothing to do.

Spark gives a resource profile executors of its own where executors come and go with the tasks (dynamic allocation). Without
it a profile shares the executors of the others, and there are none to be had here.

Invariants:
    * An executor of another profile than the default one never gets an epoch's task, and ``placement`` leaves it out.
    * Waiting for one is bounded: a cluster without room delays nobody forever.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pyspark import SparkContext

from changelog_engine.clock import Deadline
from changelog_engine.spark.jvm import LOST, byte_array_tag
from changelog_engine.spark.placement import dynamic_allocation
from changelog_engine.spark.session import task_cpus

log = logging.getLogger("changelog_engine")

_PATIENCE_S = 60.0  # for an executor to come
_AGAIN_S = 600.0  # from then on until one is asked for again
_LOOK_S = 5.0  # from one look to the next whether one is still there


class ExecutorsWanted(NamedTuple):
    """What executors there are to be."""

    most: int = 1  # how many at most; 0 for none
    cores: int = 1  # of each executor, which is how many tasks run there at a time
    memory_bytes: int | None = None  # of the JVM of each; None for that of the epochs' executors


class OwnExecutors:
    """Executors of a resource profile of their own.

    Args:
        name: what Spark's interface says that they are for.
    """

    def __init__(
        self,
        context: SparkContext,
        wanted: ExecutorsWanted,
        name: str,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._context = context
        self._wanted = wanted
        self._name = name
        self._patience_s = patience_s
        self._task_cpus = task_cpus(context.getConf().get)
        self._profile: Any = None
        self._not_before: Deadline | None = None

    @staticmethod
    def may_come(context: SparkContext, wanted: ExecutorsWanted) -> bool:
        """Whether a session can have such executors.

        Spark keeps as many of each profile as of the default one at least: more than are wanted, and they never went.
        """
        setting = context.getConf().get
        least = int(setting("spark.dynamicAllocation.minExecutors") or 0)
        return dynamic_allocation(setting) and max(1, least) <= wanted.most

    @property
    def tasks_at_once(self) -> int:
        """How many tasks all of them run at a time."""
        return self._wanted.most * self._wanted.cores

    def own(self, rdd: Any) -> Any:
        """A Scala RDD as one whose tasks run there alone."""
        if self._profile is None:
            self._profile = self._profile_of()
        return rdd.withResources(self._profile)

    def ready(self, group: str, stopped: threading.Event) -> bool:
        """Whether an executor is there; asks for one and waits where there is none.

        Args:
            group: the job group of what waits, and of nothing else.
            stopped: is set before that group is cancelled.
        """
        if self._not_before is not None and not self._not_before.passed:
            return False
        try:
            if self._there():
                return True
            came = self._awaited(group)
        except LOST as error:
            if stopped.is_set():
                return False
            log.warning("Spark gives snapshots no executors of their own: %s", str(error).splitlines()[0])
            came = False
        self._not_before = None if came else Deadline(_AGAIN_S)
        return came

    @contextlib.contextmanager
    def kept(self, give_up: Callable[[], None]) -> Iterator[None]:
        """Within it tasks run there: they are given up when the executors are gone and no other one comes in time.

        Args:
            give_up: cancels the tasks; called from another thread, once.
        """
        ended = threading.Event()
        threading.Thread(target=self._watch, args=(ended, give_up), name="executors", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def _watch(self, ended: threading.Event, give_up: Callable[[], None]) -> None:
        patience = Deadline(self._patience_s)
        while not ended.wait(_LOOK_S):
            with contextlib.suppress(*LOST):  # the tasks' own failure says more
                if self._there():
                    patience = Deadline(self._patience_s)
            if patience.passed:
                self._not_before = Deadline(_AGAIN_S)
                log.warning(
                    "the executor for the %s is gone, and no other one came within %.0f s: it is asked for again in %.0f "
                    "minutes",
                    self._name,
                    self._patience_s,
                    _AGAIN_S / 60,
                )
                give_up()
                return

    def _awaited(self, group: str) -> bool:
        """Run a task that does nothing: while it waits for an executor, Spark asks for one."""
        context = self._context
        context.setJobGroup(group, f"waiting for an executor: {self._name}", interruptOnCancel=True)
        jvm: Any = context._jvm
        elements = jvm.PythonUtils.toSeq([bytearray(b"")])
        rdd = self.own(context._jsc.sc().makeRDD(elements, 1, byte_array_tag(context)))
        late = threading.Event()

        def give_up() -> None:
            late.set()
            context.cancelJobGroup(group)

        timer = threading.Timer(self._patience_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            rdd.count()
        except LOST:
            if not late.is_set():
                raise
            log.warning(
                "no executor of its own came for the %s within %.0f s: the cluster has no room for it beside the epochs "
                "(changelog.materialization.executor.cores = %d), spark.cores.max does not allow it, or it ended at once "
                "(see its log). Snapshots are made elsewhere; it is asked for again in %.0f minutes, and never with "
                "changelog.materialization.executors: 0",
                self._name,
                self._patience_s,
                self._wanted.cores,
                _AGAIN_S / 60,
            )
            return False
        finally:
            timer.cancel()
        return True

    def _there(self) -> bool:
        if self._profile is None:
            return False
        scala: Any = self._context._jsc.sc()
        listed = scala.statusStore().executorList(True)
        return any(
            listed.apply(number).resourceProfileId() == self._profile.id() for number in range(listed.size())
        )

    def _profile_of(self) -> Any:
        """The profile; Spark keeps each for good, so that of a job before is taken again."""
        jvm: Any = self._context._jvm
        resource = jvm.org.apache.spark.resource
        executor = resource.ExecutorResourceRequests().cores(self._wanted.cores * self._task_cpus)
        if self._wanted.memory_bytes is not None:
            executor = executor.memory(f"{max(1, self._wanted.memory_bytes // 2**20)}m")
        tasks = resource.TaskResourceRequests().cpus(self._task_cpus)
        profile = resource.ResourceProfileBuilder().require(executor).require(tasks).build()
        known = self._context._jsc.sc().resourceProfileManager().getEquivalentProfile(profile)
        return known.get() if known.isDefined() and known.get().id() else profile
