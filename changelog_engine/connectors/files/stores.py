"""Where part files lie before and after they are finished: on a local disk, or behind pyarrow.fs.

The life of a file: *in progress*, hidden, being written; *pending*, hidden, complete and durable; *finished*, under its
name.

Invariants:
    * A finished file appears whole, by one rename or one copy of an object.
    * Finishing a file that is finished already changes nothing.
    * On a local disk what a checkpoint counts of a file in progress never changes: writers append only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from changelog_engine.errors import ConfigurationError, StorageError
from changelog_engine.storage.file_systems import FileSystems, OpenedPath
from changelog_engine.storage.retry import Retry

log = logging.getLogger("changelog_engine")
T = TypeVar("T")

_TAG = re.compile(r"\.inprogress\.([0-9a-f]+)-(?:(\d+)-)?(\d+)$")
_STAGING = ".inprogress"
_BUFFER_BYTES = 256 * 1024
_COPY_BYTES = 4 << 20


class Tag(NamedTuple):
    """Whose a hidden file is, at the end of its name.

    Args:
        lineage: hex digits that stand for a sink and its job.
        subtask: the writer; None for files of versions that had it in the lineage.
        attempt: of the job.
    """

    lineage: str
    subtask: int | None
    attempt: int

    @classmethod
    def of(cls, path: str) -> Tag | None:
        """The tag of a hidden file, or of a copy that a restore was making of it; None for files of others."""
        name = path.rpartition("/")[2]
        found = _TAG.search(name.split(".cut-")[0])
        if found is None:
            return None
        lineage, subtask, attempt = found.groups()
        return cls(lineage, None if subtask is None else int(subtask), int(attempt))

    def __str__(self) -> str:
        return "-".join(str(part) for part in self if part is not None)


class Store(Protocol):
    """Part files under a base path; all paths are relative to it."""

    appends: bool  # whether a file in progress can outlive a checkpoint

    def check(self) -> None:
        """Raise if nothing can be written here."""

    def temporary(self, bucket: str, name: str, tag: Tag) -> str:
        """The hidden path of a part file while it is not finished."""

    def create(self, path: str) -> Any:
        """A binary stream to a new file."""

    def naming(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Turns errors of the file system into ones that name the file."""

    def persist(self, stream: Any, path: str, closing: bool) -> None:
        """Make durable what was written; close the stream or not."""

    def finish(self, temporary: str, final: str, size: int) -> None:
        """Show a pending file under its name."""

    def finish_part_of(self, temporary: str, final: str, size: int, keep: bool) -> None:
        """Show the first bytes of a file in progress, as a file of their own; keep or remove the one in progress."""

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""

    def in_progress(self, lineages: set[str]) -> Iterator[tuple[str, Tag]]:
        """Hidden files of writers of these lineages."""

    def names(self, bucket: str) -> list[str]:
        """Names of all files of a bucket, the hidden ones too."""


def open_store(file_systems: FileSystems, base_path: str) -> Store:
    """The store of a base path.

    Raises:
        ConfigurationError: no file system answers to it.
    """
    opened = file_systems.open(base_path)
    if opened.file_system is None:
        return LocalStore(opened.path)
    return RemoteStore(opened, file_systems, base_path)


class LocalStore:
    """Part files on a local disk; those in progress lie beside the finished ones."""

    appends = True

    def __init__(self, root: str) -> None:
        self._root = root

    def check(self) -> None:
        """See Store."""
        probe = os.path.join(self._root, f".check-{uuid.uuid4().hex}")
        try:
            os.makedirs(self._root, exist_ok=True)
            with open(probe, "xb"):
                pass
            os.unlink(probe)
        except OSError as error:
            raise ConfigurationError(f"cannot write to the folder {self._root}: {error.strerror}") from error

    def temporary(self, bucket: str, name: str, tag: Tag) -> str:
        """See Store."""
        return os.path.join(bucket, f".{name}.inprogress.{tag}")

    def create(self, path: str) -> Any:
        """See Store."""
        full = self._full(path)
        with _naming(full):
            os.makedirs(os.path.dirname(full), exist_ok=True)
            return open(full, "xb", buffering=_BUFFER_BYTES)

    def naming(self, path: str) -> contextlib.AbstractContextManager[None]:
        """See Store."""
        return _naming(self._full(path))

    def persist(self, stream: Any, path: str, closing: bool) -> None:
        """See Store."""
        full = self._full(path)
        with _naming(full):
            stream.flush()
            os.fsync(stream.fileno())
            if closing:
                stream.close()
            _sync_folder(full)

    def finish(self, temporary: str, final: str, size: int) -> None:
        """See Store."""
        source, target = self._full(temporary), self._full(final)
        with _naming(target):
            try:
                os.replace(source, target)
            except FileNotFoundError:
                if not os.path.exists(target):
                    _warn_gone(target)
                return
            _sync_folder(target)

    def finish_part_of(self, temporary: str, final: str, size: int, keep: bool) -> None:
        """See Store."""
        source, target = self._full(temporary), self._full(final)
        with _naming(target):
            if not os.path.exists(target) or os.path.getsize(target) < size:
                if not os.path.exists(source):
                    raise StorageError(
                        f"the file {source} is gone, of which the checkpoint counts {size} bytes, and {target} is not "
                        "there either: put it back, or restore another checkpoint"
                    )
                # A copy, because a dead attempt's writer may not know that it is dead, and write on.
                copy = f"{source}.cut-{uuid.uuid4().hex[:8]}"
                _copy_first(source, copy, size)
                os.replace(copy, target)
                _sync_folder(target)
        if not keep:
            self.remove(temporary)

    def remove(self, path: str) -> None:
        """See Store."""
        with contextlib.suppress(OSError):  # hidden and harmless if it stays
            os.unlink(self._full(path))

    def in_progress(self, lineages: set[str]) -> Iterator[tuple[str, Tag]]:
        """See Store."""
        for folder, _, names in os.walk(self._root):
            for name in names:
                tag = Tag.of(name) if name.startswith(".") else None
                if tag is not None and tag.lineage in lineages:
                    yield os.path.relpath(os.path.join(folder, name), self._root), tag

    def names(self, bucket: str) -> list[str]:
        """See Store."""
        try:
            return os.listdir(self._full(bucket))
        except FileNotFoundError:
            return []

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path)


