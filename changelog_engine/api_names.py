"""The names of the API's modules: ``changelog_engine.api`` always, ``api`` and ``pyflink`` where they mean it.

The code lies in ``api/`` beside the engine; a wheel has it in ``changelog_engine/api``. ``api`` is a common name: somebody's
own package may have it, and then it is left alone.

Invariants:
    * A module of the API exists once, as ``changelog_engine.api.x``, whichever name it was asked for first; that name is
      what is pickled, so it is found in every process.
    * ``api`` is what the import path says. A stranger's stays the stranger's, in workers too.
    * ``pyflink`` means the API only in a process that asked for it.
    * Every module of the API answers for names of PyFlink that it does not have (`api/_unsupported.py`).
    * It imports little: each daemon of workers imports it before it answers Spark.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from enum import Enum
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from changelog_engine.errors import StrangersApiError

API = "changelog_engine.api"
SHORT = "api"
PYFLINK = "pyflink"
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Short(Enum):
    """What ``api`` means in a process."""

    BY_PATH = "whatever the import path has under this name"
    OURS = "the engine's API, wherever it lies"
    STRANGERS = "what the import path has besides the engine's API"


class Names(NamedTuple):
    """What the two borrowed names mean in the driver, and so in its workers."""

    short: Short = Short.BY_PATH
    pyflink: bool = False

    def use(self) -> None:
        """Let them mean the same in this process."""
        FINDER.short = self.short
        if self.short is Short.STRANGERS and _is_ours(sys.modules.get(SHORT)):
            _forget(SHORT)
        if self.pyflink:
            install_alias()


def names_here() -> Names:
    """What they mean in this process."""
    return Names(_short_here(), FINDER.pyflink)


def _short_here() -> Short:
    loaded = sys.modules.get(SHORT)
    if loaded is not None:
        return Short.OURS if _is_ours(loaded) else Short.STRANGERS
    found = FINDER.elsewhere(SHORT, None)
    if found is None:
        return Short.BY_PATH
    return Short.OURS if _has_our_code(found) else Short.STRANGERS


def install_alias() -> None:
    """Let ``pyflink`` mean the engine's API in this process from now on. A second call does nothing."""
    if not FINDER.pyflink:
        _forget(PYFLINK)
        FINDER.pyflink = True


def alias_installed() -> bool:
    """Whether ``pyflink`` means the engine's API in this process."""
    return FINDER.pyflink


def remove_alias() -> None:
    """Undo `install_alias`: later imports of ``pyflink`` find what is installed. For tests and notebooks."""
    if FINDER.pyflink:
        FINDER.pyflink = False
        _forget(PYFLINK)


class ApiFinder:
    """Finds modules of the API under each of their names. It stands before Python's own finders."""

    def __init__(self) -> None:
        self.short = Short.BY_PATH
        self.pyflink = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder.

        Raises:
            StrangersApiError: ``api`` is a stranger's, without such a module, and the engine's API has it.
            ImportError: ``pyflink`` means the API, which has no such module.
        """
        top, _, rest = fullname.partition(".")
        if top == SHORT:
            return self._below_short(fullname, rest, path) if rest else self._short(fullname)
        if top == PYFLINK and self.pyflink:
            return alias(fullname, API + fullname.removeprefix(PYFLINK)) or _refuse(fullname)
        if fullname == API:
            return _answering(_package(path))
        if fullname.startswith(f"{API}."):
            return _answering(self.elsewhere(fullname, path))
        return None

    def elsewhere(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """What all other finders find."""
        for finder in list(sys.meta_path):
            if finder is not self:
                found = finder.find_spec(fullname, path)
                if found is not None:
                    return found
        return None

    def _short(self, fullname: str) -> ModuleSpec | None:
        if self.short is Short.OURS:
            return alias(fullname, API)
        if self.short is Short.STRANGERS:
            return PathFinder.find_spec(fullname, _path_of_strangers())
        return None

    def _below_short(self, fullname: str, rest: str, path: Sequence[str] | None) -> ModuleSpec | None:
        if _is_ours(sys.modules.get(SHORT)):
            if found := alias(fullname, f"{API}.{rest}"):
                return found
            # A folder without __init__.py never comes before a package, so ours hides a user's.
            return PathFinder.find_spec(fullname, [os.path.join(entry, SHORT) for entry in sys.path])
        found = self.elsewhere(fullname, path)
        if found is not None and not _is_in_our_folder(found):  # as finders of editable installs give it
            return found
        if _has(f"{API}.{rest}"):
            raise _strangers(fullname, sys.modules.get(SHORT))
        return None


class _Alias:
    """Loads a module under another name: the module itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.name)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has run already; it gets back the spec that Python replaced."""
        given = module.__spec__
        loader: object = None if given is None else given.loader
        if given is not None and isinstance(loader, _Alias):
            module.__spec__ = given.loader_state


class _Answering:
    """Loads a module of the API as its own loader does, and lets it answer for names that it does not have."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It is the module of its own loader from now on."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        importlib.import_module(f"{API}._unsupported").answer_for(module)


