"""Storage on a local disk.

A whole file is written under a hidden name, fsynced, renamed (or linked, which fails where the name is taken), and its
folder is fsynced. What the kernel is asked for goes through ``DiskCalls``, so that a memory disk can lose what was not
fsynced.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import json
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.clock import monotonic_s
from changelog_engine.errors import ForeignPathError, StorageError
from changelog_engine.storage.locks import Lock, lock_file
from changelog_engine.storage.protocol import TEMPORARY_PREFIX, Entry, Storage
from changelog_engine.storage.retry import Retry, storage_error

T = TypeVar("T")
_STREAM_BYTES = 256 * 1024
_BACKGROUND_BYTES = 1 << 20
_LONGEST_REST_S = 0.1
_WRITE_OUT = 7  # SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER, as <fcntl.h> has them
# Another disk, no links here, too many links, or links to files of others are forbidden.
_NO_LINKS = {
    errno.EXDEV,
    errno.EPERM,
    errno.EACCES,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EMLINK,
    errno.ENOSYS,
}


class DiskCalls:
    """The kernel's calls that change a disk; paths are absolute."""

    def create(self, path: str) -> int:
        """A descriptor of a new file."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Append; how many bytes it took."""
        return os.write(descriptor, data)

    def write_out(self, descriptor: int, offset: int, count: int) -> None:
        """Wait until the disk has taken some bytes of a file. They are not durable before ``fsync``.

        Raises:
            OSError: it did not. The kernel says so once, so a later ``fsync`` may not.
        """
        call = _sync_file_range()
        if call is not None and call(descriptor, offset, count, _WRITE_OUT):
            number = ctypes.get_errno()
            if number not in (errno.ENOSYS, errno.EPERM):  # a sandbox without it: fsync writes all
                raise OSError(number, os.strerror(number))

    def fsync(self, descriptor: int) -> None:
        """Make a file's bytes durable; its name is its folder's."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a file."""
        os.close(descriptor)

    def sync_path(self, path: str) -> None:
        """Make the names in a folder durable, or the bytes of a file that another program wrote."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name; a file of that name is replaced."""
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        """Take a name away."""
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        """Make a folder."""
        os.mkdir(path)

    def remove_tree(self, path: str) -> None:
        """Take a folder away with all in it."""
        shutil.rmtree(path)


@functools.cache
def _sync_file_range() -> Any:
    """The function of the C library; None where there is none, as outside of Linux."""
    with contextlib.suppress(OSError, AttributeError):  # Python without shared libraries
        call = ctypes.CDLL(None, use_errno=True).sync_file_range
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        return call
    return None


MACHINE = DiskCalls()


