"""The observers of a running job: made before it starts, so that the start is seen too, and closed after it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from changelog_engine.driver.figures import JobMonitor
from changelog_engine.driver.structured_logs import log_as_json
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind
from changelog_engine.observing.progress import DISPLAY, ShownJob, wanted
from changelog_engine.observing.words import WorkersAtStart

if TYPE_CHECKING:
    from changelog_engine.observing.prometheus import Reporter

log = logging.getLogger("changelog_engine")


class Observers:
    """Those of one run of a job.

    Raises:
        ConfigurationError: the port for metrics cannot be had.
    """

    def __init__(self, graph: JobGraph, settings: JobSettings) -> None:
        logs = settings.changelog and settings.checkpoint_interval_ms is not None
        self.monitor = JobMonitor(graph.name, logs)
        self._reporter: Reporter | None = None
        self._shown: ShownJob | None = None
        self._noted = ShownJob(self.monitor, 0)  # for signs of life
        if settings.json_logs:
            log_as_json()
        if settings.metrics_port is not None:
            from changelog_engine.observing.prometheus import Reporter  # Python's HTTP server comes with it

            self._reporter = Reporter(settings.metrics_host, settings.metrics_port, self.monitor)
            log.info("job %r: metrics at http://%s/metrics", graph.name, self._reporter.address)
        collects = any(node.kind is NodeKind.SINK and node.function.collects for node in graph.nodes)
        if wanted(settings.progress, collects, os.environ):
            self._shown = ShownJob(self.monitor, settings.progress_interval_ms)
            # Somebody's own stream or handler may fail: the job runs all the same.
            with contextlib.suppress(Exception):
                DISPLAY.add(self._shown)
                self.monitor.watched = True

    def begin(self, folder: str | None, restored_from: int | None, empty_because: str, starting: str) -> None:
        """It is decided where the run begins; what runs its epochs comes next.

        Args:
            folder: of the job; None for one without checkpoints.
            restored_from: the checkpoint; None for an empty start.
            empty_because: of a job that ran before and begins empty: why.
            starting: what is waited for now, in words.
        """
        self.monitor.starting = starting
        self.monitor.empty_because = empty_because
        self.monitor.status("STARTING", folder=folder, restored_from=restored_from)
        if self._shown is not None:
            with contextlib.suppress(Exception):
                DISPLAY.begun(self._shown)

    def ask_workers(self, workers: Callable[[], WorkersAtStart | str]) -> None:
        """From now on this says how far the workers are when an attempt begins; any thread may call it, at any time.

        Args:
            workers: see ``starting_words``.
        """
        self._noted.workers = workers
        if self._shown is not None:
            self._shown.workers = workers

    def doing(self) -> str:
        """What the job does now, in words; those who have no terminal of it read them with its signs of life."""
        found = ""
        with contextlib.suppress(Exception):
            found = self._noted.doing()
            if self.monitor.failure and self.monitor.latest.status in ("RESTARTING", "RESTORING"):
                found += f"; the attempt before failed: {self.monitor.failure}"
        return found

    def close(self) -> None:
        """The run has ended, or could not begin. Does not fail."""
        with contextlib.suppress(Exception):
            if self._shown is not None:
                DISPLAY.remove(self._shown)
        with contextlib.suppress(Exception):
            if self._reporter is not None:
                self._reporter.close()
