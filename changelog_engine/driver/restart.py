"""Flink's restart strategies: whether and when a failed job goes on."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from changelog_engine.clock import MonotonicMs
from changelog_engine.graph.nodes import JobSettings, RestartKind, RestartSettings


def strategy_of(settings: JobSettings) -> RestartSettings:
    """The job's strategy; without one, checkpointing decides, as in Flink."""
    if settings.restart is not None:
        return settings.restart
    if settings.checkpoint_interval_ms is None:
        return RestartSettings(RestartKind.NONE)
    return RestartSettings(RestartKind.EXPONENTIAL_DELAY)


class Restarts:
    """Counts failures of one run.

    Args:
        uniform: a random number between its two arguments, for the jitter.
    """

    def __init__(
        self, settings: RestartSettings, uniform: Callable[[float, float], float] = random.uniform
    ) -> None:
        self.settings = settings
        self._uniform = uniform
        self.count = 0
        self._failures: deque[MonotonicMs] = deque()
        self._backoff_ms = float(settings.initial_backoff_ms)
        self._last_failure_ms: MonotonicMs | None = None

    def after_failure(self, now_ms: MonotonicMs) -> float | None:
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

    def _exponential(self, now_ms: MonotonicMs) -> float:
        settings = self.settings
        last, self._last_failure_ms = self._last_failure_ms, now_ms
        if last is not None and now_ms - last > settings.reset_backoff_ms:
            self._backoff_ms = float(settings.initial_backoff_ms)
        spread = self._backoff_ms * settings.jitter
        delay = self._backoff_ms + self._uniform(-spread, spread)
        self._backoff_ms = min(self._backoff_ms * settings.backoff_multiplier, float(settings.max_backoff_ms))
        return min(delay, float(settings.max_backoff_ms))
