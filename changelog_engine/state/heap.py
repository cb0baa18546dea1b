"""The heap backend (HashMapStateBackend): tables are dicts in the worker process."""

from __future__ import annotations

from changelog_engine.graph.nodes import StateKind
from changelog_engine.state.backend import StateBackend, StateTable


class HeapBackend(StateBackend):
    """Keeps every state of one subtask in dicts. It is the smallest backend there can be."""

    def table(self, operator: str, state: str, kind: StateKind) -> StateTable:
        return {}
