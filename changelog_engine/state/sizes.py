"""About how large a table is: told at checkpoints, for people.

Invariant: asking costs the same however large the table is, and runs no code of the user's.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

_SAMPLE = 8  # entries of a table, and members of a container in one
_DEPTH = 4
_SLOT_BYTES = 100  # a dict's own, for each key


class TableSize(NamedTuple):
    """The size of a table.

    Args:
        entries: how many keys have something in it; of timers, how many there are. None when not known.
        bytes: about how many it takes where it is kept; None when not known.
    """

    entries: int | None
    bytes: int | None


def size_of_dict(table: dict[Any, Any]) -> TableSize:
    """Of a table on the heap; the bytes are estimated from its first few entries."""
    count = len(table)
    sample = list(islice(table.items(), _SAMPLE))
    if not sample:
        return TableSize(0, 0)
    taken = sum(_SLOT_BYTES + _memory_of(key, _DEPTH) + _memory_of(entry, _DEPTH) for key, entry in sample)
    return TableSize(count, taken * count // len(sample))


def _memory_of(value: Any, depth: int) -> int:
    """About how much memory an object takes, containers from their first few members."""
    size = object.__sizeof__(value)
    kind = type(value)
    if depth == 0:
        return size
    if kind is dict:
        size = dict.__sizeof__(value)
        return size + _members(value.keys(), len(value), depth) + _members(value.values(), len(value), depth)
    if kind is list:
        return list.__sizeof__(value) + _members(value, len(value), depth)
    if kind in (tuple, set, frozenset):
        return _own(value) + _members(value, len(value), depth)
    if kind in (str, bytes, int, float):
        return _own(value)
    held = [each for each in gc.get_referents(value) if not issubclass(type(each), type)]
    return size + _members(held, len(held), depth)


def _own(value: Any) -> int:
    """What a built-in object takes by itself."""
    size: int = value.__sizeof__()
    return size


def _members(values: Iterable[Any], count: int, depth: int) -> int:
    sample = list(islice(values, _SAMPLE))
    return sum(_memory_of(value, depth - 1) for value in sample) * count // len(sample) if sample else 0
