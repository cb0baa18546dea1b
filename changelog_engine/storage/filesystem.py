"""Files under one root folder, on a local disk or behind any URI that pyarrow.fs opens.

Invariants:
    * A file appears under its name only when all its bytes are durable: a crash leaves a hidden temporary file or nothing.
    * ``put_if_absent`` has one winner among any number of processes (local disks only).
    * Paths are relative to the root and never leave it, through symbolic links neither: nothing here makes links, so one
      below the root is somebody else's and is not followed (the root itself may be one). Pipes and devices aren't opened.

What it does not promise: several files are not written atomically; that is what the Delta log is for.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from changelog_engine.config.names import writable
from changelog_engine.errors import ConfigurationError, ForeignPathError, StorageError
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.storage.retry import Retry

TEMPORARY_PREFIX = ".tmp-"
T = TypeVar("T")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")


class Entry(NamedTuple):
    """One name in a folder."""

    name: str
    size: int  # bytes; 0 for what is no file
    is_folder: bool
    is_other: bool = False  # neither file nor folder: a symbolic link, a pipe, a device
    changed_ns: int | None = None  # when the file was last changed, as its disk says; None in object stores


class Storage:
    """Durable files under a root.

    Args:
        root: a local path, or a URI (``file://``, ``s3://``, ``gs://``, ``hdfs://`` ...).
        retry: bound and clock of retries.

    Raises:
        StorageError: no file system answers to the URI.

    Example:
        >>> storage = Storage("/data/jobs")
        >>> storage.write_durable("a.txt", b"hello")
        >>> storage.read("a.txt").to_pybytes()
        b'hello'
    """

    def __init__(self, root: str, retry: Retry | None = None) -> None:
        self.retry = retry or Retry()
        writable(root, "the path")
        self.local: str | None = local_path(root)
        if self.local is not None:
            self.root = self.local
            return
        try:
            opened = FileSystems().open(root)
        except ConfigurationError as error:
            raise StorageError(str(error)) from None
        assert opened.file_system is not None
        self.root = root.rstrip("/")
        self._remote, self._remote_root = opened.file_system, opened.path

    def __repr__(self) -> str:
        return f"Storage({self.root!r})"

    def child(self, name: str) -> Storage:
        """The storage of a folder below this one.

        Raises:
            ForeignPathError: there is no folder of that name but a symbolic link.
        """
        return Storage(self.place(name), self.retry)

    def join(self, path: str) -> str:
        """The full path or URI of a relative path.

        Raises:
            StorageError: the path leaves the root.
        """
        return f"{self.root}/{_inside(path)}" if path else self.root

    def place(self, path: str) -> str:
        """The full path or URI of a relative path, for whoever opens it.

        Raises:
            StorageError: the path leaves the root.
            ForeignPathError: there is a symbolic link on the way, or a pipe or a device.
        """
        full = self.join(path)
        if self.local is not None:
            _refuse_others(self.root, path)
        return full

    def write_durable(self, path: str, data: pa.Buffer | bytes) -> None:
        """Write a whole file; when this returns, a crash or a power cut no longer loses it.

        Args:
            path: relative to the root; its folder exists (object stores need none). A file of that name is replaced.
            data: its bytes.

        Raises:
            StorageError: disk full, no permission, or still failing after bounded retries.
        """
        full = self.place(path)
        if self.local is not None:
            self._run(lambda: _write_local(full, data), f"write {full}")
        else:
            self._run(lambda: self._upload(path, data), f"write {full}")

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file durably unless the name is taken. Local disks only.

        Returns:
            True when this call made the file, False when it was there already.

        Raises:
            StorageError: as write_durable. The file may be there all the same: look before going on.
        """
        full = self.place(path)
        return self._run(lambda: _link_local(full, data), f"write {full}")

    def sync_folder(self, path: str = "") -> None:
        """Make the names in a folder durable (no-op on object stores)."""
        full = self.place(path)
        if self.local is not None:
            self._run(lambda: _sync_folder(full), f"sync {full}")

    def read(self, path: str) -> pa.Buffer:
        """All bytes of a file.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it could not be read.
        """
        full = self.place(path)
        if self.local is not None:
            return self._run(lambda: _read_local(full), f"read {full}", may_be_missing=True)
        return self._run(lambda: self._download(path), f"read {full}", may_be_missing=True)

    def read_document(self, path: str) -> dict[str, Any]:
        """The JSON object in a small file that is a hint only; an empty one when there is no file or something else in it.

        Raises:
            StorageError: it could not be read.
        """
        try:
            document = json.loads(self.read(path).to_pybytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    def stamp(self, path: str) -> tuple[int, int] | None:
        """Changes whenever a file is replaced; None when there is none. Local disks only.

        Raises:
            StorageError: it could not be looked at.
        """
        full = self.place(path)
        try:
            status = self._run(lambda: os.stat(full), f"look at {full}", may_be_missing=True)
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino

    def read_footer(self, path: str) -> pq.FileMetaData:
        """The metadata of a Parquet file, without its data.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it could not be read.
            pyarrow.ArrowInvalid: it is no Parquet file.
        """
        full = self.place(path)
        if self.local is not None:
            return self._run(lambda: _local_footer(full), f"read {full}", may_be_missing=True)
        return self._run(lambda: self._remote_footer(path), f"read {full}", may_be_missing=True)

    def size(self, path: str) -> int | None:
        """Bytes of a file, or None when there is none."""
        full = self.place(path)
        if self.local is not None:
            try:
                return self._run(lambda: os.stat(full).st_size, f"look at {full}", may_be_missing=True)
            except FileNotFoundError:
                return None
        info = self._run(
            lambda: self._remote.get_file_info(self._remote_path(path)),
            f"look at {full}",
            may_be_missing=True,
        )
        return int(info.size) if info.type == pafs.FileType.File else None

    def exists(self, path: str = "") -> bool:
        """Whether a file or folder is there."""
        if self.local is not None:
            return os.path.lexists(self.place(path))
        info = self._run(
            lambda: self._remote.get_file_info(self._remote_path(path)), f"look at {self.join(path)}"
        )
        return bool(info.type != pafs.FileType.NotFound)

    def is_file(self, path: str = "") -> bool:
        """Whether the path is a file."""
        if self.local is not None:
            full = self.place(path)
            return os.path.lexists(full) and not os.path.isdir(full)
        return self.size(path) is not None

    def list(self, path: str = "") -> list[Entry]:
        """Names in a folder, sorted; empty when there is no such folder."""
        full = self.place(path)
        if self.local is not None:
            return self._run(lambda: _list_local(full), f"list {full}")
        selector = pafs.FileSelector(self._remote_path(path), allow_not_found=True)
        found = self._run(lambda: self._remote.get_file_info(selector), f"list {full}")
        return sorted(Entry(i.base_name, i.size or 0, i.type == pafs.FileType.Directory) for i in found)

    def delete(self, path: str) -> None:
        """Delete a file; it is no error when it is gone already."""
        full = self.place(path)
        try:
            if self.local is not None:
                self._run(lambda: os.unlink(full), f"delete {full}", may_be_missing=True)
            else:
                self._run(
                    lambda: self._remote.delete_file(self._remote_path(path)),
                    f"delete {full}",
                    may_be_missing=True,
                )
        except FileNotFoundError:
            return

    def delete_tree(self, path: str = "") -> None:
        """Delete a folder with everything in it; it is no error when it is gone already."""
        full = self.place(path)
        try:
            if self.local is not None:
                self._run(lambda: shutil.rmtree(full), f"delete {full}", may_be_missing=True)
            else:
                self._run(
                    lambda: self._remote.delete_dir(self._remote_path(path)),
                    f"delete {full}",
                    may_be_missing=True,
                )
        except FileNotFoundError:
            return

    def make_dirs(self, path: str = "") -> None:
        """Make a folder and those above it.

        Raises:
            StorageError: not allowed, or a file is in the way; names the path.
        """
        full = self.place(path)
        if self.local is not None:
            self._run(lambda: _make_dirs_local(full), f"make the folder {full}")
        else:
            self._run(
                lambda: self._remote.create_dir(self._remote_path(path), recursive=True),
                f"make the folder {full}",
            )

    def _run(self, operation: Callable[[], T], what: str, may_be_missing: bool = False) -> T:
        return self.retry.run(operation, what, self.local is None, may_be_missing)

    def _remote_path(self, path: str) -> str:
        return f"{self._remote_root}/{_inside(path)}" if path else str(self._remote_root)

    def _upload(self, path: str, data: pa.Buffer | bytes) -> None:
        # An object store shows the object only when its stream is closed, and keeps it once it does.
        with self._remote.open_output_stream(self._remote_path(path)) as stream:
            stream.write(data)

    def _remote_footer(self, path: str) -> pq.FileMetaData:
        with self._remote.open_input_file(self._remote_path(path)) as file:
            return pq.read_metadata(file)

    def _download(self, path: str) -> pa.Buffer:
        with self._remote.open_input_file(self._remote_path(path)) as file:
            return file.read_buffer()


def _local_footer(full: str) -> pq.FileMetaData:
    with open(full, "rb") as file:
        return pq.read_metadata(file)


def local_path(root: str) -> str | None:
    """The absolute local path that a path or ``file:`` URI means; None for other URIs."""
    if root.startswith("file:"):
        return os.path.abspath(unquote(urlsplit(root).path))
    return None if _SCHEME.match(root) else os.path.abspath(root)


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in path:
        raise StorageError(f"the path {path!r} leaves its folder")
    return str(pure)


def _refuse_others(root: str, path: str) -> None:
    """Raise unless everything on the way from the root to a path is a file or folder, or not there."""
    full = root
    for part in PurePosixPath(path).parts:
        full = os.path.join(full, part)
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
                "place, or remove it. Only a folder that you name yourself may be a link"
            )


def _temporary(full: str) -> str:
    return os.path.join(os.path.dirname(full), f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")


def _write_synced(path: str, data: pa.Buffer | bytes) -> None:
    # After a failed fsync the kernel may have dropped the dirty pages, so a retry writes a new file from the start.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_local(full: str, data: pa.Buffer | bytes) -> None:
    temporary = _temporary(full)
    try:
        _write_synced(temporary, data)
        os.rename(temporary, full)
    except BaseException:
        _forget(temporary)
        raise
    _sync_folder(os.path.dirname(full))


def _link_local(full: str, data: bytes) -> bool:
    temporary = _temporary(full)
    try:
        _write_synced(temporary, data)
        try:
            os.link(temporary, full)
        except FileExistsError:
            return _holds(full, data)  # a retry after a failed folder sync finds its own file
    finally:
        _forget(temporary)
    _sync_folder(os.path.dirname(full))
    return True


def _holds(full: str, data: bytes) -> bool:
    with open(full, "rb") as file:
        held = file.read() == data
    if held:
        _sync_folder(os.path.dirname(full))
    return held


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # gone, or the disk is in trouble; a leftover is hidden and harmless


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_local(full: str) -> pa.Buffer:
    # Not mapped: a file cut short under a map ends the process with SIGBUS instead of an error.
    with open(full, "rb") as file:
        return pa.py_buffer(file.read())


def _list_local(full: str) -> list[Entry]:
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


def _make_dirs_local(full: str) -> None:
    missing = []
    folder = full
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
        _sync_folder(os.path.dirname(folder))
