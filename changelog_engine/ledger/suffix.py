"""What follows a checkpoint on a lineage, and whether all of it is there.

The row of a run's last checkpoint says how many rows and parts each subtask had written by then, and so does the row of the
checkpoint after which the suffix begins. What lies between is due: parts without gaps in their numbers up to the last, or,
where parts were merged, that number of rows.

Invariants:
    * Only files of the lineage are chosen: rows of abandoned branches and dead attempts never are.
    * A suffix that is returned is complete. What is missing is an error that names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.changelog.file_memo import FileMemo
from changelog_engine.changelog.log_files import checksum_of, merged_bounds, read_unchanged
from changelog_engine.changelog.model import Checkpoint, CheckpointMark, Segment
from changelog_engine.changelog.part_selection import PartFile, restore_hint
from changelog_engine.changelog.segments import on_lineage
from changelog_engine.changelog.small_state import LogPosition
from changelog_engine.errors import CorruptChangelogError, NotLoggedError, RestoreError
from changelog_engine.graph.descriptions import keyed_operators
from changelog_engine.graph.key_groups import key_group_range
from changelog_engine.ledger.bounds import Bounds, footer_of_file
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.storage.damaged import reading
from changelog_engine.storage.protocol import Storage

_COUNTS: FileMemo[dict[CheckpointMark, int]] = FileMemo(256)  # of merged files


_START = LogPosition()


@dataclass(frozen=True)
class Suffix:
    """The mutations of a lineage after a checkpoint.

    Args:
        files: parts by checkpoint, stage, subtask, number; merged files first.
        bounds: a part's id -> key groups that a part can have, by its name and its attempt's parallelism.
        firsts: a part's id -> the sequence number of its first row, where the rows say which subtask is which.
        after: the checkpoint after which; None for the beginning.
    """

    files: tuple[PartFile, ...]
    bounds: Mapping[str, Bounds]
    firsts: Mapping[str, int]
    after: int | None

    @property
    def rows(self) -> int:
        """About how many rows there are, by the table's list."""
        return sum(file.rows or 0 for file in self.files)


def follow(
    lineage: Lineage,
    storage: Storage,
    files: Sequence[PartFile],
    snapshots: Collection[CheckpointMark],
    line: Sequence[Segment],
    after: int | None,
) -> Suffix:
    """What follows a checkpoint.

    Args:
        snapshots: those that there are: their checkpoints' rows stay when mutations are truncated.
        line: the lineage, up to the checkpoint that is wanted.
        after: the checkpoint after which; None: from the beginning.

    Raises:
        NotLoggedError: something was truncated, or made while the changelog was off.
        CorruptChangelogError: something was lost or is there twice; names the file, or the part that is not there.
    """
    log = _Log(lineage, storage, snapshots, line, after or 0)
    parts: dict[int, list[PartFile]] = {}
    merged: list[PartFile] = []
    for file in files:
        if file.name is None:
            if log.add_merged(file):
                merged.append(file)
        elif log.wants(mark := file.name.mark):
            parts.setdefault(mark.attempt, []).append(file)
            log.add(mark, file.rows or 0)
    bounds: dict[str, Bounds] = {}
    firsts: dict[str, int] = {}
    for segment in line:
        if segment.last > log.start:
            run = _Run(log, segment)
            mine = sorted(parts.get(segment.attempt, ()), key=lambda part: part.name or ())
            run.check(mine)
            bounds.update(run.bounds(mine))
            firsts.update(run.firsts)
    chosen = sorted((part for some in parts.values() for part in some), key=lambda part: part.name or ())
    return Suffix((*merged, *chosen), bounds, firsts, after)


def counted_rows(storage: Storage, path: str) -> dict[CheckpointMark, int]:
    """How many mutations a merged file has of which checkpoint.

    Raises:
        CorruptChangelogError: it is missing or isn't what it was.
    """
    crc = checksum_of(path)
    if crc is None:  # somebody else's file
        return _counted(storage, path, None)
    return _COUNTS.of(storage.join(path), lambda: _counted(storage, path, crc))


def _counted(storage: Storage, path: str, crc: int | None) -> dict[CheckpointMark, int]:
    with reading(storage.join(path)):
        data = read_unchanged(storage, path, crc)
        names = ["checkpoint_id", "attempt", "sequence"]
        table = pq.ParquetFile(pa.BufferReader(data)).read(names, use_threads=False)
    counted = table.group_by(names[:2]).aggregate([("sequence", "count")])
    columns = (counted[name].to_pylist() for name in (*names[:2], "sequence_count"))
    return {CheckpointMark(*mark): rows for *mark, rows in zip(*columns, strict=True)}


