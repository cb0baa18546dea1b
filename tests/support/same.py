"""Equality as exact restore means it: same classes inside, same order inside, and -0.0 is not 0.0."""

from __future__ import annotations

from typing import Any


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same plain data, classes and order included."""
    return exact(left) == exact(right)


def exact(value: Any) -> Any:
    """A hashable picture of a value that tells 1 from 1.0 and True, and (1,) from [1]."""
    kind = type(value)
    if kind is str or kind is int:  # most are, and are pictures of themselves
        return kind.__name__, value
    if isinstance(value, dict):
        return kind.__name__, tuple([(exact(key), exact(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return kind.__name__, tuple([exact(item) for item in value])
    return kind.__name__, repr(value)
