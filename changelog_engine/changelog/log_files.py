"""Names of the files in a changelog, and what they promise of the bytes.

Names say whose a file is and carry the crc32 of its bytes, so most questions are answered without opening a file:

    part-<checkpoint>-<attempt>-<stage>-<subtask>-<number>-<crc>.parquet
    checkpoint-<checkpoint>-<attempt>-<crc>.parquet
    attempt-<attempt>-<crc>.parquet
    snapshot-<checkpoint>-<attempt>-<crc>.parquet    in the snapshots table: a complete snapshot
    merged-<first>-<last>-<crc>.parquet              parts of checkpoints first to last, merged: the same rows
    checkpoints-<first>-<last>-<crc>.parquet         rows of checkpoints, merged; first and last are among them
    attempts-<first>-<last>-<crc>.parquet            rows of attempts, merged likewise
    pack-<checkpoint>-<attempt>-<stage>-<parts>-<crc>.parquet    parts of several subtasks of a stage, one behind the other

A part's number counts the parts of its subtask in its attempt, from 1.
A pack's name says of each part, in the order in which they lie, <subtask>.<number>.<rows>.<bytes>.<crc> in base 36, with _
between two of them. Of files with other names, readers look at statistics and rows.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from changelog_engine.changelog.model import CheckpointMark
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.storage.protocol import Storage

SNAPSHOT = "snapshot"  # operation of the row that says a snapshot is complete

_PART = re.compile(r"part-(\d+)-(\d+)-(\d+)-(\d+)-(\d+)-([0-9a-f]{8})\.parquet")
_PACK = re.compile(r"pack-(\d+)-(\d+)-(\d+)-([0-9a-z._]+)-([0-9a-f]{8})\.parquet")
_PACKED = re.compile(
    r"([0-9a-z]{1,13})\.([0-9a-z]{1,13})\.([0-9a-z]{1,13})\.([0-9a-z]{1,13})\.([0-9a-z]{1,7})"
)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_ROW = re.compile(r"(checkpoint|snapshot)-(\d+)-(\d+)-([0-9a-f]{8})\.parquet")
_MERGED = re.compile(r"merged-(\d+)-(\d+)-([0-9a-f]{8})\.parquet")
_MERGED_ROWS = re.compile(r"(checkpoint|attempt)s-(\d+)-(\d+)-([0-9a-f]{8})\.parquet")
_ATTEMPT = re.compile(r"attempt-(\d+)-([0-9a-f]{8})\.parquet")


class PartName(NamedTuple):
    """What a part's name says."""

    checkpoint: int
    attempt: int
    stage: int
    subtask: int
    number: int
    crc: int

    @property
    def mark(self) -> CheckpointMark:
        """The checkpoint that commits the part, and its attempt."""
        return CheckpointMark(self.checkpoint, self.attempt)


class PackedPart(NamedTuple):
    """What a pack's name says of one of its parts.

    Args:
        name: the name that the part would have as a file of its own; its checksum is that of its bytes in the pack.
        offset: where it begins in the pack, bytes.
        size: bytes.
    """

    name: PartName
    rows: int
    offset: int
    size: int


class RowName(NamedTuple):
    """What the name of a checkpoint's, snapshot's or attempt's file says; an attempt has checkpoint 0."""

    operation: str
    checkpoint: int
    attempt: int
    crc: int

    @property
    def mark(self) -> CheckpointMark:
        """The checkpoint and its attempt."""
        return CheckpointMark(self.checkpoint, self.attempt)


class MergedRowsName(NamedTuple):
    """What the name of a file of merged rows about the log says: checkpoint or attempt, and bounds of the ids."""

    operation: str
    first: int
    last: int
    crc: int


def crc32(data: pa.Buffer | bytes) -> int:
    """The checksum that goes into names."""
    return zlib.crc32(data)


def read_unchanged(storage: Storage, path: str, crc: int | None, size: int | None = None) -> pa.Buffer:
    """The bytes of a file of the log, which are those that were written.

    Args:
        crc: their checksum; None where nothing knows it.
        size: how many there should be, where that is known: it saves a request.

    Raises:
        CorruptChangelogError: the file is missing or was changed; names it.
        StorageError: it is a link or a device, or cannot be read at the moment, which does not mean that it is damaged.
    """
    full = storage.join(path)
    try:
        data = storage.read(path, size)
    except FileNotFoundError as error:
        raise CorruptChangelogError("is missing", full) from error
    if crc is not None and crc32(data) != crc:
        raise CorruptChangelogError(
            f"was changed after it was written: its {data.size} bytes have the checksum {crc32(data):08x}, not {crc:08x}",
            full,
        )
    return data


