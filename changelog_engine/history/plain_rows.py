"""Rows of the typed views without SQL: plain Python values out of the log's texts, for Arrow.

Invariants:
    * Names and values are those of Spark's views; which columns a state has is said by ``StateColumns.shown``.
    * Nothing is unpickled: a pickled value is null; its type, its size and its readable text stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.history.pickles import pickled_type_of
from changelog_engine.history.sql_types import NEWEST_MS, OLDEST_MS, SqlType, parsed, time_of_ms
from changelog_engine.history.state_columns import TIMER, StateColumns
from changelog_engine.state.backend import TIMER_DOMAINS

Values = dict[str, list[Any]]  # column -> its values


def view_values(live: Sequence[pa.Table], columns: StateColumns, time_ms: int) -> Values:
    """The rows of the view of a state, or of an operator's timers.

    Args:
        live: its live rows, as ``bulk_fold.fold_state`` gives them.
        time_ms: when that was; entries whose time to live had ended then are left out.
    """
    rows = [row for table in live for row in dated(table).to_pylist()]
    if columns.kind == TIMER:
        entries = [{**row, "event_time": naive(row["event_time"])} for row in rows]
        found = timer_values(entries, columns)
    else:
        entries = _entries(rows, columns, time_ms)
        found = identity_values(columns, entries)
    names = [column.name for column in columns.shown() if column.name not in found]
    return found | {name: [entry[name] for entry in entries] for name in names}


def timer_values(rows: list[dict[str, Any]], columns: StateColumns) -> Values:
    """What says which timers rows of the log are about."""
    found = identity_values(columns, rows)
    found["domain"] = [TIMER_DOMAINS[row["state"]] for row in rows]
    found["time_ms"] = [int(row["value"]) for row in rows]
    found["time"] = [time_of_ms(each) for each in found["time_ms"]]
    return found


def identity_values(columns: StateColumns, rows: list[dict[str, Any]]) -> Values:
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


class RowValue(NamedTuple):
    """The value of a row of the log, and what is said about it; named as the columns of views are.

    Args:
        accessed_ms: of a state with a time to live, the time of the last access.
        pickled_type, pickled_bytes: of a pickled value, which is None itself: the name of its type and its size.
    """

    value: Any
    value_json: str | None
    accessed_ms: int | None
    pickled_type: str | None
    pickled_bytes: int | None

    @property
    def accessed(self) -> datetime | None:
        """The time of the last access."""
        return time_of_ms(self.accessed_ms)


_TypedRow = tuple[dict[str, Any], RowValue]  # a row of the log, and its value


def value_of_row(row: dict[str, Any], columns: StateColumns) -> RowValue:
    """The value of a row of the log."""
    accessed, text, value, payload = None, row["value"], loaded(row["value"]), row["payload"]
    timed = columns.ttl_ms is not None and isinstance(value, list) and len(value) == 2
    if timed and isinstance(value[0], int):
        accessed, value = value
        text = text.partition(",")[2][:-1]
    if payload is not None:
        return RowValue(None, text, accessed, pickled_type_of(payload), len(payload))
    return RowValue(columns.value.of_json(value), text, accessed, None, None)


def value_columns(values: Sequence[RowValue]) -> Values:
    """The columns of rows' values."""
    return {
        "value": [each.value for each in values],
        "value_json": [each.value_json for each in values],
        "accessed": [each.accessed for each in values],
        "pickled_type": [each.pickled_type for each in values],
        "pickled_bytes": [each.pickled_bytes for each in values],
    }


def _entries(rows: list[dict[str, Any]], columns: StateColumns, time_ms: int) -> list[dict[str, Any]]:
    """The entries of a state: one a row, or of a list state one a key; without those that had expired."""
    since = None if columns.ttl_ms is None else time_ms - columns.ttl_ms
    entries: dict[Any, list[_TypedRow]] = {}
    for number, row in enumerate(rows):
        own = value_of_row(row, columns)
        if since is not None and own.accessed_ms is not None and own.accessed_ms <= since:
            continue
        place = (row["key"], row["namespace"]) if columns.kind == "list" else number
        entries.setdefault(place, []).append((row, own))
    made = _list_entry if columns.kind == "list" else _entry
    return [made(rows) for rows in entries.values()]


def _entry(rows: list[_TypedRow]) -> dict[str, Any]:
    row, own = rows[0]
    return {**row, **own._asdict(), "accessed": own.accessed, "event_time": naive(row["event_time"])}


def _list_entry(rows: list[_TypedRow]) -> dict[str, Any]:
    (first, _), (last, _) = rows[0], rows[-1]
    found = value_columns([own for _, own in rows])
    types = [name for name in found["pickled_type"] if name is not None]
    sizes = [size for size in found["pickled_bytes"] if size is not None]
    return {
        **first,
        **found,
        "value_json": f"[{','.join(found['value_json'])}]",
        "pickled_type": ", ".join(dict.fromkeys(types)) or None,
        "pickled_bytes": sum(sizes) if sizes else None,
        "checkpoint_id": max(row["checkpoint_id"] for row, _ in rows),
        "event_time": naive(last["event_time"]),
    }
