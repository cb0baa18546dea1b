"""What a file format promises to the source of files, and the formats made of lines."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import orjson

from changelog_engine.connectors.files.compression import decompressor
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.files.text_lines import ByteLineReader, CountedLineReader
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.errors import ConfigurationError, TypeMismatchError
from changelog_engine.types import RowTypeInfo, TypeInformation, Types
from changelog_engine.types.row import make_row


@runtime_checkable
class FileFormat(Protocol):
    """How the records of a file are read. Pickled and shipped; holds no open files.

    Args:
        output_type: of the records.
        start: the position of a file's first record.
    """

    output_type: TypeInformation | None
    start: Position

    def reader(self, file: InputFile) -> SplitReader:
        """A reader of one file; its positions are the format's own."""


class TextLines:
    r"""The lines of a file, as str without their ends (``\n``, ``\r\n`` or ``\r``).

    Empty lines and a last line without an end are elements. Bytes that the charset cannot decode become U+FFFD, as
    they do in Java. The position is a byte offset; in a compressed file, or with a charset such as UTF-16 whose line
    ends are not single bytes, it is a count of lines.

    Args:
        charset_name: any encoding that Python knows.

    Raises:
        ConfigurationError: an unknown charset.
    """

    start: Position = 0

    def __init__(self, charset_name: str = "UTF-8") -> None:
        try:
            self.charset = codecs.lookup(charset_name).name
        except (LookupError, TypeError):
            raise ConfigurationError(
                f"unknown charset {charset_name!r}; use a name such as 'UTF-8'"
            ) from None
        self.output_type: TypeInformation | None = Types.STRING()

    def reader(self, file: InputFile) -> SplitReader:
        """A reader of one file."""
        if decompressor(file.name) is None and _ends_lines_with_single_bytes(self.charset):
            return ByteLineReader(file, self.charset)
        return CountedLineReader(file, self.charset)


class JsonLines:
    """One JSON value in each line; empty lines are left out.

    Args:
        type_info: a ROW type whose fields are taken from the values' keys, the missing ones None; None gives the values
            as Python's dict, list, str and so on.
    """

    start: Position = 0

    def __init__(self, type_info: RowTypeInfo | None = None) -> None:
        self.output_type: TypeInformation | None = type_info
        self._row_type = type_info

    def reader(self, file: InputFile) -> SplitReader:
        """A reader of one file."""
        row_of = None if self._row_type is None else _row_maker(self._row_type, file.name)
        return _JsonLineReader(TextLines().reader(file), file.name, row_of)


class _JsonLineReader:
    def __init__(self, lines: SplitReader, name: str, row_of: Callable[[Any], Any] | None) -> None:
        self._lines = lines
        self._name = name
        self._row_of = row_of

    def read(self, position: Position, max_records: int) -> Range:
        """The values of up to so many lines."""
        found = self._lines.read(position, max_records)
        while not found.finished and not any(found.values):  # empty lines only: no sign of the end
            found = self._lines.read(found.next, max_records)
        lines = [line for line in found.values if line and not line.isspace()]
        try:
            values = [orjson.loads(line) for line in lines]
        except ValueError:
            values = [self._load(line, position) for line in lines]
        if self._row_of is not None:
            values = [self._row_of(value) for value in values]
        return found._replace(values=values)

    def _load(self, line: str, position: Position) -> Any:
        try:
            return orjson.loads(line)
        except ValueError as error:
            raise TypeMismatchError(
                f"the input file {self._name} has a line that is no JSON, after position {position}: "
                f"{line[:100]!r} ({error})"
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def _row_maker(row_type: RowTypeInfo, name: str) -> Callable[[Any], Any]:
    names = row_type.get_field_names()

    def row_of(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeMismatchError(
                f"a line of {name} is no JSON object, and rows are made of its keys: {value!r}"
            )
        row = make_row(names, [value.get(field) for field in names])
        return row_type.coerce(row, f"a line of {name}")

    return row_of


def _ends_lines_with_single_bytes(charset: str) -> bool:
    # Holds for UTF-8 and all that extend ASCII; not for UTF-16, UTF-32, UTF-8 with a signature and EBCDIC.
    return "\r\n".encode(charset) == b"\r\n"
