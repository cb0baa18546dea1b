"""A job's tables as they are now, and which of their files hold a state at a checkpoint or its history.

Invariants:
    * It only reads: no folder, lock or table is made or changed, so it works beside the job that runs.
    * The ledger chooses the files, as it does for a restore. A log with a hole is refused, or begun at the first snapshot
      after the hole.
    * Spark, which reads the files, looks at no checksum: they are looked at here when the files are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from changelog_engine.changelog.model import Attempt, Checkpoint, Segment
from changelog_engine.changelog.part_reader import check_bytes
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.segments import on_lineage
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.ledger.job_path import open_job
from changelog_engine.ledger.ledger import Base, Ledger
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.storage.protocol import Storage

When = int | str | datetime | None


@dataclass(frozen=True)
class Selection:
    """The files of one point.

    Args:
        snapshot: checkpoint of the snapshot that comes first; None for the log alone.
        base: file names in the snapshots table.
        log: file names in the changelog table.
        log_rows, base_rows: how many rows the files have, by the tables.
        lineage: set where rows have to be told apart, because files hold rows of other branches, too; else empty.
    """

    snapshot: int | None
    base: tuple[str, ...]
    log: tuple[str, ...]
    log_rows: int = 0
    base_rows: int = 0
    lineage: tuple[Segment, ...] = ()


class Tables:
    """A job's changelog and snapshots at their newest versions.

    Args:
        path: the job's folder, or the changelog folder in it; a local path or a URI.

    Raises:
        StorageError: there is no changelog.
        ForeignPathError: it is a Delta table of somebody else, or does not lie in a job's folder.
        FormatVersionError: a newer engine wrote it.
    """

    def __init__(self, path: str) -> None:
        self.folder = open_job(path)
        log = self.folder.open_changelog()
        self.ledger = Ledger(log)
        self.table = log.table_id()
        self.lineage = self.ledger.lineage
        _refuse_links(self.ledger.storage, self.lineage.files)
        if self.ledger.snapshots.listing is not None:
            _refuse_links(self.ledger.snapshots.storage, self.ledger.snapshots.listing)
        self._chosen: tuple[set[str], set[str]] = (set(), set())  # files of the changelog, and of snapshots
        self.snapshots: dict[int, set[int]] = {}  # checkpoint -> attempts that made one that can be used
        for snapshot in self.ledger.snapshots.usable():
            self.snapshots.setdefault(snapshot.checkpoint, set()).add(snapshot.attempt)

    def checkpoint(self, at: When = None) -> Checkpoint:
        """The checkpoint of a point in time.

        Args:
            at: a datetime (without a zone: UTC), or any form that ``ledger.points`` knows; None for the newest.

        Raises:
            RestoreError: no checkpoint was that early, or it was truncated.
        """
        text = at.isoformat() if isinstance(at, datetime) else at
        return checkpoint_at(self.lineage, text)

    def attempts(self) -> list[Attempt]:
        """All attempts, oldest first."""
        return [self.lineage.attempt(number) for number in sorted(self.lineage.attempts)]

    def snapshot_rows(self) -> list[tuple[int, int, int, str]]:
        """(checkpoint, attempt, time in ms, JSON document) of each complete snapshot, oldest first."""
        rows = []
        for snapshot in self.ledger.snapshots.usable():
            entry = self.lineage.checkpoints.get(snapshot.checkpoint)
            time_ms = 0 if entry is None else self.lineage.checkpoints.time_of(entry)
            rows.append((snapshot.checkpoint, snapshot.attempt, time_ms, snapshot.row.text))
        return sorted(rows)

    def log_files(self) -> list[str]:
        """All files of mutations, of every branch.

        Raises:
            CorruptChangelogError: one is damaged; names it.
        """
        found = [*_paths(self.ledger.files)]
        check_bytes(self.ledger.storage, found)
        self._chosen[0].update(found)
        return found

    def row_files(self) -> list[str]:
        """The files with the checkpoints' rows.

        Raises:
            CorruptChangelogError: one is damaged; names it.
        """
        # Merged files may hold rows of any kind.
        merged = [file.path for file in self.ledger.files if file.name is None]
        found = [*self.lineage.checkpoints.paths(), *merged]
        check_bytes(self.ledger.storage, found)
        self._chosen[0].update(found)
        return found

    def state(
        self, checkpoint: Checkpoint, operator: str | None, key_groups: range = ALL_KEY_GROUPS
    ) -> Selection:
        """The files that make up a state: the newest snapshot of the lineage that is whole, and the log after it.

        Args:
            operator: uid; None for all.
            key_groups: of the keys that are asked for.

        Raises:
            CorruptChangelogError: the log has a hole, and no snapshot bridges it; or a file is damaged. Names it.
        """

        def look(base: Base) -> None:
            check_bytes(
                self.ledger.snapshots.storage, self._selected(checkpoint, operator, key_groups, base).base
            )

        base, _ = self.ledger.whole_base(checkpoint, look)
        found = self._selected(checkpoint, operator, key_groups, base)
        check_bytes(self.ledger.storage, found.log)
        return found

    def history(
        self, checkpoint: Checkpoint, operator: str | None, key_groups: range = ALL_KEY_GROUPS
    ) -> Selection:
        """The files of all mutations up to a checkpoint that are there; after truncation, the snapshot before them.

        Arguments and errors are those of ``state``.
        """
        found = self._selected(checkpoint, operator, key_groups, self.ledger.oldest(checkpoint))
        check_bytes(self.ledger.snapshots.storage, found.base)
        check_bytes(self.ledger.storage, found.log)
        return found

    def times(self, checkpoint: Checkpoint) -> tuple[int, list[int | None]]:
        """Times of the barriers of a lineage: the first id, and one time in ms an id from there on."""
        first = checkpoint.lineage[0].first
        found: list[int | None] = [None] * (checkpoint.id - first + 1)
        index = self.lineage.checkpoints.index()
        for number, attempt, time_ms in zip(*(column.tolist() for column in index), strict=True):
            if on_lineage(checkpoint.lineage, attempt, number):
                found[number - first] = time_ms
        return first, found

    def _selected(
        self, checkpoint: Checkpoint, operator: str | None, key_groups: range, base: Base
    ) -> Selection:
        operators = None if operator is None else frozenset([operator])
        first = self.ledger.snapshot_files(base, key_groups, operators)
        chosen = self.ledger.log_files(base.suffix, key_groups, operators)
        mixed = any(file.name is None for file in chosen)
        lineage = tuple(checkpoint.lineage) if mixed else ()
        log, held = _paths(chosen), _paths(first)
        self._chosen[0].update(log)
        self._chosen[1].update(held)
        return Selection(base.checkpoint, held, log, _rows(chosen), _rows(first), lineage)

    def refuse_gone(self) -> None:
        """Raise where a file that was chosen has gone since: who lists the folders themselves would not notice.

        Raises:
            CorruptChangelogError: one has; names it.
        """
        for storage, paths in zip(
            (self.ledger.storage, self.ledger.snapshots.storage), self._chosen, strict=True
        ):
            gone = paths.difference(entry.name for entry in storage.list()) if paths else None
            if gone:
                raise CorruptChangelogError("went while views were made of it", storage.join(min(gone)))


def _rows(files: Sequence[PartFile]) -> int:
    return sum(file.rows or 0 for file in files)


def _refuse_links(storage: Storage, listing: pa.Table) -> None:
    """Spark opens the files by itself, and would follow links."""
    for path in listing["path"].to_pylist():
        storage.place(path)


def _paths(files: Sequence[PartFile]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(file.path for file in files))  # a pack has several parts
