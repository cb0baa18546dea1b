"""Tasks beside the epochs: each is a Spark job of one partition, run by a Python worker of low priority.

Where there is room for them ``spare_room`` says.

Invariants:
    * No more tasks run at once than there are slots that epochs do not need, over all jobs of an application.
    * The workers are never those of subtasks: Spark finds a worker by its variables, and these have one of their own.
    * The user's program is never imported or run in them.
    * When ``stop`` returns, no task runs or will: with a local master the worker holds a lock as long as it runs one, and is
      killed. Elsewhere Spark kills it within seconds; after ``let_end`` it runs to its end, before ``map`` returns.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import SparkContext
from pyspark.serializers import CloudPickleSerializer, NoOpSerializer
from pyspark.util import _load_from_socket

from changelog_engine.clock import Deadline
from changelog_engine.errors import EpochFailedError, StorageError
from changelog_engine.spark.daemon_messages import BACKGROUND, INT, PIN_VARIABLE
from changelog_engine.spark.files import NO_FILES, WorkerFiles
from changelog_engine.spark.job_group import name_stages
from changelog_engine.spark.jvm import LOST, byte_array_tag, spark_ended
from changelog_engine.spark.own_executors import OwnExecutors
from changelog_engine.spark.same_code import worker_environment
from changelog_engine.spark.session import context_folder, local_cores, spark_context
from changelog_engine.spark.task import failure_of_spark
from changelog_engine.storage.file_systems import options_in_use, use_options
from changelog_engine.storage.locks import (
    Lock,
    LockTakenError,
    lock_file,
    stopped_materializer_is_told,
)

NICENESS = 10
_LOCK = "background-task"
_ENDING_S = 10.0
_PAUSE_S = 0.02
_TRIES = 4  # Spark's own number
_TOLD_S = 2.0  # within which the tracker knows of a job that was begun

T = TypeVar("T")
R = TypeVar("R")

_in_use: dict[str, threading.Lock] = {}  # by application: its one slot for background tasks
_in_use_lock = threading.Lock()


class BackgroundTasks:
    """Runs functions of plain tasks on Spark.

    Args:
        context: the SparkContext; it stays the caller's.
        name: what Spark's interface calls the tasks.
        executors: run the tasks, as many at once as they can; None for any executor.

    Attributes:
        locations: of the executors that the tasks prefer; none for any.
    """

    def __init__(
        self,
        context: SparkContext,
        name: str,
        most: int = 1,
        niceness: int = NICENESS,
        files: WorkerFiles = NO_FILES,
        executors: OwnExecutors | None = None,
    ) -> None:
        self._context = context
        self._name = name
        self._executors = executors
        self._most = most if executors is None else executors.tasks_at_once
        self._niceness = niceness
        self._files = files
        self._group = f"background-{os.urandom(8).hex()}"
        self._waiting = f"{self._group}-waiting"
        self.locations: list[str] = []
        self._stopped = threading.Event()
        self._lock_path: str | None = None
        self._worked: int | None = None  # the process that ran the last task
        self._lock_made = threading.Lock()  # held while the lock's file is made
        if most == 1 and local_cores(context.master) is not None and context._temp_dir:
            self._lock_path = os.path.join(context._temp_dir, f"{_LOCK}-{self._group}")
        self.parallel = self._lock_path is None  # or elsewhere, where one may outlive ``stop``
        with _in_use_lock:
            self._slot = _in_use.setdefault(context.applicationId, threading.Lock())

    @property
    def worker(self) -> int | None:
        """The process that runs a task just now, with a local master; None when none does."""
        if self._lock_path is None:
            return None
        try:
            lock_file(self._lock_path, 0).release()
        except LockTakenError as taken:
            return int(taken.note) if taken.note.isdigit() else None
        except StorageError:  # stopped
            pass
        return None

    def _awaited(self) -> int | None:
        """The process on this machine that runs a task, or is to begin one."""
        return None if self._lock_path is None else self.worker or self._worked

    def ready(self) -> bool:
        """Whether tasks can run: false where executors of their own do not come, which are waited for."""
        self._refuse_stopped()
        return self._executors is None or self._executors.ready(self._waiting, self._stopped)

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """Call a function with each task.

        Args:
            function: of a module that the executors can import; leaves nothing half done when its process is killed.

        Raises:
            ChangelogEngineError: what the function raised, the first in the order of tasks.
            StorageError: a task was lost, or ``stop`` was called.
            SparkEndedError: Spark ended.
        """
        if self._executors is None:
            return self._map(function, tasks)
        with self._executors.kept(lambda: self._cancel(self._group, future=False)):
            return self._map(function, tasks)

    def _map(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        command = CloudPickleSerializer().dumps(
            (
                _Task(function, options_in_use(), self._niceness, self._lock_path),
                None,
                NoOpSerializer(),
                NoOpSerializer(),
            )
        )
        most = min(self._most, len(tasks))
        if most <= 1:
            return [self._run(command, task) for task in tasks]
        failed = threading.Event()

        def run(task: T) -> R | None:
            try:
                return None if failed.is_set() else self._run(command, task)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(most, "background") as threads:
            futures = [threads.submit(run, task) for task in tasks]
        return [future.result() for future in futures]  # type: ignore[misc]

    def stop(self) -> None:
        """End the tasks at once; what they wrote is garbage that truncation removes. Safe from any thread."""
        with self._lock_made:  # afterwards there is a file to lock, or none will come
            self._stopped.set()
        self._cancel(self._waiting)
        self._cancel(self._group)
        if self._lock_path is None:
            return
        deadline = Deadline(_ENDING_S)
        while not deadline.passed:
            try:
                lock = lock_file(self._lock_path, 0)
            except LockTakenError as taken:
                if taken.note.isdigit():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(taken.note), signal.SIGKILL)
                time.sleep(_PAUSE_S)
            except StorageError:  # stopped before
                return
            else:
                with contextlib.suppress(OSError):
                    os.unlink(self._lock_path)  # no task begins from now on
                lock.release()
                return

    def let_end(self) -> None:
        """Start no more tasks; those on other machines, which can only be asked to end, run to it. Safe from any thread."""
        if self._lock_path is not None:
            self.stop()
            return
        self._stopped.set()
        self._cancel(self._waiting)
        deadline = Deadline(_TOLD_S)
        with contextlib.suppress(*LOST):
            while not self._active():
                if deadline.passed:  # none may ever become so
                    self._cancel(self._group)
                    return
                time.sleep(_PAUSE_S)

    def _cancel(self, group: str, future: bool = True) -> None:
        with contextlib.suppress(*LOST):
            if future:
                self._context._jsc.sc().cancelJobGroupAndFutureJobs(group, "the job has ended")
            else:
                self._context.cancelJobGroup(group)

    def _active(self) -> int:
        """How many tasks run, by the scheduler: the tracker hears of a task's start some time later, or not at all."""
        tracker, scheduler = self._context.statusTracker(), self._context._jsc.sc().taskScheduler()
        active = 0
        for number in tracker.getJobIdsForGroup(self._group):
            job = tracker.getJobInfo(number)
            for stage in () if job is None else job.stageIds:
                known = tracker.getStageInfo(stage)
                attempt = 0 if known is None else known.currentAttemptId
                manager = scheduler.taskSetManagerForAttempt(stage, attempt)
                active += manager.get().runningTasks() if manager.isDefined() else 0
        return active

    def _run(self, command: bytes, task: Any) -> Any:
        with self._slot_held(), stopped_materializer_is_told(self._awaited):
            try:
                served = self._python_rdd(command, pickle.dumps(task))
                with _load_from_socket(served, NoOpSerializer()) as stream:
                    answers = list(stream)
            except Exception as error:
                raise self._failure(error) from None
        if len(answers) != 1:
            raise self._failure(None)
        (self._worked,) = INT.unpack_from(answers[0])
        answer = pickle.loads(answers[0][INT.size :])  # our own task's
        if isinstance(answer, _Failed):
            raise answer.error
        return answer

    @contextlib.contextmanager
    def _slot_held(self) -> Iterator[None]:
        """Within it, with a local master, no other job of the application has a background task."""
        if self._lock_path is None:
            self._refuse_stopped()
            yield
            return
        while not self._slot.acquire(timeout=_PAUSE_S):
            self._refuse_stopped()
        try:
            self._make_lock(self._lock_path)
            yield
        finally:
            self._slot.release()

    def _make_lock(self, path: str) -> None:
        """The lock's file, which tasks do not make themselves; anew where a cleaner of temporary files removed it."""
        with self._lock_made:
            self._refuse_stopped()
            context_folder(self._context)
            with contextlib.suppress(LockTakenError):
                lock_file(path).release()

    def _refuse_stopped(self) -> None:
        if self._stopped.is_set():
            raise StorageError("the materialization was stopped")

    def _python_rdd(self, command: bytes, data: bytes) -> Any:
        """Run one partition; where its output is served."""
        context = self._context
        jvm: Any = context._jvm
        context.setJobGroup(self._group, self._name, interruptOnCancel=True)
        name_stages(context, self._name)
        element = jvm.scala.Tuple2(bytearray(data), jvm.PythonUtils.toSeq(self.locations))
        source = context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq([element]), byte_array_tag(context))
        environment = jvm.java.util.HashMap()
        for name, value in {**worker_environment(context.environment), **self._files.variables}.items():
            environment.put(name, value)
        environment.put(PIN_VARIABLE, f"{BACKGROUND}{self._niceness}")
        function = jvm.SimplePythonFunction(
            bytearray(command),
            environment,
            jvm.java.util.ArrayList(),
            self._files.python or context.pythonExec,
            context.pythonVer,
            jvm.java.util.ArrayList(),
            context._javaAccumulator,
        )
        rdd = jvm.PythonRDD(source, function, False, False)
        return jvm.PythonRDD.collectAndServe(rdd if self._executors is None else self._executors.own(rdd))

    def _failure(self, error: Exception | None) -> Exception:
        if self._stopped.is_set():
            return StorageError("the materialization was stopped")
        ended = spark_ended(self._context, error)
        if ended is not None:
            return ended
        failure = failure_of_spark("it gave no answer" if error is None else str(error))
        if not isinstance(failure, EpochFailedError):
            return failure
        return StorageError(
            f"a task of the materialization was lost; its next run does the work, by the schedule or the command: {failure}"
        )


