"""Folders for what a process keeps on its local disk, and the removal of those whose process is gone.

Invariants:
    * A folder belongs to the process that holds the lock of its ``.lock`` file; the kernel lets go of the lock when the
      process ends, however it ends. Only folders whose lock is free are removed.
    * The lock file exists before the folder and goes after it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterator

from changelog_engine.errors import ConfigurationError, StorageError
from changelog_engine.storage.locks import Lock, LockTakenError, lock_file
from changelog_engine.storage.retry import storage_error

_LOCK = ".lock"


class LocalFolder:
    """A folder of this process, removed by ``remove``, or when nobody holds this object any more.

    Args:
        root: local folder under which it lies; None for the machine's folder for temporary files.

    Raises:
        ConfigurationError: the root cannot be used.
        StorageError: the disk is full, or failed.
    """

    def __init__(self, root: str | None, name: str) -> None:
        parent = _own(root or tempfile.gettempdir())
        try:
            remove_leftovers(parent)
            lock, self.path = _claim(parent, re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:100])
            os.mkdir(self.path, mode=0o700)
        except OSError as error:
            raise StorageError(
                f"cannot make a folder for local state in {parent}: {error}", parent
            ) from error
        self._removal = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder and let go of its lock."""
        self._removal()


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[str]:
    """The path of a folder for as long as something is done; the next one takes away what a process that was killed left.

    Raises:
        ConfigurationError, StorageError: as LocalFolder.
    """
    folder = LocalFolder(None, name)
    try:
        yield folder.path
    finally:
        folder.remove()


def remove_leftovers(parent: str) -> list[str]:
    """Remove the folders in a parent folder whose processes are gone; returns their names."""
    removed = []
    for name in sorted(os.listdir(parent)):
        if not name.endswith(_LOCK):
            continue
        path = os.path.join(parent, name.removesuffix(_LOCK))
        try:
            lock = lock_file(path + _LOCK, flags=0)
        except OSError:
            continue  # its process lives, or another process removes it right now
        try:
            if lock.held:
                shutil.rmtree(path, ignore_errors=True)
                os.unlink(path + _LOCK)
                removed.append(os.path.basename(path))
        except OSError:
            pass  # the folder cannot be removed: the next one tries again
        finally:
            lock.release()
    return removed


def _remove(path: str, lock: Lock, owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork's copy
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(path + _LOCK)
    lock.release()


def _own(root: str) -> str:
    """This user's folder under the root, which other users cannot have put there."""
    path = os.path.join(root, f"changelog-engine-{os.getuid()}")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
    except OSError as error:
        if isinstance(error, PermissionError | NotADirectoryError) or error.errno == errno.EROFS:
            raise ConfigurationError(f"{root} cannot be used for local state: {error}") from error
        raise storage_error(error, "make a folder for local state", path, 1) from error  # a disk may mend
    if found.st_uid != os.getuid() or os.path.islink(path):
        raise ConfigurationError(
            f"{path} belongs to another user: name a folder of your own by state.backend.rocksdb.localdir"
        )
    return path


def _claim(parent: str, name: str) -> tuple[Lock, str]:
    while True:
        path = os.path.join(parent, f"{name}-{os.getpid()}-{uuid.uuid4().hex[:8]}")
        with contextlib.suppress(LockTakenError):  # by a process that removes leftovers
            lock = lock_file(path + _LOCK, os.O_CREAT | os.O_EXCL, 0o600)
            if not lock.held or lock.is_of(path + _LOCK):
                return lock, path
            lock.release()
