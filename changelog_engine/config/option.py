"""What an option is: its key, older names, type, default, and how its text is read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from changelog_engine.config.names import writable
from changelog_engine.config.parsing import (
    parse_bool,
    parse_duration_ms,
    parse_float,
    parse_int,
    parse_map,
    parse_memory_bytes,
)
from changelog_engine.errors import ConfigurationError

_CLASS_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*[.:][^\W\d]\w*")

_PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": parse_bool,
    "int": parse_int,
    "float": parse_float,
    "duration": parse_duration_ms,
    "memory": parse_memory_bytes,
    "map": parse_map,
    "string": str.strip,
    "choice": str.strip,
}
_MOST = {"int": 2**31 - 1, "duration": 2**63 - 1, "memory": 2**63 - 1}  # as in Java


@dataclass(frozen=True)
class Option:
    """One option.

    Args:
        key: its name.
        kind: bool, int, float, duration (value in ms), memory (value in bytes), map, string or choice.
        default: the value when nobody sets it; None for no value.
        doc: what it does, in one sentence.
        older: names of earlier Flink releases, accepted as well.
        choices: for a choice, each accepted text (lower case) and the value it stands for.
        minimum, maximum: least and largest value of a number.
        classes: a choice that also takes the path of a Python class.
    """

    key: str
    kind: str
    default: Any
    doc: str
    older: tuple[str, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    minimum: int | None = None
    maximum: int | None = None
    classes: bool = False

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
            value = _PARSERS[self.kind](text)
        except ValueError as error:
            raise ConfigurationError(f"option {self.key!r}: {error}, got {text!r}") from None
        if self.kind == "choice":
            if value.lower() not in self.choices:
                if (
                    self.classes
                    and _CLASS_PATH.fullmatch(value)
                    and not value.startswith("org.apache.flink.")
                ):
                    return value
                known = ", ".join(sorted(set(self.choices.values())))
                if self.classes:
                    known += " and the path of a Python class such as 'package.module.Class'"
                raise ConfigurationError(f"option {self.key!r}: expected one of {known}, got {text!r}")
            return self.choices[value.lower()]
        if self.kind == "float" and not math.isfinite(value):
            raise ConfigurationError(f"option {self.key!r}: expected a finite number, got {text!r}")
        most = _MOST.get(self.kind) if self.maximum is None else self.maximum
        if most is not None and value > most:
            raise ConfigurationError(f"option {self.key!r}: must be at most {most}, got {text!r}")
        if self.minimum is not None and value < self.minimum:
            least = f"{math.ceil(self.minimum / 2**20)} MiB" if self.kind == "memory" else self.minimum
            raise ConfigurationError(f"option {self.key!r}: must be at least {least}, got {text!r}")
        return value


def options_in(module: Mapping[str, Any]) -> tuple[Option, ...]:
    """The options that a module has made so far, in that order."""
    return tuple([value for value in module.values() if isinstance(value, Option)])


def choices(*names: str, **aliases: str) -> dict[str, str]:
    """The accepted texts of a choice: its names, and other words (with `_` for `-`) for one of them."""
    return {name.lower(): name for name in names} | {
        alias.replace("_", "-"): name for alias, name in aliases.items()
    }
