"""Small parts of the history into large files: the same rows, sorted so that one key's are close together.

Only parts that a restore reads no more are merged: rows of merged files must be sorted by whoever replays them.
"""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changelog_engine.changelog.log_files import crc32, merged_name
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

MERGED_BYTES = 32 * 1024 * 1024
LEAST_PARTS = 16
_MOST_PARTS = 1_000
_ROW_GROUP_ROWS = 65_536


def merge_small(
    storage: Storage, parts: list[PartFile], settled: int, least: int = LEAST_PARTS
) -> tuple[list[AddFile], set[str]]:
    """Merge the small parts up to a checkpoint.

    Args:
        storage: the changelog.
        parts: those that stay.
        settled: parts of later checkpoints are left alone.
        least: fewer parts are not merged.

    Returns:
        The merged files, written durably, and the paths that they replace.

    Raises:
        CorruptChangelogError: a part isn't what it was.
        StorageError: a file could not be read or written.
    """
    small = [
        part for part in parts
        if part.name is not None and part.name.checkpoint <= settled and part.size < MERGED_BYTES // 4
    ]  # fmt: skip
    small.sort(key=lambda part: part.name or ())
    adds: list[AddFile] = []
    replaced: set[str] = set()
    for group in _groups(small):
        if len(group) >= least:
            adds.append(_merge(storage, group))
            replaced |= {part.path for part in group}
    return adds, replaced


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


def _merge(storage: Storage, parts: list[PartFile]) -> AddFile:
    tables = [read_part(storage, part) for part in parts]
    table = pa.concat_tables(tables).cast(SCHEMA)
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
    checkpoints = [part.name.checkpoint for part in parts if part.name is not None]
    path = merged_name(min(checkpoints), max(checkpoints), crc32(data))
    storage.write_durable(path, data)
    return AddFile(path, data.size, int(time.time() * 1000), delta_stats(footer_of(data)))
