"""CSV files, read and written as rows."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from changelog_engine.connectors.files.compression import decompressor, skip
from changelog_engine.connectors.files.csv_values import (
    CsvSchema,
    column_reader_of,
    column_writer_of,
    reader_of,
)
from changelog_engine.connectors.files.encoders import BulkWriter, MergingFactory, not_merged
from changelog_engine.connectors.files.formats import FileFormat
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.files.json_lines import bad_record
from changelog_engine.connectors.files.line_chunks import LineChunks
from changelog_engine.connectors.files.plain_csv import BYTE_ORDER_MARK, PlainColumns, suits
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.errors import TypeMismatchError
from changelog_engine.formats.csv_lines import Quoter
from changelog_engine.types import Row, RowTypeInfo
from changelog_engine.types.row import make_row, rows_of_columns, values_in_order, values_of
from changelog_engine.types.typeinfo import shown

_CHUNK_BYTES = 1 << 20
_LEAST_PLAIN = 512  # lines; for fewer, Arrow's columns cost more than they save
# As in Jackson, with which Flink reads CSV; by itself the csv module takes 131,072
_LONGEST_CELL = 20_000_000
csv.field_size_limit(max(_LONGEST_CELL, csv.field_size_limit()))
_LINE_END = re.compile(r"\r\n|\n|\r")


class _RowDataTypeInfo(RowTypeInfo):
    """Rows that print() shows as Flink shows its RowData, which its reader of CSV gives: ``+I(1,x,true)``."""

    def format(self, value: Any) -> str:
        if not isinstance(value, Row):
            return super().format(value)
        fields = zip(self.get_field_types(), values_of(value), strict=True)
        return f"{value.get_row_kind()}({','.join([kind.nested_text(field) for kind, field in fields])})"


class CsvRecords(FileFormat):
    """The rows of CSV files, in UTF-8; empty lines and a byte order mark are left out.

    The position is an offset of (decompressed) bytes.

    A line with bytes that are not UTF-8 is a line that does not fit the schema.
    """

    skips_bad_records = True

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema
        types = [column.type_info for column in schema.columns]
        self.output_type = _RowDataTypeInfo(types, schema.names)

    def reader(self, file: InputFile) -> SplitReader:
        return _CsvReader(file, self._schema, self.bad_tag)


class _CsvReader(SplitReader):
    def __init__(self, file: InputFile, schema: CsvSchema, bad_tag: str | None) -> None:
        self._file = file
        self._bad_tag = bad_tag
        self._aside: list[tuple[str, Any]] = []
        self._schema = schema
        self._dialect = schema.dialect()
        self._decompress = decompressor(file.name)
        self._names = schema.names
        self._readers = [reader_of(schema, column) for column in schema.columns]
        self._column_readers = [column_reader_of(schema, column) for column in schema.columns]
        self._order: list[int] | None = None  # of each column, its cell; None: as they are
        self._width = len(self._names)  # cells in a line
        self._plain: PlainColumns | None = None
        self._opened: Any = None
        self._lines = LineChunks(None, 0, -1, False)
        self._first_line = 0  # lines before the position of this read(), counted by self._lines
        # Of each record taken last, the lines before it; only where there are comments.
        self._begins: list[int] = []

    def read(self, position: Position, max_records: int) -> Range:
        """Up to max_records rows from a byte on.

        Raises:
            StorageError: the file cannot be read or decompressed.
            TypeMismatchError: a line does not fit the schema.
        """
        values: list[Any] = []
        finished, self._aside = False, []
        try:
            with self._file.reading(self.close):
                if self._opened is None or position != self._lines.position:
                    self._seek(position)
                    self._first_line = 0
                else:
                    self._first_line = self._lines.taken
                # Empty lines are not a sign of the end.
                while not (values or self._aside or finished):
                    left = max_records
                    while left > 0 and not finished:
                        rows, records = self._some(position, left)
                        values += rows
                        left -= records
                        finished = not records
        except csv.Error as error:
            raise TypeMismatchError(
                f"the input file {self._file.name} is not CSV near byte {self._lines.position}: {error}"
            ) from None
        return Range(values, self._lines.position, finished, None, self._aside or None)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened = None

    def _some(self, position: Position, most: int) -> tuple[list[Row], int]:
        """The next rows, and of how many records, empty lines among them; of none at the end."""
        lines, count = self._lines.block(most)
        if count >= _LEAST_PLAIN and self._plain is not None:
            columns = self._plain.read(lines, self._lines.longest)
            if columns is not None:
                self._lines.taken += count
                return rows_of_columns(self._names, columns), count
        before = self._lines.taken
        found = self._take(most)
        return self._decoded(found, position, before), len(found)

    def _take(self, count: int) -> list[list[str]]:
        lines = self._lines
        rows = csv.reader(lines.texts(count), **self._dialect)
        if not self._schema.comments:
            before = lines.taken
            try:
                return list(itertools.islice(rows, count))
            finally:
                lines.taken = before + rows.line_num
        found, self._begins = [], []
        for _ in range(count):
            lines.between_records = True
            cells = next(rows, None)
            if cells is None:
                break
            found.append(cells)
            self._begins.append(lines.taken - _lines_in(cells))
        return found

    def _seek(self, position: int) -> None:
        schema = self._schema
        skip_first = schema.skip_first and not position
        heading = schema.header or skip_first
        self._lines = self._lines_from(0 if heading else position)
        if schema.header:
            self._read_header(next(iter(self._take(1)), None))
        if skip_first:
            self._take(1)
        if heading and position:
            self._lines = self._lines_from(position)
        if suits(schema):
            self._plain = PlainColumns(schema, self._order or range(self._width), self._width)

    def _lines_from(self, position: int) -> LineChunks:
        self.close()
        self._opened = self._file.open()
        size = self._file.size - position if self._decompress is None else None
        stream = self._opened if self._decompress is None else self._decompress(self._opened)
        there = self._file.seek(stream, position) if self._decompress is None else skip(stream, position)
        if there < position:
            raise self._file.too_short(f"{there} bytes", f"at byte {position}")
        lines = LineChunks(stream, size, position, self._schema.comments)
        if not position:
            lines.pass_over(BYTE_ORDER_MARK)
        return lines

    def _read_header(self, names: list[str] | None) -> None:
        own = self._names
        if names is None:
            return
        names = [name.strip() for name in names]
        unclear = [name for name in own if names.count(name) != 1]
        if names == own:
            return
        if not self._schema.strict_header and _by_place(names, own):
            return
        if unclear or self._schema.strict_header:
            raise TypeMismatchError(
                f"the header of {self._file.name} names the columns {', '.join(names)}, and the schema has {', '.join(own)}"
            )
        self._order = [names.index(name) for name in own]
        self._width = len(names)

    def _decoded(self, taken: list[list[str]], position: Position, before: int) -> list[Row]:
        """The rows of the records that were taken; the first of them follows this many lines."""
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
        return CsvFileWriter(stream, self._schema)

    def merge(self, sources: Iterable[tuple[str, Any]], stream: Any) -> None:
        """Lines are copied as they are; the header stands once."""
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
    """Gathers the lines of a csv writer, which ends them by CR and LF: then it quotes texts that have either.

    One that ends them by more signs quotes texts that have those, too.
    """

    def __init__(self, line_end: str) -> None:
        self._line_end = line_end
        self._lines: list[str] = []
        self.signs = 2  # that the lines which come end with

    def write(self, line: str) -> None:
        """Take one line."""
        self._lines.append(line[: -self.signs] + self._line_end)

    def take_lines(self, lines: Iterable[str]) -> None:
        """Take lines that have no end."""
        self._lines += [line + self._line_end for line in lines]

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
        quotes = None if schema.quote is None else Quoter(schema.separator, schema.quote, schema.escape)
        self._columns = [column_writer_of(schema, column, quotes) for column in schema.columns]
        self._no_comment = csv.writer(self._text, **schema.dialect(), lineterminator="#\r\n")
        if schema.header:
            self._write(schema.names)

    def _write(self, cells: Row | Sequence[Any]) -> None:
        if not self._schema.comments or not str(cells[0]).startswith("#"):
            self._csv.writerow(cells)
            return
        self._text.signs = 3
        try:
            self._no_comment.writerow(cells)
        finally:
            self._text.signs = 2

    def write(self, values: Sequence[Any]) -> None:
        """See BulkWriter.

        Raises:
            TypeMismatchError: an element does not have the columns, or has a str that cannot be quoted, as one that would
                begin a comment where there are neither quotes nor escapes.
        """
        width = len(self._columns)
        for value in values:
            if not isinstance(value, (Row, tuple, list)) or len(value) != width:
                raise TypeMismatchError(
                    f"{shown(value)} is not a row of the columns {', '.join(self._schema.names)}"
                )
        if Row in set(map(type, values)):
            names = self._schema.names
            values = [values_in_order(each, names) if type(each) is Row else each for each in values]
        if values:
            columns = zip(*values, strict=True)
            texts = [write(column) for write, column in zip(self._columns, columns, strict=True)]
            if self._schema.quote is None:
                self._write_unquoted(values, texts)
            else:
                self._write_quoted(texts, self._schema.quote)
        self.finish()

    def _write_quoted(self, texts: list[list[str]], quote: str) -> None:
        if self._schema.comments:
            texts[0] = [f"{quote}{text}{quote}" if text.startswith("#") else text for text in texts[0]]
        if len(texts) == 1:  # readers skip empty lines
            texts[0] = [text or quote * 2 for text in texts[0]]
        self._text.take_lines([self._schema.separator.join(row) for row in zip(*texts, strict=True)])

    def _write_unquoted(self, values: Sequence[Any], texts: list[list[str]]) -> None:
        write = self._write if self._schema.comments else self._csv.writerow
        for value, cells in zip(values, zip(*texts, strict=True), strict=True):
            try:
                write(cells)
            except csv.Error as error:
                raise TypeMismatchError(f"{shown(value)} cannot be written as CSV: {error}") from None

    def finish(self) -> None:
        data = self._text.take()
        if data:
            self._stream.write(data)


def _by_place(names: list[str], own: list[str]) -> bool:
    """Whether a header has other names for columns that stand where the schema has them: as many, none known elsewhere."""
    known = set(own)
    return len(names) == len(own) and all(
        name == ours or name not in known for name, ours in zip(names, own, strict=True)
    )