class _Log:
    """What is asked for, and how many rows of which checkpoint there are."""

    def __init__(
        self,
        lineage: Lineage,
        storage: Storage,
        snapshots: Collection[CheckpointMark],
        line: Sequence[Segment],
        start: int,
    ) -> None:
        self.lineage = lineage
        self.storage = storage
        self.snapshots = snapshots
        self.line = line
        self.start = start
        self.rows: dict[CheckpointMark, int] = {}
        self.merged: Counter[int] = Counter()  # attempt -> rows in merged files

    def wants(self, mark: CheckpointMark) -> bool:
        """Whether a checkpoint's mutations belong to the suffix."""
        return mark.checkpoint > self.start and on_lineage(self.line, mark.attempt, mark.checkpoint)

    def add(self, mark: CheckpointMark, rows: int) -> None:
        """Count rows."""
        self.rows[mark] = self.rows.get(mark, 0) + rows

    def add_merged(self, file: PartFile) -> bool:
        """Count the rows of a file with rows of several checkpoints, by its content; whether it has some of these."""
        named = merged_bounds(file.path)
        if named is not None and (named[1] <= self.start or named[0] > self.line[-1].last):
            return False
        found = False
        for mark, rows in counted_rows(self.storage, file.path).items():
            if rows and self.wants(mark):
                found = True
                self.merged[mark.attempt] += rows
                self.add(mark, rows)
        return found

    def row(self, checkpoint: int, attempt: int) -> Checkpoint:
        """The row of a checkpoint of the lineage."""
        root = self.storage.root
        try:
            row = self.lineage.checkpoint(checkpoint)
        except RestoreError as error:
            raise NotLoggedError(
                f"does not have the row of checkpoint {checkpoint} of attempt {attempt} any more: it was truncated "
                "or removed, and so were mutations up to it",
                root,
            ) from error
        if row.attempt != attempt:
            raise CorruptChangelogError(
                f"has checkpoint {checkpoint} of attempt {row.attempt}, and attempt {attempt} is due",
                root,
            )
        return row


