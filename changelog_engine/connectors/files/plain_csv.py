"""Plain lines of CSV as columns of values, by Arrow.

Invariants:
    * What it gives is what Python's csv module and the columns' readers give. Where it can't be sure of that it gives
      nothing: quoted cells, lines that don't fit, numbers that Arrow reads otherwise than Python.
    * A record is a line: no cell has a line end.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from changelog_engine.connectors.files.csv_values import CsvSchema, column_reader_of
from changelog_engine.formats.texts import of_32_bits

BYTE_ORDER_MARK = "\ufeff".encode()
_WHOLE = {"BYTE": pa.int8(), "SHORT": pa.int16(), "INT": pa.int32(), "LONG": pa.int64()}
_REAL = ("FLOAT", "DOUBLE")  # both are Python's float


class PlainColumns:
    """Reads the columns of plain lines; ``order`` has the cell of each."""

    def __init__(self, schema: CsvSchema, order: Sequence[int], width: int) -> None:
        self._order = [str(at) for at in order]
        self._signs = [sign.encode() for sign in (schema.quote, schema.escape) if sign is not None]
        self._comments = schema.comments
        self._kinds = [column.type_info.kind for column in schema.columns]
        self._whole = any(kind in _WHOLE for kind in self._kinds)
        self._readers: list[Callable[[Sequence[str]], list[Any]] | None] = [
            None if kind in _WHOLE or kind in _REAL else column_reader_of(schema, column)
            for kind, column in zip(self._kinds, schema.columns, strict=True)
        ]
        types = [_WHOLE.get(kind, pa.float64() if kind in _REAL else pa.string()) for kind in self._kinds]
        self._names = [str(at) for at in range(width)]
        self._parsing = pacsv.ParseOptions(delimiter=schema.separator, quote_char=False)
        self._converting = pacsv.ConvertOptions(
            check_utf8=False,  # all bytes are looked at before
            column_types=dict(zip(self._order, types, strict=True)),
            include_columns=list(dict.fromkeys(self._order)),
            null_values=["", *([] if schema.null_text is None else [schema.null_text])],
            strings_can_be_null=False,
        )

    def read(self, lines: bytes, longest: int) -> list[list[Any]] | None:
        """The values of whole lines, column by column; None where that is for Python's csv module.

        Args:
            longest: no line has more bytes.
        """
        if not self._plain(lines) or longest > csv.field_size_limit():
            return None
        if b"\r" in lines:
            lines = lines.replace(b"\r\n", b"\n")
            if b"\r" in lines:
                return None
        try:
            if not lines.isascii():
                lines.decode("utf-8")
            found = pacsv.read_csv(
                pa.BufferReader(lines),
                read_options=pacsv.ReadOptions(
                    use_threads=False, block_size=len(lines) + 1, column_names=self._names
                ),
                parse_options=self._parsing,
                convert_options=self._converting,
            )
            return [self._values(index, found.column(name)) for index, name in enumerate(self._order)]
        except ValueError:  # Arrow's, too
            return None

    def _plain(self, lines: bytes) -> bool:
        if any(sign in lines for sign in self._signs) or lines.startswith(BYTE_ORDER_MARK):
            return False
        if self._comments and (lines.startswith(b"#") or b"\n#" in lines or b"\r#" in lines):
            return False
        return not self._whole or not (b"0x" in lines or b"0X" in lines)  # a number to Arrow alone

    def _values(self, index: int, column: pa.ChunkedArray) -> list[Any]:
        if self._kinds[index] in _REAL and pc.all(pc.is_finite(column)).as_py() is False:
            raise ValueError("what is not finite has more than one spelling")
        values: list[Any] = column.to_pylist()
        if self._kinds[index] == "FLOAT":
            return [None if value is None else of_32_bits(value) for value in values]
        read = self._readers[index]
        return values if read is None else read(values)


def suits(schema: CsvSchema) -> bool:
    """Whether plain lines of a schema can be told from others."""
    return schema.separator.isascii() and schema.separator not in "\0\r\n"