class RemoteStore:
    """Part files as objects. They are uploaded under a hidden folder at every checkpoint, and copied to their names."""

    appends = False

    def __init__(self, opened: OpenedPath, file_systems: FileSystems, uri: str) -> None:
        assert opened.file_system is not None
        self._fs: pafs.FileSystem = opened.file_system
        self._root = opened.path
        self._shown = opened.shown
        self._masked = file_systems.masked
        self._uri = uri
        self._retry = Retry()

    def check(self) -> None:
        """See Store."""
        probe = f"{_STAGING}/check-{uuid.uuid4().hex}"
        try:
            with self.create(probe) as stream:
                stream.write(b"")
            self._fs.delete_file(self._full(probe))
        except (OSError, pa.ArrowException, StorageError) as error:
            reason = self._masked(str(error), self._uri)
            raise ConfigurationError(f"cannot write to {self._shown}: {reason}") from None

    def temporary(self, bucket: str, name: str, tag: Tag) -> str:
        """See Store."""
        flat = bucket.replace("/", "-")
        return f"{_STAGING}/{tag.lineage}/{flat}{'-' if flat else ''}{name}.inprogress.{tag}"

    def create(self, path: str) -> Any:
        """See Store."""
        full = self._full(path)
        return self._run(lambda: self._created(full), f"write {path}")

    def _created(self, full: str) -> Any:
        if self._fs.type_name not in ("s3", "gcs"):  # they have no folders; making them would leave objects
            self._fs.create_dir(full.rsplit("/", 1)[0], recursive=True)
        return self._fs.open_output_stream(full)

    @contextlib.contextmanager
    def naming(self, path: str) -> Iterator[None]:
        """See Store."""
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            reason = self._masked(str(error), self._uri)
            raise StorageError(f"cannot write {self._shown}/{path}: {reason}") from None

    def persist(self, stream: Any, path: str, closing: bool) -> None:
        """See Store."""
        self._run(stream.close, f"write {path}")

    def finish(self, temporary: str, final: str, size: int) -> None:
        """See Store."""
        source, target = self._full(temporary), self._full(final)

        def move() -> None:
            there, done = self._fs.get_file_info([source, target])
            if there.type is pafs.FileType.File:
                if self._fs.type_name not in ("s3", "gcs"):
                    self._fs.create_dir(target.rsplit("/", 1)[0], recursive=True)
                self._fs.move(source, target)
            elif done.type is not pafs.FileType.File:
                _warn_gone(f"{self._shown}/{final}")

        self._run(move, f"finish {final}")

    def finish_part_of(self, temporary: str, final: str, size: int, keep: bool) -> None:
        """See Store; files in progress never outlive a checkpoint here."""
        raise StorageError(f"the checkpoint has a file in progress, and {self._shown} is no local folder")

    def remove(self, path: str) -> None:
        """See Store."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._fs.delete_file(self._full(path))

    def in_progress(self, lineages: set[str]) -> Iterator[tuple[str, Tag]]:
        """See Store."""
        for lineage in lineages:
            folder = f"{_STAGING}/{lineage}"
            for name in self.names(folder):
                tag = Tag.of(name)
                if tag is not None:
                    yield f"{folder}/{name}", tag

    def names(self, bucket: str) -> list[str]:
        """See Store."""
        selector = pafs.FileSelector(self._full(bucket).rstrip("/"), allow_not_found=True)
        found = self._run(lambda: self._fs.get_file_info(selector), f"list {bucket}")
        return [info.base_name for info in found if info.type is pafs.FileType.File]

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _run(self, operation: Callable[[], T], what: str) -> T:
        try:
            return self._retry.run(operation, f"{what} under {self._shown}", remote=True)
        except (OSError, pa.ArrowException) as error:
            reason = self._masked(str(error), self._uri)
            raise StorageError(reason) from None


def _copy_first(source: str, target: str, size: int) -> None:
    with open(source, "rb") as read, open(target, "xb") as write:
        left = size
        while left:
            data = read.read(min(left, _COPY_BYTES))
            if not data:
                raise StorageError(
                    f"the file {source} was cut: the checkpoint counts {size} bytes of it, {size - left} are left"
                )
            write.write(data)
            left -= len(data)
        write.flush()
        os.fsync(write.fileno())


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot write the file {path}: {error.strerror or error}") from error


def _warn_gone(target: str) -> None:
    # Finished files may have been taken away by whoever reads them.
    log.warning("the file %s was finished by a checkpoint and is gone since", target)
