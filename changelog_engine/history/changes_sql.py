"""The changes that rows of the log make, in SQL: values before and after, and how long they were valid.

Invariant: every row of the log is one row of ``history_sql``.
"""

from __future__ import annotations

from dataclasses import dataclass

from changelog_engine.history.names import literal
from changelog_engine.history.rows_sql import KEY, PLACE, Times, own_rows
from changelog_engine.history.sql_types import time_of
from changelog_engine.history.state_columns import FIELDS, StateColumns

_ENTRY = f"struct({', '.join(f'{name} AS {name}' for name in FIELDS)})"


@dataclass(frozen=True)
class ViewDialect:
    """How a database says what the others say otherwise.

    Args:
        entry: the value of a row, as a struct of ``FIELDS``.
        place: of a row among all, in their order.
        checkpoint_of: of a place, which stands for the braces.
        collected: the entries of all rows but clears, as a list.
    """

    entry: str
    place: str
    checkpoint_of: str
    collected: str


SPARK = ViewDialect(
    _ENTRY, PLACE, "{}.checkpoint_id", f"collect_list(CASE WHEN operation <> 'clear' THEN {_ENTRY} END)"
)
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
    rows = own_rows(rows, columns.operator, f"state = {literal(columns.name)}", where)
    found = changes_of(columns.kind)
    shown = columns.identity(texts_only=texts_only)
    for name in ("before", "after"):
        if not texts_only:
            shown.append(f"{columns.typed(f'entry_{name}.')} AS value_{name}")
        shown.append(f"{columns.text(f'entry_{name}.')} AS value_{name}_json")
    more = columns.more("entry_after.")
    if texts_only and columns.ttl_ms is not None:
        more = more[1:]
    shown += [
        "CASE WHEN is_base THEN 'snapshot' ELSE operation END AS operation",
        *more,
        "checkpoint_id AS valid_from_checkpoint",
        "valid_to_checkpoint",
        f"{time_of('from_ms')} AS valid_from",
        f"{time_of('to_ms')} AS valid_to",
        "event_time",
        "attempt",
        "sequence",
        "key_group",
    ]
    if texts_only:
        names = [f"{literal(text)} AS {name}" for name, text in _names(columns)]
        shown = [*names, *shown]
    timed = (
        f"SELECT *, {times.milliseconds('checkpoint_id')} AS from_ms, "
        f"{times.milliseconds('valid_to_checkpoint')} AS to_ms FROM found"
    )
    return (
        f"WITH source AS ({columns.source(rows)}), found AS ({found}), timed AS ({timed}) "
        f"SELECT {', '.join(shown)} FROM timed"
    )


def _names(columns: StateColumns) -> list[tuple[str, str]]:
    return [("operator", columns.operator), ("state", columns.name), ("kind", columns.kind)]


def changes_of(kind: str, dialect: ViewDialect = SPARK) -> str:
    """A query of the rows of a state, ``source``, with the entries before and after each, and how long it was valid."""
    return {"list": _list_history, "map": _map_history}.get(kind, _value_history)(dialect)


def _value_history(dialect: ViewDialect) -> str:
    entry = f"CASE WHEN operation = 'put' THEN {dialect.entry} END"
    over = f"OVER (PARTITION BY {KEY} {_IN_ORDER})"
    return (
        f"SELECT *, {entry} AS entry_after, lag({entry}) {over} AS entry_before, "
        f"lead(checkpoint_id) {over} AS valid_to_checkpoint FROM source"
    )


def _map_history(dialect: ViewDialect) -> str:
    """A clear ends all of the key's entries; it is one row, without a map key."""
    entry = f"CASE WHEN operation = 'put' THEN {dialect.entry} END"
    own = f"OVER (PARTITION BY {KEY}, map_key {_IN_ORDER})"
    clear = f"CASE WHEN operation = 'clear' THEN {dialect.place} END"
    newest_first = f"OVER (PARTITION BY {KEY} ORDER BY checkpoint_id DESC, sequence DESC {_BEFORE})"
    ends = dialect.checkpoint_of.format("least(next_own, next_clear)")
    return (
        "SELECT *, CASE WHEN operation <> 'clear' AND (last_clear IS NULL OR last_own > last_clear) THEN last_entry END "
        f"AS entry_before, CASE WHEN operation <> 'clear' THEN {ends} END AS valid_to_checkpoint FROM ("
        f"SELECT *, {entry} AS entry_after, lag({entry}) {own} AS last_entry, lag({dialect.place}) {own} AS last_own, "
        f"lead({dialect.place}) {own} AS next_own, "
        f"max({clear}) OVER (PARTITION BY {KEY} {_IN_ORDER} {_BEFORE}) AS last_clear, "
        f"min({clear}) {newest_first} AS next_clear FROM source)"
    )


def _list_history(dialect: ViewDialect) -> str:
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
