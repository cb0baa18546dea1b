"""The snapshots of a job: which are complete, and which files each is made of.

Invariants:
    * A snapshot's files are those that its row names, which has a checksum; without names in the row, those of its
      checkpoint and attempt, as many as the row counts.
    * One that can't be used is an error that names the file; who can do without passes it over and says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from changelog_engine.changelog.log_files import SNAPSHOT, parse_part, parse_row
from changelog_engine.changelog.model import CheckpointMark, Segment
from changelog_engine.changelog.part_selection import PartFile, part_files
from changelog_engine.changelog.segments import on_lineage
from changelog_engine.changelog.snapshot_row import SnapshotRow, read_snapshot_row
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.ledger.bounds import Bounds
from changelog_engine.ledger.commits import check_commits
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.delta_names import SNAPSHOTS
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage

_LOG = logging.getLogger("changelog_engine")
_MOST_WARNED = 1_000
_WARNED: set[str] = set()  # faults of which a warning was logged


class Snapshot(NamedTuple):
    """A complete snapshot."""

    checkpoint: int
    attempt: int
    marker: str  # the file of its row
    row: SnapshotRow
    files: tuple[PartFile, ...]  # its parts, those that it shares with older ones included
    bounds: tuple[Bounds | None, ...]  # of each part; None where the row doesn't say

    @property
    def mark(self) -> CheckpointMark:
        """Its checkpoint, and the attempt that made that."""
        return CheckpointMark(self.checkpoint, self.attempt)

    @property
    def paths(self) -> frozenset[str]:
        """Its row's file and its parts."""
        return frozenset([self.marker, *(file.path for file in self.files)])


class Snapshots:
    """The snapshots table as it is now; there may be none.

    Args:
        log: the table, where it is open already; it moves to its newest version.

    Raises:
        CorruptChangelogError: a commit is damaged.
    """

    def __init__(self, storage: Storage, log: DeltaLog | None = None) -> None:
        self.storage = storage
        self.listing: pa.Table | None = None
        self.files: dict[str, PartFile] = {}
        self.markers: dict[CheckpointMark, str] = {}
        self._read: dict[CheckpointMark, Snapshot] = {}
        if log is None and DeltaLog.exists(storage):
            log = DeltaLog(storage)
        if log is not None:
            self._take(log)

    def _take(self, log: DeltaLog) -> None:
        self.listing = log.files()
        check_commits(log)
        self.files = {file.path: file for file in part_files(self.listing)}
        for path in self.paths:
            name = parse_row(path)
            if name is not None and name.operation == SNAPSHOT:
                self.markers[name.mark] = path

    @property
    def paths(self) -> list[str]:
        """All files that the table lists."""
        return [] if self.listing is None else [str(path) for path in self.listing["path"].to_pylist()]

    def on(self, line: Sequence[Segment], newest: int) -> list[CheckpointMark]:
        """Those of a lineage up to a checkpoint, newest first, whether they can be used or not."""
        return sorted(
            (
                mark
                for mark in self.markers
                if mark.checkpoint <= newest and on_lineage(line, mark.attempt, mark.checkpoint)
            ),
            reverse=True,
        )

    def get(self, mark: CheckpointMark) -> Snapshot:
        """A snapshot with its files.

        Raises:
            CorruptChangelogError: its row can't be read, or a file that it is made of is not in the table.
        """
        if mark not in self._read:
            self._read[mark] = self._open(mark)
        return self._read[mark]

    def usable(self) -> list[Snapshot]:
        """Those whose row can be read and whose parts are all listed. Of each other one a warning is logged, once."""
        found = []
        for mark in self.markers:
            try:
                found.append(self.get(mark))
            except CorruptChangelogError as error:
                warn_unusable(mark.checkpoint, error)
        return found

    def _open(self, mark: CheckpointMark) -> Snapshot:
        marker = self.markers[mark]
        row = read_snapshot_row(self.storage, marker)
        bounds: list[Bounds | None] = []
        if row.pieces is not None:
            files = []
            for piece in row.pieces:
                if piece.path not in self.files:
                    full = self.storage.join(piece.path)
                    raise CorruptChangelogError("is not in its table any more", full)
                files.append(self.files[piece.path])
                bounds.append(Bounds(piece.operator, piece.first, piece.last))
        else:
            own = (f for f in self.files.values() if f.name and f.name.mark == mark)
            files = sorted(own, key=lambda file: file.name or ())
            bounds = [None] * len(files)
        if len(files) != row.parts:
            full = self.storage.join(marker)
            raise CorruptChangelogError(
                f"is the snapshot of checkpoint {mark.checkpoint}, which has {len(files)} parts, not {row.parts}",
                full,
            )
        return Snapshot(*mark, marker, row, tuple(files), tuple(bounds))


def complete_snapshots(folder: JobFolder) -> dict[int, set[int]]:
    """Checkpoint ids that have a complete snapshot -> the attempts that made one."""
    found: dict[int, set[int]] = {}
    for checkpoint, attempt in Snapshots(folder.snapshots).markers:
        found.setdefault(checkpoint, set()).add(attempt)
    return found


def beside(changelog: Storage) -> Storage:
    """The snapshots table's folder of the job whose changelog is in a folder."""
    return open_storage(changelog.root.rpartition("/")[0], changelog.retry).child(SNAPSHOTS)


def newest_named(changelog: Storage) -> CheckpointMark:
    """As ``newest_of`` of all files in a job's snapshots, listed or not.

    It is newer than what the changelog has where that lost its end: it was repaired, or copied before its snapshots were.
    """
    return newest_of(entry.name for entry in beside(changelog).list())


def newest_of(paths: Iterable[str]) -> CheckpointMark:
    """The newest checkpoint of the newest attempt that any file of snapshots is named after; zeros for none."""
    named = (mark for path in paths if (mark := snapshot_of(path)) is not None)
    return max(named, key=lambda mark: (mark.attempt, mark.checkpoint), default=CheckpointMark(0, 0))


def snapshot_of(path: str) -> CheckpointMark | None:
    """Whose a file in the snapshots table is, or None when it isn't one of ours."""
    part = parse_part(path)
    if part is not None:
        return part.mark
    row = parse_row(path)
    return None if row is None else row.mark


def warn_unusable(checkpoint: int, error: Exception) -> None:
    """Log that a snapshot can't be used; the same fault once in a process."""
    fault = str(error)
    if fault not in _WARNED:
        if len(_WARNED) >= _MOST_WARNED:
            _WARNED.clear()
        _WARNED.add(fault)
        _LOG.warning(
            "the snapshot of checkpoint %d can't be used; an older one and a longer piece of the log take its place: %s",
            checkpoint, error,
        )  # fmt: skip
