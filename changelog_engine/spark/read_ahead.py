"""Sources that read the next epoch while the stages behind them run this one.

The stages without inputs run as Spark jobs of their own then, each of which makes a shuffle. When those of an epoch have
ended, a thread submits those of the next one, behind the epoch's own job. The next epoch's job finds their shuffles: Spark
waits for them, or passes over what is there.

Invariants:
    * A subtask runs its epochs one after the other: what reads an epoch is submitted when all of the epoch before have
      read theirs.
    * What was read ahead is the next epoch's or nobody's.
    * What a stage sends is forgotten when Spark expects no more of it: the output of a task whose shuffle is gone would end
      the SparkContext.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark import SparkContext

from changelog_engine.driver.protocols import Orders
from changelog_engine.spark.jvm import LOST

_PATIENCE_S = 30  # until Spark has cancelled a job


class Shuffled(NamedTuple):
    """What the subtasks of a stage send, in one partition space.

    Args:
        blocks: Scala's RDD of it.
        dependency: Scala's shuffle dependency; submitted by itself, it runs the stage.
    """

    blocks: Any
    dependency: Any


class SourceJobs(NamedTuple):
    """The stages without inputs in one epoch.

    Args:
        epoch: run, attempt and number.
        shuffled: what they send, by stage.
        jobs: Scala's futures.
    """

    epoch: tuple[str, int, int]
    shuffled: dict[int, Shuffled]
    jobs: list[Any]


class ReadAhead:
    """Begins the next epoch's reading; one thread calls its methods.

    Args:
        submit: submits the stages without inputs with these orders; called in a thread of this object.
        forget: lets go of what stages sent.
    """

    def __init__(
        self,
        context: SparkContext,
        submit: Callable[[Orders], SourceJobs],
        forget: Callable[[dict[int, Shuffled]], None],
    ) -> None:
        self._jvm: Any = context._jvm
        self._submit = submit
        self._forget = forget
        self._lock = threading.Lock()
        self._now: SourceJobs | None = None  # of the epoch that runs
        self._ahead: SourceJobs | None = None
        self._open = False  # whether the epoch behind the one that runs may begin
        self._failure: BaseException | None = None
        self._asked: queue.SimpleQueue[tuple[SourceJobs, Callable[[], Orders | None]] | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None

    def take(self, orders: Orders) -> SourceJobs | None:
        """What was read ahead of an epoch that begins; what was read of another one is given up."""
        if self._ahead is not None and self._ahead.epoch != orders(0, 0).of_epoch:
            self.drop()
        self._now, self._ahead, self._open = self._ahead, None, True
        return self._now

    def begin(self, reading: SourceJobs, following: Callable[[], Orders | None]) -> None:
        """When an epoch's sources have read, have them read the next one.

        Args:
            reading: of the epoch that runs.
            following: see EpochRunner.
        """
        self._now = reading
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="read-ahead", daemon=True)
            self._thread.start()
        self._asked.put((reading, following))

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
        """What Spark says of why the sources that had begun with the epoch that runs failed; None where they did not."""
        for job in () if self._now is None else self._now.jobs:
            if job.isCompleted() and job.value().get().isFailure():
                return str(job.value().get().failed().get().getMessage())
        return None

    def cancel(self) -> bool:
        """Cancel what reads; whether Spark has taken note of it, and takes nothing of what it sends any more."""
        with self._lock:
            self._open = False
            begun = [
                job for reading in (self._now, self._ahead) if reading is not None for job in reading.jobs
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
        """Give up what reads, or has read, for an epoch that will not be."""
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
            reading, following = asked
            try:
                if not self._has_ended(reading):
                    continue
                with self._lock:
                    if self._open and self._now is reading and (orders := following()) is not None:
                        self._ahead = self._submit(orders)
            except LOST:
                pass  # the epoch's own failure says more
            except BaseException as error:
                self._failure = error

    def _has_ended(self, reading: SourceJobs) -> bool:
        """Wait for the stages' end; whether all of them succeeded."""
        forever = self._jvm.scala.concurrent.duration.Duration.Inf()
        for job in reading.jobs:
            self._jvm.scala.concurrent.Await.ready(job, forever)
        return all(job.value().get().isSuccess() for job in reading.jobs)
