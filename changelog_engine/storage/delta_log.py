"""The log of one of the engine's own Delta tables: its commits, and what may follow them.

Invariants:
    * A commit is a compare-and-swap on the table's version: of two commits made from one version, one fails.
    * A commit is durable when ``commit`` returns, and so is all else that is written here on a local disk.
    * A commit is made only on top of the one that this object wrote or saw last, as it was: in a folder that was replaced by
      an older copy, or that lost its newest commit, nothing is committed that no reader could find.
    * The log is kept short (``delta_checkpoints``): history is rows, not versions.
    * The protocol stays plain (reader 1, writer 2), so every Delta reader opens the table.

Why commits are written here: a commit is one small JSON file, but delta-rs replays the log and rebuilds its list of files at
each commit and each refresh (delta-rs issue 4276), so it takes 130 ms after 1,000 commits of three files, and it does not
fsync. It makes tables and Delta checkpoints in a folder for temporary files, from where they go through the storage.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from changelog_engine.errors import LostCommitError, StorageError
from changelog_engine.storage.delta_actions import (
    Action,
    AddFile,
    actions_of,
    commit_document,
    is_of_this_engine,
)
from changelog_engine.storage.delta_checkpoints import shorten
from changelog_engine.storage.delta_content import (
    content_of,
    entries,
    metadata_of,
    plain_names,
)
from changelog_engine.storage.delta_damage import damaged
from changelog_engine.storage.delta_names import (
    CHECKPOINT_NAME,
    COMMIT_NAME,
    LAST_CHECKPOINT,
    LOG,
    commit_path,
    last_checkpoint_version,
)
from changelog_engine.storage.new_table import FIRST_COMMIT, first_commit
from changelog_engine.storage.protocol import Storage

_ANOTHER = "is not the commit that this process wrote or saw"
COMMIT_TRIES = 20  # of one who looks again each time that another process was faster


class CommitConflictError(StorageError):
    """Somebody else committed to the table first; refresh, look at what they did, and decide."""


class CommitsGoneError(StorageError):
    """What others committed since is not there any more: the log was cleaned up while this process stood still."""


class DeltaLog:
    """One Delta table, at one version.

    Threads: one at a time.

    Attributes:
        doubtful: files that commits were to add of which it is not known whether they came to be.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._last_checkpoint_mark: tuple[int, int] | None = self._checkpoint_mark()
        self._checkpointed = 0
        # A version, and what its commit holds: written or seen here.
        self._tip: tuple[int, bytes] | None = None
        self.doubtful: set[str] = set()
        self.version = -1
        self.version = self._newest_version()
        if self.version < 0:
            raise StorageError(f"{storage.root} is not a Delta table: it has no {LOG} with a commit")

    @staticmethod
    def exists(storage: Storage) -> bool:
        """Whether the folder is a Delta table."""
        return any(COMMIT_NAME.match(e.name) or CHECKPOINT_NAME.match(e.name) for e in entries(storage))

    @classmethod
    def create(cls, storage: Storage, schema: pa.Schema, properties: dict[str, str]) -> DeltaLog:
        """Make an empty table.

        Args:
            properties: table properties; any reader can see them.

        Raises:
            CommitConflictError: somebody made it first.
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
        return dict(metadata_of(self.storage).configuration)

    def table_id(self) -> str:
        """The id that the table got when it was made; copies of it have the same."""
        return str(metadata_of(self.storage).id)

    def refresh(self) -> int:
        """Move to the newest version and return it. Costs a look at one name or two, however long the log is.

        Raises:
            LostCommitError: the commits of others follow another one than this object knows.
        """
        mark = self._checkpoint_mark()
        newest = self.version
        # A checkpoint was written since; behind it commits may have been cleaned up, so don't walk them one by one.
        if mark != self._last_checkpoint_mark and self.last_checkpoint_version() > newest:
            newest = self._newest_version()
        while self.storage.size(commit_path(newest + 1)) is not None:
            newest += 1
        if newest != self.version:
            self._leave_tip()
            self.version = newest
        self._last_checkpoint_mark = mark  # last: a refresh that failed has changed nothing
        return self.version

    def go_back(self, version: int) -> None:
        """Know nothing of what came after a version: the next ``refresh`` comes to it again."""
        self.version, self._last_checkpoint_mark = version, None

    def _leave_tip(self) -> None:
        """Others committed more: what they followed must be the commit that was written or seen here.

        Raises:
            LostCommitError: it is another one: an older copy took the place of the folder, and somebody went on with it.
        """
        path = commit_path(self.version)
        try:
            if self._tip is not None and self._differs(self.storage.read(path).to_pybytes()):
                raise self._lost(path, _ANOTHER)
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
            CorruptChangelogError, ForeignPathError: others changed rows, or what the table is; nothing was committed.
            StorageError: anything else. The commit may or may not be there: look.
        """
        self.check_predecessor()
        tip = self._tip
        if tip is None or tip[0] != self.version or not is_of_this_engine(tip[1]):
            content_of(self.storage)  # which refuses what others should not have done
        document = commit_document(adds, removes, metadata)
        self.doubtful.update([add.path for add in adds])
        if not self.storage.put_if_absent(commit_path(self.version + 1), document):
            raise CommitConflictError(
                f"version {self.version + 1} of {self.storage.root} was committed by another"
            )
        self._refuse_forgotten()
        self.version += 1
        self._tip = self.version, document
        self.doubtful.clear()  # the names that earlier tries may still take are taken
        return self.version

    def make_durable(self) -> None:
        """After a ``commit`` whose error may have been that only this failed, and which is in the log."""
        self.storage.sync(LOG)

    def added_since(self, version: int) -> list[str]:
        """Paths of the files that commits after a version added, up to the current version.

        Raises:
            CorruptChangelogError: one of these commits is damaged; names it.
            CommitsGoneError: one of these commits was cleaned up.
        """
        return self._paths_since(version, "add")

    def removed_since(self, version: int) -> list[str]:
        """As `added_since`, of the files that they removed."""
        return self._paths_since(version, "remove")

    def _paths_since(self, version: int, kind: str) -> list[str]:
        paths = (action[kind]["path"] for action in self._actions_since(version) if kind in action)
        return plain_names(self.storage, paths)

    def files(self) -> pa.Table:
        """The files of the newest version.

        Returns:
            One row a file: ``path``, ``size_bytes``, ``modification_time``, ``num_records``, and ``min.``, ``max.`` and
            ``null_count.`` of the columns that have statistics.

        Raises:
            ForeignPathError: somebody else changed what the table is, or added what is not a file in its folder.
            CorruptChangelogError: a file of the log is missing or cannot be read; names it.
        """
        content = content_of(self.storage)
        if content.version > self.version:
            self.version, self._tip = content.version, None
        return content.files

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
        made = shorten(self.storage, every)
        if made is None:
            return False
        self._checkpointed = made
        return True

    def check_predecessor(self) -> None:
        """Look whether the commit that the next one follows is there, and what this object wrote or saw.

        Raises:
            CommitConflictError: it was cleaned up long after others had committed more.
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
            raise self._lost(path, _ANOTHER)
        if not found.strip():
            raise self._lost(path, "is empty")
        self._tip = self.version, found

    def _late(self) -> CommitConflictError:
        return CommitConflictError(
            f"version {self.version + 1} of {self.storage.root} was committed by another process long ago"
        )

    def _lost(self, path: str, what: str) -> LostCommitError:
        full = self.storage.join(path)
        folder = shlex.quote(self.storage.root.rpartition("/")[0])
        return LostCommitError(
            f"{what}, and the next commit follows it: somebody removed or changed it, or put an older copy in the "
            "place of the folder. Nothing was committed over it, so no sink publishes what came after. Stop whatever "
            f"changes the folder; then put the file back from a copy, or ask `changelog-engine verify {folder} --repair` "
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
                raise damaged(self.storage, self.storage.join(path), str(error)) from error
        return actions

    def _newest_version(self) -> int:
        newest = -1
        for entry in entries(self.storage):
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


def overtaken(root: str) -> StorageError:
    """The error of a commit to a table that was tried ``COMMIT_TRIES`` times, while others were faster each time."""
    return StorageError(
        f"could not commit to {root}: others committed {COMMIT_TRIES} times in between; try again", root
    )
