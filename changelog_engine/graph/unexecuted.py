"""The operators that a program builds and never executes, for a command that runs programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

_Waiting = TypeVar("_Waiting", bound=Sequence[Any])
_watched: list[list[Sequence[Any]]] = []  # by those who watch, the innermost last


@contextlib.contextmanager
def watching() -> Iterator[list[Sequence[Any]]]:
    """Within it, the operators of each environment that no execution has taken yet are in the list that it gives."""
    waiting: list[Sequence[Any]] = []
    _watched.append(waiting)
    try:
        yield waiting
    finally:
        _watched.pop()


def watched(waiting: _Waiting) -> _Waiting:
    """The operators that wait in a new environment, as they are, for those who watch."""
    for each in _watched:
        each.append(waiting)
    return waiting
