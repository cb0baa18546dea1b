"""Which storage errors are worth another try, and how often.

Invariants:
    * Retries are bounded in number and in pause.
    * Only errors that can go away by themselves are retried: never a missing file, a refused permission or a full disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from changelog_engine.errors import ChangelogEngineError, ForbiddenError, StorageError

T = TypeVar("T")

_TRANSIENT = {
    errno.EIO,
    errno.EAGAIN,
    errno.EINTR,
    errno.EBUSY,
    errno.ESTALE,
    errno.EPIPE,
    errno.ETIMEDOUT,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
}
FULL = {errno.ENOSPC, errno.EDQUOT}
_READING = {"read", "list", "look at"}


@dataclass(frozen=True)
class Retry:
    """A bounded retry with growing pauses."""

    tries: int = 4  # how often an operation is tried in all
    first_pause_s: float = 0.05  # pause after the first failure; each further one is twice as long
    max_pause_s: float = 2.0  # no pause is longer
    sleep: Callable[[float], None] = time.sleep

    def run(
        self,
        operation: Callable[[], T],
        what: str,
        path: str,
        remote: bool = False,
        may_be_missing: bool = False,
    ) -> T:
        """Run an operation until it works, fails for good, or has been tried often enough.

        Args:
            operation: what to run; it must be safe to run again from its start.
            remote: errors without an errno count as transient (object stores report no errno).
            may_be_missing: a missing file is for the caller to judge.

        Raises:
            FileNotFoundError: only with ``may_be_missing``.
            StorageError: the operation failed; says why and what to do.
        """
        pause = self.first_pause_s
        for attempt in range(1, self.tries + 1):
            try:
                return operation()
            except ChangelogEngineError:
                raise
            except OSError as error:
                if may_be_missing and isinstance(error, FileNotFoundError):
                    raise
                if not is_transient(error, remote) or attempt == self.tries:
                    raise storage_error(error, what, path, attempt) from error
            self.sleep(pause)
            pause = min(pause * 2, self.max_pause_s)
        raise AssertionError("unreachable")


def is_transient(error: OSError, remote: bool) -> bool:
    """Whether an error can go away by itself."""
    if isinstance(
        error, (PermissionError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
    ):
        return False
    if isinstance(error, (TimeoutError, ConnectionError)) or error.errno in _TRANSIENT:
        return True
    return remote and error.errno is None


def has_no_inodes(path: str) -> bool:
    """Whether a local file system can take no file more, although it has space; False where that is not known."""
    with contextlib.suppress(OSError, ValueError):
        while os.path.isabs(path) and not os.path.lexists(path):
            path = os.path.dirname(path)
        found = os.statvfs(path)
        return found.f_files > 0 and found.f_favail == 0 and found.f_bavail > 0
    return False


def storage_error(error: OSError, what: str, path: str, tries: int) -> StorageError:
    """The error as ours: what failed, why, and what to do next."""
    if error.errno in FULL:
        free = "Free space on that file system, or raise the quota"
        if has_no_inodes(path):
            free = "It has space, but no inode is left (df -i): delete files on it, or move them to another"
        return StorageError(
            f"disk full: could not {what} {path}. Nothing that was acknowledged is lost. {free}: the job goes on from its "
            "last checkpoint, by itself if it restarts, else when it is run again",
            path,
        )
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        remedy = (
            "Give this user the right to read it"
            if what in _READING
            else "Make the folder writable for this user, or set another base path"
        )
        return ForbiddenError(f"could not {what} {path}: {error}. {remedy}", path)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return StorageError(
            f"could not {what} {path}: {error}. Raise the limit of open files (ulimit -n)", path
        )
    again = f" after {tries} tries" if tries > 1 else ""
    return StorageError(f"could not {what} {path}{again}: {error}", path)
