"""The views of states and timers: their names, and their queries over the files of one checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.graph.descriptions import keyed_operators, states_of
from changelog_engine.history.changes_sql import history_sql
from changelog_engine.history.fold_sql import state_sql
from changelog_engine.history.names import HISTORY_SUFFIX, view_names
from changelog_engine.history.rows_sql import MOST_ATTEMPTS, MOST_ENTRIES, Times
from changelog_engine.history.state_columns import StateColumns
from changelog_engine.history.tables import Selection, Tables

_MANY_ROWS = 500_000


@dataclass(frozen=True)
class StateViews:
    """The views of one state.

    Args:
        operator: uid.
        kind: value, list, map, reducing or aggregating.
        key_type, value_type: SQL types.
    """

    operator: str
    state: str
    kind: str
    view: str
    history_view: str
    key_type: str
    value_type: str

    @staticmethod
    def of(columns: StateColumns, view: str) -> StateViews:
        """Those of a state."""
        types = columns.key.name, columns.value_name
        return StateViews(columns.operator, columns.name, columns.kind, view, view + HISTORY_SUFFIX, *types)


@dataclass(frozen=True)
class TimerViews:
    """The views of the timers of one operator.

    Args:
        operator: uid.
        history_view: name of the view of what happened to them.
    """

    operator: str
    view: str
    history_view: str


def is_many(selection: Selection, checkpoint: Checkpoint) -> bool:
    """Whether what is replaced later should be sieved out first; see ``newest_sql`` for what that can do."""
    worth_it = selection.log_rows >= _MANY_ROWS and selection.base_rows < MOST_ENTRIES
    return worth_it and checkpoint.attempt < MOST_ATTEMPTS


def views_of(checkpoint: Checkpoint) -> Iterator[tuple[StateColumns, StateViews | TimerViews]]:
    """The states of a checkpoint and the timers of its operators, and the names of the views of each."""
    described = states_of(checkpoint.operators)
    keyed = {operator.uid: operator for operator in keyed_operators(checkpoint.operators)}
    for (uid, name), view in view_names(described, keyed).items():
        if name is None:
            yield StateColumns.of(keyed[uid], None), TimerViews(uid, view, view + HISTORY_SUFFIX)
        else:
            columns = StateColumns.of(*described[uid, name])
            yield columns, StateViews.of(columns, view)


def state_views(
    tables: Tables, checkpoint: Checkpoint, times: Times, rows_of: Callable[[Selection], str]
) -> tuple[list[StateViews], list[TimerViews], dict[str, str]]:
    """The views of all states and timers of a checkpoint, and the query of each view.

    Args:
        rows_of: files -> a query of their rows.

    Raises:
        CorruptChangelogError: parts that a state needs are gone.
    """
    states: list[StateViews] = []
    timers: list[TimerViews] = []
    queries: dict[str, str] = {}
    for columns, views in views_of(checkpoint):
        selection = tables.state(checkpoint, columns.operator)
        many, changes = is_many(selection, checkpoint), tables.history(checkpoint, columns.operator)
        queries[views.view] = state_sql(columns, rows_of(selection), checkpoint.wall_clock_ms, many=many)
        queries[views.history_view] = history_sql(columns, rows_of(changes), times)
        if isinstance(views, StateViews):
            states.append(views)
        else:
            timers.append(views)
    return states, timers, queries
