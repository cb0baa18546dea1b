"""From a graph to a running job: plan, check, take over the job's folder, start.

Everything that can be refused is refused before the folder is touched, and everything about the folder before Spark starts.
A JVM may start earlier (``spark/early_jvm.py``); it ends where the job is refused.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import queue
import resource
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from changelog_engine.config.paths import absolute_path
from changelog_engine.driver import starting
from changelog_engine.driver.autoscale import Autoscaler, ScalingBounds, bounds_of
from changelog_engine.driver.coordinator import Coordinator
from changelog_engine.driver.figures import JobMonitor
from changelog_engine.driver.inbox import RequestInbox
from changelog_engine.driver.interrupts import interrupted, interruptible
from changelog_engine.driver.job import Job
from changelog_engine.driver.journal import JobJournal
from changelog_engine.driver.protocols import EpochRunner, JobOutcome
from changelog_engine.driver.rescaling import Rescaled
from changelog_engine.driver.signs_of_life import SignsOfLife
from changelog_engine.errors import (
    EnvironmentNotReadyError,
    JobCancelledError,
    JobExecutionError,
    UserFunctionError,
)
from changelog_engine.graph.files import JobFiles
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind
from changelog_engine.graph.plan import JobPlan, plan_job
from changelog_engine.graph.rescaling import Parallelism
from changelog_engine.launcher.standard_streams import open_closed_streams
from changelog_engine.observing import Observers, WorkersAtStart
from changelog_engine.spark.cluster import SparkCluster
from changelog_engine.spark.notes import NotedWorkers
from changelog_engine.spark.printed import show_text
from changelog_engine.spark.shipping import ShippedJob, ship
from changelog_engine.storage.file_systems import use_options
from materializer.runner import TaskRunner
from materializer.schedule import Schedule, beside_job

log = logging.getLogger("changelog_engine")

_END = object()

RUNNING: set[LaunchedJob] = set()  # in the background of this process
_UNTOLD: dict[str, str] = {}  # by its id, why a job in the background failed, which nobody has asked for yet


class Cluster(Protocol):
    """What runs the epochs of jobs: Spark, or this process."""

    def stage(self, given: JobFiles) -> Any:
        """Make a job's files ready, before anything of the job is touched; gives what ``runner`` takes."""

    def starting(self, settings: JobSettings) -> str:
        """What a job waits for until there is what runs its epochs, in words for people."""

    def runner(self, job: ShippedJob, staged: Any) -> ClosingRunner:
        """What runs the epochs of a job."""


class ClosingRunner(EpochRunner, Protocol):
    """An epoch runner that is closed at the end of its job."""

    def noted(self, attempt: int) -> NotedWorkers | str:
        """How far the workers of an attempt are.

        Where that is not known: what the first epoch waits for, in words; "" once it goes on.
        """

    def background(self) -> Sequence[TaskRunner]:
        """What may run tasks beside the epochs, the best first; nothing where there is no room for them."""

    def close(self) -> None:
        """Let go of all that the job has there."""


