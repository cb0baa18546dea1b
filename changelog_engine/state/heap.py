"""The heap backend (HashMapStateBackend): tables are dicts in the worker process."""

from __future__ import annotations

from changelog_engine.graph.nodes import StateKind
from changelog_engine.state.backend import KeptBackend, StateTable


class HeapBackend(KeptBackend):
    """Keeps every state of one subtask in dicts. It is the smallest backend there can be."""

    def table(self, operator: str, state: str, kind: StateKind) -> StateTable:
        return {}

    def is_whole(self) -> bool:
        """A class that derives from this one may have other tables."""
        return type(self) is HeapBackend

    def remove(self, table: StateTable) -> None:
        if isinstance(table, dict):
            table.clear()
