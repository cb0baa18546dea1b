"""The ends of event time: 64-bit values that stand for no time, before all and after all, as in Flink."""

from __future__ import annotations

NO_TIMESTAMP = -(2**63)
"""The timestamp of an element that has none."""

MIN_WATERMARK = NO_TIMESTAMP
"""The watermark before the first one."""

MAX_WATERMARK = 2**63 - 1
"""The watermark after the last element of an input that has ended; results of that end have it as their timestamp."""


def has_ended(watermark: int | None) -> bool:
    """Whether event time has ended with a watermark; None is one before the first."""
    return watermark == MAX_WATERMARK


def moment_of(watermark: int | None) -> int | None:
    """The moment that a watermark shows, epoch milliseconds; None before the first one and at the end of event time."""
    return None if watermark in (None, MIN_WATERMARK, MAX_WATERMARK) else watermark
