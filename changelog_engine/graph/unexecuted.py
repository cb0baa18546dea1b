"""The operators that a program builds and never executes: commands ask for them, and plain Python tells them at its end.

PyFlink says nothing of a program that forgot ``execute()``, and such a program ends as one that worked.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from changelog_engine.display import printable
from changelog_engine.launcher.standard_streams import tell

_Waiting = TypeVar("_Waiting", bound=Sequence[Any])
_watched: list[list[Sequence[Any]]] = []  # by those who watch, the innermost last
_environments: list[weakref.finalize[..., Any]] = []  # of plain Python, at most one for each that is alive
_left: list[str] = []  # the names of what environments that are gone left
# Whoever runs programs there tells it himself, or wants environments that are looked at only.
_TOLD_ELSEWHERE = {"changelog_engine.cli", "pytest", "unittest", "IPython"}
_INTERACTIVE_OR_FAILED = {"ps1", "last_value"}  # of sys


@contextlib.contextmanager
def watching() -> Iterator[list[Sequence[Any]]]:
    """Within it, the operators of each environment that no execution has taken yet are in the list that it gives."""
    waiting: list[Sequence[Any]] = []
    _watched.append(waiting)
    try:
        yield waiting
    finally:
        _watched.pop()


def watched(owner: object, waiting: _Waiting) -> _Waiting:
    """The operators that wait in a new environment, as they are, for those who watch.

    Args:
        owner: lives as long as the environment does.
    """
    for each in _watched:
        each.append(waiting)
    _environments[:] = [each for each in _environments if each.alive]
    _environments.append(weakref.finalize(owner, _leave, waiting))
    return waiting


def note_of(names: list[str]) -> str:
    """What a program is told whose operators never ran."""
    return f"note: the script ended and did not run {printable(', '.join(names))}: nothing runs before env.execute()"


def _leave(waiting: Sequence[Any]) -> None:
    _left.extend(operator.name for operator in waiting)


def _tell() -> None:
    """At the end of a program that ended by itself; one that failed has said more."""
    for each in _environments:
        each()
    elsewhere = sys.modules.keys() & _TOLD_ELSEWHERE or vars(sys).keys() & _INTERACTIVE_OR_FAILED
    if _left and not elsewhere:
        tell(note_of(_left))


atexit.register(_tell)