def _answering(spec: ModuleSpec | None) -> ModuleSpec | None:
    if (
        spec and spec.loader and not spec.name.removeprefix(f"{API}.").startswith("_")
    ):  # those make the answers
        spec.loader = _Answering(spec.loader)  # type: ignore[assignment]  # as importlib wants it
    return spec


def alias(fullname: str, name: str) -> ModuleSpec | None:
    """The spec of a module under another name; None when there is no such module."""
    found = _spec(name)
    if found is None:
        return None
    spec = ModuleSpec(fullname, _Alias(name), origin=found.origin)  # type: ignore[arg-type]  # as importlib wants it
    spec.submodule_search_locations = found.submodule_search_locations
    return spec


def _spec(name: str) -> ModuleSpec | None:
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded.__spec__
    parent = name.rpartition(".")[0]
    path = getattr(importlib.import_module(parent), "__path__", None) if _has(parent) else None
    if path is None:
        return None
    return _package(path) if name == API else PathFinder.find_spec(name, path)


def _package(path: Sequence[str] | None) -> ModuleSpec | None:
    return PathFinder.find_spec(API, [*(path or ()), _ROOT])


def _has(name: str) -> bool:
    return name in sys.modules or _spec(name) is not None


def _refuse(fullname: str) -> NoReturn:
    error: ImportError = importlib.import_module(f"{API}._unsupported").no_module(fullname)
    raise error


def explained(error: ImportError) -> ImportError:
    """The same error; or one that says so, where a module of ours was asked for below a file ``api.py``.

    Python asks no finder then.
    """
    name = error.name or ""
    short = sys.modules.get(SHORT)
    if name.startswith(f"{SHORT}.") and short is not None and not _is_ours(short) and _has(long_name(name)):
        return _strangers(name, short).with_traceback(error.__traceback__)
    return error


def refuse_other_names(module: str) -> None:
    """Called by modules of the API when they are loaded: not as modules of somebody else's ``api``.

    Python's own finders do that where an editable install, or a wheel over which a package ``api`` was installed, leads
    them to our files, and nothing of the engine was imported before.

    Raises:
        StrangersApiError: it is not the one that always works.
    """
    if not module.startswith(f"{API}."):
        top = module.partition(".")[0]
        raise _strangers(top, sys.modules.get(top))


def long_name(module: str) -> str:
    """The name that always works of a module that tables call ``api.x``; any other name as it is."""
    return f"changelog_engine.{module}" if module.startswith(f"{SHORT}.") else module


def short_name(module: str) -> str:
    """The name in tables, ``api.x``, of a module of the API; any other name as it is."""
    return module.removeprefix("changelog_engine.") if module.startswith(f"{API}.") else module


def _forget(top: str) -> None:
    for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
        del sys.modules[name]


def _is_ours(module: ModuleType | None) -> bool:
    return module is not None and module is sys.modules.get(API)


def _has_our_code(spec: ModuleSpec) -> bool:
    """Whether a spec would load the API: its first file is the same, byte for byte."""
    ours = _spec(API)
    return ours is not None and (spec.origin == ours.origin or _code(spec) == _code(ours))


def _code(spec: ModuleSpec) -> bytes | None:
    read = getattr(spec.loader, "get_data", None)
    if read is None or spec.origin is None:
        return None
    try:
        return bytes(read(spec.origin))
    except OSError:
        return None


def _is_in_our_folder(spec: ModuleSpec) -> bool:
    folders: Sequence[str] = importlib.import_module(API).__path__
    return spec.origin is not None and spec.origin.startswith(tuple(folder + os.sep for folder in folders))


def _path_of_strangers() -> list[str]:
    """The import path without the entries whose ``api`` is the engine's."""
    found = ((entry, PathFinder.find_spec(SHORT, [entry])) for entry in sys.path)
    return [entry for entry, spec in found if spec is None or not _has_our_code(spec)]


def _strangers(wanted: str, found: ModuleType | None) -> StrangersApiError:
    from changelog_engine.errors import StrangersApiError

    return StrangersApiError(wanted, _location(found))


def _location(module: ModuleType | None) -> str:
    if module is None:
        return "not a package"
    folders = list(getattr(module, "__path__", ()))
    return getattr(module, "__file__", None) or (folders[0] if folders else repr(module))


FINDER = ApiFinder()


def _stand_first() -> None:
    # One that an earlier import of the engine left would answer with its modules.
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != ApiFinder.__name__]
    sys.meta_path.insert(0, FINDER)


_stand_first()