class LocalDisk(Storage):
    """Durable files under a folder.

    Args:
        follows_links: whether links below the root are the user's, and followed.
    """

    appends = True
    keeps_checksums = False
    reads_at_once = 1

    def __init__(
        self, root: str, retry: Retry | None = None, calls: DiskCalls = MACHINE, follows_links: bool = False
    ) -> None:
        self.root = root
        self.local: str | None = root
        self.retry = retry or Retry()
        self._calls = calls
        self._follows_links = follows_links

    def __repr__(self) -> str:
        return f"LocalDisk({self.root!r})"

    def child(self, name: str) -> LocalDisk:
        return LocalDisk(self.place(name), self.retry, self._calls, self._follows_links)

    def join(self, path: str) -> str:
        return f"{self.root}/{inside(path)}" if path else self.root

    def place(self, path: str) -> str:
        if not path:
            return self.root
        path = inside(path)
        if not self._follows_links:
            _refuse_others(self.root, path)
        return f"{self.root}/{path}"

    def write_durable(self, path: str, data: pa.Buffer | bytes, background: bool = False) -> None:
        full = self.place(path)
        self.retry.run(lambda: self._write(full, data, background), "write", full)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        full = self.place(path)
        return self.retry.run(lambda: self._put(full, data), "write", full)

    def make_dirs(self, path: str = "") -> None:
        self._make_dirs(self.place(path))

    def sync(self, path: str = "") -> None:
        full = self.place(path)
        if os.path.isdir(full):
            self._sync_folder(full)
        else:
            _once(lambda: self._calls.sync_path(full), "sync", full)

    def move(self, source: str, target: str) -> bool:
        place, full = self.place(source), self.place(target)
        try:
            self._calls.rename(place, full)
        except FileNotFoundError as error:
            if os.path.lexists(place):
                raise storage_error(error, f"move {place} to", full, 1) from error
            return False
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise StorageError(f"{full} was made by somebody else meanwhile", full) from error
            raise storage_error(error, f"move {place} to", full, 1) from error
        for folder in dict.fromkeys((os.path.dirname(full), os.path.dirname(place))):
            self._sync_folder(folder)
        return True

    def share(self, source: Storage, path: str) -> bool:
        if source.local is not None:
            try:
                self._calls.link(source.place(path), self.place(path))
                return True
            except FileNotFoundError:
                raise
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise storage_error(error, "link", self.join(path), 1) from error
        self.write_durable(path, source.read(path))
        return False

    def delete(self, path: str) -> None:
        full = self.place(path)
        with contextlib.suppress(FileNotFoundError):
            self._read(lambda: self._calls.unlink(full), "delete", full)

    def delete_tree(self, path: str = "") -> None:
        full = self.place(path)
        with contextlib.suppress(FileNotFoundError):
            self._read(lambda: self._calls.remove_tree(full), "delete", full)

    def create(self, path: str) -> Any:
        full = self.place(path)
        self._make_dirs(os.path.dirname(full))
        return self.retry.run(lambda: self._open(full), "write", full)

    def _open(self, full: str) -> Any:
        return open(full, "xb", _STREAM_BYTES, opener=lambda path, flags: self._calls.create(path))

    def persist(self, stream: Any, path: str, closing: bool) -> None:
        full = self.place(path)

        def sync() -> None:
            stream.flush()
            self._calls.fsync(stream.fileno())
            if closing:
                stream.close()

        _once(sync, "write", full)
        self._sync_folder(os.path.dirname(full))

    def read(self, path: str, size: int | None = None) -> pa.Buffer:
        full = self.place(path)
        return self._read(lambda: _bytes_of(full), "read", full)

    def read_range(self, path: str, begin: int, end: int) -> pa.Buffer:
        full = self.place(path)
        return self._read(lambda: _bytes_between(full, begin, end), "read", full)

    def open(self, path: str) -> Any:
        full = self.place(path)
        return self._read(lambda: open(full, "rb"), "read", full)

    def read_document(self, path: str) -> dict[str, Any]:
        return document_in(self, path)

    def read_footer(self, path: str, size: int | None = None) -> pq.FileMetaData:
        full = self.place(path)
        return self._read(lambda: _footer_of(full, size), "read", full)

    def size(self, path: str) -> int | None:
        status = self._status(path)
        return None if status is None else status.st_size

    def stamp(self, path: str) -> tuple[int, int] | None:
        status = self._status(path)
        return None if status is None else (status.st_mtime_ns, status.st_ino)

    def _status(self, path: str, follow: bool = True) -> os.stat_result | None:
        """None where nothing is there. A disk that fails to tell is an error."""
        full = self.place(path)
        try:
            return self._read(lambda: os.stat(full) if follow else os.lstat(full), "look at", full)
        except FileNotFoundError:
            return None
        except StorageError as error:
            if isinstance(error.__cause__, NotADirectoryError):
                return None
            raise

    def exists(self, path: str = "") -> bool:
        return self._status(path, follow=False) is not None

    def is_file(self, path: str = "") -> bool:
        if not self.exists(path):
            return False
        status = self._status(path)
        return status is None or not stat.S_ISDIR(status.st_mode)

    def list(self, path: str = "", after: str = "") -> list[Entry]:
        full = self.place(path)
        return [
            entry for entry in self.retry.run(lambda: _entries_of(full), "list", full) if entry.name > after
        ]

    def lock(self, path: str) -> Lock:
        return lock_file(self.place(path))

    def _read(self, operation: Callable[[], T], what: str, path: str) -> T:
        return self.retry.run(operation, what, path, may_be_missing=True)

    def _write(self, full: str, data: pa.Buffer | bytes, background: bool) -> None:
        temporary = _temporary(full)
        try:
            self._write_synced(temporary, data, background)
            self._calls.rename(temporary, full)
        except BaseException:
            self._forget(temporary)
            raise
        self._calls.sync_path(os.path.dirname(full))

    def _put(self, full: str, data: bytes) -> bool:
        temporary = _temporary(full)
        try:
            self._write_synced(temporary, data)
            try:
                self._calls.link(temporary, full)
            except FileExistsError:
                if _bytes_of(full).to_pybytes() != data:
                    return False
                # A retry after a failed sync of the folder finds its own file.
        finally:
            self._forget(temporary)
        self._calls.sync_path(os.path.dirname(full))
        return True

    def _write_synced(self, path: str, data: pa.Buffer | bytes, background: bool = False) -> None:
        # After a failed fsync the kernel may have dropped the dirty pages, so a retry writes a new file from the start.
        descriptor = self._calls.create(path)
        try:
            view = memoryview(data)
            if background:
                view = self._write_slowly(descriptor, view)
            while view:
                view = view[self._calls.write(descriptor, view) :]
            self._calls.fsync(descriptor)
        finally:
            self._calls.close(descriptor)

    def _write_slowly(self, descriptor: int, view: memoryview) -> memoryview:
        """Write all but the last megabyte, and leave the disk to others for half of the time; what is left to write.

        In one go, the disk would have no time for the fsync of a checkpoint until all of it is written.
        """
        offset = 0
        while len(view) > _BACKGROUND_BYTES:
            count = self._calls.write(descriptor, view[:_BACKGROUND_BYTES])
            began = monotonic_s()
            self._calls.write_out(descriptor, offset, count)
            time.sleep(min(monotonic_s() - began, _LONGEST_REST_S))
            view, offset = view[count:], offset + count
        return view

    def _forget(self, path: str) -> None:
        # Gone, or the disk is in trouble; a leftover is hidden and harmless.
        with contextlib.suppress(OSError):
            self._calls.unlink(path)

    def _make_dirs(self, full: str) -> None:
        missing = []
        folder = full
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            self.retry.run(lambda: self._make_dir(folder), "make the folder", full)  # noqa: B023
            self._sync_folder(os.path.dirname(folder))

    def _make_dir(self, folder: str) -> None:
        try:
            self._calls.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise

    def _sync_folder(self, folder: str) -> None:
        # Retried, unlike the sync of a file: names are in the file system's own log, and when that cannot be written, the
        # kernel stops the file system instead of forgetting them.
        self.retry.run(lambda: self._calls.sync_path(folder), "sync", folder)


