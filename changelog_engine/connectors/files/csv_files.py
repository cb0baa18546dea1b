"""CSV files, read and written as rows."""

from __future__ import annotations

import copy
import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

from changelog_engine.connectors.files.compression import BROKEN_ERRORS, decompressor, skip
from changelog_engine.connectors.files.csv_values import (
    CsvSchema,
    cell_writer_of,
    column_reader_of,
    reader_of,
)
from changelog_engine.connectors.files.encoders import BulkWriter, MergingFactory, not_merged
from changelog_engine.connectors.files.formats import FileFormat
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.files.json_lines import bad_record
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.errors import StorageError, TypeMismatchError
from changelog_engine.types import Row, Types
from changelog_engine.types.row import make_row, rows_of_columns
from changelog_engine.types.typeinfo import shown

_CHUNK_BYTES = 1 << 20
_LINE_END = re.compile(r"\r\n|\n|\r")


class CsvRecords(FileFormat):
    """The rows of CSV files, in UTF-8; empty lines are left out. The position is an offset of (decompressed) bytes.

    A line with bytes that are not UTF-8 is a line that does not fit the schema.

    Args:
        schema: how rows look.
    """

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema
        types = [column.type_info for column in schema.columns]
        self.output_type = Types.ROW_NAMED(schema.names, types)

    def with_bad_records_tag(self, tag: str) -> Self:
        """See FileFormat."""
        found = copy.copy(self)
        found.bad_tag = tag
        return found

    def reader(self, file: InputFile) -> SplitReader:
        """A reader of one file."""
        return _CsvReader(file, self._schema, self.bad_tag)


class _Lines:
    """The lines of a stream from a byte on, as text with their ends; counts lines and bytes of those that were taken.

    Bytes that are not UTF-8 come as lone surrogates, which no UTF-8 gives, and set ``damaged``.
    """

    def __init__(self, stream: Any, size: int, position: int, comments: bool) -> None:
        self.position = position
        self.taken = 0
        self.damaged = False
        self.between_records = True  # the next line does not go on with a record
        self._stream = stream
        self._size = size
        self._comments = comments

    def __iter__(self) -> Iterator[str]:
        rest = b""
        while True:
            data = self._stream.read(min(_CHUNK_BYTES, self._size))
            self._size -= len(data)
            lines = (rest + data).splitlines(True)
            # The last line may go on; a \r may be the first half of \r\n.
            rest = lines.pop() if data and lines else b""
            for line in lines:
                self.position += len(line)
                self.taken += 1
                if self._comments and self.between_records and line.startswith(b"#"):
                    continue
                self.between_records = False
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError:
                    self.damaged, text = True, line.decode("utf-8", "surrogateescape")
                yield text
            if not data:
                return


