"""Numbers that a program gives; each message names the method and the parameter. True and False are not numbers here."""

from __future__ import annotations

from typing import Any, TypeGuard

from changelog_engine.errors import ArgumentTypeError, ConfigurationError


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether the value is an int or a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def whole_number(value: Any, what: str, least: int | None = None, most: int | None = None) -> int:
    """The value if it is an int within the bounds.

    Raises:
        ArgumentTypeError: it is not an int.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{what} must be a whole number, got {value!r}")
    if (least is not None and value < least) or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ConfigurationError(f"{what} must be {bounds}, got {value}")
    return value


def above_zero(value: Any, what: str) -> float:
    """The value if it is a number above 0."""
    if not is_number(value) or not value > 0:
        raise ArgumentTypeError(f"{what} must be a number above 0, got {value!r}")
    return value
