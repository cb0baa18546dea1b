"""The fold in SQL: from rows of the log to the state they leave, and to the changes they make.

Invariants:
    * ``state_sql`` over the rows of a lineage is the state at its last checkpoint, as the Python fold finds it.
    * Rows apply in the order of (checkpoint_id, sequence) within (key, namespace), and within (key, namespace, map_key).
    * Every row of the log is one row of ``history_sql``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from changelog_engine.changelog.model import Segment
from changelog_engine.history.names import literal
from changelog_engine.history.pickles import pickled_type
from changelog_engine.history.sql_types import (
    SqlType,
    key_sql_type,
    sql_type,
    time_of,
    value_of,
    window_sql_type,
)
from changelog_engine.types import TypeInformation, type_from_spec

COLUMNS = (
    "checkpoint_id BIGINT, attempt INT, sequence BIGINT, operator STRING, state STRING, key_group INT, key STRING, "
    "namespace STRING, map_key STRING, operation STRING, value STRING, payload BINARY, event_time TIMESTAMP"
)
COLUMN_NAMES = [column.partition(" ")[0] for column in COLUMNS.split(", ")]
_TIMED = literal(r"(?s)^\[(-?[0-9]+),(.*)\]$")  # the time of the last access, the user's value
_PLACE = "struct(checkpoint_id, sequence)"
_KEY = "key, namespace"


@dataclass(frozen=True)
class StateColumns:
    """One state as SQL shows it.

    Args:
        operator, name: uid of the operator, name of the state.
        kind: value, list, map, reducing or aggregating.
        key, map_key, window, value: types; None where there is no such column.
        ttl: values are pairs of a time and the user's value.
    """

    operator: str
    name: str
    kind: str
    key: SqlType
    map_key: SqlType | None
    window: SqlType | None
    value: SqlType
    ttl: bool

    @staticmethod
    def of(operator: dict[str, Any], state: dict[str, Any]) -> StateColumns:
        """From what a checkpoint says of an operator and its state."""
        value_spec = state["value_type"]
        ttl = state.get("ttl") is not None
        if ttl:
            value_spec = value_spec["fields"][1]
        map_key, namespace = state.get("map_key_type"), state.get("namespace")
        return StateColumns(
            operator["uid"],
            state["name"],
            state["kind"],
            key_sql_type(_type(operator.get("key_type"))),
            key_sql_type(_type(map_key)) if state["kind"] == "map" else None,
            None if namespace is None else window_sql_type(namespace),
            sql_type(_type(value_spec)),
            ttl,
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

    def identity_names(self) -> list[str]:
        """Names of the JSON columns that tell entries apart."""
        return [
            f"{name}_json"
            for name, found in (("key", self.key), ("window", self.window), ("map_key", self.map_key))
            if found is not None
        ]

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
            return [f"{time_of(f'{entry}accessed_ms')} AS accessed", *columns] if self.ttl else columns
        entries = entry.rstrip(".")
        names = f"array_distinct(filter({entries}.pickled_type, n -> n IS NOT NULL))"
        columns = [
            f"nullif(array_join({names}, ', '), '') AS pickled_type",
            f"aggregate({entries}, CAST(NULL AS INT), (s, e) -> coalesce(s + e.pickled_bytes, s, e.pickled_bytes)) "
            "AS pickled_bytes",
        ]
        timed = f"transform({entries}, e -> {time_of('e.accessed_ms')}) AS accessed"
        return [timed, *columns] if self.ttl else columns


@dataclass(frozen=True)
class Times:
    """When checkpoints were, for SQL.

    Args:
        first: the first id.
        times_ms: one a checkpoint from there on; None for those that are not on the lineage.
    """

    first: int
    times_ms: list[int | None]

    def milliseconds(self, checkpoint: str) -> str:
        """SQL of a checkpoint's id -> SQL of its time in ms."""
        listed = literal(",".join("" if time is None else str(time) for time in self.times_ms))
        place = f"CAST({checkpoint} - {self.first - 1} AS INT)"
        # Element 0 does not exist, and asking for it is an error.
        found = f"try_cast(try_element_at(split({listed}, ','), {place}) AS BIGINT)"
        return f"CASE WHEN {checkpoint} >= {self.first} THEN {found} END"


