"""Forks: a job of its own that starts from a checkpoint of another.

On one local disk the fork shares the files of its parent by hard links; elsewhere it has copies. Either way each of the
two truncates and deletes as it likes: a shared file is gone when nobody has a name of it any more.

Steps (a crash after 1 to 3 leaves a hidden folder on a local disk, elsewhere, up to the commit, one that no job accepts.
The next fork takes either away, see unfinished_forks):
    1. The parent's checkpoint is protected.
    2. Links or copies of all that its lineage has: parts, rows, snapshots.
    3. The fork's tables list them; one commit adds an attempt whose parent is the checkpoint: there the job starts.
       Where the fork is amended, the same commit has a checkpoint of that attempt, with its parts.
    4. On a local disk the folder gets its name.

Invariants:
    * The parent is not changed, and whatever happens to it later does not reach the fork.
    * A fork appears under its name only when it is complete (local disks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from changelog_engine.changelog.model import Attempt, Checkpoint, Part
from changelog_engine.changelog.part_selection import part_files
from changelog_engine.changelog.part_stats import delta_stats
from changelog_engine.changelog.row_files import Rows, read_merged_rows
from changelog_engine.changelog.rows import CHECKPOINT, SCHEMA
from changelog_engine.changelog.segments import on_lineage
from changelog_engine.clock import wall_s
from changelog_engine.errors import ConfigurationError, CorruptChangelogError
from changelog_engine.ledger.committer import verify_parts
from changelog_engine.ledger.job_folder import JobFolder, job_slug, table_properties
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage, write_merged_rows
from changelog_engine.ledger.ownership import attempt_of_this_process, attempt_row, checkpoint_row
from changelog_engine.ledger.protection import protecting
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.snapshots import Snapshots
from changelog_engine.savepoints.folder import free_place
from changelog_engine.savepoints.unfinished_forks import (
    begin_fork,
    finish_fork,
    give_up_fork,
    leave_fork,
    make_room,
)
from changelog_engine.storage.damaged import reading
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import CommitConflictError, DeltaLog
from changelog_engine.storage.protocol import Storage


class Fork(NamedTuple):
    """A fork that was made."""

    folder: JobFolder
    checkpoint: Checkpoint
    shared: int
    copied: int
    shared_bytes: int
    copied_bytes: int


class Amendment(NamedTuple):
    """A checkpoint that a fork has of its own from the beginning."""

    checkpoint: Checkpoint  # its row; its parent is the checkpoint that was forked
    parts: list[Part]  # its mutations, durable in the fork's changelog


def fork_job(
    parent: JobFolder,
    checkpoint: Checkpoint,
    path: str,
    name: str | None = None,
    clock: Callable[[], float] = wall_s,
    amend: Callable[[JobFolder, Attempt], Amendment] | None = None,
) -> Fork:
    """Make a job out of a checkpoint of another, which may be running.

    Args:
        path: the fork's folder, ``<base>/<job>``; there is none yet.
        name: the fork's job name; by default the last part of the path.
        clock: seconds since 1970.
        amend: makes the checkpoint with which the fork's attempt begins; None: it has none yet. What it raises leaves
            no fork. It is called anew where the fork is made anew, as truncation took files from under it.

    Raises:
        ConfigurationError: a job of that name would not look for its tables in that folder, or it would lie in the folder
            of another.
        ForeignPathError: the folder above is a file.
        RestoreError: the checkpoint can't be restored.
        CorruptChangelogError: a file of the parent is missing.
        StorageError: the path is taken, or can't be written.
    """
    base, slug = free_place(path, "fork", lambda base, slug: make_room(base, slug, clock))
    name = slug if name is None else name
    if job_slug(name) != slug:
        raise ConfigurationError(
            f"a job named {name!r} has its tables in a folder named {job_slug(name)!r}, not {slug!r}: choose another path "
            "or name"
        )

    def fork(_: str) -> Fork:
        point = plan_restore(parent, checkpoint)
        base.make_dirs()
        target = JobFolder(name, slug, begin_fork(base, slug, clock))
        try:
            with protecting(parent, checkpoint.id, point.snapshot, "fork"):
                made = _Forking(parent, checkpoint, target).run(clock, amend)
            finish_fork(base, target.storage, slug)
        except CommitConflictError:  # a job has begun there: what is there is its own
            leave_fork(base, target.storage)
            raise
        except BaseException:
            give_up_fork(base, target.storage)
            raise
        return made._replace(folder=JobFolder(name, slug, base.child(slug)))

    return read_again(fork)(parent.changelog.root)


class _Forking:
    """Steps 2 and 3."""

    def __init__(self, parent: JobFolder, checkpoint: Checkpoint, target: JobFolder) -> None:
        self.parent = parent
        self.checkpoint = checkpoint
        self.target = target
        self.sizes: dict[bool, list[int]] = {True: [], False: []}  # shared, copied

    def run(
        self, clock: Callable[[], float], amend: Callable[[JobFolder, Attempt], Amendment] | None
    ) -> Fork:
        log = self.parent.open_changelog()
        lineage = Lineage(log)
        if DeltaLog.exists(self.parent.snapshots):
            self._snapshots()  # after the log, so that none is older than it
        newest_attempt = lineage.newest_attempt_id
        storage = self.target.changelog
        storage.make_dirs()
        adds = self._share(log.storage, storage, lineage.files, self._log_files(lineage))
        for kind in (lineage.checkpoints, lineage.attempts):
            adds += self._rows(kind, lineage.files)
        attempt = attempt_of_this_process(newest_attempt + 1, self.checkpoint.id, int(clock() * 1000))
        adds.append(attempt_row(storage, attempt))
        begins = self.checkpoint
        if amend is not None:
            begins, parts = amend(self.target, attempt)
            adds += verify_parts(storage, parts)
            adds.append(checkpoint_row(storage, begins))
        table = DeltaLog.create(storage, SCHEMA, table_properties(self.target.name))
        table.commit(adds, metadata={"fork": self.checkpoint.id, "of": self.parent.name})
        plan_restore(self.target, begins)  # all that it needs came along
        shared, copied = self.sizes[True], self.sizes[False]
        return Fork(self.target, self.checkpoint, len(shared), len(copied), sum(shared), sum(copied))

    def _log_files(self, rows: Lineage) -> list[str]:
        """What the lineage has in the changelog, merged rows left out."""
        lineage = self.checkpoint.lineage
        wanted = [
            entry.path
            for kind in (rows.checkpoints, rows.attempts)
            for entry in kind.own.values()
            if entry.path is not None and self._is_ours(kind, entry.attempt, entry.id)
        ]
        for file in part_files(rows.files):
            if file.name is None or on_lineage(lineage, file.name.attempt, file.name.checkpoint):
                # Merged parts of other branches, too: readers take what is on the lineage.
                wanted.append(file.path)
        return list(dict.fromkeys(wanted))  # a pack has several parts

    def _is_ours(self, kind: Rows, attempt: int, identity: int) -> bool:
        """Whether a row is on the lineage."""
        lineage = self.checkpoint.lineage
        if kind.operation == CHECKPOINT:
            return on_lineage(lineage, attempt, identity)
        return any(segment.attempt == attempt for segment in lineage)

    def _rows(self, kind: Rows, listing: pa.Table) -> list[AddFile]:
        """Files of merged rows: shared where all of them are on the lineage, else written anew without the others."""
        source, target = self.parent.changelog, self.target.changelog
        whole, adds = [], []
        for file in kind.files:
            index = kind.index_of(file)
            pairs = zip(index.attempts.tolist(), index.ids.tolist(), strict=True)
            ours = [self._is_ours(kind, attempt, identity) for attempt, identity in pairs]
            if all(ours):
                whole.append(file.path)
            elif any(ours):
                rows = read_merged_rows(source, file.path).filter(pa.array(ours))
                adds.append(write_merged_rows(target, kind.operation, rows))
                self.sizes[False].append(adds[-1].size)
        return [*self._share(source, target, listing, whole), *adds]

    def _snapshots(self) -> None:
        """The lineage's snapshots."""
        snapshots = Snapshots(self.parent.snapshots)
        wanted: dict[str, None] = {}
        for mark in snapshots.on(self.checkpoint.lineage, self.checkpoint.id):
            with suppress(CorruptChangelogError):  # of what the state needs the plans tell
                wanted.update(dict.fromkeys(sorted(snapshots.get(mark).paths)))
        if not wanted or snapshots.listing is None:
            return
        storage = self.target.snapshots
        storage.make_dirs()
        adds = self._share(snapshots.storage, storage, snapshots.listing, wanted)
        DeltaLog.create(storage, SCHEMA, table_properties(self.target.name)).commit(adds)

    def _share(
        self, source: Storage, target: Storage, listing: pa.Table, wanted: Iterable[str]
    ) -> list[AddFile]:
        columns = (listing[name].to_pylist() for name in ("path", "size_bytes", "modification_time"))
        listed = {path: (size, time_ms) for path, size, time_ms in zip(*columns, strict=True)}
        adds = []
        for path in wanted:
            size, time_ms = listed[path]
            try:
                shared = target.share(source, path)
            except FileNotFoundError as error:
                raise CorruptChangelogError("is missing: nothing was forked", source.join(path)) from error
            with reading(source.join(path), consequence="Nothing was forked"):
                stats = delta_stats(target.read_footer(path, size))
            self.sizes[shared].append(size)
            adds.append(AddFile(path, size, time_ms, stats))
        target.sync()
        return adds
