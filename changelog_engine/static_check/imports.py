"""What a program's imports bring: the API's modules and names, modules beside the script, those of others, or errors."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from types import ModuleType

from changelog_engine.api_names import SHORT
from changelog_engine.launcher.project_root import project_root, without_dots
from changelog_engine.static_check import answers
from changelog_engine.static_check.answers import No
from changelog_engine.static_check.findings import Finding, Level
from changelog_engine.static_check.modules import absolute_name
from changelog_engine.static_check.reading import Reading, SourceFile
from changelog_engine.static_check.values import UNKNOWN, Foreign, Known, Missing, ProgramModule, Scope, Value

Say = Callable[[Level, ast.AST, str], Finding | None]


class Imports:
    """Resolves the imports of one file.

    Args:
        later: whether the imports stand in a function.
    """

    def __init__(
        self,
        reading: Reading,
        source: SourceFile,
        load: Callable[[SourceFile], ProgramModule],
        say: Say,
        later: bool,
    ) -> None:
        self._reading = reading
        self._source = source
        self._load = load
        self._say = say
        self._later = later

    def plain(self, node: ast.Import, scope: Scope) -> None:
        """``import a.b as c``."""
        for each in node.names:
            found = self._module(each.name, node)
            self._count(each.name, node)
            top = each.name.partition(".")[0]
            if each.asname is None and top != each.name:
                found = found if isinstance(found, Missing) else self._module(top, node)
            scope.give(each.asname or top, found)

    def named(self, node: ast.ImportFrom, scope: Scope) -> None:
        """``from a import b``."""
        if node.level and self._source.name == "__main__":
            self._say(Level.ERROR, node, without_dots(self._source.path, node))
        name = absolute_name(self._source.package(), node.level, node.module) if node.level else node.module
        if not name:
            for each in node.names:
                scope.give(each.asname or each.name, UNKNOWN)
            return
        owner = self._module(name, node)
        if node.names[0].name == "*":
            self._count(name, node)
            self._star(owner, scope)
            return
        for each in node.names:
            scope.give(each.asname or each.name, self._name(owner, name, each.name, node))

    def _module(self, name: str, node: ast.stmt) -> Value:
        if self._is_api(name):
            return self._or_missing(answers.module(name), name, node)
        beside = self._reading.sources.beside(name)
        if beside is not None:
            return self._load(beside)
        if self._reading.sources.path.has(name):
            return Foreign(name)
        return self._nowhere(name, node)

    def _name(self, owner: Value, module: str, name: str, node: ast.stmt) -> Value:
        if isinstance(owner, Missing):
            return Missing(owner.name)
        if isinstance(owner, Known) and isinstance(owner.found, ModuleType):
            self._count(f"{module}.{name}", node)
            return self._or_missing(answers.name_of(owner.found, name, module), name, node)
        if isinstance(owner, ProgramModule):
            return self.below(owner, name)
        return Foreign(f"{owner.name}.{name}") if isinstance(owner, Foreign) else UNKNOWN

    def below(self, owner: ProgramModule, name: str) -> Value:
        """What ``module.name`` is of a module beside the script."""
        if name in owner.scope.ever:
            return owner.scope.ever[name]
        below = self._reading.sources.beside(f"{owner.name}.{name}") if owner.folder else None
        return UNKNOWN if below is None else self._load(below)

    def _star(self, owner: Value, scope: Scope) -> None:
        if isinstance(owner, Known) and isinstance(owner.found, ModuleType):
            for name in _starred(owner.found):
                scope.give(name, Known(getattr(owner.found, name)))
            scope.api_stars.append(owner.found)
        elif isinstance(owner, ProgramModule):
            for name, value in owner.scope.ever.items():
                if not name.startswith("_"):
                    scope.give(name, value)
            scope.starred = scope.starred or owner.scope.starred
        else:
            scope.starred = True

    def _or_missing(self, found: Value | No, name: str, node: ast.stmt) -> Value:
        if not isinstance(found, No):
            return found
        return self._reading.missing(name, self._say(Level.ERROR, node, found.message))

    def _nowhere(self, name: str, node: ast.stmt) -> Value:
        top = name.partition(".")[0]
        said = f"No module named {name!r} beside the script or in this environment"
        if self._reading.sources.beside(top) is not None:
            self._say(
                Level.ERROR,
                node,
                f"No module named {name!r}: the {top} beside the script has none of this name",
            )
        elif self._reading.path_changes:
            self._say(
                Level.WARNING,
                node,
                f"{said}; the script changes sys.path, so that it may be found all the same",
            )
        elif self._later and self._reading.brings_files:
            self._say(
                Level.NOTE,
                node,
                f"{said}; the workers find it if the files or requirements that the job brings have it",
            )
        else:
            root = project_root(self._source.path, name)
            todo = f"it is in {root}: set PYTHONPATH={root}" if root else "install the package that has it"
            self._say(Level.ERROR, node, f"{said}: {todo}")
        return Foreign(name)

    def _count(self, name: str, node: ast.stmt) -> None:
        if self._is_api(name):
            self._reading.report.imports.add((self._source.path, node.lineno, name))

    def _is_api(self, name: str) -> bool:
        if answers.is_api(name):
            return True
        path = self._reading.sources.path
        return name.partition(".")[0] == SHORT and path.short_is_ours() and path.beside(name) is None


def _starred(module: ModuleType) -> Iterator[str]:
    declared = getattr(module, "__all__", None)
    for name in vars(module) if declared is None else declared:
        if declared is not None or not name.startswith("_"):
            yield name
