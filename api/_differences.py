"""Marks on the API's methods that do something else here than in Flink, or nothing: `run --check` reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from changelog_engine.api_names import refuse_other_names

refuse_other_names(__name__)
_MARK = "__difference__"
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Difference:
    """What a method does here.

    Args:
        what: the end of a sentence that begins with the method's name.
        section: the heading in docs/compatibility.md.
        matters: whether a program that works in Flink may have to be changed.
    """

    what: str
    section: str
    matters: bool


def differs(what: str, section: str, matters: bool = True) -> Callable[[F], F]:
    """Mark a method that does something else here than in Flink.

    Args:
        what: the end of a sentence that begins with the method's name.
        section: the heading in docs/compatibility.md under which it is described.
        matters: whether a program that works in Flink may have to be changed.
    """
    return mark(Difference(what, section, matters))


def difference_of(function: Any) -> Difference | None:
    """The mark of a method, or None."""
    found: Difference | None = getattr(function, _MARK, None)
    return found


def mark(difference: Difference) -> Callable[[F], F]:
    """Make a decorator that marks a method."""

    def marked(function: F) -> F:
        setattr(function, _MARK, difference)
        return function

    return marked
