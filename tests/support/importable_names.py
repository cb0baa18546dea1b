"""Which names can be imported from the modules of a PyFlink source tree, and where do they come from?

    python tests/support/importable_names.py FOLDER... > tests/support/importable_names.json

Each FOLDER is an unpacked PyFlink of one version (the folder with ``common`` and ``datastream``); begin with the oldest.
Nothing is imported and nothing run: the sources are read. Listed are public names of the public modules of `PACKAGES`, those
that a star import brings too; not those of PyFlink's tests, of Python and of other libraries.

The result: for each module its names, and of each name the module and name that define it. Of several versions it is the
union; where they differ, the last one named decides where a name comes from.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = ("common", "datastream", "metrics")
_MAIN = "__init__"


class Tree:
    """The modules of one version.

    Args:
        root: the folder of the package ``pyflink``.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, dict[str, str]] = {}

    def modules(self) -> Iterator[str]:
        """The public modules of `PACKAGES`, as ``common.time``."""
        for package in PACKAGES:
            for path in sorted((self._root / package).rglob("*.py")):
                parts = path.relative_to(self._root).with_suffix("").parts
                parts = parts[:-1] if parts[-1] == _MAIN else parts
                if "tests" not in parts and not any(part.startswith("_") for part in parts):
                    yield ".".join(parts)

    def names(self, module: str) -> dict[str, str]:
        """Names that can be imported from a module, each with the ``module:name`` that it is of PyFlink."""
        if module not in self._known:
            self._known[module] = {}  # a cycle of imports ends here
            self._known[module] = self._read(module)
        return self._known[module]

    def starred(self, module: str) -> dict[str, str]:
        """What a star import of the module brings."""
        names = self.names(module)
        declared = _declared(self._parsed(module))
        return names if declared is None else {name: names[name] for name in declared if name in names}

    def _file(self, module: str) -> Path | None:
        path = self._root.joinpath(*module.split(".")) if module else self._root
        return next((f for f in (path.with_suffix(".py"), path / f"{_MAIN}.py") if f.is_file()), None)

    def _parsed(self, module: str) -> ast.Module:
        file = self._file(module)
        return ast.parse(file.read_text(encoding="utf-8") if file else "")

    def _read(self, module: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for node in _at_import(self._parsed(module).body):
            if isinstance(node, ast.ImportFrom):
                found.update(self._imported(module, node))
            elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found[node.name] = f"{module}:{node.name}"
                found.update(_set_on_others(node, module))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update({t.id: f"{module}:{t.id}" for t in targets if isinstance(t, ast.Name)})
        return {name: origin for name, origin in found.items() if not name.startswith("_")}

    def _imported(self, module: str, node: ast.ImportFrom) -> dict[str, str]:
        source = self._source(module, node)
        if source is None or self._file(source) is None:
            return {}
        if node.names[0].name == "*":
            return self.starred(source)
        names = self.names(source)
        found = {}
        for alias in node.names:
            submodule = f"{source}.{alias.name}".lstrip(".")
            if alias.name in names:
                found[alias.asname or alias.name] = names[alias.name]
            elif self._file(submodule) is None:
                found[alias.asname or alias.name] = f"{source}:{alias.name}"
        return found

    def _source(self, module: str, node: ast.ImportFrom) -> str | None:
        """The module of PyFlink that is imported from, None for those of others."""
        if not node.level:
            first, _, rest = (node.module or "").partition(".")
            return rest if first == "pyflink" else None
        file = self._file(module)
        parts = module.split(".")
        package = parts if file is not None and file.stem == _MAIN else parts[:-1]
        kept = package[: len(package) - node.level + 1]
        return ".".join([*kept, *((node.module or "").split(".") if node.module else [])])


def _at_import(body: list[Any]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, those of its ifs and tries included, in their order."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _at_import(node.orelse)
        elif isinstance(node, (ast.If, ast.Try)):
            handlers = (
                [] if isinstance(node, ast.If) else [line for each in node.handlers for line in each.body]
            )
            yield from _at_import([*handlers, *node.orelse, *node.body])
        else:
            yield node


def _set_on_others(node: ast.AST, module: str) -> dict[str, str]:
    """Names that a function of a package puts into it: ``setattr(connectors, "JdbcSink", jdbc.JdbcSink)``."""
    package = module.rpartition(".")[2]
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call) and len(each.args) == 3)
    found = {}
    for call in calls:
        target, name, value = (ast.unparse(each) for each in call.args)
        if (ast.unparse(call.func), target) == ("setattr", package):
            home, _, origin = value.rpartition(".")
            found[name.strip("'")] = f"{module}.{home}:{origin}"
    return found


def _declared(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def importable_names(folders: list[Path]) -> dict[str, dict[str, str]]:
    """The union of several versions: module, name, and where the name comes from."""
    union: dict[str, dict[str, str]] = {}
    for folder in folders:
        tree = Tree(folder)
        for module in tree.modules():
            union.setdefault(module, {}).update(tree.names(module))
    return {module: dict(sorted(names.items())) for module, names in sorted(union.items())}


if __name__ == "__main__":
    json.dump(importable_names([Path(each) for each in sys.argv[1:]]), sys.stdout, indent=1)
    print()
