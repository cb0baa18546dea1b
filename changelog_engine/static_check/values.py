"""What a name in a program can stand for, as far as reading tells, and the scopes in which names stand for something.

Invariants:
    * `joined` never says more than both of its sides do.
    * Code that runs in the order in which it stands sees what a name was given last; a function, which runs later, sees
      whatever the names around it were ever given.
    * A name that `global` or `nonlocal` gives away is anything.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Union


@dataclass(frozen=True)
class Unknown:
    """Anything."""


@dataclass(frozen=True)
class Foreign:
    """Something that is not the API's: Python's own, of another package, a value of plain Python."""

    name: str = ""  # where it comes from, such as ``sys.argv``; empty for values


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
    """An object of a class of the API."""

    cls: type
    exact: bool = True  # whether it is of this class and not of one below it


@dataclass(frozen=True)
class Bound:
    """A method of an object of the API."""

    owner: type  # the object's class, or the class through which it was found
    name: str
    function: Any
    takes_self: bool = True
    exact: bool = True


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, eq=False)
class ProgramFunction:
    """A function of the program, a lambda, or a method."""

    node: FunctionNode
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
    """A module beside the script."""

    name: str
    scope: Scope
    folder: str | None  # where modules below it lie, if it is a package


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


@dataclass(eq=False)
class Scope:
    """Names and what they stand for.

    Args:
        parent: the scope around it; None of a module.
        is_class: a class's names are not seen by its methods.
        local: names that the code assigns somewhere, so that they are not those of the parent.
        given_away: names that functions below assign by `global` or `nonlocal`.
    """

    parent: Scope | None = None
    is_class: bool = False
    local: frozenset[str] = frozenset()
    given_away: frozenset[str] = frozenset()
    now: dict[str, Value] = field(default_factory=dict)
    ever: dict[str, Value] = field(default_factory=dict)
    # Modules of the API of which all names were imported.
    api_stars: list[ModuleType] = field(default_factory=list)
    starred: bool = False  # a star import of something that is not known brought any names

    def give(self, name: str, value: Value) -> None:
        """Bind a name."""
        if name in self.given_away:
            value = UNKNOWN
        self.now[name] = value
        self.ever[name] = joined(self.ever[name], value) if name in self.ever else value

    def find(self, name: str) -> Value | None:
        """What a name stands for in the code of this scope; None when nothing here binds it."""
        if name in self.now:
            return self.now[name]
        if name in self.local:
            return UNKNOWN
        outer = self.parent
        while outer is not None:
            if not outer.is_class:
                if name in outer.ever:
                    return outer.ever[name]
                if name in outer.local or outer.starred:
                    return UNKNOWN
            outer = outer.parent
        return UNKNOWN if self.starred else None

    def names(self) -> set[str]:
        """The names that this scope and those around it bind."""
        return {*self.ever, *self.local, *(self.parent.names() if self.parent is not None else ())}

    def stars(self) -> list[ModuleType]:
        """The modules of the API of which this scope and those around it imported all names."""
        return [*self.api_stars, *(self.parent.stars() if self.parent is not None else ())]

    def merge(self, branches: list[dict[str, Value]]) -> None:
        """Go on after branches one of which was taken."""
        names = {name for branch in branches for name in branch}
        result: dict[str, Value] = {}
        for name in names:
            values = [branch[name] for branch in branches if name in branch]
            value = values[0]
            for other in values[1:]:
                value = joined(value, other)
            result[name] = value
        self.now = result
