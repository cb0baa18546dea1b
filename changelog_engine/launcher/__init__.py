"""Unchanged PyFlink scripts: the import alias, and running a script with it."""

from changelog_engine.api_names import alias_installed, install_alias, remove_alias
from changelog_engine.launcher.program import run_program

__all__ = ["alias_installed", "install_alias", "remove_alias", "run_program"]
