"""From a graph to a running job: plan, check, take over the job's folder, start.

Everything that can be refused is refused before the folder is touched, and everything about the folder before Spark starts.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import queue
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from changelog_engine.checkpoint import starting
from changelog_engine.checkpoint.contracts import EpochStats, JobOutcome
from changelog_engine.checkpoint.coordinator import Coordinator
from changelog_engine.errors import JobExecutionError, JobInterruptedError
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind
from changelog_engine.graph.plan import plan_job
from changelog_engine.spark import files
from changelog_engine.spark.epoch_job import SparkEpochRunner
from changelog_engine.spark.printed import show_text
from changelog_engine.spark.session import spark_context
from changelog_engine.spark.shipping import ship
from changelog_engine.storage.file_systems import use_options

log = logging.getLogger("changelog_engine")

_END = object()

Observer = Callable[[EpochStats], None]

RUNNING: set[RunningJob] = set()  # in the background of this process


class RunningJob:
    """A job that was prepared and runs, or will.

    Args:
        graph: the job.
        settings: how it runs.
        observer: called after each epoch with its figures.
    """

    def __init__(self, graph: JobGraph, settings: JobSettings, observer: Observer | None = None) -> None:
        self.job_id = uuid.uuid4().hex
        self.name = graph.name
        self._queues: dict[int, queue.SimpleQueue[Any]] = {
            node.id: queue.SimpleQueue() for node in graph.nodes if node.kind is NodeKind.SINK
        }
        self._settings = settings
        self._sources = [node.function for node in graph.nodes if node.kind is NodeKind.SOURCE]
        self._delete_on_cancel = False
        self._failure: BaseException | None = None
        self._outcome: JobOutcome | None = None
        self._done = threading.Event()
        use_options(settings.file_systems)
        plan = plan_job(graph)
        shipped = ship(self.job_id, plan, settings, None)
        staged = files.stage(settings.files)
        plan, self._journal, self._start = starting.start_job(plan, settings)
        if self._journal is not None:
            shipped = ship(self.job_id, plan, settings, self._journal.parts_folder)
        try:
            context = spark_context(files.session_options(settings))
            self._runner = SparkEpochRunner(context, shipped, files.ship(context, staged))
        except BaseException:
            if self._journal is not None:
                self._journal.close()
            raise
        self.coordinator = Coordinator(
            self.job_id, plan, settings, self._runner, self._journal, self, observer
        )
        self._beside = None
        if self._journal is not None:  # above this layer, so found by its name
            beside = importlib.import_module("materializer.schedule").beside_job
            self._beside = beside(self._journal.folder, settings, self.coordinator.fail)

    def run(self) -> JobOutcome:
        """Run to the end, in this thread.

        Raises:
            JobExecutionError: the job failed.
        """
        try:
            if self._beside is not None:
                self._beside.start()
            self._outcome = self.coordinator.run(self._start)
            if self._beside is not None:
                self._beside.stop()
            if self._outcome.cancelled and self._delete_on_cancel and self._journal is not None:
                self._journal.discard()
            return self._outcome
        except BaseException as failure:
            self._failure = failure
            self.coordinator.status = "FAILED"
            raise
        finally:
            if self._beside is not None:
                self._beside.stop()
            self._runner.close()
            for source in self._sources:
                getattr(source, "job_ended", bool)()
            if self._journal is not None:
                self._journal.close()
            RUNNING.discard(self)
            self._done.set()
            for waiting in self._queues.values():
                waiting.put(_END)

    def start(self) -> None:
        """Run in a thread of its own."""
        RUNNING.add(self)
        threading.Thread(target=self._run_quietly, name=f"job-{self.name}", daemon=True).start()

    def _run_quietly(self) -> None:
        with contextlib.suppress(BaseException):
            self.run()

    def status(self) -> str:
        """CREATED, RUNNING, RESTARTING, FINISHED, FAILED or CANCELED."""
        return self.coordinator.status

    def cancel(self) -> None:
        """Cancel: stop after the epoch's checkpoint; DELETE_ON_CANCELLATION then removes the job's checkpoints."""
        self._delete_on_cancel = self._settings.delete_on_cancel
        self.coordinator.stop()

    @property
    def makes_checkpoints(self) -> bool:
        """Whether there will be anything to go on from."""
        return self._journal is not None

    def stop(self) -> None:
        """Stop after a checkpoint, to go on from there later."""
        self.coordinator.stop()

    def trigger_savepoint(self, directory: str | None = None) -> str:
        """Take a savepoint of the next checkpoint, which comes at once; the job goes on. Returns its path.

        Args:
            directory: where it shall lie; None for the default directory.

        Raises:
            ConfigurationError: there is no directory, or the job makes no checkpoints.
            JobExecutionError: the job ended before.
            StorageError: the directory can't be written, or the copy failed.
        """
        return self.coordinator.savepoints.take(self._directory(directory), self.job_id[:6])

    def stop_with_savepoint(self, drain: bool, directory: str | None = None) -> str:
        """Stop after a checkpoint and make a savepoint of it. Returns its path.

        Args:
            drain: let event time end first, so that all its timers and windows fire.
            directory: as for ``trigger_savepoint``.

        Raises:
            ConfigurationError, JobExecutionError, StorageError: as ``trigger_savepoint``; the job goes on when the
                directory cannot be used.
        """
        coordinator = self.coordinator
        path = coordinator.savepoints.take(
            self._directory(directory), self.job_id[:6], lambda: coordinator.stop_for_savepoint(drain)
        )
        self._done.wait()
        return path

    def _directory(self, directory: str | None) -> str | None:
        return self._settings.savepoint_dir if directory is None else directory

    def wait(self, timeout_s: float | None = None) -> JobOutcome:
        """Wait for the end.

        Raises:
            JobExecutionError: the job failed.
            TimeoutError: it still runs.
        """
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"job {self.name!r} still runs after {timeout_s} s")
        if self._outcome is None:
            raise self._error()
        return self._outcome

    def results(self, node: int) -> Iterator[Any]:
        """The elements of a collect sink, as they become final; ends with the job, or raises its failure."""
        waiting = self._queues[node]
        while True:
            item = waiting.get()
            if item is _END:
                if self._failure is not None:
                    raise self._error()
                return
            yield from item

    def _error(self) -> BaseException:
        failure = self._failure
        if isinstance(failure, JobExecutionError):
            return failure
        return JobExecutionError(f"job {self.name!r} failed: {failure}")

    def printed(self, lines: list[str]) -> None:
        """See Outputs."""
        show_text("\n".join(lines) + "\n")

    def collected(self, node: int, elements: list[Any]) -> None:
        """See Outputs."""
        self._queues[node].put(elements)


def run_job(graph: JobGraph, settings: JobSettings, observer: Observer | None = None) -> JobOutcome:
    """Run a job to its end. Ctrl-C stops it after a checkpoint; a second Ctrl-C stops it at once.

    Raises:
        JobExecutionError: the job failed and its restart strategy gave up.
        JobInterruptedError: Ctrl-C ended it. What there is to say was printed.
    """
    job: RunningJob | None = None
    stopping: list[bool] = []
    try:
        job = RunningJob(graph, settings, observer)
        with _interruptible(job, stopping):
            outcome = job.run()
    except KeyboardInterrupt:
        last = None if job is None else job.coordinator.last
        raise _interrupted(graph.name, settings, None if last is None else last.id) from None
    if outcome.cancelled and stopping:
        raise _interrupted(graph.name, settings, outcome.last_checkpoint)
    return outcome


def _interrupted(name: str, settings: JobSettings, last: int | None) -> JobInterruptedError:
    """Say once how a job ended that Ctrl-C stopped."""
    if settings.checkpoint_interval_ms is None:
        message = (
            f"job {name!r} stopped; it makes no checkpoints, so nothing is kept: run again, it begins anew"
        )
    elif last is None:
        message = f"job {name!r} stopped before its first checkpoint: run again, it begins anew"
    else:
        message = f"job {name!r} stopped after checkpoint {last}; run it again to go on from there"
    print(message, file=sys.stderr)
    return JobInterruptedError(message)


def start_job(graph: JobGraph, settings: JobSettings, observer: Observer | None = None) -> RunningJob:
    """Start a job in the background."""
    job = RunningJob(graph, settings, observer)
    job.start()
    return job


@contextlib.contextmanager
def _interruptible(job: RunningJob, stopping: list[bool]) -> Iterator[None]:
    """SIGINT asks the job to stop, and is noted; the second one interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def on_interrupt(signum: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        after = "the next checkpoint" if job.makes_checkpoints else "what is being read"
        print(f"stopping after {after}; press Ctrl-C again to stop at once", file=sys.stderr)
        stopping.append(True)
        job.stop()

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
