"""Small parts of the history into large files: the same rows, sorted so that one key's are close together.

Only parts that a restore reads no more are merged: rows of merged files must be sorted by whoever replays them.

Bound: of n bytes of settled history there are at most n / 8 MiB large files, LEAST_PARTS - 1 small parts, and small merged
files each of which is larger than all after it together: log2(8 MiB / the smallest) of them. A byte is merged again at most
so many times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changelog_engine.changelog.log_files import crc32, is_merged, merged_name
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.part_stats import (
    PARQUET_STATISTICS,
    delta_stats,
    footer_of,
    listed_values,
)
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.storage.delta_log import AddFile
from changelog_engine.storage.filesystem import Storage
from materializer.retention import Needed

MERGED_BYTES = 32 * 1024 * 1024
SMALL_BYTES = MERGED_BYTES // 4
LEAST_PARTS = 16
_MOST_PARTS = 900
_ROW_GROUP_ROWS = 65_536


class Change(NamedTuple):
    """What must change in a table at once.

    Args:
        adds: files to add, durable already.
        removes: paths to remove.
    """

    adds: list[AddFile]
    removes: list[str]


def merge_small(
    storage: Storage, parts: list[PartFile], stays: Needed, least: int = LEAST_PARTS
) -> Iterator[Change]:
    """Merge the small parts of the settled history.

    Args:
        storage: the changelog.
        parts: those that stay.
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
        if part.size < SMALL_BYTES and _last(part) <= stays.settled and (part.name or is_merged(part.path))
    ]  # fmt: skip
    fresh = sorted((part for part in small if part.name is not None), key=lambda part: part.name or ())
    merged = sorted((part for part in small if part.name is None), key=_last)
    for group in _groups(fresh):
        if len(group) < least:
            continue
        size = sum(part.size for part in group)
        while merged and merged[-1].size <= size and size + merged[-1].size <= MERGED_BYTES:
            size += merged[-1].size
            group.append(merged.pop())
        merged.clear()  # older ones lie before the first group
        yield _merge(storage, group, stays)


def _last(part: PartFile) -> int:
    if part.name is not None:
        return part.name.checkpoint
    return 1 << 62 if part.last_checkpoint is None else part.last_checkpoint


def _groups(parts: list[PartFile]) -> list[list[PartFile]]:
    groups: list[list[PartFile]] = []
    size = 0
    for part in parts:
        if not groups or size + part.size > MERGED_BYTES or len(groups[-1]) >= _MOST_PARTS:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += part.size
    return groups


def _merge(storage: Storage, parts: list[PartFile], stays: Needed) -> Change:
    table = pa.concat_tables([read_part(storage, part).cast(SCHEMA) for part in parts])
    removes = [part.path for part in parts]
    if any(part.name is None for part in parts):
        attempts, checkpoints = (table[name].to_numpy() for name in ("attempt", "checkpoint_id"))
        table = table.filter(pa.array(stays.logged(attempts, checkpoints)))
        if not table.num_rows:
            return Change([], removes)
    order = [(name, "ascending") for name in ("key_group", "checkpoint_id", "sequence")]
    table = table.sort_by(order)
    names = (pc.unique(table[column]).to_pylist() for column in ("operator", "operation"))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(listed_values(*names)),
        sink,
        row_group_size=_ROW_GROUP_ROWS,
        compression="zstd",
        write_statistics=[*PARQUET_STATISTICS],
    )
    data = sink.getvalue()
    bounds = pc.min_max(table["checkpoint_id"]).as_py()
    path = merged_name(bounds["min"], bounds["max"], crc32(data))
    storage.write_durable(path, data)
    return Change([AddFile(path, data.size, int(time.time() * 1000), delta_stats(footer_of(data)))], removes)
