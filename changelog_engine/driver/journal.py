"""The job's durable side as the coordinator sees it: one object over folder, lock, lineage and commits.

Invariants:
    * While a journal is open, this process holds the job's lock (on local disks) and its newest attempt.
    * A restore point is planned, and refused where it can't work, before anything is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from functools import cached_property

from changelog_engine.changelog.model import Checkpoint, Part, RestorePoint
from changelog_engine.clock import wall_ms
from changelog_engine.driver.attempt_notes import failure_of
from changelog_engine.driver.log_upkeep import LogUpkeep
from changelog_engine.errors import (
    ChangelogEngineError,
    CorruptChangelogError,
    FencedError,
    ForeignPathError,
    JobExecutionError,
    LostCommitError,
    RestoreError,
    StorageError,
)
from changelog_engine.ledger.attempt_notes import read_notes, write_failed_start
from changelog_engine.ledger.committer import CheckpointCommitter
from changelog_engine.ledger.job_folder import JobFolder, open_job_folder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import DriverLock, begin_attempt, check_fence
from changelog_engine.ledger.protection import protected_snapshots
from changelog_engine.ledger.restore_decision import decide_restore
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.savepoints.folder import Savepoint, dispose_savepoint
from changelog_engine.savepoints.restore import import_savepoint
from changelog_engine.storage.delta_log import DeltaLog

log = logging.getLogger("changelog_engine")


class JobJournal:
    """The durable side of one job, for one run of it. Use ``JobJournal.open``; close it at the end.

    Args:
        lock: held.
        changelog: mutations are logged (True), or checkpoints are full snapshots (False).
        retained: snapshots to keep when they are.
    """

    def __init__(
        self, folder: JobFolder, lock: DriverLock, delta: DeltaLog, changelog: bool, retained: int
    ) -> None:
        self.folder = folder
        self.changelog = changelog
        self.retained = retained
        self.empty_because = ""  # of a job that ran before and begins empty: why
        self.lock = lock  # which this driver signs
        self._delta = delta
        self._committer: CheckpointCommitter | None = None
        self._newest: tuple[int, int] | None = None  # attempt and checkpoint, as far as this driver knows
        self._snapshots: list[int] | None = None  # ids of the newest; None: not looked for yet
        self._points: dict[int | None, RestorePoint] = {}
        self._upkeep = LogUpkeep()
        self._claimed: Savepoint | None = None  # to be disposed of after the first checkpoint

    @staticmethod
    def open(base_path: str, name: str, changelog: bool = True, retained: int = 1) -> JobJournal:
        """Open (or make) a job's folder and take its lock.

        Args:
            base_path: folder or URI under which the job's folder lies.

        Raises:
            FencedError: another driver on this machine runs the job.
            ForeignPathError: the folder holds something else.
            FormatVersionError: a newer engine wrote it.
            StorageError: it can't be read or written.
        """
        folder = open_job_folder(base_path, name)
        lock = DriverLock(folder)
        lock.acquire()
        try:
            if not changelog:
                folder.open_snapshots()  # the table that subtasks write to
            return JobJournal(folder, lock, folder.open_changelog(), changelog, retained)
        except BaseException:
            lock.release()
            raise

    @property
    def parts_folder(self) -> str:
        """Where subtasks write their parts."""
        return self.folder.changelog.root if self.changelog else self.folder.snapshots.root

    def start_point(self, restore: str) -> Checkpoint | None:
        """The checkpoint that ``changelog.restore`` asks for; None to start empty.

        Raises:
            RestoreError: there is no such checkpoint, or its snapshot is gone.
        """
        lineage = Lineage(self._delta)
        self._newest = (lineage.newest_attempt_id, lineage.newest_checkpoint_id)
        decision = decide_restore(lineage, restore)
        begins = "empty" if decision.checkpoint is None else f"from checkpoint {decision.checkpoint.id}"
        log.info("job %r begins %s: %s", self.folder.name, begins, decision.reason)
        if decision.checkpoint is None and lineage.newest_attempt_id:
            self.empty_because = decision.reason
        if decision.lost is not None:
            log.warning("%s", decision.lost)
        self.restore_point(decision.checkpoint)
        return decision.checkpoint

    @cached_property
    def identity(self) -> str:
        """Stands for the job's folder: another where one was made anew, and where a copy lies."""
        return hashlib.sha256(f"{self._delta.table_id()} {self.folder.storage.root}".encode()).hexdigest()

    def branches(self, last: Checkpoint | None) -> frozenset[int]:
        """Attempts with checkpoints that a checkpoint (None: an empty start) does not descend from.

        Raises:
            CorruptChangelogError: a file of merged rows can't be read.
        """
        lineage = self.folder.open_lineage()
        try:
            return lineage.branches(() if last is None else last.lineage)
        except CorruptChangelogError as error:
            fault = f"{error.fault}: without it, it is not known whose output sinks have to leave alone"
            raise CorruptChangelogError(fault, error.path) from error

    def finished_before(self) -> Checkpoint | None:
        """The newest attempt's last checkpoint, if its input had ended and its sinks may not have committed."""
        # Not by the handle that the attempt begins with: that stands where the start was decided, and tells who began since.
        lineage = self.folder.open_lineage()
        attempt = lineage.newest_attempt()
        newest = None if attempt is None else lineage.newest_checkpoint(attempt.id)
        if attempt is None or newest is None or not newest.finished:
            return None
        note = read_notes(lineage.storage, [attempt.id]).get(attempt.id)
        return newest if note is None or note.ended is None else None

    def has_ended_with(self, checkpoint: Checkpoint) -> bool:
        """Whether an attempt came to its end with a checkpoint, and its sinks had committed what that keeps."""
        if not checkpoint.ends:
            return False
        note = read_notes(self.folder.changelog, [checkpoint.attempt]).get(checkpoint.attempt)
        return note is None or note.ended is not None

    def adopt(self, savepoint: Savepoint, checkpoint: Checkpoint, claim: bool) -> Checkpoint:
        """Import a savepoint; the job goes on from the checkpoint that this returns, and needs the savepoint no more.

        Args:
            savepoint: verified.
            checkpoint: what of it is taken over; see ``import_savepoint``.
            claim: the savepoint is the job's from now on, which disposes of it after its first checkpoint.

        Raises:
            FencedError, CorruptChangelogError, StorageError: as ``import_savepoint``.
        """
        imported = import_savepoint(self.folder, self._delta, savepoint, checkpoint)
        self._newest = (imported.attempt, imported.checkpoint.id)
        self._claimed = savepoint if claim else None
        self.restore_point(imported.checkpoint)
        return imported.checkpoint

    def restore_point(self, checkpoint: Checkpoint | None) -> RestorePoint:
        """Where workers find the state of a checkpoint."""
        identity = None if checkpoint is None else checkpoint.id
        if identity not in self._points:
            self._points = {identity: plan_restore(self.folder, checkpoint)}
        return self._points[identity]

    def begin_attempt(self, parent: Checkpoint | None) -> int:
        """Take the job over with a new attempt; returns its id.

        Raises:
            FencedError: another driver took the job over.
        """
        if self._newest is None:
            lineage = Lineage(self._delta)
            self._newest = (lineage.newest_attempt_id, lineage.newest_checkpoint_id)
        newest_attempt, newest_checkpoint = self._newest
        if self._committer is not None:
            newest_checkpoint = max(newest_checkpoint, self._committer.next_id - 1)
        if parent is not None:
            newest_checkpoint = max(newest_checkpoint, parent.id)
        # The table's handle is not refreshed in between: whoever took the job over meanwhile makes this fail.
        parent_id = None if parent is None else parent.id
        attempt = begin_attempt(self._delta, newest_attempt, parent_id)
        self._newest = (attempt.id, newest_checkpoint)
        self._committer = CheckpointCommitter(self.folder, self._delta, attempt, newest_checkpoint)
        return attempt.id

    def note_failed_start(self, error: BaseException) -> None:
        """Note for people what ended the run, unless an attempt began, which has a note of its own. Does not fail."""
        if isinstance(error, JobExecutionError) and error.__cause__ is not None:
            error = error.__cause__
        # What lies there may be another driver's by now, or another job's.
        if self._committer is not None or isinstance(error, FencedError | LostCommitError | ForeignPathError):
            return
        try:
            newest = self.folder.open_lineage().newest_attempt_id if self._newest is None else self._newest[0]
            write_failed_start(self.folder.changelog, newest, failure_of(error, wall_ms()))
        except ChangelogEngineError as fault:
            log.warning("why the start failed could not be noted: %s", fault)

    def next_id(self) -> int:
        """The id of the next checkpoint."""
        return self._of_attempt().next_id

    def commit(self, checkpoint: Checkpoint, parts: list[Part]) -> None:
        """Make a checkpoint durable. When this returns, it is acknowledged; see CheckpointCommitter."""
        if self.changelog:
            self._of_attempt().commit(checkpoint, parts)
            return
        self._of_attempt().commit_snapshot(checkpoint, parts)
        if self._snapshots is not None:
            self._snapshots.append(checkpoint.id)

    def check_owner(self) -> None:
        """Look whether the job is still this driver's.

        Raises:
            FencedError: another driver took it over.
            StorageError: the log cannot be read.
        """
        if self._committer is not None:
            self._committer.refuse_if_fenced("a checkpoint")

    def newest_of_attempt(self, attempt: int) -> Checkpoint | None:
        """The newest checkpoint that an attempt committed, as the log has it."""
        return self.folder.open_lineage().newest_checkpoint(attempt)

    def after_commit(self) -> None:
        """Keep the Delta log short and retire old snapshots; what fails here is tried again next time."""
        try:
            for delta in self._of_attempt().logs():
                self._upkeep.keep_short(delta)
            if self._claimed is not None:
                with contextlib.suppress(RestoreError):  # somebody else did
                    dispose_savepoint(self._claimed.path)
                self._claimed = None
            if not self.changelog:
                if self._snapshots is None:  # those of earlier drivers count
                    self._snapshots = sorted(complete_snapshots(self.folder))
                self._snapshots = self._snapshots[-self.retained :]
                kept = set(self._snapshots) | protected_snapshots(
                    self.folder, lambda: complete_snapshots(self.folder)
                )
                self._of_attempt().retire_snapshots(kept)
        except StorageError as error:
            log.warning("housekeeping of %s failed and is tried again: %s", self.folder.storage.root, error)

    def discard(self) -> None:
        """Remove the job's folder with all its checkpoints: DELETE_ON_CANCELLATION.

        Raises:
            FencedError: another driver took the job over, and the checkpoints with it; nothing was deleted.
            StorageError: the store does not answer; nothing was deleted.
        """
        if not self._upkeep.close():  # it would write into what was deleted
            raise StorageError(
                f"the checkpoints in {self.folder.storage.root} were to be deleted, as asked for cancelled jobs, and the "
                "store does not answer: nothing was deleted. Delete the folder when it does"
            )
        seen = self._delta.version
        self._delta.refresh()
        check_fence(self._delta, seen, "", "the deletion of its checkpoints")
        log.info("deleting the checkpoints of %s, as asked for cancelled jobs", self.folder.storage.root)
        self.folder.storage.delete_tree()

    def close(self) -> None:
        """Give the lock back."""
        self._upkeep.close()
        self.lock.release()

    def _of_attempt(self) -> CheckpointCommitter:
        if self._committer is None:
            raise StorageError("no attempt has begun")
        return self._committer
