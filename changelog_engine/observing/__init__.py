"""How a running job shows what it does: progress on standard error, metrics for Prometheus, logs as JSON."""

from __future__ import annotations

from changelog_engine.observing.observers import Observers
from changelog_engine.observing.words import WorkersAtStart

__all__ = ["Observers", "WorkersAtStart"]
