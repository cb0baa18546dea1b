"""One epoch as one Spark job, with every subtask in its own pinned Python process.

A partition is cut out of the shuffled RDD with PartitionPruningRDD, so that each cut can have a process of its own; the
union of the cuts is the stage.

Invariants:
    * Each stage is computed once per epoch: all its exchanges share one shuffle, in one partition space.
    * The reports of all stages reach the driver through the data itself; a report that is missing fails the epoch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark import SparkContext
from pyspark.serializers import NoOpSerializer
from pyspark.util import _load_from_socket

from changelog_engine.errors import ChangelogEngineError, EpochFailedError, StateLostError
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.operators.messages import EpochOrder, EpochReport
from changelog_engine.spark.background import BackgroundTasks, room_beside
from changelog_engine.spark.files import NO_FILES, WorkerFiles
from changelog_engine.spark.jvm import LOST, byte_array_tag, spark_ended
from changelog_engine.spark.notes import WorkerNotes
from changelog_engine.spark.pinned import PinnedFunctions
from changelog_engine.spark.placement import Placement
from changelog_engine.spark.printed import printed_output
from changelog_engine.spark.shipping import ShippedJob
from changelog_engine.spark.task import SubtaskTask, failure_of, failure_of_spark, is_failure

log = logging.getLogger("changelog_engine")

Orders = Callable[[int, int], EpochOrder]
_CALL_SITE = ("callSite.short", "callSite.long")  # what Spark's interface calls a stage
_GROUP_PROPERTIES = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
    *_CALL_SITE,
)
_LONGEST_NAME = 120


class SparkEpochRunner:
    """Runs epochs of one job on a SparkContext.

    Args:
        context: the SparkContext; it stays the caller's.
        job: what to run.
        files: of the job, if it has any.
    """

    def __init__(self, context: SparkContext, job: ShippedJob, files: WorkerFiles = NO_FILES) -> None:
        self.context = context
        self.plan: JobPlan = job.plan
        self.run_id = job.run
        self._parallelism = self.plan.parallelism_of
        self._shipped = job
        self._job = context.broadcast(job)
        self._files = files
        self._functions = PinnedFunctions(context, self._job, files)
        self._printed = printed_output(context)
        self._notes = None
        if self._printed is not None:
            self._notes = WorkerNotes(os.path.dirname(self._printed.path), job.run)
        # Each step of a path such as jvm.org.apache.spark is a call, so classes are looked up once.
        jvm: Any = context._jvm
        self._scala_context: Any = context._jsc.sc()
        self._pruning: Any = jvm.org.apache.spark.rdd.PartitionPruningRDD
        self._one: Any = getattr(jvm.scala.collection.immutable, "Set$Set1")
        self._tuple: Any = jvm.scala.Tuple2
        self._pairwise: Any = jvm.PairwiseRDD
        self._partitioner: Any = jvm.PythonPartitioner
        self._python_rdd: Any = jvm.PythonRDD
        self._to_sequence: Any = jvm.PythonUtils.toSeq
        self._byte_array: Any = byte_array_tag(context)
        names = {node.id: node.name for node in self.plan.graph.nodes}
        self._stage_names = {
            stage.id: f"stage {stage.id}: {', '.join(names[node] for node in stage.nodes)}"[:_LONGEST_NAME]
            for stage in self.plan.stages
        }
        self._placement: Placement | None = None
        if not context.master.startswith("local") or context.master.startswith("local-cluster"):
            widest = max(stage.parallelism for stage in self.plan.stages)
            self._placement = Placement(context, widest, lambda: self._cancelled)
        self._starts: dict[tuple[int, int], Any] = {}
        self._sets: dict[int, Any] = {}
        self._group_before: list[tuple[str, str | None]] | None = None
        self._cancel_lock = threading.Lock()
        self._cancelled: str | None = None
        self._start_workers(_subtasks(job.plan))

    def run(self, orders: Orders, timeout_s: float) -> list[EpochReport]:
        """Run one epoch.

        Args:
            orders: (stage, subtask) to what it is asked to do.
            timeout_s: the epoch is cancelled after this time.

        Returns:
            One report a subtask, by stage and subtask.

        Raises:
            UserFunctionError: and the engine's other errors, as the worker raised them.
            EpochFailedError: a task, worker or executor was lost, or the epoch timed out.
        """
        try:
            return self._run(orders, timeout_s)
        except ChangelogEngineError:
            raise  # some are OSErrors too, and what a worker raised stays what it is
        except LOST as error:
            raise self._failure(error) from None
        finally:
            if self._printed is not None:
                self._printed.show()

    def _run(self, orders: Orders, timeout_s: float) -> list[EpochReport]:
        self._cancelled = None
        if self._placement is not None and self._placement.place(orders(0, 0).attempt):
            self._starts.clear()
        shuffles: list[int] = []
        timer = threading.Timer(timeout_s, self.cancel, [f"the epoch took longer than {timeout_s:.0f} s"])
        timer.daemon = True
        timer.start()
        try:
            served = self._python_rdd.collectAndServe(self._build(orders, shuffles))
            with _load_from_socket(served, NoOpSerializer()) as stream:
                collected = list(stream)
        except Exception as error:
            raise self._failure(error) from None
        finally:
            timer.cancel()
            self._forget(shuffles)
        if self._placement is not None and (lost := self._placement.lost()):
            # Spark repeated what the lost one had made; a user's function need not give the same twice.
            raise EpochFailedError(f"executors were lost: {', '.join(lost)}")
        return self._reports(collected)

    def prepare(self, plan: JobPlan) -> None:
        """See EpochRunner: the processes of further subtasks start, and import what they need."""
        added = [each for each in _subtasks(plan) if each not in set(_subtasks(self.plan))]
        if not added:
            return
        with contextlib.suppress(*LOST):  # the first epoch's failure says more
            self._start_workers(added)
            self.context.setLocalProperty(
                _CALL_SITE[0], f"starting {len(added)} more workers of {plan.graph.name}"
            )
            starts = [
                self._functions.warm_up(self._start_of(plan.stages[stage], subtask), stage, subtask)
                for stage, subtask in added
            ]
            with _load_from_socket(
                self._python_rdd.collectAndServe(self._union(starts)), NoOpSerializer()
            ) as stream:
                list(stream)

    def rescale(self, plan: JobPlan) -> None:
        """See EpochRunner. The processes of subtasks that go on to be there are used again."""
        shipped, before = self._shipped.with_plan(plan), self._job
        try:
            self._job = self.context.broadcast(shipped)
        except LOST as error:
            raise self._failure(error) from None
        self._shipped, self.plan, self._parallelism = shipped, shipped.plan, shipped.plan.parallelism_of
        self._functions.carry(self._job)
        self._starts.clear()  # where a subtask runs depends on how many there are
        with contextlib.suppress(Exception):
            before.destroy()

    def _start_workers(self, subtasks: Iterable[tuple[int, int]]) -> None:
        if self._placement is None:
            with contextlib.suppress(*LOST):  # the first epoch's failure says more
                self._functions.start_workers(subtasks)

    def cancel(self, reason: str) -> None:
        """Cancel the epoch that is running; it fails with the reason."""
        with self._cancel_lock:
            self._cancelled = reason
        with contextlib.suppress(*LOST):  # the epoch's own failure says more
            self.context.cancelJobGroup(self.run_id)

    def noted(self, attempt: int) -> tuple[int, int, int] | None:
        """How many subtasks are up in an attempt, and the rows and bytes of state they have read; None: not known."""
        return None if self._notes is None else self._notes.read(attempt)

    def background(self) -> BackgroundTasks | None:
        """What runs tasks beside the epochs; None where there is no room for them."""
        if not room_beside(self.context, self.plan):
            log.info(
                "Spark (%s) has no slot that epochs of %r leave free: its snapshots are made in a process on this machine",
                self.context.master,
                self.plan.graph.name,
            )
            return None
        return BackgroundTasks(self.context, f"upkeep of {self.plan.graph.name}", files=self._files)

    def close(self) -> None:
        """Let go of what the job keeps in Spark, and give this thread its own job group back."""
        self._functions.close()
        if self._notes is not None:
            self._notes.clear()
        with contextlib.suppress(Exception):
            for name, value in self._group_before or ():
                self.context.setLocalProperty(name, value)  # None removes it
            self._job.destroy()

    def _build(self, orders: Orders, shuffles: list[int]) -> Any:
        """The epoch's RDD: the union of all ends."""
        if self._group_before is None:
            self._group_before = [(name, self.context.getLocalProperty(name)) for name in _GROUP_PROPERTIES]
        self.context.setJobGroup(self.run_id, f"epoch {orders(0, 0).epoch} of {self.plan.graph.name}")
        shuffled: dict[int, Any] = {}
        ends: list[Any] = []
        for stage in self.plan.stages:
            for name in _CALL_SITE:
                self.context.setLocalProperty(name, self._stage_names[stage.id])
            subtasks = [
                self._subtask(stage, subtask, orders(stage.id, subtask), shuffled)
                for subtask in range(stage.parallelism)
            ]
            if stage.outputs:
                partitions = stage.partitions(self._parallelism)[-1]
                shuffled[stage.id] = self._shuffle(subtasks, partitions, shuffles)
            else:
                ends.extend(subtasks)
        return self._union(ends)

    def _subtask(self, stage: Stage, subtask: int, order: EpochOrder, shuffled: dict[int, Any]) -> Any:
        """The subtask's Python RDD (all RDDs here are Scala's)."""
        located = self._placement is not None and bool(stage.inputs)
        source = self._input(stage, subtask, shuffled) if stage.inputs else self._start(stage, subtask)
        if located:
            start = self._start(stage, subtask).toJavaRDD()
            source = start.cartesian(source.toJavaRDD()).rdd()
        partitions = stage.partitions(self._parallelism)[-1]
        printed = None if self._printed is None else self._printed.path
        notes = None if self._notes is None else self._notes.path(order.attempt, stage.id, subtask)
        task = SubtaskTask(self._job, order, stage.id, subtask, partitions, located, printed, notes)
        return self._functions.rdd(source, task)

    def _input(self, stage: Stage, subtask: int, shuffled: dict[int, Any]) -> Any:
        """The blocks for one subtask: its partitions cut out of every upstream stage's shuffle."""
        cuts = []
        for edge in stage.inputs:
            upstream = self.plan.stages[edge.from_stage]
            offset = upstream.partitions(self._parallelism)[upstream.outputs.index(edge)]
            cuts.append(self._pruning.create(shuffled[upstream.id], self._set_of(offset + subtask)))
        if len(cuts) == 1:
            return cuts[0]
        return self._union(cuts).toJavaRDD().coalesce(1).rdd()

    def _shuffle(self, subtasks: list[Any], partitions: int, shuffles: list[int]) -> Any:
        pairs = self._pairwise(self._union(subtasks)).asJavaPairRDD()
        moved = pairs.partitionBy(self._partitioner(partitions, 0))
        shuffles.append(moved.rdd().dependencies().head().shuffleId())
        return self._python_rdd.valueOfPair(moved).rdd()

    def _union(self, rdds: list[Any]) -> Any:
        if len(rdds) == 1:
            return rdds[0]
        return self._scala_context.union(self._sequence(rdds), self._byte_array)

    def _set_of(self, partition: int) -> Any:
        known = self._sets.get(partition)
        if known is None:
            known = self._sets[partition] = self._one(partition)
        return known

    def _start(self, stage: Stage, subtask: int) -> Any:
        """A one-element RDD: the input of a source subtask, or the location of a keyed one. Made once per job."""
        known = self._starts.get((stage.id, subtask))
        if known is None:
            known = self._starts[stage.id, subtask] = self._start_of(stage, subtask)
        return known

    def _start_of(self, stage: Stage, subtask: int) -> Any:
        element = self._tuple(bytearray(b""), self._sequence(self._locations(stage, subtask)))
        return self._scala_context.makeRDD(self._sequence([element]), self._byte_array)

    def _locations(self, stage: Stage, subtask: int) -> list[str]:
        return [] if self._placement is None else [self._placement.location(subtask, stage.parallelism)]

    def _sequence(self, items: Iterable[Any]) -> Any:
        return self._to_sequence(list(items))

    def _forget(self, shuffles: list[int]) -> None:
        """Remove an epoch's shuffle files; Spark alone would keep them until the JVM collects garbage."""
        with contextlib.suppress(*LOST):
            cleaner = self._scala_context.cleaner()
            if cleaner.isDefined():
                for shuffle in shuffles:
                    cleaner.get().doCleanupShuffle(shuffle, False)

    def _failure(self, error: Exception) -> ChangelogEngineError:
        if self._cancelled is not None:
            return EpochFailedError(self._cancelled)
        ended = spark_ended(self.context, error)
        if ended is not None:
            return ended
        return failure_of_spark(str(error))

    def _reports(self, collected: list[bytes]) -> list[EpochReport]:
        failures = [failure_of(data) for data in collected if is_failure(data)]
        if failures:  # lost state is what follows from another failure, so it comes last
            raise min(failures, key=lambda failure: isinstance(failure, StateLostError))
        reports = sorted(_decoded(collected), key=lambda report: (report.stage, report.subtask))
        expected = list(_subtasks(self.plan))
        got = [(report.stage, report.subtask) for report in reports]
        if got != expected:
            ended = spark_ended(self.context, None)
            if ended is not None:
                raise ended
            raise EpochFailedError(f"an epoch gave reports of {got} instead of {expected}")
        return reports


def _subtasks(plan: JobPlan) -> Iterator[tuple[int, int]]:
    """Stage and subtask of all that the plan has."""
    return ((stage.id, subtask) for stage in plan.stages for subtask in range(stage.parallelism))


def _decoded(collected: list[bytes]) -> Iterator[EpochReport]:
    for data in collected:
        yield pickle.loads(data)[1]
