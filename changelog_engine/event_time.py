"""The ends of event time: the 64-bit milliseconds that are no moment, as in Flink."""

from __future__ import annotations

NO_TIMESTAMP = -(2**63)
"""The timestamp of an element that has none."""

MIN_WATERMARK = NO_TIMESTAMP
"""The watermark before the first one."""

MAX_WATERMARK = 2**63 - 1
"""The watermark after the last element of an input that has ended; results of that end have it as their timestamp."""
