"""From a job's folder and a checkpoint to where its state is read: what the ledger says."""

from __future__ import annotations

from changelog_engine.changelog.model import Checkpoint, RestorePoint
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.snapshots import Snapshots


def plan_restore(folder: JobFolder, checkpoint: Checkpoint | None) -> RestorePoint:
    """Where workers find the state of a checkpoint.

    Args:
        checkpoint: the checkpoint, None for empty state.

    Raises:
        RestoreError: the snapshot that the checkpoint needs was retired; lists those there are.
        CorruptChangelogError: the log is not complete; names what is missing.
    """
    return Ledger(folder.open_changelog()).restore_point(checkpoint)


def complete_snapshots(folder: JobFolder) -> dict[int, set[int]]:
    """Checkpoint ids that have a complete snapshot -> the attempts that made one."""
    found: dict[int, set[int]] = {}
    for checkpoint, attempt in Snapshots(folder.snapshots).markers:
        found.setdefault(checkpoint, set()).add(attempt)
    return found