def inside(path: str) -> str:
    """A relative path as it is written down."""
    parts = path.split("/")
    if not ("" in parts or "." in parts or ".." in parts or "\0" in path):
        return path
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in path:
        raise StorageError(f"the path {path!r} leaves its folder")
    return str(pure)


def document_in(storage: Storage, path: str) -> dict[str, Any]:
    """The JSON object in a small file that is a hint only; an empty one when there is no file or something else in it."""
    try:
        document = json.loads(storage.read(path).to_pybytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _once(operation: Callable[[], None], what: str, path: str) -> None:
    """Run the fsync of what cannot be written again.

    When it failed, the kernel may have dropped the bytes, and a second fsync would say yes to a file without them.
    """
    try:
        operation()
    except OSError as error:
        raise storage_error(error, what, path, 1) from error


def _refuse_others(root: str, path: str) -> None:
    """Raise unless all on the way from the root to a path, as `inside` writes it, is a file or folder, or not there."""
    full = root
    for part in path.split("/"):
        full = f"{full}/{part}"
        try:
            mode = os.lstat(full).st_mode
        except OSError:
            return  # whoever opens it finds out
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            what = (
                f"a symbolic link to {os.readlink(full)}" if stat.S_ISLNK(mode) else "neither file nor folder"
            )
            raise ForeignPathError(
                f"{full} is {what}. This engine makes no such thing, so it is left alone: put a file or folder in its "
                "place, or remove it. Only a folder that you name yourself may be a link",
                full,
            )


def _temporary(full: str) -> str:
    return os.path.join(os.path.dirname(full), f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")


def check_size(there: int, size: int | None) -> None:
    """Refuse a Parquet file that has not the bytes that it must have, if that is known.

    Raises:
        pyarrow.ArrowInvalid: it has more or fewer.
    """
    if size is not None and there != size:
        raise pa.ArrowInvalid(f"it has {there} bytes, not {size}")


def _footer_of(full: str, size: int | None) -> pq.FileMetaData:
    with open(full, "rb") as file:
        check_size(os.fstat(file.fileno()).st_size, size)
        return pq.read_metadata(file)


def _bytes_of(full: str) -> pa.Buffer:
    # Not mapped: a file cut short under a map ends the process with SIGBUS instead of an error.
    with open(full, "rb") as file:
        return pa.py_buffer(file.read())


def _bytes_between(full: str, begin: int, end: int) -> pa.Buffer:
    with open(full, "rb") as file:
        # What is asked for may be larger than memory.
        there = range(os.fstat(file.fileno()).st_size)[begin:end]
        file.seek(there.start)
        return pa.py_buffer(file.read(len(there)))


def _entries_of(full: str) -> list[Entry]:
    try:
        with os.scandir(full) as scan:
            found = list(scan)
    except FileNotFoundError:
        return []
    entries = []
    for entry in found:
        with contextlib.suppress(FileNotFoundError):  # somebody's temporary file, gone since the listing
            is_file, is_folder = entry.is_file(follow_symlinks=False), entry.is_dir(follow_symlinks=False)
            size, changed_ns = 0, None
            if is_file:
                status = entry.stat()
                size, changed_ns = status.st_size, status.st_ctime_ns
            entries.append(Entry(entry.name, size, is_folder, not is_file and not is_folder, changed_ns))
    return sorted(entries)
