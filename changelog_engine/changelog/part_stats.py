"""Statistics of a part for the Delta log, from its Parquet footer: they let every Delta reader skip files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.storage.delta_actions import FileStats

PARQUET_STATISTICS = ("checkpoint_id", "attempt", "key_group")
_INDEX = {name: SCHEMA.get_field_index(name) for name in PARQUET_STATISTICS}
# Parquet's own statistics of a dictionary column cost as much as writing it, so the writer lists the few values there are.
_LISTED = {"operator": b"changelog.operators", "operation": b"changelog.operations"}
_EMPTY = b"changelog.empty"
OPTIONAL = ("namespace", "map_key", "payload", "event_time")


def delta_stats(footer: pq.FileMetaData) -> FileStats:
    """Delta's statistics of a file with the changelog's columns.

    Returns:
        numRecords, and exact minValues, maxValues and nullCount of the columns readers skip by.
    """
    minimum: dict[str, Any] = {}
    maximum: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    for name, index in _INDEX.items():
        chunks = [group.column(index).statistics for group in groups]
        if not chunks or any(chunk is None or not chunk.has_null_count for chunk in chunks):
            continue
        nulls[name] = sum(chunk.null_count for chunk in chunks)
        valued = [chunk for chunk in chunks if chunk.num_values]
        if valued and all(chunk.has_min_max for chunk in valued):
            minimum[name] = min(chunk.min for chunk in valued)
            maximum[name] = max(chunk.max for chunk in valued)
    metadata = footer.metadata or {}
    for name in _LISTED:
        values = listed_in(metadata, name)
        if values:
            minimum[name], maximum[name], nulls[name] = min(values), max(values), 0
    return {"numRecords": footer.num_rows, "minValues": minimum, "maxValues": maximum, "nullCount": nulls}


def listed_values(operators: Iterable[str], operations: Iterable[str]) -> dict[str, str]:
    """The entries of a part's key-value metadata that name its operators and operations."""
    return {
        "changelog.operators": json.dumps(sorted(operators)),
        "changelog.operations": json.dumps(sorted(operations)),
    }


def empty_entry(names: Iterable[str]) -> dict[str, str]:
    """The entry of a part's key-value metadata that names the columns in which every row has null."""
    return {_EMPTY.decode(): json.dumps(sorted(names))}


def empty_columns(metadata: Mapping[bytes, bytes]) -> list[str]:
    """The columns that a part's metadata says to be null in every row: they need not be read."""
    found: list[str] = json.loads(metadata.get(_EMPTY, b"[]"))
    return found


def single_values(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    """The columns that a part's metadata says to have one value in all rows, and the value."""
    listed = {name: listed_in(metadata, name) for name in _LISTED}
    return {name: values[0] for name, values in listed.items() if len(values) == 1}


def listed_in(metadata: Mapping[bytes, bytes], column: str) -> list[str]:
    """The values of a column, ``operator`` or ``operation``, that a part's metadata lists."""
    found: list[str] = json.loads(metadata.get(_LISTED[column], b"[]"))
    return found


def operators_of(footer: pq.FileMetaData) -> list[str]:
    """The operators of which a file has rows, as its metadata lists them."""
    return listed_in(footer.metadata or {}, "operator")


def footer_of(data: pa.Buffer) -> pq.FileMetaData:
    """The Parquet metadata of a whole file."""
    return pq.read_metadata(pa.BufferReader(data))
