"""One file of mutations back into rows, verified.

Invariants:
    * A part's rows are used only after its checksum, row count and sequence numbers were found right.
    * A corrupt or missing part is an error that names it; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.changelog.log_files import checksum_of, crc32, read_unchanged
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.part_stats import empty_columns, single_values
from changelog_engine.changelog.row_filter import RowFilter
from changelog_engine.changelog.rows import SCHEMA, Columns
from changelog_engine.codec.arrow_columns import of_type
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.storage.damaged import reading
from changelog_engine.storage.protocol import Storage

_REPEATED = ("operator", "state", "operation")
_CHECKED: dict[str, tuple[int, int]] = {}  # files whose checksums were looked at, as they were then
_MOST_CHECKED = 100_000


class _RowGroup(NamedTuple):
    """A row group that may have rows that are wanted."""

    number: int
    first: int  # the number of its first row in the file
    rows: int


def read_part(
    storage: Storage,
    file: PartFile,
    dictionaries: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    first_sequence: int | None = None,
) -> pa.Table:
    """Read one file of mutations and verify it.

    Args:
        dictionaries: columns that come as dictionaries, besides ``operator``, ``state`` and ``operation``. Each chunk
            has a dictionary of its own.
        columns: which columns, in the order of the changelog's; None for all.
        first_sequence: the sequence number that its first row must have; None: what the file itself says.

    Raises:
        CorruptChangelogError: it is missing, or its checksum, row count or sequence numbers are wrong; names file and fault.
    """
    full = storage.join(file.path)
    data = _bytes_of(storage, file)
    names = SCHEMA.names if columns is None else columns
    schema = _read_schema([*_REPEATED, *dictionaries])
    with reading(full):
        parquet = pq.ParquetFile(
            pa.BufferReader(data), read_dictionary=[*_REPEATED, *dictionaries], pre_buffer=False
        )
        count = parquet.metadata.num_rows
        if file.rows is not None and count != file.rows:
            raise CorruptChangelogError(f"has {count} rows, the table says {file.rows}", full)
        metadata = parquet.metadata.metadata or {}
        known = {} if file.name is None else _known(metadata, names, schema, count)
        wanted = [
            name for name in SCHEMA.names if (name in names or name == "sequence") and name not in known
        ]
        read = parquet.read(columns=wanted, use_threads=False)
        if file.name is not None:
            first = int(metadata.get(b"changelog.first_sequence", b"0"))
            _check_sequence(read["sequence"], first if first_sequence is None else first_sequence, full)
        return pa.table(
            [
                known[name] if name in known else of_type(read[name], schema.field(name).type)
                for name in names
            ],
            schema=pa.schema([schema.field(name) for name in names]),
        )


def read_rows(
    storage: Storage, file: PartFile, wanted: RowFilter, first_sequence: int | None = None
) -> pa.Table:
    """Some rows of one file, in their order.

    All bytes are read, since the checksum is one of the whole file. Row groups that cannot hold a key group that is wanted
    are not decoded, and of the others few columns, if they have no such row.

    Raises:
        CorruptChangelogError: it is missing, or its checksum, row count or first sequence number is wrong.
    """
    full = storage.join(file.path)
    data = _bytes_of(storage, file)
    with reading(full):
        # Keys are not read as dictionaries: that takes Arrow three times as long.
        parquet = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(_REPEATED), pre_buffer=False)
        footer = parquet.metadata
        if file.rows is not None and footer.num_rows != file.rows:
            raise CorruptChangelogError(f"has {footer.num_rows} rows, the table says {file.rows}", full)
        metadata = footer.metadata or {}
        begins = int(metadata.get(b"changelog.first_sequence", b"0"))
        if file.name is not None and first_sequence is not None and begins != first_sequence:
            raise CorruptChangelogError(f"has sequence number {begins} where {first_sequence} is due", full)
        groups = _groups_of(footer, wanted)
        schema = _read_schema(_REPEATED)
        rows = sum(group.rows for group in groups)
        known = {} if file.name is None else _known(metadata, wanted.columns, schema, rows)
        seen = _decoded(parquet, [group.number for group in groups], wanted.columns, known)
        at = wanted.positions(seen)
        return _rows_at(parquet, groups, seen, at, file, metadata, begins)


def _groups_of(footer: pq.FileMetaData, wanted: RowFilter) -> list[_RowGroup]:
    """Each row group that may have a key group that is wanted."""
    place = SCHEMA.get_field_index("key_group")
    found, first = [], 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        bounds = group.column(place).statistics
        if bounds is None or not bounds.has_min_max or wanted.may_hold(bounds.min, bounds.max):
            found.append(_RowGroup(number, first, group.num_rows))
        first += group.num_rows
    return found


def _decoded(
    parquet: pq.ParquetFile, groups: list[int], names: Sequence[str], known: Mapping[str, Any]
) -> pa.Table:
    """Some columns of some row groups; those that are known are not decoded."""
    schema = _read_schema(_REPEATED)
    unknown = [name for name in names if name not in known]
    read = parquet.read_row_groups(groups, columns=unknown, use_threads=False) if unknown else None
    columns = {}
    for name in names:
        if read is None or name in known:
            columns[name] = known[name]
        else:
            columns[name] = of_type(read[name], schema.field(name).type)
    return pa.table(columns, schema=pa.schema([schema.field(name) for name in names]))


def _bytes_of(storage: Storage, file: PartFile) -> pa.Buffer:
    """The bytes of a file, or of a part in a pack, which are those that were written."""
    if file.within is None or file.name is None:
        return read_unchanged(storage, file.path, checksum_of(file.path), file.size)
    full, begin = storage.join(file.path), file.within.offset
    try:
        data = storage.read_range(file.path, begin, begin + file.size)
    except FileNotFoundError as error:
        raise CorruptChangelogError("is missing", full) from error
    if crc32(data) != file.name.crc:
        raise CorruptChangelogError(
            f"was changed after it was written: the {data.size} bytes from {begin} on, the part of subtask "
            f"{file.name.subtask}, have the checksum {crc32(data):08x}, not {file.name.crc:08x}",
            full,
        )
    return data


def _rows_at(
    parquet: pq.ParquetFile,
    groups: list[_RowGroup],
    seen: pa.Table,
    at: Any,
    file: PartFile,
    metadata: Mapping[bytes, bytes],
    begins: int,
) -> pa.Table:
    """Some rows of some row groups. What was seen, or the name and the metadata of a part say, is not decoded."""
    schema = _read_schema(_REPEATED)
    if not len(at):
        return schema.empty_table()
    counts = np.array([each.rows for each in groups])
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    group = np.searchsorted(starts, at, side="right") - 1
    hit = np.unique(group)
    known: Columns = {}
    if file.name is not None:
        known |= _known(metadata, SCHEMA.names, schema, len(at))
        known["checkpoint_id"] = pa.array(np.full(len(at), file.name.checkpoint, np.int64))
        known["attempt"] = pa.array(np.full(len(at), file.name.attempt, np.int32))
        in_file = at - starts[group] + np.array([each.first for each in groups])[group]
        # Contiguous: the checksum stands for it.
        known["sequence"] = pa.array(in_file.astype(np.int64) + begins)
    known |= {name: seen[name].take(pa.array(at)) for name in seen.column_names}
    unknown = [name for name in SCHEMA.names if name not in known]
    if unknown:
        before = np.concatenate(([0], np.cumsum(counts[hit])[:-1]))
        among = pa.array(at - starts[group] + before[np.searchsorted(hit, group)])
        numbers = [groups[place].number for place in hit]
        rest = _decoded(parquet, numbers, unknown, {}).take(among)
        known |= {name: rest[name] for name in unknown}
    return pa.table([known[name] for name in SCHEMA.names], schema=schema)


def check_bytes(storage: Storage, paths: Iterable[str]) -> None:
    """Look at the checksums of files that somebody else will read, such as Spark.

    On local disks only: object stores keep checksums of their own. A file that is as it was when this process looked at it
    is not read again.

    Args:
        paths: of the files; those that have no checksum in their names are passed over.

    Raises:
        CorruptChangelogError: one is missing or was changed; names it.
    """
    if storage.keeps_checksums:
        return
    for path in paths:
        full = storage.join(path)
        stamp = storage.stamp(path)
        if stamp is None or _CHECKED.get(full) != stamp:
            read_unchanged(storage, path, checksum_of(path))
            if len(_CHECKED) >= _MOST_CHECKED:
                _CHECKED.clear()
            if stamp is not None:
                _CHECKED[full] = stamp


def _known(
    metadata: Mapping[bytes, bytes], names: Sequence[str], schema: pa.Schema, count: int
) -> dict[str, pa.Array]:
    """Columns that the metadata tells: of one value, or empty. They need not be decoded."""
    known = {
        name: pa.nulls(count, schema.field(name).type) for name in empty_columns(metadata) if name in names
    }
    for name, values in single_values(metadata).items():
        if name in names:
            zeros = pa.array(np.zeros(count, np.int32))
            known[name] = pa.DictionaryArray.from_arrays(zeros, pa.array([values], pa.string()))
    return known


def _read_schema(repeated: Sequence[str]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(f.name, pa.dictionary(pa.int32(), f.type) if f.name in repeated else f.type)
            for f in SCHEMA
        ]
    )


def _check_sequence(sequence: pa.ChunkedArray, first: int, full: str) -> None:
    expected = first
    for chunk in sequence.chunks:
        numbers = chunk.to_numpy(zero_copy_only=False)
        count = len(numbers)
        # As many ascending numbers as there are from the first to the last: all of them.
        if count and (
            numbers[0] != expected
            or numbers[-1] != expected + count - 1
            or not (numbers[1:] > numbers[:-1]).all()
        ):
            wrong = int(np.flatnonzero(numbers != np.arange(expected, expected + count))[0])
            raise CorruptChangelogError(
                f"has sequence number {numbers[wrong]} where {expected + wrong} is due", full
            )
        expected += count
