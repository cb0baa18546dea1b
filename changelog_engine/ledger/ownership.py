"""Who may commit: one driver at a time.

Invariants:
    * On one machine, a second driver is refused at once by a file lock; the kernel frees it however the first one ends.
    * Beside the lock, and on object stores in its place, stands who runs the job and when it gave the last sign of life:
      for people, and for those who wait for an answer. Nobody's right to commit depends on it, or on a clock.
    * Everywhere, a driver takes the job over with an attempt row, committed by compare-and-swap from the version at which it
      decided where to start. A newer attempt fences older ones: they find its row before their next commit.
    * No attempt has the number of another whose snapshots are there, or these would pass for its own.
    * A row of this driver's own, whose commit was reported as failed and came to be all the same, is nobody else's: an
      attempt's is passed over, and a checkpoint is committed neither twice nor over it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import NamedTuple

from changelog_engine.changelog.log_files import RowName, parse_merged_rows, parse_row
from changelog_engine.changelog.model import Attempt, Checkpoint
from changelog_engine.changelog.one_row_files import read_row, row_file
from changelog_engine.changelog.part_stats import delta_stats, footer_of
from changelog_engine.changelog.rows import ATTEMPT, CHECKPOINT
from changelog_engine.clock import wall_s
from changelog_engine.errors import FencedError, RestoreError, StorageError
from changelog_engine.ledger.job_folder import LOCK_FILE, JobFolder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.process_notes import is_there
from changelog_engine.ledger.snapshots import newest_named
from changelog_engine.readable import iso
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import (
    COMMIT_TRIES,
    CommitConflictError,
    CommitsGoneError,
    DeltaLog,
    overtaken,
)
from changelog_engine.storage.locks import Lock, LockTakenError, is_locked, is_stopped
from changelog_engine.storage.protocol import Storage

SIGNED, DOING = "signed_ms", "doing"
SIGN_EVERY_S = 10.0
"""How often a driver gives a sign of life."""
SILENT_S = 4 * SIGN_EVERY_S
"""A driver that gave none for this long is not taken to be running."""


_MOST_OF_DOING = 800  # characters; in JSON others than those of ASCII take up to 12 bytes
_NOTE_BYTES = 3_000
_PATIENCE_S = 5.0  # with a store that does not answer, when the job ends


class CommittedAfterAllError(StorageError):
    """A checkpoint of this driver's own is in the log, whose commit was reported as failed: the job goes on from it."""


class DriverIdentity(NamedTuple):
    """Which process drives a job, or drove it last, and since when; None where there is no note."""

    host: str | None = None
    pid: int | None = None
    since: str | None = None


