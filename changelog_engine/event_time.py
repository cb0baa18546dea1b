"""The ends of event time: 64-bit values that stand for no time, before all and after all, as in Flink."""

from __future__ import annotations

NO_TIMESTAMP = -(2**63)
"""The timestamp of an element that has none."""

MIN_WATERMARK = NO_TIMESTAMP
"""The watermark before the first one."""

MAX_WATERMARK = 2**63 - 1
"""The watermark after the last element of an input that has ended; results of that end have it as their timestamp."""


_UNITS = ((10**9, "seconds"), (10**15, "microseconds"), (10**18, "nanoseconds"))


def other_unit(time: int) -> str | None:
    """The unit that a time seems to be in, which should be milliseconds; None for milliseconds.

    Counted in another unit the years 2001 to 2065 are in January 1970, or tens of thousands of years ahead.
    """
    return next((name for least, name in _UNITS if least <= time < 3 * least), None)


def has_ended(watermark: int | None) -> bool:
    """Whether event time has ended with a watermark; None is one before the first."""
    return watermark == MAX_WATERMARK


def moment_of(watermark: int | None) -> int | None:
    """The moment that a watermark shows, epoch milliseconds; None before the first one and at the end of event time."""
    return None if watermark in (None, MIN_WATERMARK, MAX_WATERMARK) else watermark
