"""Sinks whose output goes to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changelog_engine.operators.base import Operator
from changelog_engine.operators.failures import UsersCode


class DriverOutput(Operator):
    """Keeps what goes to the driver at the end of the epoch: printed lines, or elements that are collected.

    Args:
        render: elements to what is sent; None sends the elements.
        as_given: render what functions gave, not what their declared type makes of it.
    """

    def __init__(self, name: str, render: Any | None, as_given: bool = False) -> None:
        super().__init__(name, None)
        self.typed = True
        self.as_given = as_given
        self.render = render
        self.passive = render is None
        self._kept: list[Any] = []

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        if self.render is None:
            self._kept.extend(values)
            return
        with UsersCode(self.name, "str() of an element"):
            self._kept.extend(self.render(values))

    def take(self) -> list[Any]:
        """What was kept since the last call."""
        kept, self._kept = self._kept, []
        return kept
