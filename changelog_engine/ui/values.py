"""Keys and values of a job as the page shows them. Templates escape what comes out of here."""

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
