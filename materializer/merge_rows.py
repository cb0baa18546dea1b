"""Rows of checkpoints and attempts out of small files into few: the same rows, in the order of ids.

Bound: of n rows of a kind there are at most 2 n / ROWS large files, LEAST_ROWS files of single rows besides the newest, and
merged files each of which has more rows than all after it together: log2(ROWS) of them. (Where rows are long, ROWS is less,
so that a file can always be held in memory.) A row is written again at most that many times, and when rows before it in its
file are truncated: then the file is written anew without them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from changelog_engine.changelog.model import CheckpointMark
from changelog_engine.changelog.row_files import (
    ListedRow,
    MergedFile,
    Rows,
    merged_rows_table,
    one_row,
    read_merged_rows,
)
from changelog_engine.changelog.rows import CHECKPOINT, RowOfLog
from changelog_engine.ledger.lineage import write_merged_rows
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.protocol import Storage
from materializer.merge import Change
from materializer.retention import Mask, Needed

ROWS = 16_384
LEAST_ROWS = 16
_FEWEST = 64
_TEXT_BYTES = 48 * 1024 * 1024  # of files of single rows that become one file
_MOST_FILES = 900


def row_changes(storage: Storage, rows: Rows, stays: Needed, least: int = LEAST_ROWS) -> Iterator[Change]:
    """Let the rows go that nobody needs, and merge others, the newest ids first.

    While a row is there, so are those before it that are to go: whoever starts from it meanwhile can.

    Args:
        least: fewer files of single rows are not merged.

    Raises:
        CorruptChangelogError: a file isn't what it was.
        StorageError: a file could not be read or written.
    """
    return _Changes(storage, rows, stays, least).all()


class _Changes:
    """The changes of one kind of rows."""

    def __init__(self, storage: Storage, rows: Rows, stays: Needed, least: int) -> None:
        self.storage = storage
        self.operation = rows.operation
        self.rows = rows
        self.stays = stays
        self.least = least

    def all(self) -> Iterator[Change]:
        own = sorted((e for e in self.rows.own.values() if e.path is not None), reverse=True)
        gone = [entry for entry in own if not self._entry_stays(entry)]
        single = [entry for entry in own if self._entry_stays(entry) and entry.id != self.rows.newest]
        masks = {file.path: self._mask(file) for file in self.rows.files}
        whole = [file for file in self.rows.files if masks[file.path].all()]
        yield from (Change([], [_path(entry)]) for entry in gone)
        for file in reversed(self.rows.files):
            if not masks[file.path].all():
                table = read_merged_rows(self.storage, file.path).filter(pa.array(masks[file.path]))
                yield Change(self._write(table), [file.path])
        if len(single) >= self.least:
            yield from self._merged(single[::-1], whole)

    def _merged(self, single: list[ListedRow], files: list[MergedFile]) -> Iterator[Change]:
        """Files of single rows, and the merged ones just before them that have no more rows than what follows."""
        most = max(_FEWEST, min(ROWS, _TEXT_BYTES // max(1, self._bytes(single) // len(single))))
        step = min(most, _MOST_FILES)
        groups = [single[start : start + step] for start in range(0, len(single), step)]
        for number, group in enumerate(groups):
            if number and len(group) < self.least:
                continue
            tables = [merged_rows_table([self._one(entry) for entry in group])]
            removes = [_path(entry) for entry in group]
            count = len(group)
            before = [file for file in files if file.last < group[0].id] if not number else []
            while before and (size := len(self.rows.index_of(before[-1]).ids)) <= count:
                if count + size > most:
                    break
                tables.append(read_merged_rows(self.storage, before[-1].path))
                removes.append(before.pop().path)
                count += size
            yield Change(self._write(pa.concat_tables(tables)), removes)

    def _one(self, entry: ListedRow) -> RowOfLog:
        return one_row(self.operation, entry, self.rows.document(entry))

    def _bytes(self, entries: list[ListedRow]) -> int:
        """About: those of the first ones."""
        some = entries[:: max(1, len(entries) // 4)][:4]
        return len(entries) * sum(self.storage.size(_path(entry)) or 0 for entry in some) // len(some)

    def _mask(self, file: MergedFile) -> Mask:
        index = self.rows.index_of(file)
        if self.operation == CHECKPOINT:
            return self.stays.rows(index)
        return self.stays.attempt_rows(index)

    def _entry_stays(self, entry: ListedRow) -> bool:
        if self.operation == CHECKPOINT:
            return entry.id in self.stays.singles or self.stays.logs(CheckpointMark(entry.id, entry.attempt))
        return entry.id in self.stays.attempts

    def _write(self, table: pa.Table) -> list[AddFile]:
        return [write_merged_rows(self.storage, self.operation, table)] if table.num_rows else []


def _path(entry: ListedRow) -> str:
    assert entry.path is not None
    return entry.path
