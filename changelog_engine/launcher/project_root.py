"""Where a script's project begins: scripts in subfolders import modules from there when an IDE or PYTHONPATH adds it."""

from __future__ import annotations

import os

_FOLDERS_ABOVE = 4  # how far up to look


def project_root(script: str, module: str) -> str | None:
    """The nearest folder above a script's own that has a module; None where there is none.

    Args:
        module: full name of a module that was not found.
    """
    parts = module.split(".")
    folder = os.path.dirname(os.path.realpath(script))
    for _ in range(_FOLDERS_ABOVE):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return None
        if _is_module(os.path.join(folder, *parts)):
            return folder
    return None


def _is_module(path: str) -> bool:
    """Whether a file or a folder is a module, without its suffix; a folder without Python files is not."""
    if os.path.isfile(f"{path}.py"):
        return True
    try:
        return any(entry.endswith(".py") for entry in os.listdir(path))
    except OSError:
        return False
