"""Time. The one place that asks the machine for it.

Two kinds that are never compared: the wall clock, which people read and which jumps when it is set, and the monotonic
clock, which only measures how long something took. They are types of their own, so that mypy refuses to mix them.

Invariants:
    * What ends, expires or comes again within a process is measured on the monotonic clock.
    * The wall clock goes into what people read, and into rows and files that outlive the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NewType, Protocol

WallMs = NewType("WallMs", int)
"""Milliseconds since 1970, as the machine's clock has it now."""

MonotonicMs = NewType("MonotonicMs", float)
"""Milliseconds since some moment that is the same for the whole process; never goes back."""


WallClock = Callable[[], int]
"""Where functions take the wall clock's milliseconds from: that of processing time."""


class Clock(Protocol):
    """Where a job's time comes from."""

    def wall_ms(self) -> WallMs:
        """Now, for people."""

    def monotonic_ms(self) -> MonotonicMs:
        """Now, to measure with."""


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> WallMs:
        return wall_ms()

    def monotonic_ms(self) -> MonotonicMs:
        return monotonic_ms()


class CautiousWall:
    """A wall clock that never runs ahead of the time that has passed since it was made.

    For what is deleted by age: a clock that is set forward must not make everything older at once. One that is set back
    makes it younger, and it stays longer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.wall_ms() - clock.monotonic_ms()

    def __call__(self) -> float:
        """Seconds since 1970."""
        return min(self._clock.wall_ms(), self._ahead_ms + self._clock.monotonic_ms()) / 1000


def wall_ms() -> WallMs:
    """The machine's wall clock, in milliseconds since 1970."""
    now: WallMs = time.time_ns() // 1_000_000  # type: ignore[assignment]  # WallMs() takes as long as the clock
    return now


def wall_s() -> float:
    """The machine's wall clock, in seconds since 1970."""
    return time.time()


monotonic_s: Callable[[], float] = time.monotonic
"""The machine's monotonic clock in seconds."""


LONGEST_WAIT_S = threading.TIMEOUT_MAX / 2
"""More than anybody waits, 146 years: locks, events, queues and sleeps take little more. An option may be larger."""


class Deadline:
    """A moment on the monotonic clock, in seconds, at which waiting ends."""

    def __init__(self, after_s: float, clock: Callable[[], float] = monotonic_s) -> None:
        self._clock = clock
        self._at_s = clock() + after_s

    @property
    def left_s(self) -> float:
        """Seconds until then; 0 when it has passed."""
        return max(0.0, self._at_s - self._clock())

    @property
    def passed(self) -> bool:
        """Whether it is later."""
        return self._clock() > self._at_s


def monotonic_ms() -> MonotonicMs:
    """The machine's monotonic clock in milliseconds."""
    return MonotonicMs(time.monotonic() * 1000)
