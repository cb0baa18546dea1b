"""Mutations as rows of a table of their own: file by file, in Arrow, with what a reader asks for only.

Invariants:
    * A file's rows are verified before any of them is given.
    * Nothing is unpickled: of a payload there are the name of its type and its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.model import Segment
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.history.pickles import pickled_type_of
from changelog_engine.history.state_columns import INTEGER, LONG, TEXT, TIME, ViewColumn
from changelog_engine.ledger.reading import read_file
from changelog_engine.ledger.suffix import Suffix
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
_ROWS = 100_000  # of a batch


@dataclass(frozen=True)
class MutationFile:
    """One file of mutations of a lineage. It can be shipped.

    Args:
        table: the changelog's folder or URI.
        file: as the table lists it.
        line: the lineage.
        after: rows of checkpoints up to this one are not meant; None: all are.
        first: the sequence number of its first row, where that is known.
        times: when the checkpoints were, epoch milliseconds.
        operator, state: only rows of these; None: of all.
    """

    table: str
    file: PartFile
    line: tuple[Segment, ...]
    after: int | None
    first: int | None
    times: Mapping[int, int]
    operator: str | None = None
    state: str | None = None

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Its rows, with the columns of ``COLUMNS``.

        Args:
            schema: the types that are wanted, by the same names.

        Raises:
            CorruptChangelogError: the file is missing or isn't what it was; names it.
        """
        firsts = {} if self.first is None else {self.file.path: self.first}
        suffix = Suffix((self.file,), {}, firsts, self.after)
        rows = read_file(open_storage(self.table), self.file, suffix, self.line)
        for name, wanted in (("operator", self.operator), ("state", self.state)):
            if wanted is not None:
                rows = rows.filter(pc.equal(rows[name], wanted))
        for start in range(0, rows.num_rows, _ROWS):
            yield self._batch(rows.slice(start, _ROWS), schema)

    def _batch(self, rows: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
        checkpoints = rows["checkpoint_id"].to_pylist()
        payloads = rows["payload"].to_pylist()
        made = {
            "checkpoint_time": pa.array([self.times[number] for number in checkpoints], pa.timestamp("ms")),
            "pickled_type": pa.array([pickled_type_of(payload) for payload in payloads], pa.string()),
            "pickled_bytes": pc.binary_length(rows["payload"]),
        }
        columns = [
            _as(made[field.name] if field.name in made else rows[field.name], field.type) for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def mutation_files(
    table: str,
    suffix: Suffix,
    files: list[PartFile],
    line: tuple[Segment, ...],
    times: Mapping[int, int],
    operator: str | None = None,
    state: str | None = None,
) -> list[MutationFile]:
    """Files of a suffix, each with the little that its rows need.

    Args:
        table: the changelog's folder or URI.
        suffix: what the ledger chose.
        files: those of it that are wanted.
        line: the lineage that it was chosen for.
        times: of its checkpoints, epoch milliseconds.
        operator: only rows of it; None: of all.
        state: the same.
    """
    found = []
    for file in files:
        own = times
        if file.name is not None:
            number = file.name.checkpoint
            own = {number: times[number]}
        first = suffix.firsts.get(file.path)
        found.append(MutationFile(table, file, line, suffix.after, first, own, operator, state))
    return found


def _as(column: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # no chunks, or more than one array can hold
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column if column.type == wanted else column.cast(wanted)
