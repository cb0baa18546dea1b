"""One materializer of a job at a time: a lock on a file in its snapshots folder. On object stores there is none."""

from __future__ import annotations

import contextlib
from types import TracebackType

from changelog_engine.errors import StorageError
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.storage.locks import Lock, LockTakenError

LOCK = "_materializer.lock"


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
        self._lock: Lock | None = None

    def __enter__(self) -> MaterializerLock:
        try:
            self._lock = self._storage.lock(LOCK)
        except LockTakenError as error:
            raise MaterializerBusyError(
                f"another process materializes the job in {self._storage.root} ({error.holder}): let it finish"
            ) from error
        with contextlib.suppress(StorageError):  # on a full disk a truncation makes room
            self._lock.note_process()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()
