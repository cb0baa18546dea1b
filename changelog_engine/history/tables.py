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

import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.changelog.log_files import SNAPSHOT, read_row
from changelog_engine.changelog.model import Attempt, Checkpoint, Segment
from changelog_engine.changelog.part_selection import (
    PartFile,
    attempt_of,
    on_lineage,
    part_files,
    select_suffix,
)
from changelog_engine.checkpoint.job_path import open_job
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.checkpoint.snapshots import usable_snapshots
from changelog_engine.errors import CorruptChangelogError, RestoreError
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.storage.delta_log import DeltaLog

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
        self.lineage = Lineage(log)
        self._files = part_files(log.files())
        self.snapshots: dict[int, set[int]] = {}  # checkpoint -> attempts that made one that can be used
        self._base_files: dict[str, PartFile] = {}
        self._markers: dict[
            tuple[int, int], str
        ] = {}  # (checkpoint, attempt) -> the file that says it is complete
        if DeltaLog.exists(self.folder.snapshots):
            listing = DeltaLog(self.folder.snapshots).files()
            self._base_files = {file.path: file for file in part_files(listing)}
            for (checkpoint, attempt), files in usable_snapshots(self.folder.snapshots, listing):
                self.snapshots.setdefault(checkpoint, set()).add(attempt)
                marker = next(file for file in files if file.startswith(f"{SNAPSHOT}-"))
                self._markers[checkpoint, attempt] = marker
        self._snapshot_documents: dict[tuple[int, int], str] = {}
        self._documents: dict[int, Checkpoint] = {}
        self._merged: dict[str, list[tuple[int, int, int]]] = {}

    def checkpoint(self, at: When = None) -> Checkpoint:
        """The checkpoint of a point in time.

        Args:
            at: its id; a time (a datetime or ISO text, without a zone: UTC) for the newest whose barrier was not after
                it, on whichever branch the job was then; None for the newest.

        Raises:
            RestoreError: there is none, or it was truncated.
        """
        if at is None:
            newest = self.lineage.newest_checkpoint()
            if newest is None:
                raise RestoreError(f"there is no checkpoint in {self.folder.changelog.root} yet")
            return newest
        if isinstance(at, int):
            return self._document(at)
        return self._document(self._newest_then(_time(at)))

    def _newest_then(self, when: datetime) -> int:
        """The newest checkpoint at or before a time. Ids have no gaps: where one is missing, it was truncated."""
        index = self.lineage.checkpoints.index()
        ids, then = index.ids, index.ids[index.times <= int(when.timestamp() * 1000)]
        table = self.folder.changelog.root
        if not len(then):
            raise RestoreError(f"there is no checkpoint at or before {when.isoformat()} in {table}")
        newest = int(then[-1])
        later = ids[ids > newest]
        if len(later) and int(later[0]) > newest + 1:
            raise RestoreError(
                f"checkpoints {newest + 1} to {int(later[0]) - 1} of {table} were truncated, and one of them may have been "
                f"the newest at {when.isoformat()}: ask for {newest} or {int(later[0])}"
            )
        return newest

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

    def state(
        self, checkpoint: Checkpoint, operator: str | None, key_groups: range = ALL_KEY_GROUPS
    ) -> Selection:
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

    def history(
        self, checkpoint: Checkpoint, operator: str | None, key_groups: range = ALL_KEY_GROUPS
    ) -> Selection:
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
        first = checkpoint.lineage[0].first
        found: list[int | None] = [None] * (checkpoint.id - first + 1)
        index = self.lineage.checkpoints.index()
        for number, attempt, time_ms in zip(*(column.tolist() for column in index), strict=True):
            if on_lineage(checkpoint.lineage, attempt, number):
                found[number - first] = time_ms
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
        lineage = tuple(checkpoint.lineage) if mixed else ()
        return Selection(snapshot, _paths(base), _paths(chosen), _rows(chosen), _rows(base), lineage)

    def _check_complete(self, checkpoint: Checkpoint, snapshot: int | None) -> None:
        hole = self._hole(checkpoint, snapshot)
        if hole is not None:
            raise CorruptChangelogError(
                f"{self.folder.changelog.root} does not have all mutations up to checkpoint {checkpoint.id}: {hole}, and no "
                "snapshot after that is there. Ask for a newer checkpoint"
            )

    def _hole(self, checkpoint: Checkpoint, snapshot: int | None) -> str | None:
        """Where mutations are missing after a snapshot; None for nowhere. Checkpoint rows say how many there must be.

        Parts are counted; where parts were merged, rows are.
        """
        suffix = select_suffix(self._files, checkpoint.lineage, snapshot)
        merged = any(file.name is None for file in suffix)
        start = 0 if snapshot is None else snapshot
        counts: dict[int, int] = {}
        for file in suffix:
            if file.name is not None:
                one = (file.rows or 0) if merged else 1
                counts[file.name.attempt] = counts.get(file.name.attempt, 0) + one
                continue
            for attempt, number, rows in self._merged_rows(file):
                if number > start and on_lineage(checkpoint.lineage, attempt, number):
                    counts[attempt] = counts.get(attempt, 0) + rows
        written = _rows_written if merged else _parts_written
        for segment in checkpoint.lineage:
            if segment.last <= start:
                continue
            try:
                due = written(self._document(segment.last))
                if segment.first <= start:
                    due -= written(self._document(start))
            except (RestoreError, CorruptChangelogError):
                return f"the row of a checkpoint of attempt {segment.attempt} is gone"
            found = counts.get(segment.attempt, 0)
            if found != due:
                return f"attempt {segment.attempt} has {found} of {due} {'mutations' if merged else 'parts'}"
        return None

    def _merged_rows(self, file: PartFile) -> list[tuple[int, int, int]]:
        """How many mutations a merged file has of which checkpoint: (attempt, checkpoint, rows).

        Raises:
            CorruptChangelogError: it is missing or can't be read.
        """
        if file.path not in self._merged:
            names = ["attempt", "checkpoint_id", "sequence"]
            storage = self.folder.changelog
            try:
                table = pq.read_table(pa.BufferReader(storage.read(file.path)), columns=names)
            except (FileNotFoundError, pa.ArrowException) as error:
                raise CorruptChangelogError(f"{storage.join(file.path)} can't be read: {error}") from error
            counted = table.group_by(names[:2]).aggregate([("sequence", "count")])
            self._merged[file.path] = list(zip(*(counted[i].to_pylist() for i in range(3)), strict=True))
        return self._merged[file.path]

    def _document(self, number: int) -> Checkpoint:
        if number not in self._documents:
            self._documents[number] = self.lineage.checkpoint(number)
        return self._documents[number]


