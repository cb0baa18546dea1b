"""Values, sizes and times as people read them. Templates escape what comes out of here."""

from __future__ import annotations

from typing import Any

MOST_LETTERS = 2_000


def shown(value: Any, most: int = MOST_LETTERS) -> str:
    """A key or value as Python writes it, cut where it is long; nothing in it can steer what shows it."""
    text = "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in repr(value))
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} letters)"


def type_name(value: Any) -> str:
    """The class of a value."""
    return type(value).__name__


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


def amount(count: float) -> str:
    """A number, short.

    Example:
        >>> [amount(each) for each in (7, 12_345, 10_000_000)]
        ['7', '12.3 k', '10.0 M']
    """
    if count < 10_000:
        return f"{count:,.0f}"
    return f"{count / 1000:.1f} k" if count < 1_000_000 else f"{count / 1_000_000:.1f} M"