def part_name(name: PartName) -> str:
    """The file name of a part."""
    return f"part-{name.checkpoint}-{name.attempt}-{name.stage}-{name.subtask}-{name.number}-{name.crc:08x}.parquet"


def parse_part(path: str) -> PartName | None:
    """What a part's name says, or None when it isn't one of ours."""
    match = _PART.fullmatch(path)
    if match is None:
        return None
    *numbers, crc = match.groups()
    checkpoint, attempt, stage, subtask, number = map(int, numbers)
    return PartName(checkpoint, attempt, stage, subtask, number, int(crc, 16))


def pack_name(parts: Sequence[PackedPart], crc: int) -> str:
    """The file name of a pack.

    Args:
        parts: of one checkpoint, attempt and stage, in the order in which they lie.
    """
    first = parts[0].name
    packed = "_".join(
        ".".join(
            _base36(number)
            for number in (part.name.subtask, part.name.number, part.rows, part.size, part.name.crc)
        )
        for part in parts
    )
    return f"pack-{first.checkpoint}-{first.attempt}-{first.stage}-{packed}-{crc:08x}.parquet"


def parse_pack(path: str) -> tuple[PackedPart, ...] | None:
    """The parts that a pack's name says, or None when it isn't one."""
    match = _PACK.fullmatch(path)
    if match is None:
        return None
    checkpoint, attempt, stage = (int(number) for number in match.groups()[:3])
    found, offset = [], 0
    for text in match[4].split("_"):
        packed = _PACKED.fullmatch(text)
        if packed is None:
            return None
        subtask, number, rows, size, crc = (int(digits, 36) for digits in packed.groups())
        if crc > 0xFFFFFFFF:
            return None
        found.append(
            PackedPart(PartName(checkpoint, attempt, stage, subtask, number, crc), rows, offset, size)
        )
        offset += size
    return tuple(found)


def _base36(number: int) -> str:
    digits = ""
    while number >= 36:
        number, last = divmod(number, 36)
        digits = _DIGITS[last] + digits
    return _DIGITS[number] + digits


def row_name(name: RowName) -> str:
    """The file name of a row about the log."""
    ids = f"{name.attempt}" if name.operation == "attempt" else f"{name.checkpoint}-{name.attempt}"
    return f"{name.operation}-{ids}-{name.crc:08x}.parquet"


def parse_row(path: str) -> RowName | None:
    """What the name of a file about the log says, or None when it isn't one."""
    match = _ROW.fullmatch(path)
    if match is not None:
        return RowName(match.group(1), int(match.group(2)), int(match.group(3)), int(match.group(4), 16))
    match = _ATTEMPT.fullmatch(path)
    if match is not None:
        return RowName("attempt", 0, int(match.group(1)), int(match.group(2), 16))
    return None


def merged_name(first: int, last: int, crc: int) -> str:
    """The file name of merged parts of checkpoints first to last."""
    return f"merged-{first}-{last}-{crc:08x}.parquet"


def merged_rows_name(operation: str, first: int, last: int, crc: int) -> str:
    """The file name of merged rows of checkpoints or attempts first to last."""
    return f"{operation}s-{first}-{last}-{crc:08x}.parquet"


def parse_merged_rows(path: str) -> MergedRowsName | None:
    """What the name of a file of merged rows about the log says, or None when it isn't one."""
    match = _MERGED_ROWS.fullmatch(path)
    if match is None:
        return None
    return MergedRowsName(match.group(1), int(match.group(2)), int(match.group(3)), int(match.group(4), 16))


def merged_bounds(path: str) -> tuple[int, int] | None:
    """First and last checkpoint of merged parts, or None when the name isn't one of them."""
    match = _MERGED.fullmatch(path)
    return None if match is None else (int(match.group(1)), int(match.group(2)))


def is_log(path: str) -> bool:
    """Whether a file is parts of this engine, merged or not, which hold mutations only."""
    return parse_part(path) is not None or parse_pack(path) is not None or merged_bounds(path) is not None


def checksum_of(path: str) -> int | None:
    """The checksum in a file's name, or None when it has none."""
    for pattern in (_PART, _PACK, _ROW, _ATTEMPT, _MERGED, _MERGED_ROWS):
        match = pattern.fullmatch(path)
        if match is not None:
            return int(match.groups()[-1], 16)
    return None
