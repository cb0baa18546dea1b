"""The import alias: ``pyflink`` and every module below it are the modules of ``api``.

Invariants:
    * Nothing changes in a process that did not ask for it: a PyFlink that is installed stays what it is elsewhere.
    * ``pyflink.x.y`` is the very module object of ``api.x.y``, so their classes are identical, and what is pickled
      names ``api``.
    * The modules keep their names and specs: ``api`` cannot tell under which name it was imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from changelog_engine.launcher.pyflink_modules import is_pyflinks

_ALIAS = "pyflink"
_TARGET = "api"  # by name only: the engine never imports the API by itself


class AliasFinder(MetaPathFinder, Loader):
    """Finds ``pyflink`` and what is below it as modules of ``api``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See MetaPathFinder.

        Raises:
            NotSupportedImportError: PyFlink has the module and ``api`` has not.
            ModuleNotFoundError: neither has it.
        """
        if not _is_alias(fullname):
            return None
        found = importlib.util.find_spec(_target_of(fullname))
        if found is None:
            raise _missing(fullname)
        spec = ModuleSpec(fullname, self, origin=found.origin)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See Loader: gives the module of ``api``."""
        module = importlib.import_module(_target_of(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """See Loader: the module has run already; it gets back the spec that Python replaced."""
        given = module.__spec__
        if given is not None and isinstance(given.loader, AliasFinder):
            module.__spec__ = given.loader_state


def install_alias() -> None:
    """Let ``pyflink`` mean ``api`` in this process from now on. A second call does nothing."""
    if alias_installed():
        return
    _forget()
    # Found now: the path on which this process finds the API may not last.
    importlib.import_module(_TARGET)
    # Before Python's own finders: through the API's folders they would load second copies.
    sys.meta_path.insert(0, AliasFinder())


def alias_installed() -> bool:
    """Whether ``pyflink`` means ``api`` in this process."""
    return any(isinstance(finder, AliasFinder) for finder in sys.meta_path)


def remove_alias() -> None:
    """Undo `install_alias`: later imports of ``pyflink`` find what is installed. For tests and notebooks."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, AliasFinder)]
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if _is_alias(name)]:
        del sys.modules[name]


def _is_alias(name: str) -> bool:
    return name == _ALIAS or name.startswith(f"{_ALIAS}.")


def _target_of(name: str) -> str:
    return _TARGET + name.removeprefix(_ALIAS)


def _missing(name: str) -> ImportError:
    if not is_pyflinks(name):
        return ModuleNotFoundError(f"No module named {name!r}", name=name)
    unsupported = importlib.import_module(f"{_TARGET}._unsupported")
    error: ImportError = unsupported.NotSupportedImportError(unsupported.not_supported(name), name=name)
    return error
