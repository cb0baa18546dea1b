"""Properties by the names of Java's clients: their names and values checked, and what is secret stays unseen.

Invariant: the repr of whatever holds a property never shows a secret value, so no log, error or plan can.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from changelog_engine.errors import ArgumentTypeError
from changelog_engine.types.typeinfo import shown


class Secret(str):
    """A str whose repr does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def checked(given: Mapping[str, Any], what: str, secret: Collection[str]) -> dict[str, str]:
    """Properties as str; numbers and bools as Java writes them.

    Args:
        given: names to values.
        what: names the giver in errors, such as ``KafkaSource``.
        secret: names of those whose values nobody is to see.

    Raises:
        ArgumentTypeError: a name or a value that is not a str.
    """
    return {name: _value(name, value, what, secret) for name, value in given.items()}


def _value(name: Any, value: Any, what: str, secret: Collection[str]) -> str:
    if not isinstance(name, str) or not name:
        raise ArgumentTypeError(f"{what}: the name of a property must be a str, got {shown(name)}")
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise ArgumentTypeError(
            f"{what}: property {name!r} must be a str, got a value of type {type(value).__name__}"
        )
    return Secret(value) if name in secret else value
