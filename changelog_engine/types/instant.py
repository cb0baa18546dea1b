"""Instant: a point on the UTC time line with nanoseconds. As ``pyflink.common.time.Instant``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False, order=True)
class Instant:
    """A point in time.

    Args:
        seconds: whole seconds since 1970-01-01T00:00:00Z, negative before.
        nanos: nanoseconds after that second, 0 to 999,999,999.

    Example:
        >>> Instant.of_epoch_milli(1500)
        Instant<1, 500000000>
        >>> Instant(1, 500000000).to_epoch_milli()
        1500
    """

    seconds: int
    nanos: int

    def to_epoch_milli(self) -> int:
        """Whole milliseconds since 1970-01-01T00:00:00Z, rounded down."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """The instant of a number of milliseconds.

        Args:
            epoch_milli: ms since 1970-01-01T00:00:00Z.
        """
        return Instant(epoch_milli // 1000, epoch_milli % 1000 * 1_000_000)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


def in_bounds(value: Instant) -> tuple[int, int]:
    """Its seconds, and nanoseconds of 0 to 999,999,999, whatever it was made of.

    Example:
        >>> in_bounds(Instant(5, -1))
        (4, 999999999)
    """
    more, nanos = divmod(value.nanos, 1_000_000_000)
    return value.seconds + more, nanos
