"""A Delta table's log: the one place that touches deltalake.

Invariants:
    * A commit is a compare-and-swap on the table's version: of two commits made from one version, one fails.
    * On a local disk a commit is durable when ``commit`` returns: its file and its folder are fsynced.
    * The log is kept short: behind a Delta checkpoint, old commits are removed. History is rows, not versions.
    * The protocol stays plain (reader 1, writer 2), so every Delta reader opens the table.

Why commits to local disks are written here: a commit is one small JSON file, but delta-rs replays the log and rebuilds its
list of files at each commit and each refresh (delta-rs issue 4276), so it takes 130 ms after 1,000 commits of three files,
and it does not fsync. Other file systems go through delta-rs, whose object store offers the put-if-absent they need.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from changelog_engine.errors import StorageError
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.storage.filesystem import Storage

_LOG = "_delta_log"
_LAST_CHECKPOINT = f"{_LOG}/_last_checkpoint"
_COMMIT_NAME = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT_NAME = re.compile(r"^(\d{20})\.checkpoint\.")
_LOG_FILE = re.compile(r"^(\d{20})\.(json$|checkpoint\.)")
KEPT_S = 600.0  # commits of so long stay, for writers and readers that are behind
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_ENGINE_INFO = "changelog-engine"
_REOPEN_COMMITS = 50


class CommitConflictError(StorageError):
    """Somebody else committed to the table first; refresh, look at what they did, and decide."""


@dataclass(frozen=True)
class AddFile:
    """A data file to add.

    Args:
        path: relative to the table.
        size: bytes.
        modification_time: epoch milliseconds.
        stats: Delta's statistics: numRecords, minValues, maxValues, nullCount.
    """

    path: str
    size: int
    modification_time: int
    stats: dict[str, Any] = field(default_factory=dict)


class DeltaLog:
    """One Delta table, at one version.

    Threads: one at a time.

    Args:
        storage: the table's folder.
        through_delta_rs: commit through delta-rs even on a local disk.
    """

    def __init__(self, storage: Storage, through_delta_rs: bool = False) -> None:
        self.storage = storage
        self._commits_here = storage.local is not None and not through_delta_rs
        self._table: DeltaTable | None = None
        self._table_commits = 0
        self._last_checkpoint_mark: tuple[int, int] | None = None
        self._checkpointed = 0
        self.version = -1
        self.version = self._newest_version()
        if self.version < 0:
            raise StorageError(f"{storage.root} is not a Delta table: it has no {_LOG} with a commit")

    @staticmethod
    def exists(storage: Storage) -> bool:
        """Whether the folder is a Delta table."""
        return any(_COMMIT_NAME.match(e.name) or _CHECKPOINT_NAME.match(e.name) for e in storage.list(_LOG))

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
        storage.make_dirs(_LOG)
        if cls.exists(storage):
            raise CommitConflictError(f"{storage.root} is a Delta table already")
        try:
            DeltaTable.create(
                storage.root,
                schema=Schema.from_arrow(schema),
                storage_options=_options(storage),
                mode="error",
                configuration=properties,
                raise_if_key_not_exists=False,
                post_commithook_properties=_NO_HOOKS,
            )
        except (DeltaError, OSError) as error:
            if cls.exists(storage):
                raise CommitConflictError(f"{storage.root} was made by somebody else just now") from error
            raise StorageError(f"could not make the Delta table {storage.root}: {error}") from error
        if storage.local is not None:  # delta-rs leaves it to the kernel when its file reaches the disk
            try:
                _sync_file(storage.join(f"{_LOG}/{0:020d}.json"))
                storage.sync_folder(_LOG)
            except OSError as error:
                raise StorageError(
                    f"could not make the Delta table {storage.root} durable: {error}"
                ) from error
        return cls(storage)

    def properties(self) -> dict[str, str]:
        """The table's properties."""
        configuration = self._open().metadata().configuration
        return dict(configuration)

    def refresh(self) -> int:
        """Move to the newest version and return it. Costs a look at one name or two, however long the log is."""
        mark = self._checkpoint_mark()
        if mark != self._last_checkpoint_mark:
            # A checkpoint was written since; behind it commits may have been cleaned up, so don't walk them one by one.
            self._last_checkpoint_mark = mark
            if self._last_checkpoint_version() > self.version:
                self.version = self._newest_version()
        while self.storage.size(_commit_path(self.version + 1)) is not None:
            self.version += 1
        return self.version

    def commit(
        self, adds: Sequence[AddFile], removes: Sequence[str] = (), metadata: dict[str, Any] | None = None
    ) -> int:
        """Add and remove files in one atomic step on top of the current version.

        Args:
            adds: files to add; they are durable already.
            removes: paths to remove from the table (the files stay).
            metadata: kept in the commit as ``userMetadata``, JSON.

        Returns:
            The new version.

        Raises:
            CommitConflictError: the table has moved on; nothing was committed.
            StorageError: anything else. The commit may or may not be there: look.
        """
        if self._commits_here:
            document = _commit_document(adds, removes, metadata)
            if not self.storage.put_if_absent(_commit_path(self.version + 1), document):
                raise CommitConflictError(
                    f"version {self.version + 1} of {self.storage.root} was committed by another"
                )
            self._refuse_forgotten()
        else:
            self._commit_through_delta_rs(adds, removes, metadata)
        self.version += 1
        return self.version

    def added_since(self, version: int) -> list[str]:
        """Paths of the files that commits after a version added, up to the current version."""
        return [action["add"]["path"] for action in self._actions_since(version) if "add" in action]

    def removed_since(self, version: int) -> list[str]:
        """Paths of the files that commits after a version removed, up to the current version."""
        return [action["remove"]["path"] for action in self._actions_since(version) if "remove" in action]

    def files(self) -> pa.Table:
        """The files of the newest version.

        Returns:
            One row a file: ``path``, ``size_bytes``, ``modification_time``, ``num_records``, and ``min.``, ``max.`` and
            ``null_count.`` of the columns that have statistics.
        """
        self._table = None
        table = self._open()
        self.version = max(self.version, table.version())
        return pa.table(table.get_add_actions(flatten=True))

    def maintain(self, every: int = 100) -> bool:
        """Write a Delta checkpoint of the log when enough commits came since the last, and remove what came before.

        It reads the whole list of files: run it after the acknowledgement, never before. On a local disk the log then has
        the commits since the Delta checkpoint before, and those of the last ten minutes, for writers and readers that are
        behind: at most 2 * every files and as many as were made in that time. Elsewhere the table's
        ``delta.logRetentionDuration`` decides.

        Returns:
            Whether it did.
        """
        if self.version - self._checkpointed >= every:
            self._checkpointed = max(self._checkpointed, self._last_checkpoint_version())
        if self.version - self._checkpointed < every:
            return False
        self._table = None
        try:
            table = self._open()
            table.create_checkpoint()
            if self.storage.local is None:
                table.cleanup_metadata()
        except (DeltaError, OSError) as error:
            raise StorageError(
                f"could not write a checkpoint of the Delta log of {self.storage.root}: {error}"
            ) from error
        finally:
            self._table = None
        self._checkpointed = table.version()
        if self.storage.local is not None:
            self._forget_commits()
        return True

    def _forget_commits(self) -> None:
        """Delete commits and Delta checkpoints that nobody needs: before the newest Delta checkpoint but one, and old."""
        names = [entry.name for entry in self.storage.list(_LOG)]
        numbered = {name: int(match.group(1)) for name in names if (match := _LOG_FILE.match(name))}
        checkpoints = sorted({number for name, number in numbered.items() if _CHECKPOINT_NAME.match(name)})
        if len(checkpoints) < 2 or checkpoints[-1] > self._last_checkpoint_version():
            return
        now = time.time()
        for name in sorted(numbered):
            if numbered[name] < checkpoints[-2]:
                path = f"{_LOG}/{name}"
                with contextlib.suppress(FileNotFoundError):  # another process does the same
                    if now - os.stat(self.storage.join(path)).st_mtime >= KEPT_S:
                        self.storage.delete(path)

    def _refuse_forgotten(self) -> None:
        """Take a commit back whose name was free only because the log was cut behind it: this process stood still.

        Commits are forgotten in their order, so the one that this one follows is gone then, too.
        """
        cut = self._checkpoint_mark() != self._last_checkpoint_mark
        if cut and self.storage.size(_commit_path(self.version)) is None:
            self.storage.delete(_commit_path(self.version + 1))
            raise CommitConflictError(
                f"version {self.version + 1} of {self.storage.root} was committed by another long ago"
            )

    def _commit_through_delta_rs(
        self, adds: Sequence[AddFile], removes: Sequence[str], metadata: dict[str, Any] | None
    ) -> None:
        table = self._open()
        if table.version() != self.version or self._table_commits >= _REOPEN_COMMITS:
            self._table = None
            table = self._open()
        if table.version() != self.version:
            raise CommitConflictError(
                f"{self.storage.root} is at version {table.version()}, not {self.version}"
            )
        now_ms = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(a.path, a.size, {}, a.modification_time, True, json.dumps(a.stats)) for a in adds
        ]
        actions += [RemoveAction(path, True, now_ms) for path in removes]
        properties = CommitProperties(
            custom_metadata={"userMetadata": json.dumps(metadata or {})}, max_commit_retries=0
        )
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                commit_properties=properties,
                post_commithook_properties=_NO_HOOKS,
            )
        except CommitFailedError as error:
            self._table = None
            raise CommitConflictError(f"{self.storage.root} was committed to by another: {error}") from error
        except (DeltaError, OSError) as error:
            self._table = None
            raise StorageError(f"could not commit to {self.storage.root}: {error}") from error
        self._table_commits += 1

    def _open(self) -> DeltaTable:
        if self._table is None:
            try:
                self._table = DeltaTable(self.storage.root, storage_options=_options(self.storage))
            except TableNotFoundError as error:
                raise StorageError(f"{self.storage.root} is not a Delta table") from error
            except (DeltaError, OSError) as error:
                raise StorageError(f"could not read the Delta log of {self.storage.root}: {error}") from error
            self._table_commits = 0
        return self._table

    def _actions_since(self, version: int) -> list[dict[str, Any]]:
        actions: list[dict[str, Any]] = []
        for number in range(version + 1, self.version + 1):
            try:
                text = self.storage.read(_commit_path(number)).to_pybytes()
            except FileNotFoundError as error:
                raise StorageError(
                    f"commit {number} of {self.storage.root} is gone: the log was cleaned up while this process stood "
                    "still. Run the job again"
                ) from error
            actions.extend(json.loads(line) for line in text.splitlines() if line.strip())
        return actions

    def _newest_version(self) -> int:
        self._last_checkpoint_mark = self._checkpoint_mark()
        newest = -1
        for entry in self.storage.list(_LOG):
            match = _COMMIT_NAME.match(entry.name) or _CHECKPOINT_NAME.match(entry.name)
            if match:
                newest = max(newest, int(match.group(1)))
        return newest

    def _checkpoint_mark(self) -> tuple[int, int] | None:
        """Changes whenever ``_last_checkpoint`` is replaced."""
        if self.storage.local is None:
            return (self._last_checkpoint_version(), 0)
        try:
            status = os.stat(self.storage.join(_LAST_CHECKPOINT))
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino

    def _last_checkpoint_version(self) -> int:
        try:
            return int(json.loads(self.storage.read(_LAST_CHECKPOINT).to_pybytes())["version"])
        except (FileNotFoundError, ValueError, KeyError):
            return -1


