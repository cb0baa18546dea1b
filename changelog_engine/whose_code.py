"""Whose a line of code is: the engine's, an installed package's, or the program's."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType

_PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ENGINE = tuple(
    os.path.join(_PACKAGES, package) + os.sep for package in ("changelog_engine", "api", "materializer")
)
# The latter is Debian's.
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_PYTHONS = (sysconfig.get_path("stdlib") + os.sep, "<frozen ")


def is_ours(path: str) -> bool:
    """Whether a file of code is the engine's or its API's, not a user's."""
    return os.path.abspath(path).startswith(_ENGINE)


def is_users(path: str) -> bool:
    """Whether a file of code is the user's own, neither the engine's, an installed package's nor Python's."""
    return not (is_ours(path) or path.startswith(_PYTHONS) or any(folder in path for folder in _INSTALLED))


def calling_line() -> str | None:
    """The file and line of the program that called the API; None where none did."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else f"{frame.f_code.co_filename}, line {frame.f_lineno}"
