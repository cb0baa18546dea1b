"""One line of CSV, read and written as Flink's CSV format does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from changelog_engine.errors import NotSupportedError
from changelog_engine.formats.parts import each_field
from changelog_engine.formats.row_fields import fields_reader
from changelog_engine.formats.texts import (
    bytes_text,
    cell_reader,
    from_text,
    instant_text,
    is_bytes,
    many_from_text,
    time_text,
    without_zone,
)
from changelog_engine.types import DecimalTypeInfo, ElementsTypeInfo, RowTypeInfo, TypeInformation
from changelog_engine.types.arrays import elements_of
from changelog_engine.types.java_text import decimal_text, double_text, float_text, timestamp_text
from changelog_engine.types.row import Row, make_row, rows_of_columns
from changelog_engine.types.typeinfo import shown

_ALWAYS_QUOTED_FROM = 25  # characters
_BYTE_ORDER_MARK = "\ufeff"


class CsvOptions(NamedTuple):
    """How a line looks."""

    field_delimiter: str = ","
    line_delimiter: str = "\n"  # after a line that is written
    array_delimiter: str = ";"  # between the elements of a field
    quote: str | None = '"'  # round a field; None for no quotes
    escape: str | None = None  # before a character inside of quotes; None for none
    null_literal: str | None = None  # what None looks like; None for nothing
    allow_comments: bool = False  # lines that begin with ``#`` are none


def parts_of(text: str, between: str) -> list[str]:
    """The elements in an array's field; in an empty one there are none.

    Args:
        between: what stands between two; empty where a field has one element at most.
    """
    if not text:
        return []
    return text.split(between) if between else [text]


def line_reader(
    type_info: RowTypeInfo, options: CsvOptions, what: str, ignoring: bool = False
) -> Callable[[str], Row | None]:
    """What turns a line into a row; None for a comment.

    Args:
        ignoring: a field that cannot be read, or that is missing at the line's end, is None.

    Raises:
        NotSupportedError: a type that CSV has no form for.
    """
    names = type_info.get_field_names()
    fields = [_field_reader(field, options, what, ignoring) for field in type_info.get_field_types()]

    def read(line: str) -> Row | None:
        if options.allow_comments and line.startswith("#"):
            return None
        texts = _split(line, options)
        if len(texts) == len(fields) + 1 and not texts[-1]:  # a delimiter behind the last field
            texts.pop()
        missing = len(fields) - len(texts)
        if missing < 0 or (missing and (not ignoring or not line)):
            raise ValueError(f"{len(texts)} fields where {len(fields)} are declared")
        values: list[Any] = []
        for name, convert, text in zip(names, fields, texts, strict=False):
            try:
                values.append(convert(text))
            except ValueError as error:
                if not ignoring:
                    raise ValueError(f"field {name!r}: {error}") from None
                values.append(None)
        values += [None] * missing
        return make_row(names, values)

    return read


def lines_reader(type_info: RowTypeInfo, options: CsvOptions, what: str) -> Callable[[list[str]], list[Row]]:
    """As ``line_reader``, for many lines at once of which none is a comment; which of them is wrong it doesn't say.

    Raises:
        NotSupportedError: a type that CSV has no form for.
    """
    names = type_info.get_field_names()
    columns_of = [_column_reader(field, options, what) for field in type_info.get_field_types()]
    signs = [
        sign for sign in (options.quote, options.escape, _BYTE_ORDER_MARK, "\n", "\r") if sign is not None
    ]
    delimiter = options.field_delimiter

    def read(lines: list[str]) -> list[Row]:
        if options.allow_comments and any(line.startswith("#") for line in lines):
            raise ValueError("there are comments")
        lines = [line.rstrip("\r\n") for line in lines]
        text = "".join(lines)
        if any(sign in text for sign in signs):
            cells = [_split(line, options) for line in lines]
        else:
            cells = [line.split(delimiter) for line in lines]
        if not {len(names)}.issuperset(map(len, cells)):
            raise ValueError(f"not all lines have {len(names)} fields")
        columns = zip(*cells, strict=True)
        return rows_of_columns(
            names, [convert(column) for convert, column in zip(columns_of, columns, strict=True)]
        )

    return read


def _column_reader(
    type_info: TypeInformation, options: CsvOptions, what: str
) -> Callable[[Sequence[str]], list[Any]]:
    many = many_from_text(type_info)
    if many is not None and options.null_literal is None:
        return many
    single = _field_reader(type_info, options, what)
    return lambda texts: [single(text) for text in texts]


def _field_reader(
    type_info: TypeInformation, options: CsvOptions, what: str, ignoring: bool = False
) -> Callable[[str], Any]:
    null = options.null_literal
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        inner = [_single_reader(field, options, what) for field in type_info.get_field_types()]

        def read_row(text: str) -> Row | None:
            if text == null:
                return None
            parts = text.split(options.array_delimiter)
            missing = len(inner) - len(parts)
            if missing < 0 or (missing and not ignoring):
                raise ValueError(f"{len(parts)} fields where {len(inner)} are declared")
            values = [convert(part) for convert, part in zip(inner, parts, strict=False)]
            return make_row(names, [*values, *[None] * missing])

        return read_row
    if isinstance(type_info, ElementsTypeInfo) and not is_bytes(type_info):
        element = _single_reader(type_info.elem_type, options, what)

        def read_list(text: str) -> list[Any] | None:
            if text == null:
                return None
            return [element(part) for part in parts_of(text, options.array_delimiter)]

        return read_list
    return _single_reader(type_info, options, what)


def _single_reader(type_info: TypeInformation, options: CsvOptions, what: str) -> Callable[[str], Any]:
    parse = cell_reader(type_info)
    if parse is None:
        raise NotSupportedError(f"{what}: CSV has no form for {type_info.name} there")
    null = options.null_literal
    return lambda text: None if text == null else parse(text)


def _split(line: str, options: CsvOptions) -> list[str]:
    """The fields of a line, without their quotes.

    Raises:
        ValueError: a quote is not closed, or something follows it; there is more than a line.
    """
    line = line.rstrip("\r\n").removeprefix(_BYTE_ORDER_MARK)
    delimiter, quote, escape = options.field_delimiter, options.quote, options.escape
    breaks = "\n" in line or "\r" in line
    if not breaks and (quote is None or quote not in line) and (escape is None or escape not in line):
        return line.split(delimiter)
    fields: list[str] = []
    field: list[str] = []
    position, quoted, closed = 0, False, False
    while position < len(line):
        character = line[position]
        if closed and character != delimiter:
            if character in "\r\n":
                raise ValueError("there is more than one line")
            if not character.isspace():
                raise ValueError(f"{character!r} stands between a closing quote and {delimiter!r}")
        elif character == escape and position + 1 < len(line):
            position += 1
            field.append(line[position])
        elif quoted and character == quote:
            if line[position + 1 : position + 2] == quote:
                position += 1
                field.append(character)
            else:
                quoted, closed = False, True
        elif not quoted and character == quote and not field:
            quoted = True
        elif not quoted and character == delimiter:
            fields.append("".join(field))
            field, closed = [], False
        elif breaks and not quoted and character in "\r\n":
            raise ValueError("there is more than one line")
        else:
            field.append(character)
        position += 1
    if quoted:
        raise ValueError("a quote is not closed")
    return [*fields, "".join(field)]


def line_writer(type_info: RowTypeInfo, options: CsvOptions, what: str) -> Callable[[Any], str]:
    """What turns a row into a line, with its end.

    Raises:
        NotSupportedError: a type that CSV has no form for.
    """
    delimiter, end = options.field_delimiter, options.line_delimiter
    null = options.null_literal or ""
    fields_of, types = fields_reader(type_info), type_info.get_field_types()
    convert_all = each_field(
        type_info.get_field_names(), [_field_writer(field, options, what) for field in types]
    )

    def write(row: Any) -> str:
        return delimiter.join([null if text is None else text for text in convert_all(fields_of(row))]) + end

    return write


def joined(parts: list[str], between: str) -> str:
    """The cell of an array.

    Raises:
        ValueError: its text would be read as other elements.
    """
    text = between.join(parts)
    found = parts_of(text, between)
    if found != parts:
        raise ValueError(
            f"the elements {shown(parts)} would be read as {shown(found)}, with {between!r} between two"
        )
    return text


def _field_writer(type_info: TypeInformation, options: CsvOptions, what: str) -> Callable[[Any], str]:
    null, between = options.null_literal or "", options.array_delimiter
    quote = options.quote
    quoted = str if quote is None else Quoter(options.field_delimiter, quote, options.escape)
    if isinstance(type_info, RowTypeInfo):
        fields_of, types = fields_reader(type_info), type_info.get_field_types()
        convert_all = each_field(
            type_info.get_field_names(), [_single_writer(field, what) for field in types]
        )

        def write_row(row: Any) -> str:
            parts = [null if text is None else text for text in convert_all(fields_of(row))]
            return quoted(between.join(parts) if parts == [""] else joined(parts, between))

        return write_row
    if isinstance(type_info, ElementsTypeInfo) and not is_bytes(type_info):
        element = _single_writer(type_info.elem_type, what)
        return lambda items: quoted(
            joined(
                [null if item is None else element(item) for item in elements_of(type_info, items)], between
            )
        )
    single = _single_writer(type_info, what)
    if type_info.kind in ("STRING", "CHAR", "SQL_TIMESTAMP", "SQL_DATE", "SQL_TIME", "INSTANT") or is_bytes(
        type_info
    ):
        return lambda value: quoted(single(value))
    return single


def _single_writer(type_info: TypeInformation, what: str) -> Callable[[Any], str]:
    if from_text(type_info) is None and not is_bytes(type_info):
        raise NotSupportedError(f"{what}: CSV has no form for {type_info.name} there")
    fit = type_info.fit
    if type_info.kind in ("STRING", "CHAR"):
        return fit
    text = cell_writer(type_info, _TIMES)
    return lambda value: text(fit(value))


def cell_writer(
    type_info: TypeInformation, times: Mapping[str, Callable[[Any], str]]
) -> Callable[[Any], str]:
    """What makes the text of a value of the type, without quotes.

    Args:
        times: the same for SQL_TIMESTAMP and INSTANT, which lines and files write in different ways.
    """
    if is_bytes(type_info):
        return bytes_text
    if isinstance(type_info, DecimalTypeInfo) and type_info.precision is not None:
        rounded = type_info.rounded
        return lambda value: format(rounded(value), "f")
    return times.get(type_info.kind) or _TEXTS.get(type_info.kind, str)


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"CSV has no form for {value}")
    return decimal_text(value)


_TEXTS: dict[str, Callable[[Any], str]] = {
    "BOOLEAN": lambda value: "true" if value else "false",
    "FLOAT": float_text,
    "DOUBLE": double_text,
    "BIG_DEC": _decimal,
    "SQL_TIME": time_text,
}
_TIMES: dict[str, Callable[[Any], str]] = {
    "SQL_TIMESTAMP": lambda value: timestamp_text(without_zone(value)),
    "INSTANT": lambda value: instant_text(value).replace("T", " "),
}


class Quoter:
    """Quotes what needs it, and long texts, as Flink's writer does: what lies below the delimiters in Unicode needs it.

    Args:
        delimiter: between fields, one character.
        escape: stands twice for itself; None for none.
    """

    def __init__(self, delimiter: str, quote: str, escape: str | None) -> None:
        last, special = max(delimiter, quote, "\r", "\n"), escape or "\\"
        # A byte order mark at its beginning would be left out.
        self._unsafe = re.compile(f"[\\0-{re.escape(last)}{re.escape(special)}{_BYTE_ORDER_MARK}]").search
        self._quote, self._escape = quote, escape

    def __call__(self, text: str) -> str:
        """The text as it is written."""
        if len(text) < _ALWAYS_QUOTED_FROM and not self._unsafe(text):
            return text
        quote, escape = self._quote, self._escape
        text = text.replace(quote, quote * 2)
        return f"{quote}{text if escape is None else text.replace(escape, escape * 2)}{quote}"

    def all_plain(self, texts: Sequence[str]) -> bool:
        """Whether all of these are written as they are."""
        return max(map(len, texts), default=0) < _ALWAYS_QUOTED_FROM and not self._unsafe("".join(texts))
