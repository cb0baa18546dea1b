"""Where part files lie before and after they are finished, on whatever storage.

On a local disk those in progress lie beside the finished ones, and a checkpoint may count a part of them. Objects are
uploaded whole under a hidden folder at every checkpoint, and moved to their names.

The life of a file: *in progress*, hidden, being written; *pending*, hidden, complete and durable; *finished*, under its
name.

Invariants:
    * A finished file appears whole, by one rename or one copy of an object.
    * Finishing a file that is finished already changes nothing.
    * On a local disk what a checkpoint counts of a file in progress never changes: writers append only.
    * A pending file never changes. On a local disk, where nothing else would notice, its checksum is taken while it is
      written, and compared where a restart, a fork or a compaction reads it before it is shown.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import uuid
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from changelog_engine.errors import ConfigurationError, RestoreError, StorageError
from changelog_engine.storage.checksums import SummedStream, crc32_of
from changelog_engine.storage.file_systems import FileSystems, public_uri
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage
from changelog_engine.storage.retry import storage_error

log = logging.getLogger("changelog_engine")

_TAG = re.compile(r"\.inprogress\.([0-9a-f]+)-(?:(\d+)-)?(\d+)$")
_STAGING = ".inprogress"
_COPY_BYTES = 4 << 20


class Tag(NamedTuple):
    """Whose a hidden file is, at the end of its name."""

    lineage: str  # hex digits that stand for a sink and its job
    subtask: int | None  # the writer; None for files of versions that had it in the lineage
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


class Store:
    """Part files under a base path; all paths are relative to it.

    Args:
        masked: takes keys out of a message.
        told: the same for an error, with what to do.
    """

    def __init__(self, storage: Storage, masked: Callable[[str], str], told: Callable[[str], str]) -> None:
        self._storage = storage
        self._masked = masked
        self._told = told
        self.appends = storage.appends  # whether a file in progress can outlive a checkpoint

    def check(self) -> None:
        """Raise if nothing can be written here.

        Raises:
            ConfigurationError: names the base path.
        """
        probe = f".check-{uuid.uuid4().hex}"
        try:
            self._storage.create(probe).close()
            self._storage.delete(probe)
        except OSError as error:
            local = self._storage.local
            where = public_uri(self._storage.root) if local is None else f"the folder {local}"
            raise ConfigurationError(f"cannot write to {where}: {self._told(str(error))}") from None

    def temporary(self, bucket: str, name: str, tag: Tag) -> str:
        """The hidden path of a part file while it is not finished."""
        if self.appends:
            return os.path.join(bucket, f".{name}.inprogress.{tag}")
        flat = bucket.replace("/", "-")
        return f"{_STAGING}/{tag.lineage}/{flat}{'-' if flat else ''}{name}.inprogress.{tag}"

    def create(self, path: str) -> Any:
        """A binary stream to a new file."""
        stream = self._storage.create(path)
        return stream if self._storage.keeps_checksums else SummedStream(stream)

    @contextlib.contextmanager
    def naming(self, path: str) -> Iterator[None]:
        """Turns errors of a stream into ones that name the file."""
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            failure = storage_error(error, "write", self._storage.join(path), 1)
            raise type(failure)(self._told(str(failure))) from None

    def persist(self, stream: Any, path: str, closing: bool) -> int | None:
        """Make durable what was written; close the stream or not.

        Returns:
            The checksum of all that was written to the stream; None where it was not taken.
        """
        if not isinstance(stream, SummedStream):
            self._storage.persist(stream, path, closing)
            return None
        self._storage.persist(stream.stream, path, closing)
        return stream.crc

    def refuse_changed(self, path: str, size: int, crc: int | None) -> None:
        """Read a pending file and refuse other bytes than were written; one that is gone or has another size is passed over.

        Args:
            crc: their checksum; None where it was not taken.

        Raises:
            RestoreError: somebody changed it, or the disk damaged it. Final, as no attempt would find it otherwise.
        """
        if crc is None or self._storage.size(path) != size:
            return
        with self.naming(path):
            try:
                found = crc32_of(self._storage, path)
            except FileNotFoundError:  # shown meanwhile
                return
        if found != crc:
            raise self._changed(path, size, found, crc)

    def _changed(self, path: str, size: int, found: int, crc: int) -> RestoreError:
        return RestoreError(
            f"the file {self._masked(self._storage.join(path))} is not what was written: its {size} bytes have the checksum "
            f"{found:08x}, and the checkpoint has {crc:08x}. The disk damaged it, or somebody changed it; none of it was "
            "shown. Put it back as it was, or restore a checkpoint from before it was written"
        )

    def finish(self, temporary: str, final: str, size: int, first: bool = False) -> None:
        """Show a pending file under its name.

        Args:
            size: its bytes.
            first: nobody has done so before: the caller has just made it.

        Raises:
            RestoreError: it has another size; or it is gone, and was never shown. Final, as the next attempt would take it
                for one that readers had.
        """
        # On object stores, looking is a request, and within moments nobody has changed what was just made.
        found = self._storage.size(temporary) if self.appends or not first else None
        if found not in (None, size):
            raise RestoreError(
                f"the file {self._masked(self._storage.join(temporary))}, which was to become "
                f"{self._masked(self._storage.join(final))}, has {found} bytes, and the checkpoint counts {size}: somebody "
                "changed it. Keep others from hidden files here, and put it back as it was, or restore the checkpoint before"
            )
        if not self._storage.move(temporary, final) and not self._storage.exists(final):
            target = self._masked(self._storage.join(final))
            if first:
                raise RestoreError(
                    f"the file {self._masked(self._storage.join(temporary))}, which was to become {target}, is gone: "
                    "somebody removed it, and its elements with it. Keep others from hidden files here, and restore "
                    "the checkpoint before"
                )
            log.warning(
                "the file %s of the restored checkpoint is gone: readers of the folder had it, or somebody removed it",
                target,
            )

    def is_anothers(self, temporary: str, final: str, size: int | None = None) -> bool:
        """Whether another's file has the name that a hidden one is to get: the hidden one does not begin with its bytes.

        Args:
            size: bytes of the hidden one that are to be shown; None for all, which no longer file may give way to.
        """
        storage = self._storage
        there, mine = storage.size(final), storage.size(temporary)
        if there is None or mine is None:
            return False
        if size is None and there > mine:
            return True
        left = min(there, mine if size is None else size)
        with self.open(temporary) as own, self.open(final) as other, self.naming(final):
            while left:
                data = own.read(min(left, _COPY_BYTES))
                if not data or data != other.read(len(data)):
                    return True
                left -= len(data)
        return False

    def finish_part_of(
        self, temporary: str, final: str, size: int, keep: bool, crc: int | None = None
    ) -> None:
        """Show the first bytes of a file in progress, as a file of their own; keep or remove the one in progress.

        Raises:
            RestoreError: they have another checksum than is given.
            StorageError: they are gone, or cannot be read.
        """
        storage = self._storage
        if not self.appends:
            raise StorageError(
                f"the checkpoint has a file in progress, and {public_uri(storage.root)} is not a local folder"
            )
        finished = storage.size(final)
        if finished is None or finished < size:
            if not storage.exists(temporary):
                raise StorageError(
                    f"the file {storage.join(temporary)} is gone, of which the checkpoint counts {size} bytes, and "
                    f"{storage.join(final)} is not there either: put it back, or restore another checkpoint"
                )
            # A copy, because a dead attempt's writer may not know that it is dead, and write on.
            copy = f"{temporary}.cut-{uuid.uuid4().hex[:8]}"
            self._copy_first(temporary, copy, size, crc)
            storage.move(copy, final)
        if not keep:
            self.remove(temporary)

    def _copy_first(self, source: str, target: str, size: int, crc: int | None) -> None:
        found = 0
        with self.open(source) as read, self._storage.create(target) as stream, self.naming(target):
            left = size
            while left:
                data = read.read(min(left, _COPY_BYTES))
                if not data:
                    shown = self._masked(self._storage.join(source))
                    raise StorageError(
                        f"the file {shown} was cut: the checkpoint counts {size} bytes of it, {size - left} are left"
                    )
                stream.write(data)
                found = zlib.crc32(data, found)
                left -= len(data)
            if crc not in (None, found):
                self.remove(target)
                raise self._changed(source, size, found, crc)
            self._storage.persist(stream, target, closing=True)

    def remove(self, path: str) -> bool:
        """Remove a file, if it is there; returns whether it is gone for sure."""
        try:
            self._storage.delete(path)
        except OSError:  # hidden and harmless if it stays
            return False
        return True

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return self._storage.exists(path)

    def open(self, path: str, size: int | None = None) -> Any:
        """A binary stream that reads a file and can be sought in.

        Args:
            size: that it must have; None for any.

        Raises:
            StorageError: it is gone, cannot be read, or has another size.
        """
        shown = self._masked(self._storage.join(path))
        try:
            found = self._storage.size(path) if size is not None else None
            if found != size:
                raise StorageError(
                    f"the file {shown} has {found or 0} bytes, and the checkpoint counts {size}: put it back as it was, or "
                    "restore another checkpoint"
                )
            return self._storage.open(path)
        except FileNotFoundError:
            raise StorageError(
                f"the file {shown} is gone: put it back, or restore another checkpoint"
            ) from None

    def duplicate(self, source: str, target: str, crc: int | None = None) -> bool:
        """Make a pending file durable under a second hidden path; returns False if it is not there.

        Raises:
            RestoreError: it has another checksum than is given.
            StorageError: it cannot be read or written.
        """
        size = self._storage.size(source)
        if size is None:
            return False
        try:
            self._copy_first(source, target, size, crc)
        except StorageError:
            if self._storage.exists(source):
                raise
            return False  # somebody removed it meanwhile
        return True

    def in_progress(self, lineages: set[str]) -> Iterator[tuple[str, Tag]]:
        """Hidden files of writers of these lineages.

        Raises:
            StorageError: they cannot be listed; folders that others have closed to this user are left out.
        """
        root = self._storage.local
        if root is None:
            found = (
                f"{_STAGING}/{one}/{name}" for one in lineages for name in self.names(f"{_STAGING}/{one}")
            )
        else:
            found = (
                os.path.relpath(os.path.join(folder, name), root)
                for folder, _, names in os.walk(root, onerror=_refuse_failures)
                for name in names
                if name.startswith(".")
            )
        for path in found:
            tag = Tag.of(path)
            if tag is not None and tag.lineage in lineages:
                yield path, tag

    def names(self, bucket: str) -> list[str]:
        """Names of all files of a bucket, the hidden ones too."""
        return [entry.name for entry in self._storage.list(bucket) if not entry.is_folder]


def _refuse_failures(error: OSError) -> None:
    """Refuse a listing with a gap: a file that is left out would be taken for one that was never there."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        raise storage_error(error, "list", str(error.filename), 1) from error


def open_store(file_systems: FileSystems, base_path: str) -> Store:
    """The store of a base path.

    Raises:
        ConfigurationError: no file system is known for it, or a setting of that is missing or wrong.
    """
    try:
        # Folders in a sink's base path may be links: they are the user's.
        storage = open_storage(base_path, file_systems=file_systems, follows_links=True)
    except StorageError as error:
        raise ConfigurationError(str(error)) from None
    return Store(
        storage,
        lambda text: file_systems.masked(text, base_path),
        lambda text: file_systems.told(text, base_path),
    )
