"""The rows that a state is restored from: of the newest usable snapshot of a lineage, then of the log after it.

Invariants:
    * Rows are those of a lineage and of a range of key groups; for one key group they come in the order of (checkpoint,
      sequence).
    * The ledger says which files these are, and that none is missing, before any is read; what was read is compared with
      what was promised: the checksum, the number of rows, and where each subtask's sequence numbers begin and end.
    * A corrupt snapshot is replaced by an older one and a longer piece of log, when the log is complete. Otherwise what is
      corrupt or missing is an error that names it; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog import segments
from changelog_engine.changelog.condensing import CONDENSE_ROWS, DICTIONARIES, without_passed
from changelog_engine.changelog.model import Checkpoint, RestorePoint, Segment
from changelog_engine.changelog.oversized import takeable, taken
from changelog_engine.changelog.part_reader import read_part, read_rows
from changelog_engine.changelog.part_selection import PartFile, restore_hint
from changelog_engine.changelog.row_filter import RowFilter, mask_of_groups
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.graph.descriptions import keyed_operators
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS, key_group_range
from changelog_engine.ledger.ledger import Base, Ledger
from changelog_engine.ledger.snapshots import warn_unusable
from changelog_engine.ledger.suffix import Suffix
from changelog_engine.storage.protocol import Storage

Taken = TypeVar("Taken")
Tell = Callable[[int, int], None]
_MANY_ROWS = 4_000_000  # fewer are decoded faster than they are folded


def read_parts(
    point: RestorePoint,
    key_groups: range,
    operators: frozenset[str] | None = None,
    ledger: Ledger | None = None,
    tell: Tell | None = None,
    wanted: RowFilter | None = None,
) -> Iterator[pa.Table]:
    """The rows that make up the state of a checkpoint: its snapshot first, then the log after it.

    Args:
        key_groups: key groups of the subtask.
        operators: uids of its operators; None for all.
        ledger: of the changelog, if it was read just now.
        tell: is told how many rows were read more, and their bytes in the files.
        wanted: finds the rows that are wanted, all rows of an entry or none; None for all.

    Yields:
        Tables with the changelog's columns (``operator``, ``state`` and ``operation`` as dictionaries), for each state in
        log order. All of them were verified. Of a long log, rows that later ones make void are left out.

    Raises:
        CorruptChangelogError: a file is missing or isn't what it was; names the file and what can still be restored.
    """
    if point.checkpoint is None:
        return
    reader = _Reader(point, key_groups, operators, ledger=ledger, tell=tell, wanted=wanted)
    for base in reader.bases():
        try:
            tables = list(reader.rows_of(base))
        except CorruptChangelogError as error:
            reader.note(base, error)
            continue
        reader.warn()
        yield from tables
        yield from reader.passing(base.suffix, None)
        return


def give_parts(
    take: Callable[[Iterable[pa.Table]], Taken],
    point: RestorePoint,
    key_groups: range,
    operators: frozenset[str] | None = None,
    tell: Tell | None = None,
    wanted: RowFilter | None = None,
) -> Taken:
    """As ``read_parts``, with no more than one file's rows, or a million and a part of the log, in memory.

    Merged files of the log are the exception: their rows are put into order together. Only restores of checkpoints before
    the newest snapshot read them.

    Args:
        take: is given the rows, and again those of an older snapshot when a file of the first turns out to be corrupt.

    Returns:
        What ``take`` made of them.

    Raises:
        CorruptChangelogError: a file is missing or isn't what it was.
    """
    if point.checkpoint is None:
        return take(())
    reader = _Reader(point, key_groups, operators, tell=tell, wanted=wanted)
    for base in reader.bases():
        try:
            found = take(reader.all_rows(base, CONDENSE_ROWS))
        except CorruptChangelogError as error:
            if reader.in_log:
                raise
            reader.note(base, error)
        else:
            reader.warn()
            return found
    raise AssertionError("the last base is the whole log, or an error")


def read_suffix(
    point: RestorePoint,
    after: int | None,
    key_groups: range,
    operators: frozenset[str] | None = None,
    dictionaries: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    wanted: RowFilter | None = None,
) -> Iterator[pa.Table]:
    """The log's rows of a lineage after a checkpoint, as ``read_parts`` gives them, without any snapshot.

    Args:
        point: the checkpoint up to which.
        after: the checkpoint after which; None for the whole lineage.

    Raises:
        CorruptChangelogError: a file is missing or isn't what it was.
    """
    reader = _Reader(point, key_groups, operators, dictionaries, columns, wanted=wanted)
    return reader.suffix(reader.ledger.following(point.lineage, after))


def read_history(
    ledger: Ledger,
    checkpoint: Checkpoint,
    base: Base,
    key_groups: range,
    operators: frozenset[str],
    threads: int,
    dictionaries: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    wanted: RowFilter | None = None,
) -> tuple[Iterator[pa.Table], Iterator[pa.Table]]:
    """The rows of a base's snapshot, and those of the log from there to a checkpoint; see ``read_parts``.

    Args:
        threads: how many read files at once, for one who keeps all rows: with several, files are read ahead without bound.
    """
    point = RestorePoint(ledger.storage.root, checkpoint.id, checkpoint.lineage, base.checkpoint)
    reader = _Reader(point, key_groups, operators, dictionaries, columns, ledger, None, threads, wanted)
    return reader.rows_of(base), reader.suffix(base.suffix)


def read_file(
    storage: Storage,
    file: PartFile,
    suffix: Suffix,
    line: Sequence[Segment],
) -> pa.Table:
    """The mutations of one file of a suffix, verified, in the file's order.

    Raises:
        CorruptChangelogError: the file is missing or isn't what it was.
    """
    table = read_part(storage, file, first_sequence=suffix.firsts.get(file.id))
    return table if file.name else lineage_rows(table, line, suffix.after)


class RestoreSize(NamedTuple):
    """How much the restore of a checkpoint reads, in all subtasks together.

    Args:
        snapshot: the checkpoint whose snapshot it begins with; None for the log alone.
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


