"""Files to read: finding them under folders, and opening them as they were when they were found.

Invariants:
    * A file is read as it was found: one that has another size or time since is an error, never other elements.
    * Files and folders whose names begin with ``.`` or ``_`` are never found: unfinished output is called so.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePath, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from changelog_engine.connectors.files.compression import BROKEN_ERRORS
from changelog_engine.errors import ConfigurationError, DamagedInputError, ForbiddenError, StorageError
from changelog_engine.storage.file_systems import FileSystems, OpenedPath, refuses_key
from changelog_engine.storage.retry import is_transient

_LOG = logging.getLogger("changelog_engine")
_HIDDEN = (".", "_")
# Folders of tables of which not all files are current, and what reads them.
_TABLES = {
    "_delta_log": "a Delta table: read it with DeltaSource",
    ".hoodie": "a Hudi table: let Spark read it, with env.from_spark()",
}
_READ_ERRORS = (OSError, pa.ArrowException)


class Found(NamedTuple):
    """A file that was found."""

    id: str  # its path or URI, as people see it; also the id of its split
    size: int  # bytes
    changed_us: int  # when it was changed last, in µs since 1970


class InputFile:
    """A file to read.

    Args:
        name: its path or URI, as people see it.
        size: bytes when it was found; None reads it as it is.
        changed_us: when it was changed last, in µs since 1970.
    """

    def __init__(self, root: OpenedPath, name: str, size: int | None, changed_us: int | None) -> None:
        self._file_system = root.file_system
        self._path = _path_of(root, name)
        self._changed_us = changed_us
        self._expected = size
        self._opened: Any = None  # of the local disk
        self.name = name
        self.size = size or 0

    def open(self) -> Any:
        """Open it: a binary stream that can be read and sought in.

        Raises:
            StorageError: it cannot be read; a DamagedInputError where it is no longer what was found.
        """
        with self.reading():
            if self._file_system is None:
                stream: Any = open(self._path, "rb")  # noqa: SIM115 - whoever reads it closes it
                self._opened = stream
                size, changed_us = _size_and_time(stream)
            else:
                size, changed_us = self._there(self._file_system)
                stream = self._file_system.open_input_file(self._path)
        if self._expected is None:
            self.size = size
        elif (size, changed_us) != (self._expected, self._changed_us):
            stream.close()
            raise self._changed(size, changed_us, "found it")
        return stream

    def check(self, ended: bool) -> None:
        """Refuse what was read when the file was written over or replaced meanwhile. What was appended is not read.

        Args:
            ended: it was read to its end; object stores are asked only then.

        Raises:
            DamagedInputError: it was.
            StorageError: it cannot be looked at.
        """
        if self._expected is None:
            return
        if self._file_system is not None:
            if not ended:
                return
            with self.reading():
                size, changed_us = self._there(self._file_system)
            grown = False
        elif self._opened is None or self._opened.closed:
            return
        else:
            size, changed_us = _size_and_time(self._opened)
            grown = size > self._expected
        if (size, changed_us) != (self._expected, self._changed_us) and not grown:
            raise self._changed(size, changed_us, "began to read it")

    def _there(self, file_system: pafs.FileSystem) -> tuple[int, int]:
        info = file_system.get_file_info(self._path)
        if info.type is not pafs.FileType.File:
            raise FileNotFoundError(f"no such file: {self.name}")
        return info.size or 0, (info.mtime_ns or 0) // 1000

    def _changed(self, size: int, changed_us: int, since: str) -> DamagedInputError:
        return DamagedInputError(
            f"the input file {self.name} was cut or replaced: it has {size} bytes of {_time(changed_us)}, and had "
            f"{self._expected} of {_time(self._changed_us or 0)} when the job {since}. Put the earlier file back "
            "(with its time: touch -d), or start the job without its checkpoints. Files must be whole when they "
            "appear: write under a name that begins with a dot, then rename"
        )

    def seek(self, stream: Any, position: int) -> int:
        """Go to a byte of a stream that `open` gave; returns where it stands then."""
        if position < self.size or self._file_system is None or self._file_system.type_name != "gcs":
            return int(stream.seek(position))
        if self.size:  # Google's store refuses to be read from its end on
            stream.seek(self.size - 1)
            stream.read(1)
        return self.size

    def too_short(self, held: str, position: str) -> DamagedInputError:
        """The error of a file that ends before a position.

        Args:
            held: how much there is of it, such as ``7 rows``.
            position: where reading must go on, such as ``after row 9``.
        """
        return DamagedInputError(
            f"the input file {self.name} has {held} and reading must go on {position}: it was cut or replaced; put the "
            "earlier file back, or start the job without its checkpoints"
        )

    def unreadable(self, error: Exception) -> StorageError:
        """The error of a file that the file system does not give, or that is damaged."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        said = f"cannot read the input file {self.name}: {reason}"
        if isinstance(error, PermissionError):
            return ForbiddenError(said, self.name)
        if isinstance(error, OSError) and (error.errno is not None or self._file_system is not None):
            # Of a store, which has no numbers, it may also be the connection.
            return StorageError(said, self.name)
        return DamagedInputError(f"{said}. It is damaged, or not what its name or its format says", self.name)

    @contextmanager
    def reading(self, close: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Turns errors of the file system, and of a file that is damaged, into ones that name the file.

        Args:
            close: lets go of what was opened for it; called where there is an error.
        """
        try:
            yield
        except BROKEN_ERRORS as error:
            close()
            if isinstance(error, StorageError):
                raise
            raise self.unreadable(error) from error


class InputFolder:
    """One path that a source was given, plain or a URI: a file, or a folder with all that is in it."""

    def __init__(self, path: str, file_systems: FileSystems) -> None:
        self._given = path
        self._file_systems = file_systems
        self._opened = file_systems.open(path)

    @property
    def shown(self) -> str:
        """The path for people."""
        return self._opened.shown

    def has(self, name: str) -> bool:
        """Whether a file of this name lies here."""
        shown = self._opened.shown
        return name == shown or name.startswith(shown if shown.endswith("/") else f"{shown}/")

    def file(self, name: str, size: int | None, changed_us: int | None) -> InputFile:
        """One of its files, as it was found."""
        return InputFile(self._opened, name, size, changed_us)

    def find(self) -> list[Found] | None:
        """All files, in the order of their names, folder by folder; None where the path does not exist.

        Raises:
            ConfigurationError: it cannot be listed, or is a table.
            StorageError: it cannot be listed now; a ForbiddenError where the user may not.
        """
        opened = self._opened
        try:
            if opened.file_system is None:
                return _find_local(opened.path)
            return _find_remote(opened.file_system, opened)
        except _READ_ERRORS as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            below = error.filename if isinstance(error, OSError) else None
            if opened.file_system is None and below not in (None, opened.path):
                reason = f"{below}: {reason}"
            told = (
                f"cannot list the input path {opened.shown}: {self._file_systems.told(reason, self._given)}"
            )
            if isinstance(error, PermissionError) or refuses_key(reason):
                raise ForbiddenError(told, opened.shown) from None
            if isinstance(error, OSError) and is_transient(error, opened.file_system is not None):
                raise StorageError(told, opened.shown) from None
            raise ConfigurationError(told) from None

    def direct(self, found: list[Found]) -> list[Found]:
        """Those of the files that lie in no folder below this one; a warning says how many others there are."""
        start = len(self._opened.shown)
        direct = [file for file in found if "/" not in file.id[start:].strip("/")]
        if len(direct) < len(found):
            _LOG.warning(
                "the input path %s has folders with %d more files, which are not read, as in Flink: FileSource reads them",
                self._opened.shown,
                len(found) - len(direct),
            )
        return direct


def _size_and_time(stream: Any) -> tuple[int, int]:
    """Of a local file that is open: its bytes, and when it was changed last, in µs since 1970."""
    status = os.fstat(stream.fileno())
    return status.st_size, status.st_mtime_ns // 1000


def _find_local(path: str) -> list[Found] | None:
    if os.path.isfile(path):
        status = os.stat(path)
        return [Found(path, status.st_size, status.st_mtime_ns // 1000)]
    if not os.path.isdir(path):
        return None
    files = []
    for folder, subfolders, names in os.walk(path, onerror=_refuse, followlinks=True):
        _refuse_table(folder, subfolders)
        subfolders[:] = sorted(
            name
            for name in subfolders
            if not name.startswith(_HIDDEN) and not _leads_back(path, folder, name)
        )
        for name in sorted(names):
            if not name.startswith(_HIDDEN):
                full = os.path.join(folder, name)
                try:
                    status = os.stat(full)
                except FileNotFoundError:
                    continue  # gone since the listing
                if not stat.S_ISREG(status.st_mode):
                    raise ConfigurationError(
                        f"{full} under the input path {path} is a pipe, a socket or a device, and not a file: take it "
                        "away, or give it a name that begins with a dot"
                    )
                files.append(Found(full, status.st_size, status.st_mtime_ns // 1000))
    return files


def _leads_back(root: str, folder: str, name: str) -> bool:
    """Whether a folder is a link to one that was passed on the way to it, whose files are found without it."""
    full = os.path.join(folder, name)
    if not os.path.islink(full):
        return False
    passed = PurePath(full).relative_to(root).parents
    return os.path.realpath(full) in [os.path.realpath(os.path.join(root, each)) for each in passed]


def _refuse_table(folder: str, inside: Iterable[str]) -> None:
    """Refuse a table's folder: it has files with rows that were deleted, or that other files have, too."""
    for name in inside:
        if name in _TABLES:
            raise ConfigurationError(
                f"the input path {folder} is {_TABLES[name]}. Some of its files have rows of before"
            )


def _refuse(error: OSError) -> None:
    raise error


def _find_remote(file_system: pafs.FileSystem, opened: OpenedPath) -> list[Found] | None:
    info = file_system.get_file_info(opened.path)
    if info.type is pafs.FileType.File:
        return [Found(opened.shown, info.size or 0, (info.mtime_ns or 0) // 1000)]
    if info.type is pafs.FileType.NotFound:
        return None
    files = []
    for info in file_system.get_file_info(pafs.FileSelector(opened.path, recursive=True)):
        below = info.path[len(opened.path) :].strip("/")
        _refuse_table(opened.shown, PurePosixPath(below).parts)
        if info.type is pafs.FileType.File and not _is_hidden(below):
            files.append(Found(f"{opened.shown}/{below}", info.size or 0, (info.mtime_ns or 0) // 1000))
    return sorted(files)


def _is_hidden(below: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in PurePosixPath(below).parts)


def _path_of(root: OpenedPath, name: str) -> str:
    below = name[len(root.shown) :].strip("/")
    if root.file_system is None or not below:
        return name if root.file_system is None else root.path
    return f"{root.path}/{below}"


def _time(changed_us: int) -> str:
    return datetime.fromtimestamp(changed_us / 1_000_000, UTC).isoformat()
