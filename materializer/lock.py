"""One materializer of a job at a time: a lock on a file in its snapshots folder. On object stores there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from changelog_engine.errors import StorageError
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.storage.locks import LockTakenError

LOCK = "_materializer.lock"


class MaterializerBusyError(StorageError):
    """Another process, or thread, materializes or truncates this job just now."""


@contextlib.contextmanager
def materializer_lock(folder: JobFolder) -> Iterator[None]:
    """Hold the lock within a block.

    Args:
        folder: the job's folder, whose snapshots table exists.

    Raises:
        MaterializerBusyError: another holds it.
    """
    storage = folder.snapshots
    try:
        lock = storage.lock(LOCK)
    except LockTakenError as error:
        raise MaterializerBusyError(
            f"another process materializes the job in {storage.root} ({error.holder}): let it finish"
        ) from error
    try:
        with contextlib.suppress(StorageError):  # on a full disk a truncation makes room
            lock.note_process()
        yield
    finally:
        lock.release()
