"""Progress on standard error: one live line on a terminal, a line from time to time elsewhere.

It looks at jobs' figures from a thread of its own, one for all jobs of the process.

Invariants:
    * Nothing here is called by a job while it runs, nothing can fail it, and nothing goes to standard output.
    * Elsewhere than on a terminal, a run that is shorter than a second, or the interval, says nothing on a plain standard
      error. Where the program has configured logging, all lines go through the logger ``changelog_engine``, nowhere else.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

from changelog_engine.clock import monotonic_ms, wall_ms
from changelog_engine.driver.figures import JobFigures, JobMonitor
from changelog_engine.launcher.standard_streams import tell
from changelog_engine.observing.live_line import LINE, takes_text
from changelog_engine.observing.words import (
    WorkersAtStart,
    first_words,
    last_words,
    running_words,
    starting_words,
)
from changelog_engine.state import handles_in_c
from changelog_engine.types import row_loops

log = logging.getLogger("changelog_engine")

_TICK_S = 0.25
_PATIENCE_S = 5.0  # with whoever holds the lines: the job goes on without them
_SHORT_MS = 1_000
_RATE_MS = 2_000  # the least time that the live line's rates are over
_ENDED = ("FINISHED", "FAILED", "CANCELED")


class ShownJob:
    """One job whose progress is shown.

    Args:
        interval_ms: between two lines, elsewhere than on a terminal.
    """

    def __init__(self, monitor: JobMonitor, interval_ms: int) -> None:
        self.monitor = monitor
        self.interval_ms = interval_ms
        self.workers: Callable[[], WorkersAtStart | str] = str
        self._before = monitor.latest  # what rates are since
        self._newer = monitor.latest
        self._told_ms = monotonic_ms()  # when the last line was written
        self._begun: JobFigures | None = None  # what the first line said
        self._reading: tuple[int, float] | None = None  # attempt, and since when it reads restored rows

    @property
    def short(self) -> bool:
        """Whether the run is so short yet that nothing is said of it on a plain standard error."""
        return monotonic_ms() - self.monitor.latest.began_ms < min(self.interval_ms, _SHORT_MS)

    def words(self, now: JobFigures, before: JobFigures) -> str:
        """What the job does now."""
        now_ms = monotonic_ms()
        if now.status != "RUNNING" or not now.epoch:
            monitor = self.monitor
            return starting_words(now, now_ms, self._workers(), monitor.restoring, monitor.starting)
        return running_words(now, before, wall_ms(), now_ms - now.at_ms)

    def doing(self) -> str:
        """What the job does now, whenever somebody asks."""
        now = self.monitor.latest
        if now.at_ms - self._newer.at_ms >= _RATE_MS:
            self._before, self._newer = self._newer, now
        return self.words(now, self._before)

    def live(self) -> str:
        """The live line."""
        words, now = self.doing(), self.monitor.latest
        seconds = int((monotonic_ms() - now.began_ms) / 1000)
        return f"{now.job} {seconds // 60:02}:{seconds % 60:02}  {words}"

    def first(self) -> str | None:
        """The first line, when it is known now and was not given before."""
        now = self.monitor.latest
        if self._begun is not None or now.status == "CREATED":
            return None
        self._begun = now
        slower = (row_loops.WHY_NOT or handles_in_c.WHY_NOT) is not None
        return first_words(now.job, now.folder, now.restored_from, self.monitor.empty_because, slower)

    def due(self) -> str | None:
        """A line, when its time has come."""
        now_ms, now = monotonic_ms(), self.monitor.latest
        if now_ms - self._told_ms < self.interval_ms:
            return None
        self._told_ms = now_ms
        words = self.words(now, self._before)
        if now.at_ms > self._newer.at_ms:  # else no epoch has ended since, and rates stay as they were
            self._before = self._newer = now
        return f"job {now.job!r}: {words}"

    def _workers(self) -> WorkersAtStart | str:
        found: WorkersAtStart | str = ""
        with contextlib.suppress(Exception):  # files that are gone meanwhile
            found = self.workers()
        if isinstance(found, str) or not found.rows:
            self._reading = None
            return found
        now_ms, attempt = monotonic_ms(), self.monitor.latest.attempt
        if self._reading is None or self._reading[0] != attempt:
            self._reading = attempt, now_ms
        return found._replace(reading_ms=now_ms - self._reading[1])


class Display:
    """Shows the progress of all jobs of the process that want it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: list[ShownJob] = []
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._on_terminal = False

    def add(self, job: ShownJob) -> None:
        """Show a job from now on."""
        with self._lock:
            if not self._jobs:
                self._on_terminal = LINE.begin()
            self._jobs.append(job)
            if self._thread is None:
                self._wake.clear()
                self._thread = threading.Thread(target=self._follow, name="progress", daemon=True)
                self._thread.start()

    def begun(self, job: ShownJob) -> None:
        """It is known now where the job begins."""
        if not self._lock.acquire(timeout=_PATIENCE_S):
            return
        try:
            self._tell_first(job)
        finally:
            self._lock.release()

    def remove(self, job: ShownJob) -> None:
        """The job has ended: say how, and show it no more."""
        if not self._lock.acquire(timeout=_PATIENCE_S):
            return
        thread = None
        try:
            if job not in self._jobs:
                return
            try:
                self._tell_first(job)
                if job.monitor.latest.status in _ENDED:
                    self._tell(job, last_words(job.monitor.latest))
            finally:
                self._jobs.remove(job)
                if not self._jobs:
                    thread, self._thread = self._thread, None
                    self._wake.set()
                    LINE.end()
        finally:
            self._lock.release()
        if thread is not None:
            thread.join(_PATIENCE_S)

    def _follow(self) -> None:
        me = threading.current_thread()
        while not self._wake.wait(_TICK_S):
            with self._lock:
                if self._thread is not me:
                    return
                for job in self._jobs:
                    self._look(job)
                if self._on_terminal and self._jobs:
                    more = f" (and {len(self._jobs) - 1} more)" if len(self._jobs) > 1 else ""
                    LINE.show(f"{self._jobs[-1].live()}{more}")

    def _look(self, job: ShownJob) -> None:
        self._tell_first(job)
        if not self._on_terminal and (words := job.due()) is not None:
            self._tell(job, words)

    def _tell_first(self, job: ShownJob) -> None:
        if (self._on_terminal or _logged() or not job.short) and (words := job.first()) is not None:
            self._tell(job, words)

    def _tell(self, job: ShownJob, text: str) -> None:
        """Say something where it will be seen once."""
        if _logged():
            log.info("%s", text, extra={"figures": job.monitor.latest})
        elif self._on_terminal:
            LINE.say(text)
        elif not job.short and takes_text(sys.stderr):
            tell(text)


def _logged() -> bool:
    """Whether the program has configured logging."""
    return log.hasHandlers()


DISPLAY = Display()
"""The process's."""


def wanted(show: str, collects: bool, environment: Any) -> bool:
    """Whether a job's progress is to be shown; ``collects``: the program takes the job's results itself."""
    if show == "auto":
        return not collects and "PYTEST_CURRENT_TEST" not in environment
    return show == "always"
