"""Rows of the typed views without SQL: plain Python values out of the log's texts, for Arrow.

Invariants:
    * Names and values are those of Spark's views; which columns a state has is said by ``StateColumns.shown``.
    * Nothing is unpickled: a pickled value is null; its type, its size and its readable text stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.history.pickles import pickled_type_of
from changelog_engine.history.sql_types import NEWEST_MS, OLDEST_MS, SqlType, parsed, time_of_ms
from changelog_engine.history.state_columns import StateColumns
from changelog_engine.history.timers_sql import TimerColumns
from changelog_engine.state.backend import TIMER_DOMAINS

Values = dict[str, list[Any]]  # column -> its values


def state_values(live: pa.Table, columns: StateColumns, time_ms: int) -> Values:
    """The rows of a state's view.

    Args:
        live: the state's live rows, as ``compaction.fold_state`` gives them.
        time_ms: when that was; entries whose time to live had ended then are left out.
    """
    entries = _entries(dated(live), columns, time_ms)
    found = identity_values(columns, entries)
    names = [column.name for column in columns.shown() if column.name not in found]
    return found | {name: [entry[name] for entry in entries] for name in names}


def timers_values(live: Sequence[pa.Table], columns: TimerColumns) -> Values:
    """The rows of an operator's view of timers.

    Args:
        live: the live rows of its timers, as ``compaction.fold_state`` gives them.
    """
    rows = [row for table in live for row in dated(table).to_pylist()]
    found = timer_values(rows, columns)
    found["event_time"] = [naive(row["event_time"]) for row in rows]
    return found | {name: [row[name] for row in rows] for name in ("checkpoint_id", "key_group")}


def timer_values(rows: list[dict[str, Any]], columns: TimerColumns) -> Values:
    """What says which timers rows of the log are about.

    Args:
        rows: with the log's columns.
        columns: the operator's timers.
    """
    found = identity_values(columns, rows)
    found["domain"] = [TIMER_DOMAINS[row["state"]] for row in rows]
    found["time_ms"] = [int(row["value"]) for row in rows]
    found["time"] = [time_of_ms(each) for each in found["time_ms"]]
    return found


def identity_values(columns: StateColumns | TimerColumns, rows: list[dict[str, Any]]) -> Values:
    """The columns that tell entries apart, typed and as text, out of rows with the log's columns."""
    found: Values = {}
    for name, source, kind in (
        ("key", "key", columns.key),
        ("window", "namespace", columns.window),
        ("map_key", "map_key", columns.map_key),
    ):
        if kind is not None:
            found |= typed_values(name, kind, [row[source] for row in rows])
    return found


def typed_values(name: str, kind: SqlType, texts: list[str | None]) -> Values:
    """A typed column and its text, out of JSON texts."""
    return {name: [kind.of_json(loaded(text)) for text in texts], f"{name}_json": list(texts)}


def loaded(text: str | None) -> Any:
    """A JSON value; numbers that the quick reader does not take by the exact one. What is not JSON is text."""
    if text is None:
        return None
    try:
        return parsed(text)
    except ValueError:
        return text


def dated(rows: pa.Table) -> pa.Table:
    """Rows whose event times Python's calendar has: null outside the years 1 to 9999."""
    times = rows["event_time"]
    milliseconds = pc.divide(times.cast(pa.int64()), 1000)
    fits = pc.and_(pc.greater(milliseconds, OLDEST_MS), pc.less_equal(milliseconds, NEWEST_MS))
    place = rows.schema.get_field_index("event_time")
    return rows.set_column(place, rows.field(place), pc.if_else(fits, times, pa.scalar(None, times.type)))


def naive(time: Any) -> Any:
    """A time of UTC without its zone."""
    return None if time is None else time.replace(tzinfo=None)


def value_of_row(row: dict[str, Any], columns: StateColumns) -> dict[str, Any]:
    """The value of a row of the log, and what is said about it.

    Args:
        row: with the log's columns.

    Returns:
        ``value``, ``value_json``, ``accessed_ms``, ``pickled_type`` and ``pickled_bytes``.
    """
    accessed, text, value, payload = None, row["value"], loaded(row["value"]), row["payload"]
    timed = columns.ttl_ms is not None and isinstance(value, list) and len(value) == 2
    if timed and isinstance(value[0], int):
        accessed, value = value
        text = text.partition(",")[2][:-1]
    return {
        "value": None if payload is not None else columns.value.of_json(value),
        "value_json": text,
        "accessed_ms": accessed,
        "pickled_type": pickled_type_of(payload),
        "pickled_bytes": None if payload is None else len(payload),
    }


def _entries(live: pa.Table, columns: StateColumns, time_ms: int) -> list[dict[str, Any]]:
    """The entries of a state: one a row, or of a list state one a key; without those that had expired."""
    found: dict[Any, dict[str, Any]] = {}
    since = None if columns.ttl_ms is None else time_ms - columns.ttl_ms
    for number, row in enumerate(live.to_pylist()):
        own = value_of_row(row, columns)
        if since is not None and own["accessed_ms"] is not None and own["accessed_ms"] <= since:
            continue
        own["accessed"] = time_of_ms(own["accessed_ms"])
        own["event_time"] = naive(row["event_time"])
        if columns.kind != "list":
            found[number] = {**row, **own}
            continue
        place = (row["key"], row["namespace"])
        entry = found.get(place)
        if entry is None:
            entry = found[place] = {**row, **own}
            entry |= {
                name: [] for name in ("value", "value_json", "accessed", "pickled_type", "pickled_bytes")
            }
        for name in ("value", "value_json", "accessed", "pickled_type", "pickled_bytes"):
            entry[name].append(own[name])
        entry["checkpoint_id"] = max(entry["checkpoint_id"], row["checkpoint_id"])
        entry["event_time"] = own["event_time"]
    entries = list(found.values())
    if columns.kind == "list":
        for entry in entries:
            entry["value_json"] = f"[{','.join(entry['value_json'])}]"
            types = [name for name in entry["pickled_type"] if name is not None]
            entry["pickled_type"] = ", ".join(dict.fromkeys(types)) or None
            sizes = [size for size in entry["pickled_bytes"] if size is not None]
            entry["pickled_bytes"] = sum(sizes) if sizes else None
    return entries
