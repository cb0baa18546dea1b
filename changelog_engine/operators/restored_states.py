"""What a restore left for the states and timers of a subtask, until its functions declare them.

Rows of the log wait as they were read, and are decoded with the type that the function declares. Where the attempt before
left its tables (``kept_state``), these wait instead.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import pyarrow as pa

from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.conversion import TypeVersions, fill_versions
from changelog_engine.changelog.fold import RowsByState, fill_state, timers_of
from changelog_engine.changelog.rows import Columns, LogColumns
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState, states_of
from changelog_engine.graph.nodes import StateId, StateSpec
from changelog_engine.operators.kept_state import KeptState, KeptTable
from changelog_engine.operators.state_types import describe, restored_versions
from changelog_engine.state.backend import StateTable
from changelog_engine.state.factory import OpenState
from changelog_engine.state.timer_table import Timer
from changelog_engine.types import TypeInformation


class RestoredStates:
    """States and timers of a checkpoint that are not declared yet.

    Args:
        key_type: declared type of the subtask's keys.

    Attributes:
        tables: that the attempt before left.
        timers: likewise, in the order of their registration.
    """

    def __init__(self, key_type: TypeInformation | None) -> None:
        self.rows: RowsByState = {}
        self.tables: dict[StateId, KeptTable] = {}
        self.timers: dict[StateId, list[Timer]] = {}
        self._key_type = key_type
        self._described: dict[StateId, tuple[DescribedOperator, DescribedState]] = {}

    def describe(self, operators: list[DescribedOperator]) -> None:
        """Take what the checkpoint says of its states: ``Checkpoint.operators``."""
        self._described = states_of(operators)

    def take(self, kept: KeptState) -> None:
        """Take what the attempt before left."""
        self.rows, self.tables = kept.rows, kept.tables
        self.timers = {name: list(timers) for name, timers in kept.timers.items()}

    def versions(self, name: StateId, spec: StateSpec) -> TypeVersions | None:
        """How the entries of a state that is declared now were written; None where the checkpoint has no such state.

        Raises:
            RestoreError: they do not fit what is declared.
        """
        if name not in self._described:
            return None
        operator, state = self._described[name]
        return restored_versions(operator.uid, state, operator.key_type, spec, self._key_type)

    def take_table(
        self, name: StateId, spec: StateSpec, read_again: Callable[[StateId, StateTable], RowsByState]
    ) -> StateTable | None:
        """The table that was kept for a state that is declared now.

        Args:
            read_again: reads the state's rows, where it is not declared as it was, and lets go of the table.
        """
        kept = self.tables.pop(name, None)
        if kept is None:
            return None
        if describe(spec) == describe(kept.declared) and spec.kind is kept.declared.kind:
            return kept.table
        self.rows.update(read_again(name, kept.table))
        return None

    def fill(
        self, state: OpenState, versions: TypeVersions | None, namespaces: NamespaceCodec | None
    ) -> None:
        """Put a state's entries into its table, decoded."""
        rows = self.rows.pop((state.operator, state.spec.name), None)
        if rows and versions is None:  # the rows are of one with its name that was dropped, and cleared
            fill_state([fold_state(rows)], state.stored, self._key_type, state.table, namespaces)
        elif rows and versions is not None:  # what is converted goes into the log
            fill_versions(
                rows,
                versions,
                state.operator,
                state.stored,
                self._key_type,
                state.table,
                namespaces,
                state.log,
            )

    def take_timers(self, name: StateId, namespaces: NamespaceCodec | None) -> list[Timer]:
        """The timers of an operator that asks for them now, in the order of their registration."""
        rows = self.rows.pop(name, None)
        return self.timers.pop(name, []) + (timers_of(rows, self._key_type, namespaces) if rows else [])

    def take_removed(
        self, declared: Container[StateId]
    ) -> list[tuple[StateId, DescribedState, list[pa.Table]]]:
        """The states that are to go because nobody declared them while the functions were opened, and their rows."""
        marked = [name for name, (_, state) in self._described.items() if state.removed]
        return [
            (name, self._described.pop(name)[1], self.rows.pop(name, []))
            for name in marked
            if name not in declared
        ]

    def live_columns(self) -> Iterator[LogColumns]:
        """Every live entry as columns of the changelog."""
        for (operator, state), tables in self.rows.items():
            table = fold_state(tables)
            self.rows[operator, state] = [table]
            columns: Columns = {name: table[name] for name in table.column_names}
            for name in ("checkpoint_id", "attempt", "sequence"):
                columns.pop(name)
            if table.num_rows:
                yield LogColumns(table.num_rows, {**columns, "operator": operator, "state": state})
