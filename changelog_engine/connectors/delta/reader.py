"""Reading what grows version by version, each a list of Parquet files: Delta tables, and what Spark staged.

A position is ``{"version": v, "file": f, "row": r}``: rows before r of file f of version v were read. What else is in it
says what the stream began with, and stays. A split is every n-th file of each version, so that positions stay small however
long the stream is.

Invariants:
    * A version's list of files does not change once it is there, nor do the files: reading again gives the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from changelog_engine.connectors.delta.types import partition_values, read_schema
from changelog_engine.connectors.files.columnar import ParquetRecords
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.protocols import Position, Range, Split, SplitReader
from changelog_engine.errors import RefusedForGoodError
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.types import Instant, RowTypeInfo
from changelog_engine.types.row import Row, RowKind, make_row, values_of

CHANGE_FIELDS = ("_change_type", "_commit_version", "_commit_timestamp")
_KINDS = {
    "insert": RowKind.INSERT,
    "delete": RowKind.DELETE,
    "update_preimage": RowKind.UPDATE_BEFORE,
    "update_postimage": RowKind.UPDATE_AFTER,
}


class File(Protocol):
    """A file of a version; see ``storage.delta_tables.TableFile``."""

    @property
    def path(self) -> str:
        """Relative to the root, or a URI."""

    @property
    def partition(self) -> Mapping[str, str | None]:
        """Partition column to its text."""

    @property
    def change(self) -> str | None:
        """``insert``, ``delete``, ``cdc`` or None."""

    @property
    def time_ms(self) -> int:
        """When the commit was made; 0 for unknown."""


class Versions(Protocol):
    """What grows; pickled with the source."""

    root: str

    def begun(self, position: Position) -> Versions:
        """As the stream began that a position is of.

        A program that runs again may find a newer table, of which it builds another source.

        Raises:
            ConnectorError: the position does not say it, and the source may be another.
        """

    def files(self, version: int) -> Sequence[File] | None:
        """The files of a version, always in the same order; None when it is not there yet."""

    def ended(self, version: int) -> bool:
        """Whether there is no such version and never will be."""


class Columns(NamedTuple):
    """What is read of each file.

    Args:
        row_type: of the rows that are given; with change data, those of the table and `CHANGE_FIELDS`.
        partitions: columns whose values are not in the files.
    """

    row_type: RowTypeInfo
    schema: pa.Schema
    partitions: tuple[str, ...]


def splits_of(parallelism: int, version: int, begun: Mapping[str, Any] | None = None) -> list[Split]:
    """Splits that share the files of each version.

    Args:
        begun: what positions keep of how the stream began.
    """
    start = {"version": version, "file": 0, "row": 0, **(begun or {})}
    return [Split(f"{part} of {parallelism}", dict(start)) for part in range(parallelism)]


class VersionsReader(SplitReader):
    """Reads one split."""

    def __init__(self, versions: Versions, columns: Columns, split: str) -> None:
        part, _, parts = split.partition(" of ")
        self._part, self._parts = int(part), int(parts)
        self._versions = versions
        self._begun: Versions | None = None
        self._columns = columns
        self._root = FileSystems().open(versions.root)
        self._listed: tuple[int, Sequence[File]] | None = None
        self._reader: SplitReader | None = None
        self._open_at: tuple[int, int] | None = None

    def read(self, position: Position, max_records: int) -> Range:
        version, index, row = position["version"], position["file"], position["row"]
        if self._begun is None:
            self._begun = self._versions.begun(position)
        versions = self._begun
        while True:
            files = self._files(versions, version)
            if files is None:
                ended = versions.ended(version)
                return Range([], {**position, "version": version, "file": index, "row": row}, ended)
            if index >= len(files):
                version, index, row = version + 1, 0, 0
                continue
            found = self._at(version, index, files[index]).read(row, max_records)
            values = self._completed(found.values, files[index], version)
            row = found.next
            if found.finished:
                index, row = index + 1, 0
                if index >= len(files) and versions.ended(version + 1):
                    end = {**position, "version": version + 1, "file": 0, "row": 0}
                    return Range(values, end, True)
            if values:
                return Range(values, {**position, "version": version, "file": index, "row": row}, False)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._open_at = None

    def _files(self, versions: Versions, version: int) -> Sequence[File] | None:
        if self._listed is None or self._listed[0] != version:
            files = versions.files(version)
            if files is None:
                return None
            self._listed = version, files[self._part :: self._parts]
        return self._listed[1]

    def _at(self, version: int, index: int, file: File) -> SplitReader:
        if self._reader is None or self._open_at != (version, index):
            self.close()
            schema = read_schema(self._columns.schema)
            if file.change == "cdc":
                schema = schema.append(pa.field(CHANGE_FIELDS[0], pa.string()))
            records = ParquetRecords(self._columns.row_type, schema=schema)
            place, name = self._root, f"{self._root.shown}/{file.path}"
            if "://" in file.path or file.path.startswith("/"):
                place, name = FileSystems().open(file.path), file.path
            self._reader = records.reader(InputFile(place, name, None, None))
            self._open_at = version, index
        return self._reader

    def _completed(self, rows: Sequence[Any], file: File, version: int) -> Sequence[Any]:
        """Rows with what is not in the file: values of partitions, and what the change was."""
        columns = self._columns
        if columns.partitions:
            own = partition_values(file.partition, columns.partitions, columns.row_type)
            for row in rows:
                for position, value in own:
                    row._values[position] = value
        if file.change is None:
            return rows
        names = columns.row_type.get_field_names()
        count = len(columns.schema)
        when = Instant.of_epoch_milli(file.time_ms) if file.time_ms else None
        changed: list[Row] = []
        for row in rows:
            values = values_of(row)
            change = values[count] if file.change == "cdc" else file.change
            if change not in _KINDS:
                raise RefusedForGoodError(f"{file.path} has a change that is called {change!r}")
            changed.append(make_row(names, [*values[:count], change, version, when], _KINDS[change]))
        return changed