def described_operator(checkpoint: Checkpoint, operator: str) -> dict[str, Any]:
    """The description of an operator with keys.

    Raises:
        RestoreError: the checkpoint has no such operator; lists those it has.
    """
    keyed = {found["uid"]: found for found in checkpoint.operators if "states" in found}
    if operator not in keyed:
        there = ", ".join(map(repr, keyed)) or "none"
        raise RestoreError(
            f"checkpoint {checkpoint.id} has no operator {operator!r} with keys; it has {there}"
        )
    return keyed[operator]


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


def _written(checkpoint: Checkpoint) -> list[tuple[int, int]]:
    """What each subtask of the checkpoint's attempt had committed with it: rows and parts."""
    subtasks = [state for found in checkpoint.operator_state.values() for state in found.values()]
    return [state["log"] for state in subtasks if "log" in state]


def _rows_written(checkpoint: Checkpoint) -> int:
    return sum(rows for rows, _ in _written(checkpoint))


def _parts_written(checkpoint: Checkpoint) -> int:
    return sum(parts for _, parts in _written(checkpoint))


def _rows(files: Sequence[PartFile]) -> int:
    return sum(file.rows or 0 for file in files)


def _paths(files: Sequence[PartFile]) -> tuple[str, ...]:
    return tuple(file.path for file in files)


def _time(at: str | datetime) -> datetime:
    try:
        when = datetime.fromisoformat(at.strip()) if isinstance(at, str) else at
    except ValueError as error:
        raise RestoreError(f"{at!r} is not an ISO time such as 2026-01-31T12:00:00+00:00") from error
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