class DriverLock:
    """The lock on a job's folder. Keeps nobody out on object stores: there, the attempt row alone decides.

    Example:
        >>> with DriverLock(folder):
        ...     run()
    """

    def __init__(self, folder: JobFolder, clock: Callable[[], float] = wall_s) -> None:
        self._folder = folder
        self._clock = clock
        self._lock: Lock | None = None
        self._writing = threading.Lock()  # signs come from a thread of their own
        self._since = ""

    @property
    def identity(self) -> DriverIdentity:
        """This process as it notes itself, once it holds the lock."""
        return DriverIdentity(socket.gethostname(), os.getpid(), self._since)

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            FencedError: another driver holds it; names host, pid and since when.
            StorageError: the lock file can't be written.
        """
        if self._lock is not None:
            return
        try:
            self._lock = self._folder.storage.lock(LOCK_FILE)
        except LockTakenError as error:
            raise FencedError(
                f"the job {self._folder.name!r} in {self._folder.storage.root} is being run by another driver "
                f"({error.holder}): stop that one first, or give this job another name or base path"
            ) from None
        self._since = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        try:
            self.sign()
        except StorageError:
            self.release()
            raise

    def sign(self, doing: str = "") -> None:
        """Give a sign of life; does nothing once the lock was given back.

        Args:
            doing: what the job does now, for people.
        """
        with self._writing:
            if self._lock is None:
                return
            document = {**self.identity._asdict(), SIGNED: int(self._clock() * 1000)}
            if doing:
                document[DOING] = doing[: _MOST_OF_DOING if doing.isascii() else _MOST_OF_DOING // 4]
            # All of one length, so that a concurrent reader finds one or the other.
            note = json.dumps(document).encode().ljust(_NOTE_BYTES)
            if self._folder.storage.local is None:
                self._folder.storage.write_durable(LOCK_FILE, note)
            else:
                self._lock.note(note)

    def release(self) -> None:
        """Give the lock back. A store that does not answer is not waited for: the last sign ages there."""
        signed = self._writing.acquire(timeout=_PATIENCE_S)
        held, self._lock = self._lock, None
        if signed:
            self._writing.release()
        if held is None:
            return
        held.release()
        if signed and self._folder.storage.local is None:
            removal = threading.Thread(target=self._remove_sign, name="last sign of life", daemon=True)
            removal.start()
            removal.join(_PATIENCE_S)

    def _remove_sign(self) -> None:
        """On object stores a driver that ended leaves no sign; that of a driver that took the job over stays."""
        with contextlib.suppress(StorageError):  # it ages
            noted = self._folder.storage.read_document(LOCK_FILE)
            if _identity_in(noted) == self.identity:
                self._folder.storage.delete(LOCK_FILE)

    def __enter__(self) -> DriverLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Driver(NamedTuple):
    """The driver of a job, as far as this machine can tell.

    Args:
        running: whether it runs; None where that cannot be told: on an object store, or when it is on another machine, and
            gave no sign of life of late.
        host, pid, since: what the one that ran last noted; None where there is no note.
        signed_ms: when it gave its last sign of life, by its own clock; None where there is none.
        stopped: it is a process of this machine that is stopped, as by SIGSTOP or Ctrl-Z.
        by_sign: that it runs is told by its last sign of life alone.
        gone: likewise, and no process of this machine has its number: it was killed, unless it is in a container.
        doing: what the job did when it gave that sign; None where that is not known.
    """

    running: bool | None
    host: str | None = None
    pid: int | None = None
    since: str | None = None
    signed_ms: int | None = None
    stopped: bool = False
    by_sign: bool = False
    gone: bool = False
    doing: str | None = None

    @property
    def identity(self) -> DriverIdentity:
        """Who it is, whatever it does."""
        return DriverIdentity(self.host, self.pid, self.since)

    def silent_s(self) -> float | None:
        """Seconds since its last sign of life; None where there is none, or it is recent."""
        if self.signed_ms is None:
            return None
        silent_s = wall_s() - self.signed_ms / 1000
        return silent_s if silent_s > SILENT_S else None


def driver_of(folder: JobFolder, clock: Callable[[], float] = wall_s) -> Driver:
    """Who runs a job. Nothing is locked or changed."""
    noted = folder.storage.read_document(LOCK_FILE)
    host, pid, since = _identity_in(noted)
    signed = noted.get(SIGNED)
    signed_ms = signed if type(signed) is int and abs(signed) < 2**63 else None
    local, here = folder.storage.local, host == socket.gethostname()
    by_sign = False
    running = None if local is None else is_locked(f"{local}/{LOCK_FILE}", pid)
    if not running and (local is None or (host is not None and not here)):
        # As far as the clocks agree: one that was killed counts as running until its last sign is that old.
        by_sign = signed_ms is not None and abs(clock() - signed_ms / 1000) <= SILENT_S
        running = True if by_sign else None
    stopped = bool(running) and here and is_stopped(pid)
    gone = by_sign and here and pid is not None and not is_there(pid)
    doing = noted.get(DOING)
    return Driver(
        running,
        host,
        pid,
        since,
        signed_ms,
        stopped,
        by_sign,
        gone,
        doing if isinstance(doing, str) else None,
    )


def _identity_in(noted: Mapping[str, object]) -> DriverIdentity:
    """Whom a note names; None for what it does not say."""
    host, pid, since = (noted.get(name) for name in DriverIdentity._fields)
    return DriverIdentity(
        host if isinstance(host, str) else None,
        pid if isinstance(pid, int) else None,
        since if isinstance(since, str) else None,
    )


def begin_attempt(
    log: DeltaLog,
    newest_attempt: int,
    parent: int | None,
    clock: Callable[[], float] = wall_s,
) -> Attempt:
    """Take the job over with a new attempt.

    Args:
        log: the changelog, at the version from which ``newest_attempt`` and ``parent`` were decided (``Lineage.version``).
        newest_attempt: newest attempt at that version, 0 for none.
        parent: checkpoint the attempt starts from, None for empty.
        clock: seconds since 1970.

    Raises:
        FencedError: another driver took the job over or committed a checkpoint since that version.
        CommittedAfterAllError: this driver committed a checkpoint after ``parent``.
        LostCommitError: the folder is gone, was replaced, or lost its newest commit.
    """
    log.check_predecessor()
    identity = max(newest_attempt, newest_named(log.storage).attempt, _begun(log)) + 1
    attempt = attempt_of_this_process(identity, parent, int(clock() * 1000))
    add = attempt_row(log.storage, attempt)
    commit_fenced(log, [add], {"attempt": attempt.id}, lambda: f"attempt {attempt.id}", parent)
    return attempt


def attempt_of_this_process(identity: int, parent: int | None, time_ms: int) -> Attempt:
    """An attempt that this process makes; it is not written yet."""
    return Attempt(identity, parent, uuid.uuid4().hex, socket.gethostname(), os.getpid(), time_ms, _engine())


@functools.cache
def _engine() -> str:
    """This engine's version; the package's description is parsed for it, and each restart begins an attempt."""
    try:
        return version("changelog-engine")
    except PackageNotFoundError:
        return "unknown"


def write_row(
    storage: Storage, operation: str, checkpoint: int, attempt: int, document: str, time_ms: int
) -> AddFile:
    """Write a row about the log as a file of its own, durably; nothing refers to it yet."""
    name, data = row_file(operation, checkpoint, attempt, document, time_ms)
    storage.write_durable(name, data)
    # The modification time is the row's own time, so that "newest at or before" needs no file opened.
    return AddFile(name, data.size, time_ms, delta_stats(footer_of(data)))


def attempt_row(storage: Storage, row: Attempt) -> AddFile:
    """Write an attempt's row; see ``write_row``."""
    return write_row(storage, ATTEMPT, row.parent or 0, row.id, row.to_json(), row.time_ms)


