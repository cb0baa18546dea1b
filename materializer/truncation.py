"""Truncation: what no retained checkpoint, copy or history needs leaves the tables, and after a while the disk.

Steps (a crash after any of them is finished by the next truncation):
    1. Decide what stays, and merge small parts of the history into large files that nothing refers to yet.
    2. One commit to the changelog: parts and rows that nobody needs leave it, merged files take the place of their parts.
    3. One commit to the snapshots: those that nobody needs leave it.
    4. Note which files on the disk no table lists; delete those that were noted longer than the grace time ago.
    5. Keep the Delta logs short.

Invariants:
    * A file leaves its table before it leaves the disk, and the disk after the grace time: whoever began to read finishes.
    * A driver that takes the job over while a truncation runs keeps what it starts from: the truncation decides anew, or the
      driver finds out before its attempt begins.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import NamedTuple

from changelog_engine.changelog.log_files import parse_part, parse_row
from changelog_engine.changelog.part_selection import PartFile, part_files
from changelog_engine.changelog.rows import ATTEMPT, CHECKPOINT
from changelog_engine.checkpoint.job_folder import JobFolder
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.checkpoint.protection import protected_checkpoints, protected_snapshots
from changelog_engine.checkpoint.snapshots import marker_paths, snapshot_files, snapshot_of
from changelog_engine.errors import StorageError
from changelog_engine.storage.delta_log import AddFile, CommitConflictError, DeltaLog
from changelog_engine.storage.filesystem import TEMPORARY_PREFIX, Storage
from materializer.lock import MaterializerLock
from materializer.merge import merge_small
from materializer.retention import Needed, Retention, needed

NOTES = "_unlisted.json"
_COMMIT_TRIES = 20
_LEFTOVER_MS = 3_600_000


class Truncation(NamedTuple):
    """What a truncation did.

    Args:
        log_files: files that left the changelog, merged ones included.
        merged: files that parts were merged into.
        snapshot_files: files that left the snapshots.
        deleted: files that left the disk.
    """

    log_files: int = 0
    merged: int = 0
    snapshot_files: int = 0
    deleted: int = 0


def truncate(folder: JobFolder, retention: Retention, clock: Callable[[], float] = time.time) -> Truncation:
    """Truncate a job's log and snapshots.

    Args:
        folder: the job's folder.
        retention: what stays.
        clock: seconds since 1970.

    Returns:
        What was done.

    Raises:
        MaterializerBusyError: another process materializes or truncates this job.
        StorageError: storage failed; the next truncation finishes.
    """
    snapshots = folder.open_snapshots()
    with MaterializerLock(folder):
        log = folder.open_changelog()
        stays, log_files, merged = _truncate_log(folder, log, snapshots, retention, clock)
        snapshot_removed = _truncate_snapshots(snapshots, stays)
        deleted = sum(_sweep(table, log, retention.grace_ms, clock) for table in (log, snapshots))
        log.maintain()
        snapshots.maintain()
    return Truncation(log_files, merged, snapshot_removed, deleted)


def _truncate_log(
    folder: JobFolder, log: DeltaLog, snapshots: DeltaLog, retention: Retention, clock: Callable[[], float]
) -> tuple[Needed, int, int]:
    """Steps 1 and 2."""
    for _ in range(_COMMIT_TRIES):
        lineage = Lineage(log)
        listing = log.files()
        if log.version != lineage.version:
            continue
        stays = needed(
            lineage,
            [who for _, who in marker_paths(snapshots.files())],
            retention,
            protected_checkpoints(folder, clock),
            protected_snapshots(folder, clock),
            int(clock() * 1000),
        )
        parts = part_files(listing)
        gone = {part.path for part in parts if not _stays(part, stays)}
        gone |= {path for path in listing["path"].to_pylist() if _row_goes(path, stays)}
        small = [part for part in parts if part.path not in gone]
        adds, replaced = merge_small(folder.changelog, small, stays.settled)
        removes = gone | replaced
        if not removes:
            return stays, 0, 0
        if _commit(log, adds, sorted(removes)):
            return stays, len(removes), len(adds)
    raise StorageError(
        f"could not truncate {log.storage.root}: drivers took the job over {_COMMIT_TRIES} times meanwhile"
    )


def _commit(log: DeltaLog, adds: list[AddFile], removes: list[str]) -> bool:
    """Commit unless a driver took the job over since the log's version; checkpoints in between do no harm."""
    for _ in range(_COMMIT_TRIES):
        seen = log.version
        log.refresh()
        added = log.added_since(seen)
        if any(path.startswith(f"{ATTEMPT}-") for path in added):
            return False
        try:
            log.commit(adds, removes, {"truncated": len(removes), "merged": len(adds)})
            return True
        except CommitConflictError:
            continue
    raise StorageError(
        f"could not commit to {log.storage.root}: others committed {_COMMIT_TRIES} times between"
    )