def _options(storage: Storage) -> dict[str, str]:
    return {} if storage.local is not None else FileSystems().delta_options(storage.root)


def _commit_path(version: int) -> str:
    return f"{_LOG}/{version:020d}.json"


def _commit_document(
    adds: Sequence[AddFile], removes: Sequence[str], metadata: dict[str, Any] | None
) -> bytes:
    now_ms = int(time.time() * 1000)
    actions: list[dict[str, Any]] = [
        {
            "commitInfo": {
                "timestamp": now_ms,
                "operation": "WRITE",
                "operationParameters": {"mode": "Append"},
                "isBlindAppend": not removes,
                "engineInfo": _ENGINE_INFO,
                "txnId": str(uuid.uuid4()),  # no two commits are the same bytes: a writer knows its own
                "userMetadata": json.dumps(metadata or {}),
            }
        }
    ]
    for add in adds:
        actions.append(
            {
                "add": {
                    "path": add.path,
                    "partitionValues": {},
                    "size": add.size,
                    "modificationTime": add.modification_time,
                    "dataChange": True,
                    "stats": json.dumps(add.stats, separators=(",", ":")),
                }
            }
        )
    for path in removes:
        actions.append({"remove": {"path": path, "deletionTimestamp": now_ms, "dataChange": True}})
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
