"""Numbers, sizes and times as people read them, in messages, tables and pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_LEAST_WHOLE = 9.95  # a rate from here on has two digits before the point
_LEAST_RATE = 0.001
_LEAST_LONG = 999.95  # from here on it would be written as 1000.0


def iso(time_ms: float, timespec: str = "milliseconds") -> str:
    """A moment: UTC, to the millisecond. Moments that a calendar doesn't have are their numbers.

    Args:
        timespec: what it is shown to, as datetime's ``isoformat`` has it.

    Example:
        >>> iso(1_500), iso(1_500, "seconds"), iso(10**17)
        ('1970-01-01 00:00:01.500', '1970-01-01 00:00:01', '100000000000000000 ms')
    """
    try:
        when = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms" if isinstance(time_ms, int) else f"{time_ms:.0f} ms"
    return when.isoformat(sep=" ", timespec=timespec).removesuffix("+00:00")


def duration(ms: float) -> str:
    """A length of time.

    Example:
        >>> [duration(each) for each in (12, 1_500, 90_000, 7_200_000)]
        ['12 ms', '1.5 s', '1.5 min', '2.0 h']
    """
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    if ms < 3_600_000:
        return f"{ms / 60_000:.1f} min"
    return f"{ms / 3_600_000:.1f} h" if ms < 172_800_000 else f"{ms / 86_400_000:.1f} days"


def size_text(count: float) -> str:
    """A number of bytes.

    Example:
        >>> size_text(900), size_text(34_791), size_text(5_000_000)
        ('900 B', '34.8 kB', '5.0 MB')
    """
    return f"{count:.0f} B" if count < 1000 else _in_thousands(count, ("kB", "MB", "GB", "TB"))


def amount(count: float) -> str:
    """A number of things, of which a large one's first digits say enough.

    Example:
        >>> amount(7_300), amount(12_345), amount(10_000_000)
        ('7,300', '12.3 k', '10.0 M')
    """
    return f"{count:,.0f}" if count < 10_000 else _in_thousands(count, ("k", "M", "G"))


def per_second(rate: float) -> str:
    """How many in a second: of few, two digits.

    Example:
        >>> [per_second(each) for each in (12_345, 40, 3, 0.25, 0.0123, 0.0001, 0)]
        ['12.3 k', '40', '3', '0.25', '0.012', 'below 0.001', '0']
    """
    if rate >= _LEAST_WHOLE:
        return amount(rate)
    return "below 0.001" if 0 < rate < _LEAST_RATE else f"{rate:.2g}"


def counted(number: int, what: str, many: str | None = None) -> str:
    """A number and what it counts.

    Args:
        many: several of them, where that is not ``what`` with an s.

    Example:
        >>> counted(1, "job"), counted(1200, "checkpoint"), counted(2, "branch", "branches")
        ('1 job', '1,200 checkpoints', '2 branches')
    """
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"


def _in_thousands(number: float, units: Sequence[str]) -> str:
    for unit in units:
        number /= 1000
        if number < _LEAST_LONG:
            return f"{number:.1f} {unit}"
    return f"{number:,.1f} {units[-1]}"
