"""JSON values, one in each line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from changelog_engine.connectors.files.formats import FileFormat, TextLines
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.errors import TypeMismatchError
from changelog_engine.formats import json_values
from changelog_engine.types import Row, RowTypeInfo, TypeInformation
from changelog_engine.types.row import make_row, rows_of_columns


def bad_record(file: str, position: Position, line: int, record: Any, error: Exception) -> Row:
    """What goes to the side output of records that cannot be decoded; lines count from 1 after the position."""
    return Row(file=file, position=position, line=line, record=record, error=str(error))


class JsonLines(FileFormat):
    """One JSON value in each line, in UTF-8; empty lines are left out. Positions are those of text lines.

    Args:
        type_info: a ROW type whose fields are taken from the values' keys, the missing ones None; None gives the values
            as Python's dict, list, str and so on.
    """

    skips_bad_records = True

    def __init__(self, type_info: RowTypeInfo | None = None) -> None:
        self.output_type = type_info
        self._row_type = type_info

    def reader(self, file: InputFile) -> SplitReader:
        lines = TextLines(errors="surrogateescape").reader(file)
        return _JsonLineReader(lines, file.name, self._row_type, self.bad_tag)


class _JsonLineReader(SplitReader):
    def __init__(
        self, lines: SplitReader, name: str, row_type: RowTypeInfo | None, bad_tag: str | None
    ) -> None:
        self._lines = lines
        self._name = name
        self._row_type = row_type
        self._parse = orjson.loads if row_type is None else json_values.parser(row_type)
        self._decode = _decoded if row_type is None else _row_decoder(row_type)
        self._bad_tag = bad_tag

    def read(self, position: Position, max_records: int) -> Range:
        """The values of up to ``max_records`` lines.

        Raises:
            TypeMismatchError: a line is not JSON, or does not fit the type, and there is no side output for it.
        """
        while True:
            found = self._lines.read(position, max_records)
            aside: list[tuple[str, Any]] = []
            try:
                values = self._all_of(found.values)
            except (ValueError, TypeError):  # an empty line, or one that cannot be decoded
                values, aside = self._singly(found, position)
            if values or aside or found.finished:  # empty lines only are not a sign of the end
                return found._replace(values=values, aside=aside or None)
            position = found.next

    def _all_of(self, lines: Sequence[str]) -> list[Any]:
        values = list(map(self._parse, lines))  # drives our own code
        if self._row_type is not None:
            return _rows(values, self._row_type) if values else []
        if json_values.may_be_rounded(lines):
            return [_decoded(line) for line in lines]
        return values

    def _singly(self, found: Range, position: Position) -> tuple[list[Any], list[tuple[str, Any]]]:
        """Line by line, to name those that cannot be decoded."""
        values, aside = [], []
        for number, line in enumerate(found.values, 1):
            if not line or line.isspace():
                continue
            try:
                values.append(self._decode(line))
            except (ValueError, TypeError) as error:
                line = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                if self._bad_tag is None:
                    raise TypeMismatchError(
                        f"the input file {self._name} has a line that cannot be decoded, line {number} after position "
                        f"{position}: {line[:100]!r} ({error})"
                    ) from None
                aside.append((self._bad_tag, bad_record(self._name, position, number, line, error)))
        return values, aside

    def close(self) -> None:
        self._lines.close()


def _rows(values: list[Any], row_type: RowTypeInfo) -> list[Row]:
    """All rows at once, as `_row_decoder` makes them one by one.

    Raises:
        ValueError, TypeMismatchError: one of them is not a row of that type.
    """
    names, types = row_type.get_field_names(), row_type.get_field_types()
    if not names or set(map(type, values)) != {dict}:
        raise ValueError("not all of them are objects with fields")
    return rows_of_columns(names, [_column(values, *each) for each in zip(names, types, strict=True)])


def _column(values: list[Any], name: str, field_type: TypeInformation) -> list[Any]:
    column = [value.get(name) for value in values]
    there = [item for item in column if item is not None] if None in column else column
    if not there or field_type.fits_all(there):
        return column
    return [field_type.check(item, name) for item in column]


def _decoded(line: str) -> Any:
    value = orjson.loads(line)
    return json_values.parsed_whole(line) if json_values.is_rounded(value) else value


def _row_decoder(row_type: RowTypeInfo) -> Callable[[str], Any]:
    names, parse = row_type.get_field_names(), json_values.parser(row_type)

    def decode(line: str) -> Any:
        value = parse(line)
        if not isinstance(value, dict):
            raise ValueError("it is not an object, and rows are made of an object's keys")
        return row_type.check(make_row(names, [value.get(field) for field in names]), "it")

    return decode
