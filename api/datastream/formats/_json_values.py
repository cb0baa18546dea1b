"""Values and their JSON: what parses and what writes a value of each type."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson

from changelog_engine.errors import NotSupportedError
from changelog_engine.types import Instant, RowTypeInfo, TypeInformation
from changelog_engine.types.row import Row, make_row

from ._texts import bytes_text, from_text, is_bytes, time_text

Convert = Callable[[Any], Any]

_WHOLE = frozenset({"BYTE", "SHORT", "INT", "LONG", "BIG_INT"})
_LISTS = frozenset({"LIST", "OBJECT_ARRAY", "BASIC_ARRAY", "PRIMITIVE_ARRAY"})


def reader(type_info: TypeInformation, what: str, fail_on_missing: bool = False) -> Convert:
    """What turns parsed JSON into a value; None stays None.

    Raises:
        NotSupportedError: a type that JSON has no form for.
    """
    kind = type_info.kind
    if isinstance(type_info, RowTypeInfo):
        return _row_reader(type_info, what, fail_on_missing)
    parse = from_text(type_info)
    if kind in _LISTS and not is_bytes(type_info):
        element = reader(type_info.elem_type, what, fail_on_missing)  # type: ignore[attr-defined]
        return lambda value: [None if item is None else element(item) for item in _expect(value, list)]
    if kind == "TUPLE":
        return _tuple_reader(type_info, what, fail_on_missing)
    if kind == "MAP" and type_info.key_type.kind == "STRING":  # type: ignore[attr-defined]
        element = reader(type_info.value_type, what, fail_on_missing)  # type: ignore[attr-defined]
        return lambda value: {
            key: None if item is None else element(item) for key, item in _expect(value, dict).items()
        }
    if parse is None:
        raise NotSupportedError(f"{what}: JSON has no form for {type_info.name}")
    if kind == "STRING":
        return lambda value: value if type(value) is str else _json(value)
    if kind in _WHOLE:
        return lambda value: parse(_whole(value))
    if kind == "BIG_DEC":
        return lambda value: parse(value if type(value) is str else repr(_number(value)))
    if kind in ("FLOAT", "DOUBLE"):
        return lambda value: float(value if type(value) is str else _number(value))
    if kind == "BOOLEAN":
        return lambda value: value if type(value) is bool else parse(_expect(value, str))
    return lambda value: parse(_expect(value, str))


def _row_reader(type_info: RowTypeInfo, what: str, fail_on_missing: bool) -> Convert:
    names = type_info.get_field_names()
    fields = [
        (name, reader(field, what, fail_on_missing))
        for name, field in zip(names, type_info.get_field_types(), strict=True)
    ]

    def read(value: Any) -> Row:
        if type(value) is not dict:
            raise ValueError(f"expected a JSON object, got {_kind_of(value)}")
        values = []
        for name, convert in fields:
            found = value.get(name)
            if found is None:
                if fail_on_missing and name not in value:
                    raise ValueError(f"field {name!r} is missing")
                values.append(None)
                continue
            try:
                values.append(convert(found))
            except (ValueError, KeyError, ArithmeticError) as error:
                raise ValueError(f"field {name!r}: {_reason(error)}") from None
        return make_row(names, values)

    return read


def _tuple_reader(type_info: Any, what: str, fail_on_missing: bool) -> Convert:
    fields = [reader(field, what, fail_on_missing) for field in type_info.get_field_types()]
    return lambda value: tuple(
        None if item is None else convert(item)
        for convert, item in zip(fields, _expect(value, list), strict=True)
    )


def writer(type_info: TypeInformation, what: str) -> Convert:
    """What turns a value into what orjson writes; None stays None.

    Raises:
        NotSupportedError: a type that JSON has no form for.
    """
    kind = type_info.kind
    if isinstance(type_info, RowTypeInfo):
        return _row_writer(type_info, what)
    if is_bytes(type_info):
        return bytes_text
    if kind in _LISTS:
        element = writer(type_info.elem_type, what)  # type: ignore[attr-defined]
        return lambda value: [None if item is None else element(item) for item in value]
    if kind == "TUPLE":
        fields = [writer(field, what) for field in type_info.get_field_types()]  # type: ignore[attr-defined]
        return lambda value: [
            None if item is None else convert(item) for convert, item in zip(fields, value, strict=True)
        ]
    if kind == "MAP" and type_info.key_type.kind == "STRING":  # type: ignore[attr-defined]
        element = writer(type_info.value_type, what)  # type: ignore[attr-defined]
        return lambda value: {key: None if item is None else element(item) for key, item in value.items()}
    if kind in ("BIG_INT", "LONG"):
        return lambda value: int(value) if -(2**63) <= value < 2**63 else orjson.Fragment(str(int(value)))
    if kind == "BIG_DEC":
        return lambda value: orjson.Fragment(format(Decimal(value), "f"))
    if kind in ("FLOAT", "DOUBLE"):
        return _real
    if kind == "SQL_TIME":
        return lambda value: f"{time_text(value)}Z"
    if kind == "SQL_TIMESTAMP":
        return _timestamp
    if kind == "INSTANT":
        return _instant
    if kind == "SQL_DATE":
        return datetime.date.isoformat
    if from_text(type_info) is None:
        raise NotSupportedError(f"{what}: JSON has no form for {type_info.name}")
    return lambda value: value


def _row_writer(type_info: RowTypeInfo, what: str) -> Convert:
    names = type_info.get_field_names()
    fields = [
        (name, writer(field, what)) for name, field in zip(names, type_info.get_field_types(), strict=True)
    ]

    def write(value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            value = [value[name] for name in names]
        if len(value) != len(fields):
            raise ValueError(f"a row of {len(value)} fields where {len(fields)} are declared")
        return {
            name: None if item is None else convert(item)
            for (name, convert), item in zip(fields, value, strict=True)
        }

    return write


def _real(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _timestamp(value: datetime.datetime) -> str:
    text = f"{value:%Y-%m-%dT%H:%M:%S}"
    fraction = f"{value.microsecond:06d}".rstrip("0")
    return f"{text}.{fraction}Z" if fraction else f"{text}Z"


def _instant(value: Instant) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value.seconds)
    fraction = f"{value.nanos:09d}".rstrip("0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{fraction}Z" if fraction else "Z")


def _expect(value: Any, wanted: type) -> Any:
    if type(value) is not wanted:
        names = {str: "a string", list: "an array", dict: "an object"}
        raise ValueError(f"expected {names[wanted]}, got {_kind_of(value)}")
    return value


def _whole(value: Any) -> str:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is str or type(value) is int:
        return str(value)
    raise ValueError(f"expected a whole number, got {_kind_of(value)}")


def _number(value: Any) -> int | float:
    if type(value) is int or type(value) is float:
        return value
    raise ValueError(f"expected a number, got {_kind_of(value)}")


def _kind_of(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return f"{_json(value)}"


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _reason(error: Exception) -> str:
    return f"cannot read {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
