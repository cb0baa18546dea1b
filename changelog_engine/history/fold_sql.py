"""The fold in SQL: from rows of the log to the state they leave, and what two states do not share.

Invariant: ``state_sql`` over the rows of a lineage is the state at its last checkpoint, as the Python fold finds it.
"""

from __future__ import annotations

from changelog_engine.history.dialect import FIELDS
from changelog_engine.history.rows_sql import KEY, PLACE, TIMER_KEY, newest_sql
from changelog_engine.history.state_columns import TIMER, StateColumns

_ENTRIES = f"sort_array(collect_list(struct(checkpoint_id, sequence, {', '.join(FIELDS)}, fingerprint)))"

_NEWEST_FIRST = "ORDER BY checkpoint_id DESC, sequence DESC"
# What is there of each kind of state, out of its rows, ``source``.
_CELLS = (
    f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {KEY} {_NEWEST_FIRST}) AS place FROM source) "
    "WHERE place = 1 AND operation = 'put' AND {live}"
)
_TIMERS = (
    f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {TIMER_KEY} {_NEWEST_FIRST}) AS place FROM source) "
    "WHERE place = 1 AND operation = 'register_timer'"
)
_MAPS = (
    f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {KEY}, map_key {_NEWEST_FIRST}) AS place "
    f"FROM (SELECT *, max(CASE WHEN operation = 'clear' THEN {PLACE} END) OVER (PARTITION BY {KEY}) AS cleared "
    f"FROM source) WHERE operation <> 'clear' AND (cleared IS NULL OR {PLACE} > cleared)) "
    "WHERE place = 1 AND operation = 'put' AND {live}"
)
_LISTS = (
    f"SELECT {KEY}, {_ENTRIES} AS entries, max(checkpoint_id) AS checkpoint_id, "
    f"max_by(event_time, {PLACE}) AS event_time "
    f"FROM (SELECT *, max(CASE WHEN operation IN ('clear', 'replace') THEN {PLACE} END) "
    f"OVER (PARTITION BY {KEY}) AS emptied FROM source) "
    f"WHERE operation <> 'clear' AND (emptied IS NULL OR {PLACE} >= emptied) AND {{live}} GROUP BY {KEY}"
)


def state_sql(
    columns: StateColumns,
    rows: str,
    time_ms: int,
    where: str = "true",
    fingerprint: bool = False,
    many: bool = False,
) -> str:
    """A query of the state that rows leave: one row a key (and window, and map key), or a timer.

    Args:
        time_ms: when that was; entries whose time to live had ended then are left out.
        where: a further condition on rows.
        fingerprint: with a column that differs where values do.
        many: the rows are too many to sort as they are: those that newer ones replaced go first, see ``newest_sql``.
    """
    rows = columns.own(rows, where)
    if many and columns.kind != "list":
        entry = TIMER_KEY if columns.kind == TIMER else "key, namespace, map_key, operation = 'clear'"
        rows = newest_sql(rows, entry)
    source = columns.source(rows)
    live = (
        "true"
        if columns.ttl_ms is None
        else f"(accessed_ms IS NULL OR accessed_ms > {time_ms - columns.ttl_ms})"
    )
    is_list = columns.kind == "list"
    entry = "entries." if is_list else ""
    print_of = "transform(entries, e -> e.fingerprint)" if is_list else "fingerprint"
    found = {"list": _LISTS, "map": _MAPS, TIMER: _TIMERS}.get(columns.kind, _CELLS).format(live=live)
    values = [
        f"{columns.typed(entry)} AS value",
        f"{columns.text(entry)} AS value_json",
        *columns.more(entry),
    ]
    values = columns.timer() if columns.kind == TIMER else values
    shown = [*columns.identity(), *values, "checkpoint_id", "event_time", "key_group"]
    if fingerprint:
        shown.append(f"{print_of} AS fingerprint")
    return f"WITH source AS ({source}), found AS ({found}) SELECT {', '.join(shown)} FROM found"


def difference_sql(columns: StateColumns, before: str, after: str) -> str:
    """A query of what two states do not share: one row a key (and window, and map key).

    Args:
        before: what ``state_sql`` gave for the one point, with fingerprints.
    """
    same = " AND ".join(f"b.{name} <=> a.{name}" for name in columns.identity_names())
    shown = []
    for name in columns.identity_names():
        typed = name.removesuffix("_json")
        # A key's own value may be null: take it from the side that has the entry.
        shown += [f"CASE WHEN a.key_json IS NULL THEN b.{n} ELSE a.{n} END AS {n}" for n in (typed, name)]
    shown += [
        "CASE WHEN b.key_json IS NULL THEN 'added' WHEN a.key_json IS NULL THEN 'removed' ELSE 'changed' END AS change",
        "b.value AS value_before, b.value_json AS value_before_json",
        "a.value AS value_after, a.value_json AS value_after_json",
        "a.checkpoint_id AS changed_at_checkpoint",
    ]
    return (
        f"SELECT {', '.join(shown)} FROM ({before}) b FULL OUTER JOIN ({after}) a ON {same} "
        "WHERE b.key_json IS NULL OR a.key_json IS NULL OR NOT b.fingerprint <=> a.fingerprint"
    )
