"""The names of modules, classes and functions of a program, while it is read.

Invariants:
    * Code that runs in the order in which it stands sees what a name was given last; a function, which runs later, sees
      whatever the names around it were ever given.
    * A name that `global` or `nonlocal` gives away is anything.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from types import ModuleType

from changelog_engine.static_check.values import UNKNOWN, Value, joined


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


def names_bound(body: list[ast.stmt]) -> frozenset[str]:
    """The names that statements bind, those of functions and classes below them left out."""
    found: set[str] = set()
    outer: set[str] = set()
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            outer.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update((each.asname or each.name.partition(".")[0]) for each in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found - outer)


def names_given_away(body: list[ast.stmt]) -> frozenset[str]:
    """The names that functions below statements assign by `global` or `nonlocal`."""
    nodes = (node for each in body for node in ast.walk(each))
    return frozenset(
        name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
    )
