"""A state, or an operator's timers, as SQL shows them: columns out of the log's texts.

A timer is a key (and window), a domain and a time; its last row in the log says whether it is there.
"""

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
from changelog_engine.history.dialect import SPARK, SqlDialect
from changelog_engine.history.names import TIMERS, literal
from changelog_engine.history.pickles import pickled_type, untimed_sql
from changelog_engine.history.sql_types import SqlType, key_sql_type, sql_type, window_sql_type
from changelog_engine.state.backend import TIMER_DOMAINS
from changelog_engine.state.ttl import user_type
from changelog_engine.types import Types

_TIME = pa.timestamp("us")
TIMED = r"(?s)^\[(-?[0-9]+),(.*)\]$"  # of a state with a time to live: the time of the last access, the user's value
TIMER = "timer"  # the kind of an operator's timers
_CASES = " ".join([f"WHEN '{state}' THEN '{domain}'" for state, domain in TIMER_DOMAINS.items()])
_DOMAIN = f"CASE state {_CASES} END"
_TIME_MS = "try_cast(value AS BIGINT)"


class ViewColumn(NamedTuple):
    """A column of a view."""

    name: str
    type: str
    arrow: pa.DataType  # the type without Spark: of times without a zone, which is UTC


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
    """One state, or the timers of an operator, as SQL shows them.

    Args:
        operator, name: uid of the operator, name of the state; ``timers`` of timers.
        kind: value, list, map, reducing or aggregating; ``timer`` of timers.
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
    def of(operator: DescribedOperator, state: DescribedState | None) -> StateColumns:
        """From what a checkpoint says of an operator and its state; None for timers, which have its states' namespaces."""
        key = key_sql_type(key_type_of(operator))
        spaced = [
            each.namespace for each in (operator.states if state is None else (state,)) if each.namespace
        ]
        window = window_sql_type(spaced[0]) if spaced else None
        if state is None:
            return StateColumns(operator.uid, TIMERS, TIMER, key, None, window, sql_type(Types.LONG()), None)
        map_key = key_sql_type(map_key_type_of(state)) if state.kind == "map" else None
        value = sql_type(user_type(state))
        return StateColumns(operator.uid, state.name, state.kind, key, map_key, window, value, state.ttl_ms)

    @property
    def states(self) -> tuple[str, ...]:
        """The names that the log's rows of it have."""
        return tuple(TIMER_DOMAINS) if self.kind == TIMER else (self.name,)

    @property
    def value_name(self) -> str:
        """SQL type of the column ``value``."""
        return f"ARRAY<{self.value.name}>" if self.kind == "list" else self.value.name

    def identity(self, dialect: SqlDialect = SPARK, texts_only: bool = False) -> list[str]:
        """SQL of the columns that tell entries apart."""
        columns = []
        for name, source, found in (
            ("key", "key", self.key),
            ("window", "namespace", self.window),
            ("map_key", "map_key", self.map_key),
        ):
            if texts_only:
                columns.append(f"{source} AS {name}_json")
            elif found is not None:
                columns += [f"{dialect.value(found, source)} AS {name}", f"{source} AS {name}_json"]
        return columns

    def shown(self) -> list[ViewColumn]:
        """The columns of the state's view, in their order."""
        return [*identity_columns(self.key, self.window, self.map_key), *self.value_columns(), *LAST_COLUMNS]

    def value_columns(self, of_row: bool = False) -> list[ViewColumn]:
        """The value, its text, and those of ``more``; of a timer what it is set to.

        Args:
            of_row: of one row of the log, which of a list state has one element.
        """
        if self.kind == TIMER:
            return [ViewColumn("domain", *TEXT), ViewColumn("time", *TIME), ViewColumn("time_ms", *LONG)]
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

    def typed(self, entry: str, dialect: SqlDialect = SPARK) -> str:
        """SQL of the value, of an entry with ``value`` and ``pickled_type`` that is a row, a struct or a list of structs."""
        if self.kind == "list":
            return dialect.values(self.value, entry.rstrip("."))
        return f"CASE WHEN {entry}pickled_type IS NULL THEN {dialect.value(self.value, f'{entry}value')} END"

    def text(self, entry: str, dialect: SqlDialect = SPARK) -> str:
        """SQL of the value's JSON text, of the same entries."""
        if self.kind != "list":
            return f"{entry}value"
        return f"'[' || {dialect.joined(dialect.each(entry.rstrip('.'), 'e.value'), ',')} || ']'"

    def more(self, entry: str, dialect: SqlDialect = SPARK, timed: bool = True) -> list[str]:
        """SQL of the columns about the value, of the same entries.

        Args:
            timed: with the last access, where the state has a time to live.
        """
        if self.kind == "list":
            entries = entry.rstrip(".")
            types = f"nullif({dialect.joined(dialect.types(entries), ', ')}, '')"
            size, accessed = dialect.size(entries), dialect.each(entries, dialect.time("e.accessed_ms"))
        else:
            types, size = f"{entry}pickled_type", f"{entry}pickled_bytes"
            accessed = dialect.time(f"{entry}accessed_ms")
        columns = [f"{types} AS pickled_type", f"{size} AS pickled_bytes"]
        return [f"{accessed} AS accessed", *columns] if timed and self.ttl_ms is not None else columns

    def timer(self, dialect: SqlDialect = SPARK) -> list[str]:
        """SQL of what a row's timer is set to."""
        return [f"{_DOMAIN} AS domain", f"{dialect.time(_TIME_MS)} AS time", f"{_TIME_MS} AS time_ms"]

    def own(self, rows: str, where: str = "true") -> str:
        """A query of those rows that are of the state and meet a further condition."""
        states = ", ".join([literal(name) for name in self.states])
        return f"SELECT * FROM ({rows}) WHERE operator = {literal(self.operator)} AND state IN ({states}) AND ({where})"

    def source(self, rows: str) -> str:
        """A query of rows of the state with values out of their pairs, and payloads as type and size."""
        if self.kind == TIMER:
            return rows
        value, accessed, payload = "value", "CAST(NULL AS BIGINT)", "payload"
        if self.ttl_ms is not None:
            payload = untimed_sql("payload")
            value = f"coalesce(nullif(regexp_extract(value, {literal(TIMED)}, 2), ''), value)"
            accessed = f"try_cast(regexp_extract(value, {literal(TIMED)}, 1) AS BIGINT)"
        return (
            f"SELECT checkpoint_id, attempt, sequence, key_group, key, namespace, map_key, operation, is_base, event_time, "
            f"{value} AS value, {accessed} AS accessed_ms, {pickled_type('payload')} AS pickled_type, "
            f"length(payload) AS pickled_bytes, coalesce(md5({payload}), {value}) AS fingerprint FROM ({rows})"
        )
