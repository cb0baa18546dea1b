"""The import alias: ``pyflink`` and every module below it are the modules of the API.

Invariants:
    * Nothing changes in a process that did not ask for it: a PyFlink that is installed stays what it is elsewhere.
    * ``pyflink.x.y`` is the very module object of ``changelog_engine.api.x.y`` (see ``api_names``), so their classes are
      identical, and what is pickled names ``changelog_engine.api``.
    * Whatever ``api`` is stays as it is: it may be the user's own package.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from changelog_engine import api_names


def install_alias() -> None:
    """Let ``pyflink`` mean the engine's API in this process from now on. A second call does nothing."""
    api_names.means_pyflink()


def alias_installed() -> bool:
    """Whether ``pyflink`` means the engine's API in this process."""
    return api_names.FINDER.pyflink


def remove_alias() -> None:
    """Undo `install_alias`: later imports of ``pyflink`` find what is installed. For tests and notebooks."""
    api_names.means_pyflink_no_more()


@contextlib.contextmanager
def process_as_before() -> Iterator[None]:
    """Put arguments, import path and alias back afterwards, for who runs a script in a process that goes on."""
    had_alias, argv, path = alias_installed(), list(sys.argv), list(sys.path)
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = argv, path
        if not had_alias:
            remove_alias()
