"""Small parts of the history into large files: the same rows, sorted so that one key's are close together.

Only parts that no restore reads any more are merged: a replay must sort the rows of merged files.

Parts of many rows stay as they are: that many make a good file, and a job that writes millions of rows a second could not
merge them as fast as it writes them.

Bound: of n bytes and m rows of settled history there are at most n / 8 MiB + m / SMALL_ROWS large files, LEAST_PARTS - 1
small parts, and small merged files each of which has more bytes than all after it together: log2(8 MiB / the smallest).
A byte is merged again at most that many times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.coded import coded
from changelog_engine.changelog.condensing import DICTIONARIES
from changelog_engine.changelog.log_files import crc32, merged_bounds, merged_name
from changelog_engine.changelog.oversized import takeable, taken
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.part_stats import delta_stats, footer_of, listed_values
from changelog_engine.changelog.part_writer import REQUIRED, ROW_GROUP_ROWS, open_writer
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.clock import wall_ms
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.protocol import Storage
from materializer.retention import Needed

MERGED_BYTES = 32 * 1024 * 1024
SMALL_BYTES = MERGED_BYTES // 4
SMALL_ROWS = 100_000  # merging costs time by the row and saves time by the file
MERGED_ROWS = 2_000_000  # rows that a merge holds in memory, at about 200 bytes each
LEAST_PARTS = 16
_MOST_PARTS = 900


class Change(NamedTuple):
    """What must change in a table at once.

    Args:
        adds: files to add, durable already.
    """

    adds: list[AddFile]
    removes: list[str]


def merge_small(
    storage: Storage, parts: list[PartFile], stays: Needed, least: int = LEAST_PARTS
) -> Iterator[Change]:
    """Merge the small parts of the settled history.

    Args:
        stays: what stays; rows that don't are left out.
        least: fewer parts are not merged.

    Yields:
        A merged file, written durably, and the paths that it replaces; no file when none of their rows stays.

    Raises:
        CorruptChangelogError: a part isn't what it was.
        StorageError: a file could not be read or written.
    """
    small = [
        part for part in parts
        if _is_small(part) and _last(part) <= stays.settled and (part.name or merged_bounds(part.path))
    ]  # fmt: skip
    fresh = sorted((part for part in small if part.name is not None), key=_place)
    merged = sorted((part for part in small if part.name is None), key=_last)
    for group in _groups(fresh):
        if len(group) < least:
            continue
        size, rows = sum(part.size for part in group), sum([_rows(part) for part in group])
        while merged and merged[-1].size <= size and _fits(size, rows, merged[-1]):
            size, rows = size + merged[-1].size, rows + _rows(merged[-1])
            group.append(merged.pop())
        merged.clear()  # older ones lie before the first group
        yield _merge(storage, group, stays)


def _place(part: PartFile) -> tuple[int, int, int, str, int]:
    """Parts of a pack come one after the other: they are merged together, since they go together."""
    assert part.name is not None
    offset = 0 if part.within is None else part.within.offset
    return (part.name.checkpoint, part.name.attempt, part.name.stage, part.path, offset)


def _is_small(part: PartFile) -> bool:
    if part.within is not None:  # all parts of a pack, or none
        return part.within.pack_size < SMALL_BYTES and (part.within.pack_rows or 0) < SMALL_ROWS
    return part.size < SMALL_BYTES and _rows(part) < (MERGED_ROWS // 4 if part.name is None else SMALL_ROWS)


def _rows(part: PartFile) -> int:
    return part.rows or 0


def _last(part: PartFile) -> int:
    if part.name is not None:
        return part.name.checkpoint
    return 1 << 62 if part.last_checkpoint is None else part.last_checkpoint


def _groups(parts: list[PartFile]) -> list[list[PartFile]]:
    groups: list[list[PartFile]] = []
    size = rows = 0
    for part in parts:
        in_pack = part.within is not None and part.within.offset > 0
        full = not groups or not _fits(size, rows, part) or len(groups[-1]) >= _MOST_PARTS
        if full and not in_pack:
            groups.append([])
            size = rows = 0
        groups[-1].append(part)
        size, rows = size + part.size, rows + _rows(part)
    return groups


def _fits(size: int, rows: int, part: PartFile) -> bool:
    return size + part.size <= MERGED_BYTES and rows + _rows(part) <= MERGED_ROWS


def _merge(storage: Storage, parts: list[PartFile], stays: Needed) -> Change:
    in_order = sorted(parts, key=lambda part: part.name or ()) if all(part.name for part in parts) else parts
    table = pa.concat_tables([read_part(storage, part, DICTIONARIES) for part in in_order])
    removes = list(dict.fromkeys(part.path for part in parts))  # a pack has several parts
    if any(part.name is None for part in parts):
        attempts, checkpoints = (table[name].to_numpy() for name in ("attempt", "checkpoint_id"))
        table = table.filter(pa.array(stays.logged(attempts, checkpoints)))
        if not table.num_rows:
            return Change([], removes)
    order = _order(table, in_log_order=all(part.name for part in parts))
    columns = {name: _Column(table[name], SCHEMA.field(name).type) for name in SCHEMA.names}
    schema = pa.schema([field.with_nullable(field.name not in REQUIRED) for field in SCHEMA])
    sink = pa.BufferOutputStream()
    with open_writer(sink, schema) as writer:
        for start in range(0, len(order), ROW_GROUP_ROWS):
            at = order[start : start + ROW_GROUP_ROWS]
            writer.write_table(pa.table([columns[name].taken(at) for name in SCHEMA.names], schema=schema))
        names = (pc.unique(table[column]).to_pylist() for column in ("operator", "operation"))
        writer.add_key_value_metadata(listed_values(*names))
    data = sink.getvalue()
    bounds = pc.min_max(table["checkpoint_id"]).as_py()
    path = merged_name(bounds["min"], bounds["max"], crc32(data))
    storage.write_durable(path, data, background=True)
    return Change([AddFile(path, data.size, wall_ms(), delta_stats(footer_of(data)))], removes)


def _order(table: pa.Table, in_log_order: bool) -> Any:
    """Positions of the rows by key group, and in log order within each."""
    # There are at most 32768, and short numbers sort fast.
    groups = table["key_group"].to_numpy().astype(np.uint16)
    if in_log_order:
        return np.argsort(groups, kind="stable")
    return np.lexsort((table["sequence"].to_numpy(), table["checkpoint_id"].to_numpy(), groups))


class _Column:
    """A column of which some rows are taken at a time, as plain values."""

    def __init__(self, column: pa.ChunkedArray, type_: pa.DataType) -> None:
        self._type = type_
        empty = column.null_count == len(column)
        self._coded = coded(column) if pa.types.is_dictionary(column.type) and not empty else None
        self._values = takeable(column).combine_chunks() if self._coded is None and not empty else None

    def taken(self, at: Any) -> pa.Array | pa.ChunkedArray:
        """The rows at these positions."""
        if self._coded is not None:
            return self._coded.taken(at, self._type)
        if self._values is None:
            return pa.nulls(len(at), self._type)
        return taken(self._values, pa.array(at), self._type)
