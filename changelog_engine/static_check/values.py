"""What a name in a program can stand for, as far as reading tells.

Invariant: `joined` never says more than both of its sides do.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from changelog_engine.static_check.scopes import Scope


@dataclass(frozen=True)
class Unknown:
    """Anything."""


@dataclass(frozen=True)
class Foreign:
    """Something that is not the API's: Python's own, of another package, a value of plain Python.

    Args:
        name: where it comes from, such as ``sys.argv``; empty for values.
    """

    name: str = ""


@dataclass(frozen=True)
class Missing:
    """Something that this version does not have; the line that asked for it has its finding."""

    name: str


@dataclass(frozen=True, eq=False)
class Known:
    """An object itself: a module, class or function of the API, a type, a constant of the program."""

    found: Any

    def __eq__(self, other: object) -> bool:
        """Whether the other one is the same, or an equal constant of the same class."""
        if not isinstance(other, Known):
            return NotImplemented
        mine, others = self.found, other.found
        return mine is others or (type(mine) is type(others) and isinstance(mine, _PLAIN) and mine == others)

    def __hash__(self) -> int:
        return hash(type(self.found))


_PLAIN = (str, bytes, int, float, bool, list, tuple, dict, set)


@dataclass(frozen=True)
class Instance:
    """An object of a class of the API.

    Args:
        exact: whether it is of this class and not of one below it.
    """

    cls: type
    exact: bool = True


@dataclass(frozen=True)
class Bound:
    """A method of an object of the API.

    Args:
        owner: the object's class, or the class through which it was found.
    """

    owner: type
    name: str
    function: Any
    takes_self: bool = True
    exact: bool = True


@dataclass(frozen=True, eq=False)
class ProgramFunction:
    """A function of the program, a lambda, or a method."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    owner: ProgramClass | None = None
    takes_self: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramFunction) and self.node is other.node and self.owner == other.owner

    def __hash__(self) -> int:
        return id(self.node)


@dataclass(frozen=True, eq=False)
class ProgramClass:
    """A class of the program."""

    node: ast.ClassDef
    scope: Scope
    bases: tuple[Value, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramClass) and self.node is other.node

    def __hash__(self) -> int:
        return id(self.node)

    def line(self) -> list[ProgramClass]:
        """This class and those of the program above it."""
        above = [each for base in self.bases if isinstance(base, ProgramClass) for each in base.line()]
        return [self, *above]

    def api_bases(self) -> list[type]:
        """The classes of the API from which it derives."""
        bases = [base for each in self.line() for base in each.bases]
        return [base.found for base in bases if isinstance(base, Known) and isinstance(base.found, type)]


@dataclass(frozen=True)
class ProgramObject:
    """An object of a class of the program."""

    cls: ProgramClass


@dataclass(frozen=True, eq=False)
class ProgramModule:
    """A module beside the script.

    Args:
        folder: where modules below it lie, if it is a package.
    """

    name: str
    scope: Scope
    folder: str | None


Value = Union[  # noqa: UP007  # the classes refer to it
    Unknown,
    Foreign,
    Missing,
    Known,
    Instance,
    Bound,
    ProgramFunction,
    ProgramClass,
    ProgramObject,
    ProgramModule,
]
UNKNOWN = Unknown()
PLAIN = Foreign()


def joined(left: Value, right: Value) -> Value:
    """What stands for either of two values."""
    if left == right:
        return left
    for one, other in ((left, right), (right, left)):
        if one == Known(None) or isinstance(one, Missing):  # what it is when it is something
            return other
        if isinstance(one, Instance) and isinstance(other, Instance) and issubclass(one.cls, other.cls):
            return Instance(other.cls, exact=False)
    if all(_is_plain(each) for each in (left, right)):
        return PLAIN
    return UNKNOWN


def _is_plain(value: Value) -> bool:
    return value == PLAIN or (isinstance(value, Known) and isinstance(value.found, _PLAIN))