def checkpoint_row(storage: Storage, row: Checkpoint) -> AddFile:
    """Write a checkpoint's row; see ``write_row``."""
    return write_row(storage, CHECKPOINT, row.id, row.attempt, row.to_json(), row.time_ms)


def commit_fenced(
    log: DeltaLog,
    adds: list[AddFile],
    metadata: dict[str, object],
    who: Callable[[], str],
    parent: int | None = None,
) -> None:
    """Commit unless another driver took the job over since the log's version.

    Commits of the materializer in between are allowed. After an error the log decides: when the files are in it, the
    commit succeeded, whatever the error said.

    Raises:
        FencedError: an attempt or checkpoint of another driver is in the log.
        CommittedAfterAllError: another row of this driver's is.
        RestoreError: ``parent`` is a checkpoint that was truncated since the log's version.
        StorageError: the commit failed; nothing of it is in the log, as far as the log can be read.
    """
    seen = log.version
    own = adds[-1].path
    for _ in range(COMMIT_TRIES):
        log.refresh()
        if check_fence(log, seen, own, who(), parent):
            return
        if parent is not None:
            _refuse_truncated(log, seen, parent)
        seen = log.version
        try:
            log.commit(adds, metadata=metadata)
            return
        except CommitConflictError:
            # Not proof that it failed: an object store may retry a put whose first answer was lost. The next look tells.
            continue
        except StorageError:
            log.refresh()
            if not check_fence(log, seen, own, who(), parent):
                raise
            try:
                log.make_durable()
            except StorageError:
                # Or the next look would not come to the row, and there would be a second one.
                log.go_back(seen)
                raise
            return
    raise overtaken(log.storage.root)


