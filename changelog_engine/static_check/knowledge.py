"""What one reading of a program learns for the next: arguments, results, attributes, and which functions run in workers.

A program is read until nothing new is learnt. Each reading asks the one before, so that what was not known at first does
not stay unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from changelog_engine.static_check.values import Value, joined


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
        key = (function, name)
        known = self.parameters.get(key)
        self.parameters[key] = value if known is None else joined(known, value)

    def result(self, function: int, value: Value) -> None:
        """Note what a function returns."""
        known = self.results.get(function)
        self.results[function] = value if known is None else joined(known, value)

    def attribute(self, cls: int, name: str, value: Value) -> None:
        """Note what an attribute is set to."""
        key = (cls, name)
        known = self.attributes.get(key)
        self.attributes[key] = value if known is None else joined(known, value)
