"""Mutations as rows of a table of their own, in Arrow: file by file, or key by key with the values before them.

Of one state, or the timers of one operator, keys and values are typed as in its view; else they are the log's JSON texts.

Invariants:
    * A file's rows are verified before any of them is given.
    * Nothing is unpickled: of a payload there are the name of its type and its size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.fold import group_by_state
from changelog_engine.changelog.model import RestorePoint, Segment
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.codec.arrow_columns import as_array, of_type
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState
from changelog_engine.history.held_entries import HeldEntries, held_entries
from changelog_engine.history.pickles import pickled_type_of
from changelog_engine.history.plain_rows import (
    RowValue,
    identity_values,
    timer_values,
    value_columns,
    value_of_row,
)
from changelog_engine.history.state_columns import (
    INTEGER,
    LONG,
    TEXT,
    TIME,
    TIMER,
    StateColumns,
    ViewColumn,
    identity_columns,
)
from changelog_engine.ledger.job_path import open_changelog, refuse_another
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.reading import read_file, read_parts, read_suffix
from changelog_engine.ledger.suffix import Suffix
from changelog_engine.state import mutation_log
from changelog_engine.storage.opening import open_storage

COLUMNS = (
    ViewColumn("checkpoint_id", *LONG),
    ViewColumn("checkpoint_time", *TIME),
    ViewColumn("attempt", *INTEGER),
    ViewColumn("sequence", *LONG),
    ViewColumn("operator", *TEXT),
    ViewColumn("state", *TEXT),
    ViewColumn("key_group", *INTEGER),
    ViewColumn("key", *TEXT),
    ViewColumn("namespace", *TEXT),
    ViewColumn("map_key", *TEXT),
    ViewColumn("operation", *TEXT),
    ViewColumn("value", *TEXT),
    ViewColumn("pickled_type", *TEXT),
    ViewColumn("pickled_bytes", *INTEGER),
    ViewColumn("event_time", *TIME),
)
_BEFORE = ("value_before", "value_before_json")
_ROWS = 100_000  # of a batch
_TYPED_ROWS = 20_000


@dataclass(frozen=True)
class WantedMutations:
    """Which mutations are asked for. It can be shipped.

    Args:
        operator, state: only rows of these; None: of all. The state ``timers`` are the operator's timers, unless it has a
            state of this name.
        described: what a checkpoint says of the operator and the state; None where rows are not typed.
        before: with the value before each mutation.
    """

    operator: str | None = None
    state: str | None = None
    described: tuple[DescribedOperator, DescribedState | None] | None = None
    before: bool = False

    @property
    def typed(self) -> StateColumns | None:
        """The state's columns, where they are typed."""
        return None if self.described is None else StateColumns.of(*self.described)

    def columns(self) -> list[ViewColumn]:
        """Of the table of mutations."""
        found = self.typed
        if found is None:
            return list(COLUMNS)
        first, operation, last = COLUMNS[:7], COLUMNS[10], COLUMNS[-1]
        shown = [*first, *identity_columns(found.key, found.window, found.map_key)]
        if found.kind == TIMER:
            return [*shown, *found.value_columns(), operation, last]
        shown += [operation, *found.value_columns(of_row=True)]
        if self.before:
            whole = next(column for column in found.value_columns() if column.name == "value")
            shown += [whole._replace(name=_BEFORE[0]), ViewColumn(_BEFORE[1], *TEXT)]
        return [*shown, last]

    def own(self, rows: pa.Table) -> pa.Table:
        """Those of a file's rows that are asked for."""
        if self.operator is not None:
            rows = rows.filter(pc.equal(rows["operator"], self.operator))
        found = self.typed
        names = found.states if found is not None else None if self.state is None else (self.state,)
        if names is not None:
            rows = rows.filter(pc.is_in(rows["state"].cast(pa.string()), pa.array(names, pa.string())))
        return rows


