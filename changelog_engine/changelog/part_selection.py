"""Files of mutations as a table's list of files shows them.

Invariants:
    * What the list says of a file besides its name is a hint: the ledger decides by what checksums cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.log_files import (
    PackedPart,
    PartName,
    merged_bounds,
    parse_pack,
    parse_part,
    parse_row,
    part_name,
)
from changelog_engine.changelog.model import Segment
from changelog_engine.changelog.segments import before

_COLUMNS = (
    "path",
    "size_bytes",
    "num_records",
    "min.checkpoint_id",
    "max.checkpoint_id",
    "min.key_group",
    "max.key_group",
    "min.operator",
    "max.operator",
)


@dataclass(frozen=True)
class Within:
    """Where a part lies in a pack."""

    offset: int
    pack_size: int  # bytes of the pack
    pack_rows: int | None  # rows of the pack; None when the table doesn't say


@dataclass(frozen=True)
class PartFile:
    """A file of mutations as the table lists it, or one part of a pack: then bounds are the pack's.

    Args:
        path: relative to the table; parts of a pack have the pack's.
        name: what its name says; None for a merged file, which may hold rows of any checkpoint.
        size: bytes.
        rows: how many; None when the table doesn't say.
        first_checkpoint, last_checkpoint: bounds, by the name where it has them; None when nobody says.
        first_key_group, last_key_group: bounds, inclusive; None when the table doesn't say.
        first_operator, last_operator: bounds in order of text; None when the table doesn't say.
        within: of a part of a pack, where it lies there; None for a file of its own.
    """

    path: str
    name: PartName | None
    size: int
    rows: int | None = None
    first_checkpoint: int | None = None
    last_checkpoint: int | None = None
    first_key_group: int | None = None
    last_key_group: int | None = None
    first_operator: str | None = None
    last_operator: str | None = None
    within: Within | None = None

    @property
    def id(self) -> str:
        """What no other file or part of the table has: the path, and for a part of a pack its name."""
        return self.path if self.within is None or self.name is None else part_name(self.name)

    def may_hold(self, key_groups: range, operators: frozenset[str] | None) -> bool:
        """Whether it can hold a row of these key groups and operators (None: all), by the list."""
        low, high = self.first_key_group, self.last_key_group
        if low is not None and high is not None and (high < key_groups.start or low >= key_groups.stop):
            return False
        if operators is not None and self.first_operator is not None and self.last_operator is not None:
            return any(self.first_operator <= operator <= self.last_operator for operator in operators)
        return True


def part_files(files: pa.Table) -> list[PartFile]:
    """The files of mutations among a table's files (``DeltaLog.files``)."""
    about_the_log = pc.match_substring_regex(files["path"], "^((checkpoint|attempt)s?|snapshot)-")
    listed = [name for name in _COLUMNS if name in files.column_names]
    files = files.select(listed).filter(pc.invert(about_the_log))
    columns = [
        files[name].to_pylist() if name in files.column_names else [None] * files.num_rows
        for name in _COLUMNS
    ]
    found: list[PartFile] = []
    for path, size, rows, *bounds in zip(*columns, strict=True):
        packed = parse_pack(path)
        if packed is not None:
            pack = PartFile(path, None, size, rows, *bounds)
            found += [_in_pack(pack, part) for part in packed]
        elif parse_row(path) is None:
            checkpoints = merged_bounds(path) or bounds[:2]
            found.append(PartFile(path, parse_part(path), size, rows, *checkpoints, *bounds[2:]))
    return found


def _in_pack(pack: PartFile, part: PackedPart) -> PartFile:
    """A part of a pack, of which the table knows what it knows of the pack."""
    return replace(
        pack,
        name=part.name,
        size=part.size,
        rows=part.rows,
        first_checkpoint=part.name.checkpoint,
        last_checkpoint=part.name.checkpoint,
        within=Within(part.offset, pack.size, pack.rows),
    )


def restore_hint(lineage: Sequence[Segment], checkpoint: int) -> str:
    """What to do when a part of this checkpoint can't be used."""
    previous = before(lineage, checkpoint)
    if not previous:
        return "No earlier checkpoint can be restored: start empty with changelog.restore = none. Nothing was changed"
    return (
        f"The last checkpoint that can still be restored is {previous}: set changelog.restore = {previous}. "
        "Nothing was changed"
    )