class _CsvReader(SplitReader):
    def __init__(self, file: InputFile, schema: CsvSchema, bad_tag: str | None) -> None:
        self._file = file
        self._bad_tag = bad_tag
        self._aside: list[tuple[str, Any]] = []
        self._schema = schema
        self._decompress = decompressor(file.name)
        self._names = schema.names
        self._readers = [reader_of(schema, column) for column in schema.columns]
        self._column_readers = [column_reader_of(schema, column) for column in schema.columns]
        self._order: list[int] | None = None  # of each column, its cell; None: as they are
        self._width = len(self._names)  # cells in a line
        self._opened: Any = None
        self._lines = _Lines(None, 0, -1, False)
        self._rows: Iterator[list[str]] = iter(())
        self._first_line = 0  # lines before the position of this read(), counted by self._lines
        self._begins: list[
            int
        ] = []  # of each record taken last, the lines before it; only where there are comments

    def read(self, position: Position, max_records: int) -> Range:
        """Up to max_records rows from a byte on.

        Raises:
            StorageError: the file cannot be read or decompressed.
            TypeMismatchError: a line does not fit the schema.
        """
        try:
            if self._opened is None or position != self._lines.position:
                self._seek(position)
                self._first_line = 0
            else:
                self._first_line = self._lines.taken
            values: list[Any] = []
            finished, self._aside = False, []
            while not values and not self._aside and not finished:  # empty lines are not a sign of the end
                before = self._lines.taken
                found = self._take(max_records)
                finished = len(found) < max_records
                values = self._decoded(found, position, before)
        except (StorageError, TypeMismatchError):
            raise
        except csv.Error as error:
            raise TypeMismatchError(
                f"the input file {self._file.name} is not CSV near byte {self._lines.position}: {error}"
            ) from None
        except BROKEN_ERRORS as error:
            self.close()
            raise StorageError(f"cannot read the input file {self._file.name}: {error}") from error
        return Range(values, self._lines.position, finished, None, self._aside or None)

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
        self._opened, self._rows = None, iter(())

    def _take(self, count: int) -> list[list[str]]:
        if not self._schema.comments:
            return list(itertools.islice(self._rows, count))
        found, self._begins = [], []
        for _ in range(count):
            self._lines.between_records = True
            cells = next(self._rows, None)
            if cells is None:
                break
            found.append(cells)
            self._begins.append(self._lines.taken - _lines_in(cells))
        return found

    def _seek(self, position: int) -> None:
        self.close()
        self._opened = self._file.open()
        size = self._file.size if self._decompress is None else 1 << 62
        stream = self._opened if self._decompress is None else self._decompress(self._opened)
        schema = self._schema
        self._lines = _Lines(stream, size, 0, schema.comments)
        if schema.header or (schema.skip_first and not position):
            self._rows = csv.reader(self._lines, **schema.dialect())
            if schema.header:
                self._read_header(next(iter(self._take(1)), None))
            if schema.skip_first and not position:
                self._take(1)
            if not position:
                return
            self.close()
            self._opened = self._file.open()
            stream = self._opened if self._decompress is None else self._decompress(self._opened)
        if skip_to(stream, position, self._decompress is None) < position:
            raise StorageError(
                f"the input file {self._file.name} has fewer bytes than {position}, where reading must go on: it was cut or "
                "replaced"
            )
        self._lines = _Lines(stream, size - position, position, schema.comments)
        self._rows = csv.reader(self._lines, **schema.dialect())

    def _read_header(self, names: list[str] | None) -> None:
        own = self._names
        if names is None:
            return
        names = [name.strip().removeprefix("\ufeff") for name in names]
        missing = [name for name in own if name not in names]
        if names == own:
            return
        if missing or self._schema.strict_header:
            raise TypeMismatchError(
                f"the header of {self._file.name} names the columns {', '.join(names)}, and the schema has {', '.join(own)}"
            )
        self._order = [names.index(name) for name in own]
        self._width = len(names)

    def _decoded(self, taken: list[list[str]], position: Position, before: int) -> list[Row]:
        """The rows of records that were taken, the first of them after so many lines."""
        found = [cells for cells in taken if cells]
        if not found:
            return []
        if self._lines.damaged:
            self._lines.damaged = False
            return self._decoded_singly(taken, position, before)
        try:
            if set(map(len, found)) != {self._width}:
                return self._decoded_singly(taken, position, before)
            columns = list(zip(*found, strict=True))
            if self._order is not None:
                columns = [columns[at] for at in self._order]
            values = [read(cells) for read, cells in zip(self._column_readers, columns, strict=True)]
        except ValueError:
            return self._decoded_singly(taken, position, before)
        return rows_of_columns(self._names, values)

    def _decoded_singly(self, taken: list[list[str]], position: Position, before: int) -> list[Row]:
        """Row by row, to name the one that does not fit."""
        names, readers, order = self._names, self._readers, self._order
        rows = []
        for cells, begin in zip(taken, self._begins_of(taken, before), strict=True):
            if not cells:
                continue
            line = begin - self._first_line + 1
            try:
                _check_utf8(cells)
                if len(cells) != self._width:
                    raise ValueError(f"{len(cells)} cells, not {self._width}")
                if order is not None:
                    cells = [cells[at] for at in order]
                rows.append(make_row(names, [read(cell) for read, cell in zip(readers, cells, strict=True)]))
            except ValueError as error:
                why = ValueError(self._culprit(cells) or error)
                cells = [_shown(cell) for cell in cells]
                if self._bad_tag is None:
                    raise TypeMismatchError(
                        f"the input file {self._file.name} has a line that does not fit the schema, line {line} "
                        f"after byte {position}: {why}"
                    ) from None
                record = bad_record(self._file.name, position, line, cells, why)
                self._aside.append((self._bad_tag, record))
        return rows

    def _begins_of(self, taken: list[list[str]], before: int) -> Iterable[int]:
        """Of each record, the lines before it."""
        if self._schema.comments:
            return self._begins
        lines = [_lines_in(each) for each in taken[:-1]]
        return itertools.accumulate(lines, initial=before) if taken else ()

    def _culprit(self, cells: list[str]) -> str | None:
        if len(cells) != len(self._names) or not all(map(_is_utf8, cells)):  # drives our own code
            return None
        for column, read, cell in zip(self._schema.columns, self._readers, cells, strict=True):
            try:
                read(cell)
            except ValueError as error:
                return f"field {column.name!r} is {shown(cell)}, which is not of type {column.type_info.name} ({error})"
        return None


