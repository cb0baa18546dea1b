"""The commits of users' Delta tables, one by one and without delta-rs, and the files that they name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from changelog_engine.errors import ConnectorError
from changelog_engine.storage.delta_names import commit_path, last_checkpoint_version
from changelog_engine.storage.opening import open_storage


class TableFile(NamedTuple):
    """A data file of a table.

    Args:
        path: relative to the table, or a URI.
        partition: partition column to its text.
        change: for change data: ``insert`` or ``delete`` for all its rows, ``cdc`` when they say it themselves.
        time_ms: for change data: when the commit was made.
    """

    path: str
    partition: Mapping[str, str | None]
    change: str | None = None
    time_ms: int = 0


class NewFile(NamedTuple):
    """A data file to append; it is durable already.

    Args:
        path: relative to the table.
        size: bytes.
        time_ms: when it was made.
        rows: how many.
        partition: partition column to its text.
    """

    path: str
    size: int
    time_ms: int
    rows: int
    partition: Mapping[str, str | None]


class CommitLog:
    """A table's commits one by one, without its history.

    Args:
        root: the table's path or URI.
        changes: whether change data are wanted.
    """

    def __init__(self, root: str, changes: bool) -> None:
        self._storage = open_storage(root)
        self._changes = changes

    def files_of(self, version: int) -> list[TableFile] | None:
        """The files that a commit added, or the changes that it made; None when it is not there yet.

        Raises:
            ConnectorError: the commit is gone, or took rows away that a stream cannot take back.
        """
        try:
            text = self._storage.read(commit_path(version)).to_pybytes()
        except FileNotFoundError:
            if last_checkpoint_version(self._storage) >= version:
                raise ConnectorError(
                    f"commit {version} of the Delta table {self._storage.root} is gone: its log was cleaned up "
                    "(delta.logRetentionDuration) before it was read"
                ) from None
            return None
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
        time_ms = next((a["commitInfo"].get("timestamp", 0) for a in actions if "commitInfo" in a), 0)
        return (
            self._changes_of(version, actions, time_ms) if self._changes else self._adds_of(version, actions)
        )

    def _adds_of(self, version: int, actions: list[dict[str, Any]]) -> list[TableFile]:
        if any("remove" in action and action["remove"].get("dataChange", True) for action in actions):
            raise ConnectorError(
                f"commit {version} of the Delta table {self._storage.root} updates, deletes or overwrites rows, and a "
                "stream of its rows cannot take them back; read its change data feed instead"
            )
        adds = [a["add"] for a in actions if "add" in a and a["add"].get("dataChange", True)]
        return [self._file(add, version) for add in adds]

    def _changes_of(self, version: int, actions: list[dict[str, Any]], time_ms: int) -> list[TableFile]:
        told = [action["cdc"] for action in actions if "cdc" in action]
        if told:
            return [self._file(one, version)._replace(change="cdc", time_ms=time_ms) for one in told]
        found = []
        for name, change in (("remove", "delete"), ("add", "insert")):
            for action in actions:
                if name in action and action[name].get("dataChange", True):
                    file = self._file(action[name], version)
                    found.append(file._replace(change=change, time_ms=time_ms))
        return found

    def _file(self, action: dict[str, Any], version: int) -> TableFile:
        if action.get("deletionVector"):
            raise ConnectorError(deletion_vectors(self._storage.root, version))
        return TableFile(unquote(action["path"]), action.get("partitionValues") or {})


def text_of(value: Any) -> str:
    """A partition value as Delta's log has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def deletion_vectors(root: str, version: int) -> str:
    """What to say of a version with rows that are marked as deleted."""
    return (
        f"version {version} of the Delta table {root} has rows that are marked as deleted (deletion vectors), which this "
        "engine does not read; run REORG TABLE ... APPLY (PURGE), or let Spark read it: "
        "env.from_spark(spark.read.format('delta').load(...))"
    )
