"""Full snapshots: state at one checkpoint as parts of the ``snapshots`` table.

Invariants:
    * A snapshot is one commit: its parts and a row that says how many there are.
    * A snapshot belongs to one checkpoint of one attempt; whoever reads it asks for both, so what a dead attempt left
      under the same checkpoint id is never read.
    * Files leave the table before they leave the disk: a crash in between leaves garbage, never a missing file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from changelog_engine.changelog.log_files import SNAPSHOT, parse_part, parse_row
from changelog_engine.changelog.model import FORMAT_VERSION, Checkpoint, Part
from changelog_engine.checkpoint.ownership import write_row
from changelog_engine.errors import StorageError
from changelog_engine.storage.delta_log import AddFile, CommitConflictError, DeltaLog

_COMMIT_TRIES = 20


class SnapshotStore:
    """The snapshots table of a job.

    Args:
        log: the table.
    """

    def __init__(self, log: DeltaLog) -> None:
        self.log = log

    def commit(self, checkpoint: Checkpoint, parts: Sequence[Part], adds: list[AddFile]) -> None:
        """Commit a snapshot, in place of an earlier try of the same checkpoint of the same attempt.

        Args:
            checkpoint: the checkpoint it is of.
            parts: its parts.
            adds: the same, described for the Delta log.

        Raises:
            StorageError: it could not be committed.
        """
        document = {
            "format": FORMAT_VERSION,
            "checkpoint": checkpoint.id,
            "attempt": checkpoint.attempt,
            "parts": len(parts),
            "rows": sum(part.rows for part in parts),
            "bytes": sum(part.size for part in parts),
        }
        marker = write_row(
            self.log.storage,
            SNAPSHOT,
            checkpoint.id,
            checkpoint.attempt,
            json.dumps(document),
            checkpoint.time_ms,
        )
        files = [*adds, marker]
        fresh = {add.path for add in files}
        for _ in range(_COMMIT_TRIES):
            self.log.refresh()
            seen = self.log.version
            listed = {p for p in self._paths() if snapshot_of(p) == (checkpoint.id, checkpoint.attempt)}
            if listed == fresh:
                return
            try:
                self.log.commit(
                    [add for add in files if add.path not in listed],
                    sorted(listed - fresh),
                    {"snapshot": checkpoint.id, "attempt": checkpoint.attempt},
                )
                return
            except CommitConflictError:
                continue
            except StorageError:
                self.log.refresh()
                if marker.path in self.log.added_since(seen):
                    self.log.storage.sync_folder("_delta_log")
                    return
                raise
        raise StorageError(
            f"could not commit to {self.log.storage.root}: others committed {_COMMIT_TRIES} times between"
        )

    def retire(self, keep: set[int]) -> list[str]:
        """Remove the snapshots older than the newest kept one that aren't kept.

        Args:
            keep: checkpoint ids that stay. Newer ids than the newest of them stay too: they may be another driver's.

        Returns:
            Paths of the deleted files.
        """
        newest = max(keep, default=0)

        def old(path: str) -> bool:
            snapshot = snapshot_of(path)
            return snapshot is not None and snapshot[0] < newest and snapshot[0] not in keep

        for _ in range(_COMMIT_TRIES):
            self.log.refresh()
            listed = [path for path in self._paths() if old(path)]
            if not listed:
                break
            try:
                self.log.commit([], listed, {"retired": len(listed)})
                break
            except CommitConflictError:
                continue
        # Everything of a retired snapshot on the disk, so that files a crash left behind go too.
        gone = [entry.name for entry in self.log.storage.list() if old(entry.name)]
        for path in gone:
            self.log.storage.delete(path)
        return gone

    def _paths(self) -> list[str]:
        return [str(path) for path in self.log.files()["path"].to_pylist()]


def snapshot_of(path: str) -> tuple[int, int] | None:
    """(checkpoint, attempt) of a file in the snapshots table, or None when it isn't one of ours."""
    part = parse_part(path)
    if part is not None:
        return part.checkpoint, part.attempt
    row = parse_row(path)
    return (row.checkpoint, row.attempt) if row is not None else None
