"""Parquet footers put together: one that describes several whole Parquet files which lie one behind the other.

A footer is a struct in Thrift's compact protocol. It is read into plain lists whatever it holds, so that fields which this
engine does not know are kept; only places in the file are moved, and row groups numbered anew.

Invariants:
    * ``encoded(decoded(footer)) == footer``, for each footer that is taken; any other is an error.
    * No offset is left out: columns that have page indexes, bloom filters or encryption are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_MAGIC = b"PAR1"
_DEEPEST = 16
# Ids of fields in parquet.thrift.
_FILE_SCHEMA, _FILE_ROWS, _FILE_ROW_GROUPS, _FILE_METADATA = 2, 3, 4, 5
_GROUP_COLUMNS, _GROUP_OFFSET, _GROUP_ORDINAL = 1, 5, 7
_CHUNK_PATH, _CHUNK_OFFSET, _CHUNK_METADATA = 1, 2, 3
_CHUNK_KNOWN = {_CHUNK_PATH, _CHUNK_OFFSET, _CHUNK_METADATA}
_COLUMN_OFFSETS = (9, 10, 11)  # of data pages, index pages, dictionary pages
_COLUMN_BLOOM = (14, 15)

Field = tuple[int, int, Any]  # id, type, value; a struct is a list of them


class FooterError(ValueError):
    """A footer is not one that can be put together with others."""


def joined_footer(
    footers: Sequence[bytes], begins: Sequence[int], metadata: Mapping[str, str]
) -> tuple[bytes, int]:
    """One footer for several Parquet files with the same columns, each of which lies somewhere in a larger file.

    Args:
        footers: theirs, in the order in which they lie, without length and magic number.
        metadata: the key-value metadata of the whole.

    Returns:
        The footer with its length and the magic number, as it ends the larger file; and how many rows there are.

    Raises:
        FooterError: the columns of two files differ, or a footer holds what can't be moved.
    """
    files = [decoded(footer) for footer in footers]
    schema = _value(files[0], _FILE_SCHEMA)
    if any(_value(file, _FILE_SCHEMA) != schema for file in files):
        raise FooterError("the files have different columns")
    groups: list[list[Field]] = []
    for file, begin in zip(files, begins, strict=True):
        for group in _value(file, _FILE_ROW_GROUPS)[1]:
            groups.append(_moved_group(group, begin, len(groups)))
    rows = sum(_value(file, _FILE_ROWS) for file in files)
    pairs = [
        [(1, _BINARY, key.encode()), (2, _BINARY, value.encode())] for key, value in sorted(metadata.items())
    ]
    changed = {
        _FILE_ROWS: (_FILE_ROWS, _I64, rows),
        _FILE_ROW_GROUPS: (_FILE_ROW_GROUPS, _LIST, (_STRUCT, groups)),
        _FILE_METADATA: (_FILE_METADATA, _LIST, (_STRUCT, pairs)),
    }
    others = [field for field in files[0] if field[0] not in changed]
    footer = encoded(sorted([*others, *changed.values()], key=lambda field: field[0]))
    return footer + len(footer).to_bytes(4, "little") + _MAGIC, rows


def footer_bytes(file: bytes | memoryview) -> bytes:
    """The footer of a whole Parquet file, without length and magic number.

    Raises:
        FooterError: it does not end as a Parquet file does.
    """
    end = bytes(file[-8:])
    length = int.from_bytes(end[:4], "little")
    if len(end) != 8 or end[4:] != _MAGIC or length + 12 > len(file):
        raise FooterError("it does not end with a footer")
    return bytes(file[-8 - length : -8])


def decoded(footer: bytes) -> list[Field]:
    """A struct of Thrift's compact protocol as plain lists.

    Raises:
        FooterError: it is not a footer, or something follows it.
    """
    reader = _Reader(footer)
    try:
        found = reader.struct(0)
    except IndexError:
        raise FooterError("the footer is cut off") from None
    if reader.at != len(footer):
        raise FooterError("something follows the footer")
    return found


def encoded(struct: list[Field]) -> bytes:
    """The bytes of a struct, as ``decoded`` gave it."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def _value(struct: list[Field], number: int) -> Any:
    for field, _, value in struct:
        if field == number:
            return value
    raise FooterError(f"the footer has no field {number}")


