"""Delta's types for ours, and ours for Delta's; partition values and their texts."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from changelog_engine.connectors.files.arrow_types import arrow_schema
from changelog_engine.errors import ConfigurationError, NotSupportedError, RefusedForGoodError
from changelog_engine.types import RowTypeInfo, TypeInformation, Types

_PARTITION_KINDS = frozenset({"STRING", "BYTE", "SHORT", "INT", "LONG", "BOOLEAN", "SQL_DATE"})
_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Callable[[], TypeInformation]], ...] = (
    (pa.types.is_string, Types.STRING),
    (pa.types.is_large_string, Types.STRING),
    (pa.types.is_string_view, Types.STRING),
    (pa.types.is_int8, Types.BYTE),
    (pa.types.is_int16, Types.SHORT),
    (pa.types.is_int32, Types.INT),
    (pa.types.is_int64, Types.LONG),
    (pa.types.is_float32, Types.FLOAT),
    (pa.types.is_float64, Types.DOUBLE),
    (pa.types.is_boolean, Types.BOOLEAN),
    (pa.types.is_decimal, Types.BIG_DEC),
    (pa.types.is_date32, Types.SQL_DATE),
    (pa.types.is_binary, lambda: Types.PRIMITIVE_ARRAY(Types.BYTE())),
    (pa.types.is_large_binary, lambda: Types.PRIMITIVE_ARRAY(Types.BYTE())),
    (pa.types.is_binary_view, lambda: Types.PRIMITIVE_ARRAY(Types.BYTE())),
)
_LENGTH = re.compile(rb"(?:var)?char\((\d+)\)", re.IGNORECASE)
_OF_TEXT: dict[str, Callable[[str], Any]] = {
    "BOOLEAN": lambda text: text == "true",
    "FLOAT": float,
    "DOUBLE": float,
    "BIG_DEC": Decimal,
    "SQL_DATE": datetime.date.fromisoformat,
    "STRING": str,
    "BYTE": int,
    "SHORT": int,
    "INT": int,
    "LONG": int,
}


def table_schema(row_type: RowTypeInfo) -> pa.Schema:
    """The columns of a Delta table for rows. Times of day do not exist there; instants have microseconds, rounded down.

    Raises:
        NotSupportedError: a field that Delta has no type for.
    """
    return pa.schema(
        [
            pa.field(field.name, plain_type(field.type, partial(_stored, name=field.name)))
            for field in arrow_schema(row_type, wide=True)
        ]
    )


def _stored(given: pa.DataType, name: str) -> pa.DataType:
    if pa.types.is_time(given):
        raise NotSupportedError(f"Delta has no times of day: map field {name!r} to a string or a number")
    return pa.timestamp("us", given.tz) if pa.types.is_timestamp(given) else given


def row_type_of(schema: pa.Schema) -> RowTypeInfo:
    """The rows of a table: named fields, with instants for timestamps of a zone.

    Raises:
        NotSupportedError: a column of a type that rows cannot have.
    """
    return Types.ROW_NAMED(schema.names, [_field_type(field.type, field.name) for field in schema])


def _field_type(given: pa.DataType, name: str) -> TypeInformation:
    for test, made in _PLAIN:
        if test(given):
            return made()
    if pa.types.is_timestamp(given):
        return Types.SQL_TIMESTAMP() if given.tz is None else Types.INSTANT()
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return Types.LIST(_field_type(given.value_type, name))
    if pa.types.is_map(given):
        return Types.MAP(_field_type(given.key_type, name), _field_type(given.item_type, name))
    if pa.types.is_struct(given):
        return Types.ROW_NAMED(
            [field.name for field in given], [_field_type(field.type, name) for field in given]
        )
    raise NotSupportedError(f"column {name!r} has the type {given}, which rows cannot hold; cast or drop it")


def read_schema(schema: pa.Schema) -> pa.Schema:
    """What a table's columns are read as, so that they become the values of `row_type_of`."""
    return pa.schema([pa.field(field.name, plain_type(field.type, _read_as)) for field in schema])


