"""Truncation: what no retained checkpoint, copy or history needs leaves the tables, and after a while the disk.

Steps (a crash after any of them is finished by the next truncation):
    1. Decide what stays.
    2. Commits to the changelog: rows of checkpoints that nobody needs leave it, the newest first, then their parts; merged
       files take the place of small ones. Each commit has a bounded number of actions, and a pause comes after it.
    3. One commit to the snapshots: those that nobody needs leave it.
    4. Note which files on the disk no table lists; delete those that were noted longer than the grace time ago.
    5. Keep the Delta logs short.

Invariants:
    * Every checkpoint whose row is there can be restored, after each commit too.
    * Nothing is removed, from the tables or from the disk, while the checkpoint that the job goes on from can't be restored.
    * What a snapshot stands for leaves the log only when its bytes are what they were; where the store sees to that, when
      they are there.
    * A file leaves its table before it leaves the disk, and the disk after the grace time: whoever began to read finishes.
    * A driver that takes the job over while a truncation runs keeps what it starts from: the truncation decides anew, or the
      driver finds out before its attempt begins.
    * Of two truncations at once, as object stores have no lock against them, one decides anew when the other has committed,
      also where this one stood still for so long that what the other committed, or what this one is to add, was cleaned
      up. A snapshot that came after the decision stays: the log before it may be gone by the other.
    * The job's commits wait for none of these: one that loses against a commit of a truncation is tried again at once.

Bound: the changelog lists the parts and rows since the second newest snapshot (and those that a copy or a retained
checkpoint needs), what merge.py and merge_rows.py leave of the history, and nothing else, however long the job has run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from changelog_engine.changelog.log_files import merged_bounds
from changelog_engine.changelog.model import CheckpointMark
from changelog_engine.changelog.part_reader import check_bytes
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.row_files import moved_rows
from changelog_engine.changelog.rows import ATTEMPT
from changelog_engine.clock import wall_s
from changelog_engine.errors import CorruptChangelogError, StorageError
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ledger import Base, Ledger
from changelog_engine.ledger.protection import protected_checkpoints, protected_snapshots
from changelog_engine.ledger.snapshots import Snapshots, snapshot_of
from changelog_engine.ledger.suffix import counted_rows
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import (
    COMMIT_TRIES,
    CommitConflictError,
    CommitsGoneError,
    DeltaLog,
    overtaken,
)
from changelog_engine.storage.protocol import Storage
from materializer.lock import materializer_lock
from materializer.merge import Change, merge_small
from materializer.merge_rows import row_changes
from materializer.retention import Needed, Retention, needed
from materializer.sweep import expires, sweep

MOST_ACTIONS = 1_000
_PAUSE_S = 0.02


class Truncation(NamedTuple):
    """What a truncation did.

    Args:
        log_files: files that left the changelog, merged ones included.
    """

    log_files: int = 0
    merged: int = 0
    snapshot_files: int = 0
    deleted: int = 0


class _Decided(NamedTuple):
    """Step 1.

    Args:
        seen: the snapshots that there were, usable or not.
    """

    stays: Needed
    seen: frozenset[CheckpointMark]


def truncate(folder: JobFolder, retention: Retention, clock: Callable[[], float] = wall_s) -> Truncation:
    """Truncate a job's log and snapshots.

    Args:
        clock: seconds since 1970.

    Raises:
        MaterializerBusyError: another process materializes or truncates this job.
        RestoreError, CorruptChangelogError: the checkpoint that the job goes on from can't be restored; nothing was removed.
        StorageError: storage failed; the next truncation finishes.
    """
    snapshots = folder.open_snapshots()
    with materializer_lock(folder):
        log = folder.open_changelog()
        decided, log_files, merged = _truncate_log(folder, log, snapshots, retention, clock)
        snapshot_removed = _truncate_snapshots(snapshots, decided)
        deleted = sweep((log, snapshots), log, retention.grace_ms, clock)
        log.maintain()
        snapshots.maintain()
    return Truncation(log_files, merged, snapshot_removed, deleted)


def sweep_expired(folder: JobFolder, retention: Retention, clock: Callable[[], float] = wall_s) -> int:
    """Step 4 alone, when there is something to delete: make room before a materialization writes.

    Args:
        retention: of which the grace time counts.
        clock: seconds since 1970.

    Returns:
        How many files were deleted.

    Raises:
        MaterializerBusyError, StorageError: as ``truncate``.
    """
    snapshots = folder.open_snapshots()
    with materializer_lock(folder):
        if not any(
            expires(table, retention.grace_ms, clock) for table in (folder.changelog, folder.snapshots)
        ):
            return 0
        log = folder.open_changelog()
        refuse_incomplete(Ledger(log))
        return sweep((log, snapshots), log, retention.grace_ms, clock)


def _truncate_log(
    folder: JobFolder, log: DeltaLog, snapshots: DeltaLog, retention: Retention, clock: Callable[[], float]
) -> tuple[_Decided, int, int]:
    """Steps 1 and 2."""
    removed = added = 0
    for _ in range(COMMIT_TRIES):
        ledger = Ledger(log)
        lineage = ledger.lineage
        damaged = damaged_snapshots(ledger)
        listed = Snapshots(snapshots.storage, snapshots)
        usable = [found for found in listed.usable() if found.checkpoint not in damaged]
        stays = needed(
            lineage,
            [found.mark for found in usable],
            retention,
            protected_checkpoints(folder, clock),
            protected_snapshots(folder, [found.checkpoint for found in usable].copy, clock),
            int(clock() * 1000),
        )
        for number, change in enumerate(_commits(_changes(folder, ledger, stays))):
            if number:
                time.sleep(_PAUSE_S)  # the job's own commits come in between
            if not _commit(log, change):
                break
            removed += len(change.removes)
            added += len(change.adds)
        else:
            return _Decided(stays, frozenset(listed.markers)), removed, added
    raise StorageError(
        f"could not truncate {log.storage.root}: drivers took the job over, or others truncated it, "
        f"{COMMIT_TRIES} times meanwhile"
    )


def _changes(folder: JobFolder, ledger: Ledger, stays: Needed) -> Iterator[Change]:
    """All that is to be done, in an order in which every checkpoint whose row is there can be restored."""
    storage = folder.changelog
    for rows in (ledger.lineage.checkpoints, ledger.lineage.attempts):
        yield from row_changes(storage, rows, stays)
    parts = ledger.files
    kept = [part for part in parts if _stays(storage, part, stays)]
    for part in sorted({part.path for part in parts} - {part.path for part in kept}):
        yield Change([], [part])
    yield from merge_small(storage, kept, stays)


def _commits(changes: Iterator[Change]) -> Iterator[Change]:
    """Changes put together, in their order, into commits of at most MOST_ACTIONS."""
    adds: list[AddFile] = []
    removes: list[str] = []
    for change in changes:
        if (adds or removes) and len(adds) + len(removes) + len(change.adds) + len(
            change.removes
        ) > MOST_ACTIONS:
            yield Change(adds, removes)
            adds, removes = [], []
        adds += change.adds
        removes += change.removes
    if adds or removes:
        yield Change(adds, removes)


def _commit(log: DeltaLog, change: Change) -> bool:
    """Commit unless a driver took the job over since the log's version, or another truncation took files out of it.

    Whatever came in between that can't be read any more counts as such. So does a file to add that another one took for
    a leftover, as no table listed it: this process stood still. Checkpoints in between do no harm.
    """
    for _ in range(COMMIT_TRIES):
        seen = log.version
        log.refresh()
        try:
            added = log.added_since(seen)
            others = any(path.startswith(f"{ATTEMPT}-") for path in added) or bool(log.removed_since(seen))
        except CommitsGoneError:
            others = True
        if others or any(log.storage.size(add.path) is None for add in change.adds):
            return False
        try:
            counts = {"truncated": len(change.removes), "merged": len(change.adds)}
            log.commit(change.adds, change.removes, counts)
            return True
        except CommitConflictError:
            continue
    raise overtaken(log.storage.root)


def refuse_incomplete(ledger: Ledger) -> None:
    """Raise when the checkpoint that the job goes on from can't be restored: what is there may be needed to mend it.

    Raises:
        RestoreError, CorruptChangelogError: as ``Ledger.base``.
    """
    point = ledger.lineage.newest_point()
    if point is not None:
        ledger.base(point)


def damaged_snapshots(ledger: Ledger) -> frozenset[int]:
    """Checkpoints whose changed snapshots the job would begin with; an older one takes their place, or the log.

    Raises:
        RestoreError, CorruptChangelogError: nothing takes it; as ``refuse_incomplete``.
    """
    point, snapshots = ledger.lineage.newest_point(), ledger.snapshots

    def look(base: Base) -> None:
        if base.snapshot is not None:
            _look_at(snapshots.storage, base.snapshot.files)

    return frozenset() if point is None else ledger.whole_base(point, look)[1]


def _look_at(storage: Storage, parts: Sequence[PartFile]) -> None:
    """Raise CorruptChangelogError where a part of a snapshot is not what was written; on object stores, is not there."""
    if storage.keeps_checksums:
        there = {entry.name: entry.size for entry in storage.list()}
        for part in parts:
            if part.path not in there:
                raise CorruptChangelogError("is missing", storage.join(part.path))
            if part.within is None and there[part.path] != part.size:
                raise CorruptChangelogError(
                    f"has {there[part.path]} bytes instead of {part.size}", storage.join(part.path)
                )
    check_bytes(storage, [part.path for part in parts])


def _stays(storage: Storage, part: PartFile, stays: Needed) -> bool:
    if part.name is not None:
        return stays.logs(part.name.mark)
    bounds = merged_bounds(part.path)
    if bounds is not None:
        return stays.logs_any(*bounds)
    needed_rows = any(map(stays.logs, counted_rows(storage, part.path)))  # drives our own code
    return needed_rows or bool(moved_rows(storage, part.path))


def _truncate_snapshots(snapshots: DeltaLog, decided: _Decided) -> int:
    """Step 3. A snapshot that can't be read stays until there is a newer one."""
    stays, seen = decided
    newest = max((mark.checkpoint for mark in stays.snapshots), default=0)
    committed = max(stays.singles, default=0)
    for _ in range(COMMIT_TRIES):
        found = Snapshots(snapshots.storage, snapshots)
        usable = {one.mark: one.paths for one in found.usable()}
        kept = {
            path for mark, files in usable.items() if mark in stays.snapshots or mark not in seen for path in files
        }  # fmt: skip
        gone = [
            path for path in found.paths
            if path not in kept and (mark := snapshot_of(path)) is not None
            and mark.checkpoint <= (committed if mark in usable else newest)
        ]  # fmt: skip
        if not gone:
            return 0
        try:
            snapshots.commit([], sorted(gone), {"truncated": len(gone)})
            return len(gone)
        except CommitConflictError:
            continue
    raise overtaken(snapshots.storage.root)
