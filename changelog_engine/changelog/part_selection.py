"""Which files of a changelog hold the mutations that a restore needs, in which order, and whether any is missing.

Invariants:
    * Only files of the lineage are chosen: rows of abandoned branches and dead attempts never are.
    * A subtask's parts of an attempt are numbered without gaps from 1, so a hole in the middle shows in the names alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.log_files import PartName, parse_part, parse_row
from changelog_engine.changelog.model import Segment
from changelog_engine.errors import CorruptChangelogError

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
class PartFile:
    """A file of mutations as the table lists it.

    Args:
        path: relative to the table.
        name: what its name says; None for a merged file, which may hold rows of any checkpoint.
        rows: how many; None when the table doesn't say.
        first_checkpoint, last_checkpoint: bounds; None when the table doesn't say.
        first_key_group, last_key_group: bounds, inclusive; None when the table doesn't say.
        first_operator, last_operator: bounds in order of text; None when the table doesn't say.
    """

    path: str
    name: PartName | None
    size: int
    rows: int | None
    first_checkpoint: int | None
    last_checkpoint: int | None
    first_key_group: int | None
    last_key_group: int | None
    first_operator: str | None
    last_operator: str | None

    def may_hold(self, key_groups: range, operators: frozenset[str] | None) -> bool:
        """Whether it can hold a row of these key groups and operators (None: all)."""
        low, high = self.first_key_group, self.last_key_group
        if low is not None and high is not None and (high < key_groups.start or low >= key_groups.stop):
            return False
        if operators is not None and self.first_operator is not None and self.last_operator is not None:
            return any(self.first_operator <= operator <= self.last_operator for operator in operators)
        return True


def part_files(files: pa.Table) -> list[PartFile]:
    """The files of mutations among a table's files (``DeltaLog.files``)."""
    about_the_log = pc.match_substring_regex(files["path"], "^((checkpoint|attempt)s?|snapshot)-")
    files = files.filter(pc.invert(about_the_log))
    columns = [
        files[name].to_pylist() if name in files.column_names else [None] * files.num_rows
        for name in _COLUMNS
    ]
    found = []
    for path, size, rows, *bounds in zip(*columns, strict=True):
        if parse_row(path) is None:
            found.append(PartFile(path, parse_part(path), size, rows, *bounds))
    return found


def on_lineage(lineage: Iterable[Segment], attempt: int, checkpoint: int) -> bool:
    """Whether an attempt's checkpoint is on the lineage."""
    return any(s.attempt == attempt and s.first <= checkpoint <= s.last for s in lineage)


def attempt_of(lineage: Iterable[Segment], checkpoint: int) -> int | None:
    """Whose attempt made the lineage's checkpoint, or None when it isn't on it."""
    return next((s.attempt for s in lineage if s.first <= checkpoint <= s.last), None)


def before(lineage: Sequence[Segment], checkpoint: int) -> int | None:
    """The newest checkpoint of the lineage before this one."""
    ids = [min(s.last, checkpoint - 1) for s in lineage if s.first < checkpoint]
    return max(ids, default=None)


def restore_hint(lineage: Sequence[Segment], checkpoint: int) -> str:
    """What to do when a part of this checkpoint can't be used."""
    previous = before(lineage, checkpoint)
    if previous is None:
        return "No earlier checkpoint can be restored: start empty with changelog.restore = none. Nothing was changed"
    return (
        f"The last checkpoint that can still be restored is {previous}: set changelog.restore = {previous}. "
        "Nothing was changed"
    )


def select_suffix(files: Iterable[PartFile], lineage: Sequence[Segment], after: int | None) -> list[PartFile]:
    """The lineage's files after a snapshot, in the order in which they apply.

    Args:
        files: the table's files of mutations.
        lineage: of the checkpoint to restore.
        after: checkpoint of the snapshot that comes first; None for the log alone.

    Returns:
        Parts by checkpoint, stage, subtask, number; merged files first.
    """
    start = -1 if after is None else after
    last = lineage[-1].last if lineage else -1
    parts: list[PartFile] = []
    merged: list[PartFile] = []
    for file in files:
        if file.name is None:
            low = 0 if file.first_checkpoint is None else file.first_checkpoint
            high = last if file.last_checkpoint is None else file.last_checkpoint
            if low <= last and high > start:
                merged.append(file)
        elif file.name.checkpoint > start and on_lineage(lineage, file.name.attempt, file.name.checkpoint):
            parts.append(file)
    return merged + sorted(parts, key=lambda part: part.name or ())


def check_complete(
    parts: Sequence[PartFile], lineage: Sequence[Segment], after: int | None, table: str
) -> None:
    """Look for holes in the numbering of a suffix without merged files.

    Args:
        parts: what ``select_suffix`` gave.
        lineage: of the checkpoint to restore.
        after: see ``select_suffix``.
        table: for the message.

    Raises:
        CorruptChangelogError: a part is not in the table any more.
    """
    if any(part.name is None for part in parts):
        return  # merged files took the place of parts
    snapshot_attempt = None if after is None else attempt_of(lineage, after)
    expected: dict[tuple[int, int, int], int] = {}
    for part in sorted(parts, key=lambda part: part.name[4] if part.name else 0):
        name = part.name
        assert name is not None
        writer = (name.attempt, name.stage, name.subtask)
        wanted = expected.get(writer)
        if wanted is None:
            wanted = name.number if name.attempt == snapshot_attempt else 1
        if name.number != wanted:
            raise CorruptChangelogError(
                f"{table} no longer has part {wanted} of attempt {name.attempt}, stage {name.stage}, subtask "
                f"{name.subtask} (it has {part.path}): it was truncated or removed. "
                f"{restore_hint(lineage, name.checkpoint) if wanted > 1 else restore_hint((), 0)}"
            )
        expected[writer] = name.number + 1
