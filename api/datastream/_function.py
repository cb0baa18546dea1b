"""Function: what all functions that users write have in common."""

from __future__ import annotations

from abc import ABC
from typing import Any

from changelog_engine.graph.hooks import does_nothing

from .runtime_context import RuntimeContext


class _InOpen:
    """The answer to ``self.get_runtime_context()`` of Java's functions, which PyFlink's do not have either.

    It is not there, so that ``hasattr`` says so. What a class of the program has by this name goes before it.
    """

    def __get__(self, function: Any, owner: type) -> Any:
        below: Any = super(Function, owner if function is None else function)
        try:
            return below.get_runtime_context  # of a class of the program beside this one
        except AttributeError:
            raise AttributeError(
                f"{owner.__name__!r} object has no attribute 'get_runtime_context': a function gets its RuntimeContext "
                "in open(self, runtime_context), before the first element: get states and metrics there, keep them in self"
            ) from None


class Function(ABC):  # noqa: B024 - subclasses have the abstract methods
    """Base of all functions that users write."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - a hook
        """Called once in each subtask before the first element: the place to get state.

        Args:
            runtime_context: where the function runs.
        """

    get_runtime_context = _InOpen()

    @does_nothing  # noqa: B027 - a hook
    def close(self) -> None:
        """Called once in each subtask after the last element."""
