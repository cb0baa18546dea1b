"""What lies from one point of a job to another: the one rule for all that takes a beginning and an end."""

from __future__ import annotations

from typing import NamedTuple

from changelog_engine.errors import RestoreError
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.points import At, checkpoint_at, time_of
from changelog_engine.readable import iso


class RangeEnd(NamedTuple):
    """An end of a range, which belongs to it.

    Args:
        checkpoint: its id; None where a time was given, which counts by itself.
        time_ms: that time, or when the checkpoint's barrier was.
    """

    checkpoint: int | None
    time_ms: int

    def __str__(self) -> str:
        time = f"{iso(self.time_ms)} UTC"
        return time if self.checkpoint is None else f"checkpoint {self.checkpoint} ({time})"

    def is_after(self, other: RangeEnd) -> bool:
        """Whether it is later than another: by ids where both have one, else by time."""
        if self.checkpoint is not None and other.checkpoint is not None:
            return self.checkpoint > other.checkpoint
        return self.time_ms > other.time_ms


class PointRange(NamedTuple):
    """From a bound to another; None for no bound."""

    start: RangeEnd | None
    end: RangeEnd | None

    def holds(self, checkpoint: int, time_ms: int | None) -> bool:
        """Whether a checkpoint lies in it.

        Args:
            time_ms: when its barrier was; None where that is not known, which counts as before all times.
        """
        ends = self.end is not None and RangeEnd(checkpoint, time_ms or 0).is_after(self.end)
        return not ends and not self.is_after(checkpoint, time_ms)

    def is_after(self, checkpoint: int, time_ms: int | None) -> bool:
        """Whether all of it is later than a checkpoint; see ``holds``."""
        return self.start is not None and self.start.is_after(RangeEnd(checkpoint, time_ms or 0))


def range_of(lineage: Lineage, start: At = None, end: At = None) -> PointRange:
    """The range between two points.

    Args:
        start: the first point, see ``ledger.points``; a time need not be that of a checkpoint.

    Raises:
        RestoreError: there is no such checkpoint, and the error suggests the closest match; or it ends before it begins.
    """
    low, high = (None if at is None else _bound(lineage, at) for at in (start, end))
    if low is not None and high is not None and low.is_after(high):
        raise RestoreError(
            f"the range from {str(start)!r} to {str(end)!r} ends before it begins: {low} is after {high}"
        )
    return PointRange(low, high)


def _bound(lineage: Lineage, at: At) -> RangeEnd:
    time_ms = time_of(str(at), lineage)
    if time_ms is not None:
        return RangeEnd(None, time_ms)
    found = checkpoint_at(lineage, at)
    return RangeEnd(found.id, found.time_ms)
