"""Columns of the changelog as tables, and as mutations that people can read."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from changelog_engine.changelog.fold import column_of
from changelog_engine.changelog.rows import SCHEMA, Columns
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import CLEARED, codec_for
from changelog_engine.graph.nodes import StateId, StateSpec
from changelog_engine.state.backend import TIMER_STATES
from changelog_engine.state.ttl import TimedType
from changelog_engine.types import TypeInformation


class Mutation(NamedTuple):
    """One change of one state, as the changelog has it.

    Args:
        state: the state's name; ``(event time timers)`` or ``(processing time timers)`` for timers.
        operation: put, remove, clear, append, replace, register_timer or delete_timer.
        value: the value; a timer's timestamp; None where the operation has none.
        map_key: in a map state, the entry's key.
        namespace: in state of windows, the window's text.
    """

    state: str
    key: Any
    operation: str
    value: Any = None
    map_key: Any = None
    namespace: str | None = None


def table_of(count: int, columns: Columns) -> pa.Table:
    """Columns, some of them constants, as a table with all columns of the changelog."""
    arrays = []
    for field in SCHEMA:
        given = columns.get(field.name)
        if isinstance(given, (pa.Array, pa.ChunkedArray)):
            arrays.append(given.cast(field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(given, field.type), count))
    nullable = pa.schema([field.with_nullable(True) for field in SCHEMA])
    return pa.table(arrays, schema=nullable)


def mutations_of(
    table: pa.Table, specs: dict[StateId, StateSpec], key_type: TypeInformation | None
) -> list[Mutation]:
    """The rows of one state as mutations; ``specs``: (operator, state) to the state as it is stored."""
    if not table.num_rows:
        return []
    operator, state = table["operator"][0].as_py(), table["state"][0].as_py()
    keys = key_codec_for(key_type)
    found_keys = [keys.key_of(identity) for identity in keys.from_texts(column_of(table, "key"))]
    spec = specs.get((operator, state))
    values: list[Any]
    map_keys: list[Any] = [None] * table.num_rows
    if spec is None:
        values = column_of(table, "value").cast(pa.int64()).to_pylist()
    else:
        decoded = codec_for(spec.value_type).decode_many(
            column_of(table, "value"), column_of(table, "payload")
        )
        values = [user_value(spec, value) for value in decoded]
        if spec.map_key_type is not None:
            codec = key_codec_for(spec.map_key_type)
            texts = column_of(table, "map_key")
            present = iter(codec.from_texts(texts.drop_null()))
            map_keys = [
                codec.key_of(next(present)) if valid else None for valid in texts.is_valid().to_pylist()
            ]
    operations, namespaces = (
        column_of(table, "operation").to_pylist(),
        column_of(table, "namespace").to_pylist(),
    )
    shown = TIMER_STATES.get(state, state)
    rows = zip(found_keys, operations, values, map_keys, namespaces, strict=True)
    return [Mutation(shown, *row) for row in rows]


def user_value(spec: StateSpec, value: Any) -> Any:
    """A stored value as the user gave it: without the time of the last access."""
    if value is CLEARED:
        return None
    return value[1] if isinstance(spec.value_type, TimedType) and value is not None else value
