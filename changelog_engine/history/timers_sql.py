"""Timers in SQL: those that are registered at a point, and how they were registered, deleted and fired.

Invariants:
    * A timer is a key (and window), a domain and a time; its last row in the log says whether it is there.
    * Every row of the log is one row of ``timer_changes_sql``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from changelog_engine.graph.descriptions import DescribedOperator, key_type_of
from changelog_engine.history.names import literal
from changelog_engine.history.rows_sql import Times, newest_sql, own_rows
from changelog_engine.history.sql_types import (
    SqlType,
    key_sql_type,
    time_of,
    value_of,
    window_sql_type,
)
from changelog_engine.history.state_columns import (
    LAST_COLUMNS,
    LONG,
    TEXT,
    TIME,
    ViewColumn,
    identity_columns,
)
from changelog_engine.state.backend import EVENT_TIMERS, PROCESSING_TIMERS, TIMER_DOMAINS

_STATES = f"state IN ('{EVENT_TIMERS}', '{PROCESSING_TIMERS}')"
_CASES = " ".join([f"WHEN '{state}' THEN '{domain}'" for state, domain in TIMER_DOMAINS.items()])
DOMAIN = f"CASE state {_CASES} END"
"""The domain of the timer in a row, in SQL."""
_TIMER = "key_group, key, namespace, state, value"
_TIME_MS = "try_cast(value AS BIGINT)"


@dataclass(frozen=True)
class TimerColumns:
    """The timers of one operator as SQL shows them.

    Args:
        operator: its uid.
        window: type of the windows; None where timers have none.
    """

    operator: str
    key: SqlType
    window: SqlType | None

    map_key: ClassVar[None] = None  # as a state's columns have it

    @staticmethod
    def of(operator: DescribedOperator) -> TimerColumns:
        """From what a checkpoint says of an operator; its timers have the namespaces that its states have."""
        namespaces = [state.namespace for state in operator.states if state.namespace]
        window = window_sql_type(namespaces[0]) if namespaces else None
        return TimerColumns(operator.uid, key_sql_type(key_type_of(operator)), window)

    def shown(self) -> list[ViewColumn]:
        """The columns of the operator's view of timers, in their order."""
        return [*self.timer_columns(), *LAST_COLUMNS]

    def timer_columns(self) -> list[ViewColumn]:
        """Those that say which timer it is."""
        return [
            *identity_columns(self.key, self.window),
            ViewColumn("domain", *TEXT),
            ViewColumn("time", *TIME),
            ViewColumn("time_ms", *LONG),
        ]

    def _shown(self) -> list[str]:
        shown = [f"{value_of(self.key, 'key')} AS key", "key AS key_json"]
        if self.window is not None:
            shown += [f"{value_of(self.window, 'namespace')} AS window", "namespace AS window_json"]
        return [*shown, f"{DOMAIN} AS domain", f"{time_of(_TIME_MS)} AS time", f"{_TIME_MS} AS time_ms"]


def timers_sql(columns: TimerColumns, rows: str, where: str = "true", many: bool = False) -> str:
    """A query of the timers that rows leave: one row a timer.

    Args:
        many: see ``state_sql``.
    """
    rows = own_rows(rows, columns.operator, _STATES, where)
    if many:
        rows = newest_sql(rows, _TIMER)
    by_place = "ORDER BY checkpoint_id DESC, sequence DESC"
    shown = [*columns._shown(), "checkpoint_id", "event_time", "key_group"]
    return (
        f"SELECT {', '.join(shown)} FROM (SELECT *, row_number() OVER (PARTITION BY {_TIMER} {by_place}) AS place "
        f"FROM ({rows})) WHERE place = 1 AND operation = 'register_timer'"
    )


def timer_changes_sql(
    columns: TimerColumns, rows: str, times: Times, where: str = "true", texts_only: bool = False
) -> str:
    """A query of what happened to timers: one row a mutation.

    Args:
        texts_only: with the columns of ``history_sql`` with texts only.
    """
    rows = own_rows(rows, columns.operator, _STATES, where)
    registered = "operation = 'register_timer'"
    found = (
        f"SELECT *, lead(checkpoint_id) OVER (PARTITION BY {_TIMER} ORDER BY checkpoint_id, sequence) "
        f"AS valid_to_checkpoint FROM ({rows})"
    )
    timed = (
        f"SELECT *, {times.milliseconds('checkpoint_id')} AS from_ms, "
        f"{times.milliseconds('valid_to_checkpoint')} AS to_ms FROM ({found})"
    )
    if texts_only:
        shown = [
            f"{literal(columns.operator)} AS operator", "state", "'timer' AS kind", "key AS key_json",
            "namespace AS window_json", "CAST(NULL AS STRING) AS map_key_json",
            f"CASE WHEN NOT {registered} THEN value END AS value_before_json",
            f"CASE WHEN {registered} THEN value END AS value_after_json",
        ]  # fmt: skip
    else:
        shown = columns._shown()
    shown.append("CASE WHEN is_base THEN 'snapshot' ELSE operation END AS operation")
    if texts_only:
        shown += ["CAST(NULL AS STRING) AS pickled_type", "CAST(NULL AS INT) AS pickled_bytes"]
    shown += [
        "checkpoint_id AS valid_from_checkpoint", "valid_to_checkpoint", f"{time_of('from_ms')} AS valid_from",
        f"{time_of('to_ms')} AS valid_to", "event_time", "attempt", "sequence", "key_group",
    ]  # fmt: skip
    return f"SELECT {', '.join(shown)} FROM ({timed})"