class _Reader:
    """One restore of one subtask."""

    def __init__(
        self,
        point: RestorePoint,
        key_groups: range,
        operators: frozenset[str] | None,
        dictionaries: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        ledger: Ledger | None = None,
        tell: Tell | None = None,
        threads: int = 1,
        wanted: RowFilter | None = None,
    ) -> None:
        self.point = point
        self.wanted = wanted
        self.threads = threads
        self.tell = tell
        self.key_groups = key_groups
        self.operators = operators
        self.dictionaries = dictionaries
        self.columns = list(SCHEMA.names if columns is None else columns)
        self.ledger = ledger or Ledger.at(point.table)
        self.in_log = False  # whether ``all_rows`` has come past the snapshot
        self._passed_over: list[tuple[Base, CorruptChangelogError]] = []

    def bases(self) -> Iterator[Base]:
        """What a restore may begin with, the newest snapshot first; the next is tried when one is found corrupt (``note``).

        Looks at what is there now: the snapshot that was the newest when the restore was planned may have been replaced
        by a newer one since, and the log before that truncated.
        """
        try:
            yield from self.ledger.bases(self.point.lineage)
        except CorruptChangelogError as error:
            raise self._first_error or error from None
        if self._first_error is not None:
            raise self._first_error

    @property
    def _first_error(self) -> CorruptChangelogError | None:
        return self._passed_over[0][1] if self._passed_over else None

    def note(self, base: Base, error: CorruptChangelogError) -> None:
        """Keep what was wrong with a snapshot: the first is raised when none can be used."""
        self._passed_over.append((base, error))

    def warn(self) -> None:
        """Say what was wrong with snapshots that another one takes the place of."""
        for base, error in self._passed_over:
            if base.checkpoint is not None:
                warn_unusable(base.checkpoint, error)

    def rows_of(self, base: Base) -> Iterator[pa.Table]:
        """A snapshot's rows of this subtask, file by file."""
        storage = self.ledger.snapshots.storage

        def read(part: PartFile) -> pa.Table:
            if self.wanted is not None:
                table = read_rows(storage, part, self.wanted)
            else:
                table = read_part(storage, part, self.dictionaries)
            return self._told(part, self._filtered(table)).select(self.columns)

        yield from self._each(read, self.ledger.snapshot_files(base, self.key_groups, self.operators))

    def all_rows(self, base: Base, at_a_time: int | None) -> Iterator[pa.Table]:
        """A snapshot's rows and those of the log after it."""
        yield from self.rows_of(base)
        self.in_log = True
        yield from self.passing(base.suffix, at_a_time)

    def passing(self, suffix: Suffix, at_a_time: int | None) -> Iterator[pa.Table]:
        """The log's rows after a snapshot; of a long log only those that matter, a bounded number at a time."""
        files = self.ledger.log_files(suffix, self.key_groups, self.operators)
        if self.wanted is not None or sum(part.rows or 0 for part in files) <= _MANY_ROWS:
            yield from self._of(suffix, files)
        else:
            self.dictionaries = DICTIONARIES
            yield from without_passed(self._of(suffix, files), at_a_time)

    def size(self) -> RestoreSize:
        base = next(self.ledger.bases(self.point.lineage))
        files = () if base.snapshot is None else base.snapshot.files
        return RestoreSize(
            base.checkpoint,
            sum(part.rows or 0 for part in files),
            sum(part.size for part in files),
            base.suffix.rows,
            sum(part.size for part in base.suffix.files),
        )

    def suffix(self, suffix: Suffix) -> Iterator[pa.Table]:
        """The log's rows after a checkpoint."""
        yield from self._of(suffix, self.ledger.log_files(suffix, self.key_groups, self.operators))

    def _of(self, suffix: Suffix, files: Sequence[PartFile]) -> Iterator[pa.Table]:
        if any(part.name is None for part in files):
            yield self._interleaved(files, suffix)
            return

        def read(part: PartFile) -> pa.Table:
            table = self._read(part, suffix.firsts.get(part.id), self.columns)
            return self._told(part, self._filtered(table)).select(self.columns)

        yield from self._each(read, files)

    def _each(self, read: Callable[[PartFile], pa.Table], files: Sequence[PartFile]) -> Iterator[pa.Table]:
        if self.threads == 1:
            yield from (read(part) for part in files)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                yield from pool.map(read, files)

    def _read(self, part: PartFile, first: int | None, columns: Sequence[str] | None = None) -> pa.Table:
        names = columns and [n for n in SCHEMA.names if n in (*columns, "key_group", "operator")]
        try:
            if self.wanted is not None:
                return read_rows(self.ledger.storage, part, self.wanted, first)
            return read_part(self.ledger.storage, part, self.dictionaries, names, first)
        except CorruptChangelogError as error:
            checkpoint = part.name.checkpoint if part.name else part.first_checkpoint or 0
            hint = restore_hint(self.point.lineage, checkpoint)
            raise CorruptChangelogError(f"{error.fault}. {hint}", error.path) from error

    def _interleaved(self, parts: Sequence[PartFile], suffix: Suffix) -> pa.Table:
        """Merged files may overlap with any other: put all rows into log order."""
        tables = []
        for part in parts:
            table = self._read(part, None)
            table = table if part.name else lineage_rows(table, self.point.lineage, suffix.after)
            tables.append(self._told(part, self._filtered(table)))
        table = pa.concat_tables(tables)
        order = pc.sort_indices(table, [("checkpoint_id", "ascending"), ("sequence", "ascending")])
        columns = [taken(takeable(table[name]), order, table[name].type) for name in self.columns]
        return pa.table(columns, schema=pa.schema([table.schema.field(name) for name in self.columns]))

    def _told(self, part: PartFile, table: pa.Table) -> pa.Table:
        if self.tell is not None:
            self.tell(table.num_rows, part.size * table.num_rows // max(1, part.rows or 0))
        return table

    def _filtered(self, table: pa.Table) -> pa.Table:
        """The rows of this subtask, by what is in them."""
        mask = mask_of_groups(table["key_group"], self.key_groups)
        if self.operators is not None and not _only(table["operator"], self.operators):
            wanted = pc.is_in(table["operator"], value_set=pa.array(sorted(self.operators), pa.string()))
            mask = wanted if mask is None else pc.and_(mask, wanted)
        return table if mask is None else table.filter(mask)


def _only(column: pa.ChunkedArray, operators: frozenset[str]) -> bool:
    """Whether a column of dictionaries has these operators only, as far as its dictionaries tell."""
    return all(
        pa.types.is_dictionary(chunk.type) and operators.issuperset(chunk.dictionary.to_pylist())
        for chunk in column.chunks
    )


class StateShare(NamedTuple):
    """A part of a checkpoint's state that is folded at once."""

    stage: int  # number of the operators' shape, from 0
    subtask: int  # of those that the shape has
    groups: range
    operators: frozenset[str]  # uids of all operators with this parallelism and max parallelism


def shares(checkpoint: Checkpoint) -> Iterator[StateShare]:
    """All keyed state of a checkpoint, cut by operators of one parallelism and by their subtasks."""
    alike: dict[tuple[int, int], set[str]] = {}
    for operator in keyed_operators(checkpoint.operators):
        shape = operator.max_parallelism, operator.parallelism
        alike.setdefault(shape, set()).add(operator.uid)
    for stage, ((max_parallelism, parallelism), uids) in enumerate(alike.items()):
        for subtask in range(parallelism):
            groups = key_group_range(subtask, max_parallelism, parallelism)
            yield StateShare(stage, subtask, groups, frozenset(uids))


def lineage_rows(table: pa.Table, lineage: Sequence[Segment], after: int | None) -> pa.Table:
    """The rows of a merged file that are mutations on the lineage, after a snapshot."""
    mutation = pc.is_valid(table["sequence"])
    return table.filter(pc.and_(on_segments(table, segments.after(lineage, after or 0)), mutation))


def on_segments(table: pa.Table, given: Iterable[Segment]) -> pa.Array:
    """Of each row whether its checkpoint and attempt are in one of the segments."""
    checkpoint, attempt = table["checkpoint_id"], table["attempt"]
    found: Any = pa.array(np.zeros(table.num_rows, np.bool_))
    for segment in given:
        within = pc.and_(pc.greater_equal(checkpoint, segment.first), pc.less_equal(checkpoint, segment.last))
        found = pc.or_(found, pc.and_(pc.equal(attempt, segment.attempt), within))
    return found
