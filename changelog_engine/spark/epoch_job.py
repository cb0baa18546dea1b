"""One epoch as one Spark job, with every subtask in its own pinned Python process.

Invariants:
    * The reports of all stages reach the driver through the data itself; a report that is missing fails the epoch.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from pyspark import SparkContext

from changelog_engine.driver.protocols import Following, Orders
from changelog_engine.errors import ChangelogEngineError, EpochFailedError, StateLostError
from changelog_engine.graph.plan import JobPlan
from changelog_engine.operators.messages import Durable, EpochReport
from changelog_engine.spark.background import BackgroundTasks
from changelog_engine.spark.early_workers import EarlyWorkers
from changelog_engine.spark.epoch_watch import EpochWatch, lost_words
from changelog_engine.spark.errands import Errands
from changelog_engine.spark.exit_names import forget_gone_sockets
from changelog_engine.spark.files import NO_FILES, WorkerFiles
from changelog_engine.spark.job_group import JobGroups, unfinished_stages
from changelog_engine.spark.jvm import LOST, said_when_ended, spark_ended
from changelog_engine.spark.masters import is_local
from changelog_engine.spark.notes import NotedWorkers, WorkerNotes
from changelog_engine.spark.own_executors import ExecutorsWanted
from changelog_engine.spark.pinned import PinnedFunctions
from changelog_engine.spark.placement import Placement
from changelog_engine.spark.printed import printed_output
from changelog_engine.spark.read_ahead import Begun, ReadAhead
from changelog_engine.spark.session import context_folder, epoch_slots
from changelog_engine.spark.shipping import ShippedJob
from changelog_engine.spark.spare_room import SpareRoom
from changelog_engine.spark.stage_rdds import Shuffled, StageRdds
from changelog_engine.spark.task import failure_of, failure_of_spark, is_failure

_TIDY_EPOCHS = 1_000  # from one look at the names that Java keeps to the next


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
        self._shipped = job
        self._errands = Errands()
        self._functions = PinnedFunctions(context, files)
        self._placement: Placement | None = None
        if not is_local(context.master):
            self._placement = Placement(context, job.plan.parallelism_of.values(), lambda: self._watch.reason)
        self._groups = JobGroups(context)
        self._workers = EarlyWorkers(context, job.run, self._functions, self._placement, self._groups)
        # What workers import takes longest until the first epoch: all else is made meanwhile.
        self._errands.run(partial(self._workers.start, job.plan))
        try:
            self._job = self._broadcast(job)
        except BaseException:
            self._functions.close()
            raise
        self._functions.carry(self._job)
        self._printed = printed_output(context)
        self._notes = None
        if self._printed is not None:
            self._notes = WorkerNotes(os.path.dirname(self._printed.path), job.run)
        self._watch = EpochWatch(
            partial(context.cancelJobGroup, job.run),
            None if self._placement is None else self._placement.lost,
            partial(unfinished_stages, context, job.run),
        )
        self._rdds = self._rdds_of(job, self._job)
        settings = job.settings
        executors = ExecutorsWanted(
            settings.materialize_executors,
            settings.materialize_executor_cores,
            settings.materialize_executor_memory,
        )
        self._room = SpareRoom(context, job.plan.graph.name, files, executors, self._placement)
        self._ahead = ReadAhead(context, self._run_ahead, self._forget)
        self._epochs = 0
        self._ended: dict[int, Shuffled] = {}  # what stages sent in the epoch before
        # Elsewhere a subtask has no process of its own by its stage's daemon, or sources their places.
        self._reads_ahead = self._functions.routed and self._placement is None

    def run(self, orders: Orders, timeout_s: float, following: Following | None = None) -> list[EpochReport]:
        """Run one epoch; returns one report a subtask, by stage and subtask.

        Args:
            orders: (stage, subtask) to what it is asked to do.
            timeout_s: the epoch is cancelled after this time.

        Raises:
            UserFunctionError: and the engine's other errors, as the worker raised them.
            EpochFailedError: a task, worker or executor was lost, or the epoch timed out.
        """
        try:
            return self._run(orders, timeout_s, following if self._reads_ahead else None)
        except BaseException as error:
            instead = self._said_better(error)
            if not isinstance(error, Exception):  # Ctrl-C: the epoch runs on, and its program will be gone
                self.cancel("the job was interrupted")
            self._ahead.drop()
            if isinstance(error, EpochFailedError) and error.program_gone:
                self._ship(self._shipped)
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
            self._rdds.add(self.plan.stages[stage], orders, begun.shuffled)
        self._submit(stages, begun)

    def _submit(self, stages: Iterable[int], begun: Begun) -> None:
        """Run stages as jobs of their own, those that have not begun."""
        for stage in stages:
            if stage not in begun.jobs:
                begun.jobs[stage] = self._rdds.begin(begun.shuffled[stage])

    def _run(self, orders: Orders, timeout_s: float, following: Following | None) -> list[EpochReport]:
        self._watch.reason = None
        self._epochs += 1
        if self._epochs % _TIDY_EPOCHS == 0:
            self._errands.run(partial(forget_gone_sockets, self.context))
        ended, self._ended = self._ended, {}
        if ended:
            self._errands.run(partial(self._forget, ended))
        begun = self._ahead.take(orders)
        if self._placement is not None and self._placement.place(orders(0, 0).attempt):
            self._rdds.moved()
        shuffled = begun.shuffled
        at_rest = False
        try:
            ends = self._build(orders, shuffled)
            self._workers.wait()  # the time limit is not about their start
            with self._watch.over(timeout_s):
                if following is not None:
                    self._submit(sorted(following.stages), begun)
                    self._ahead.begin(begun, self._steps(following.stages), following.orders)
                collected = self._rdds.collect(ends)
                at_rest = True
        except Exception as error:
            at_rest = self._ahead.cancel()
            raise self._failure(error) from None
        finally:
            if at_rest:
                self._ended = shuffled
        self._ahead.end()
        if self._placement is not None and (lost := self._placement.lost()):
            # Spark repeated what the lost one had made; a user's function need not give the same twice.
            raise EpochFailedError(lost_words(lost))
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

    def tell(self, durable: Durable, stages: Iterable[int]) -> None:
        """See EpochRunner. A thread does so: the time limit of epochs does not hold where a daemon stands still."""
        if self._placement is None:
            self._errands.run(partial(self._functions.tell, durable, stages))

    def prepare(self, plan: JobPlan, over: Callable[[], bool]) -> None:
        """See EpochRunner."""
        self._workers.start_more(self.plan, plan, self._rdds, over)

    def rescale(self, plan: JobPlan) -> None:
        """See EpochRunner. The processes of subtasks that go on to be there are used again."""
        self._ship(self._shipped.with_plan(plan))
        if self._placement is not None:
            self._placement.resize(plan.parallelism_of.values())

    def _ship(self, shipped: ShippedJob) -> None:
        """From now on tasks take the program out of another file."""
        before, job = self._job, self._broadcast(shipped)
        self._rdds = self._rdds_of(shipped, job)
        self._shipped, self.plan, self._job = shipped, shipped.plan, job
        self._functions.carry(job)
        with contextlib.suppress(Exception):
            before.destroy()

    def _rdds_of(self, shipped: ShippedJob, job: Any) -> StageRdds:
        printed = None if self._printed is None else self._printed.path
        return StageRdds(
            self.context, shipped.plan, job, self._functions, self._placement, printed, self._notes
        )

    def _broadcast(self, job: ShippedJob) -> Any:
        """A broadcast variable of the job, which PySpark writes to a file first."""
        context_folder(self.context)
        try:
            return self.context.broadcast(job)
        except (*LOST, pickle.PicklingError) as error:  # the latter in place of the file's error
            folders = local_folders(self.context)
            raise spark_ended(self.context, error) or failure_of_spark(str(error), folders) from error

    def cancel(self, reason: str) -> None:
        """Cancel the epoch that is running; it fails with the reason."""
        self._watch.cancel(reason)

    def slots(self) -> int | None:
        with said_when_ended(self.context):
            return epoch_slots(self.context) if self._placement is None else self._placement.slots()

    def noted(self, attempt: int) -> NotedWorkers | str:
        """See ClosingRunner. On executors nothing is noted: there an epoch starts the workers that it needs."""
        if self._notes is not None:
            return self._notes.read(attempt)
        return "" if self._placement is None else self._placement.awaited

    def background(self) -> list[BackgroundTasks]:
        """What may run tasks beside the epochs; see SpareRoom."""
        return self._room.runners(self.plan, self._shipped.ahead if self._reads_ahead else ())

    def close(self) -> None:
        """Let go of what the job keeps in Spark, and give this thread its own job group back."""
        self._ahead.close()
        self._errands.run(partial(self._forget, self._ended))
        self._errands.close()
        if self._placement is not None:
            self._placement.let_go()
        self._functions.close()
        if self._notes is not None:
            self._notes.clear()
        with contextlib.suppress(Exception):
            self._groups.give_back()
            self._job.destroy()

    def _build(self, orders: Orders, shuffled: dict[int, Shuffled]) -> list[Any]:
        """The epoch's RDDs: those of all ends.

        Args:
            shuffled: what stages send, by stage; those that are not there are added.
        """
        self._groups.keep()
        self._describe(orders)
        ends = [
            self._rdds.add(stage, orders, shuffled) for stage in self.plan.stages if stage.id not in shuffled
        ]
        return [end for end in ends if end is not None]

    def _describe(self, orders: Orders) -> None:
        """Have the jobs that this thread submits from now on be of an epoch."""
        self._groups.enter(self.run_id, f"epoch {orders(0, 0).epoch} of {self.plan.graph.name}")

    def _forget(self, shuffled: dict[int, Shuffled]) -> None:
        self._rdds.forget(shuffled)

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
        if self._watch.reason is not None:
            return EpochFailedError(self._watch.reason)
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


def local_folders(context: SparkContext) -> str:
    """Where Spark keeps files of its own, for people."""
    if is_local(context.master):
        return os.path.dirname(context._temp_dir or "spark.local.dir")
    return "the folders of Spark on the driver's or an executor's machine (spark.local.dir)"


def _decoded(collected: list[bytes]) -> Iterator[EpochReport]:
    for data in collected:
        yield pickle.loads(data)[1]
