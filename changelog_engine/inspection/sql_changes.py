"""The views of changes for SQL without Spark: ``mutations`` and ``..._history``, in DuckDB.

Rows go file by file into a table of a database in a temporary folder, and DuckDB keeps to its memory limit, so that a long
log takes space on the disk and not in memory. Names, columns and values are those of the Spark views, see
``history.changes_sql``.

Invariants:
    * A file's rows are verified before any of them is shown; nothing is unpickled.
    * Every row of the log is one row of a history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.history.changes_sql import changes_sql
from changelog_engine.history.dialect import SqlDialect
from changelog_engine.history.pickles import pickled_type_of
from changelog_engine.history.plain_rows import dated, loaded
from changelog_engine.history.sql_types import NEWEST_MS, OLDEST_MS, SqlType
from changelog_engine.history.state_columns import TIMED, StateColumns
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.reading import on_segments, read_file

_PLACE_BITS = 64  # of a sequence number, in the place of a row among those of its key
_ENTRY = "{'value': value, 'pickled_type': pickled_type, 'pickled_bytes': pickled_bytes, 'accessed_ms': accessed_ms}"
_PLACE = f"(checkpoint_id::HUGEINT * {1 << _PLACE_BITS}::HUGEINT + sequence)"
_SHOWN = [
    "checkpoint_id", "attempt", "sequence", "operator", "state", "key_group", "key", "namespace", "map_key", "operation",
    "value", "pickled_type", "pickled_bytes", "event_time",
]  # fmt: skip


class Changes:
    """Makes the views of changes in a database.

    Args:
        checkpoint: which checkpoint the views show: history ends there.
        prefix: of the names of what the views are made of.
    """

    def __init__(self, connection: Any, ledger: Ledger, checkpoint: Checkpoint, prefix: str) -> None:
        self._connection = connection
        self._ledger = ledger
        self._checkpoint = checkpoint
        self._prefix = prefix
        self._made = 0

    def mutations(self, view: str) -> None:
        """All mutations of all branches."""
        line = self._checkpoint.lineage

        def rows() -> Iterator[pa.Table]:
            for file in self._ledger.files:
                table = read_part(self._ledger.storage, file)
                table = table.filter(pc.is_valid(table["sequence"]))
                yield _described(table).select(_SHOWN).append_column("on_lineage", on_segments(table, line))

        table = self._loaded(rows())
        self._connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {table}")

    def history(self, view: str, columns: StateColumns) -> None:
        """The changes of a state, or of an operator's timers, on the checkpoint's lineage."""
        table = self._loaded(self._rows(columns.operator, columns.states))
        value, accessed = "value", "CAST(NULL AS BIGINT)"
        if columns.ttl_ms is not None:
            value = f"CASE WHEN regexp_matches(value, '{TIMED}') THEN regexp_extract(value, '{TIMED}', 2) ELSE value END"
            accessed = f"TRY_CAST(regexp_extract(value, '{TIMED}', 1) AS BIGINT)"
        source = (
            f"SELECT * REPLACE ({value} AS value), {accessed} AS accessed_ms, {_PLACE} AS place FROM {table}"
        )
        index = self._ledger.lineage.checkpoints.index()
        times = self._loaded([pa.table({"id": index.ids, "ms": index.times})])
        timed = (
            f"SELECT found.*, valid_from.ms AS from_ms, valid_to.ms AS to_ms FROM found "
            f"LEFT JOIN {times} AS valid_from ON valid_from.id = found.checkpoint_id "
            f"LEFT JOIN {times} AS valid_to ON valid_to.id = found.valid_to_checkpoint"
        )
        query = changes_sql(columns, source, timed, _DuckDB(self._function))
        self._connection.execute(f"CREATE VIEW {view} AS {query}")

    def _rows(self, operator: str, states: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of an operator's states up to the checkpoint; after truncation those of a snapshot come first."""
        ledger, uids = self._ledger, frozenset([operator])
        base = ledger.oldest(self._checkpoint)
        wanted = pa.array(states, pa.string())

        def own(table: pa.Table, is_base: bool) -> pa.Table:
            mask = pc.and_(
                pc.equal(table["operator"], operator), pc.is_in(table["state"].cast(pa.string()), wanted)
            )
            table = _described(table.filter(mask)).select([*_SHOWN])
            return table.append_column("is_base", pa.array([is_base] * table.num_rows, pa.bool_()))

        for file in ledger.snapshot_files(base, ALL_KEY_GROUPS, uids):
            yield own(read_part(ledger.snapshots.storage, file), True)
        for file in ledger.log_files(base.suffix, ALL_KEY_GROUPS, uids):
            yield own(read_file(ledger.storage, file, base.suffix, self._checkpoint.lineage), False)

    def _loaded(self, tables: Iterable[pa.Table]) -> str:
        """Put rows into a table of the database, one file after the other."""
        name = self._name("rows")
        first = True
        for table in tables:
            self._put(f"CREATE TABLE {name} AS" if first else f"INSERT INTO {name}", table)
            first = False
        if first:
            extra = [("is_base", pa.bool_()), ("on_lineage", pa.bool_())]
            self._put(f"CREATE TABLE {name} AS", pa.schema([*_schema(), *extra]).empty_table())
        return name

    def _put(self, where: str, rows: pa.Table) -> None:
        self._connection.register("__file", rows)
        self._connection.execute(f"{where} SELECT * FROM __file")
        self._connection.unregister("__file")

    def _function(self, kind: SqlType, of_list: bool) -> str:
        """Make a function of JSON text to a value of a type; its name."""
        arrow = pa.list_(kind.arrow) if of_list else kind.arrow
        empty = pa.table({"v": pa.array([], arrow)})
        wanted = self._connection.from_arrow(empty).types[0]

        def value(text: str | None) -> Any:
            return None if text is None else kind.of_json(loaded(text))

        def typed(texts: Any) -> Any:
            found: list[Any] = texts.to_pylist()
            if of_list:
                return pa.array(
                    [None if each is None else [value(text) for text in each] for each in found], arrow
                )
            return pa.array([value(text) for text in found], arrow)

        name = self._name("typed")
        given = "VARCHAR[]" if of_list else "VARCHAR"
        # A value that has no place in the type is null: by default DuckDB refuses a function that gives any.
        self._connection.create_function(name, typed, [given], wanted, type="arrow", null_handling="special")
        return name

    def _name(self, what: str) -> str:
        self._made += 1
        return f"__{self._prefix}{what}_{self._made}"


