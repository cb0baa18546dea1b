"""Where a script's project begins: scripts in subfolders import modules from there when an IDE or PYTHONPATH adds it.

And what to write in place of imports that a module of a package may have, and a script may not.
"""

from __future__ import annotations

import ast
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


def import_at(script: str, line: int) -> ast.ImportFrom | None:
    """The ``from ... import`` at a line of a script; None where there is none."""
    try:
        with open(script, "rb") as file:
            nodes = ast.walk(ast.parse(file.read()))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    return next((node for node in nodes if isinstance(node, ast.ImportFrom) and node.lineno == line), None)


def without_dots(script: str, node: ast.ImportFrom) -> str:
    """What to say of a relative import in a script, which is a module of no package: how to write it.

    A script in a folder with ``__init__.py`` has its package's names from the folder above that.
    """
    root, package = os.path.dirname(os.path.realpath(script)), list[str]()
    while os.path.isfile(os.path.join(root, "__init__.py")) or len(package) < node.level - 1:
        root, folder = os.path.split(root)
        if not folder:
            break
        package.insert(0, folder)
    parts = package[: max(len(package) - node.level + 1, 0)]
    name = ".".join([*parts, *([node.module] if node.module else [])])
    plain = ast.ImportFrom(name, node.names, 0) if name else ast.Import(node.names)
    path = f", and set PYTHONPATH={root}" if package else ""
    return (
        f"a script is in no package, so its imports have no dot in front: write '{ast.unparse(plain)}'{path}"
    )


def _is_module(path: str) -> bool:
    """Whether a file or a folder is a module, without its suffix; a folder without Python files is not."""
    if os.path.isfile(f"{path}.py"):
        return True
    try:
        return any(entry.endswith(".py") for entry in os.listdir(path))
    except OSError:
        return False
