"""Values as fastavro writes them, which by itself changes some without a word.

It cuts 1.5 to 1, takes any object for a boolean and a str for an array of its characters, leaves a field out that a record
inside of another has too many, and takes a datetime without a zone for one of the machine's zone.

Invariants:
    * What is written stands for what was given, or an error names the field.
    * A datetime without a zone is in UTC, as in all formats.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from changelog_engine.formats.parts import Convert
from changelog_engine.formats.texts import time_of_utc, without_zone
from changelog_engine.types import TypeInformation, Types
from changelog_engine.types.typeinfo import Misfit, shown

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_ANYTHING = Types.PICKLED_BYTE_ARRAY()
_ITEMS, _ENTRIES = Types.LIST(_ANYTHING), Types.MAP(Types.STRING(), _ANYTHING)
_PRIMITIVES: dict[str, TypeInformation] = {
    "boolean": Types.BOOLEAN(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "string": Types.STRING(),
    "bytes": _BYTES,
    "fixed": _BYTES,
}
_TYPE_OF_RECORD = "-type"  # a key by which fastavro tells the records of a union apart
_Named = dict[str, Convert]  # full name of a type -> its conversion


def to_write(schema: Any) -> Convert:
    """What turns a value of a schema into one that fastavro writes as it is.

    Records are dicts; fields that have a default, or may be null, need not be there, and are then in what is returned. Which
    schema of several a value has is left to fastavro, which tries them.

    Args:
        schema: as fastavro has parsed it, or as JSON where names of types are written out in full.

    Returns:
        A function that raises Misfit or ValueError for a value that does not fit.
    """
    return _of(schema, {})


def _of(schema: Any, named: _Named) -> Convert:
    if isinstance(schema, list):
        return _of_union(schema, named)
    if isinstance(schema, str):
        if schema == "null":
            return _nothing
        wanted = _PRIMITIVES.get(schema)
        return (lambda value: named[schema](value)) if wanted is None else wanted.fit
    kind = schema["type"]
    if kind in ("record", "error"):
        return _of_record(schema, named)
    if kind == "array":
        return _of_array(_of(schema["items"], named))
    if kind == "map":
        return _of_map(_of(schema["values"], named))
    if kind == "enum":
        named[schema["name"]] = symbol = _of_enum(schema["symbols"])
        return symbol
    logical = _LOGICAL.get(schema.get("logicalType", ""))
    convert = _of(kind, named) if logical is None else _first(logical, _of(kind, named))
    if kind == "fixed":
        named[schema["name"]] = convert
    return convert


def _of_union(schemas: list[Any], named: _Named) -> Convert:
    members = [_of(each, named) for each in schemas if each != "null"]
    if len(members) != 1:
        return lambda value: _zoned(value) if isinstance(value, datetime.datetime) else value
    (only,) = members
    return only if len(schemas) == 1 else lambda value: None if value is None else only(value)


def _of_record(schema: Any, named: _Named) -> Convert:
    fields: list[tuple[str, Convert, type | None, bool, Any]] = []
    known = {_TYPE_OF_RECORD, *(field["name"] for field in schema["fields"])}

    def write(value: Any) -> Any:
        if isinstance(value, tuple):
            return value  # of a union: the name of a record, and the record
        if type(value) is not dict and not isinstance(value, Mapping):
            raise ValueError(f"{shown(value)} is not a dict")
        if not value.keys() <= known:
            unknown = sorted([str(name) for name in value.keys() - known])
            raise ValueError(f"it has {', '.join(unknown)}, and the schema not")
        found = {_TYPE_OF_RECORD: value[_TYPE_OF_RECORD]} if _TYPE_OF_RECORD in value else {}
        for name, convert, as_it_is, has_default, default in fields:
            item = value.get(name)
            if type(item) is as_it_is:
                found[name] = item
                continue
            if item is None and has_default and name not in value:
                found[name] = default
                continue
            try:
                found[name] = convert(item)
            except (Misfit, ValueError) as error:
                raise ValueError(f"field {name!r}: {error}") from None
        return found

    named[schema["name"]] = write
    for field in schema["fields"]:
        kind = field["type"]
        with_default = "default" in field, field.get("default")
        fields.append((field["name"], _of(kind, named), _class_that_fits(kind), *with_default))
    return write


def _class_that_fits(kind: Any) -> type | None:
    """The class of which every object is written as it is, if there is one."""
    if isinstance(kind, list):
        members = [each for each in kind if each != "null"]
        return _class_that_fits(members[0]) if len(members) == 1 else None
    wanted = _PRIMITIVES.get(kind) if isinstance(kind, str) else None
    return None if wanted is None else wanted.sure


def _of_array(item: Convert) -> Convert:
    return lambda value: [item(each) for each in (value if type(value) is list else _ITEMS.fit(value))]


def _of_enum(symbols: list[str]) -> Convert:
    def write(value: Any) -> Any:
        if value not in symbols:
            raise ValueError(f"{shown(value)} is none of {', '.join(symbols)}")
        return value

    return write


def _of_map(item: Convert) -> Convert:
    return lambda value: {key: item(each) for key, each in _ENTRIES.fit(value).items()}


def _nothing(value: Any) -> None:
    if value is not None:
        raise ValueError(f"{shown(value)} is not null")


def _first(logical: Callable[[Any], Any], plain: Convert) -> Convert:
    """What a logical type makes of objects of its own; all else must be of the type below it."""

    def write(value: Any) -> Any:
        found = logical(value)
        return plain(value) if found is None else found

    return write


def _zoned(value: datetime.datetime | np.datetime64) -> datetime.datetime:
    fitted = value if type(value) is datetime.datetime else Types.SQL_TIMESTAMP().fit(value)
    return fitted if fitted.tzinfo is not None else fitted.replace(tzinfo=datetime.UTC)


def _moment(value: Any) -> Any:
    return _zoned(value) if isinstance(value, (datetime.datetime, np.datetime64)) else None


def _local(value: Any) -> Any:
    moment = isinstance(value, (datetime.datetime, np.datetime64))
    return without_zone(Types.SQL_TIMESTAMP().fit(value)) if moment else None


def _day(value: Any) -> Any:
    if isinstance(value, str):
        return datetime.date.fromisoformat(value)
    return Types.SQL_DATE().fit(value) if isinstance(value, (datetime.date, np.datetime64)) else None


def _time(value: Any) -> Any:
    return time_of_utc(value) if isinstance(value, datetime.time) else None


def _as_it_is(value: Any) -> Any:
    return value  # fastavro looks at it itself


_LOGICAL: dict[str, Callable[[Any], Any]] = {
    "timestamp-millis": _moment,
    "timestamp-micros": _moment,
    "local-timestamp-millis": _local,
    "local-timestamp-micros": _local,
    "date": _day,
    "time-millis": _time,
    "time-micros": _time,
    "decimal": _as_it_is,
    "uuid": _as_it_is,
}
