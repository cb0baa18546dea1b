"""The log of one of the engine's own Delta tables: its commits, the list of its files, and Delta checkpoints.

Invariants:
    * A commit is a compare-and-swap on the table's version: of two commits made from one version, one fails.
    * A commit is durable when ``commit`` returns, and so is all else that is written here on a local disk.
    * A commit is made only on top of the one that this object wrote or saw last, as it was: in a folder that was replaced by
      an older copy, or that lost its newest commit, nothing is committed that no reader could find.
    * A Delta checkpoint that this engine wrote is checked against its CRC-32 before the list of files is taken from it.
    * A log that cannot be read is an error that names the file of it that is missing or damaged.
    * The log is kept short: behind a Delta checkpoint, old commits are removed. History is rows, not versions.
    * The protocol stays plain (reader 1, writer 2), so every Delta reader opens the table; one with more is refused.
    * What the log lists are names of files in the table's folder: nothing else that stands there leaves this module.

Why commits are written here: a commit is one small JSON file, but delta-rs replays the log and rebuilds its list of files at
each commit and each refresh (delta-rs issue 4276), so it takes 130 ms after 1,000 commits of three files, and it does not
fsync. It makes tables and Delta checkpoints in a folder for temporary files, from where they go through the storage.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from changelog_engine.clock import wall_s
from changelog_engine.errors import CorruptChangelogError, ForeignPathError, LostCommitError, StorageError
from changelog_engine.storage.damaged import DELTA_ERRORS, PARQUET_ERRORS, delta_rs
from changelog_engine.storage.delta_actions import Action, AddFile, actions_of, commit_document
from changelog_engine.storage.delta_names import (
    CHECKPOINT_NAME,
    COMMIT_NAME,
    LAST_CHECKPOINT,
    LOG,
    NUMBERED,
    checkpoint_path,
    commit_path,
    last_checkpoint_version,
)
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.new_table import FIRST_COMMIT, SCRATCH, first_commit
from changelog_engine.storage.protocol import Entry, Storage

_PLAIN_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._+=-]*$"  # others' compactions give such names too
_READER_VERSION = 1
# An empty file whose name has a Delta checkpoint's CRC-32; readers of Delta pass over names that begin so.
_CHECKSUM = "_checksum-"
_CHECKSUM_NAME = re.compile(rf"^{_CHECKSUM}(\d{{20}})-([0-9a-f]{{8}})$")
_CLEANED = 10  # Delta checkpoints in an object store, from one clean-up of its old commits to the next
COMMIT_TRIES = 20  # of one who looks again each time that another process was faster
KEPT_S = 600.0  # how long commits stay, for writers and readers that are behind


class CommitConflictError(StorageError):
    """Somebody else committed to the table first; refresh, look at what they did, and decide."""


class CommitsGoneError(StorageError):
    """What others committed since is not there any more: the log was cleaned up while this process stood still."""


class _Content(NamedTuple):
    """What a table's log says: at which version, which files, which properties, which id."""

    version: int
    files: pa.Table
    properties: dict[str, str]
    table_id: str


# Of each table that was read: its log's files then, and what they say. A commit is never replaced.
_READ: dict[str, tuple[list[Entry], _Content]] = {}
_OPENED: dict[str, tuple[list[Entry], DeltaTable]] = {}  # of which only properties were asked for so far
_MOST_READ = 16


