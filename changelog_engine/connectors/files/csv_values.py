"""The cells of CSV files: texts that stand for typed values."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from changelog_engine.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from changelog_engine.formats.csv_lines import Quoter
from changelog_engine.formats.texts import cell_reader, is_bytes, many_from_text
from changelog_engine.types import DecimalTypeInfo, ElementsTypeInfo, Instant, TypeInformation
from changelog_engine.types.java_text import double_text, float_text
from changelog_engine.types.typeinfo import Misfit

_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7  # floats that Java writes as Python does
_WHOLE_BITS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}


@dataclass(frozen=True)
class CsvColumn:
    """A column.

    Args:
        name: of the field.
        type_info: of its values.
        separator: between the elements of an array; None for single values.
    """

    name: str
    type_info: TypeInformation
    separator: str | None = None


@dataclass(frozen=True)
class CsvSchema:
    r"""How rows look in a CSV file.

    Args:
        columns: in order.
        separator: between cells.
        quote: round cells that hold other signs; None for none.
        escape: before a sign that stands for itself; None for none.
        line_end: of what is written; ``\n``, ``\r`` and ``\r\n`` all end what is read.
        null_text: the cell of a null; None: nulls are written as empty cells, and empty cells are null unless a text.
        header: the first line names the columns. What is read goes by these names, what is written has them.
        strict_header: the header must name exactly the columns, in order.
        skip_first: the first line (after the header) is left out of what is read.
        comments: lines that begin with ``#`` are left out of what is read.

    Raises:
        ConfigurationError: no columns, or signs that cannot be used.
    """

    columns: tuple[CsvColumn, ...]
    separator: str = ","
    quote: str | None = '"'
    escape: str | None = None
    line_end: str = "\n"
    null_text: str | None = None
    header: bool = False
    strict_header: bool = False
    skip_first: bool = False
    comments: bool = False

    def __post_init__(self) -> None:
        if not self.columns:
            raise ConfigurationError("a CSV schema needs at least one column")
        names = self.names
        if len(set(names)) != len(names):
            raise ConfigurationError(f"a CSV schema's columns must have different names, got {names}")
        for column in self.columns:
            reader_of(self, column)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    def dialect(self) -> dict[str, Any]:
        """For Python's csv module."""
        import csv

        return {
            "delimiter": self.separator,
            "quotechar": self.quote,
            "quoting": csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL,
            "escapechar": self.escape,
            "strict": True,
        }


def reader_of(schema: CsvSchema, column: CsvColumn) -> Callable[[str], Any]:
    """What makes a column's value of a cell; it raises ValueError for a cell that holds no such value.

    Raises:
        NotSupportedError: a type that no cell can hold.
    """
    parse, nothing = _parser(column), _nulls_of(schema, column)
    return (lambda cell: None if cell in nothing else parse(cell)) if nothing else parse


def _nulls_of(schema: CsvSchema, column: CsvColumn) -> tuple[str, ...]:
    """The cells of a column that stand for null."""
    null, is_text = schema.null_text, column.type_info.kind in ("STRING", "CHAR")
    if null is None:
        return () if is_text else ("",)
    return (null,) if is_text or null == "" else ("", null)


def column_reader_of(schema: CsvSchema, column: CsvColumn) -> Callable[[Sequence[str]], list[Any]]:
    """As `reader_of`, for many cells at once."""
    read = reader_of(schema, column)
    kind = column.type_info.kind
    if read is str:
        return list
    many = many_from_text(column.type_info)
    if schema.null_text in (None, "") and kind != "STRING" and many is not None:

        def numbers(cells: Sequence[str]) -> list[Any]:
            try:
                return many(cells)
            except ValueError:  # a null, or an error
                return [read(cell) for cell in cells]

        return numbers
    parse, nothing = _parser(column), _nulls_of(schema, column)
    return lambda cells: [None if cell in nothing else parse(cell) for cell in cells]


