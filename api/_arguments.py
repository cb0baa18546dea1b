"""Checks of arguments that several classes share; each names the method and the parameter."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from changelog_engine.config.names import writable
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.types import TypeInformation, Types
from changelog_engine.types.typeinfo import a_class

T = TypeVar("T")

MAX_PARALLELISM_LIMIT = 1 << 15
PARALLELISM_DEFAULT = -1  # what ExecutionConfig has under these names
PARALLELISM_UNKNOWN = -2


def whole_number(value: Any, what: str, least: int, most: int | None = None) -> int:
    """The value if it is an int within the bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{what} must be a whole number, got {value!r}")
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ConfigurationError(f"{what} must be {bounds}, got {value}")
    return value


def parallelism(value: Any, what: str) -> int:
    """The value if it can be a parallelism: 1 to 32768."""
    return whole_number(value, f"{what}: the parallelism", 1, MAX_PARALLELISM_LIMIT)


def max_parallelism(value: Any, what: str) -> int:
    """The value if it can be a max parallelism: 1 to 32768."""
    return whole_number(value, f"{what}: the max parallelism", 1, MAX_PARALLELISM_LIMIT)


def type_info(value: Any, what: str) -> TypeInformation | None:
    """The value if it is a TypeInformation or None.

    Raises:
        ConfigurationError: it is something else, such as ``Types.INT`` without its parentheses.
    """
    if value is None or isinstance(value, TypeInformation):
        return value
    hint = "; call it: write its parentheses" if callable(value) else ""
    raise ArgumentTypeError(f"{what} must be a TypeInformation such as Types.STRING(), got {value!r}{hint}")


def output_type(value: Any, what: str) -> TypeInformation | None:
    """As `type_info`; a list of types stands for rows of them."""
    return Types.ROW(value) if isinstance(value, list) else type_info(value, what)


def text(value: Any, what: str) -> str:
    """The value if it is a str that is not blank, and can be written.

    Raises:
        ArgumentTypeError: it is not a str, or blank.
        ConfigurationError: it holds a lone surrogate.
    """
    if not isinstance(value, str) or not value.strip():
        raise ArgumentTypeError(f"{what} must be a non-empty str, got {value!r}")
    return writable(value, what)


def password_text(value: Any, what: str) -> str:
    """The value if it is a str, which may be empty; the message never shows it."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{what} must be a str")
    return value


def instance(value: Any, wanted: type[T], what: str, such_as: str = "") -> T:
    """The value if it is an object of a class; the message shows no str, which may hold a password.

    Args:
        value: what a user gave.
        what: names the method and the parameter.
        such_as: an example for the message; an Enum needs none.

    Raises:
        ArgumentTypeError: it is something else, such as a builder that was not built.
    """
    if isinstance(value, wanted):
        return value
    if value is None or isinstance(value, (int, float)):
        given = repr(value)
    else:
        given = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    hint = "; build() it" if hook_of(value, "build") else ""
    if issubclass(wanted, Enum):
        such_as = f"{wanted.__name__}.{next(iter(wanted)).name}"
    example = f" such as {such_as}" if such_as else ""
    raise ArgumentTypeError(f"{what} must be {a_class(wanted)}{example}, got {given}{hint}")


def flag(value: Any, what: str) -> bool:
    """The value if it is a bool."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{what} must be True or False, got {value!r}")
    return value
