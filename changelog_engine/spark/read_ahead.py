"""Stages that run the next epoch while those behind them run this one: sources read it, and others follow.

They run as Spark jobs of their own then, each of which makes a shuffle. When those with sources have run an epoch, a thread
submits them for the next one, behind the epoch's own job, and each of the others when it has run the epoch. The next
epoch's job finds their shuffles: Spark waits for them, or passes over what is there.

Invariants:
    * A subtask runs its epochs one after the other: a stage is submitted for an epoch when all of its subtasks have run the
      epoch before.
    * What ran ahead is the next epoch's or nobody's.
    * What a stage sends is forgotten when Spark expects no more of it: the output of a task whose shuffle is gone would end
      the SparkContext.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pyspark import SparkContext

from changelog_engine.driver.protocols import Orders
from changelog_engine.spark.jvm import LOST
from changelog_engine.spark.stage_rdds import Shuffled

_PATIENCE_S = 30  # until Spark has cancelled a job


class Begun(NamedTuple):
    """An epoch that stages have begun to run, each as a job of its own."""

    epoch: tuple[str, int, int]  # run, attempt and number
    shuffled: dict[int, Shuffled]  # what stages send, by stage
    jobs: dict[int, Any]  # Scala's futures, by stage


class ReadAhead:
    """Begins the next epoch; one thread calls its methods.

    Args:
        submit: has some stages run an epoch with these orders; called in a thread of this object.
        forget: lets go of what stages sent.
    """

    def __init__(
        self,
        context: SparkContext,
        submit: Callable[[Iterable[int], Orders, Begun], None],
        forget: Callable[[dict[int, Shuffled]], None],
    ) -> None:
        self._jvm: Any = context._jvm
        self._submit = submit
        self._forget = forget
        self._lock = threading.Lock()
        self._now: Begun | None = None  # of the epoch that runs
        self._ahead: Begun | None = None
        self._open = False  # whether stages may begin the epoch behind the one that runs
        self._failure: BaseException | None = None
        self._asked: queue.SimpleQueue[tuple[Begun, list[list[int]], Callable[[], Orders | None]] | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None

    def take(self, orders: Orders) -> Begun:
        """What ran ahead of an epoch that begins, if anything did; what did of another one is given up.

        What is added to it is cancelled with it.
        """
        epoch = orders(0, 0).of_epoch
        if self._ahead is not None and self._ahead.epoch != epoch:
            self.drop()
        now = self._ahead or Begun(epoch, {}, {})
        self._now, self._ahead, self._open = now, None, True
        return now

    def begin(self, now: Begun, steps: list[list[int]], following: Callable[[], Orders | None]) -> None:
        """When stages have run an epoch, have them run the next one.

        Args:
            steps: stages that begin together, those with sources first.
            following: see ``Following.orders``.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="read-ahead", daemon=True)
            self._thread.start()
        self._asked.put((now, steps, following))

    def end(self) -> None:
        """The epoch has ended: nothing is begun beside it any more.

        Raises:
            Exception: what ``following`` raised.
        """
        with self._lock:
            self._open = False
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def failure(self) -> str | None:
        """What Spark says of why the stages that had begun the epoch that runs ahead failed; None where they did not."""
        for job in () if self._now is None else self._now.jobs.values():
            if job.isCompleted() and job.value().get().isFailure():
                return str(job.value().get().failed().get().getMessage())
        return None

    def cancel(self) -> bool:
        """Cancel what runs; whether Spark has taken note of it, and takes nothing of what it sends any more."""
        with self._lock:
            self._open = False
            begun = [
                job for each in (self._now, self._ahead) if each is not None for job in each.jobs.values()
            ]
        try:
            for job in begun:
                job.cancel()
            patience = self._jvm.scala.concurrent.duration.Duration.apply(_PATIENCE_S, "s")
            for job in begun:
                self._jvm.scala.concurrent.Await.ready(job, patience)
        except LOST:
            return False
        return True

    def drop(self) -> None:
        """Give up what runs, or has run, for an epoch that will not be."""
        cancelled = self.cancel()
        with self._lock:
            ahead = self._ahead
            self._now = self._ahead = self._failure = None
        if ahead is not None and cancelled:
            self._forget(ahead.shuffled)

    def close(self) -> None:
        """Give up what is under way."""
        self.drop()
        self._asked.put(None)

    def _serve(self) -> None:
        while (asked := self._asked.get()) is not None:
            now, steps, following = asked
            try:
                self._follow(now, steps, following)
            except LOST:
                pass  # the epoch's own failure says more
            except BaseException as error:
                self._failure = error

    def _follow(self, now: Begun, steps: list[list[int]], following: Callable[[], Orders | None]) -> None:
        """Have each step begin the next epoch when it has run this one, as long as this one runs."""
        orders: Orders | None = None
        for stages in steps:
            if not self._have_ended([now.jobs[stage] for stage in stages]):
                return
            with self._lock:
                if not self._open or self._now is not now:
                    return
                try:  # end() waits for the lock, and is told
                    orders = orders or following()
                    if orders is None:
                        return
                    if self._ahead is None:
                        self._ahead = Begun(orders(0, 0).of_epoch, {}, {})
                    self._submit(stages, orders, self._ahead)
                except LOST:
                    raise
                except BaseException as error:
                    self._failure = error
                    return

    def _have_ended(self, jobs: list[Any]) -> bool:
        """Wait for stages' end; whether all of them succeeded."""
        forever = self._jvm.scala.concurrent.duration.Duration.Inf()
        for job in jobs:
            self._jvm.scala.concurrent.Await.ready(job, forever)
        return all(job.value().get().isSuccess() for job in jobs)
