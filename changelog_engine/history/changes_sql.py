"""The changes that rows of the log make, in SQL: values before and after, and how long they were valid.

Invariant: every row of the log is one row of ``history_sql``.
"""

from __future__ import annotations

from changelog_engine.history.dialect import SPARK, SqlDialect
from changelog_engine.history.names import literal
from changelog_engine.history.rows_sql import KEY, TIMER_KEY, Times
from changelog_engine.history.state_columns import TIMER, StateColumns

_IN_ORDER = "ORDER BY checkpoint_id, sequence"
_BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


def history_sql(
    columns: StateColumns, rows: str, times: Times, where: str = "true", texts_only: bool = False
) -> str:
    """A query of the changes that rows make: one row a mutation.

    Args:
        where: a further condition on rows.
        texts_only: JSON text alone, with columns that are the same for every state.
    """
    timed = (
        f"SELECT *, {times.milliseconds('checkpoint_id')} AS from_ms, "
        f"{times.milliseconds('valid_to_checkpoint')} AS to_ms FROM found"
    )
    return changes_sql(columns, columns.source(columns.own(rows, where)), timed, texts_only=texts_only)


def changes_sql(
    columns: StateColumns, source: str, timed: str, dialect: SqlDialect = SPARK, texts_only: bool = False
) -> str:
    """As ``history_sql``, in any dialect.

    Args:
        source: a query of the state's rows, as ``StateColumns.source`` gives them.
        timed: a query of all of ``found`` with ``from_ms`` and ``to_ms``, when it began and ceased to be valid.
    """
    shown = [
        *columns.identity(dialect, texts_only),
        *_changed(columns, dialect, texts_only),
        "CASE WHEN is_base THEN 'snapshot' ELSE operation END AS operation",
        *_about(columns, dialect, texts_only),
        "checkpoint_id AS valid_from_checkpoint",
        "valid_to_checkpoint",
        f"{dialect.time('from_ms')} AS valid_from",
        f"{dialect.time('to_ms')} AS valid_to",
        "event_time",
        "attempt",
        "sequence",
        "key_group",
    ]
    if texts_only:
        state = "state" if columns.kind == TIMER else f"{literal(columns.name)} AS state"
        shown = [f"{literal(columns.operator)} AS operator", state, f"'{columns.kind}' AS kind", *shown]
    found = _HISTORIES.get(columns.kind, _value_history)(dialect)
    return f"WITH source AS ({source}), found AS ({found}), timed AS ({timed}) SELECT {', '.join(shown)} FROM timed"


def _changed(columns: StateColumns, dialect: SqlDialect, texts_only: bool) -> list[str]:
    """SQL of the values before and after; of a timer of what it was set to."""
    if columns.kind != TIMER:
        shown = []
        for name in ("before", "after"):
            if not texts_only:
                shown.append(f"{columns.typed(f'entry_{name}.', dialect)} AS value_{name}")
            shown.append(f"{columns.text(f'entry_{name}.', dialect)} AS value_{name}_json")
        return shown
    if not texts_only:
        return columns.timer(dialect)
    registered = "operation = 'register_timer'"
    return [
        f"CASE WHEN NOT {registered} THEN value END AS value_before_json",
        f"CASE WHEN {registered} THEN value END AS value_after_json",
    ]


def _about(columns: StateColumns, dialect: SqlDialect, texts_only: bool) -> list[str]:
    """SQL of what is said about the value after."""
    if columns.kind == TIMER:
        nulls = ["CAST(NULL AS STRING) AS pickled_type", "CAST(NULL AS INT) AS pickled_bytes"]
        return nulls if texts_only else []
    return columns.more("entry_after.", dialect, timed=not texts_only)


def _timer_history(dialect: SqlDialect) -> str:
    over = f"OVER (PARTITION BY {TIMER_KEY} {_IN_ORDER})"
    return f"SELECT *, lead(checkpoint_id) {over} AS valid_to_checkpoint FROM source"


def _value_history(dialect: SqlDialect) -> str:
    entry = f"CASE WHEN operation = 'put' THEN {dialect.entry} END"
    over = f"OVER (PARTITION BY {KEY} {_IN_ORDER})"
    return (
        f"SELECT *, {entry} AS entry_after, lag({entry}) {over} AS entry_before, "
        f"lead(checkpoint_id) {over} AS valid_to_checkpoint FROM source"
    )


def _map_history(dialect: SqlDialect) -> str:
    """A clear ends all of the key's entries; it is one row, without a map key."""
    entry = f"CASE WHEN operation = 'put' THEN {dialect.entry} END"
    own = f"OVER (PARTITION BY {KEY}, map_key {_IN_ORDER})"
    clear = f"CASE WHEN operation = 'clear' THEN {dialect.place} END"
    newest_first = f"OVER (PARTITION BY {KEY} ORDER BY checkpoint_id DESC, sequence DESC {_BEFORE})"
    ends = dialect.checkpoint_of("least(next_own, next_clear)")
    return (
        "SELECT *, CASE WHEN operation <> 'clear' AND (last_clear IS NULL OR last_own > last_clear) THEN last_entry END "
        f"AS entry_before, CASE WHEN operation <> 'clear' THEN {ends} END AS valid_to_checkpoint FROM ("
        f"SELECT *, {entry} AS entry_after, lag({entry}) {own} AS last_entry, lag({dialect.place}) {own} AS last_own, "
        f"lead({dialect.place}) {own} AS next_own, "
        f"max({clear}) OVER (PARTITION BY {KEY} {_IN_ORDER} {_BEFORE}) AS last_clear, "
        f"min({clear}) {newest_first} AS next_clear FROM source)"
    )


def _list_history(dialect: SqlDialect) -> str:
    """Each replace and clear begins the list anew; between them it grows."""
    over = f"OVER (PARTITION BY {KEY} {_IN_ORDER})"
    growing = (
        f"OVER (PARTITION BY {KEY}, generation {_IN_ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    generation = f"count_if(operation IN ('clear', 'replace')) OVER (PARTITION BY {KEY} {_IN_ORDER})"
    return (
        f"SELECT *, lag(entry_after) {over} AS entry_before, lead(checkpoint_id) {over} AS valid_to_checkpoint FROM ("
        f"SELECT *, CASE WHEN operation <> 'clear' THEN {dialect.collected} {growing} END AS entry_after FROM ("
        f"SELECT *, {generation} AS generation FROM source))"
    )


# A query of the rows of a state, ``source``, with the entries before and after each, and how long it was valid.
_HISTORIES = {"list": _list_history, "map": _map_history, TIMER: _timer_history}