class DeltaLog:
    """One Delta table, at one version.

    Threads: one at a time.

    Args:
        storage: the table's folder.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._table: DeltaTable | None = None
        self._last_checkpoint_mark: tuple[int, int] | None = None
        self._checkpointed = 0
        self._tip: tuple[int, bytes] | None = (
            None  # a version, and what its commit holds: written or seen here
        )
        self.version = -1
        self.version = self._newest_version()
        if self.version < 0:
            raise StorageError(f"{storage.root} is not a Delta table: it has no {LOG} with a commit")

    @staticmethod
    def exists(storage: Storage) -> bool:
        """Whether the folder is a Delta table."""
        return any(COMMIT_NAME.match(e.name) or CHECKPOINT_NAME.match(e.name) for e in _entries(storage))

    @classmethod
    def create(cls, storage: Storage, schema: pa.Schema, properties: dict[str, str]) -> DeltaLog:
        """Make an empty table.

        Args:
            storage: its folder.
            schema: its columns.
            properties: table properties; any reader can see them.

        Raises:
            CommitConflictError: somebody made it first.
            StorageError: it could not be written.
        """
        storage.make_dirs(LOG)
        if cls.exists(storage):
            raise CommitConflictError(f"{storage.root} is a Delta table already")
        try:
            made = storage.put_if_absent(FIRST_COMMIT, first_commit(schema, properties))
        except (DeltaError, OSError) as error:
            raise StorageError(f"could not make the Delta table {storage.root} durable: {error}") from error
        if not made:
            raise CommitConflictError(f"{storage.root} was made by another process at the same time")
        return cls(storage)

    def properties(self) -> dict[str, str]:
        """The table's properties.

        Raises:
            CorruptChangelogError: a file of the log is missing or damaged; names it.
        """
        entries = _entries(self.storage)
        known = self._remembered(entries)
        return dict(self._table_of(entries).metadata().configuration if known is None else known.properties)

    def table_id(self) -> str:
        """The id that the table got when it was made; copies of it have the same."""
        entries = _entries(self.storage)
        known = self._remembered(entries)
        return str(self._table_of(entries).metadata().id) if known is None else known.table_id

    def refresh(self) -> int:
        """Move to the newest version and return it. Costs a look at one name or two, however long the log is.

        Raises:
            LostCommitError: the commits of others follow another one than this object knows.
        """
        mark = self._checkpoint_mark()
        if mark != self._last_checkpoint_mark:
            # A checkpoint was written since; behind it commits may have been cleaned up, so don't walk them one by one.
            self._last_checkpoint_mark = mark
            if self.last_checkpoint_version() > self.version:
                self._leave_tip()
                self.version = self._newest_version()
        newer = self.version
        while self.storage.size(commit_path(newer + 1)) is not None:
            newer += 1
        if newer != self.version:
            self._leave_tip()
            self.version = newer
        return self.version

    def _leave_tip(self) -> None:
        """Others committed more: what they followed must be the commit that was written or seen here.

        Raises:
            LostCommitError: it is another one: an older copy took the place of the folder, and somebody went on with it.
        """
        path = commit_path(self.version)
        try:
            if self._tip is not None and self._differs(self.storage.read(path).to_pybytes()):
                raise self._lost(path, "is not the commit that this process wrote or saw")
        except FileNotFoundError:
            pass  # cleaned up behind a Delta checkpoint
        self._tip = None

    def _differs(self, commit: bytes) -> bool:
        """Whether the commit of this version is another one than was written or seen here."""
        return self._tip is not None and self._tip[0] == self.version and self._tip[1] != commit

    def commit(
        self, adds: Sequence[AddFile], removes: Sequence[str] = (), metadata: dict[str, Any] | None = None
    ) -> int:
        """Add and remove files in one atomic step on top of the current version.

        Args:
            adds: files to add; they are durable already.
            removes: paths to remove from the table (the files stay).
            metadata: kept in the commit as ``userMetadata``, JSON.

        Raises:
            CommitConflictError: the table has moved on; nothing was committed.
            LostCommitError: the commit before is not there, or not what it was; nothing was committed.
            StorageError: anything else. The commit may or may not be there: look.
        """
        self.check_predecessor()
        document = commit_document(adds, removes, metadata)
        if not self.storage.put_if_absent(commit_path(self.version + 1), document):
            raise CommitConflictError(
                f"version {self.version + 1} of {self.storage.root} was committed by another"
            )
        self._refuse_forgotten()
        self.version += 1
        self._tip = self.version, document
        return self.version

    def make_durable(self) -> None:
        """After a ``commit`` whose error may have been that only this failed, and which is in the log.

        Raises:
            StorageError: it failed again.
        """
        self.storage.sync(LOG)

    def added_since(self, version: int) -> list[str]:
        """Paths of the files that commits after a version added, up to the current version.

        Raises:
            CorruptChangelogError: one of these commits is damaged; names it.
            CommitsGoneError: one of these commits was cleaned up.
        """
        return self._names(
            action["add"]["path"] for action in self._actions_since(version) if "add" in action
        )

    def removed_since(self, version: int) -> list[str]:
        """Paths of the files that commits after a version removed, up to the current version.

        Raises:
            CorruptChangelogError: one of these commits is damaged; names it.
            CommitsGoneError: one of these commits was cleaned up.
        """
        return self._names(
            action["remove"]["path"] for action in self._actions_since(version) if "remove" in action
        )

    def files(self) -> pa.Table:
        """The files of the newest version.

        Returns:
            One row a file: ``path``, ``size_bytes``, ``modification_time``, ``num_records``, and ``min.``, ``max.`` and
            ``null_count.`` of the columns that have statistics.

        Raises:
            ForeignPathError: somebody else changed what the table is, or added what is not a file in its folder.
            CorruptChangelogError: a file of the log is missing or cannot be read; names it.
        """
        entries = _entries(self.storage)
        self._refuse_damaged(entries)
        content = self._remembered(entries) or self._read_content(entries)
        if content.version > self.version:
            self.version, self._tip = content.version, None
        return content.files

    def _remembered(self, entries: list[Entry]) -> _Content | None:
        """What this process read of the same log, as long as none of its files was changed."""
        found = _READ.get(self.storage.root)
        return found[1] if found is not None and found[0] == entries else None

    def _table_of(self, entries: list[Entry]) -> DeltaTable:
        """The table, read once for its properties and its files, as long as none of its log's files was changed."""
        found = _OPENED.get(self.storage.root)
        if found is not None and found[0] == entries:
            return found[1]
        self._table = None
        self._refuse_damaged(entries)
        table = self._open()
        if len(_OPENED) >= _MOST_READ:
            _OPENED.clear()
        _OPENED[self.storage.root] = entries, table
        return table

    def _read_content(self, entries: list[Entry]) -> _Content:
        table = self._table_of(entries)
        _OPENED.pop(self.storage.root, None)  # what it says is remembered, or refused
        self._refuse_features(table)
        # pa.table() would import pandas to see whether that is a DataFrame: a third of a second.
        with self._read_by_delta_rs():
            files = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
        strange = files.filter(pc.invert(pc.match_substring_regex(files["path"], _PLAIN_NAME)))
        self._names(strange["path"].to_pylist())
        metadata = table.metadata()
        content = _Content(table.version(), files, dict(metadata.configuration), str(metadata.id))
        if len(_READ) >= _MOST_READ:
            _READ.clear()
        _READ[self.storage.root] = entries, content
        return content

    def _refuse_damaged(self, entries: list[Entry]) -> None:
        """Refuse what delta-rs would take: an emptied commit, a Delta checkpoint of other bytes than were written."""
        newest, checksums = "", {}
        for entry in entries:
            checksum = _CHECKSUM_NAME.match(entry.name)
            if COMMIT_NAME.match(entry.name) and not entry.size:
                raise self._damaged(self.storage.join(f"{LOG}/{entry.name}"), "is empty")
            if checksum:
                checksums[checksum.group(1)] = int(checksum.group(2), 16)
            elif CHECKPOINT_NAME.match(entry.name) and entry.name.endswith(".checkpoint.parquet"):
                newest = max(newest, entry.name)
        wanted = checksums.get(newest[:20])
        if wanted is None:
            return  # none, or somebody else's
        path = f"{LOG}/{newest}"
        try:
            found = zlib.crc32(self.storage.read(path))
        except FileNotFoundError:
            return  # cleaned up since it was listed
        if found != wanted:
            raise self._damaged(self.storage.join(path), "is not what was written: its checksum is another")

    def _names(self, paths: Iterable[str]) -> list[str]:
        """Paths out of the log, which anybody may have written; see the invariants."""
        names = list(paths)
        for name in names:
            if not re.fullmatch(_PLAIN_NAME, name):
                raise ForeignPathError(
                    f"the Delta log of {self.storage.root} lists {name!r}, which is not the name of a file in that folder: "
                    "somebody else wrote that. Nothing was read or changed. Restore the folder from a copy, or start in "
                    "another base path"
                )
        return names

    def _refuse_features(self, table: DeltaTable) -> None:
        """Refuse a table whose rows are not simply those of its files."""
        protocol, partitions = table.protocol(), table.metadata().partition_columns
        if protocol.min_reader_version > _READER_VERSION:
            features = ", ".join(protocol.reader_features or []) or "column mapping"
            what = f"asks for reader version {protocol.min_reader_version} ({features})"
        elif partitions:
            what = f"is partitioned by {', '.join(partitions)}"
        else:
            return
        raise ForeignPathError(
            f"the Delta table {self.storage.root} {what}: somebody else changed it, and its files alone do not say any more "
            "which rows there are. Nothing was read or changed. Restore the folder from a copy, or start in another base "
            "path"
        )

    def is_due(self, every: int = 100) -> bool:
        """Whether enough commits came since the last Delta checkpoint for ``maintain`` to write another."""
        if self.version - self._checkpointed >= every:
            self._checkpointed = max(self._checkpointed, self.last_checkpoint_version())
        return self.version - self._checkpointed >= every

    def maintain(self, every: int = 100) -> bool:
        """Write a Delta checkpoint of the log when enough commits came since the last, and remove what came before.

        It reads the whole list of files: run it after the acknowledgement, never before. On a local disk the log then has
        the commits since the Delta checkpoint before, and those of the last ten minutes, for writers and readers that are
        behind: at most 2 * every files and as many as were made in that time. Elsewhere the table's
        ``delta.logRetentionDuration`` decides, which is looked at once in 10 * every commits: for that the whole log is
        listed, a thousand names a request.

        Returns:
            Whether it did.
        """
        if not self.is_due(every):
            return False
        self._table = None
        known = self.last_checkpoint_version()
        try:
            if self.storage.local is None:
                self._refuse_damaged(_entries(self.storage))
                table = self._open()
                with delta_rs():
                    table.create_checkpoint()
                    self._checkpointed = table.version()
                    if known < 0 or self._checkpointed // (_CLEANED * every) > known // (_CLEANED * every):
                        table.cleanup_metadata()
            else:
                self._checkpointed = self._write_checkpoint()
        except StorageError:
            if self.last_checkpoint_version() > known:
                return False  # another process did the same, and what this one had listed is gone
            raise  # an OSError, too, that knows more
        except DELTA_ERRORS as error:
            raise StorageError(
                f"could not write a checkpoint of the Delta log of {self.storage.root}: {error}"
            ) from error
        finally:
            self._table = None
        if self.storage.local is not None:
            self._forget_commits()
        self._forget_checksums(self._checkpointed)
        return True

    def _write_checkpoint(self) -> int:
        """Write a Delta checkpoint on a local disk: the file, its checksum, and then what points to it. All are durable."""
        with tempfile.TemporaryDirectory(prefix=SCRATCH) as scratch:
            log = Path(scratch, LOG)
            log.mkdir()
            with contextlib.suppress(FileNotFoundError):  # before the list, which then has what it points to
                Path(scratch, LAST_CHECKPOINT).write_bytes(self.storage.read(LAST_CHECKPOINT))
            begins, newest = last_checkpoint_version(LocalDisk(scratch)), -1
            entries = self.storage.list(LOG)
            self._refuse_damaged(entries)  # or a new checksum would vouch for what it says
            for entry in entries:
                match = NUMBERED.match(entry.name)
                if match and int(match[1]) >= begins:  # what came before is in that Delta checkpoint
                    (log / entry.name).symlink_to(self.storage.place(f"{LOG}/{entry.name}"))
                    newest = max(newest, int(match[1]))
            with self._read_by_delta_rs():
                table = DeltaTable(scratch)
                if table.version() < newest:  # delta-rs passes over files that are gone by now
                    raise FileNotFoundError(f"version {newest} was listed, and is gone")
            with delta_rs():
                table.create_checkpoint()
            name = checkpoint_path(table.version())
            data, pointer = Path(scratch, name).read_bytes(), Path(scratch, LAST_CHECKPOINT).read_bytes()
        self.storage.write_durable(name, data)
        self._note_checksum(table.version(), data)
        self.storage.write_durable(LAST_CHECKPOINT, pointer)
        return table.version()

    def _note_checksum(self, version: int, checkpoint: bytes | pa.Buffer) -> None:
        """Keep the CRC-32 of a Delta checkpoint that was just written."""
        name = f"{_CHECKSUM}{version:020d}-{zlib.crc32(checkpoint):08x}"
        self.storage.write_durable(f"{LOG}/{name}", b"")

    def _forget_checksums(self, version: int) -> None:
        """Forget those of Delta checkpoints that are gone; delta-rs' own is looked at here for the first time."""
        if self.storage.local is None:
            try:
                self._note_checksum(version, self.storage.read(checkpoint_path(version)))
            except FileNotFoundError:
                return  # in several files, or cleaned up by another process already
        for entry in self.storage.list(LOG, after=_CHECKSUM):  # the oldest first, as checkpoints go
            found = _CHECKSUM_NAME.match(entry.name)
            if found is None:
                continue
            if self.storage.size(checkpoint_path(int(found[1]))) is not None:
                return
            self.storage.delete(f"{LOG}/{entry.name}")

    def _forget_commits(self) -> None:
        """Delete commits and Delta checkpoints that nobody needs: before the newest Delta checkpoint but one, and old."""
        names = [entry.name for entry in self.storage.list(LOG)]
        numbered = {name: int(match.group(1)) for name in names if (match := NUMBERED.match(name))}
        checkpoints = sorted({number for name, number in numbered.items() if CHECKPOINT_NAME.match(name)})
        if len(checkpoints) < 2 or checkpoints[-1] > self.last_checkpoint_version():
            return
        now = wall_s()
        for name in sorted(numbered):
            if numbered[name] < checkpoints[-2]:
                path = f"{LOG}/{name}"
                stamp = self.storage.stamp(path)  # None: another process does the same
                if stamp is not None and now - stamp[0] / 1e9 >= KEPT_S:
                    self.storage.delete(path)

    def check_predecessor(self) -> None:
        """Look whether the commit that the next one follows is there, and what this object wrote or saw.

        Raises:
            CommitConflictError: it was cleaned up long after others had committed more.
            LostCommitError: it isn't.
        """
        path = commit_path(self.version)
        try:
            tip = self._tip  # whose length is known
            size = len(tip[1]) if tip is not None and tip[0] == self.version else None
            found = self.storage.read(path, size).to_pybytes()
        except FileNotFoundError:
            checkpointed = self.last_checkpoint_version()
            if checkpointed > self.version:
                raise self._late() from None
            if checkpointed == self.version:
                return  # somebody cleaned up behind the Delta checkpoint, which holds all of it
            raise self._lost(path, "is gone") from None
        if self._differs(found):
            raise self._lost(path, "is not the commit that this process wrote or saw")
        if not found.strip():
            raise self._lost(path, "is empty")
        self._tip = self.version, found

    def _late(self) -> CommitConflictError:
        return CommitConflictError(
            f"version {self.version + 1} of {self.storage.root} was committed by another process long ago"
        )

    def _lost(self, path: str, what: str) -> LostCommitError:
        full = self.storage.join(path)
        folder = self.storage.root.rpartition("/")[0]
        return LostCommitError(
            f"{what}, and the next commit follows it: somebody removed or changed it, or put an older copy in the "
            "place of the folder. Nothing was committed over it, so no sink publishes what came after. Stop whatever "
            f"changes the folder; then put the file back from a copy, or ask 'changelog-engine verify {folder} --repair' "
            "from which checkpoint the job can go on",
            full,
        )

    def _refuse_forgotten(self) -> None:
        """Take a commit back whose name was free only because the log was cut behind it: this process stood still.

        Commits are forgotten in their order, so the one that this one follows is gone then, too.
        """
        cut = self._checkpoint_mark() != self._last_checkpoint_mark
        if cut and self.storage.size(commit_path(self.version)) is None:
            self.storage.delete(commit_path(self.version + 1))
            raise self._late()

    def _open(self) -> DeltaTable:
        if self._table is None:
            with self._read_by_delta_rs():
                self._table = DeltaTable(
                    self.storage.root, storage_options=FileSystems().delta_options(self.storage.root)
                )
        return self._table

    @contextlib.contextmanager
    def _read_by_delta_rs(self) -> Iterator[None]:
        """Have delta-rs read the log in the block, and nothing else.

        Raises:
            CorruptChangelogError: a file of the log is missing or damaged; names it.
            StorageError: it could not be read.
        """
        try:
            with delta_rs():
                yield
        except TableNotFoundError as error:
            raise StorageError(f"{self.storage.root} is not a Delta table") from error
        except DELTA_ERRORS as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StorageError:
        """What to say when delta-rs can't read the log: the file that is missing or damaged, where one is found."""
        found = self.damage()
        if found is None:
            return StorageError(f"could not read the Delta log of {self.storage.root}: {error}")
        return self._damaged(*found)

    def _damaged(self, path: str, what: str) -> CorruptChangelogError:
        folder = self.storage.root.rpartition("/")[0]
        return CorruptChangelogError(
            f"{what}, so the list of files of {self.storage.root} cannot be read. Nothing was changed. Put the file "
            f"back from a copy, or ask 'changelog-engine verify {folder} --repair' what can still be had without it",
            path,
        )

    def damage(self) -> tuple[str, str] | None:
        """The first file of the log that is missing or cannot be read, and what is wrong with it; None for none.

        Raises:
            StorageError: the folder could not be listed.
        """
        named = self.last_checkpoint_version()  # before the list, which then has it
        names = [entry.name for entry in self.storage.list(LOG)]
        checkpoints = [name for name in names if CHECKPOINT_NAME.match(name) and name.endswith(".parquet")]
        for name in checkpoints:
            try:
                pq.ParquetFile(pa.BufferReader(self.storage.read(f"{LOG}/{name}"))).read()
            except PARQUET_ERRORS as error:
                return self.storage.join(f"{LOG}/{name}"), f"cannot be read ({error})"
        commits = {int(match.group(1)) for name in names if (match := COMMIT_NAME.match(name))}
        covered = max((int(name[:20]) for name in checkpoints), default=-1)
        newest = max(commits, default=-1)
        for version in range(covered + 1, newest + 1):
            path = self.storage.join(commit_path(version))
            if version not in commits:
                return path, "is gone"
            commit = self.storage.read(commit_path(version)).to_pybytes()
            try:
                actions_of(commit)
            except ValueError as error:
                return path, str(error)
        if named > covered:
            return (
                self.storage.join(LAST_CHECKPOINT),
                f"names the Delta checkpoint of version {named}, which is not there",
            )
        return None

    def _actions_since(self, version: int) -> list[Action]:
        actions: list[Action] = []
        for number in range(version + 1, self.version + 1):
            path = commit_path(number)
            try:
                commit = self.storage.read(path).to_pybytes()
            except FileNotFoundError as error:
                raise CommitsGoneError(
                    f"commit {number} of {self.storage.root} is gone: the log was cleaned up while this process stood "
                    "still. Run the job again"
                ) from error
            try:
                actions += actions_of(commit)
            except ValueError as error:
                raise self._damaged(self.storage.join(path), str(error)) from error
        return actions

    def _newest_version(self) -> int:
        self._last_checkpoint_mark = self._checkpoint_mark()
        newest = -1
        for entry in _entries(self.storage):
            match = COMMIT_NAME.match(entry.name) or CHECKPOINT_NAME.match(entry.name)
            if entry.is_other:
                self.storage.place(f"{LOG}/{entry.name}")  # delta-rs would follow it
            if match:
                newest = max(newest, int(match.group(1)))
        return newest

    def _checkpoint_mark(self) -> tuple[int, int] | None:
        """Changes whenever ``_last_checkpoint`` is replaced."""
        return self.storage.stamp(LAST_CHECKPOINT)

    def last_checkpoint_version(self) -> int:
        """The version of the newest Delta checkpoint, as the table's hint has it; -1 for none."""
        return last_checkpoint_version(self.storage)


def _entries(storage: Storage) -> list[Entry]:
    """The files of a log, in object stores from the newest Delta checkpoint on: all of them where that is not found.

    A store gives a thousand names a request, and the log of a day's checkpoints may have a hundred thousand.
    """
    version = last_checkpoint_version(storage) if storage.local is None else -1
    if version > 0:
        found = storage.list(LOG, after=f"{version:020d}")
        if any(CHECKPOINT_NAME.match(entry.name) and int(entry.name[:20]) == version for entry in found):
            return found
    return storage.list(LOG)


def overtaken(root: str) -> StorageError:
    """The error of a commit to a table that was tried ``COMMIT_TRIES`` times, while others were faster each time."""
    return StorageError(
        f"could not commit to {root}: others committed {COMMIT_TRIES} times in between; try again", root
    )
