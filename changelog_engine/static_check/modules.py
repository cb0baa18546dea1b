"""Where modules that a program imports are: beside it, in this environment, or nowhere. Nothing is imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder

from changelog_engine.api_names import FINDER, SHORT


class ModulePath:
    """The import path of a script."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def beside(self, name: str) -> tuple[str, str | None] | None:
        """File and folder of a module beside the script; None when there is none.

        The folder is that of a package; the file of a package without ``__init__.py`` is empty text.
        """
        path = os.path.join(self._folder, *name.split("."))
        start = os.path.join(path, "__init__.py")
        if os.path.isfile(start):
            return start, path
        if os.path.isfile(f"{path}.py"):
            return f"{path}.py", None
        if os.path.isdir(path) and any(entry.endswith(".py") for entry in os.listdir(path)):
            return ("", path) if not self._is_installed(name.partition(".")[0]) else None
        return None

    def has(self, name: str) -> bool:
        """Whether this environment has a module, as far as can be seen without importing what is above it."""
        top, _, rest = name.partition(".")
        if top in sys.stdlib_module_names:
            return True
        if self.beside(top) is not None:
            return False  # its modules are beside the script, or nowhere
        spec = _spec(top)
        for part in rest.split(".") if rest else ():
            if spec is None:
                return False
            folders = spec.submodule_search_locations
            if folders is None:
                return False
            found = PathFinder.find_spec(f"{spec.name}.{part}", list(folders))
            if found is None:
                return True  # packages may make modules when they are imported
            spec = found
        return spec is not None

    def short_is_ours(self) -> bool:
        """Whether ``api`` means the engine's API in the script."""
        return self.beside(SHORT) is None

    @staticmethod
    def _is_installed(top: str) -> bool:
        return top in sys.stdlib_module_names or _spec(top) is not None


def _spec(top: str) -> ModuleSpec | None:
    try:
        found = FINDER.elsewhere(top, None)
        return found if found is not None else _loaded(top)
    except (ImportError, ValueError):
        return None


def _loaded(top: str) -> ModuleSpec | None:
    return importlib.util.find_spec(top) if top in sys.modules else None


def absolute_name(package: Sequence[str], level: int, name: str | None) -> str | None:
    """The full name of what ``from ..name import`` means in a package of these parts; None above the top."""
    if level > len(package):
        return None
    return ".".join([*package[: len(package) - level + 1], *([name] if name else [])])
