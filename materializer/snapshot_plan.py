"""What a materialization will do: of which checkpoint, from which snapshot on, in which tasks.

Invariant: a plan is of one checkpoint, its lineage, and one complete snapshot on that lineage (or none): nothing off the
lineage is ever read.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from changelog_engine.changelog.model import Checkpoint, RestorePoint
from changelog_engine.changelog.part_selection import PartFile, attempt_of, part_files, select_suffix
from changelog_engine.changelog.row_files import read_marker
from changelog_engine.changelog.state_reader import is_logged
from changelog_engine.checkpoint.job_folder import JobFolder
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.checkpoint.restore_plan import complete_snapshots, plan_restore
from changelog_engine.checkpoint.snapshots import marker_paths, warn_unusable
from changelog_engine.errors import CorruptChangelogError, RestoreError
from changelog_engine.graph.key_groups import key_group_range
from changelog_engine.storage.delta_log import DeltaLog
from materializer.fold_task import FoldTask
from materializer.pieces import Piece, pieces_of

PIECE_BYTES = 16 * 1024 * 1024
_MOST_CELLS = 1024
_ALL_KEY_GROUPS = range(32_768)


class SnapshotPlan(NamedTuple):
    """A materialization to be done.

    Args:
        checkpoint: of which.
        previous: the checkpoint of the snapshot it builds on, None for none.
        tasks: the folds.
        cells: operator -> into how many pieces the entries of a subtask are cut.
        log_parts: files of the log that are read.
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
        folder: the job's folder.
        checkpoint_id: which; None for the one that the job would go on from.
        piece_bytes: about how large a piece of a snapshot gets.
        broken: snapshots not to build on.

    Returns:
        The plan; None when there is nothing to do: no checkpoint yet, or it has a snapshot.

    Raises:
        RestoreError: there is no such checkpoint, or neither snapshot nor log to make its state from.
        CorruptChangelogError: a row about the log can't be read. (Snapshots that can't be used are passed over.)
    """
    delta = folder.open_changelog()
    lineage = Lineage(delta)
    checkpoint = newest_point(lineage) if checkpoint_id is None else lineage.checkpoint(checkpoint_id)
    if checkpoint is None:
        return None
    point = plan_restore(folder, checkpoint)
    while True:
        previous = _previous(folder, checkpoint, point, broken)
        try:
            document, base = _base(folder, checkpoint, previous)
            break
        except CorruptChangelogError as error:
            assert previous is not None
            warn_unusable(previous, error)
            broken |= {previous}
    if previous == checkpoint.id:
        return None
    suffix = select_suffix(part_files(delta.files()), checkpoint.lineage, previous)
    tasks = []
    cells = {}
    shapes = {op["uid"]: (op["parallelism"], op["max_parallelism"]) for op in checkpoint.operators}
    for stage, operator in enumerate(sorted(_operators(folder, checkpoint, base, suffix))):
        parallelism, groups = shapes.get(operator, (1, len(_ALL_KEY_GROUPS)))
        size = sum(file.size for _, file in base if file.first_operator == operator)
        size += sum(file.size for file in suffix if file.first_operator == operator)
        cells[operator] = _cells(size // (parallelism * piece_bytes), document.get("cells", {}).get(operator))
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


def newest_point(lineage: Lineage) -> Checkpoint | None:
    """The checkpoint that the newest attempt stands on: its newest, or the one that it started from."""
    attempt = lineage.newest_attempt()
    if attempt is None:
        return None
    newest = lineage.newest_checkpoint(attempt.id)
    if newest is None and attempt.parent is not None:
        return lineage.checkpoint(attempt.parent)
    return newest


def _previous(
    folder: JobFolder, checkpoint: Checkpoint, point: RestorePoint, broken: frozenset[int]
) -> int | None:
    """The newest snapshot to build on; an older one, or none, when the log is complete from there on."""
    if point.snapshot is None or point.snapshot not in broken:
        return point.snapshot
    usable = [
        id for id, attempts in complete_snapshots(folder).items()
        if id <= checkpoint.id and id not in broken and attempt_of(checkpoint.lineage, id) in attempts
    ]  # fmt: skip
    previous = max(usable, default=None)
    if not is_logged(point, previous, point.snapshot):
        raise RestoreError(
            f"the snapshot of checkpoint {point.snapshot} in {folder.snapshots.root} can't be read, and the log before it "
            "was truncated"
        )
    return previous


def _base(
    folder: JobFolder, checkpoint: Checkpoint, previous: int | None
) -> tuple[dict[str, Any], list[tuple[Piece, PartFile]]]:
    """The marker of the previous snapshot, and its pieces with their files."""
    if previous is None:
        return {}, []
    listing = DeltaLog(folder.snapshots).files()
    attempt = attempt_of(checkpoint.lineage, previous)
    marker = next((path for path, name in marker_paths(listing) if name == (previous, attempt)), None)
    if marker is None:
        raise CorruptChangelogError(f"the snapshot of checkpoint {previous} was removed just now: try again")
    document = read_marker(folder.snapshots, marker)
    files = {file.path: file for file in part_files(listing)}
    own = [f for f in files.values() if f.name and (f.name.checkpoint, f.name.attempt) == (previous, attempt)]
    pieces = pieces_of(document, sorted(own, key=lambda file: file.name or ()))
    missing = [piece.path for piece in pieces if piece.path not in files]
    if missing:
        raise CorruptChangelogError(f"{folder.snapshots.join(missing[0])} is not in its table any more")
    if len(pieces) != document["parts"]:
        raise CorruptChangelogError(
            f"{folder.snapshots.join(marker)} counts {document['parts']} parts, there are {len(pieces)}"
        )
    return document, [(piece, files[piece.path]) for piece in pieces]


def _operators(
    folder: JobFolder, checkpoint: Checkpoint, base: list[tuple[Piece, PartFile]], suffix: list[PartFile]
) -> set[str]:
    """All that have rows, those included that the job has no more."""
    found = {operator["uid"] for operator in checkpoint.operators if "states" in operator}
    for storage, files in ((folder.snapshots, [file for _, file in base]), (folder.changelog, suffix)):
        for file in files:
            if file.first_operator is not None and file.first_operator == file.last_operator:
                found.add(file.first_operator)
            elif not {file.first_operator, file.last_operator} <= found:
                metadata: pq.FileMetaData = storage.read_footer(file.path)
                found.update(json.loads((metadata.metadata or {}).get(b"changelog.operators", b"[]")))
    return found


def _cells(wanted: int, before: int | None) -> int:
    """A power of two near what is wanted; the one before, unless that is far off, so that pieces can be kept."""
    power = 1 << min(max(int(wanted), 1) - 1, _MOST_CELLS - 1).bit_length()
    if before is not None and power <= before <= 4 * power:
        return before
    return power