def _stays(part: PartFile, stays: Needed) -> bool:
    if part.name is not None:
        return stays.logs(part.name.attempt, part.name.checkpoint)
    if part.first_checkpoint is None or part.last_checkpoint is None:
        return True
    return stays.logs_any(part.first_checkpoint, part.last_checkpoint)


def _row_goes(path: str, stays: Needed) -> bool:
    row = parse_row(path)
    if row is None:
        return False
    if row.operation == CHECKPOINT:
        return row.checkpoint not in stays.checkpoints
    return row.operation == ATTEMPT and row.attempt not in stays.attempts


def _truncate_snapshots(snapshots: DeltaLog, stays: Needed) -> int:
    """Step 3."""
    for _ in range(_COMMIT_TRIES):
        listing = snapshots.files()
        kept: set[str] = set()
        for path, who in marker_paths(listing):
            if who in stays.snapshots:
                kept |= {path, *snapshot_files(snapshots.storage, path, listing)}
        newest = max(stays.checkpoints, default=0)
        gone = [
            path for path in listing["path"].to_pylist()
            if path not in kept and (name := snapshot_of(path)) is not None and name[0] <= newest
        ]  # fmt: skip
        if not gone:
            return 0
        try:
            snapshots.commit([], sorted(gone), {"truncated": len(gone)})
            return len(gone)
        except CommitConflictError:
            continue
    raise StorageError(f"could not commit to {snapshots.storage.root}: others committed between")


def _sweep(table: DeltaLog, log: DeltaLog, grace_ms: int, clock: Callable[[], float]) -> int:
    """Step 4: the files of one table's folder."""
    storage = table.storage
    lineage = Lineage(log)  # before the listings: a part that is committed meanwhile is listed
    on_disk = [entry.name for entry in storage.list() if not entry.is_folder]
    listed = {str(path) for path in table.files()["path"].to_pylist()}
    now_ms = int(clock() * 1000)
    noted = _read_notes(storage)
    notes = {
        name: noted.get(name, now_ms)
        for name in on_disk
        if name not in listed and _is_garbage(name, lineage.newest_attempt_id, lineage.newest_checkpoint_id)
    }
    expired = [
        name for name, since in notes.items()
        if now_ms - since >= (max(grace_ms, _LEFTOVER_MS) if name.startswith(TEMPORARY_PREFIX) else grace_ms)
    ]  # fmt: skip
    if set(notes) - set(noted):  # what expires is forgotten by the next sweep
        storage.write_durable(NOTES, json.dumps(notes).encode())
    for name in expired:
        storage.delete(name)
    return len(expired)


def _is_garbage(name: str, newest_attempt: int, newest_checkpoint: int) -> bool:
    """Whether a file that no table lists never will be listed (again)."""
    if name.startswith((TEMPORARY_PREFIX, "merged-")):
        return True
    part, row = parse_part(name), parse_row(name)
    if part is None and row is None:
        return False  # not ours
    attempt = part.attempt if part is not None else row.attempt if row is not None else 0
    checkpoint = part.checkpoint if part is not None else row.checkpoint if row is not None else 0
    if attempt > newest_attempt:
        return False  # a driver is about to take over
    if row is not None and row.operation == ATTEMPT:
        return True
    return attempt < newest_attempt or checkpoint <= newest_checkpoint


def _read_notes(storage: Storage) -> dict[str, int]:
    try:
        found: dict[str, int] = json.loads(storage.read(NOTES).to_pybytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found
