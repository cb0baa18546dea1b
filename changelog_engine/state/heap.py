"""The heap backend (HashMapStateBackend): tables are dicts in the worker process."""

from __future__ import annotations

from typing import Any

from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state.backend import Cursor, KeyIdentity, NamespaceScope, StateTable
from changelog_engine.state.handles import (
    Admission,
    AggregatingHandle,
    CellHandle,
    CopyingCellHandle,
    ListHandle,
    MapHandle,
    ReducingHandle,
    function_of,
)
from changelog_engine.state.timers import TimerQueue
from changelog_engine.types import TypeInformation


class HeapBackend:
    """Keeps every state of one subtask in dicts."""

    def __init__(self) -> None:
        self.cursor = Cursor()
        self.tables: dict[tuple[str, str], StateTable] = {}
        self.queues: dict[tuple[str, str], TimerQueue] = {}

    def table(self, operator: str, state: str, kind: StateKind | None = None) -> StateTable:
        """See StateBackend."""
        empty: dict[KeyIdentity, Any] = {}
        return self.tables.setdefault((operator, state), empty)

    def state(
        self,
        operator: str,
        spec: StateSpec,
        key_type: TypeInformation | None,
        scope: NamespaceScope | None = None,
    ) -> Any:
        """See StateBackend."""
        table = self.table(operator, spec.name, spec.kind)
        cursor = self.cursor if scope is None else scope.cursor
        admission = Admission(operator, spec, cursor)
        if spec.kind is StateKind.LIST:
            return ListHandle(table, cursor, admission)
        if spec.kind is StateKind.MAP:
            return MapHandle(table, cursor, admission)
        cell = (CopyingCellHandle if admission.mutable else CellHandle)(table, cursor, admission)
        return shaped(cell, spec, admission)

    def timers(
        self,
        operator: str,
        domain: str,
        key_type: TypeInformation | None,
        scope: NamespaceScope | None = None,
    ) -> TimerQueue:
        """See StateBackend."""
        cursor = self.cursor if scope is None else scope.cursor
        return self.queues.setdefault((operator, domain), TimerQueue(cursor))

    def end_epoch(self) -> None:
        """See StateBackend."""

    def close(self) -> None:
        """See StateBackend."""
        self.tables.clear()
        self.queues.clear()


def shaped(cell: Any, spec: StateSpec, admission: Admission) -> Any:
    """The handle of a cell's kind: the cell itself, or a reducing or aggregating one over it."""
    if spec.kind is StateKind.REDUCING:
        return ReducingHandle(cell, function_of(spec), admission)
    if spec.kind is StateKind.AGGREGATING:
        return AggregatingHandle(cell, function_of(spec))
    return cell
