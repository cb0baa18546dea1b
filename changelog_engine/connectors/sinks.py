"""Sinks that need no files: print, collect on the driver, call a function.

PrintSink and CollectSink have no writer: the engine recognises them by class and brings their lines or
elements to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from changelog_engine.connectors.protocols import AnySink, Sink, SinkWriter
from changelog_engine.connectors.still_ours import ASKS_EVERY, check_still_ours
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.types import TypeInformation


class PrintSink(AnySink):
    """Prints each element on the driver's standard output.

    Args:
        identifier: begins each line, or None.
        type_info: declared type of the elements, which says how they look; None prints ``str(value)``.
    """

    goes_along = True

    def __init__(self, identifier: str | None = None, type_info: TypeInformation | None = None) -> None:
        self.identifier = identifier or None
        self.type_info = type_info

    def lines(self, values: Sequence[Any], subtask: int, parallelism: int) -> list[str]:
        """The lines to print; made in the worker, so that only text travels.

        Args:
            values: elements in order.
            subtask: index of the subtask, from 0; shown from 1.
            parallelism: number of subtasks; with one, no index is shown.

        Returns:
            One text per element: ``id:N> value``, ``id> value``, ``N> value`` or ``value``.
        """
        prefix = self.identifier or ""
        if parallelism > 1:
            prefix = f"{prefix}:{subtask + 1}" if prefix else str(subtask + 1)
        if prefix:
            prefix += "> "
        shown: Callable[[Any], str] = str if self.type_info is None else self.type_info.format
        return [prefix + shown(value) for value in values]


class CollectSink(AnySink):
    """Brings the elements to the driver as they are, for execute_and_collect."""

    goes_along = collects = True


class FunctionSink(Sink):
    """Calls a function for each element, in the worker: at least once, as a replay calls it again.

    Args:
        function: an object with ``invoke(value)``, or anything callable with a value. ``flush()`` is called
            at the end of an epoch and ``close()`` at the end, if it has them.

    Raises:
        ConfigurationError: it can take no value.
    """

    def __init__(self, function: Any) -> None:
        if hook_of(function, "invoke") is None and not callable(function):
            raise ArgumentTypeError(
                f"a sink function must have invoke(value) or be callable with a value, got {function!r}"
            )
        self.function = function

    def writer(self, subtask: int, parallelism: int) -> FunctionWriter:
        return FunctionWriter(self.function)


class FunctionWriter(SinkWriter):
    """Calls the function of a FunctionSink."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._invoke: Callable[[Any], Any] = hook_of(function, "invoke") or function

    def write(self, values: Sequence[Any]) -> None:
        invoke = self._invoke
        for start in range(0, len(values), ASKS_EVERY):
            check_still_ours()
            for value in values[start : start + ASKS_EVERY]:
                invoke(value)

    def flush(self) -> None:
        self._call_if_there("flush")

    def close(self) -> None:
        self._call_if_there("close")

    def _call_if_there(self, name: str) -> None:
        method = hook_of(self._function, name)
        if method is not None:
            method()