class _Run:
    """The part of a suffix that one attempt wrote."""

    def __init__(self, log: _Log, segment: Segment) -> None:
        self.log = log
        self.storage = log.storage
        self.line = log.line
        self.attempt = segment.attempt
        self.first = max(segment.first, log.start + 1)
        self.end = log.row(segment.last, segment.attempt)
        if self.end.snapshot == self.end.id:
            raise NotLoggedError(
                f"has no mutations of checkpoint {self.end.id}: it was made without the changelog, or "
                f"imported, and its snapshot can't be used. {restore_hint(self.line, self.first)}",
                self.storage.root,
            )
        self.due = log_positions(self.end)
        self.begin: dict[tuple[str, int], LogPosition] = {}
        if segment.first <= log.start:
            self.begin = log_positions(log.row(log.start, segment.attempt))
        self.firsts: dict[str, int] = {}

    def check(self, parts: Sequence[PartFile]) -> None:
        """Compare what there is with what is due."""
        writers: dict[tuple[int, int], list[PartFile]] = {}
        for part in parts:
            assert part.name is not None
            writers.setdefault((part.name.stage, part.name.subtask), []).append(part)
        if self.log.merged[self.attempt]:
            self._check_rows(writers, parts, self.log.merged[self.attempt])
        else:
            self._check_parts(writers)

    def _check_parts(self, writers: dict[tuple[int, int], list[PartFile]]) -> None:
        found: dict[int, dict[int, tuple[int, int]]] = {}
        for (stage, subtask), parts in writers.items():
            numbers = _numbers(parts)
            wanted = numbers[0] if self.begin else 1
            for number, part in zip(numbers, parts, strict=True):
                if number != wanted:
                    self._misses(wanted, part)
                wanted += 1
            found.setdefault(stage, {})[subtask] = (numbers[0] - 1, numbers[-1])
        due: dict[str, dict[int, tuple[int, int]]] = {}
        for (uid, subtask), position in self.due.items():
            begin = self.begin.get((uid, subtask), _START)
            if position.parts > begin.parts:
                due.setdefault(uid, {})[subtask] = (begin.parts, position.parts)
        shapes = {stage: frozenset(some.items()) for stage, some in found.items()}
        wanted_shapes = {uid: frozenset(some.items()) for uid, some in due.items()}
        if Counter(shapes.values()) != Counter(wanted_shapes.values()):
            self._differs(
                sum(last - first for some in found.values() for first, last in some.values()),
                sum(last - first for some in due.values() for first, last in some.values()),
                "parts",
            )
        by_shape: dict[frozenset[tuple[int, tuple[int, int]]], list[str]] = {}
        for uid, shape in wanted_shapes.items():
            by_shape.setdefault(shape, []).append(uid)
        for (stage, subtask), parts in writers.items():
            uids = by_shape[shapes[stage]]
            if len(uids) == 1:
                self._check_sequences(
                    parts, self.begin.get((uids[0], subtask), _START), self.due[uids[0], subtask]
                )

    def _check_sequences(self, parts: list[PartFile], begin: LogPosition, end: LogPosition) -> None:
        """Where each part's sequence numbers begin: as many rows as the list says of the parts are those that are due."""
        next_sequence = begin.rows
        for part in parts:
            self.firsts[part.id] = next_sequence
            next_sequence += self._rows(part)
        if next_sequence != end.rows:
            self._differs(
                next_sequence - begin.rows,
                end.rows - begin.rows,
                f"mutations of {parts[0].path} and after it",
            )

    def _check_rows(
        self,
        writers: dict[tuple[int, int], list[PartFile]],
        parts: Sequence[PartFile],
        merged_rows: int,
    ) -> None:
        for some in writers.values():
            numbers = _numbers(some)
            for number, part, before in zip(numbers[1:], some[1:], numbers, strict=False):
                if number == before:
                    self._misses(before + 1, part)
        there = merged_rows + sum(self._rows(part) for part in parts)
        due = sum(
            position.rows - self.begin.get(writer, _START).rows for writer, position in self.due.items()
        )
        if there != due:
            self._differs(there, due, "mutations")

    def _rows(self, part: PartFile) -> int:
        if part.rows is not None:
            return part.rows
        return int(footer_of_file(self.storage, part.path).num_rows)

    def _kind(self) -> type[CorruptChangelogError]:
        """Whether what is missing was truncated, or lost.

        Truncation takes all mutations of a checkpoint and its row; the row stays where the checkpoint has a snapshot.
        """
        truncated = False
        for number in range(self.first, self.end.id + 1):
            if number not in self.log.lineage.checkpoints:
                truncated = True
                continue
            due, mark = self.log.lineage.checkpoint(number).rows, CheckpointMark(number, self.attempt)
            there = self.log.rows.get(mark, 0)
            if there == 0 and due and mark in self.log.snapshots:
                truncated = True
            elif there != due:
                return CorruptChangelogError
        return NotLoggedError if truncated else CorruptChangelogError

    def _misses(self, wanted: int, part: PartFile) -> None:
        name = part.name
        assert name is not None
        hint = restore_hint(self.line, name.checkpoint) if wanted > 1 else restore_hint((), 0)
        raise self._kind()(
            f"{self.storage.root} no longer has part {wanted} of attempt {name.attempt}, stage {name.stage}, subtask "
            f"{name.subtask} (it has {part.path}): it was truncated or removed. {hint}",
            self.storage.join(part.path),
        )

    def _differs(self, there: int, due: int, what: str) -> None:
        raise self._kind()(
            f"{self.storage.root} does not have what its checkpoints count: attempt {self.attempt} has {there} of {due} "
            f"{what} in checkpoints {self.first} to {self.end.id}. {restore_hint(self.line, self.first)}",
            self.storage.root,
        )

    def bounds(self, parts: Sequence[PartFile]) -> dict[str, Bounds]:
        """The key groups that parts can have: a subtask has those that its number gives it in any of the job's shapes."""
        shapes = {
            (operator.max_parallelism, operator.parallelism)
            for operator in keyed_operators(self.end.operators)
        }
        ranges: dict[int, Bounds | None] = {}
        found = {}
        for part in parts:
            assert part.name is not None
            subtask = part.name.subtask
            if subtask not in ranges:
                ranges[subtask] = _hull(shapes, subtask)
            bounds = ranges[subtask]
            if bounds is not None:
                found[part.id] = bounds
        return found


def _hull(shapes: set[tuple[int, int]], subtask: int) -> Bounds | None:
    owned = [
        key_group_range(subtask, max_parallelism, parallelism)
        for max_parallelism, parallelism in shapes
        if subtask < parallelism
    ]
    if not owned:
        return None
    return Bounds(None, min(groups.start for groups in owned), max(groups.stop for groups in owned) - 1)


def log_positions(checkpoint: Checkpoint) -> dict[tuple[str, int], LogPosition]:
    """What each subtask, by its stage's uid, had committed with a checkpoint, in the checkpoint's attempt."""
    return {
        (uid, subtask): state.log
        for uid, subtask, state in checkpoint.small_states()
        if state.log is not None
    }


def _numbers(parts: Sequence[PartFile]) -> list[int]:
    return [part.name.number for part in parts if part.name is not None]
