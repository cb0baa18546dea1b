"""Avro schemas as types, and records as rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changelog_engine.formats.parts import Convert, each_item, each_value, row_to_dict
from changelog_engine.formats.texts import without_zone
from changelog_engine.types import MapTypeInfo, ObjectArrayTypeInfo, RowTypeInfo, TypeInformation, Types
from changelog_engine.types.row import Row, make_row

_SINGLE: dict[str, Callable[[], TypeInformation]] = {
    "string": Types.STRING,
    "enum": Types.STRING,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "boolean": Types.BOOLEAN,
}
_LOGICAL: dict[str, Callable[[], TypeInformation]] = {
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.SQL_TIMESTAMP,
    "timestamp-micros": Types.SQL_TIMESTAMP,
    "local-timestamp-millis": Types.SQL_TIMESTAMP,
    "local-timestamp-micros": Types.SQL_TIMESTAMP,
    "decimal": Types.BIG_DEC,
}


def type_of(schema: Any) -> TypeInformation:
    """The type of what an Avro schema (parsed, with names in full) describes; pickled for unions of several types."""
    return _type_of(schema, {})


def _type_of(schema: Any, named: dict[str, Any]) -> TypeInformation:
    if isinstance(schema, list):
        several = [each for each in schema if each != "null"]
        return _type_of(several[0], named) if len(several) == 1 else Types.PICKLED_BYTE_ARRAY()
    kind: Any
    if isinstance(schema, str):
        if schema in named:
            found = named[schema]
            return Types.PICKLED_BYTE_ARRAY() if found is None else _type_of(found, named)
        kind, logical = schema, None
    else:
        kind, logical = schema["type"], schema.get("logicalType")
    if logical in _LOGICAL:
        return _LOGICAL[logical]()
    if kind == "record":
        named[schema["name"]] = None  # a record inside of itself has no type
        types = [_type_of(field["type"], named) for field in schema["fields"]]
        named[schema["name"]] = schema
        return Types.ROW_NAMED([field["name"] for field in schema["fields"]], types)
    if kind in ("enum", "fixed"):
        named[schema["name"]] = schema
    if kind == "array":
        return Types.OBJECT_ARRAY(_type_of(schema["items"], named))
    if kind == "map":
        return Types.MAP(Types.STRING(), _type_of(schema["values"], named))
    if kind in ("bytes", "fixed"):
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if isinstance(kind, dict | list):
        return _type_of(kind, named)
    return _SINGLE[kind]() if kind in _SINGLE else Types.PICKLED_BYTE_ARRAY()


def from_avro(type_info: TypeInformation) -> Convert:
    """What turns a value that fastavro read into one of the type."""
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        fields = [
            (name, from_avro(each)) for name, each in zip(names, type_info.get_field_types(), strict=True)
        ]

        def read(record: Any) -> Row:
            return make_row(
                names, [None if record[name] is None else convert(record[name]) for name, convert in fields]
            )

        return read
    if type_info.kind == "SQL_TIMESTAMP":
        return without_zone
    return _by_parts(type_info, from_avro)


def to_avro(type_info: TypeInformation) -> Convert:
    """What turns a value of the type into one of Avro: rows become dicts; see ``avro_records`` for what they may hold."""
    return (
        row_to_dict(type_info, to_avro)
        if isinstance(type_info, RowTypeInfo)
        else _by_parts(type_info, to_avro)
    )


def _by_parts(type_info: TypeInformation, convert_of: Callable[[TypeInformation], Convert]) -> Convert:
    if isinstance(type_info, ObjectArrayTypeInfo):
        return each_item(type_info, convert_of(type_info.elem_type))
    if isinstance(type_info, MapTypeInfo):
        return each_value(convert_of(type_info.value_type))
    return lambda value: value
