"""The rows that a state is restored from: of the newest usable snapshot of a lineage, then of the log after it.

Invariants:
    * Rows are those of a lineage and of a range of key groups; for one key group they come in the order of (checkpoint,
      sequence).
    * A corrupt snapshot is replaced by an older one and a longer piece of log, when the log is complete. Otherwise what is
      corrupt or missing is an error that names it; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.completeness import is_complete
from changelog_engine.changelog.condensing import CONDENSE_ROWS, DICTIONARIES, without_passed
from changelog_engine.changelog.log_files import SNAPSHOT, parse_row
from changelog_engine.changelog.model import RestorePoint, Segment
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import (
    PartFile,
    attempt_of,
    check_complete,
    on_lineage,
    part_files,
    restore_hint,
    select_suffix,
)
from changelog_engine.changelog.row_files import read_marker
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.filesystem import Storage

SNAPSHOTS = "snapshots"
Taken = TypeVar("Taken")
_MANY_ROWS = 4_000_000  # fewer are decoded faster than they are folded


def read_parts(
    point: RestorePoint,
    key_groups: range,
    operators: frozenset[str] | None = None,
) -> Iterator[pa.Table]:
    """The rows that make up the state of a checkpoint: its snapshot first, then the log after it.

    Args:
        point: the checkpoint.
        key_groups: key groups of the subtask.
        operators: uids of its operators; None for all.

    Yields:
        Tables with the changelog's columns (``operator``, ``state`` and ``operation`` as dictionaries), for each state in
        log order. All of them were verified. Of a long log, rows that later ones make void are left out.

    Raises:
        CorruptChangelogError: a file is missing or isn't what it was; names the file and what can still be restored.
    """
    if point.checkpoint is None:
        return
    reader = _Reader(point, key_groups, operators)
    for base in reader.bases():
        try:
            tables = list(reader.rows_of(base))
        except CorruptChangelogError as error:
            reader.note(error)
            continue
        yield from tables
        yield from reader.passing(base.snapshot, None)
        return


def give_parts(
    take: Callable[[Iterable[pa.Table]], Taken],
    point: RestorePoint,
    key_groups: range,
    operators: frozenset[str] | None = None,
) -> Taken:
    """As ``read_parts``, with no more than one file's rows, or a million and a part of the log, in memory.

    Merged files of the log are the exception: their rows are put into order together. Only restores of checkpoints before
    the newest snapshot read them.

    Args:
        take: is given the rows, and again those of an older snapshot when a file of the first turns out to be corrupt.
        point: the checkpoint.
        key_groups: see ``read_parts``.
        operators: see ``read_parts``.

    Returns:
        What ``take`` made of them.

    Raises:
        CorruptChangelogError: a file is missing or isn't what it was.
    """
    if point.checkpoint is None:
        return take(())
    reader = _Reader(point, key_groups, operators)
    for base in reader.bases():
        try:
            return take(reader.all_rows(base, CONDENSE_ROWS))
        except CorruptChangelogError as error:
            if reader.in_log:
                raise
            reader.note(error)
    raise AssertionError("the last base is the whole log, or an error")


def read_suffix(
    point: RestorePoint,
    after: int | None,
    key_groups: range,
    operators: frozenset[str] | None = None,
    dictionaries: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """The log's rows of a lineage after a checkpoint, as ``read_parts`` gives them, without any snapshot.

    Args:
        point: the checkpoint up to which.
        after: the checkpoint after which; None for the whole lineage.
        key_groups: see ``read_parts``.
        operators: see ``read_parts``.
        dictionaries: see ``read_part``.
        columns: see ``read_part``.

    Raises:
        CorruptChangelogError: a file is missing or isn't what it was.
    """
    return _Reader(point, key_groups, operators, dictionaries, columns).suffix(after)


def is_logged(point: RestorePoint, after: int | None, last: int) -> bool:
    """Whether the log has every part of a lineage after a checkpoint (None: from the beginning) up to another."""
    return _Reader(point, range(0), None)._logged(after, last)


class RestoreSize(NamedTuple):
    """How much the restore of a checkpoint reads, in all subtasks together.

    Args:
        snapshot: the checkpoint whose snapshot it begins with; None for the log alone.
        snapshot_rows, snapshot_bytes: of its files.
        log_rows, log_bytes: of the log after it.
    """

    snapshot: int | None
    snapshot_rows: int
    snapshot_bytes: int
    log_rows: int
    log_bytes: int


def restore_size(point: RestorePoint) -> RestoreSize:
    """How much the restore of a checkpoint reads, from what the tables list.

    Args:
        point: the checkpoint and the newest snapshot that it goes by.

    Raises:
        CorruptChangelogError: the snapshot cannot be used.
        StorageError: a table cannot be read.
    """
    return _Reader(point, ALL_KEY_GROUPS, None).size()


class _Base(NamedTuple):
    """What a restore begins with: the files of a snapshot that may hold rows of the subtask, or nothing."""

    snapshot: int | None
    storage: Storage
    parts: list[PartFile]


class _Reader:
    """One restore of one subtask."""

    def __init__(
        self,
        point: RestorePoint,
        key_groups: range,
        operators: frozenset[str] | None,
        dictionaries: Sequence[str] = (),
        columns: Sequence[str] | None = None,
    ) -> None:
        self.point = point
        self.key_groups = key_groups
        self.operators = operators
        self.dictionaries = dictionaries
        self.columns = list(SCHEMA.names if columns is None else columns)
        self.changelog = Storage(point.table)
        self.listing = DeltaLog(self.changelog).files()
        self.files = part_files(self.listing)
        self.in_log = False  # whether ``all_rows`` has come past the snapshot
        self._first_error: CorruptChangelogError | None = None

    def bases(self) -> Iterator[_Base]:
        """What a restore may begin with, the newest snapshot first; the next is tried when one is found corrupt (``note``).

        Looks at what is there now: the snapshot that was the newest when the restore was planned may have been replaced
        by a newer one since, and the log before that truncated.
        """
        storage, files, markers = self._snapshots()
        newest = max(markers, default=self.point.snapshot)
        if newest is None:
            yield _Base(None, storage, [])
            return
        for snapshot in sorted(markers, reverse=True):
            if snapshot < newest and not self._logged(snapshot, newest):
                break
            try:
                parts = self._snapshot_parts(storage, files, snapshot, markers[snapshot])
            except CorruptChangelogError as error:
                self.note(error)
                continue
            yield _Base(snapshot, storage, parts)
        if self._logged(None, newest):
            yield _Base(None, storage, [])
            return
        raise self._first_error or CorruptChangelogError(
            f"{storage.root} has no complete snapshot of checkpoint {newest}: it was removed. Restore a newer checkpoint"
        )

    def note(self, error: CorruptChangelogError) -> None:
        """Keep what was wrong with a snapshot: the first is raised when none can be used."""
        self._first_error = self._first_error or error

    def rows_of(self, base: _Base) -> Iterator[pa.Table]:
        """A snapshot's rows of this subtask, file by file."""
        for part in base.parts:
            yield self._filtered(read_part(base.storage, part), part)

    def all_rows(self, base: _Base, at_a_time: int | None) -> Iterator[pa.Table]:
        """A snapshot's rows and those of the log after it."""
        yield from self.rows_of(base)
        self.in_log = True
        yield from self.passing(base.snapshot, at_a_time)

    def passing(self, after: int | None, at_a_time: int | None) -> Iterator[pa.Table]:
        """The log's rows after a snapshot; of a long log only those that matter, of so many rows at a time."""
        if self.suffix_rows(after) <= _MANY_ROWS:
            yield from self.suffix(after)
        else:
            self.dictionaries = DICTIONARIES
            yield from without_passed(self.suffix(after), at_a_time)

    def _snapshots(self) -> tuple[Storage, dict[str, PartFile], dict[int, str]]:
        """The table of snapshots, its files, and the markers of the snapshots that the checkpoint can be restored by."""
        storage = Storage(self.changelog.root.rpartition("/")[0]).child(SNAPSHOTS)
        if not DeltaLog.exists(storage):
            return storage, {}, {}
        listing = DeltaLog(storage).files()
        files = {file.path: file for file in part_files(listing)}
        return storage, files, _markers(listing, self.point.lineage, self.point.checkpoint or 0)

    def _snapshot_parts(
        self, storage: Storage, files: dict[str, PartFile], snapshot: int, marker: str
    ) -> list[PartFile]:
        document = read_marker(storage, marker)
        if "files" in document:  # it shares parts with older ones
            parts = [files[path] for path, *_ in document["files"] if path in files]
        else:
            attempt = attempt_of(self.point.lineage, snapshot)
            parts = [
                f
                for f in files.values()
                if f.name and f.name.checkpoint == snapshot and f.name.attempt == attempt
            ]
            parts.sort(key=lambda part: part.name or ())
        if len(parts) != document["parts"]:
            raise CorruptChangelogError(
                f"the snapshot of checkpoint {snapshot} in {storage.root} has {len(parts)} parts, not {document['parts']}"
            )
        return [part for part in parts if part.may_hold(self.key_groups, self.operators)]

    def _logged(self, after: int | None, newest: int) -> bool:
        """Whether every part after a checkpoint, up to the snapshot that can't be used, is in the log."""
        return is_complete(self.changelog, self.listing, self.files, self.point.lineage, after, newest)

    def size(self) -> RestoreSize:
        """See ``restore_size``."""
        storage, files, markers = self._snapshots()
        newest = max(markers, default=None)
        base = [] if newest is None else self._snapshot_parts(storage, files, newest, markers[newest])
        log = select_suffix(self.files, self.point.lineage, newest)
        return RestoreSize(
            newest,
            sum(part.rows or 0 for part in base),
            sum(part.size for part in base),
            sum(part.rows or 0 for part in log),
            sum(part.size for part in log),
        )

    def suffix_rows(self, after: int | None) -> int:
        """About how many rows the log has after a snapshot."""
        parts = select_suffix(self.files, self.point.lineage, after)
        return sum(part.rows or 0 for part in parts if part.may_hold(self.key_groups, self.operators))

    def suffix(self, after: int | None) -> Iterator[pa.Table]:
        """The log's rows after a snapshot."""
        lineage = self.point.lineage
        parts = select_suffix(self.files, lineage, after)
        check_complete(parts, lineage, after, self.changelog.root)
        wanted = [part for part in parts if part.may_hold(self.key_groups, self.operators)]
        if any(part.name is None for part in wanted):
            yield self._interleaved(wanted, after)
            return
        for part in wanted:
            yield self._read(part, self.columns)

    def _read(self, part: PartFile, columns: Sequence[str] | None = None) -> pa.Table:
        try:
            return self._filtered(read_part(self.changelog, part, self.dictionaries, columns), part)
        except CorruptChangelogError as error:
            checkpoint = part.name.checkpoint if part.name else part.first_checkpoint or 0
            raise CorruptChangelogError(f"{error}. {restore_hint(self.point.lineage, checkpoint)}") from error

    def _interleaved(self, parts: Sequence[PartFile], after: int | None) -> pa.Table:
        """Merged files may overlap with any other: put all rows into log order."""
        tables = []
        for part in parts:
            table = self._read(part)
            tables.append(table if part.name else _lineage_rows(table, self.point.lineage, after))
        table = pa.concat_tables(tables).sort_by([("checkpoint_id", "ascending"), ("sequence", "ascending")])
        return table.select(self.columns)

    def _filtered(self, table: pa.Table, part: PartFile) -> pa.Table:
        mask = None
        groups = self.key_groups
        low, high = part.first_key_group, part.last_key_group
        if low is None or high is None or low < groups.start or high >= groups.stop:
            column = table["key_group"]
            mask = pc.and_(pc.greater_equal(column, groups.start), pc.less(column, groups.stop))
        if self.operators is not None and not (
            part.first_operator == part.last_operator and part.first_operator in self.operators
        ):
            wanted = pc.is_in(table["operator"], value_set=pa.array(sorted(self.operators), pa.string()))
            mask = wanted if mask is None else pc.and_(mask, wanted)
        return table if mask is None else table.filter(mask)


def _markers(listing: pa.Table, lineage: Sequence[Segment], newest: int) -> dict[int, str]:
    """Complete snapshots of a lineage, up to the newest one wanted: checkpoint -> file that says it is complete."""
    found = {}
    for path in listing["path"].to_pylist():
        name = parse_row(path)
        if name is None or name.operation != SNAPSHOT or name.checkpoint > newest:
            continue
        if on_lineage(lineage, name.attempt, name.checkpoint):
            found[name.checkpoint] = path
    return found


def _lineage_rows(table: pa.Table, lineage: Sequence[Segment], after: int | None) -> pa.Table:
    """The rows of a merged file that are mutations on the lineage, after a snapshot."""
    checkpoint, attempt = table["checkpoint_id"], table["attempt"]
    mask = None
    for segment in lineage:
        first = segment.first if after is None else max(segment.first, after + 1)
        here = pc.and_(
            pc.equal(attempt, segment.attempt),
            pc.and_(pc.greater_equal(checkpoint, first), pc.less_equal(checkpoint, segment.last)),
        )
        mask = here if mask is None else pc.or_(mask, here)
    if mask is None:
        return table.slice(0, 0)
    mutation = pc.is_valid(table["sequence"])
    return table.filter(pc.and_(mask, mutation))
