"""One materializer of a job at a time: a lock on a file in its snapshots folder. On object stores there is none."""

from __future__ import annotations

import errno
import fcntl
import os
from types import TracebackType

from changelog_engine.checkpoint.job_folder import JobFolder
from changelog_engine.errors import StorageError
from changelog_engine.storage.retry import explain

LOCK = "_materializer.lock"
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class MaterializerBusyError(StorageError):
    """Another process, or thread, materializes or truncates this job just now."""


class MaterializerLock:
    """Holds the lock while it is entered.

    Args:
        folder: the job's folder, whose snapshots table exists.

    Raises:
        MaterializerBusyError: on entering, when another holds it.
    """

    def __init__(self, folder: JobFolder) -> None:
        self._storage = folder.snapshots
        self._descriptor: int | None = None

    def __enter__(self) -> MaterializerLock:
        if self._storage.local is None:
            return self
        path = self._storage.place(LOCK)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise explain(error, f"open the lock file {path}", 1) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return self
            os.close(self._descriptor)
            self._descriptor = None
            if isinstance(error, BlockingIOError):
                raise MaterializerBusyError(
                    f"another process materializes the job in {self._storage.root}: let it finish"
                ) from error
            raise explain(error, f"lock {path}", 1) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
