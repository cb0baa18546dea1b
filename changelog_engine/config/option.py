"""What an option is: its key, older names, default, and by its class how its text is read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from changelog_engine.config.names import writable
from changelog_engine.config.parsing import (
    parse_bool,
    parse_duration_ms,
    parse_duration_with_unit_ms,
    parse_float,
    parse_int,
    parse_map,
    parse_memory_bytes,
)
from changelog_engine.errors import ConfigurationError

_CLASS_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*[.:][^\W\d]\w*")
_INT, _LONG = 2**31 - 1, 2**63 - 1  # the largest of Java's


@dataclass(frozen=True)
class Option:
    """One option; its value is a string, unless the class below this one says otherwise.

    Args:
        key: its name.
        default: the value when nobody sets it; None for no value.
        doc: what it does, in one sentence.
        older: names of earlier Flink releases, accepted as well.
    """

    kind: ClassVar[str] = "string"
    key: str
    default: Any
    doc: str
    older: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """Turn the text into the option's value.

        Args:
            text: as written in code, on the command line or in the file.

        Returns:
            The value: ms for durations, bytes for memory sizes.

        Raises:
            ConfigurationError: the text does not fit; the message names the key.
        """
        writable(text, f"option {self.key!r}")
        try:
            return self._checked(self._read(text))
        except ValueError as error:
            raise ConfigurationError(f"option {self.key!r}: {error}, got {text!r}") from None

    @staticmethod
    def _read(text: str) -> Any:
        """The value that a string stands for; raises ValueError, as `_checked` does: it says what was expected."""
        return text.strip()

    def _checked(self, value: Any) -> Any:
        return value


class FlagOption(Option):
    """True or False."""

    kind, _read = "bool", staticmethod(parse_bool)


class MapOption(Option):
    """Strings by strings."""

    kind, _read = "map", staticmethod(parse_map)


@dataclass(frozen=True)
class IntOption(Option):
    """A whole number, within bounds."""

    kind = "int"
    most: ClassVar[float] = _INT
    minimum: int | None = None
    maximum: int | None = None

    @staticmethod
    def _read(text: str) -> Any:
        return parse_int(text)

    def _checked(self, value: Any) -> Any:
        most = self.most if self.maximum is None else self.maximum
        if value > most:
            raise ValueError(f"must be at most {most}")
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"must be at least {self._shown(self.minimum)}")
        return value

    def _shown(self, value: int) -> str:
        return str(value)


class FloatOption(IntOption):
    """A number."""

    kind, _read = "float", staticmethod(parse_float)
    most = math.inf

    def _checked(self, value: Any) -> Any:
        if not math.isfinite(value):
            raise ValueError("expected a finite number")
        return super()._checked(value)


class DurationOption(IntOption):
    """A time in ms."""

    kind, _read = "duration", staticmethod(parse_duration_ms)
    most = _LONG


class AgeOption(DurationOption):
    """A time in ms after which something is deleted; its unit is written, but for 0."""

    _read = staticmethod(parse_duration_with_unit_ms)


class MemoryOption(IntOption):
    """A number of bytes."""

    kind, _read = "memory", staticmethod(parse_memory_bytes)
    most = _LONG

    def _shown(self, value: int) -> str:
        return f"{math.ceil(value / 2**20)} MiB"


@dataclass(frozen=True)
class ChoiceOption(Option):
    """One of several words.

    Args:
        choices: each accepted text (lower case) and the value it stands for.
        classes: it also takes the path of a Python class.
    """

    kind = "choice"
    choices: Mapping[str, str] = field(default_factory=dict)
    classes: bool = False

    def _checked(self, value: str) -> str:
        if value.lower() in self.choices:
            return self.choices[value.lower()]
        if self.classes and _CLASS_PATH.fullmatch(value) and not value.startswith("org.apache.flink."):
            return value
        known = ", ".join(sorted(set(self.choices.values())))
        also = " and the path of a Python class such as 'package.module.Class'" if self.classes else ""
        raise ValueError(f"expected one of {known}{also}")


def options_in(module: Mapping[str, Any]) -> tuple[Option, ...]:
    """The options that a module has made so far, in that order."""
    return tuple([value for value in module.values() if isinstance(value, Option)])


def choices(*names: str, **aliases: str) -> dict[str, str]:
    """The accepted texts of a choice: its names, and other words (with `_` for `-`) for one of them."""
    return {name.lower(): name for name in names} | {
        alias.replace("_", "-"): name for alias, name in aliases.items()
    }
