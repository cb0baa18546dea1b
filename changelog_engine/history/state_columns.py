"""A state as SQL shows it: its columns out of the log's texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from changelog_engine.graph.descriptions import (
    DescribedOperator,
    DescribedState,
    key_type_of,
    map_key_type_of,
)
from changelog_engine.history.names import literal
from changelog_engine.history.pickles import pickled_type, untimed_sql
from changelog_engine.history.sql_types import (
    SqlType,
    key_sql_type,
    sql_type,
    time_of,
    value_of,
    window_sql_type,
)
from changelog_engine.state.ttl import user_type

_TIME = pa.timestamp("us")
_TIMED = literal(r"(?s)^\[(-?[0-9]+),(.*)\]$")  # the time of the last access, the user's value
FIELDS = ("value", "pickled_type", "pickled_bytes", "accessed_ms")


class ViewColumn(NamedTuple):
    """A column of a view.

    Args:
        arrow: the type without Spark: of times without a zone, which is UTC.
    """

    name: str
    type: str
    arrow: pa.DataType


TEXT, LONG, INTEGER, TIME = (
    ("STRING", pa.string()),
    ("BIGINT", pa.int64()),
    ("INT", pa.int32()),
    ("TIMESTAMP", _TIME),
)


LAST_COLUMNS = (
    ViewColumn("checkpoint_id", *LONG),
    ViewColumn("event_time", *TIME),
    ViewColumn("key_group", *INTEGER),
)


def identity_columns(
    key: SqlType, window: SqlType | None, map_key: SqlType | None = None
) -> list[ViewColumn]:
    """The columns that tell entries apart, each typed and as text."""
    return [
        column
        for name, found in (("key", key), ("window", window), ("map_key", map_key))
        if found is not None
        for column in (ViewColumn(name, found.name, found.arrow), ViewColumn(f"{name}_json", *TEXT))
    ]


@dataclass(frozen=True)
class StateColumns:
    """One state as SQL shows it.

    Args:
        operator, name: uid of the operator, name of the state.
        kind: value, list, map, reducing or aggregating.
        key, map_key, window, value: types; None where there is no such column.
        ttl_ms: the time to live; values are then pairs of the time of the last access and the user's value.
    """

    operator: str
    name: str
    kind: str
    key: SqlType
    map_key: SqlType | None
    window: SqlType | None
    value: SqlType
    ttl_ms: int | None

    @staticmethod
    def of(operator: DescribedOperator, state: DescribedState) -> StateColumns:
        """From what a checkpoint says of an operator and its state."""
        namespace = state.namespace
        return StateColumns(
            operator.uid,
            state.name,
            state.kind,
            key_sql_type(key_type_of(operator)),
            key_sql_type(map_key_type_of(state)) if state.kind == "map" else None,
            None if namespace is None else window_sql_type(namespace),
            sql_type(user_type(state)),
            state.ttl_ms,
        )

    @property
    def value_name(self) -> str:
        """SQL type of the column ``value``."""
        return f"ARRAY<{self.value.name}>" if self.kind == "list" else self.value.name

    def identity(self, alias: str = "", texts_only: bool = False) -> list[str]:
        """SQL of the columns that tell entries apart."""
        columns = []
        for name, source, found in (
            ("key", "key", self.key),
            ("window", "namespace", self.window),
            ("map_key", "map_key", self.map_key),
        ):
            if texts_only:
                columns.append(f"{alias}{source} AS {name}_json")
            elif found is not None:
                columns += [f"{value_of(found, alias + source)} AS {name}", f"{alias}{source} AS {name}_json"]
        return columns

    def shown(self) -> list[ViewColumn]:
        """The columns of the state's view, in their order."""
        return [*identity_columns(self.key, self.window, self.map_key), *self.value_columns(), *LAST_COLUMNS]

    def value_columns(self, of_row: bool = False) -> list[ViewColumn]:
        """The value, its text, and those of ``more``.

        Args:
            of_row: of one row of the log, which of a list state has one element.
        """
        is_list = self.kind == "list" and not of_row
        value = pa.list_(self.value.arrow) if is_list else self.value.arrow
        found = [
            ViewColumn("value", self.value_name if is_list else self.value.name, value),
            ViewColumn("value_json", *TEXT),
        ]
        if self.ttl_ms is not None:
            timed = ("ARRAY<TIMESTAMP>", pa.list_(_TIME)) if is_list else TIME
            found.append(ViewColumn("accessed", *timed))
        return [*found, ViewColumn("pickled_type", *TEXT), ViewColumn("pickled_bytes", *INTEGER)]

    def identity_names(self) -> list[str]:
        """Names of the JSON columns that tell entries apart."""
        return [column.name for column in identity_columns(self.key, self.window, self.map_key)[1::2]]

    def typed(self, entry: str) -> str:
        """SQL of the value, of an entry with ``value`` and ``pickled_type`` that is a row, a struct or a list of structs."""
        if self.kind != "list":
            return f"CASE WHEN {entry}pickled_type IS NULL THEN {value_of(self.value, f'{entry}value')} END"
        made = value_of(self.value, "e.value")
        return f"transform({entry.rstrip('.')}, e -> CASE WHEN e.pickled_type IS NULL THEN {made} END)"

    def text(self, entry: str) -> str:
        """SQL of the value's JSON text, of the same entries."""
        if self.kind != "list":
            return f"{entry}value"
        entries = entry.rstrip(".")
        joined = f"array_join(transform({entries}, e -> e.value), ',')"
        return f"CASE WHEN {entries} IS NOT NULL THEN concat('[', {joined}, ']') END"

    def more(self, entry: str) -> list[str]:
        """SQL of the columns about the value, of the same entries."""
        if self.kind != "list":
            columns = [f"{entry}pickled_type AS pickled_type", f"{entry}pickled_bytes AS pickled_bytes"]
            return (
                [f"{time_of(f'{entry}accessed_ms')} AS accessed", *columns]
                if self.ttl_ms is not None
                else columns
            )
        entries = entry.rstrip(".")
        names = f"array_distinct(filter({entries}.pickled_type, n -> n IS NOT NULL))"
        columns = [
            f"nullif(array_join({names}, ', '), '') AS pickled_type",
            f"aggregate({entries}, CAST(NULL AS INT), (s, e) -> coalesce(s + e.pickled_bytes, s, e.pickled_bytes)) "
            "AS pickled_bytes",
        ]
        timed = f"transform({entries}, e -> {time_of('e.accessed_ms')}) AS accessed"
        return [timed, *columns] if self.ttl_ms is not None else columns

    def source(self, rows: str) -> str:
        """A query of rows of the state with values out of their pairs, and payloads as type and size."""
        value, accessed, payload = "value", "CAST(NULL AS BIGINT)", "payload"
        if self.ttl_ms is not None:
            payload = untimed_sql("payload")
            value = f"coalesce(nullif(regexp_extract(value, {_TIMED}, 2), ''), value)"
            accessed = f"try_cast(regexp_extract(value, {_TIMED}, 1) AS BIGINT)"
        return (
            f"SELECT checkpoint_id, attempt, sequence, key_group, key, namespace, map_key, operation, is_base, event_time, "
            f"{value} AS value, {accessed} AS accessed_ms, {pickled_type('payload')} AS pickled_type, "
            f"length(payload) AS pickled_bytes, coalesce(md5({payload}), {value}) AS fingerprint FROM ({rows})"
        )
