"""Packs: parts of several subtasks as one file.

A pack is the parts' own files one behind the other, each whole with its footer, and a footer at the end that describes the
row groups of all of them. So it is an ordinary Parquet file for Spark and for other readers of the table, and who needs one
part reads its bytes only: the pack's name says where they are, and their checksum.

Invariants:
    * A part's bytes in a pack are those of the file that it would have been.
    * All parts of a pack are of one checkpoint, attempt and stage, and no two of one subtask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from changelog_engine.changelog.log_files import PackedPart, crc32, pack_name
from changelog_engine.changelog.model import FORMAT_VERSION
from changelog_engine.changelog.parquet_footers import FooterError, footer_bytes, joined_footer
from changelog_engine.changelog.part_stats import (
    empty_columns,
    empty_entry,
    footer_of,
    listed_in,
    listed_values,
)
from changelog_engine.changelog.part_writer import SealedPart

_NAME_BYTES = 240  # file systems take 255
_PACK_BYTES = 64 * 1024 * 1024


class Pack(NamedTuple):
    """A pack that is not written yet."""

    path: str
    data: pa.Buffer
    parts: tuple[SealedPart, ...]


def packed_up(parts: Sequence[SealedPart]) -> list[Pack]:
    """Put parts together: in as few files as their names take. Parts that go with no other are left out.

    Args:
        parts: sealed ones; those of other checkpoints, attempts and stages than the first are left out.
    """
    left, found = list(parts), []
    while left:
        chosen = _chosen(left)
        made = _pack(chosen) if len(chosen) > 1 else None
        if made is not None:
            found.append(made)
        names = {part.name for part in chosen}
        left = [part for part in left if part.name not in names]
    return found


def _pack(chosen: Sequence[SealedPart]) -> Pack | None:
    """One pack; None when what Arrow wrote is not what can be put together."""
    begins = [part.offset for part in _packed(chosen)]
    footers = [footer_of(part.data) for part in chosen]
    metadata = [footer.metadata or {} for footer in footers]
    operators, operations = (
        {value for each in metadata for value in listed_in(each, column)}
        for column in ("operator", "operation")
    )
    empty = set.intersection(*(set(empty_columns(each)) for each in metadata))
    first = chosen[0].name
    entries = {
        "changelog.format": str(FORMAT_VERSION),
        "changelog.stage": str(first.stage),
        "changelog.attempt": str(first.attempt),
        **listed_values(operators, operations),
        **empty_entry(empty),
    }
    try:
        ends = [footer_bytes(part.data.to_pybytes()) for part in chosen]
        end, rows = joined_footer(ends, begins, entries)
    except FooterError:
        return None
    data = pa.py_buffer(b"".join([*(part.data for part in chosen), end]))
    if rows != sum(part.rows for part in chosen) or footer_of(data).num_rows != rows:
        return None
    return Pack(pack_name(_packed(chosen), crc32(data)), data, tuple(chosen))


def _packed(parts: Sequence[SealedPart]) -> list[PackedPart]:
    found, offset = [], 0
    for part in parts:
        found.append(PackedPart(part.name, part.rows, offset, part.data.size))
        offset += part.data.size
    return found


def _chosen(parts: Sequence[SealedPart]) -> list[SealedPart]:
    chosen: list[SealedPart] = []
    size = 0
    for part in parts:
        if chosen and part.name[:3] != chosen[0].name[:3]:
            continue
        if part.name.subtask in {other.name.subtask for other in chosen}:
            continue
        size += part.data.size
        if chosen and (size > _PACK_BYTES or len(pack_name(_packed([*chosen, part]), 0)) > _NAME_BYTES):
            break
        chosen.append(part)
    return chosen