def _parser(column: CsvColumn) -> Callable[[str], Any]:
    wanted = column.type_info
    if isinstance(wanted, ElementsTypeInfo):
        element = _single(wanted.elem_type, column.name)
        separator = column.separator
        if not separator:
            return lambda cell: [element(cell)]
        return lambda cell: [element(item) for item in cell.split(separator)] if cell else []
    return _single(wanted, column.name)


def _single(wanted: TypeInformation, name: str) -> Callable[[str], Any]:
    found = None if is_bytes(wanted) else cell_reader(wanted)
    if found is None:
        raise NotSupportedError(f"CSV column {name!r}: a cell cannot hold a value of type {wanted.name}")
    return found


def cell_writer_of(schema: CsvSchema, column: CsvColumn) -> Callable[[Any], Any] | None:
    """What makes the cell of a value; None where Python's csv module does it right."""
    kind, null = column.type_info.kind, schema.null_text or ""
    rounded = _rounded(column)
    if isinstance(column.type_info, ElementsTypeInfo):
        separator = column.separator or ""
        return lambda value: (
            null if value is None else separator.join([_plain(rounded(item)) for item in value])
        )
    if rounded is not _same:
        return lambda value: null if value is None else rounded(value)
    if not null and (kind in ("STRING", "CHAR", "FLOAT", "DOUBLE", "BIG_DEC") or kind in _WHOLE_BITS):
        return None
    return lambda value: null if value is None else value if type(value) is str else _plain(value)


def column_writer_of(
    schema: CsvSchema, column: CsvColumn, quotes: Quoter
) -> Callable[[Sequence[Any]], list[str]]:
    """What makes the cells of a column, in their quotes."""
    kind, null, separator = column.type_info.kind, schema.null_text or "", column.separator or ""
    is_array = isinstance(column.type_info, ElementsTypeInfo)
    real = float_text if kind == "FLOAT" else double_text

    rounded = _rounded(column)
    if rounded is not _same and not is_array:
        return lambda values: [null if value is None else rounded(value) for value in values]

    def single(value: Any) -> str:
        value = rounded(value)
        if type(value) is float:
            return repr(value) if _PLAIN_FROM <= value < _PLAIN_BELOW and kind != "FLOAT" else real(value)
        return _plain(value)

    def cell(value: Any) -> str:
        if value is None:
            return null
        if type(value) is str:
            return quotes(value)
        if is_array:
            return quotes(separator.join([single(item) for item in value]))
        return single(value) if isinstance(value, bool | int | float | Decimal) else quotes(_plain(value))

    def write(values: Sequence[Any]) -> list[str]:
        if {int}.issuperset(map(type, values)):
            return [str(value) for value in values]
        if kind == "DOUBLE" and {float}.issuperset(map(type, values)) and _plain_floats(values):
            return [repr(value) for value in values]
        if {str}.issuperset(map(type, values)) and quotes.all_plain(values):
            return list(values)
        return [cell(value) for value in values]

    return write


def _rounded(column: CsvColumn) -> Callable[[Any], Any]:
    """What makes the rounded text of a column's value, or of its lists' elements; `_same` where nothing is rounded."""
    wanted = column.type_info
    single = wanted.elem_type if isinstance(wanted, ElementsTypeInfo) else wanted
    if not isinstance(single, DecimalTypeInfo) or single.precision is None:
        return _same
    fit, rounded = single.fit, single.rounded

    def text(value: Any) -> str | None:
        try:
            return None if value is None else format(rounded(fit(value)), "f")
        except (Misfit, ValueError) as error:
            raise TypeMismatchError(f"CSV column {column.name!r}: {error}") from None

    return text


def _same(value: Any) -> Any:
    return value


def _plain_floats(values: Sequence[float]) -> bool:
    """Whether Java writes all of these as Python does."""
    total = sum(values)
    return total == total and min(values) >= _PLAIN_FROM and max(values) < _PLAIN_BELOW


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, Instant):
        time = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
        micros, rest = divmod(value.nanos, 1000)
        fraction = f".{value.nanos:09d}" if rest else f".{micros:06d}" if micros else ""
        return f"{time}{fraction}Z"
    return str(value)
