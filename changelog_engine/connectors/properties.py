"""Properties by the names of Java's clients: their names and values checked, and what is secret stays unseen.

Invariant: the repr of whatever holds a property never shows a secret value, so no log, error or plan can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.types.typeinfo import shown

_Number = TypeVar("_Number", int, float)


class Secret(str):
    """A str whose repr does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def checked(given: Mapping[str, Any], what: str, secret: Collection[str]) -> dict[str, str]:
    """Properties as str; numbers and bools as Java writes them.

    Args:
        what: names the giver in errors, such as ``KafkaSource``.
        secret: names of those whose values nobody is to see.

    Raises:
        ArgumentTypeError: a name or a value that is not a str.
    """
    return {name: _value(name, value, what, secret) for name, value in given.items()}


class Properties:
    """Properties as their giver wrote them, and the only place where a number, a bool or a choice is read out of one.

    Args:
        given: names to values, as `checked` gives them.
        what: begins errors, such as ``KafkaSource``.
    """

    noun = "property"  # what the system that they configure calls one

    def __init__(self, given: dict[str, str], what: str) -> None:
        self.given = given
        self.what = what

    def get(self, name: str, default: str | None = None) -> str | None:
        """A property, the default when it is not given."""
        return self.given.get(name, default)

    def number(self, name: str, default: int, least: int, most: int = 2**31 - 1) -> int:
        """A property that is a whole number."""
        return self._within(int, "whole number", name, default, least, most)

    def real(self, name: str, default: float, least: float, most: float) -> float:
        """A property that is a number, of whatever size between its bounds."""
        return self._within(float, "number", name, default, least, most)

    def flag(self, name: str, default: bool) -> bool:
        """A property that is ``true`` or ``false``."""
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, values: Sequence[str], default: str) -> str:
        """A property that is one of these values, whatever its case.

        Raises:
            ConfigurationError: it has another value.
        """
        text = self.given.get(name) or default
        for value in values:
            if value.lower() == text.strip().lower():
                return value
        raise self._refused(name, f"one of {', '.join(values)}")

    def _within(
        self,
        read: Callable[[str], _Number],
        kind: str,
        name: str,
        default: _Number,
        least: _Number,
        most: _Number,
    ) -> _Number:
        text = self.given.get(name)
        if text is None:
            return default
        try:
            value = read(text)
        except ValueError:
            pass
        else:
            if least <= value <= most:  # not of NaN
                return value
        raise self._refused(name, f"a {kind} between {least} and {most}")

    def _refused(self, name: str, wanted: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.what}: {self.noun} {name!r} must be {wanted}, got {self.given[name]!r}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.given!r})"


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
