"""Locks on files of a local disk: held by one process, freed by the kernel however that process ends.

Invariants:
    * The file stays when the lock is released: deleting it would let two processes lock two files of one name. Where
      it is deleted all the same, whoever locks looks afterwards whether the file that it locked still has the name.
    * A forked child does not hold its parent's locks, or it would keep them when the parent dies. It does not give them
      back either. One that is about to become another program (``subprocess``) has their descriptors until it does.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from changelog_engine.clock import wall_s
from changelog_engine.errors import StorageError
from changelog_engine.storage.retry import storage_error

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_NOTE_BYTES = 4096
_LOOK_S = 10.0  # from one look to the next whether a process that is waited for is stopped
_STOPPED = ("T", "t")  # by a signal, or a debugger
_GONE = ("", 0)
log = logging.getLogger("changelog_engine")


class LockTakenError(StorageError):
    """Another process, or another holder in this one, has the lock."""

    def __init__(self, path: str, note: bytes) -> None:
        super().__init__(f"{path} is locked by another process", path)
        self.note = note

    @property
    def holder(self) -> str:
        """Who holds it, as it noted by ``note_process``, and whether that process is stopped."""
        try:
            document = json.loads(self.note)
            host, pid, since = document["host"], document["pid"], document["since"]
        except (ValueError, KeyError, TypeError):
            return "it has just started"
        words = f"host {host}, pid {pid}, since {since}"
        if (host, pid) == (socket.gethostname(), os.getpid()):
            words += "; that is this process: call cancel() of the job's client, or close() of its results"
        elif host == socket.gethostname() and is_stopped(pid):
            words += f"; that process is stopped: {go_on(pid)}"
        return words


class Lock:
    """A lock that is held until it is released; one without a descriptor locks nothing."""

    def __init__(self, path: str, descriptor: int | None) -> None:
        self._path = path
        self._descriptor = descriptor
        if descriptor is not None:
            _held.add(self)

    @property
    def held(self) -> bool:
        """Whether others are kept out."""
        return self._descriptor is not None

    def is_of(self, path: str) -> bool:
        """Whether the file that is locked still has this name."""
        try:
            return self._descriptor is not None and os.path.samestat(
                os.stat(path), os.fstat(self._descriptor)
            )
        except FileNotFoundError:
            return False

    def note(self, note: bytes) -> None:
        """Write down who holds the lock, for those whom it refuses."""
        if self._descriptor is not None:
            try:
                # In this order: where both notes are equally long, a reader meanwhile finds one or the other.
                os.pwrite(self._descriptor, note, 0)
                os.ftruncate(self._descriptor, len(note))
            except OSError as error:
                raise storage_error(error, "write who holds the lock file", self._path, 1) from error

    def note_process(self) -> None:
        """Write down that this process holds the lock, and since when."""
        since = datetime.fromtimestamp(wall_s(), UTC).isoformat(timespec="seconds")
        document = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
        self.note(json.dumps(document).encode())

    def release(self) -> None:
        """Give the lock back, also where a child that has not yet become another program still has the descriptor."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # closing it does as well, mostly
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """In a forked child: hold it no more, and leave it to the parent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def lock_file(path: str, flags: int = os.O_CREAT, mode: int = 0o644, wait: bool = False) -> Lock:
    """Lock a file. On network file systems without locks the lock locks nothing.

    Args:
        flags: for opening it; by default it is made when it is not there.
        wait: until nobody else holds it.

    Raises:
        LockTakenError: another holds it, and it is not to be waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | flags, mode)
    except OSError as error:
        raise storage_error(error, "open the lock file", path, 1) from error
    # At once: a child that is forked while others are waited for must not hold it.
    lock = Lock(path, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        note = os.pread(descriptor, _NOTE_BYTES, 0)
        lock.release()
        raise LockTakenError(path, note) from error
    except OSError as error:
        lock.release()
        if error.errno in _NO_LOCKS:
            return lock
        raise storage_error(error, "lock", path, 1) from error
    return lock


def is_locked(path: str, pid: int | None = None) -> bool | None:
    """Whether a process holds a file's lock. The lock is not touched: whoever wants it meanwhile is not refused.

    Args:
        pid: the process that may hold it, where file systems give a file two devices.

    Returns:
        None where the system doesn't say.
    """
    try:
        found = os.stat(path)
        with open("/proc/locks", encoding="ascii", errors="replace") as listing:
            lines = listing.read().splitlines()
    except FileNotFoundError:
        return None if os.path.exists(path) else False
    except OSError:
        return None
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    for line in lines:
        words = line.split()
        if "FLOCK" not in words or "->" in words:
            continue
        of, _, inode = words[5].rpartition(":")
        if inode == str(found.st_ino) and (of == device or words[4] == str(pid)):
            return True
    return False


def is_stopped(pid: object) -> bool:
    """Whether a process of this machine is stopped, as by SIGSTOP or Ctrl-Z; false where the system doesn't say."""
    return _state_and_parent(pid)[0] in _STOPPED


def stopped_below() -> str:
    """What the end of a message says of processes that this one started, or they in turn, and that are stopped.

    Returns:
        Empty text where there are none, or the system doesn't say.
    """
    try:
        found = {int(each): _state_and_parent(each) for each in os.listdir("/proc") if each.isdecimal()}
    except OSError:
        return ""
    below = {os.getpid()}
    while more := {pid for pid, (_, parent) in found.items() if parent in below} - below:
        below |= more
    stopped = sorted(pid for pid in below if found.get(pid, _GONE)[0] in _STOPPED)
    return "".join(f"; process {pid} of it on this machine is stopped: {go_on(pid)}" for pid in stopped)


def _state_and_parent(pid: object) -> tuple[str, int]:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, parent, *_ = file.read().rpartition(")")[2].split()  # behind a name, which may be any text
            return state, int(parent)
    except (OSError, ValueError):
        return _GONE


@contextlib.contextmanager
def stopped_materializer_is_told(worker: Callable[[], int | None]) -> Iterator[None]:
    """Within it, wait for a process that may take long, but never ends while it is stopped: a warning says so, once.

    Args:
        worker: gives its id; None while there is none.
    """
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_S):
            pid = worker()
            if is_stopped(pid):
                log.warning(
                    "a process of the materializer (pid %d) is stopped, and nothing is materialized meanwhile: %s",
                    pid,
                    go_on(pid),
                )
                return

    threading.Thread(target=look, name="stopped", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def go_on(pid: object) -> str:
    """What to do with a process that is stopped."""
    return f"let it go on (kill -CONT {pid}), or end it (kill -KILL {pid})"


def _forget_after_fork() -> None:
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_after_fork)
