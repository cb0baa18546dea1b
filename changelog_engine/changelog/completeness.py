"""Whether the log still has every mutation of a stretch of a lineage: what is restored without a snapshot needs that."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.changelog.log_files import checksum_of, crc32
from changelog_engine.changelog.model import Checkpoint, Segment
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.row_files import rows_of
from changelog_engine.storage.filesystem import Storage

_Who = tuple[int, int]  # attempt, checkpoint


def is_complete(
    storage: Storage,
    listing: pa.Table,
    files: Sequence[PartFile],
    lineage: Sequence[Segment],
    after: int | None,
    last: int,
) -> bool:
    """Whether every part of a lineage after a checkpoint, up to another, is in the log, merged or not.

    Args:
        storage: the changelog.
        listing: its files (``DeltaLog.files``).
        files: those of mutations (``part_files``).
        lineage: the lineage.
        after: the checkpoint after which; None: from the beginning.
        last: the checkpoint up to which.

    Raises:
        CorruptChangelogError: a checkpoint's row can't be read.
    """
    checkpoints, _ = rows_of(storage, listing)
    parts: dict[_Who, int] = {}
    rows: dict[_Who, int] = {}
    merged = [file for file in files if file.name is None]
    for file in files:
        if file.name is not None:
            who = (file.name.attempt, file.name.checkpoint)
            parts[who] = parts.get(who, 0) + 1
            rows[who] = rows.get(who, 0) + (file.rows or 0)
    counted = False
    for segment in lineage:
        for identity in range(max(segment.first, (after or 0) + 1), min(segment.last, last) + 1):
            who = (segment.attempt, identity)
            entry = checkpoints.get(identity)
            if entry is None or entry.attempt != segment.attempt:
                return False
            row = Checkpoint.from_json(checkpoints.document(entry))
            if row.snapshot == row.id:
                return False
            if row.parts == parts.get(who, 0):
                continue
            if not counted:
                counted = True
                _count_merged(storage, merged, rows)
            if row.rows != rows.get(who, 0):
                return False
    return True


def _count_merged(storage: Storage, files: Sequence[PartFile], rows: dict[_Who, int]) -> None:
    """Add the rows of merged files; one that can't be read has none."""
    for file in files:
        try:
            data = storage.read(file.path)
            if checksum_of(file.path) not in (None, crc32(data)):
                continue
            names = ["attempt", "checkpoint_id", "sequence"]
            table = pq.read_table(pa.BufferReader(data), columns=names)
        except (FileNotFoundError, pa.ArrowException):
            continue
        counts = table.drop_null().group_by(names[:2]).aggregate([([], "count_all")])
        for attempt, checkpoint, count in zip(
            *(counts[name].to_pylist() for name in (*names[:2], "count_all")), strict=True
        ):
            rows[attempt, checkpoint] = rows.get((attempt, checkpoint), 0) + count
