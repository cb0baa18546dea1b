"""A job's tables as they are now, and which of their files hold a state at a checkpoint or its history.

Invariants:
    * It only reads: no folder, lock or table is made or changed, so it works beside the job that runs.
    * Only files of the lineage are chosen. A log with a hole is refused, or begun at the first snapshot after the hole.
    * A file is left out only when the table's list of files says that it has no row of the operator or key group.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from changelog_engine.changelog.log_files import SNAPSHOT, parse_row, read_row
from changelog_engine.changelog.model import FORMAT_VERSION, Attempt, Checkpoint, Segment
from changelog_engine.changelog.part_selection import (
    PartFile,
    attempt_of,
    on_lineage,
    part_files,
    select_suffix,
)
from changelog_engine.checkpoint.job_folder import CHANGELOG, FORMAT_PROPERTY, JOB_PROPERTY, JobFolder
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.checkpoint.restore_plan import complete_snapshots
from changelog_engine.errors import (
    CorruptChangelogError,
    ForeignPathError,
    FormatVersionError,
    RestoreError,
    StorageError,
)
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.filesystem import Storage

When = int | str | datetime | None
_ALL = range(32_768)


@dataclass(frozen=True)
class Selection:
    """The files of one point.

    Args:
        snapshot: checkpoint of the snapshot that comes first; None for the log alone.
        base: file names in the snapshots table.
        log: file names in the changelog table.
        lineage: set where rows have to be told apart, because files hold rows of other branches, too; else empty.
    """

    snapshot: int | None
    base: tuple[str, ...]
    log: tuple[str, ...]
    lineage: tuple[Segment, ...] = ()


class Tables:
    """A job's changelog and snapshots at their newest versions.

    Args:
        path: the job's folder, or the changelog folder in it; a local path or a URI.

    Raises:
        StorageError: there is no changelog.
        ForeignPathError: it is a Delta table of somebody else.
        FormatVersionError: a newer engine wrote it.
    """

    def __init__(self, path: str) -> None:
        given = Storage(path)
        found = next((table for table in (given, given.child(CHANGELOG)) if DeltaLog.exists(table)), None)
        if found is None:
            raise StorageError(
                f"there is no changelog in {given.root}: name a job's folder, <base path>/<job>"
            )
        log = DeltaLog(found)
        properties = log.properties()
        written = properties.get(FORMAT_PROPERTY)
        if written is None:
            raise ForeignPathError(
                f"{found.root} is a Delta table, but no changelog: it has no {FORMAT_PROPERTY}"
            )
        if not written.isdecimal() or int(written) > FORMAT_VERSION:
            raise FormatVersionError(
                f"{found.root} has changelog format {written}, this engine reads up to {FORMAT_VERSION}: use a newer one"
            )
        root = Storage(found.root.rpartition("/")[0])
        slug = root.root.rpartition("/")[2]
        self.folder = JobFolder(properties.get(JOB_PROPERTY, slug), slug, root)
        self.lineage = Lineage(log)
        self._files = part_files(log.files())
        self.snapshots = complete_snapshots(self.folder)
        self._base_files: dict[str, PartFile] = {}
        self._markers: dict[
            tuple[int, int], str
        ] = {}  # (checkpoint, attempt) -> the file that says it is complete
        if self.snapshots:
            listing = DeltaLog(self.folder.snapshots).files()
            self._base_files = {file.path: file for file in part_files(listing)}
            for marker in listing["path"].to_pylist():
                name = parse_row(marker)
                if name is not None and name.operation == SNAPSHOT:
                    self._markers[name.checkpoint, name.attempt] = marker
        self._snapshot_documents: dict[tuple[int, int], str] = {}
        self._documents: dict[int, Checkpoint] = {}

    def checkpoint(self, at: When = None) -> Checkpoint:
        """The checkpoint of a point in time.

        Args:
            at: its id; a time (a datetime or ISO text, without a zone: UTC) for the newest whose barrier was not after
                it, on whichever branch the job was then; None for the newest.

        Raises:
            RestoreError: there is none.
        """
        if at is None:
            newest = self.lineage.newest_checkpoint()
            if newest is None:
                raise RestoreError(f"there is no checkpoint in {self.folder.changelog.root} yet")
            return newest
        if isinstance(at, int):
            return self._document(at)
        when = _time(at)
        found = self.lineage.at_or_before(int(when.timestamp() * 1000))
        if found is None:
            raise RestoreError(
                f"there is no checkpoint at or before {when.isoformat()} in {self.folder.changelog.root}"
            )
        return found

    def attempts(self) -> list[Attempt]:
        """All attempts, oldest first."""
        return [self.lineage.attempt(number) for number in sorted(self.lineage.attempts)]

    def snapshot_rows(self) -> list[tuple[int, int, int, str]]:
        """(checkpoint, attempt, time in ms, JSON document) of each complete snapshot, oldest first."""
        rows = []
        for checkpoint, attempt in self._markers:
            entry = self.lineage.checkpoints.get(checkpoint)
            time_ms = 0 if entry is None else entry.time_ms
            rows.append((checkpoint, attempt, time_ms, self._snapshot_document(checkpoint, attempt)))
        return sorted(rows)

    def log_files(self) -> list[str]:
        """All files of mutations, of every branch."""
        return [file.path for file in self._files]

    def merged_files(self) -> list[str]:
        """Files that may hold rows of any kind."""
        return [file.path for file in self._files if file.name is None]

    def state(self, checkpoint: Checkpoint, operator: str | None, key_groups: range = _ALL) -> Selection:
        """The files that make up a state: the newest snapshot of the lineage and the log after it.

        Args:
            checkpoint: the point.
            operator: uid; None for all.
            key_groups: of the keys that are asked for.

        Raises:
            CorruptChangelogError: the log has a hole, and no snapshot bridges it.
        """
        usable = self._usable(checkpoint)
        if usable:
            return self._selected(checkpoint, operator, key_groups, usable[-1])
        self._check_complete(checkpoint, None)
        return self._selected(checkpoint, operator, key_groups, None)

    def history(self, checkpoint: Checkpoint, operator: str | None, key_groups: range = _ALL) -> Selection:
        """The files of all mutations up to a checkpoint that are there; after truncation, the snapshot before them.

        Args:
            checkpoint: the newest checkpoint.
            operator: uid; None for all.
            key_groups: of the keys that are asked for.

        Raises:
            CorruptChangelogError: the log has a hole, and no snapshot bridges it.
        """
        for snapshot in (None, *self._usable(checkpoint)):
            if self._hole(checkpoint, snapshot) is None:
                return self._selected(checkpoint, operator, key_groups, snapshot)
        self._check_complete(checkpoint, None)
        raise AssertionError("unreachable")

    def times(self, checkpoint: Checkpoint) -> tuple[int, list[int | None]]:
        """Times of the barriers of a lineage: the first id, and one time in ms an id from there on."""
        entries = self.lineage.checkpoints
        first = checkpoint.lineage[0].first
        found: list[int | None] = [None] * (checkpoint.id - first + 1)
        for segment in checkpoint.lineage:
            for number in range(segment.first, segment.last + 1):
                if number in entries:
                    found[number - first] = entries[number].time_ms
        return first, found

    def _usable(self, checkpoint: Checkpoint) -> list[int]:
        """Complete snapshots on the lineage, oldest first, after which nothing is missing."""
        return [
            number
            for number, attempts in sorted(self.snapshots.items())
            if number <= checkpoint.id
            and any(on_lineage(checkpoint.lineage, attempt, number) for attempt in attempts)
            and self._hole(checkpoint, number) is None
        ]

    def _snapshot_files(self, checkpoint: int, attempt: int) -> list[PartFile]:
        """The files of a snapshot; it may share some with older ones."""
        document = json.loads(self._snapshot_document(checkpoint, attempt))
        if "files" in document:
            found = [self._base_files[path] for path, *_ in document["files"] if path in self._base_files]
        else:
            own = (checkpoint, attempt)
            files = self._base_files.values()
            found = [f for f in files if f.name is not None and (f.name.checkpoint, f.name.attempt) == own]
        if len(found) != document["parts"]:
            raise CorruptChangelogError(
                f"the snapshot of checkpoint {checkpoint} in {self.folder.snapshots.root} has {len(found)} parts, not "
                f"{document['parts']}"
            )
        return found

    def _snapshot_document(self, checkpoint: int, attempt: int) -> str:
        who = checkpoint, attempt
        if who not in self._snapshot_documents:
            self._snapshot_documents[who] = read_row(self.folder.snapshots, self._markers[who])
        return self._snapshot_documents[who]

    def _selected(
        self, checkpoint: Checkpoint, operator: str | None, key_groups: range, snapshot: int | None
    ) -> Selection:
        operators = None if operator is None else frozenset([operator])
        chosen = [
            file
            for file in select_suffix(self._files, checkpoint.lineage, snapshot)
            if file.may_hold(key_groups, operators)
        ]
        base: list[PartFile] = []
        if snapshot is not None:
            attempt = attempt_of(checkpoint.lineage, snapshot)
            assert attempt is not None
            files = self._snapshot_files(snapshot, attempt)
            base = [file for file in files if file.may_hold(key_groups, operators)]
        mixed = any(file.name is None for file in chosen)
        return Selection(snapshot, _paths(base), _paths(chosen), tuple(checkpoint.lineage) if mixed else ())

    def _check_complete(self, checkpoint: Checkpoint, snapshot: int | None) -> None:
        hole = self._hole(checkpoint, snapshot)
        if hole is not None:
            raise CorruptChangelogError(
                f"{self.folder.changelog.root} does not have all mutations up to checkpoint {checkpoint.id}: {hole}, and no "
                "snapshot after that is there. Ask for a newer checkpoint"
            )

    def _hole(self, checkpoint: Checkpoint, snapshot: int | None) -> str | None:
        """Where parts are missing after a snapshot; None for nowhere. Checkpoint rows say how many there must be."""
        counts: dict[int, int] = {}
        for file in select_suffix(self._files, checkpoint.lineage, snapshot):
            if file.name is None:
                return None  # merged files took the place of parts
            counts[file.name.attempt] = counts.get(file.name.attempt, 0) + 1
        start = 0 if snapshot is None else snapshot
        for segment in checkpoint.lineage:
            if segment.last <= start:
                continue
            try:
                due = _parts_written(self._document(segment.last))
                if segment.first <= start:
                    due -= _parts_written(self._document(start))
            except (RestoreError, CorruptChangelogError):
                return f"the row of a checkpoint of attempt {segment.attempt} is gone"
            found = counts.get(segment.attempt, 0)
            if found != due:
                return f"attempt {segment.attempt} has {found} of {due} parts"
        return None

    def _document(self, number: int) -> Checkpoint:
        if number not in self._documents:
            self._documents[number] = self.lineage.checkpoint(number)
        return self._documents[number]


def described_state(
    checkpoint: Checkpoint, operator: str, state: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The descriptions of an operator and of one of its states.

    Raises:
        RestoreError: the checkpoint has no such state; lists those it has.
    """
    there = []
    for found in checkpoint.operators:
        for described in found.get("states", ()):
            if (found["uid"], described["name"]) == (operator, state):
                return found, described
            there.append(f"{found['uid']!r}.{described['name']!r}")
    raise RestoreError(
        f"checkpoint {checkpoint.id} has no state {state!r} of operator {operator!r}; it has {', '.join(there) or 'none'}"
    )


def _parts_written(checkpoint: Checkpoint) -> int:
    """How many parts the checkpoint's attempt had committed with it."""
    return sum(
        state.get("log", (0, 0))[1]
        for subtasks in checkpoint.operator_state.values()
        for state in subtasks.values()
    )


def _paths(files: Sequence[PartFile]) -> tuple[str, ...]:
    return tuple(file.path for file in files)


def _time(at: str | datetime) -> datetime:
    try:
        when = datetime.fromisoformat(at.strip()) if isinstance(at, str) else at
    except ValueError as error:
        raise RestoreError(f"{at!r} is not an ISO time such as 2026-01-31T12:00:00+00:00") from error
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
