"""The stages of a job as RDDs of Spark's JVM; all RDDs here are Scala's.

A stage is one RDD with a partition for each subtask, and its daemon finds the subtask's process (``pinned.py``). Where the
session's daemon is PySpark's, the partitions are cut out of it, each for a function of its own, and put together again.

Invariants:
    * Each stage is computed once per epoch: all its exchanges share one shuffle, in one partition space.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark import SparkContext
from pyspark.serializers import NoOpSerializer
from pyspark.util import _load_from_socket

from changelog_engine.driver.protocols import Orders
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.spark.job_group import name_stages
from changelog_engine.spark.jvm import LOST, byte_array_tag
from changelog_engine.spark.notes import WorkerNotes
from changelog_engine.spark.pinned import PinnedFunctions
from changelog_engine.spark.placement import Executor, Placement, Setting
from changelog_engine.spark.task import StageTask, WarmUp, pickled

_LONGEST_NAME = 120
_SORT_MANAGERS = ("sort", "tungsten-sort", "org.apache.spark.shuffle.sort.SortShuffleManager")


class Shuffled(NamedTuple):
    """What the subtasks of a stage send, in one partition space."""

    blocks: Any  # Scala's RDD of it
    dependency: Any  # Scala's shuffle dependency; submitted by itself, it runs the stage


class StageRdds:
    """Makes the RDDs of a plan's stages, and runs them.

    Args:
        placement: of the subtasks, on masters with executors of their own.
        printed: the pipe for what functions print; see StageTask.
    """

    def __init__(
        self,
        context: SparkContext,
        plan: JobPlan,
        job: Any,
        functions: PinnedFunctions,
        placement: Placement | None,
        printed: str | None = None,
        notes: WorkerNotes | None = None,
    ) -> None:
        self._context = context
        self._plan = plan
        self._parallelism = plan.parallelism_of
        self._job = job
        self._functions = functions
        self._placement = placement
        self._printed = printed
        self._notes = notes
        self._names = {stage.id: _name_of(plan, stage) for stage in plan.stages}
        # Each step of a path such as jvm.org.apache.spark is a call, so classes are looked up once.
        jvm: Any = context._jvm
        self._scala_context: Any = context._jsc.sc()
        self._pruning: Any = jvm.org.apache.spark.rdd.PartitionPruningRDD
        self._tuple: Any = jvm.scala.Tuple2
        self._pairwise: Any = jvm.PairwiseRDD
        self._partitioner: Any = jvm.PythonPartitioner
        self._python_rdd: Any = jvm.PythonRDD
        self._actions: Any = jvm.org.apache.spark.rdd.AsyncRDDActions
        self._to_sequence: Any = jvm.PythonUtils.toSeq
        self._byte_array: Any = byte_array_tag(context)
        # Spark's choice for byte arrays is Kryo, of which each task makes a new one for each partition that it writes.
        self._serializer: Any = jvm.org.apache.spark.serializer.JavaSerializer(self._scala_context.conf())
        self._streams_are_plain = streams_are_plain(context.getConf().get)
        self._starts: dict[tuple[int, ...], Any] = {}
        self._sets: dict[range, Any] = {}

    def add(self, stage: Stage, orders: Orders, shuffled: dict[int, Shuffled]) -> Any | None:
        """Add what a stage sends to other stages; returns the RDD of one that sends nothing."""
        name_stages(self._context, self._names[stage.id])
        subtasks = self._subtasks(stage, orders, shuffled)
        if not stage.outputs:
            return subtasks
        shuffled[stage.id] = self._shuffle(subtasks, stage.partitions(self._parallelism)[-1])
        return None

    def begin(self, sent: Shuffled) -> Any:
        """Run a stage as a job of its own; returns Scala's future."""
        return self._scala_context.submitMapStage(sent.dependency)

    def collect(self, rdds: list[Any]) -> list[bytes]:
        """Run RDDs as one job; returns what they give.

        Not by ``collectAndServe``: for that, Spark reads the bytecode of RDD and SparkContext anew each time, 400 kB, to see
        that two functions of its own can be sent. Of ``collectAsync`` it reads a class of 25 kB.
        """
        job = self._actions(self._union(rdds), self._byte_array).collectAsync()
        try:
            found = job.get()
        except Exception:  # PySpark's own for some of Java's, once there is a SparkSession
            ended = job.value()
            if ended.isDefined():
                ended.get().get()  # raises what the job failed with; the other only says that it waited
            raise
        served = self._python_rdd.serveIterator(found.iterator(), "results of an epoch")
        with _load_from_socket(served, NoOpSerializer()) as stream:
            return list(stream)

    def warm_up(self, stage: Stage, subtasks: range, executors: list[Executor]) -> Any:
        """The RDD that has the processes of some subtasks import what they need.

        Args:
            stage: with the parallelism that it will have.
            executors: where they are to be, on masters that have some.
        """
        functions, start = self._functions, self._start_of(stage, range(stage.parallelism), executors)
        task = WarmUp(self._job, frozenset(stage.nodes))
        if functions.routed:
            return self._cut(functions.warm_up(start, task, stage.id), subtasks)
        return self._union(
            [functions.warm_up(self._cut(start, range(n, n + 1)), task, stage.id, n) for n in subtasks]
        )

    def moved(self) -> None:
        """Subtasks run elsewhere than before."""
        self._starts.clear()

    def forget(self, shuffled: dict[int, Shuffled]) -> None:
        """Remove an epoch's shuffle files; Spark alone would keep them until the JVM collects garbage."""
        with contextlib.suppress(*LOST):
            cleaner = self._scala_context.cleaner()
            if cleaner.isDefined():
                for sent in shuffled.values():
                    cleaner.get().doCleanupShuffle(sent.dependency.shuffleId(), False)

    def _subtasks(self, stage: Stage, orders: Orders, shuffled: dict[int, Shuffled]) -> Any:
        """The Python RDD of a stage, with a partition for each subtask."""
        asked = [orders(stage.id, subtask) for subtask in range(stage.parallelism)]
        given, known = [], dict[bytes, bytes]()
        for order in asked:
            data = pickled(order)
            # One object goes into the task once, however many are told it.
            given.append(known.setdefault(data, data))
        located = self._placement is not None and bool(stage.inputs)
        partitions = stage.partitions(self._parallelism)[-1]

        def task(first: int, orders: list[bytes]) -> StageTask:
            return StageTask(
                self._job, orders, stage.id, first, partitions, located, self._printed, self._notes
            )

        source = self._source(stage, shuffled)
        if self._functions.routed:
            return self._functions.rdd(source, task(0, given))
        return self._union(
            [
                self._functions.rdd(self._cut(source, range(n, n + 1)), task(n, [order]), n)
                for n, order in enumerate(given)
            ]
        )

    def _source(self, stage: Stage, shuffled: dict[int, Shuffled]) -> Any:
        """The input of a stage, with a partition for each subtask."""
        if not stage.inputs:
            return self._start(tuple(range(stage.parallelism)), stage)
        blocks = self._blocks(stage, shuffled)
        if self._placement is None:
            return blocks
        placed = []
        for share in self._shares(stage):
            start = self._start((share.start,), stage).toJavaRDD()
            placed.append(start.cartesian(self._cut(blocks, share).toJavaRDD()).rdd())
        return self._union(placed)

    def _blocks(self, stage: Stage, shuffled: dict[int, Shuffled]) -> Any:
        """What other stages send to a stage: its partitions of every upstream stage's shuffle."""
        inputs = []
        for edge in stage.inputs:
            upstream = self._plan.stages[edge.from_stage]
            offsets = upstream.partitions(self._parallelism)
            inputs.append((shuffled[upstream.id].blocks, offsets[upstream.outputs.index(edge)], offsets[-1]))
        if len(inputs) == 1:
            blocks, first, size = inputs[0]
            return (
                blocks
                if size == stage.parallelism
                else self._cut(blocks, range(first, first + stage.parallelism))
            )
        # Without known locations, coalesce() puts neighbours together.
        cuts = [
            self._cut(blocks, range(first + subtask, first + subtask + 1))
            for subtask in range(stage.parallelism)
            for blocks, first, _ in inputs
        ]
        return self._union(cuts).toJavaRDD().coalesce(stage.parallelism).rdd()

    def _cut(self, rdd: Any, partitions: range) -> Any:
        """The RDD of some of another's partitions."""
        known = self._sets.get(partitions)
        if known is None:
            known = self._sets[partitions] = self._sequence(partitions).toSet()
        return self._pruning.create(rdd, known)

    def _shuffle(self, stage: Any, partitions: int) -> Shuffled:
        pairs = self._pairwise(stage).asJavaPairRDD()
        moved = pairs.partitionBy(self._partitioner(partitions, 0))
        if self._streams_are_plain:
            moved.rdd().setSerializer(self._serializer)
        return Shuffled(self._python_rdd.valueOfPair(moved).rdd(), moved.rdd().dependencies().head())

    def _union(self, rdds: list[Any]) -> Any:
        if len(rdds) == 1:
            return rdds[0]
        return self._scala_context.union(self._sequence(rdds), self._byte_array)

    def _start(self, subtasks: tuple[int, ...], stage: Stage) -> Any:
        """An RDD with an element for each subtask: the input of sources, or a location. Made once per placement."""
        known = self._starts.get((stage.id, *subtasks))
        if known is None:
            known = self._starts[stage.id, *subtasks] = self._start_of(stage, subtasks)
        return known

    def _start_of(
        self, stage: Stage, subtasks: Iterable[int], executors: list[Executor] | None = None
    ) -> Any:
        elements = [
            self._tuple(bytearray(b""), self._sequence(self._locations(stage, subtask, executors)))
            for subtask in subtasks
        ]
        return self._scala_context.makeRDD(self._sequence(elements), self._byte_array)

    def _locations(self, stage: Stage, subtask: int, executors: list[Executor] | None = None) -> list[str]:
        if self._placement is None:
            return []
        return [self._placement.location(subtask, stage.parallelism, executors)]

    def _shares(self, stage: Stage) -> list[range]:
        """The subtasks that are at one place, for each place."""
        located = itertools.groupby(  # drives our own code
            range(stage.parallelism), lambda subtask: self._locations(stage, subtask)
        )
        shares = [list(subtasks) for _, subtasks in located]
        return [range(share[0], share[-1] + 1) for share in shares]

    def _sequence(self, items: Iterable[Any]) -> Any:
        return self._to_sequence(list(items))


def streams_are_plain(setting: Setting) -> bool:
    """Whether Spark leaves each partition as one stream of its serializer, to which nothing is appended.

    So it does whether it writes a file for each partition or sorts by partition; what it merges of several tasks must be of
    a serializer that allows it.

    Args:
        setting: gives the value of a ``spark.*`` key; None for one that is not set.
    """
    if (setting("spark.shuffle.push.enabled") or "").lower() == "true":  # merges the streams of several tasks
        return False
    return (setting("spark.shuffle.manager") or _SORT_MANAGERS[0]) in _SORT_MANAGERS  # others may do so


def _name_of(plan: JobPlan, stage: Stage) -> str:
    """What Spark's interface calls a stage."""
    return f"stage {stage.id}: {', '.join(node.label for node in plan.nodes_of(stage))}"[:_LONGEST_NAME]
