"""The cells of CSV files: texts that stand for typed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from changelog_engine.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from changelog_engine.formats.csv_lines import Quoter, cell_writer, joined, parts_of
from changelog_engine.formats.texts import cell_reader, instant_text, is_bytes, many_from_text
from changelog_engine.types import ElementsTypeInfo, Instant, TypeInformation
from changelog_engine.types.typeinfo import Misfit

_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7  # floats that Java writes as Python does


@dataclass(frozen=True)
class CsvColumn:
    """A column."""

    name: str
    type_info: TypeInformation
    separator: str | None = None  # between the elements of an array; None for single values


@dataclass(frozen=True)
class CsvSchema:
    r"""How rows look in a CSV file.

    Args:
        columns: in order.
        quote: round cells that hold other signs; None for none.
        escape: before a sign that stands for itself; None for none.
        line_end: of what is written; ``\n``, ``\r`` and ``\r\n`` all end what is read.
        null_text: the cell of a null; None: nulls are empty cells, and empty cells null but in columns of texts and arrays.
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
    parse, nothing = _parser(schema, column), _nulls_of(schema, column)
    return (lambda cell: None if cell in nothing else parse(cell)) if nothing else parse


def _nulls_of(schema: CsvSchema, column: CsvColumn) -> tuple[str, ...]:
    """The cells of a column that stand for null; an empty one of arrays is one without elements, as in Flink."""
    wanted = column.type_info
    is_array = isinstance(wanted, ElementsTypeInfo) and not is_bytes(wanted)
    return _nulls(schema.null_text, is_array or _is_text(wanted))


def _nulls(null: str | None, may_be_empty: bool) -> tuple[str, ...]:
    if null is None:
        return () if may_be_empty else ("",)
    return (null,) if may_be_empty or null == "" else ("", null)


def _is_text(wanted: TypeInformation) -> bool:
    return wanted.kind in ("STRING", "CHAR")


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
    parse, nothing = _parser(schema, column), _nulls_of(schema, column)
    return lambda cells: [None if cell in nothing else parse(cell) for cell in cells]


def _parser(schema: CsvSchema, column: CsvColumn) -> Callable[[str], Any]:
    wanted, between = column.type_info, column.separator or ""
    if not isinstance(wanted, ElementsTypeInfo) or is_bytes(wanted):
        return _single(wanted, column.name)
    single, nothing = (
        _single(wanted.elem_type, column.name),
        _nulls(schema.null_text, _is_text(wanted.elem_type)),
    )
    return lambda cell: [None if part in nothing else single(part) for part in parts_of(cell, between)]


def _single(wanted: TypeInformation, name: str) -> Callable[[str], Any]:
    found = cell_reader(wanted)
    if found is None:
        raise NotSupportedError(f"CSV column {name!r}: a cell cannot hold a value of type {wanted.name}")
    return found


def column_writer_of(
    schema: CsvSchema, column: CsvColumn, quotes: Quoter | None
) -> Callable[[Sequence[Any]], list[str]]:
    """What makes the cells of a column, in their quotes; None for none.

    It raises TypeMismatchError for a value that is not of the column's type, or that would be read as another one.
    """
    wanted, null, name = column.type_info, schema.null_text or "", column.name
    kind, fit, text = wanted.kind, wanted.fit, _text_of(schema, column)
    quoted = quotes if quotes is not None and kind not in _BARE else _same

    def write(values: Sequence[Any]) -> list[str]:
        if wanted.fits_all(list(values)):
            if kind in _WHOLE:
                return [str(value) for value in values]
            if kind == "DOUBLE" and _plain_floats(values):
                return [repr(value) for value in values]
            if kind == "STRING" and (quotes is None or quotes.all_plain(values)):
                return list(values)
        try:
            return [null if value is None else quoted(text(fit(value))) for value in values]
        except (Misfit, ValueError, ArithmeticError) as error:
            raise TypeMismatchError(f"CSV column {name!r}: {error}") from None

    return write


def _text_of(schema: CsvSchema, column: CsvColumn) -> Callable[[Any], str]:
    """What makes the text of a value of the column's type, without quotes."""
    wanted, between, null = column.type_info, column.separator or "", schema.null_text or ""
    if not isinstance(wanted, ElementsTypeInfo) or is_bytes(wanted):
        return cell_writer(wanted, _TIMES)
    single = cell_writer(wanted.elem_type, _TIMES)
    return lambda items: joined([null if item is None else single(item) for item in items], between)


def _same(text: str) -> str:
    return text


def _plain_floats(values: Sequence[float]) -> bool:
    """Whether Java writes all of these as Python does."""
    total = sum(values)
    return total == total and min(values) >= _PLAIN_FROM and max(values) < _PLAIN_BELOW


def _instant(value: Instant) -> str:
    day_and_time, _, fraction = instant_text(value).removesuffix("Z").replace("T", " ").partition(".")
    return f"{day_and_time}.{fraction.ljust(6, '0')}Z" if fraction else f"{day_and_time}Z"


_WHOLE = frozenset(("BYTE", "SHORT", "INT", "LONG", "BIG_INT"))
_BARE = _WHOLE | {"FLOAT", "DOUBLE", "BOOLEAN", "BIG_DEC"}  # cells that are never quoted
_TIMES: dict[str, Callable[[Any], str]] = {
    "SQL_TIMESTAMP": lambda value: str(value.isoformat(" ")),
    "INSTANT": _instant,
}