def check_fence(log: DeltaLog, since: int, own: str, who: str, parent: int | None = None) -> bool:
    """Look at the commits after a version, and refuse when one is an attempt or checkpoint that isn't ours.

    Args:
        since: the version up to which everything is known.
        own: the file about the log that this driver is committing, or "".
        who: what this driver is about to do, for the message.
        parent: the newest checkpoint that this driver knows of; None for that of the version.

    Returns:
        Whether our own file is among what was committed.

    Raises:
        FencedError: names the driver that took over, when its row can be read; or nobody knows any more what others
            committed. The log moves back to ``since``, so that a driver that is refused once is refused for good.
        CommittedAfterAllError: a newer checkpoint of this driver's own is in the log.
        StorageError: the commits cannot be read now.
    """
    if log.version == since:
        return False
    try:
        added = log.added_since(since)
    except BaseException as error:  # what was not looked at is not known: the next look begins there again
        log.go_back(since)
        if isinstance(error, CommitsGoneError):
            raise FencedError(str(error)) from error
        raise
    strangers = [path for path in added if path != own and path not in log.doubtful and _about_the_job(path)]
    if strangers:
        log.go_back(since)
        raise FencedError(
            f"{_takeover(log.storage, strangers)} took the job in {log.storage.root} over, so {who} of this driver must not "
            "be committed. This driver stops; nothing that was acknowledged is lost"
        )
    late = [row for row in _own(log, since, CHECKPOINT, own) if row.checkpoint > (parent or 0)]
    if late:
        log.go_back(since)
        raise CommittedAfterAllError(
            f"checkpoint {late[-1].checkpoint} of this driver is in the log of {log.storage.root} although its commit was "
            f"reported as failed, so {who} is not committed over it: the job goes on from there"
        )
    return own in added


def _begun(log: DeltaLog) -> int:
    """The newest attempt of this driver's whose row is in the log, and of which it was told that it is not; 0 for none."""
    if not log.doubtful:
        return 0
    seen = log.version
    log.refresh()
    found = max((row.attempt for row in _own(log, seen, ATTEMPT)), default=0)
    log.go_back(seen)  # what else came since is looked at before the commit
    return found


def _own(log: DeltaLog, since: int, operation: str, but: str = "") -> list[RowName]:
    """Rows that this driver was told were not committed, and that are in the log after a version."""
    if log.version == since or not log.doubtful:
        return []
    names = [parse_row(path) for path in log.added_since(since) if path in log.doubtful and path != but]
    return [name for name in names if name is not None and name.operation == operation]


def refuse_replaced(changelog: Storage, attempt: int, still_s: float) -> None:
    """Refuse to go on with an attempt that was replaced while a process of it stood still.

    Raises:
        FencedError: there is a newer attempt.
    """
    newest = Lineage(DeltaLog(changelog)).newest_attempt_id
    if newest > attempt:
        raise FencedError(
            f"attempt {newest} took the job in {changelog.root} over while a process of attempt {attempt} stood still for "
            f"{still_s:.0f} s, so it must not write to sinks any more. This driver stops; nothing that was acknowledged is "
            "lost"
        )


def _refuse_truncated(log: DeltaLog, since: int, checkpoint: int) -> None:
    """Whoever moves rows about the log, to truncate or to merge them, removes files; rows never come back."""
    removed = log.removed_since(since) if log.version != since else []
    moved = any(parse_merged_rows(path) or parse_row(path) for path in removed)
    if moved and checkpoint not in Lineage(DeltaLog(log.storage)).checkpoints:
        raise RestoreError(
            f"checkpoint {checkpoint} in {log.storage.root} was truncated just now: restore a newer one"
        )


def _about_the_job(path: str) -> bool:
    name = parse_row(path)
    return name is not None and name.operation in ("attempt", "checkpoint")


def _takeover(storage: Storage, strangers: list[str]) -> str:
    attempts = [path for path in strangers if path.startswith("attempt-")]
    if attempts:
        try:
            attempt = Attempt.from_json(read_row(storage, attempts[-1]))
        except (StorageError, ValueError, KeyError):
            return f"another driver ({attempts[-1]})"
        return (
            f"another driver (attempt {attempt.id}, host {attempt.host}, pid {attempt.pid}, since "
            f"{iso(attempt.time_ms)})"
        )
    name = parse_row(strangers[-1])
    return f"another driver (attempt {name.attempt if name else '?'}, checkpoint {name.checkpoint if name else '?'})"
