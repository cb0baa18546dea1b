"""Epochs in figures, as tests look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.driver.figures import JobMonitor
from changelog_engine.operators.messages import EpochReport


class EpochStats(NamedTuple):
    """One epoch in figures.

    Times in ms; ``mutations`` are rows of the changelog, 0 without one; metrics of functions by full name.
    """

    epoch: int
    records: int
    mutations: int
    duration_ms: float
    checkpoint: int | None
    acknowledged_ms: float | None  # barrier to commit
    metrics: dict[str, Any]


class ObservedEpochs(JobMonitor):
    """A job's monitor that tells of each epoch.

    Args:
        observer: called after each epoch with its figures.
    """

    def __init__(self, observer: Callable[[EpochStats], object]) -> None:
        super().__init__()
        self._observer = observer
        self._epoch = 0
        self._reports: list[EpochReport] = []
        self._acknowledged: tuple[int, float] | None = None

    def take(self, epoch: int, waited_ms: float, reports: list[EpochReport]) -> None:
        """See JobMonitor."""
        super().take(epoch, waited_ms, reports)
        self._epoch, self._reports, self._acknowledged = epoch, reports, None

    def checkpointed(self, checkpoint: Checkpoint, acknowledged_ms: float, commit_ms: float) -> None:
        """See JobMonitor."""
        super().checkpointed(checkpoint, acknowledged_ms, commit_ms)
        self._acknowledged = checkpoint.id, acknowledged_ms

    def end_epoch(self, duration_ms: float) -> None:
        """See JobMonitor."""
        super().end_epoch(duration_ms)
        checkpoint, acknowledged_ms = self._acknowledged or (None, None)
        self._observer(
            EpochStats(
                epoch=self._epoch,
                records=sum(report.records_in for report in self._reports if report.sources),
                mutations=sum(report.mutations for report in self._reports),
                duration_ms=duration_ms,
                checkpoint=checkpoint,
                acknowledged_ms=acknowledged_ms,
                metrics={m.full_name: m.figure for report in self._reports for m in report.metrics},
            )
        )
