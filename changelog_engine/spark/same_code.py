"""Which modules a program's functions find in a worker: those that they would find in the driver.

Invariants:
    * What precedes Python's own library on the driver's path does so in the worker, in the driver's order; only files that
      the job ships come before. A name that two folders have means the same module in both processes.
    * The folder in which Spark starts workers comes last. ``python -m`` would put it before the program's own folder, and
      before Python's library.
    * What of the program was changed since a process imported it is imported anew by the next job there.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import os
import sys
import sysconfig
from collections.abc import Mapping
from types import ModuleType
from typing import NamedTuple

from pyspark import SparkFiles

from changelog_engine.clock import wall_ms
from changelog_engine.config.paths import working_directory
from changelog_engine.spark.session_options import engine_path
from changelog_engine.whose_code import is_users

_SAFE, _OURS = "PYTHONSAFEPATH", "changelog-engine"  # without it, Python puts the working directory first
_COARSE_MS = 2_000  # clocks of file systems


def worker_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that runs functions of the engine's.

    Args:
        given: those that Spark has for all of its Python processes.
    """
    safe = {} if _SAFE in os.environ else {_SAFE: _OURS}
    return {**safe, **given, **engine_path(given)}


class ImportPath(NamedTuple):
    """A driver's path.

    Args:
        ahead: what precedes Python's own library; the rest is behind.
    """

    ahead: tuple[str, ...]
    behind: tuple[str, ...]

    def use(self) -> None:
        """Let this process import as the driver does, which in one process it does already."""
        files = SparkFiles._root_directory  # of Spark's workers
        if files is None:
            return
        last: list[str] = []
        if os.environ.get(_SAFE) == _OURS:
            del os.environ[_SAFE]  # what functions start are processes as any other
            last += filter(None, [working_directory()])
        here = [entry for entry in sys.path if entry not in self.ahead]
        shipped = [entry for entry in here if entry.startswith(files)]
        sys.path[:] = dict.fromkeys((*shipped, *self.ahead, *here, *self.behind, *last))


def path_here() -> ImportPath:
    """This process's path. "" stands for its working directory, which may be another one in a worker."""
    path = []
    for entry in sys.path:
        with contextlib.suppress(FileNotFoundError):  # the working directory is gone
            path.append(os.path.abspath(entry) if os.path.exists(entry or ".") else entry)
    library = sysconfig.get_path("stdlib")
    ahead = path.index(library) if library in path else 0
    return ImportPath(tuple(path[:ahead]), tuple(path[ahead:]))


def forget_changed(run: str) -> None:
    """In a worker, before it loads functions of a job: forget the program's modules if the file of one was changed.

    In a notebook a module is edited and reloaded, and Spark's processes stay. What a process has before its first job is
    not the program's, wherever it is installed: numpy cannot be imported twice, and Spark keeps state in its modules.
    """
    global _loaded
    last, since_ms, before = _loaded
    if run == last or SparkFiles._root_directory is None:
        return
    if not last:
        before = frozenset([_package(name) for name in sys.modules])
    _loaded = run, wall_ms() - _COARSE_MS, before
    programs = [
        name
        for name, module in sys.modules.items()
        if _package(name) not in before and _is_programs(name, module)
    ]
    if any(_changed_ms(sys.modules[name]) > since_ms for name in programs):
        for name in programs:
            del sys.modules[name]
        importlib.invalidate_caches()
        linecache.checkcache()


# The last job whose functions were loaded here, when that began, and the packages that were here before the first one.
_loaded: tuple[str, int, frozenset[str]] = "", 0, frozenset()


def _package(name: str) -> str:
    return name.partition(".")[0]


def _is_programs(name: str, module: object) -> bool:
    file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    return name != "__main__" and isinstance(file, str) and file.endswith(".py") and is_users(file)


def _changed_ms(module: ModuleType) -> float:
    """When its file was written, renamed or replaced; 0 where it lies in an archive, or is gone."""
    try:
        return os.stat(str(module.__file__)).st_ctime * 1000
    except OSError:
        return 0
