"""Flink's restart strategies: whether and when a failed job goes on."""

from __future__ import annotations

from collections import deque

from changelog_engine.errors import (
    ConfigurationError,
    CorruptChangelogError,
    FencedError,
    ForeignPathError,
    FormatVersionError,
    InvalidJobError,
    NotSerializableError,
    RestoreError,
    StateTooLargeError,
)
from changelog_engine.graph.nodes import JobSettings, RestartKind, RestartSettings

# What no restart can mend.
FATAL = (
    FencedError,
    ForeignPathError,
    FormatVersionError,
    CorruptChangelogError,
    RestoreError,
    InvalidJobError,
    NotSerializableError,
    ConfigurationError,
    StateTooLargeError,
)
_ALWAYS = 2**31 - 1


def strategy_of(settings: JobSettings) -> RestartSettings:
    """The job's strategy; without one, checkpointing decides, as in Flink."""
    if settings.restart is not None:
        return settings.restart
    if settings.checkpoint_interval_ms is None:
        return RestartSettings(RestartKind.NONE)
    return RestartSettings(RestartKind.FIXED_DELAY, attempts=_ALWAYS, delay_ms=1000)


class Restarts:
    """Counts failures of one run.

    Args:
        settings: the strategy.
    """

    def __init__(self, settings: RestartSettings) -> None:
        self.settings = settings
        self.count = 0
        self._failures: deque[float] = deque()
        self._backoff_ms = float(settings.initial_backoff_ms)
        self._last_failure_ms: float | None = None

    def after_failure(self, now_ms: float) -> float | None:
        """Take note of a failure; returns the delay in ms before the restart, or None to give up."""
        settings = self.settings
        self.count += 1
        if settings.kind is RestartKind.NONE:
            return None
        if settings.kind is RestartKind.FIXED_DELAY:
            return settings.delay_ms if self.count <= settings.attempts else None
        if settings.kind is RestartKind.FAILURE_RATE:
            self._failures.append(now_ms)
            while self._failures and now_ms - self._failures[0] > settings.interval_ms:
                self._failures.popleft()
            return settings.delay_ms if len(self._failures) <= settings.failures else None
        return self._exponential(now_ms)

    def _exponential(self, now_ms: float) -> float:
        settings = self.settings
        last, self._last_failure_ms = self._last_failure_ms, now_ms
        if last is not None and now_ms - last > settings.reset_backoff_ms:
            self._backoff_ms = float(settings.initial_backoff_ms)
        delay = self._backoff_ms
        self._backoff_ms = min(self._backoff_ms * settings.backoff_multiplier, float(settings.max_backoff_ms))
        return delay
