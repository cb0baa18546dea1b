"""The typed views of a job's states for SQL without Spark: DuckDB over Arrow tables, made when a query names them.

Names, columns and types are those of the Spark views (``history.names``, ``history.state_columns``, ``history.sql_types``).

Invariants:
    * A query sees the job's views and nothing else of this machine: DuckDB opens no files and loads no extensions.
    * Nothing is unpickled: a pickled value is null, its size and its readable text stand beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.fold import group_by_state
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.segments import on_lineage
from changelog_engine.errors import ConfigurationError, EnvironmentNotReadyError
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.history.plain_rows import view_values
from changelog_engine.history.sql_types import time_of_ms
from changelog_engine.history.state_columns import StateColumns
from changelog_engine.history.views import StateViews, TimerViews, views_of
from changelog_engine.inspection.points import open_point
from changelog_engine.inspection.sql_changes import Changes
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.points import At
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.reading import read_parts
from changelog_engine.nearest import named
from changelog_engine.state.local_folder import temporary_folder

_TIME = pa.timestamp("us")
_MEMORY = "1GB"  # what DuckDB takes; more goes to a temporary folder
_LONG, _TEXT = pa.int64(), pa.string()
_WHICH_VIEWS = re.compile(r"\s*show\s+(all\s+)?(tables|views)\s*;?\s*", re.IGNORECASE)
_UNQUOTED = re.compile(
    r"Referenced column .* not found|Could not convert string .* when casting from source column"
)
_HOW_TO_QUOTE = "Text stands in single quotes, numbers alone in none: WHERE key = 'ann'. SELECT * FROM states has the types"


class QueryResult(NamedTuple):
    """What a query gives: names of columns, and rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@read_again
def query(path: str, text: str, at: At = None) -> QueryResult:
    """Run a query of DuckDB's SQL over a job's views.

    Args:
        at: which checkpoint the views of states show, see ``ledger.points``.

    Raises:
        EnvironmentNotReadyError: DuckDB is not installed.
        ConfigurationError: the query is wrong. Where a view is not there, the error suggests the closest match.
        RestoreError, CorruptChangelogError: as ``inspection.states.states_at``.
    """
    try:
        import duckdb
    except ImportError as error:
        raise EnvironmentNotReadyError(
            "SQL without Spark needs DuckDB: pip install 'changelog-engine[sql]'; or ask Spark, with --spark"
        ) from error
    ledger, checkpoint = open_point(path, at)
    views = Views(ledger, checkpoint)
    if _WHICH_VIEWS.fullmatch(text):
        text = "SELECT * FROM states"
    said = {word.lower() for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)}
    with temporary_folder("sql") as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "memory_limit": _MEMORY,
            "temp_directory": folder,
        }
        long = any(name.lower() in said for name in views.of_changes)
        with duckdb.connect(f"{folder}/rows" if long else ":memory:", config=settings) as connection:
            connection.execute("SET python_enable_replacements = false")
            try:
                for name in views.names:
                    if name.lower() in said:
                        views.make(connection, name)
                connection.execute(text)
                columns = tuple(column[0] for column in connection.description or ())
                return QueryResult(columns, connection.fetchall())
            except duckdb.Error as error:
                raise ConfigurationError(_explained(str(error), views.names)) from None


def _explained(message: str, names: Sequence[str]) -> str:
    """What DuckDB says; of a view that is not there the nearest, of text without its quotes how it is written."""
    missing = re.search(r"Table with name (\S+) does not exist", message)
    if missing is not None:
        return named("view", missing[1], names)
    if _UNQUOTED.search(message):
        message += f"\n\n{_HOW_TO_QUOTE}"
    return message


class Views:
    """A job's views at a checkpoint, each made when it is asked for.

    Attributes:
        of_changes: those of them that show the log's rows.
    """

    def __init__(self, ledger: Ledger, checkpoint: Checkpoint) -> None:
        self._ledger = ledger
        self._checkpoint = checkpoint
        self._makers: dict[str, Callable[[], pa.Table]] = {
            "checkpoints": self._checkpoints,
            "states": self._states,
        }
        self._changes: dict[str, Callable[[Changes], None]] = {
            "mutations": lambda it: it.mutations("mutations")
        }
        self._summary: list[StateViews | TimerViews] = []
        for columns, views in views_of(checkpoint):
            changes = views.history_view
            self._makers[views.view] = partial(self._state, columns)
            self._changes[changes] = partial(Changes.history, view=changes, columns=columns)
            self._summary.append(views)
        self.of_changes = tuple(self._changes)
        self.names = (*self._makers, *self.of_changes)

    def make(self, connection: Any, name: str) -> None:
        """Make a view in a database of DuckDB's."""
        if name in self._changes:
            self._changes[name](Changes(connection, self._ledger, self._checkpoint, f"{name}_"))
        else:
            connection.register(name, self.table(name))

    def table(self, name: str) -> pa.Table:
        """The rows of a view that does not show the log's rows."""
        return self._makers[name]()

    def _state(self, columns: StateColumns) -> pa.Table:
        uid, point = columns.operator, self._ledger.restore_point(self._checkpoint)
        there = group_by_state(read_parts(point, ALL_KEY_GROUPS, frozenset([uid]), self._ledger))
        live = [fold_state(there[uid, state]) for state in columns.states if (uid, state) in there]
        values = view_values(live, columns, self._checkpoint.wall_clock_ms)
        return _table([(column.name, column.arrow, values[column.name]) for column in columns.shown()])

    def _states(self) -> pa.Table:
        names = [each.name for each in fields(StateViews)]
        return _table([(name, _TEXT, [vars(row).get(name) for row in self._summary]) for name in names])

    def _checkpoints(self) -> pa.Table:
        lineage = self._ledger.lineage
        found = [lineage.checkpoint(number) for number in lineage.checkpoints.ids()]
        numbers = ("id", "attempt", "parent", "duration_ms", "parts", "rows", "bytes", "snapshot")
        shown: list[_Column] = [(name, _LONG, [vars(row)[name] for row in found]) for name in numbers]
        shown.insert(3, ("time", _TIME, [time_of_ms(row.time_ms) for row in found]))
        shown += [(name, pa.bool_(), [vars(row)[name] for row in found]) for name in ("finished", "stopped")]
        line = self._checkpoint.lineage
        shown.append(("on_lineage", pa.bool_(), [on_lineage(line, row.attempt, row.id) for row in found]))
        return _table(shown)


_Column = tuple[str, pa.DataType, list[Any]]


def _table(columns: list[_Column]) -> pa.Table:
    arrays = [pa.array(values, arrow) for _, arrow, values in columns]
    return pa.table(arrays, names=[name for name, _, _ in columns])
