"""Function: what all functions that users write have in common."""

from __future__ import annotations

from abc import ABC

from changelog_engine.graph.hooks import does_nothing

from .runtime_context import RuntimeContext


class Function(ABC):  # noqa: B024 - subclasses have the abstract methods
    """Base of all functions that users write."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - a hook
        """Called once in each subtask before the first element: the place to get state.

        Args:
            runtime_context: where the function runs.
        """

    @does_nothing  # noqa: B027 - a hook
    def close(self) -> None:
        """Called once in each subtask after the last element."""
