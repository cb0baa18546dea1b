"""One materialization: plan, fold, verify, commit.

Steps (a crash after any of them leaves the snapshot whole or absent):
    1. Plan: the checkpoint, the snapshot before it, the parts after that.
    2. Fold: tasks write new pieces; nothing refers to them.
    3. Verify each new piece and write the marker's file.
    4. Commit the new pieces and the marker at once.

Invariants:
    * One in flight: on local disks a lock sees to it, and the kernel frees it however its holder ends.
    * The job's own commits go to another table: a checkpoint never waits for a materialization.
"""

from __future__ import annotations

from typing import NamedTuple

from changelog_engine.clock import monotonic_s
from changelog_engine.errors import CorruptChangelogError, StorageError
from changelog_engine.ledger.committer import verify_parts
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.snapshot_store import SnapshotStore
from changelog_engine.ledger.snapshots import warn_unusable
from materializer.fold_task import FoldResult, fold_range
from materializer.lock import materializer_lock
from materializer.runner import HERE, TaskRunner
from materializer.snapshot_plan import PIECE_BYTES, SnapshotPlan, plan_snapshot


class Materialization(NamedTuple):
    """What a materialization did.

    Args:
        previous: the checkpoint of the snapshot it was built on, None for none.
        log_parts: files of the log that they lay in.
        written, kept: new pieces, and those of the snapshot before that still hold.
    """

    checkpoint: int
    previous: int | None
    log_rows: int
    log_parts: int
    rows: int
    bytes: int
    written: int
    kept: int
    seconds: float


def materialize(
    folder: JobFolder,
    checkpoint_id: int | None = None,
    run: TaskRunner = HERE,
    piece_bytes: int = PIECE_BYTES,
) -> Materialization | None:
    """Make the snapshot of a checkpoint.

    Args:
        checkpoint_id: which; None for the one that the job would go on from.
        piece_bytes: about how large a piece of a snapshot gets.

    Returns:
        What was done; None when there was nothing to do.

    Raises:
        MaterializerBusyError: another process materializes this job.
        RestoreError: there is no such checkpoint.
        CorruptChangelogError: a file is missing or isn't what it was; nothing was committed.
        StorageError: it could not be read, written or committed.

    Example:
        >>> materialize(find_job_folder("changelog-data", "count"))  # doctest: +SKIP
        Materialization(checkpoint=12, previous=9, ...)
    """
    began = monotonic_s()
    log = folder.open_snapshots()
    with materializer_lock(folder):
        folded = _fold(folder, checkpoint_id, run, piece_bytes)
        if folded is None:
            return None
        done = _commit(folder, SnapshotStore(log), *folded)
    return done._replace(seconds=monotonic_s() - began)


def _fold(
    folder: JobFolder, checkpoint_id: int | None, run: TaskRunner, piece_bytes: int
) -> tuple[SnapshotPlan, list[FoldResult]] | None:
    """Steps 1 and 2; a snapshot that can't be read is passed over, when the log is complete without it."""
    broken: frozenset[int] = frozenset()
    while True:
        plan = None
        try:
            plan = plan_snapshot(folder, checkpoint_id, piece_bytes, broken)
            return None if plan is None else (plan, _folded(run, plan))
        except CorruptChangelogError as error:
            unusable = None if plan is None else plan.previous
            of_snapshots = error.path.startswith(folder.snapshots.root)
            if unusable is None or unusable in broken or not of_snapshots:
                raise
            warn_unusable(unusable, error)
            broken |= {unusable}


def _folded(run: TaskRunner, plan: SnapshotPlan) -> list[FoldResult]:
    """What the tasks gave, one after the other: without one of them the snapshot would lack its key groups."""
    results = run.map(fold_range, plan.tasks)
    if len(results) != len(plan.tasks) or not all(isinstance(result, FoldResult) for result in results):
        raise StorageError(
            f"{len(plan.tasks)} tasks folded checkpoint {plan.checkpoint.id}, and not all gave a result"
        )
    return results


def _commit(
    folder: JobFolder, store: SnapshotStore, plan: SnapshotPlan, results: list[FoldResult]
) -> Materialization:
    """Steps 3 and 4."""
    written = [pair for result in results for pair in result.written]
    kept = list(dict.fromkeys(piece for result in results for piece in result.kept))
    parts = [part for _, part in written]
    adds = verify_parts(folder.snapshots, parts)
    pieces = [*kept, *(piece for piece, _ in written)]
    store.commit(plan.checkpoint, parts, adds, pieces, plan.cells)
    return Materialization(
        checkpoint=plan.checkpoint.id,
        previous=plan.previous,
        log_rows=sum(result.rows for result in results),
        log_parts=plan.log_parts,
        rows=sum(part.rows for part in parts),
        bytes=sum(part.size for part in parts),
        written=len(written),
        kept=len(kept),
        seconds=0.0,
    )
