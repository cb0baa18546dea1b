"""A Delta table as a source: one version of it, what is appended after it, or its change data feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from changelog_engine.config.paths import absolute_path
from changelog_engine.connectors.delta.reader import CHANGE_FIELDS, Columns, File, VersionsReader, splits_of
from changelog_engine.connectors.delta.tables import user_tables
from changelog_engine.connectors.delta.types import row_type_of
from changelog_engine.connectors.protocols import DiscoveringSource, Position, Split, SplitReader
from changelog_engine.errors import ConfigurationError, RefusedForGoodError
from changelog_engine.storage.delta_commits import CommitLog, Layout, TableFile, shorter
from changelog_engine.types import RowTypeInfo, Types

if TYPE_CHECKING:
    from changelog_engine.storage.delta_tables import UserTable

_CHANGE_TYPES = (Types.STRING(), Types.LONG(), Types.INSTANT())
_FEED = "delta.enableChangeDataFeed"


@dataclass
class TableVersions:
    """The versions of a table.

    Args:
        whole: the version that is read as a whole, and is the first; None reads what commits did only.
        last: the last version; None for no end.
        changes: whether change data are read.
        given: the program names the versions itself, so that each run of it begins with the same.
        table_id: the table's, where each run of the program found it.
    """

    root: str
    whole: int | None
    last: int | None
    changes: bool
    layout: Layout
    given: bool
    first: int
    table_id: str
    _began: bool = False

    def begun(self, position: Position) -> TableVersions:
        if position.get("table", self.table_id) != self.table_id:
            raise self._another()
        if "whole" in position:
            whole = position["whole"]
            return replace(
                self, whole=whole, last=position["last"], first=self.first if whole is None else whole
            )
        if not self.given:  # of the engine's versions before this was in it
            raise RefusedForGoodError(
                f"the checkpoint does not say which version of the Delta table {self.root} its job began with, and the "
                "newest may be another by now. Tell it: version_as_of(n) with the number of then, and ending_version(n) or "
                "monitor_continuously() as it was"
            )
        return self

    def files(self, version: int) -> Sequence[File] | None:
        if self.ended(version):
            return None
        files: list[TableFile] | None
        if version == self.whole:
            whole = self._table(version).files_at(version, self.layout)
            files = [file._replace(change="insert") for file in whole] if self.changes else whole
        else:
            if not self._began and version <= self.layout.version:  # whatever is in its commit
                self.layout.refuse_other(self.root, self._table(version).at(version).layout())
            log = CommitLog(self.root, self.changes, self.layout)
            files = log.files_of(version, follows=version > self.first)
        self._began = True
        return files

    def _table(self, version: int) -> UserTable:
        """The table, which had that version."""
        table = user_tables()(self.root)
        if table.table_id != self.table_id:
            raise self._another()
        if table.version < version:
            raise RefusedForGoodError(shorter(self.root, table.version, version))
        return table

    def _another(self) -> RefusedForGoodError:
        return RefusedForGoodError(
            f"the Delta table {self.root} is another than the one that was read: it was deleted and made again, and its "
            "versions are counted anew. Put the old one back, or read the new one from its beginning: start the job without "
            "its checkpoints"
        )

    def ended(self, version: int) -> bool:
        return self.last is not None and version > self.last


class DeltaSource(DiscoveringSource):
    """Rows of a Delta table. Each subtask reads files in the order of their versions; a version's files are shared out.

    Args:
        path: of the table, or its URI.
        version: read this version as a whole first; None for the newest, as it is when the job is built.
        follow: go on with what later commits append; never ends.
        changes_from: read what commits from this version on did, rather than a version as a whole.
        until: the last version that is read.
        change_data: rows of the change data feed: the table's, then `_change_type`, `_commit_version` and
            `_commit_timestamp`, and the kind of row that the change is.

    Raises:
        ConfigurationError: no such table or version, or one that cannot be read so.
        NotSupportedError: a column that rows cannot hold.
    """

    def __init__(
        self,
        path: str,
        version: int | None = None,
        follow: bool = False,
        changes_from: int | None = None,
        until: int | None = None,
        change_data: bool = False,
    ) -> None:
        table = user_tables()(path)
        if version is not None and changes_from is not None:
            raise ConfigurationError(
                "a Delta source begins with a version as a whole or with its changes, not both"
            )
        if change_data and table.properties().get(_FEED, "").lower() != "true":
            raise ConfigurationError(
                f"the Delta table {path} has no change data feed. ALTER TABLE ... SET TBLPROPERTIES ({_FEED} = true) "
                "has changes recorded from then on"
            )
        for asked in (version, changes_from, until):
            if (
                asked is not None
                and not 0 <= asked <= table.version
                and not (follow and asked == changes_from)
            ):
                raise ConfigurationError(
                    f"the Delta table {path} has versions up to {table.version}, not {asked}"
                )
        whole = None if changes_from is not None else table.version if version is None else version
        last = until if until is not None else None if follow else whole
        if last is None and not follow:
            last = table.version
        self.bounded = last is not None
        self.parallel = not change_data  # or the changes of a row would overtake each other
        if version is not None and last == version:
            table = table.at(version)  # with the columns of then
        given = whole in (None, version) and (follow or until is not None or version is not None)
        first = changes_from if whole is None else whole
        assert first is not None
        self.versions = TableVersions(
            absolute_path(path), whole, last, change_data, table.layout(), given, first, table.table_id
        )
        schema = table.schema()
        row_type = row_type_of(schema)
        if change_data:
            row_type = with_change_fields(row_type)
        self.output_type = row_type
        self.columns = Columns(row_type, schema, tuple(table.partition_columns()))

    def splits(self, parallelism: int) -> list[Split]:
        versions = self.versions
        begun = {"whole": versions.whole, "last": versions.last, "table": versions.table_id}
        return splits_of(parallelism, versions.first, begun)

    def discover(self, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        """No splits come later."""
        return []

    def reader(self, split: Split) -> SplitReader:
        return VersionsReader(self.versions, self.columns, split.id)


def with_change_fields(row_type: RowTypeInfo) -> RowTypeInfo:
    """The rows of a change data feed.

    Raises:
        ConfigurationError: the table has a column that is called like one of the feed's.
    """
    names = row_type.get_field_names()
    taken = [name for name in CHANGE_FIELDS if name in names]
    if taken:
        raise ConfigurationError(f"the table has a column {taken[0]!r}, which its change data feed has too")
    return Types.ROW_NAMED([*names, *CHANGE_FIELDS], [*row_type.get_field_types(), *_CHANGE_TYPES])