class _Helper(Protocol):
    """What runs in a thread of its own beside the epochs."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class LaunchedJob(Protocol):
    """What the API and the console see of a job; see RunningJob."""

    job_id: str
    name: str

    @property
    def makes_checkpoints(self) -> bool: ...
    @property
    def last_checkpoint(self) -> int | None: ...
    def run(self) -> JobOutcome: ...
    def start(self) -> None: ...
    def status(self) -> str: ...
    def cancel(self) -> None: ...
    def stop(self) -> None: ...
    def trigger_savepoint(self, directory: str | None = None) -> str: ...
    def stop_with_savepoint(self, drain: bool, directory: str | None = None) -> str: ...
    def rescale(self, wanted: Parallelism) -> Rescaled: ...
    def wait(self, timeout_s: float | None = None) -> JobOutcome: ...
    def results(self, node: int) -> Iterator[Any]: ...


Launch = Callable[[JobGraph, JobSettings], LaunchedJob]


class RunningJob:
    """A job that was prepared and runs, or will.

    Args:
        cluster: runs its epochs; None, the default, for Spark.
    """

    def __init__(self, graph: JobGraph, settings: JobSettings, cluster: Cluster | None = None) -> None:
        self.job_id = uuid.uuid4().hex
        self.name = graph.name
        self._queues: dict[int, queue.SimpleQueue[Any]] = {
            node.id: queue.SimpleQueue() for node in graph.nodes if node.kind is NodeKind.SINK
        }
        self._settings = settings
        default = settings.savepoint_dir
        self._savepoint_dir = None if default is None else absolute_path(default)
        self._delete_on_cancel = False
        self._signs: list[SignsOfLife] = []
        self._beside: Schedule | None = None  # of snapshots
        self._failure: BaseException | None = None
        self._outcome: JobOutcome | None = None
        self._done = threading.Event()
        self._in_background = False
        open_closed_streams()
        use_options(settings.file_systems)
        with _limit_told():
            self._observers = Observers(graph, settings)
        with contextlib.ExitStack() as opened:
            opened.callback(self._observers.close)
            with _limit_told():
                self._prepare(graph, settings, SparkCluster() if cluster is None else cluster, opened)
            opened.pop_all()

    def _prepare(
        self,
        graph: JobGraph,
        settings: JobSettings,
        cluster: Cluster,
        opened: contextlib.ExitStack,
    ) -> None:
        plan = plan_job(graph)
        bounds = bounds_of(plan, settings)
        shipped = ship(self.job_id, plan, settings, None)
        staged = cluster.stage(settings.files)
        plan, self._journal, self._start = starting.prepare_start(plan, settings)
        if (journal := self._journal) is not None:
            opened.callback(journal.close)
            opened.push(_noting_failed_start(journal))
            shipped = ship(self.job_id, plan, settings, journal.parts_folder)
            signs = SignsOfLife(journal.lock, self._observers.doing)
            self._signs = [signs]
            signs.start()
            opened.callback(signs.stop)
        self._observers.begin(
            None if self._journal is None else self._journal.folder.storage.root,
            None if self._start is None else self._start.id,
            "" if self._journal is None else self._journal.empty_because,
            cluster.starting(settings),
        )
        runner = cluster.runner(shipped, staged)
        opened.callback(runner.close)
        monitor = self._observers.monitor
        self._observers.ask_workers(lambda: _workers_at_start(runner, monitor, plan))
        self.coordinator = Coordinator(
            Job(self.job_id, plan, settings, runner, self._journal, self, monitor=monitor)
        )
        self._helpers = self._make_helpers(runner, None if bounds is None else bounds.within(plan))
        self._at_the_end: list[Callable[[], None]] = [
            *(helper.stop for helper in reversed([*self._signs, *self._helpers])),
            runner.close,
            *(node.function.job_ended for node in graph.nodes if node.kind is NodeKind.SOURCE),
        ]
        if self._journal is not None:
            self._at_the_end.append(self._journal.close)

    def _make_helpers(self, runner: ClosingRunner, bounds: ScalingBounds | None) -> list[_Helper]:
        """What runs beside the epochs; it is started with the job."""
        control, monitor = self.coordinator.control, self._observers.monitor
        helpers: list[_Helper] = []
        if self._journal is not None:
            folder = self._journal.folder
            self._beside = beside_job(folder, self._settings, control.fail, runner.background, monitor)
            if self._beside is not None:
                helpers.append(self._beside)
            helpers.append(RequestInbox(folder, self._journal.lock.identity, control.rescales))
        if bounds is not None:
            helpers.append(Autoscaler(bounds, control.rescales, monitor, runner.slots, self.name))
        return helpers

    def run(self) -> JobOutcome:
        """Run to the end, in this thread.

        Raises:
            JobExecutionError: the job failed, or what is to be done at its end.
        """
        try:
            outcome = self._run()
        except BaseException as failure:
            if self._journal is not None:
                self._journal.note_failed_start(failure)
            self._end(None, failure)
            raise
        failed = self._end(outcome, None)
        if failed is not None:
            raise failed
        return outcome

    def _run(self) -> JobOutcome:
        with _limit_told():
            for helper in self._helpers:
                helper.start()
        outcome = self.coordinator.run(self._start)
        discarded = outcome.cancelled and self._delete_on_cancel
        if self._beside is not None:
            self._beside.stop(nothing_written=discarded)
        if discarded and self._journal is not None:
            self._journal.discard()
            self._observers.monitor.status("CANCELED", folder=None)
        return outcome

    def _end(self, outcome: JobOutcome | None, failure: BaseException | None) -> BaseException | None:
        """Let go of everything, and tell those who wait; what fails does not keep the rest from its end."""
        for end in self._at_the_end:
            try:
                end()
            except BaseException as error:
                log.warning("job %r: what is to be done at its end failed: %r", self.name, error)
                failure = failure or self._ended_badly(error)
        RUNNING.discard(self)
        self._failure = failure
        if failure is None:
            self._outcome = outcome
        else:
            self.coordinator.status = "CANCELED" if isinstance(failure, KeyboardInterrupt) else "FAILED"
            if self._in_background and not isinstance(failure, JobCancelledError):
                _UNTOLD[self.job_id] = str(self._failed())
        try:
            if failure is not None:
                self._observers.monitor.status(self.coordinator.status)
            self._observers.close()
        finally:
            self._done.set()
            for waiting in self._queues.values():
                waiting.put(_END)
        return failure

    def _ended_badly(self, error: BaseException) -> BaseException:
        if not isinstance(error, Exception):
            return error
        failure = JobExecutionError(
            f"job {self.name!r} came to its end, and what is to be done then failed: {type(error).__name__}: {error}"
        )
        failure.__cause__ = error
        return failure

    def start(self) -> None:
        """Run in a thread of its own."""
        self._in_background = True
        RUNNING.add(self)
        try:
            with _limit_told():
                threading.Thread(target=self._run_quietly, name=f"job-{self.name}", daemon=True).start()
        except BaseException as failure:
            self._end(None, failure)
            _UNTOLD.pop(self.job_id, None)
            raise

    def _run_quietly(self) -> None:
        with contextlib.suppress(BaseException):
            self.run()

    def status(self) -> str:
        """CREATED, RUNNING, RESTARTING, FINISHED, FAILED or CANCELED."""
        return self.coordinator.status

    def cancel(self) -> None:
        """Cancel: stop after the epoch's checkpoint; DELETE_ON_CANCELLATION then removes the job's checkpoints."""
        self._delete_on_cancel = self._settings.delete_on_cancel
        self.coordinator.control.stop()

    @property
    def makes_checkpoints(self) -> bool:
        """Whether there will be anything to go on from."""
        return self._journal is not None

    @property
    def last_checkpoint(self) -> int | None:
        """The newest checkpoint, as far as attempts that have ended know."""
        last = self.coordinator.last or self._start
        return None if last is None else last.id

    def stop(self) -> None:
        """Stop after a checkpoint, to go on from there later."""
        self.coordinator.control.stop()

    def trigger_savepoint(self, directory: str | None = None) -> str:
        """Take a savepoint of the next checkpoint, which comes at once; the job goes on. Returns its path.

        Args:
            directory: where it shall lie; None for the default directory.

        Raises:
            ConfigurationError: there is no directory, or the job makes no checkpoints.
            JobExecutionError: the job ended before.
            StorageError: the directory can't be written, or the copy failed.
        """
        return self.coordinator.control.savepoints.take(self._directory(directory), self.job_id[:6])

    def stop_with_savepoint(self, drain: bool, directory: str | None = None) -> str:
        """Stop after a checkpoint and make a savepoint of it. Returns its path.

        Args:
            drain: let event time end first, so that all its timers and windows fire.
            directory: as for ``trigger_savepoint``.

        Raises:
            ConfigurationError, JobExecutionError, StorageError: as ``trigger_savepoint``; the job goes on when the
                directory cannot be used.
        """
        control = self.coordinator.control
        path = control.savepoints.take(
            self._directory(directory), self.job_id[:6], lambda: control.stop_for_savepoint(drain)
        )
        self._done.wait()
        return path

    def _directory(self, directory: str | None) -> str | None:
        return self._savepoint_dir if directory is None else directory

    def rescale(self, wanted: Parallelism) -> Rescaled:
        """Have the job go on with another parallelism, from a checkpoint that is taken at once; returns when it does.

        Args:
            wanted: of all operators for which the program sets none of their own; or that of some, by uid.

        Raises:
            ConfigurationError: it cannot be, or the job makes no checkpoints. The job goes on as it was.
            InvalidJobError: ``forward()`` would connect operators of different parallelism.
            JobExecutionError: the job ended before, or its attempt failed.
        """
        return self.coordinator.control.rescales.take(wanted)

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
        _UNTOLD.pop(self.job_id, None)
        return self._failed()

    def _failed(self) -> BaseException:
        failure = self._failure
        if isinstance(failure, JobExecutionError):
            return _as_shown(failure)
        return JobExecutionError(f"job {self.name!r} failed: {failure}")

    def printed(self, lines: list[str]) -> None:
        show_text("\n".join(lines) + "\n")

    def collected(self, node: int, elements: list[Any]) -> None:
        self._queues[node].put(elements)


def untold_failures() -> list[str]:
    """Of jobs in the background that failed, and of which nobody asked what became of them; each once."""
    told = list(_UNTOLD.values())
    _UNTOLD.clear()
    return told


@atexit.register
def _tell_at_exit() -> None:
    for failure in untold_failures():
        log.error("%s", failure)
    for job in sorted(RUNNING, key=lambda job: job.name):
        log.warning(
            "job %r ran in the background when the program ended, and ends with it. To wait for it, call "
            "get_job_execution_result().result() of what execute_async() returned",
            job.name,
        )


@contextlib.contextmanager
def _limit_told() -> Iterator[None]:
    """Within it, a thread or process that the machine does not allow is an error that names the limits."""
    try:
        yield
    except (RuntimeError, BlockingIOError) as error:
        if type(error) is not BlockingIOError and str(error) != "can't start new thread":
            raise
        most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        said = "unlimited" if most == resource.RLIM_INFINITY else str(most)
        raise EnvironmentNotReadyError(
            f"The job needs another thread or process, and the machine allows none ({error}): this user may have {said} "
            "(ulimit -u), and its container as many as its pids.max says",
            "Raise that limit: a job on Spark with a local master needs some hundreds",
        ) from error


def _as_shown(failed: JobExecutionError) -> JobExecutionError:
    """A failure, of which what the user's function raised hides how it came here: the driver's frames say nothing then."""
    if isinstance(failed.__cause__, UserFunctionError) and failed.__cause__.traceback:
        failed.__traceback__ = None
    return failed


def _noting_failed_start(journal: JobJournal) -> Callable[[Any, BaseException | None, Any], None]:
    """What to push on a stack within which a job starts."""

    def note(_: Any, error: BaseException | None, __: Any) -> None:
        if error is not None:
            journal.note_failed_start(error)

    return note


def _workers_at_start(runner: ClosingRunner, monitor: JobMonitor, plan: JobPlan) -> WorkersAtStart | str:
    noted = runner.noted(monitor.latest.attempt)
    if isinstance(noted, str):
        return noted
    subtasks = monitor.subtasks or sum(stage.parallelism for stage in plan.stages)
    return WorkersAtStart(noted.up, subtasks, noted.rows, noted.bytes, noted.ready, closing=noted.closing)


_launch: list[Launch] = []  # the first one counts


@contextlib.contextmanager
def launched_by(launch: Launch) -> Iterator[None]:
    """Within it, something else makes jobs out of graphs, in all threads of this process.

    The outermost decides: whoever looks at a program's job must not have it run because the program, too, says how.

    Args:
        launch: as the constructor of RunningJob, which it may call with a cluster of its own.
    """
    _launch.append(launch)
    try:
        yield
    finally:
        _launch.remove(launch)


def _launching() -> Launch:
    return _launch[0] if _launch else RunningJob


def run_job(graph: JobGraph, settings: JobSettings) -> JobOutcome:
    """Run a job to its end. Ctrl-C or SIGTERM stops it after a checkpoint; the second one stops it at once.

    Raises:
        JobExecutionError: the job failed and its restart strategy gave up.
        JobInterruptedError: Ctrl-C or SIGTERM ended it. What there is to say was printed.
        JobCancelledError: likewise in IPython, which shows it in one line.
    """
    job: LaunchedJob | None = None
    stopping: list[int] = []
    try:
        job = _launching()(graph, settings)
        with interruptible(job, stopping):
            outcome = job.run()
    except JobExecutionError as failed:
        _as_shown(failed)
        raise
    except KeyboardInterrupt:
        last = None if job is None else job.last_checkpoint
        raise interrupted(graph.name, settings, last, started=job is not None) from None
    if outcome.cancelled and stopping:
        raise interrupted(graph.name, settings, outcome.last_checkpoint, stopping[0])
    return outcome


def start_job(graph: JobGraph, settings: JobSettings) -> LaunchedJob:
    """Start a job in the background."""
    job = _launching()(graph, settings)
    job.start()
    return job
