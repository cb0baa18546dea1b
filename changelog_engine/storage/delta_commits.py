"""The commits of users' Delta tables, one by one and without delta-rs, and the files that they name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from changelog_engine.errors import ConfigurationError, RefusedForGoodError
from changelog_engine.storage.delta_actions import Action, actions_of, info_of
from changelog_engine.storage.delta_names import LOG, NUMBERED, commit_path, last_checkpoint_version
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


class Layout(NamedTuple):
    """The columns of a version of a table. A file that has others would be read as rows of None, without an error."""

    version: int
    fields: frozenset[tuple[str, ...]]  # paths of its columns and of the fields in them
    partitions: frozenset[str]  # the columns whose values are not in the files
    mapping: str  # how columns are called in the files: ``none`` for as in the table

    @staticmethod
    def of(
        version: int, schema: str, partitions: Iterable[str], properties: Mapping[str, str | None]
    ) -> Layout:
        """The layout that a table's metadata tell, with the schema as JSON."""
        mapping = properties.get("delta.columnMapping.mode") or "none"
        return Layout(version, frozenset(_fields_in(json.loads(schema))), frozenset(partitions), mapping)

    def refuse_mapped(self, root: str) -> None:
        """Refuse files whose columns are called otherwise than the table's.

        Raises:
            ConfigurationError: column mapping.
        """
        if self.mapping != "none":
            raise ConfigurationError(
                f"version {self.version} of the Delta table {root} maps columns by {self.mapping}, which this engine does "
                "not; let Spark read it: env.from_spark(spark.read.format('delta').load(...))"
            )

    def refuse_other(self, root: str, found: Layout) -> None:
        """Refuse a version whose rows do not fit into the columns of this one, which a source was built for.

        Raises:
            ConnectorError: it has other columns, or is of a newer version and lacks some.
            ConfigurationError: column mapping.
        """
        found.refuse_mapped(root)
        newer = found.version > self.version
        more, fewer = found.fields - self.fields, self.fields - found.fields if newer else ()
        if more or fewer:
            what = f"has {_shown(more)}" if more else f"lacks {_shown(fewer)}"
            advice = (
                "run the program again, which goes on with the table's new columns"
                if newer
                else f"rows of then are read with version_as_of({found.version}), by a job of their own"
            )
            raise RefusedForGoodError(
                f"version {found.version} of the Delta table {root} {what}, other than version {self.version}, whose "
                f"columns this source reads: {advice}"
            )
        if found.partitions != self.partitions:
            raise RefusedForGoodError(
                f"version {found.version} of the Delta table {root} is partitioned by {sorted(found.partitions)}, and "
                f"version {self.version}, which this source was built for, by {sorted(self.partitions)}"
            )


def _fields_in(kind: Any) -> Iterator[tuple[str, ...]]:
    """Paths of the fields in a type."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield (field["name"],)
        yield from [(field["name"], *path) for path in _fields_in(field["type"])]
    for part in ("elementType", "keyType", "valueType"):
        yield from [(part, *path) for path in _fields_in(kind.get(part))]


def _shown(paths: Iterable[tuple[str, ...]]) -> str:
    names = sorted(".".join(path) for path in paths)
    return f"the column{'s' if len(names) > 1 else ''} {', '.join(names)}"


class NewFile(NamedTuple):
    """A data file to append; it is durable already."""

    path: str  # relative to the table
    size: int  # bytes
    time_ms: int
    rows: int
    partition: Mapping[str, str | None]  # partition column to its text
    crc: int | None = None  # CRC-32 of its bytes; None where it was not taken


class CommitLog:
    """A table's commits one by one, without its history."""

    def __init__(self, root: str, changes: bool, layout: Layout) -> None:
        self._storage = open_storage(root)
        self._changes = changes
        self._layout = layout

    def files_of(self, version: int, follows: bool) -> list[TableFile] | None:
        """The files that a commit added, or the changes that it made; None when it is not there yet.

        Args:
            follows: the one before was there.

        Raises:
            ConnectorError: the commit is gone or damaged, took rows away that a stream cannot take back, or gave the table
                other columns. Or the one before is not there any more.
            ConfigurationError: it began to map columns.
        """
        try:
            commit = self._storage.read(commit_path(version)).to_pybytes()
        except FileNotFoundError:
            self._refuse_gone(version, follows)
            return None
        try:
            actions = actions_of(commit)
        except ValueError as error:
            raise RefusedForGoodError(
                f"commit {version} of the Delta table {self._storage.root} is damaged: "
                f"{self._storage.join(commit_path(version))} {error}. Put the file back from a copy"
            ) from error
        for metadata in [action["metaData"] for action in actions if "metaData" in action]:
            partitions, properties = metadata.get("partitionColumns", ()), metadata.get("configuration") or {}
            found = Layout.of(version, metadata["schemaString"], partitions, properties)
            self._layout.refuse_other(self._storage.root, found)
        time_ms = info_of(actions).get("timestamp", 0)
        return (
            self._changes_of(version, actions, time_ms) if self._changes else self._adds_of(version, actions)
        )

    def _refuse_gone(self, version: int, follows: bool) -> None:
        """Refuse to wait for a commit that will never be there, or will be another than the one that follows."""
        newest = last_checkpoint_version(self._storage)
        if newest >= version:
            raise RefusedForGoodError(
                f"commit {version} of the Delta table {self._storage.root} is gone: its log was cleaned up "
                "(delta.logRetentionDuration) before it was read"
            )
        behind, missing = commit_path(version + 1), commit_path(version)
        if self._storage.exists(behind) and not self._storage.exists(missing):
            raise RefusedForGoodError(
                f"commit {version} of the Delta table {self._storage.root} is missing: {self._storage.join(missing)} is not "
                f"there, and {self._storage.join(behind)} is. Put the file back from a copy"
            )
        if not follows or newest == version - 1 or self._storage.exists(commit_path(version - 1)):
            return
        names = (NUMBERED.match(entry.name) for entry in self._storage.list(LOG))
        newest = max((int(match[1]) for match in names if match is not None), default=-1)
        if newest < version - 1:
            raise RefusedForGoodError(shorter(self._storage.root, newest, version - 1))

    def _adds_of(self, version: int, actions: list[Action]) -> list[TableFile]:
        if any("remove" in action and action["remove"].get("dataChange", True) for action in actions):
            raise RefusedForGoodError(
                f"commit {version} of the Delta table {self._storage.root} updates, deletes or overwrites rows, and a "
                "stream of its rows cannot take them back; read its change data feed instead"
            )
        adds = [a["add"] for a in actions if "add" in a and a["add"].get("dataChange", True)]
        return [self._file(add, version) for add in adds]

    def _changes_of(self, version: int, actions: list[Action], time_ms: int) -> list[TableFile]:
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
            raise RefusedForGoodError(deletion_vectors(self._storage.root, version))
        return TableFile(unquote(action["path"]), action.get("partitionValues") or {})


def shorter(root: str, newest: int, read: int) -> str:
    """What to say of a table that does not have what was read of it any more."""
    return (
        f"the Delta table {root} has versions up to {newest}, and was read up to {read}: it was put back from an older "
        "copy, or deleted and made again. Rows that it gets now would be left out. Put the newer copy back, or read it from "
        "its beginning: start the job without its checkpoints"
    )


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
