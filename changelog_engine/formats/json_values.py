"""Values and their JSON: what parses and what writes a value of each type."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import orjson

from changelog_engine.errors import NotSupportedError
from changelog_engine.formats.parts import Convert, each_field, each_item, each_value, row_to_dict
from changelog_engine.formats.texts import (
    bytes_text,
    from_text,
    instant_text,
    is_bytes,
    of_32_bits,
    time_text,
    without_zone,
)
from changelog_engine.types import ElementsTypeInfo, MapTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation
from changelog_engine.types.basic import DOUBLE
from changelog_engine.types.composite import fields_of_tuple
from changelog_engine.types.java_text import decimal_text, double_text
from changelog_engine.types.row import Row, make_row, rows_of_columns

_WHOLE = frozenset({"BYTE", "SHORT", "INT", "LONG", "BIG_INT"})
_THEMSELVES = _WHOLE | {"STRING", "BOOLEAN"}
_EXACT_BELOW = 2**53  # of floats
_WORD = 2.0**63
_SHORT = frozenset((str, int, bool, type(None)))  # what cannot have been a longer number
_DIGITS = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_LONG_NUMBER = b"0" * 19
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7  # floats that Java writes without an exponent
_MOST_DIGITS = 4300  # as Python reads and writes


class Rounded(Exception):
    """A number may be a whole one of more than 64 bits that was parsed as a float: ``parsed_again`` has its digits."""


def parser(type_info: TypeInformation) -> Convert:
    """What parses JSON for the ``reader`` of a type: exactly, where numbers are not bounded by 64 bits."""
    return exact if holds_unbounded(type_info) else orjson.loads


def parsed_whole(message: bytes | str) -> Any:
    """As orjson parses, but whole numbers have all of their digits, for five times as much time."""
    return _parsed(message, float)


def parsed_again(message: bytes | str) -> Any:
    """What a ``reader`` takes that raised Rounded: as ``parsed_whole``, and all other numbers are Decimals."""
    return _parsed(message, lambda text: Decimal(repr(float(text))))


def may_be_rounded(lines: Sequence[str]) -> bool:
    """Whether lines of JSON may hold a whole number of more than 64 bits, which has 19 digits or more; in little time."""
    return _LONG_NUMBER in "\n".join(lines).encode().translate(_DIGITS)


def is_rounded(value: Any) -> bool:
    """Whether a value that orjson parsed may have been, or hold, a whole number of more than 64 bits."""
    kind = type(value)
    if kind is float:
        return bool(abs(value) >= _WORD)
    if kind is dict:
        value = value.values()
    elif kind is not list:
        return False
    return not _SHORT.issuperset(map(type, value)) and any(map(is_rounded, value))  # drives our own code


def holds_unbounded(part: object) -> bool:
    """Whether a type, or one of its parameters, is of numbers that may have more digits than a float."""
    if isinstance(part, TypeInformation):
        return part.kind in ("BIG_INT", "BIG_DEC") or holds_unbounded(part.parameters())
    return isinstance(part, tuple) and any(holds_unbounded(one) for one in part)


def exact(message: bytes | str) -> Any:
    """Parse JSON with all digits of all numbers: those with a fraction or an exponent become Decimals."""
    return _parsed(message, Decimal)


def _parsed(message: bytes | str, parse_float: Callable[[str], Any]) -> Any:
    text = message if isinstance(message, str) else str(message, "utf-8")
    try:
        return json.loads(text, parse_float=parse_float, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON; write it as a string")


def reader(
    type_info: TypeInformation, what: str, fail_on_missing: bool = False, ignoring: bool = False
) -> Convert:
    """What turns parsed JSON into a value; None stays None.

    Args:
        fail_on_missing: whether a row's fields must all be there.
        ignoring: a part that cannot be read is None, whatever holds it is read.

    Raises:
        NotSupportedError: a type that JSON has no form for.
    """
    kind = type_info.kind
    if isinstance(type_info, RowTypeInfo):
        return _row_reader(type_info, what, fail_on_missing, ignoring)
    parse = from_text(type_info)
    if isinstance(type_info, ElementsTypeInfo) and not is_bytes(type_info):
        element = _part_reader(type_info.elem_type, what, fail_on_missing, ignoring)
        return lambda value: [None if item is None else element(item) for item in _expect(value, list)]
    if isinstance(type_info, TupleTypeInfo):
        return _tuple_reader(type_info, what, fail_on_missing, ignoring)
    if isinstance(type_info, MapTypeInfo) and type_info.key_type.kind == "STRING":
        element = _part_reader(type_info.value_type, what, fail_on_missing, ignoring)
        return lambda value: {
            key: None if item is None else element(item) for key, item in _expect(value, dict).items()
        }
    if parse is None:
        raise NotSupportedError(f"{what}: JSON has no form for {type_info.name}")
    if kind == "STRING":
        return lambda value: value if type(value) is str else _text(value)
    if kind in _WHOLE:
        return lambda value: parse(_whole(value))
    if kind == "BIG_DEC":
        return lambda value: parse(value if type(value) is str else str(_number(value)))
    if kind == "DOUBLE":
        return lambda value: parse(value) if type(value) is str else _float(value)
    if kind == "FLOAT":
        return lambda value: parse(value) if type(value) is str else of_32_bits(_float(value))
    if kind == "BOOLEAN":
        return lambda value: value if type(value) is bool else parse(_truth(value))
    return lambda value: parse(_expect(value, str))


def _part_reader(type_info: TypeInformation, what: str, fail_on_missing: bool, ignoring: bool) -> Convert:
    """The reader of what is a part of another value."""
    convert = reader(type_info, what, fail_on_missing, ignoring)
    if not ignoring:
        return convert

    def read(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, KeyError, ArithmeticError):
            return None

    return read


def _row_reader(type_info: RowTypeInfo, what: str, fail_on_missing: bool, ignoring: bool) -> Convert:
    names = type_info.get_field_names()
    fields = [
        (name, _part_reader(field, what, fail_on_missing, ignoring))
        for name, field in zip(names, type_info.get_field_types(), strict=True)
    ]

    def read(value: Any) -> Row:
        if type(value) is not dict:
            raise ValueError(f"expected a JSON object, got {_kind_of(value)}")
        values: list[Any] = []
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


def rows_reader(
    type_info: RowTypeInfo, what: str, fail_on_missing: bool = False, ignoring: bool = False
) -> Callable[[list[Any]], list[Row]]:
    """As ``reader``, for many rows at once; which of them is wrong it doesn't say.

    Raises:
        NotSupportedError: a type that JSON has no form for.
    """
    names = type_info.get_field_names()
    fields = [
        (name, field, _part_reader(field, what, fail_on_missing, ignoring))
        for name, field in zip(names, type_info.get_field_types(), strict=True)
    ]

    def read(values: list[Any]) -> list[Row]:
        if not names or not {dict}.issuperset(map(type, values)):
            raise ValueError("not all of them are objects with fields")
        columns = []
        for name, field, convert in fields:
            column = [value.get(name) for value in values]
            there = [found for found in column if found is not None] if None in column else column
            if fail_on_missing and len(there) < len(column) and not all(name in value for value in values):
                raise ValueError(f"field {name!r} is missing")
            if there and not _stand_for_themselves(field, there):
                column = [None if found is None else convert(found) for found in column]
            columns.append(column)
        return rows_of_columns(names, columns)

    return read


def _stand_for_themselves(type_info: TypeInformation, values: list[Any]) -> bool:
    """Whether all these are what their ``reader`` makes of them."""
    kind = type_info.kind
    if kind == "DOUBLE":
        return {float}.issuperset(map(type, values)) and all(map(math.isfinite, values))
    return kind in _THEMSELVES and type_info.fits_all(values)


def _tuple_reader(type_info: TupleTypeInfo, what: str, fail_on_missing: bool, ignoring: bool) -> Convert:
    fields = [_part_reader(field, what, fail_on_missing, ignoring) for field in type_info.get_field_types()]
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
        return row_to_dict(type_info, lambda field: writer(field, what))
    fit = type_info.fit
    if is_bytes(type_info):
        return lambda value: bytes_text(fit(value))
    if isinstance(type_info, ElementsTypeInfo):
        return each_item(type_info, writer(type_info.elem_type, what))
    if isinstance(type_info, TupleTypeInfo):
        types = type_info.get_field_types()
        names = [f"f{number}" for number in range(len(types))]
        convert_all = each_field(names, [writer(field, what) for field in types])
        return lambda value: convert_all(fields_of_tuple(type_info, value))
    if isinstance(type_info, MapTypeInfo) and type_info.key_type.kind == "STRING":
        return each_value(writer(type_info.value_type, what))
    if from_text(type_info) is None:
        raise NotSupportedError(f"{what}: JSON has no form for {type_info.name}")
    if kind == "FLOAT":
        fit = DOUBLE.fit  # as it was given, not with the digits of its 32 bits
    form = _FORMS.get(kind)
    return fit if form is None else lambda value: form(fit(value))


def _unbounded(value: int) -> int | orjson.Fragment:
    return value if -(2**63) <= value < 2**63 else orjson.Fragment(str(value))


def _decimal(value: Decimal) -> orjson.Fragment:
    if not value.is_finite():
        raise ValueError(f"JSON has no form for {value}")
    return orjson.Fragment(decimal_text(value))


def _real(value: float) -> float | str | orjson.Fragment:
    if _PLAIN_FROM <= abs(value) < _PLAIN_BELOW or value == 0:
        return value
    text = double_text(value)
    return orjson.Fragment(text) if math.isfinite(value) else text


def _timestamp(value: datetime.datetime) -> str:
    value = without_zone(value)
    text = value.isoformat(timespec="seconds")
    fraction = f"{value.microsecond:06d}".rstrip("0")
    return f"{text}.{fraction}Z" if fraction else f"{text}Z"


_FORMS: dict[str, Convert] = {
    "BIG_INT": _unbounded,
    "BIG_DEC": _decimal,
    "FLOAT": _real,
    "DOUBLE": _real,
    "SQL_DATE": datetime.date.isoformat,
    "SQL_TIME": lambda value: f"{time_text(value)}Z",
    "SQL_TIMESTAMP": _timestamp,
    "INSTANT": instant_text,
}


def _expect(value: Any, wanted: type) -> Any:
    if type(value) is not wanted:
        names: dict[type, str] = {str: "a string", list: "an array", dict: "an object"}
        raise ValueError(f"expected {names[wanted]}, got {_kind_of(value)}")
    return value


def _truth(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"expected true or false, got {_kind_of(value)}")
    return value


def _whole(value: Any) -> str:
    if type(value) is float and value.is_integer():
        if abs(value) >= _EXACT_BELOW:
            raise ValueError(f"{value!r} may have been rounded; write it without fraction and exponent")
        value = int(value)
    elif type(value) is Decimal and value.adjusted() < _MOST_DIGITS and value == value.to_integral_value():
        value = int(value)
    if type(value) is str or type(value) is int:
        return str(value)
    raise ValueError(f"expected a whole number, got {_kind_of(value)}")


def _float(value: Any) -> float:
    number = float(_number(value))
    if math.isinf(number):
        raise ValueError(f"{value} is too large for 64 bits")
    return number


def _number(value: Any) -> int | float | Decimal:
    if type(value) is int or type(value) is float or type(value) is Decimal:
        return value
    raise ValueError(f"expected a number, got {_kind_of(value)}")


def _kind_of(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return f"{_json(value)}"


def _text(value: Any) -> str:
    if is_rounded(value):
        raise Rounded
    return _json(value)


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value, default=_decimal).decode()
    except TypeError:  # a whole number of more than 64 bits
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=float)


def _reason(error: Exception) -> str:
    return f"cannot read {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