def rows_sql(base: str | None, log: str, snapshot: int | None, lineage: tuple[Segment, ...]) -> str:
    """A query of the rows of a selection, with ``is_base`` for those of the snapshot.

    Args:
        base: a query of the snapshot's rows, with the log's columns; None for no snapshot.
        log: a query of the log's rows.
        snapshot: rows of the log up to this checkpoint are in the base.
        lineage: keep only its rows; empty when all are.
    """
    conditions = ["sequence IS NOT NULL"]
    if snapshot is not None:
        conditions.append(f"checkpoint_id > {snapshot}")
    if lineage:
        runs = [f"(attempt = {s.attempt} AND checkpoint_id BETWEEN {s.first} AND {s.last})" for s in lineage]
        conditions.append(f"({' OR '.join(runs)})")
    columns = ", ".join(COLUMN_NAMES)
    rows = f"SELECT {columns}, false AS is_base FROM ({log}) WHERE {' AND '.join(conditions)}"
    if base is None:
        return rows
    return f"SELECT {columns}, true AS is_base FROM ({base}) WHERE sequence IS NOT NULL UNION ALL {rows}"


def state_sql(columns: StateColumns, rows: str, where: str = "true", fingerprint: bool = False) -> str:
    """A query of the state that rows leave: one row a key (and window, and map key).

    Args:
        columns: the state.
        rows: what ``rows_sql`` gave.
        where: a further condition on rows.
        fingerprint: with a column that differs where values do.
    """
    source = _source(columns, rows, where)
    by_place = "ORDER BY checkpoint_id DESC, sequence DESC"
    if columns.kind == "list":
        found = (
            f"SELECT {_KEY}, {_ENTRIES} AS entries, max(checkpoint_id) AS checkpoint_id, "
            f"max_by(event_time, {_PLACE}) AS event_time, max(key_group) AS key_group "
            f"FROM (SELECT *, max(CASE WHEN operation IN ('clear', 'replace') THEN {_PLACE} END) "
            f"OVER (PARTITION BY {_KEY}) AS emptied FROM source) "
            f"WHERE operation <> 'clear' AND (emptied IS NULL OR {_PLACE} >= emptied) GROUP BY {_KEY}"
        )
        entry = "entries."
        print_of = "transform(entries, e -> e.fingerprint)"
    elif columns.kind == "map":
        found = (
            f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {_KEY}, map_key {by_place}) AS place "
            f"FROM (SELECT *, max(CASE WHEN operation = 'clear' THEN {_PLACE} END) OVER (PARTITION BY {_KEY}) AS cleared "
            f"FROM source) WHERE operation <> 'clear' AND (cleared IS NULL OR {_PLACE} > cleared)) "
            "WHERE place = 1 AND operation = 'put'"
        )
        entry, print_of = "", "fingerprint"
    else:
        found = (
            f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {_KEY} {by_place}) AS place FROM source) "
            "WHERE place = 1 AND operation = 'put'"
        )
        entry, print_of = "", "fingerprint"
    shown = [
        *columns.identity(),
        f"{columns.typed(entry)} AS value",
        f"{columns.text(entry)} AS value_json",
        *columns.more(entry),
        "checkpoint_id",
        "event_time",
        "key_group",
    ]
    if fingerprint:
        shown.append(f"{print_of} AS fingerprint")
    return f"WITH source AS ({source}), found AS ({found}) SELECT {', '.join(shown)} FROM found"


def history_sql(
    columns: StateColumns, rows: str, times: Times, where: str = "true", texts_only: bool = False
) -> str:
    """A query of the changes that rows make: one row a mutation.

    Args:
        columns: the state.
        rows: what ``rows_sql`` gave.
        times: of the lineage's checkpoints.
        where: a further condition on rows.
        texts_only: JSON text alone, with columns that are the same for every state.
    """
    found = {"list": _list_history, "map": _map_history}.get(columns.kind, _value_history)()
    shown = columns.identity(texts_only=texts_only)
    for name in ("before", "after"):
        if not texts_only:
            shown.append(f"{columns.typed(f'{name}.')} AS value_{name}")
        shown.append(f"{columns.text(f'{name}.')} AS value_{name}_json")
    more = columns.more("after.")
    if texts_only and columns.ttl:
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
        f"WITH source AS ({_source(columns, rows, where)}), found AS ({found}), timed AS ({timed}) "
        f"SELECT {', '.join(shown)} FROM timed"
    )


