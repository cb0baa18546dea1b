"""What one reading of a program learns for the next: arguments, results, attributes, and which functions run in workers.

A program is read until nothing new is learnt. Each reading asks the one before, so that what was not known at first does
not stay unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from changelog_engine.static_check.values import Value, joined

K = TypeVar("K")


@dataclass
class Knowledge:
    """Facts by the identity of the code that they are about.

    Args:
        parameters: of functions, by function and name.
        attributes: of objects of the program, by class and name.
        workers: functions, and classes with all their methods, that run in workers.
        escaped: functions that are handed on, so that anybody may call them.
    """

    parameters: dict[tuple[int, str], Value] = field(default_factory=dict)
    results: dict[int, Value] = field(default_factory=dict)
    attributes: dict[tuple[int, str], Value] = field(default_factory=dict)
    workers: set[int] = field(default_factory=set)
    escaped: set[int] = field(default_factory=set)

    def parameter(self, function: int, name: str, value: Value) -> None:
        """Note an argument of a call."""
        _learn(self.parameters, (function, name), value)

    def result(self, function: int, value: Value) -> None:
        """Note what a function returns."""
        _learn(self.results, function, value)

    def attribute(self, cls: int, name: str, value: Value) -> None:
        """Note what an attribute is set to."""
        _learn(self.attributes, (cls, name), value)


def _learn(known: dict[K, Value], key: K, value: Value) -> None:
    known[key] = joined(known[key], value) if key in known else value