def _lines_in(cells: list[str]) -> int:
    """How many lines of the file a record fills: line ends within quotes are part of its cells."""
    return 1 + sum(len(_LINE_END.findall(cell)) for cell in cells)


def _is_utf8(cell: str) -> bool:
    return not any("\udc80" <= sign <= "\udcff" for sign in cell)


def _check_utf8(cells: list[str]) -> None:
    for number, cell in enumerate(cells, 1):
        if not _is_utf8(cell):
            raise ValueError(f"cell {number} is not UTF-8: {cell.encode('utf-8', 'surrogateescape')!r}")


def _shown(cell: str) -> str:
    """A cell with U+FFFD for what is not UTF-8."""
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def skip_to(stream: Any, position: int, seekable: bool) -> int:
    """Go to a byte of a stream that stands at its beginning; returns where it is."""
    if seekable:
        return int(stream.seek(position))
    return skip(stream, position)


class CsvFiles(MergingFactory):
    """The bulk format of CSV files.

    Args:
        schema: how rows look; elements are rows or tuples in the order of the columns.
    """

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema
        self.concatenates = not schema.header
        self.described = "CSV files with a header" if schema.header else "CSV files"

    def open(self, stream: Any) -> CsvFileWriter:
        """See BulkFactory."""
        return CsvFileWriter(stream, self._schema)

    def merge(self, sources: Iterable[tuple[str, Any]], stream: Any) -> None:
        """See MergingFactory. Lines are copied as they are; the header stands once."""
        empty = io.BytesIO()
        self.open(empty).finish()
        header = empty.getvalue()
        stream.write(header)
        for name, source in sources:
            found = source.read(len(header))
            if found != header:
                raise not_merged(
                    name, self.described, ValueError(f"it begins with {shown(found)}, not {shown(header)}")
                )
            while data := source.read(_CHUNK_BYTES):
                stream.write(data)


class _CsvText:
    """Gathers the lines of a csv writer, which ends them by CR and LF: then it quotes texts that have either."""

    def __init__(self, line_end: str) -> None:
        self._line_end = line_end
        self._lines: list[str] = []

    def write(self, line: str) -> None:
        """Take one line."""
        self._lines.append(line[:-2] + self._line_end)

    def take(self) -> bytes:
        """All lines since the last call."""
        lines, self._lines = self._lines, []
        return "".join(lines).encode("utf-8")


class CsvFileWriter(BulkWriter):
    """Writes one CSV file."""

    def __init__(self, stream: Any, schema: CsvSchema) -> None:
        self._stream = stream
        self._schema = schema
        self._text = _CsvText(schema.line_end)
        self._csv = csv.writer(self._text, **schema.dialect(), lineterminator="\r\n")
        self._cells = [cell_writer_of(schema, column) for column in schema.columns]
        if schema.header:
            self._csv.writerow(schema.names)

    def write(self, values: Sequence[Any]) -> None:
        """See BulkWriter.

        Raises:
            TypeMismatchError: an element does not have the schema's columns, or has a str that cannot be quoted.
        """
        width, convert = len(self._cells), self._cells
        plain = not any(convert)
        for value in values:
            if not isinstance(value, (Row, tuple, list)) or len(value) != width:
                raise TypeMismatchError(
                    f"{shown(value)} is not a row of the columns {', '.join(self._schema.names)}"
                )
            try:
                if plain:
                    self._csv.writerow(value)
                else:
                    pairs = zip(convert, value, strict=True)
                    self._csv.writerow([item if cell is None else cell(item) for cell, item in pairs])
            except csv.Error as error:
                raise TypeMismatchError(f"{shown(value)} cannot be written as CSV: {error}") from None
        self.finish()

    def finish(self) -> None:
        """See BulkWriter."""
        data = self._text.take()
        if data:
            self._stream.write(data)