def difference_sql(columns: StateColumns, before: str, after: str) -> str:
    """A query of what two states do not share: one row a key (and window, and map key).

    Args:
        columns: the state.
        before: what ``state_sql`` gave for the one point, with fingerprints.
        after: the same for the other.
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


_FIELDS = ("value", "pickled_type", "pickled_bytes", "accessed_ms")
_ENTRY = f"struct({', '.join(f'{name} AS {name}' for name in _FIELDS)})"
_ENTRIES = f"sort_array(collect_list(struct(checkpoint_id, sequence, {', '.join(_FIELDS)}, fingerprint)))"
_IN_ORDER = "ORDER BY checkpoint_id, sequence"
_BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


def _type(spec: dict[str, Any] | None) -> TypeInformation | None:
    return None if spec is None else type_from_spec(spec)


def _names(columns: StateColumns) -> list[tuple[str, str]]:
    return [("operator", columns.operator), ("state", columns.name), ("kind", columns.kind)]


def _source(columns: StateColumns, rows: str, where: str) -> str:
    """The state's rows, with values out of their pairs and payloads as type and size."""
    value, accessed = "value", "CAST(NULL AS BIGINT)"
    if columns.ttl:
        value = f"coalesce(nullif(regexp_extract(value, {_TIMED}, 2), ''), value)"
        accessed = f"try_cast(regexp_extract(value, {_TIMED}, 1) AS BIGINT)"
    return (
        f"SELECT checkpoint_id, attempt, sequence, key_group, key, namespace, map_key, operation, is_base, event_time, "
        f"{value} AS value, {accessed} AS accessed_ms, {pickled_type('payload')} AS pickled_type, "
        f"length(payload) AS pickled_bytes, coalesce(md5(payload), {value}) AS fingerprint FROM ({rows}) "
        f"WHERE operator = {literal(columns.operator)} AND state = {literal(columns.name)} AND ({where})"
    )


def _value_history() -> str:
    entry = f"CASE WHEN operation = 'put' THEN {_ENTRY} END"
    over = f"OVER (PARTITION BY {_KEY} {_IN_ORDER})"
    return (
        f"SELECT *, {entry} AS after, lag({entry}) {over} AS before, lead(checkpoint_id) {over} AS valid_to_checkpoint "
        "FROM source"
    )


def _map_history() -> str:
    """A clear ends all of the key's entries; it is one row, without a map key."""
    entry = f"CASE WHEN operation = 'put' THEN {_ENTRY} END"
    own = f"OVER (PARTITION BY {_KEY}, map_key {_IN_ORDER})"
    clear = f"CASE WHEN operation = 'clear' THEN {_PLACE} END"
    newest_first = f"OVER (PARTITION BY {_KEY} ORDER BY checkpoint_id DESC, sequence DESC {_BEFORE})"
    return (
        "SELECT *, CASE WHEN operation <> 'clear' AND (last_clear IS NULL OR last_own > last_clear) THEN last_entry END "
        "AS before, CASE WHEN operation <> 'clear' THEN least(next_own, next_clear).checkpoint_id END "
        "AS valid_to_checkpoint FROM ("
        f"SELECT *, {entry} AS after, lag({entry}) {own} AS last_entry, lag({_PLACE}) {own} AS last_own, "
        f"lead({_PLACE}) {own} AS next_own, "
        f"max({clear}) OVER (PARTITION BY {_KEY} {_IN_ORDER} {_BEFORE}) AS last_clear, "
        f"min({clear}) {newest_first} AS next_clear FROM source)"
    )


def _list_history() -> str:
    """Each replace and clear begins the list anew; between them it grows."""
    entry = f"CASE WHEN operation <> 'clear' THEN {_ENTRY} END"
    over = f"OVER (PARTITION BY {_KEY} {_IN_ORDER})"
    growing = (
        f"OVER (PARTITION BY {_KEY}, generation {_IN_ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    generation = f"count_if(operation IN ('clear', 'replace')) OVER (PARTITION BY {_KEY} {_IN_ORDER})"
    return (
        f"SELECT *, lag(after) {over} AS before, lead(checkpoint_id) {over} AS valid_to_checkpoint FROM ("
        f"SELECT *, CASE WHEN operation <> 'clear' THEN collect_list({entry}) {growing} END AS after FROM ("
        f"SELECT *, {generation} AS generation FROM source))"
    )