@dataclass(frozen=True)
class MutationPiece(ABC):
    """Some mutations of a lineage. It can be shipped."""

    table: str  # the changelog: of a file its folder, of a range its id
    line: tuple[Segment, ...]
    after: int | None  # rows of checkpoints up to this one are not meant; None: all are
    times: Mapping[int, int]  # when the checkpoints were, epoch milliseconds
    wanted: WantedMutations

    @abstractmethod
    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Its rows, with the columns of ``WantedMutations.columns``.

        Args:
            schema: the types that are wanted, by the same names.

        Raises:
            CorruptChangelogError: a file is missing or isn't what it was; names it.
        """


@dataclass(frozen=True)
class MutationFile(MutationPiece):
    """One file."""

    file: PartFile
    first: int | None  # the sequence number of its first row, where that is known

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        firsts = {} if self.first is None else {self.file.id: self.first}
        suffix = Suffix((self.file,), {}, firsts, self.after)
        rows = self.wanted.own(read_file(open_storage(self.table), self.file, suffix, self.line))
        yield from _batches(rows, schema, self.times, self.wanted.typed)


@dataclass(frozen=True)
class MutationRange(MutationPiece):
    """A range of key groups of one state, each mutation with the value before it."""

    path: str
    groups: tuple[int, int]  # first key group, and the one after the last

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """As ``MutationPiece.batches``.

        Raises:
            RestoreError, NotLoggedError: the state at ``after`` or the mutations are not there any more; names what is gone.
            ForeignPathError: the folder was made anew.
        """
        log = open_changelog(self.path)
        remedy = "Make the table or stream anew, too"
        refuse_another(self.path, log.table_id(), self.table, "the table or stream was made of", remedy)
        ledger = Ledger(log)
        columns = self.wanted.typed
        assert columns is not None
        groups, uids = range(*self.groups), frozenset([columns.operator])
        point = RestorePoint(ledger.storage.root, self.line[-1].last, self.line, None)
        found = [self.wanted.own(table) for table in read_suffix(point, self.after, groups, uids)]
        rows = pa.concat_tables(found, promote_options="permissive") if found else SCHEMA.empty_table()
        values = _ValuesBefore(columns)
        if self.after is not None and rows.num_rows:
            parts = read_parts(
                ledger.restore_point(ledger.lineage.checkpoint(self.after)), groups, uids, ledger
            )
            there = group_by_state(parts).get((columns.operator, columns.name))
            if there is not None:
                live, keys = fold_state(there), pc.unique(rows["key"].cast(pa.string()))
                values.begin(live.filter(pc.is_in(live["key"].cast(pa.string()), value_set=keys)))
        yield from _batches(rows, schema, self.times, columns, values)


class _ValuesBefore:
    """Remembers what keys have, row by row in the order of the log."""

    def __init__(self, columns: StateColumns) -> None:
        self._columns = columns
        self._held: dict[str, HeldEntries] = {}  # by key; their values are pairs of a value and its text

    def begin(self, live: pa.Table) -> None:
        """Start with the live rows of a state."""
        for start in range(0, live.num_rows, _TYPED_ROWS):
            for row in live.slice(start, _TYPED_ROWS).to_pylist():
                self.before(row, value_of_row(row, self._columns))

    def before(self, row: dict[str, Any], own: RowValue) -> tuple[Any, str | None]:
        """The value that a mutation's entry had before it, and its text."""
        kind, operation = self._columns.kind, row["operation"]
        held = self._held.setdefault(row["key"], held_entries(kind))
        entry = own.value, own.value_json
        found, _ = held.apply(operation, row["namespace"], row["map_key"], entry)
        if found is None or (kind == "map" and operation == mutation_log.CLEAR):
            return None, None
        if kind == "list":
            return [value for value, _ in found], f"[{','.join([str(text) for _, text in found])}]"
        value, text = found
        return value, text


def _batches(
    rows: pa.Table,
    schema: pa.Schema,
    times: Mapping[int, int],
    typed: StateColumns | None,
    values: _ValuesBefore | None = None,
) -> Iterator[pa.RecordBatch]:
    size = _ROWS if typed is None else _TYPED_ROWS
    for start in range(0, rows.num_rows, size):
        piece = rows.slice(start, size)
        made = _untyped(piece, times) if typed is None else _typed(piece, times, typed, values)
        columns = [
            _as(made[field.name] if field.name in made else piece[field.name], field.type) for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _untyped(rows: pa.Table, times: Mapping[int, int]) -> dict[str, Any]:
    payloads = rows["payload"].to_pylist()
    return {
        "checkpoint_time": _times(rows, times),
        "pickled_type": pa.array([pickled_type_of(payload) for payload in payloads], pa.string()),
        "pickled_bytes": pc.binary_length(rows["payload"]),
    }


def _typed(
    rows: pa.Table, times: Mapping[int, int], columns: StateColumns, values: _ValuesBefore | None
) -> dict[str, Any]:
    given = rows.drop_columns(["event_time"]).to_pylist()
    if columns.kind == TIMER:
        found = timer_values(given, columns)
    else:
        own = [value_of_row(row, columns) for row in given]
        found = identity_values(columns, given) | value_columns(own)
        if values is not None:
            before = [values.before(row, each) for row, each in zip(given, own, strict=True)]
            found |= {
                name: list(column) for name, column in zip(_BEFORE, zip(*before, strict=True), strict=True)
            }
    return {**found, "checkpoint_time": _times(rows, times)}


def _times(rows: pa.Table, times: Mapping[int, int]) -> pa.Array:
    return pa.array([times[number] for number in rows["checkpoint_id"].to_pylist()], pa.timestamp("ms"))


def mutation_files(
    table: str,
    suffix: Suffix,
    files: Sequence[PartFile],
    line: tuple[Segment, ...],
    times: Mapping[int, int],
    wanted: WantedMutations,
) -> list[MutationFile]:
    """Files of a suffix, each with the little that its rows need.

    Args:
        line: the lineage that it was chosen for.
        times: of its checkpoints, epoch milliseconds.
    """
    found = []
    for file in files:
        own = times
        if file.name is not None:
            number = file.name.checkpoint
            own = {number: times[number]}
        found.append(MutationFile(table, line, suffix.after, own, wanted, file, suffix.firsts.get(file.id)))
    return found


def _as(column: pa.Array | pa.ChunkedArray | list[Any], wanted: pa.DataType) -> pa.Array:
    if isinstance(column, list):
        return pa.array(column, wanted)
    return of_type(as_array(column), wanted)