def _schema() -> list[tuple[str, pa.DataType]]:
    texts = dict.fromkeys(_SHOWN, pa.string())
    numbers = dict.fromkeys(("checkpoint_id", "sequence"), pa.int64())
    numbers |= dict.fromkeys(("attempt", "key_group", "pickled_bytes"), pa.int32())
    return list({**texts, **numbers, "event_time": pa.timestamp("us")}.items())


def _described(rows: pa.Table) -> pa.Table:
    """Rows with the type and size of their payloads, and with times without a zone."""
    rows = dated(rows)
    payloads = rows["payload"]
    types: Any = pa.nulls(rows.num_rows, pa.string())
    if payloads.null_count < rows.num_rows:
        types = pa.array([pickled_type_of(payload) for payload in payloads.to_pylist()], pa.string())
    rows = rows.append_column("pickled_type", types)
    rows = rows.append_column("pickled_bytes", pc.binary_length(payloads).cast(pa.int32()))
    for name, wanted in _schema():
        place = rows.schema.get_field_index(name)
        if rows.field(place).type != wanted:
            rows = rows.set_column(place, name, rows[name].cast(wanted))
    return rows


class _DuckDB(SqlDialect):
    """DuckDB's SQL.

    Args:
        function: makes a function of JSON texts, or of lists of such, to values of a type; its name.
    """

    entry = _ENTRY
    place = "place"
    collected = f"list({_ENTRY}) FILTER (WHERE operation <> 'clear')"

    def __init__(self, function: Callable[[SqlType, bool], str]) -> None:
        self._function = function

    def checkpoint_of(self, place: str) -> str:
        return f"CAST({place} // {1 << _PLACE_BITS}::HUGEINT AS BIGINT)"

    def time(self, milliseconds: str) -> str:
        there = f"{milliseconds} BETWEEN {OLDEST_MS} AND {NEWEST_MS}"
        return f"CASE WHEN {there} THEN make_timestamp({milliseconds} * 1000) END"

    def value(self, kind: SqlType, json_text: str) -> str:
        return f"{self._function(kind, False)}({json_text})"

    def values(self, kind: SqlType, entries: str) -> str:
        texts = self.each(entries, "CASE WHEN e.pickled_type IS NULL THEN e.value END")
        return f"{self._function(kind, True)}({texts})"

    def each(self, entries: str, found: str) -> str:
        return f"list_transform({entries}, lambda e: {found})"

    def joined(self, texts: str, between: str) -> str:
        return f"array_to_string({texts}, '{between}')"

    def types(self, entries: str) -> str:
        return f"list_distinct(list_filter({self.each(entries, 'e.pickled_type')}, lambda n: n IS NOT NULL))"

    def size(self, entries: str) -> str:
        return f"CAST(list_sum({self.each(entries, 'e.pickled_bytes')}) AS INTEGER)"
