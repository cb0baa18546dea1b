"""Full snapshots: state at one checkpoint as parts of the ``snapshots`` table.

Invariants:
    * A snapshot is one commit: its parts and a row that says how many there are. The row of a snapshot that was made from
      the log lists them, because some may be an older snapshot's.
    * A snapshot belongs to one checkpoint of one attempt; whoever reads it asks for both, so what a dead attempt left
      under the same checkpoint id is never read.
    * Files leave the table before they leave the disk: a crash in between leaves garbage, never a missing file.
    * The table's list is read once, and again when somebody else has committed; what is committed here changes it in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from changelog_engine.changelog.log_files import SNAPSHOT
from changelog_engine.changelog.model import Checkpoint, Part
from changelog_engine.changelog.snapshot_row import Piece, SnapshotRow, read_snapshot_row
from changelog_engine.errors import CorruptChangelogError, StorageError
from changelog_engine.ledger.ownership import write_row
from changelog_engine.ledger.snapshots import snapshot_of, warn_unusable
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import COMMIT_TRIES, CommitConflictError, DeltaLog, overtaken


class SnapshotStore:
    """The snapshots table of a job."""

    def __init__(self, log: DeltaLog) -> None:
        self.log = log
        self._files: dict[str, set[str]] = {}  # a marker's path -> it and the files it lists, if it does
        self._listed: set[str] = set()  # what the table lists at this version
        self._listed_at: int | None = None

    def commit(
        self,
        checkpoint: Checkpoint,
        parts: Sequence[Part],
        adds: list[AddFile],
        pieces: Sequence[Piece] | None = None,
        cells: Mapping[str, int] | None = None,
    ) -> None:
        """Commit a snapshot, in place of an earlier try of the same checkpoint of the same attempt.

        Args:
            adds: the same, described for the Delta log.
            pieces, cells: of a snapshot that is made from the log; see SnapshotRow.

        Raises:
            CorruptChangelogError: a file that it shares with an older snapshot is not in the table.
            StorageError: it could not be committed; or what was written was removed meanwhile.
        """
        row = SnapshotRow.of(checkpoint, parts, pieces, cells)
        shared = row.paths - {part.path for part in parts}
        files = [*adds, self._write_marker(row, checkpoint.time_ms)]
        marker = files[-1].path
        fresh = {add.path for add in files}
        for _ in range(COMMIT_TRIES):
            self.log.refresh()
            seen = self.log.version
            paths = self._paths()
            if missing := shared.difference(paths):
                raise CorruptChangelogError("was removed meanwhile", self.log.storage.join(min(missing)))
            listed = {p for p in paths if snapshot_of(p) == checkpoint.mark}
            if listed == fresh:
                return
            if pieces is not None:
                self._refuse_swept(fresh)
            try:
                self._commit(  # those that are listed too: a commit that says what it is of has all of it
                    files,
                    sorted(listed - fresh),
                    {"snapshot": checkpoint.id, "attempt": checkpoint.attempt},
                )
                return
            except CommitConflictError:
                continue
            except StorageError:
                self.log.refresh()
                if marker in self.log.added_since(seen):
                    self.log.make_durable()
                    return
                raise
        raise overtaken(self.log.storage.root)

    def _refuse_swept(self, fresh: set[str]) -> None:
        """Raise when another materializer took files for leftovers, as no table listed them: this process stood still."""
        gone = fresh.difference(entry.name for entry in self.log.storage.list())
        if gone:
            full = self.log.storage.join(min(gone))
            raise StorageError(f"{full} was removed before it was committed: make the snapshot again", full)

    def _write_marker(self, row: SnapshotRow, time_ms: int) -> AddFile:
        """Write the row that says what the snapshot is made of; nothing refers to it yet."""
        marker = write_row(self.log.storage, SNAPSHOT, row.checkpoint, row.attempt, row.text, time_ms)
        self._files[marker.path] = _files_of(marker.path, row)
        return marker

    def retire(self, keep: set[int]) -> list[str]:
        """Remove the snapshots older than the newest kept one that aren't kept; returns the deleted files' paths.

        Args:
            keep: checkpoint ids that stay. Newer ids than the newest of them stay too: they may be another driver's. So do
                snapshots that were made from the log: truncation sees to these.

        Raises:
            StorageError: it could not be committed durably, and no file was deleted; or a file could not be deleted.
        """
        newest = max(keep, default=0)

        def old(path: str) -> bool:
            snapshot = snapshot_of(path)
            return snapshot is not None and snapshot[0] < newest and snapshot[0] not in keep

        for _ in range(COMMIT_TRIES):
            self.log.refresh()
            paths = self._paths()
            of_the_log = self._of_the_log(paths)
            listed = sorted(path for path in paths if path not in of_the_log and old(path))
            if not listed:
                break
            try:
                self._commit([], listed, {"retired": len(listed)})
                break
            except CommitConflictError:
                continue
        else:
            raise overtaken(self.log.storage.root)
        # Everything of a retired snapshot on the disk, so that files a crash left behind go too.
        stays = self._of_the_log(self._paths())
        gone = [e.name for e in self.log.storage.list() if e.name not in stays and old(e.name)]
        if gone and not listed:
            self.log.make_durable()  # an earlier call may have removed them from the table, and failed at this
        for path in gone:
            self.log.storage.delete(path)
        return gone

    def _commit(self, adds: Sequence[AddFile], removes: Sequence[str], metadata: dict[str, Any]) -> None:
        """Commit on top of the version that ``_paths`` was asked at."""
        listed = (self._listed - set(removes)) | {add.path for add in adds}
        self._listed_at = None  # whether it is in the table is not known when this fails
        self._listed_at = self.log.commit(adds, removes, metadata)
        self._listed = listed

    def _of_the_log(self, paths: set[str]) -> set[str]:
        """The files of snapshots that were made from the log."""
        self._files = {marker: files for marker, files in self._files.items() if marker in paths}
        found = set()
        for path in paths:
            if path.startswith(f"{SNAPSHOT}-"):
                if path not in self._files:
                    self._files[path] = self._named_by(path)
                found |= self._files[path]
        return found

    def _named_by(self, marker: str) -> set[str]:
        try:
            row = read_snapshot_row(self.log.storage, marker)
        except CorruptChangelogError as error:
            warn_unusable((snapshot_of(marker) or (0, 0))[0], error)
            return set()
        return _files_of(marker, row)

    def _paths(self) -> set[str]:
        """What the table lists at the log's version."""
        if self._listed_at != self.log.version:
            self._listed = {str(path) for path in self.log.files()["path"].to_pylist()}
            self._listed_at = self.log.version
        return self._listed


def _files_of(marker: str, row: SnapshotRow) -> set[str]:
    """The files of a snapshot that was made from the log; none of one that was not."""
    return set() if row.pieces is None else {marker, *row.paths}