def _moved_group(group: list[Field], by: int, ordinal: int) -> list[Field]:
    moved: list[Field] = []
    for number, kind, value in group:
        if number == _GROUP_COLUMNS:
            moved.append((number, kind, (value[0], [_moved_chunk(chunk, by) for chunk in value[1]])))
        elif number == _GROUP_OFFSET:
            moved.append((number, kind, value + by))
        elif number == _GROUP_ORDINAL:
            moved.append((number, kind, ordinal))
        else:
            moved.append((number, kind, value))
    return moved


def _moved_chunk(chunk: list[Field], by: int) -> list[Field]:
    moved: list[Field] = []
    for number, kind, value in chunk:
        if number not in _CHUNK_KNOWN or number == _CHUNK_PATH:
            raise FooterError(f"a column chunk has the field {number}, which can't be moved")
        if number == _CHUNK_OFFSET:
            moved.append((number, kind, value + by if value else value))
        else:
            moved.append((number, kind, [_moved_column(field, by) for field in value]))
    return moved


def _moved_column(field: Field, by: int) -> Field:
    number, kind, value = field
    if number in _COLUMN_BLOOM:
        raise FooterError("a column has a bloom filter, which can't be moved")
    return (number, kind, value + by) if number in _COLUMN_OFFSETS else field


class _Reader:
    """Reads a struct of the compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int) -> list[Field]:
        """A struct, up to its end."""
        if depth > _DEEPEST:
            raise FooterError("the footer is nested too deeply")
        fields: list[Field] = []
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            value = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
            fields.append((number, _TRUE if kind == _FALSE else kind, value))
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _LIST:
            head = self._byte()
            count, inner = head >> 4, head & 15
            count = self._unsigned() if count == 15 else count
            if count > len(self._data):
                raise FooterError("a list of the footer is longer than the footer")
            if inner in (_TRUE, _FALSE):
                return inner, [self._byte() for _ in range(count)]
            return inner, [self._value(inner, depth + 1) for _ in range(count)]
        if kind == _BYTE:
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        raise FooterError(f"the footer has a value of type {kind}, which Parquet does not use")

    def _byte(self) -> int:
        found = self._data[self.at]
        self.at += 1
        return found

    def _bytes(self, count: int) -> bytes:
        if self.at + count > len(self._data):
            raise FooterError("the footer is cut off")
        self.at += count
        return self._data[self.at - count : self.at]

    def _unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise FooterError("the footer has a number of more than 64 bits")

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)


def _write_struct(out: bytearray, struct: list[Field]) -> None:
    before = 0
    for number, kind, value in struct:
        written = (_TRUE if value else _FALSE) if kind == _TRUE else kind
        if 0 < number - before < 16:
            out.append((number - before) << 4 | written)
        else:
            out.append(written)
            _write_signed(out, number)
        before = number
        if kind != _TRUE:
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (_I16, _I32, _I64):
        _write_signed(out, value)
    elif kind == _BINARY:
        _write_unsigned(out, len(value))
        out += value
    elif kind == _STRUCT:
        _write_struct(out, value)
    elif kind == _LIST:
        inner, items = value
        if len(items) < 15:
            out.append(len(items) << 4 | inner)
        else:
            out.append(15 << 4 | inner)
            _write_unsigned(out, len(items))
        for item in items:
            if inner in (_TRUE, _FALSE):
                out.append(item)
            else:
                _write_value(out, inner, item)
    elif kind == _BYTE:
        out.append(value)
    else:
        out += value  # a double, as it was


def _write_signed(out: bytearray, value: int) -> None:
    _write_unsigned(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _write_unsigned(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
