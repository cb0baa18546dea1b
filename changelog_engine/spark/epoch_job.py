"""One epoch as one Spark job, with every subtask in its own pinned Python process.

A stage is one RDD with a partition for each subtask, and its daemon finds the subtask's process (``pinned.py``). Where the
session's daemon is PySpark's, the partitions are cut out of it, each for a function of its own, and put together again.

Invariants:
    * Each stage is computed once per epoch: all its exchanges share one shuffle, in one partition space.
    * The reports of all stages reach the driver through the data itself; a report that is missing fails the epoch.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from pyspark import SparkContext
from pyspark.serializers import NoOpSerializer
from pyspark.util import _load_from_socket

from changelog_engine.clock import Deadline
from changelog_engine.driver.protocols import Following, Orders
from changelog_engine.errors import ChangelogEngineError, EpochFailedError, StateLostError
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.operators.messages import Durable, EpochReport
from changelog_engine.spark.background import BackgroundTasks, room_beside, spare_location
from changelog_engine.spark.errands import Errands
from changelog_engine.spark.exit_names import forget_gone_sockets
from changelog_engine.spark.files import NO_FILES, WorkerFiles
from changelog_engine.spark.jvm import LOST, byte_array_tag, spark_ended
from changelog_engine.spark.notes import WorkerNotes
from changelog_engine.spark.own_executors import ExecutorsWanted, OwnExecutors
from changelog_engine.spark.pinned import PinnedFunctions
from changelog_engine.spark.placement import Executor, Placement, Setting
from changelog_engine.spark.printed import printed_output
from changelog_engine.spark.read_ahead import Begun, ReadAhead, Shuffled
from changelog_engine.spark.session import epoch_slots
from changelog_engine.spark.shipping import ShippedJob
from changelog_engine.spark.task import StageTask, WarmUp, failure_of, failure_of_spark, is_failure, pickled

log = logging.getLogger("changelog_engine")

_CALL_SITE = ("callSite.short", "callSite.long")  # what Spark's interface calls a stage
_POOL = "spark.scheduler.pool"
_GROUP_PROPERTIES = (
    _POOL,
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
    *_CALL_SITE,
)
_LONGEST_NAME = 120
_TIDY_EPOCHS = 1_000  # from one look at the names that Java keeps to the next
_LOOK_S = 1.0  # from one look to the next whether an epoch's executors are there
_SORT_MANAGERS = ("sort", "tungsten-sort", "org.apache.spark.shuffle.sort.SortShuffleManager")


class SparkEpochRunner:
    """Runs epochs of one job on a SparkContext.

    Args:
        context: the SparkContext; it stays the caller's.
        files: of the job, if it has any.
    """

    def __init__(self, context: SparkContext, job: ShippedJob, files: WorkerFiles = NO_FILES) -> None:
        self.context = context
        self.plan: JobPlan = job.plan
        self.run_id = job.run
        self._parallelism = self.plan.parallelism_of
        self._shipped = job
        self._job = self._broadcast(job)
        self._files = files
        self._functions = PinnedFunctions(context, self._job, files)
        self._pool = context.getLocalProperty(_POOL)  # of the user's thread; others of the job submit too
        self._printed = printed_output(context)
        self._notes = None
        if self._printed is not None:
            self._notes = WorkerNotes(os.path.dirname(self._printed.path), job.run)
        # Each step of a path such as jvm.org.apache.spark is a call, so classes are looked up once.
        jvm: Any = context._jvm
        self._scala_context: Any = context._jsc.sc()
        self._pruning: Any = jvm.org.apache.spark.rdd.PartitionPruningRDD
        self._tuple: Any = jvm.scala.Tuple2
        self._pairwise: Any = jvm.PairwiseRDD
        self._partitioner: Any = jvm.PythonPartitioner
        self._python_rdd: Any = jvm.PythonRDD
        self._to_sequence: Any = jvm.PythonUtils.toSeq
        self._byte_array: Any = byte_array_tag(context)
        # Spark's choice for byte arrays is Kryo, of which each task makes a new one for each partition that it writes.
        self._serializer: Any = jvm.org.apache.spark.serializer.JavaSerializer(self._scala_context.conf())
        self._streams_are_plain = streams_are_plain(context.getConf().get)
        self._stage_names = _stage_names(self.plan)
        self._placement: Placement | None = None
        if not context.master.startswith("local") or context.master.startswith("local-cluster"):
            self._placement = Placement(context, _parallelisms(self.plan), lambda: self._cancelled)
        settings = job.settings
        self._executors = ExecutorsWanted(
            settings.materialize_executors,
            settings.materialize_executor_cores,
            settings.materialize_executor_memory,
        )
        self._elsewhere: BackgroundTasks | None = None
        self._background: BackgroundTasks | None = None
        self._told_no_room = False
        self._starts: dict[tuple[int, ...], Any] = {}
        self._sets: dict[range, Any] = {}
        self._group_before: list[tuple[str, str | None]] | None = None
        self._ahead = ReadAhead(context, self._run_ahead, self._forget)
        self._errands = Errands()
        self._epochs = 0
        self._ended: dict[int, Shuffled] = {}  # what stages sent in the epoch before
        # Elsewhere a subtask has no process of its own by its stage's daemon, or sources their places.
        self._reads_ahead = self._functions.routed and self._placement is None
        self._cancel_lock = threading.Lock()
        self._cancelled: str | None = None
        self._start_workers(job.plan)

    def run(self, orders: Orders, timeout_s: float, following: Following | None = None) -> list[EpochReport]:
        """Run one epoch.

        Args:
            orders: (stage, subtask) to what it is asked to do.
            timeout_s: the epoch is cancelled after this time.
            following: see EpochRunner.

        Returns:
            One report a subtask, by stage and subtask.

        Raises:
            UserFunctionError: and the engine's other errors, as the worker raised them.
            EpochFailedError: a task, worker or executor was lost, or the epoch timed out.
        """
        try:
            return self._run(orders, timeout_s, following if self._reads_ahead else None)
        except BaseException as error:
            instead = self._said_better(error)
            self._ahead.drop()
            if instead is not None:
                raise instead from None
            raise
        finally:
            if self._printed is not None:
                self._printed.show()

    def _run_ahead(self, stages: Iterable[int], orders: Orders, begun: Begun) -> None:
        """Have stages run an epoch."""
        self._describe(orders)
        for stage in stages:
            self._add(self.plan.stages[stage], orders, begun.shuffled)
        self._submit(stages, begun)

    def _submit(self, stages: Iterable[int], begun: Begun) -> None:
        """Run stages as jobs of their own, those that have not begun."""
        for stage in stages:
            if stage not in begun.jobs:
                begun.jobs[stage] = self._scala_context.submitMapStage(begun.shuffled[stage].dependency)

    def _run(self, orders: Orders, timeout_s: float, following: Following | None) -> list[EpochReport]:
        self._cancelled = None
        self._epochs += 1
        if self._epochs % _TIDY_EPOCHS == 0:
            self._errands.run(partial(forget_gone_sockets, self.context))
        ended, self._ended = self._ended, {}
        if ended:
            self._errands.run(partial(self._forget, ended))
        begun = self._ahead.take(orders)
        if self._placement is not None and self._placement.place(orders(0, 0).attempt):
            self._starts.clear()
        shuffled = begun.shuffled
        over, at_rest = threading.Event(), False
        threading.Thread(target=self._watch, args=(over, timeout_s), name="epoch", daemon=True).start()
        try:
            ends = self._build(orders, shuffled)
            if following is not None:
                self._submit(sorted(following.stages), begun)
                self._ahead.begin(begun, self._steps(following.stages), following.orders)
            served = self._python_rdd.collectAndServe(ends)
            with _load_from_socket(served, NoOpSerializer()) as stream:
                collected = list(stream)
            at_rest = True
        except Exception as error:
            at_rest = self._ahead.cancel()
            raise self._failure(error) from None
        finally:  # after a Ctrl-C the epoch may still run
            with self._cancel_lock:
                over.set()
            if at_rest:
                self._ended = shuffled
        self._ahead.end()
        if self._placement is not None and (lost := self._placement.lost()):
            # Spark repeated what the lost one had made; a user's function need not give the same twice.
            raise EpochFailedError(_lost_words(lost))
        return self._reports(collected)

    def _steps(self, stages: frozenset[int]) -> list[list[int]]:
        """Some stages, as they begin an epoch: all without inputs, and each of the others by itself."""
        steps: list[list[int]] = [[]]
        for stage in self.plan.stages:
            if stage.id in stages:
                if stage.inputs:
                    steps.append([stage.id])
                else:
                    steps[0].append(stage.id)
        return steps

    def _watch(self, ended: threading.Event, timeout_s: float) -> None:
        """Cancel an epoch that takes too long, or whose executors are lost: Spark would have tasks wait for these.

        Again and again until it has ended: Spark cancels what has begun, and the epoch may still be about to.
        """
        deadline = Deadline(timeout_s)
        wait_s = deadline.left_s if self._placement is None else min(deadline.left_s, _LOOK_S)
        while not ended.wait(wait_s):
            wait_s = _LOOK_S
            lost: list[str] = []
            with contextlib.suppress(*LOST):  # the epoch's own failure says more
                lost = [] if self._placement is None else self._placement.lost()
            if not lost and not deadline.passed:
                continue
            with self._cancel_lock:  # not the next epoch
                if ended.is_set():
                    return
                if self._cancelled is None:
                    self._cancelled = (
                        _lost_words(lost) if lost else f"the epoch took longer than {timeout_s:.0f} s"
                    )
                with contextlib.suppress(*LOST):
                    self.context.cancelJobGroup(self.run_id)

    def tell(self, durable: Durable, stages: Iterable[int]) -> None:
        """See EpochRunner. A thread does so: the time limit of epochs does not hold where a daemon stands still."""
        if self._placement is None:
            self._errands.run(partial(self._functions.tell, durable, stages))

    def prepare(self, plan: JobPlan, over: Callable[[], bool]) -> None:
        """See EpochRunner: executors come, the processes of further subtasks start there, and import what they need."""
        added = [
            (stage, range(before.parallelism, stage.parallelism))
            for before, stage in zip(self.plan.stages, plan.stages, strict=True)
            if stage.parallelism > before.parallelism
        ]
        # Where executors are still waited for, the first epoch starts all processes where they are to be.
        if not added or (self._placement is not None and not self._placement.executors):
            return
        count = sum(len(subtasks) for _, subtasks in added)
        with contextlib.suppress(*LOST):  # the first epoch's failure says more
            executors: list[Executor] = []
            if self._placement is not None:
                executors = self._placement.come(max(_parallelisms(plan)), over)
                if over() or not executors:
                    return
            self._start_workers(plan)
            what = f"starting {count} more workers of {plan.graph.name}"
            self.context.setJobGroup(f"{self.run_id} rescale", what)
            self._enter_pool()
            self.context.setLocalProperty(_CALL_SITE[0], what)
            starts = [self._warm_up(stage, subtasks, executors) for stage, subtasks in added]
            ended = threading.Event()
            threading.Thread(
                target=self._watch_preparation,
                args=(ended, over, {each.id for each in executors}),
                name="rescale",
                daemon=True,
            ).start()
            try:
                served = self._python_rdd.collectAndServe(self._union(starts))
                with _load_from_socket(served, NoOpSerializer()) as stream:
                    list(stream)
            finally:
                ended.set()

    def _watch_preparation(
        self, ended: threading.Event, over: Callable[[], bool], executors: set[str]
    ) -> None:
        """Cancel the start of further processes when it is for nothing, as where an executor for them is lost."""
        while not ended.wait(_LOOK_S):
            with contextlib.suppress(*LOST):
                gone = self._placement is not None and not executors <= self._placement.alive()
                if gone or over():
                    self.context.cancelJobGroup(f"{self.run_id} rescale")

    def _warm_up(self, stage: Stage, subtasks: range, executors: list[Executor]) -> Any:
        """The RDD that has the processes of some subtasks import what they need.

        Args:
            executors: where they are to be, on masters that have some.
        """
        functions, start = self._functions, self._start_of(stage, range(stage.parallelism), executors)
        task = WarmUp(self._job, frozenset(stage.nodes))
        if functions.routed:
            return self._cut(functions.warm_up(start, task, stage.id), subtasks)
        return self._union(
            [functions.warm_up(self._cut(start, range(n, n + 1)), task, stage.id, n) for n in subtasks]
        )

    def rescale(self, plan: JobPlan) -> None:
        """See EpochRunner. The processes of subtasks that go on to be there are used again."""
        shipped, before = self._shipped.with_plan(plan), self._job
        self._job = self._broadcast(shipped)
        self._shipped, self.plan, self._parallelism = shipped, shipped.plan, shipped.plan.parallelism_of
        self._functions.carry(self._job)
        if self._placement is not None:
            self._placement.resize(_parallelisms(plan))
        self._starts.clear()  # where a subtask runs depends on how many there are
        with contextlib.suppress(Exception):
            before.destroy()

    def _broadcast(self, job: ShippedJob) -> Any:
        """A broadcast variable of the job, which PySpark writes to a file first."""
        try:
            return self.context.broadcast(job)
        except (*LOST, pickle.PicklingError) as error:  # the latter in place of the file's error
            folders = local_folders(self.context)
            raise spark_ended(self.context, error) or failure_of_spark(str(error), folders) from error

    def _start_workers(self, plan: JobPlan) -> None:
        if self._placement is None:
            with contextlib.suppress(*LOST):  # the first epoch's failure says more
                self._functions.start_workers((stage.id, stage.parallelism) for stage in plan.stages)

    def cancel(self, reason: str) -> None:
        """Cancel the epoch that is running; it fails with the reason."""
        with self._cancel_lock:
            self._cancelled = reason
        with contextlib.suppress(*LOST):  # the epoch's own failure says more
            self.context.cancelJobGroup(self.run_id)

    def slots(self) -> int | None:
        if self._placement is not None:
            return self._placement.slots()
        return epoch_slots(self.context)

    def noted(self, attempt: int) -> tuple[int, int, int] | None:
        """How many subtasks are up in an attempt, and the rows and bytes of state they have read; None: not known."""
        return None if self._notes is None else self._notes.read(attempt)

    def background(self) -> list[BackgroundTasks]:
        """What may run tasks beside the epochs, the best first; each is always the same. Nothing where there is no room."""
        elsewhere = self._placement is not None and OwnExecutors.may_come(self.context, self._executors)
        waits = self._placement is not None and not self._placement.executors
        if elsewhere and waits:
            return []  # what the cluster has is for the epochs first
        found = [self._tasks_elsewhere()] if elsewhere else []
        here = self._tasks_here()
        if here is not None:
            found.append(here)
        if not found and not waits:
            self._tell_no_room()
        return found

    def _tasks_elsewhere(self) -> BackgroundTasks:
        """Tasks in executors of their own."""
        if self._elsewhere is None:
            self._elsewhere = self._tasks(OwnExecutors(self.context, self._executors, self._upkeep))
        return self._elsewhere

    def _tasks_here(self) -> BackgroundTasks | None:
        """Tasks in a slot that the epochs leave free; None where they leave none."""
        locations: list[str] = []
        if self._placement is None:
            ahead = self._shipped.ahead if self._reads_ahead else ()
            room = room_beside(self.context, self.plan, ahead)
        else:
            spare = spare_location(self._placement, self.plan)
            locations, room = [] if spare is None else [spare], spare is not None
        if not room:
            return None
        if self._background is None:
            self._background = self._tasks()
        self._background.locations = locations
        return self._background

    def _tell_no_room(self) -> None:
        if not self._told_no_room:
            self._told_no_room = True
            log.info(
                "Spark (%s) has no slot that epochs of %r leave free: a process on this machine makes its snapshots",
                self.context.master,
                self.plan.graph.name,
            )

    def _tasks(self, executors: OwnExecutors | None = None) -> BackgroundTasks:
        return BackgroundTasks(self.context, self._upkeep, files=self._files, executors=executors)

    @property
    def _upkeep(self) -> str:
        """What Spark's interface says of tasks beside the epochs."""
        return f"upkeep of {self.plan.graph.name}"

    def close(self) -> None:
        """Let go of what the job keeps in Spark, and give this thread its own job group back."""
        self._ahead.close()
        self._errands.run(partial(self._forget, self._ended))
        self._errands.close()
        self._functions.close()
        if self._notes is not None:
            self._notes.clear()
        with contextlib.suppress(Exception):
            for name, value in self._group_before or ():
                self.context.setLocalProperty(name, value)  # None removes it
            self._job.destroy()

    def _build(self, orders: Orders, shuffled: dict[int, Shuffled]) -> Any:
        """The epoch's RDD: the union of all ends.

        Args:
            shuffled: what stages send, by stage; those that are not there are added.
        """
        if self._group_before is None:
            self._group_before = [(name, self.context.getLocalProperty(name)) for name in _GROUP_PROPERTIES]
        self._describe(orders)
        ends = [self._add(stage, orders, shuffled) for stage in self.plan.stages if stage.id not in shuffled]
        return self._union([end for end in ends if end is not None])

    def _describe(self, orders: Orders) -> None:
        """Have the jobs that this thread submits from now on be of an epoch."""
        self.context.setJobGroup(self.run_id, f"epoch {orders(0, 0).epoch} of {self.plan.graph.name}")
        self._enter_pool()

    def _enter_pool(self) -> None:
        """Have the jobs that this thread submits share the cores as those of the thread that made the job do."""
        if self._pool is not None:
            self.context.setLocalProperty(_POOL, self._pool)

    def _add(self, stage: Stage, orders: Orders, shuffled: dict[int, Shuffled]) -> Any | None:
        """Add what a stage sends to other stages; returns the RDD of one that sends nothing."""
        for name in _CALL_SITE:
            self.context.setLocalProperty(name, self._stage_names[stage.id])
        subtasks = self._subtasks(stage, orders, shuffled)
        if not stage.outputs:
            return subtasks
        shuffled[stage.id] = self._shuffle(subtasks, stage.partitions(self._parallelism)[-1])
        return None

    def _subtasks(self, stage: Stage, orders: Orders, shuffled: dict[int, Shuffled]) -> Any:
        """The Python RDD of a stage, with a partition for each subtask (all RDDs here are Scala's)."""
        asked = [orders(stage.id, subtask) for subtask in range(stage.parallelism)]
        given, known = [], dict[bytes, bytes]()
        for order in asked:
            data = pickled(order)
            # One object goes into the task once, however many are told it.
            given.append(known.setdefault(data, data))
        located = self._placement is not None and bool(stage.inputs)
        partitions = stage.partitions(self._parallelism)[-1]
        printed = None if self._printed is None else self._printed.path

        def task(first: int, orders: list[bytes]) -> StageTask:
            return StageTask(self._job, orders, stage.id, first, partitions, located, printed, self._notes)

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
            upstream = self.plan.stages[edge.from_stage]
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

    def _forget(self, shuffled: dict[int, Shuffled]) -> None:
        """Remove an epoch's shuffle files; Spark alone would keep them until the JVM collects garbage."""
        with contextlib.suppress(*LOST):
            cleaner = self._scala_context.cleaner()
            if cleaner.isDefined():
                for sent in shuffled.values():
                    cleaner.get().doCleanupShuffle(sent.dependency.shuffleId(), False)

    def _said_better(self, error: BaseException) -> ChangelogEngineError | None:
        """What to raise in place of an epoch's error; None where that says it best."""
        if isinstance(error, StateLostError):
            told = None
            with contextlib.suppress(*LOST):
                # Of a process that died while it read ahead; lost state is what follows.
                told = self._ahead.failure()
            return None if told is None else failure_of_spark(told, local_folders(self.context))
        if isinstance(error, ChangelogEngineError):
            return None  # some are OSErrors too, and what a worker raised stays what it is
        return self._failure(error) if isinstance(error, LOST) else None

    def _failure(self, error: Exception) -> ChangelogEngineError:
        if self._cancelled is not None:
            return EpochFailedError(self._cancelled)
        ended = spark_ended(self.context, error)
        if ended is not None:
            return ended
        return failure_of_spark(str(error), local_folders(self.context))

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


def local_folders(context: SparkContext) -> str:
    """Where Spark keeps files of its own, for people."""
    if context.master.startswith("local") and not context.master.startswith("local-cluster"):
        return os.path.dirname(context._temp_dir or "spark.local.dir")
    return "the folders of Spark on the driver's or an executor's machine (spark.local.dir)"


def _lost_words(lost: list[str]) -> str:
    return f"executors were lost: {', '.join(lost)}"


def _stage_names(plan: JobPlan) -> dict[int, str]:
    """What Spark's interface calls each stage."""
    return {
        stage.id: f"stage {stage.id}: {', '.join(node.label for node in plan.nodes_of(stage))}"[
            :_LONGEST_NAME
        ]
        for stage in plan.stages
    }


def _parallelisms(plan: JobPlan) -> set[int]:
    return {stage.parallelism for stage in plan.stages}


def _decoded(collected: list[bytes]) -> Iterator[EpochReport]:
    for data in collected:
        yield pickle.loads(data)[1]
