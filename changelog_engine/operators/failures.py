"""Failures on their way from a worker to the user: which operator, which key, and the user's own traceback."""

from __future__ import annotations

import os
import traceback
from typing import Any

import changelog_engine
from changelog_engine.errors import ChangelogEngineError, UserFunctionError

_ENGINE = os.path.dirname(os.path.abspath(changelog_engine.__file__)) + os.sep
_NO_KEY = object()


def user_failure(error: BaseException, operator: str, call: str, key: Any = _NO_KEY) -> ChangelogEngineError:
    """What to raise when a user's function raised.

    Args:
        error: what it raised.
        operator: the operator's name.
        call: which function of it, such as ``process_element``.
        key: the current key, for keyed operators.

    Returns:
        The engine's own errors as they are; all others as UserFunctionError with the user's traceback.
    """
    if isinstance(error, ChangelogEngineError):
        return error
    where = "" if key is _NO_KEY else f", key {shortened(key)}"
    return UserFunctionError(
        f"{call} of operator {operator!r}{where} raised {type(error).__name__}: {error}\n{user_traceback(error)}"
    )


def user_traceback(error: BaseException) -> str:
    """The traceback without the engine's own frames."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not os.path.abspath(frame.filename).startswith(_ENGINE)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(own or frames)]
    lines += traceback.format_exception_only(type(error), error)
    return "".join(lines).rstrip()


def shortened(value: Any, limit: int = 100) -> str:
    """The repr of a value, cut to a length that fits a message."""
    try:
        text = repr(value)
    except Exception:  # a user's __repr__ may raise; the message must not
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"
