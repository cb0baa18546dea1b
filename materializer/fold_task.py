"""The fold of one range of key groups of one operator: previous pieces and log rows in, new pieces out.

It is a plain function of a task that pickles, so it runs here, in another process, or in a Spark task.

Invariants:
    * Nothing refers to the files it writes until the driver commits them.
    * It gives the same files, byte for byte, when it runs again on the same task.
    * Memory is bounded by the live rows of the range and one part of the log, however long the log is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.condensing import DICTIONARIES, Condensing
from changelog_engine.changelog.fold import RowsByState, group_by_state
from changelog_engine.changelog.model import Part, RestorePoint
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.part_writer import ROW_GROUP_ROWS, PartWriter
from changelog_engine.changelog.row_filter import in_groups
from changelog_engine.changelog.snapshot_row import ENTRIES, TIMERS, Piece
from changelog_engine.ledger import snapshots
from changelog_engine.ledger.reading import read_suffix
from changelog_engine.state.backend import TIMER_STATES
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage
from materializer.pieces import cut

_COLUMNS = (
    "operator", "state", "key_group", "key", "namespace", "map_key", "operation", "value", "payload", "event_time",
)  # fmt: skip


class FoldTask(NamedTuple):
    """What to fold.

    Args:
        after: the checkpoint of the previous snapshot, None for none.
        operator: uid.
        stage: number of the operator in names of files.
        subtask: the first key group, in names of files.
        cells: into how many pieces entries are cut.
        base: pieces of the previous snapshot that may hold rows of these, with the files as the table lists them.
    """

    point: RestorePoint
    attempt: int
    after: int | None
    operator: str
    stage: int
    subtask: int
    groups: range
    cells: int
    base: tuple[tuple[Piece, PartFile], ...]


class FoldResult(NamedTuple):
    """What came out.

    Args:
        kept: pieces of the previous snapshot that still hold.
    """

    written: list[tuple[Piece, Part]]
    kept: list[Piece]
    rows: int


def fold_range(task: FoldTask) -> FoldResult:
    """Fold one range.

    Raises:
        CorruptChangelogError: a file is missing or isn't what it was.
        StorageError: it could not be read or written.
    """
    log = Condensing(at_once=True)
    for table in read_suffix(
        task.point, task.after, task.groups, frozenset([task.operator]), DICTIONARIES, _COLUMNS
    ):
        log.add(table)
    storage = snapshots.beside(open_storage(task.point.table))
    written: list[tuple[Piece, Part]] = []
    kept: list[Piece] = []
    wanted = [(TIMERS, task.groups), *((ENTRIES, groups) for groups in cut(task.groups, task.cells))]
    for kind, groups in wanted:
        base = [pair for pair in task.base if pair[0].may_hold(task.operator, kind, groups)]
        changes = _rows_of(log, kind, groups)
        if not changes and len(base) <= 1 and all(p.stands_for(task.operator, kind, groups) for p, _ in base):
            kept.extend(piece for piece, _ in base)
            continue
        states: RowsByState = {}
        for piece, file in base:
            table = read_part(storage, file, DICTIONARIES, _COLUMNS)
            exact = piece.stands_for(task.operator, kind, groups)
            _gather(states, table if exact else _only(table, task.operator, kind, groups))
        for table in changes:
            _gather(states, table)
        part = _write(task, groups, states, storage, len(written) + 1)
        if part is not None:
            written.append((Piece(part.path, task.operator, kind, groups.start, groups.stop - 1), part))
    return FoldResult(written, kept, log.rows)


def _rows_of(log: Condensing, kind: str, groups: range) -> list[pa.Table]:
    """The condensed rows of some key groups, in log order within each state."""
    found: list[pa.Table] = []
    for (_, state), tables in log.tables().items():
        if (state in TIMER_STATES) == (kind == TIMERS):
            found.extend(part for table in tables if (part := in_groups(table, groups)).num_rows)
    return found


def _gather(states: RowsByState, table: pa.Table) -> None:
    if table.num_rows:
        for name, pieces in group_by_state([table]).items():
            states.setdefault(name, []).extend(pieces)


def _only(table: pa.Table, operator: str, kind: str, groups: range) -> pa.Table:
    table = in_groups(table, groups)
    timers = pc.is_in(table["state"], value_set=pa.array(sorted(TIMER_STATES)))
    return table.filter(
        pc.and_(pc.equal(table["operator"], operator), timers if kind == TIMERS else pc.invert(timers))
    )


def _write(task: FoldTask, groups: range, states: RowsByState, storage: Storage, number: int) -> Part | None:
    """Write the live rows as one part; None when nothing is left."""
    assert task.point.checkpoint is not None
    writer = PartWriter(
        storage.root,
        checkpoint_id=task.point.checkpoint,
        attempt=task.attempt,
        stage=task.stage,
        subtask=task.subtask,
        number=number,
        first_sequence=0,
        key_groups=groups,
        storage=storage,
    )
    for _, tables in sorted(states.items()):
        for rows in _chunks(fold_state(tables)):
            columns = {name: rows[name] for name in _COLUMNS if rows[name].null_count < rows.num_rows}
            writer.write(rows.num_rows, columns)
    return writer.finish(background=True) if writer.rows else None


def _chunks(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, ROW_GROUP_ROWS):
        yield table.slice(start, ROW_GROUP_ROWS)
