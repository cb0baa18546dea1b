"""What a materialization will do: of which checkpoint, from which snapshot on, in which tasks.

Invariant: a plan is of one checkpoint, its lineage, and one complete snapshot on that lineage (or none): nothing off the
lineage is ever read.
"""

from __future__ import annotations

from typing import NamedTuple

from changelog_engine.changelog.model import Checkpoint, RestorePoint
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.part_stats import operators_of
from changelog_engine.changelog.segments import after
from changelog_engine.changelog.snapshot_row import Piece
from changelog_engine.errors import CorruptChangelogError, RestoreError
from changelog_engine.graph.descriptions import keyed_operators
from changelog_engine.graph.key_groups import key_group_range
from changelog_engine.ledger.bounds import check_listed, footer_of_file
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ledger import Base, Ledger
from changelog_engine.ledger.snapshots import warn_unusable
from materializer.fold_task import FoldTask
from materializer.pieces import pieces_of

PIECE_BYTES = 16 * 1024 * 1024
_MOST_CELLS = 1024
_ALL_KEY_GROUPS = range(32_768)


class SnapshotPlan(NamedTuple):
    """A materialization to be done.

    Args:
        previous: the checkpoint of the snapshot it builds on, None for none.
        cells: operator -> into how many pieces the entries of a subtask are cut.
    """

    checkpoint: Checkpoint
    previous: int | None
    tasks: list[FoldTask]
    cells: dict[str, int]
    log_parts: int


def plan_snapshot(
    folder: JobFolder,
    checkpoint_id: int | None = None,
    piece_bytes: int = PIECE_BYTES,
    broken: frozenset[int] = frozenset(),
) -> SnapshotPlan | None:
    """Plan the snapshot of a checkpoint.

    Args:
        checkpoint_id: which; None for the one that the job would go on from.
        piece_bytes: about how large a piece of a snapshot gets.
        broken: snapshots not to build on.

    Returns:
        The plan; None when there is nothing to do: no checkpoint yet, or it has a snapshot.

    Raises:
        RestoreError: there is no such checkpoint, or neither snapshot nor log to make its state from.
        CorruptChangelogError: a row about the log can't be read. (Snapshots that can't be used are passed over.)
    """
    ledger = Ledger(folder.open_changelog())
    lineage = ledger.lineage
    checkpoint = lineage.newest_point() if checkpoint_id is None else lineage.checkpoint(checkpoint_id)
    if checkpoint is None:
        return None
    found, base = _base(ledger, checkpoint, broken)
    previous = found.checkpoint
    if previous == checkpoint.id:
        return None
    point = RestorePoint(folder.changelog.root, checkpoint.id, checkpoint.lineage, previous)
    cut_before = {} if found.snapshot is None else found.snapshot.row.cells
    suffix = found.suffix.files
    tasks = []
    cells = {}
    shapes = {op.uid: (op.parallelism, op.max_parallelism) for op in checkpoint.operators}
    for stage, operator in enumerate(sorted(_operators(ledger, checkpoint, found, base))):
        parallelism, groups = shapes.get(operator, (1, len(_ALL_KEY_GROUPS)))
        size = sum(file.size for _, file in base if file.first_operator == operator)
        size += sum(file.size for file in suffix if file.first_operator == operator)
        cells[operator] = _cells(size // (parallelism * piece_bytes), cut_before.get(operator))
        for subtask in range(parallelism):
            owned = key_group_range(subtask, groups, parallelism)
            needed = tuple(
                pair for pair in base
                if pair[0].operator in (None, operator) and pair[0].first < owned.stop and pair[0].last >= owned.start
            )  # fmt: skip
            tasks.append(
                FoldTask(
                    point,
                    checkpoint.attempt,
                    previous,
                    operator,
                    stage,
                    owned.start,
                    owned,
                    cells[operator],
                    needed,
                )
            )
    return SnapshotPlan(checkpoint, previous, tasks, cells, len(suffix))


def _base(
    ledger: Ledger, checkpoint: Checkpoint, broken: frozenset[int]
) -> tuple[Base, list[tuple[Piece, PartFile]]]:
    """What to build on, and the pieces of its snapshot with their files; what can't be used is passed over."""
    for mark in ledger.snapshots.on(checkpoint.lineage, checkpoint.id):
        if mark.checkpoint not in broken:
            try:
                ledger.snapshots.get(mark)
                break
            except CorruptChangelogError as error:
                warn_unusable(mark.checkpoint, error)
    try:
        found = ledger.base(checkpoint, broken)
    except CorruptChangelogError as error:
        if not broken:
            raise
        raise RestoreError(
            f"the snapshot of checkpoint {max(broken)} in {ledger.snapshots.storage.root} can't be read, and the log before "
            f"it was truncated: {error}"
        ) from error
    snapshot = found.snapshot
    if snapshot is None:
        return found, []
    if snapshot.row.pieces is None:  # the row says no bounds, so the list's must be those of the files
        check_listed(ledger.snapshots.storage, snapshot.files)
    files = {file.path: file for file in snapshot.files}
    return found, [(piece, files[piece.path]) for piece in pieces_of(snapshot.row, snapshot.files)]


def _operators(
    ledger: Ledger, checkpoint: Checkpoint, found: Base, base: list[tuple[Piece, PartFile]]
) -> set[str]:
    """All that have rows, those included that the job has no more: by rows of checkpoints, by the snapshot's, by footers."""
    operators = {piece.operator for piece, _ in base if piece.operator is not None}
    ends = [segment.last for segment in after(checkpoint.lineage, found.checkpoint or 0)]
    for row in (checkpoint, *(ledger.lineage.checkpoint(identity) for identity in ends)):
        operators.update(operator.uid for operator in keyed_operators(row.operators))
    unnamed = [file for piece, file in base if piece.operator is None]
    for storage, files in ((ledger.snapshots.storage, unnamed), (ledger.storage, found.suffix.files)):
        for path in dict.fromkeys(file.path for file in files):  # a pack has several parts
            operators.update(operators_of(footer_of_file(storage, path)))
    return operators


def _cells(wanted: int, before: int | None) -> int:
    """A power of two near what is wanted; the one before, unless that is far off, so that pieces can be kept."""
    power = 1 << min(max(int(wanted), 1) - 1, _MOST_CELLS - 1).bit_length()
    if before is not None and power <= before <= 4 * power:
        return before
    return power
