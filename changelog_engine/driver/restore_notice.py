"""Tells people what a restore is doing: how much there is to read, that it goes on, and how long it took.

A short one says only the last of it. What is long is said as a warning, so that it is seen where no logging is configured.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from types import TracebackType

from changelog_engine.changelog.model import RestorePoint
from changelog_engine.clock import monotonic_s
from changelog_engine.driver.figures import JobMonitor
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.ledger.reading import RestoreSize, restore_size
from changelog_engine.readable import size_text

log = logging.getLogger("changelog_engine")

_SILENT_S = 1.0
_EVERY_S = 10.0


class RestoreNotice:
    """Speaks while the epoch runs in which the subtasks take their state.

    Args:
        point: what is restored; None, or one without a checkpoint, for nothing, of which nothing is said.
        monitor: is told how much there is to read. Where it is watched, that it goes on is shown there.
    """

    def __init__(self, job: str, point: RestorePoint | None, monitor: JobMonitor | None = None) -> None:
        self._job = job
        self._monitor = monitor or JobMonitor(job)
        self._point = point if point is not None and point.checkpoint is not None else None
        self._ended = threading.Event()

    def __enter__(self) -> RestoreNotice:
        if self._point is not None:
            threading.Thread(target=self._speak, args=(self._point,), name="restore", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    def restored(self, longest_ms: float | None, kept: int = 0) -> None:
        """The subtasks have their state.

        Args:
            longest_ms: the longest time that one of them needed; None when all held it already.
            kept: how many had it in memory from the attempt before, but for what changed since the checkpoint.
        """
        if self._point is not None and longest_ms is not None:
            log.info(
                "job %r: state of checkpoint %s restored in %.1f s%s",
                self._job,
                self._point.checkpoint,
                longest_ms / 1000,
                f", of {kept} subtasks locally" if kept else "",
            )

    def _speak(self, point: RestorePoint) -> None:
        began = monotonic_s()
        if self._ended.wait(_SILENT_S):
            return
        what = ""
        with contextlib.suppress(ChangelogEngineError):  # the workers find the same, and say it
            self._monitor.restoring = size = restore_size(point)
            what = f": {in_words(size)}"
        log.info("job %r: restoring the state of checkpoint %s%s", self._job, point.checkpoint, what)
        while not self._ended.wait(_EVERY_S):
            if self._monitor.watched:
                continue
            log.warning(
                "job %r: restoring the state of checkpoint %s for %.0f s now%s",
                self._job,
                point.checkpoint,
                monotonic_s() - began,
                what,
            )


def in_words(size: RestoreSize) -> str:
    """Such as "1,000,000 rows (12.0 MB) of the snapshot of checkpoint 7, and 4,096 (0.1 MB) of the log"."""
    log_rows = f"{size.log_rows:,} {{}}({size_text(size.log_bytes)}) of the log"
    if size.snapshot is None:
        return log_rows.format("rows ")
    return (
        f"{size.snapshot_rows:,} rows ({size_text(size.snapshot_bytes)}) of the snapshot of checkpoint {size.snapshot}, "
        f"and {log_rows.format('')}"
    )
