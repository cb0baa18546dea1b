"""The schedule beside a job: a materialization every interval, in a thread of its own, then a truncation.

Invariants:
    * One in flight; the next one begins an interval after the last began, or at once when that took longer.
    * The job's thread never waits for it: folds run elsewhere, in slots of Spark's that no epoch takes or in a process, and
      commits go to another table. Only a truncation commits to the job's table: a few times, with pauses.
    * Nothing is started before the first materialization is due.
    * The clock of the machine may be set: intervals are measured, and no age grows faster than time passes.
    * A failure is tolerated; too many in a row fail the job, as in Flink.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from changelog_engine.clock import LONGEST_WAIT_S, CautiousWall, SystemClock, monotonic_ms
from changelog_engine.driver.figures import JobMonitor
from changelog_engine.errors import ChangelogEngineError, StorageError
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.ledger.job_folder import JobFolder
from materializer.lock import MaterializerBusyError
from materializer.materialize import Materialization
from materializer.processes import FoldProcesses
from materializer.remembered import remember
from materializer.retention import Retention
from materializer.runner import TaskRunner
from materializer.upkeep import upkeep

log = logging.getLogger("changelog_engine")
_SOON_MS = 60_000  # a process is kept for the next fold when that comes as soon as this


class Schedule:
    """Materializes and truncates from time to time.

    Args:
        interval_ms: from the beginning of one materialization to that of the next.
        retention: what truncation keeps; None never truncates.
        give_up: called with the failure after one more.
        runners: gives what may run the tasks of a materialization when it is due: the first that is ready does, the last is
            always. What it gave is stopped with the schedule.
        monitor: is told what was made and what failed.
    """

    def __init__(
        self,
        folder: JobFolder,
        interval_ms: int,
        retention: Retention | None,
        max_failures: int,
        give_up: Callable[[ChangelogEngineError], None],
        runners: Callable[[], Iterable[TaskRunner]],
        monitor: JobMonitor | None = None,
    ) -> None:
        self.failures = 0
        self._busy = 0  # in a row: another process had the lock
        self.done: Materialization | None = None
        self._folder = folder
        self._interval_s = interval_ms / 1000
        self._retention = retention
        self._max_failures = max_failures
        self._give_up = give_up
        self._find_runners = runners
        self._monitor = JobMonitor() if monitor is None else monitor
        self._runners: list[TaskRunner] = []
        self._run_lock = threading.Lock()
        self._now_s = CautiousWall(SystemClock())
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="materializer", daemon=True)

    def start(self) -> None:
        """Begin: the first materialization comes after an interval."""
        self._thread.start()

    def stop(self, nothing_written: bool = False) -> None:
        """End, in the middle of a materialization too; waits for the thread.

        Args:
            nothing_written: wait for tasks on other machines, too, so that nothing of it writes any more. Otherwise they
                write files for some seconds yet, which truncation removes.
        """
        self._stopping.set()
        with self._run_lock:
            runners = list(self._runners)
        for run in runners:
            if nothing_written:
                run.let_end()
            else:
                run.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def once(self) -> None:
        """One materialization and truncation; a failure is counted."""
        try:
            upkeep(self._folder, self._runner(), self._retention, self._told, self._now_s)
            self.failures = self._busy = 0
            self._monitor.upkeep = self._monitor.upkeep._replace(failed_in_a_row=0)
        except MaterializerBusyError as busy:
            self._busy += 1
            # The other process may be stopped, and the log grows.
            level = logging.INFO if self._busy == 1 else logging.WARNING
            log.log(level, "%s; %d times in a row now", busy, self._busy)
        except Exception as failure:
            if self._stopping.is_set():
                return
            self._failed(failure)

    def _runner(self) -> TaskRunner:
        for run in self._find_runners():
            with self._run_lock:
                if self._stopping.is_set():
                    break
                if run not in self._runners:
                    self._runners.append(run)
            if run.ready():
                return run
        raise StorageError("the materialization was stopped")

    def _told(self, done: Materialization | None) -> None:
        if done is not None:
            self.done = done
            before = self._monitor.upkeep
            self._monitor.upkeep = before._replace(
                done=before.done + 1, checkpoint=done.checkpoint, seconds=done.seconds
            )
            log.info(
                "materialized checkpoint %d: %d rows of the log, %d pieces written and %d kept, in %.1f s",
                done.checkpoint, done.log_rows, done.written, done.kept, done.seconds,
            )  # fmt: skip

    def _failed(self, failure: Exception) -> None:
        self.failures += 1
        before = self._monitor.upkeep
        self._monitor.upkeep = before._replace(
            failed=before.failed + 1, failed_in_a_row=before.failed_in_a_row + 1
        )
        log.warning(
            "materialization of %s failed (%d in a row; %d are tolerated): %s",
            self._folder.storage.root, self.failures, self._max_failures, failure,
        )  # fmt: skip
        if self.failures > self._max_failures:
            self.failures = 0
            if not isinstance(failure, ChangelogEngineError):
                failure = StorageError(f"the materialization failed: {failure!r}")
            self._give_up(failure)

    def _loop(self) -> None:
        wait = self._interval_s
        while not self._stopping.wait(min(wait, LONGEST_WAIT_S)):
            began_ms = monotonic_ms()
            self.once()
            wait = max(0.0, self._interval_s - (monotonic_ms() - began_ms) / 1000)


def beside_job(
    folder: JobFolder,
    settings: JobSettings,
    give_up: Callable[[ChangelogEngineError], None],
    background: Callable[[], Sequence[TaskRunner]] = list,
    monitor: JobMonitor | None = None,
) -> Schedule | None:
    """The schedule that a job's settings ask for; None for none.

    Args:
        background: gives what may run tasks in the job's Spark; nothing where that has no room for them.
    """
    if not settings.changelog:
        return None
    interval_ms = settings.materialize_interval_ms
    retention = _retention(settings)
    try:
        remember(folder, retention)
    except StorageError as error:
        log.warning("the retention could not be written down for other processes: %s", error)
    if interval_ms is None:
        return None
    processes = FoldProcesses(keep=interval_ms <= _SOON_MS)

    def runners() -> Iterator[TaskRunner]:
        if settings.folds_on_spark:
            yield from background()
        yield processes

    return Schedule(
        folder, interval_ms, retention, settings.materialize_max_failures, give_up, runners, monitor
    )


def _retention(settings: JobSettings) -> Retention:
    """Unless it is set, the grace time is half the interval: what a snapshot replaced is gone before the next but one."""
    grace_ms = settings.truncation_grace_ms
    if grace_ms is None:
        longest = Retention().grace_ms
        interval_ms = settings.materialize_interval_ms
        grace_ms = longest if interval_ms is None else min(interval_ms // 2, longest)
    return Retention(settings.history_retention_ms, settings.retained_checkpoints, grace_ms)
