"""The rows about the log itself, checkpoints and attempts, in files of their own or merged by the materializer.

Invariants:
    * Names answer what they can; a file is opened only for what they don't say. Times are those that the rows have: the
      list's, which no checksum covers, are not looked at.
    * Of each kind the newest row has a file of its own, so whoever starts from it opens no merged file.
    * What is read was verified against the checksum in the file's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changelog_engine.changelog.file_memo import FileMemo
from changelog_engine.changelog.log_files import (
    crc32,
    is_log,
    merged_rows_name,
    parse_merged_rows,
    parse_row,
    read_unchanged,
)
from changelog_engine.changelog.one_row_files import read_row, row_bytes
from changelog_engine.changelog.rows import ATTEMPT, CHECKPOINT, SCHEMA, RowOfLog
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.storage.damaged import reading
from changelog_engine.storage.protocol import Storage

_ID = {CHECKPOINT: "checkpoint_id", ATTEMPT: "attempt"}
_NO_TIME = -(2**63)
Numbers = npt.NDArray[np.int64]


class ListedRow(NamedTuple):
    """A checkpoint or attempt as the list of files shows it."""

    id: int
    attempt: int
    # Of its own file or of the merged one; None when somebody else's compaction moved the row.
    path: str | None
    document: str | None  # the row's JSON when it had to be read already
    size: int | None = None  # bytes of its own file


class Index(NamedTuple):
    """Ids, attempts and times (epoch milliseconds) of rows, in the order of ids."""

    ids: Numbers
    attempts: Numbers
    times: Numbers


_INDEXES: FileMemo[Index] = FileMemo(256)  # of merged files
_TIMES: FileMemo[int] = FileMemo(65_536)  # of rows' own files


class MergedFile(NamedTuple):
    """A file of merged rows as the table lists it.

    Args:
        path: relative to the table.
        size: bytes.
        first, last: bounds of its ids, both there.
    """

    path: str
    size: int
    first: int
    last: int


class Rows(Mapping[int, ListedRow]):
    """All rows of one kind by id. Asking for one opens at most the merged file that has it; walking opens all.

    Args:
        own: those in files of their own.
    """

    def __init__(
        self, storage: Storage, operation: str, own: dict[int, ListedRow], files: list[MergedFile]
    ) -> None:
        self.own = own
        self.files = sorted(files, key=lambda file: file.first)
        self._storage = storage
        self.operation = operation
        self._open: tuple[str, dict[int, str]] | None = None  # the merged file that was read last

    @property
    def newest(self) -> int:
        """The highest id; 0 for none."""
        return max(max(self.own, default=0), max((file.last for file in self.files), default=0))

    def newest_of(self, attempt: int) -> int | None:
        """The highest id of an attempt."""
        if self.newest in self.own and attempt > self.own[self.newest].attempt:
            return None  # later attempts have later checkpoints
        best = max((entry.id for entry in self.own.values() if entry.attempt == attempt), default=None)
        for file in reversed(self.files):
            if best is None or file.last > best:
                index = self.index_of(file)
                found = index.ids[index.attempts == attempt]
                if len(found):
                    best = max(int(found[-1]), best or 0)
        return best

    def paths(self) -> list[str]:
        """The files that hold them, without those that somebody else's compaction made."""
        own = [entry.path for entry in self.own.values() if entry.path is not None]
        return [*own, *(file.path for file in self.files)]

    def ids(self, lost: dict[int, CorruptChangelogError] | None = None) -> list[int]:
        """All ids, ascending; ``lost`` as for ``index``."""
        found = set(self.own)
        for index in self._merged(lost):
            found.update(index.ids.tolist())
        return sorted(found)

    def _merged(self, lost: dict[int, CorruptChangelogError] | None) -> Iterator[Index]:
        for file in self.files:
            try:
                index = self.index_of(file)
            except CorruptChangelogError as error:
                if lost is None:
                    raise
                lost[file.first] = error
            else:
                yield index

    def index(self, lost: dict[int, CorruptChangelogError] | None = None) -> Index:
        """All rows, merged ones included.

        Args:
            lost: takes the rows that can't be read, by id, instead of raising. Such a row has the time of the one before
                it; of a merged file that can't be read there is no row, and its first id is given.

        Raises:
            CorruptChangelogError: a row's file is missing or isn't what it was.
        """
        own = sorted(self.own.values(), key=lambda entry: entry.id)
        times: list[int] = []
        for entry in own:
            try:
                times.append(self.time_of(entry))
            except CorruptChangelogError as error:
                if lost is None:
                    raise
                lost[entry.id] = error
                times.append(_NO_TIME)
        listed = ([e.id for e in own], [e.attempt for e in own], times)
        columns = [[np.array(column, np.int64)] for column in listed]
        for index in self._merged(lost):
            for column, numbers in zip(columns, index, strict=True):
                column.append(numbers)
        ids, attempts, of_ids = (np.concatenate(column) for column in columns)
        ids, places = np.unique(ids, return_index=True)
        found = of_ids[places]
        for place in np.flatnonzero(found == _NO_TIME).tolist():
            found[place] = found[place - 1] if place else 0
        return Index(ids, attempts[places], found)

    def attempts(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all rows, in any order, and the attempt of each. Of rows with files of their own the names say it.

        Raises:
            CorruptChangelogError: a merged file is missing or isn't what it was.
        """
        own = self.own.values()
        ids = [np.array([entry.id for entry in own], np.int64)]
        attempts = [np.array([entry.attempt for entry in own], np.int64)]
        for index in self._merged(None):
            ids.append(index.ids)
            attempts.append(index.attempts)
        return np.concatenate(ids), np.concatenate(attempts)

    def time_of(self, entry: ListedRow) -> int:
        """When a checkpoint's barrier was reached or an attempt began, epoch milliseconds, as the row itself says.

        Raises:
            CorruptChangelogError: the row's file is missing or isn't what it was.
        """
        if entry.path is None or parse_merged_rows(entry.path) is None:
            return self._own_time(entry)
        index = self.index_of(next(file for file in self.files if file.path == entry.path))
        return int(index.times[int(np.searchsorted(index.ids, entry.id))])

    def _own_time(self, entry: ListedRow) -> int:
        def time_ms() -> int:
            return int(json.loads(self.document(entry))["time_ms"])

        return time_ms() if entry.path is None else _TIMES.of(self._storage.join(entry.path), time_ms)

    def index_of(self, file: MergedFile) -> Index:
        """The rows of one merged file.

        Raises:
            CorruptChangelogError: it is missing or isn't what it was.
        """
        return _index_of(self._storage, file.path, self.operation)

    def document(self, entry: ListedRow) -> str:
        """A row's JSON document.

        Raises:
            CorruptChangelogError: its file is missing or isn't what it was.
        """
        if entry.document is not None:
            return entry.document
        assert entry.path is not None
        if parse_merged_rows(entry.path) is None:
            return read_row(self._storage, entry.path, entry.size)
        if self._open is None or self._open[0] != entry.path:
            table = read_merged_rows(self._storage, entry.path)
            ids = table[_ID[self.operation]].to_pylist()
            self._open = entry.path, dict(zip(ids, table["value"].to_pylist(), strict=True))
        return self._open[1][entry.id]

    def __getitem__(self, identity: int) -> ListedRow:
        if identity in self.own:
            return self.own[identity]
        for file in self.files:
            if file.first <= identity <= file.last:
                index = self.index_of(file)
                place = int(np.searchsorted(index.ids, identity))
                if place < len(index.ids) and index.ids[place] == identity:
                    return ListedRow(identity, int(index.attempts[place]), file.path, None)
        raise KeyError(identity)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids()) if self.files else iter(self.own)

    def __len__(self) -> int:
        return len(self.ids()) if self.files else len(self.own)


def rows_of(storage: Storage, listing: pa.Table) -> tuple[Rows, Rows]:
    """Checkpoints and attempts of a table.

    Raises:
        CorruptChangelogError: a file that may hold such rows under another name can't be read.
    """
    own: dict[str, dict[int, ListedRow]] = {CHECKPOINT: {}, ATTEMPT: {}}
    merged: dict[str, list[MergedFile]] = {CHECKPOINT: [], ATTEMPT: []}
    named = pc.match_substring_regex(listing["path"], "^(checkpoint|attempt)s?-")
    about = listing.select(["path", "size_bytes"]).filter(named)  # there are forty columns
    for path, size in zip(about["path"].to_pylist(), about["size_bytes"].to_pylist(), strict=True):
        name, many = parse_row(path), parse_merged_rows(path)
        if name is not None:
            identity = name.checkpoint if name.operation == CHECKPOINT else name.attempt
            found = own[name.operation].setdefault(
                identity, ListedRow(identity, name.attempt, path, None, size)
            )
            if found.path != path:
                raise CorruptChangelogError(
                    f"is a second row of {name.operation} {identity}: see {found.path}",
                    storage.join(path),
                )
        elif many is not None:
            merged[many.operation].append(MergedFile(path, size, many.first, many.last))
    for operation, entry in _others(storage, listing["path"].filter(pc.invert(named))):
        own[operation].setdefault(entry.id, entry)
    checkpoints, attempts = (Rows(storage, kind, own[kind], merged[kind]) for kind in (CHECKPOINT, ATTEMPT))
    return checkpoints, attempts


def read_merged_rows(storage: Storage, path: str) -> pa.Table:
    """A file of merged rows: ``checkpoint_id``, ``attempt``, ``operation``, ``value`` and ``event_time``.

    Raises:
        CorruptChangelogError: it is missing or isn't what its name says.
    """
    name = parse_merged_rows(path)
    try:
        table = _read(storage, path, None if name is None else name.crc)
    except CorruptChangelogError as error:
        if name is None:
            raise
        held = f"It has the rows of {name.operation}s {name.first} to {name.last}"
        fault = f"{error.fault}. {held}. Put the file back from a copy"
        raise CorruptChangelogError(fault, error.path) from error
    return table.sort_by(_ID[ATTEMPT if name is not None and name.operation == ATTEMPT else CHECKPOINT])


def merged_rows_file(operation: str, rows: pa.Table) -> tuple[str, pa.Buffer]:
    """Name and bytes of a file of merged rows, at least one, as ``read_merged_rows`` gives them."""
    rows = rows.sort_by(_ID[operation])
    ids = rows[_ID[operation]]
    nothing = {f.name: pa.nulls(rows.num_rows, f.type) for f in SCHEMA if f.name not in RowOfLog._fields}
    columns = [nothing[f.name] if f.name in nothing else rows[f.name].cast(f.type) for f in SCHEMA]
    data = row_bytes(operation, pa.table(columns, schema=SCHEMA))
    return merged_rows_name(operation, ids[0].as_py(), ids[-1].as_py(), crc32(data)), data


def one_row(operation: str, entry: ListedRow, document: str) -> RowOfLog:
    """The row of a checkpoint or an attempt, as it stands in a file of its own."""
    said = json.loads(document)
    parent = entry.id if operation == CHECKPOINT else said.get("parent") or 0
    return RowOfLog(parent, entry.attempt, operation, document, said["time_ms"] * 1000)


def merged_rows_table(rows: Sequence[RowOfLog]) -> pa.Table:
    """Rows as ``read_merged_rows`` gives them."""
    fields = [SCHEMA.field(name) for name in RowOfLog._fields]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


def _index_of(storage: Storage, path: str, operation: str) -> Index:
    def read() -> Index:
        table = read_merged_rows(storage, path)
        times = pc.divide(pc.cast(table["event_time"], pa.int64()), 1000)
        columns = (table[_ID[operation]], table["attempt"], pc.fill_null(times, 0))
        return Index(*(column.to_numpy().astype(np.int64) for column in columns))

    return _INDEXES.of(storage.join(path), read)


def _others(storage: Storage, paths: pa.ChunkedArray) -> Iterator[tuple[str, ListedRow]]:
    """Rows that somebody else's compaction moved into files with other names."""
    for path in paths.to_pylist():
        for row in moved_rows(storage, path):
            identity = row[_ID[row["operation"]]]
            yield row["operation"], ListedRow(identity, row["attempt"], None, row["value"])


def moved_rows(storage: Storage, path: str) -> list[dict[str, Any]]:
    """Rows of checkpoints and attempts that somebody else's compaction moved into a file.

    Raises:
        CorruptChangelogError: it is missing or cannot be read.
    """
    if is_log(path) or not _may_be_about_the_log(storage, path):
        return []
    table = _read(storage, path, None)
    # Others write string views, which is_in() does not take
    operations = table["operation"].cast(pa.string())
    found: list[dict[str, Any]] = table.filter(
        pc.is_in(operations, value_set=pa.array([CHECKPOINT, ATTEMPT]))
    ).to_pylist()
    return found


def _may_be_about_the_log(storage: Storage, path: str) -> bool:
    """Whether a file can hold such rows, by its own footer: the list of files is not proof."""
    with reading(storage.join(path)):
        footer = storage.read_footer(path)
    place = next(i for i in range(footer.num_columns) if footer.schema.column(i).name == "operation")
    found = [footer.row_group(i).column(place).statistics for i in range(footer.num_row_groups)]
    return any(s is None or not s.has_min_max or (s.min <= CHECKPOINT and s.max >= ATTEMPT) for s in found)


def _read(storage: Storage, path: str, crc: int | None) -> pa.Table:
    with reading(storage.join(path)):
        data = read_unchanged(storage, path, crc)
        return pq.ParquetFile(pa.BufferReader(data)).read(list(RowOfLog._fields), use_threads=False)
