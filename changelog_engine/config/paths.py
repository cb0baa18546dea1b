"""Paths as users write them: plain, relative, or as URIs."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from changelog_engine.errors import ConfigurationError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters at least: "C:" is a drive


def working_directory() -> str | None:
    """Where this process works; None when that folder was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def is_uri(path: str) -> bool:
    """Whether a path begins with a scheme."""
    return _SCHEME.match(path) is not None


def local_path(path: str) -> str | None:
    """The absolute path of the local file system that a path or ``file:`` URI names.

    Args:
        path: plain (relative ones start at the working directory), ``file:/x``, ``file:///x`` or another URI.

    Returns:
        The absolute path, or None when the URI names another file system.

    Raises:
        ConfigurationError: it is relative, and the working directory was removed.
    """
    if not is_uri(path):
        try:
            return os.path.abspath(path)
        except FileNotFoundError:
            raise ConfigurationError(
                f"{path!r} begins at the folder in which this process works, and that was removed: name an absolute path, "
                "or cd into a folder that is there"
            ) from None
    parts = urlsplit(path)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        return None
    return os.path.abspath(unquote(parts.path))


def absolute_path(path: str) -> str:
    """A path that means the same in every process, and wherever the program goes: local ones become absolute.

    Raises:
        ConfigurationError: as local_path.
    """
    return local_path(path) or path