class _Failed:
    """What a task raised, as its answer."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@dataclass
class _Task:
    """What a worker does with the one element of its partition, a pickled task."""

    function: Callable[[Any], Any]
    options: dict[str, str]
    niceness: int
    lock_path: str | None  # what the worker locks while it runs a task; None on other masters than local ones

    def __call__(self, index: int, data: Iterable[bytes]) -> Iterator[bytes]:
        for task in data:
            yield INT.pack(os.getpid()) + self._answer(task)

    def _answer(self, task: bytes) -> bytes:
        lower_priority(self.niceness)
        lock = None if self.lock_path is None else _locked(self.lock_path)
        try:
            use_options(self.options)
            try:
                return pickle.dumps(self.function(pickle.loads(task)))
            except Exception as error:
                return _pickled(error)
        finally:
            pa.default_memory_pool().release_unused()
            if lock is not None:
                lock.note(b"")
                lock.release()


def _locked(path: str) -> Lock:
    """The lock of the worker that runs a task, with its process id; others hold it for a moment only, to look."""
    deadline = Deadline(_ENDING_S)
    while True:
        try:
            lock = lock_file(path, 0)
        except LockTakenError:
            if deadline.passed:
                raise
            time.sleep(_PAUSE_S)
        else:
            if lock.held and not lock.is_of(path):
                raise StorageError("the materialization was stopped")
            lock.note(str(os.getpid()).encode())
            return lock


_lowered: list[int] = []


def lower_priority(niceness: int) -> None:
    """In a worker: be nice from now on, once."""
    if not _lowered:
        _lowered.append(niceness)
        os.nice(niceness)


def _pickled(error: Exception) -> bytes:
    """An exception as an answer; one that does not come back whole as its text."""
    with contextlib.suppress(Exception):
        data = pickle.dumps(_Failed(error))
        pickle.loads(data)
        return data
    return pickle.dumps(_Failed(StorageError(f"{type(error).__name__}: {error}")))


def tasks_on(master: str, name: str) -> BackgroundTasks:
    """Background tasks of a session of their own, where nothing runs beside them: as many at once as there are slots.

    Spark runs one again whose worker or executor is lost: it gives the same.

    Args:
        master: where, such as ``local[2]``.
    """
    cores = local_cores(master)
    if cores is not None and "," not in master:  # a local master has the number of tries in its name
        master = f"local[{cores or '*'},{_TRIES}]"
    context = spark_context({"spark.master": master, "spark.task.maxFailures": str(_TRIES)})
    return BackgroundTasks(context, name, max(1, context.defaultParallelism), niceness=0)
