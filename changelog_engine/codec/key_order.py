"""Keys as the bytes that Flink's serializers write: by them Flink sorts a keyed input in BATCH mode.

Each byte has a sign there, so 128 to 255 come before 0 to 127. The text "b" is two bytes, 2 and 98, for its length and one
more and its character: shorter texts come first.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from changelog_engine.codec.by_value import dumps
from changelog_engine.types import RowTypeInfo, TupleTypeInfo, TypeInformation

Writer = Callable[[Any], bytes]

# Sorted as numbers from 0, they come as with signs
_WITH_SIGN = bytes((byte + 128) % 256 for byte in range(256))
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000
_MORE = 128  # the bit of a byte that says that the number goes on


def order_of(type_info: TypeInformation) -> Callable[[Any], tuple[bool, bytes]] | None:
    """What keys of a type are sorted by, None the last one. For other types, whose keys stay as they came, None."""
    write = _writer(type_info)
    if write is None:
        return None
    return lambda key: (True, b"") if key is None else (False, write(key).translate(_WITH_SIGN))


def _writer(type_info: TypeInformation) -> Writer | None:
    if not isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return _WRITERS.get(type_info.kind)
    writers = [_writer(field) for field in type_info.get_field_types()]
    fields = [write for write in writers if write is not None]
    if len(fields) < len(writers):
        return None
    if isinstance(type_info, TupleTypeInfo):
        return lambda key: _fields(key, fields)
    return lambda key: _mask(key) + _fields(key, fields)


def _mask(row: Any) -> bytes:
    """A bit for each field, 1 for those without a value, behind two for the kind of the row."""
    bits = f"{row.get_row_kind().value:02b}"[::-1] + "".join("01"[value is None] for value in row)
    length = -(-len(bits) // 8)
    return int(bits.ljust(length * 8, "0"), 2).to_bytes(length, "big")


def _fields(values: Iterable[Any], writers: Sequence[Writer]) -> bytes:
    return b"".join([write(value) for write, value in zip(writers, values, strict=True) if value is not None])


def _number(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    found = bytearray()
    while value >= _MORE:
        found.append(value % _MORE | _MORE)
        value //= _MORE
    found.append(value)
    return bytes(found)


def _text(key: str) -> bytes:
    if key.isascii():
        return _number(len(key) + 1) + key.encode()
    characters = memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H")
    return _number(len(characters) + 1) + b"".join([_number(each) for each in characters])


def _pickled(key: Any) -> bytes:
    pickled = dumps(key)
    return struct.pack(">i", len(pickled)) + pickled


_WRITERS: dict[str, Writer] = {
    "STRING": _text,
    "BOOLEAN": struct.Struct(">?").pack,
    "BYTE": struct.Struct(">b").pack,
    "SHORT": struct.Struct(">h").pack,
    "INT": struct.Struct(">i").pack,
    "LONG": struct.Struct(">q").pack,
    "FLOAT": struct.Struct(">f").pack,
    "DOUBLE": struct.Struct(">d").pack,
    "SQL_DATE": lambda key: struct.pack(">q", (key.toordinal() - _EPOCH) * _DAY_MS),
    "PICKLED_BYTE_ARRAY": _pickled,
}
