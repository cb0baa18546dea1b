"""From a checkpoint to where its state is read: the newest complete snapshot of its lineage, and the log after it.

Invariants:
    * A plan never goes by way of a snapshot off the lineage, or of one that isn't complete.
    * What can't be restored is refused before anything runs; nothing is changed.
"""

from __future__ import annotations

from changelog_engine.changelog.log_files import SNAPSHOT, parse_row
from changelog_engine.changelog.model import Checkpoint, RestorePoint
from changelog_engine.changelog.part_selection import on_lineage
from changelog_engine.checkpoint.job_folder import JobFolder
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.errors import RestoreError
from changelog_engine.storage.delta_log import DeltaLog


def plan_restore(folder: JobFolder, checkpoint: Checkpoint | None) -> RestorePoint:
    """Where workers find the state of a checkpoint.

    Args:
        folder: the job's folder.
        checkpoint: the checkpoint, None for empty state.

    Raises:
        RestoreError: the snapshot that the checkpoint needs was retired; lists those there are.
    """
    table = folder.changelog.root
    if checkpoint is None:
        return RestorePoint(table, None, (), None)
    snapshots = complete_snapshots(folder)
    usable = [
        id for id, attempts in snapshots.items()
        if id <= checkpoint.id and any(on_lineage(checkpoint.lineage, a, id) for a in attempts)
    ]  # fmt: skip
    newest = max(usable, default=None)
    if checkpoint.snapshot is not None and (newest is None or newest < checkpoint.snapshot):
        there = ", ".join(map(str, sorted(snapshots))) or "none"
        raise RestoreError(
            f"checkpoint {checkpoint.id} needs the snapshot of checkpoint {checkpoint.snapshot}, which was retired. "
            f"Snapshots that are there: {there}. Nothing was changed"
        )
    if newest is None and checkpoint.lineage:
        first = checkpoint.lineage[0].first
        if first not in Lineage(folder.open_changelog()).checkpoints:
            raise RestoreError(
                f"checkpoint {checkpoint.id} needs the log from checkpoint {first} on, which was truncated, and there is no "
                "snapshot on its lineage. Nothing was changed"
            )
    return RestorePoint(table, checkpoint.id, checkpoint.lineage, newest)


def complete_snapshots(folder: JobFolder) -> dict[int, set[int]]:
    """Checkpoint ids that have a complete snapshot -> the attempts that made one."""
    if not DeltaLog.exists(folder.snapshots):
        return {}
    found: dict[int, set[int]] = {}
    for path in DeltaLog(folder.snapshots).files()["path"].to_pylist():
        name = parse_row(path)
        if name is not None and name.operation == SNAPSHOT:
            found.setdefault(name.checkpoint, set()).add(name.attempt)
    return found