def _read_as(given: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(given):
        return pa.timestamp("us") if given.tz is None else pa.timestamp("ns", "UTC")
    return given


def plain_type(
    given: pa.DataType, other: Callable[[pa.DataType], pa.DataType] = lambda type_: type_
) -> pa.DataType:
    """A table's type without what does not matter: names of elements, which may be null, large offsets.

    Args:
        other: what becomes of the types in it that are neither nested, text nor bytes; by default they stay.
    """
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return pa.list_(plain_type(given.value_type, other))
    if pa.types.is_map(given):
        return pa.map_(plain_type(given.key_type, other), plain_type(given.item_type, other))
    if pa.types.is_struct(given):
        return pa.struct([pa.field(field.name, plain_type(field.type, other)) for field in given])
    if pa.types.is_large_string(given) or pa.types.is_string_view(given):
        return pa.string()
    if pa.types.is_large_binary(given) or pa.types.is_binary_view(given):
        return pa.binary()
    return other(given)


def longest_text(field: pa.Field) -> int | None:
    """How many characters a CHAR or VARCHAR column of Spark's may have; None for other columns."""
    found = _LENGTH.fullmatch((field.metadata or {}).get(b"__CHAR_VARCHAR_TYPE_STRING", b""))
    return None if found is None else int(found[1])


def needs_values(field: pa.Field) -> bool:
    """Whether a column, or a part of its values, must not be null."""
    return not field.nullable or any(needs_values(part) for part in _parts_of(field.type))


def null_in(column: pa.Array, field: pa.Field) -> str | None:
    """The path of a part of a column that is null and must not be; None where there is none.

    Args:
        column: the values, not a slice of an array.
    """
    if not field.nullable and column.null_count:
        return repr(field.name)
    column = column.drop_null()  # parts of what is null are nobody's
    if pa.types.is_struct(field.type):
        values = column.flatten()
    elif pa.types.is_map(field.type):
        values = [column.keys, column.items]
    else:
        values = [column.flatten()] if _parts_of(field.type) else []
    for part, inside in zip(_parts_of(field.type), values, strict=True):
        missing = null_in(inside, part)
        if missing is not None:
            return f"{missing} of {field.name!r}"
    return None


def _parts_of(given: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(given):
        return [given.key_field, given.item_field]
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return [given.value_field]
    return list(given) if pa.types.is_struct(given) else []


def checked_partitions(columns: Sequence[str], row_type: RowTypeInfo) -> list[str]:
    """Partition columns that can be.

    Raises:
        ConfigurationError: no such field, a type that texts of partitions cannot have, or no other column.
    """
    types = dict(zip(row_type.get_field_names(), row_type.get_field_types(), strict=True))
    for column in columns:
        if column not in types:
            raise ConfigurationError(
                f"there is no field {column!r} to partition by; there are {', '.join(types)}"
            )
        if types[column].kind not in _PARTITION_KINDS:
            raise ConfigurationError(
                f"a Delta table cannot be partitioned by {column!r}, which is {types[column].name}; "
                "take a string, a whole number, a boolean or a date"
            )
    if len(set(columns)) != len(columns) or len(columns) >= len(types):
        raise ConfigurationError(
            f"cannot partition by {', '.join(columns)}: name each once, and leave a column"
        )
    return list(columns)


def partition_values(
    partition: Mapping[str, str | None], names: Sequence[str], row_type: RowTypeInfo
) -> list[tuple[int, Any]]:
    """The fields' positions and values of the partition columns of a file."""
    known = row_type.get_field_names()
    types = row_type.get_field_types()
    found = []
    for name in names:
        if name not in partition:
            raise RefusedForGoodError(
                f"the log of the Delta table does not say which {name} a file has, by which it is partitioned"
            )
        text, position = partition[name], known.index(name)
        reader = _OF_TEXT.get(types[position].kind)
        if reader is None:
            raise NotSupportedError(
                f"the table is partitioned by {name!r}, which is {types[position].name}: this engine cannot read that"
            )
        found.append((position, None if text is None or text == "" else reader(text)))
    return found
