"""Which values a column takes as they are.

The driver refuses what a column cannot hold at all, and changes other values without a word: 2**53 + 1 for a ``double``,
microseconds of a ``timestamp``, None in a list, 3 for a ``blob``. Here those are found before anything is written. What is
exact for a number is decided by the engine's types.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sized
from decimal import Decimal
from typing import Any

import numpy as np

from changelog_engine.types import basic
from changelog_engine.types.foreign import has_nanoseconds
from changelog_engine.types.typeinfo import Misfit, TypeInformation, shown

_MISSING = object()
Check = Callable[[Any], str]  # why a value that is not None does not fit, and what to do; "" when it fits


def check_of(column_type: Any) -> Check | None:
    """What finds the values that the driver would change on their way into a column; None where it changes nothing.

    Args:
        column_type: the driver's class for the type.
    """
    name = column_type.typename
    if name in _CHECKS:
        return _CHECKS[name]
    parts = [check_of(part) for part in column_type.subtypes]
    if name in ("frozen", "org.apache.cassandra.db.marshal.ReversedType"):
        return parts[0]
    if name in ("list", "set"):
        return _of_sequence(parts[0], unique=name == "set")
    if name == "map":
        return _of_map(*parts)
    if name == "tuple":
        return _of_fields(parts, None)
    if hasattr(column_type, "tuple_type"):  # a user's type
        return _of_fields(parts, column_type.fieldnames)
    if name == "org.apache.cassandra.db.marshal.VectorType":
        return _of_sequence(check_of(column_type.subtype), unique=False)
    return None


def _number(of: TypeInformation, wider: str) -> Check:
    """A number that an engine's type holds exactly; that of 32 bits rounds floats, and so does the column."""

    def check(value: Any) -> str:
        if isinstance(value, (bool, np.bool_)):
            return "a bool is not a number: write int(value), or make the column boolean"
        try:
            of.fit(value)
        except Misfit as misfit:
            if misfit.why:  # else it is not a number, and the driver refuses it
                return f"the column does not hold it exactly: {wider}"
        return ""

    return check


def _whole_number(of: TypeInformation, wider: str) -> Check:
    number = _number(of, wider)

    def check(value: Any) -> str:
        return "" if isinstance(value, (float, Decimal)) else number(value)  # the driver refuses those

    return check


def _boolean(value: Any) -> str:
    try:
        basic.BOOLEAN.fit(value)
    except Misfit:
        return "it is not a bool: write True or False"
    return ""


def _blob(value: Any) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return ""
    return "it is not bytes: encode it first"


def _timestamp(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        if value.microsecond % 1000 or has_nanoseconds(value):
            return "the column has milliseconds: round it first, value.replace(microsecond=value.microsecond // 1000 * 1000)"
    elif isinstance(value, float) and not value.is_integer():
        return "the column has milliseconds: round it first, by round(value)"
    return ""


def _date(value: Any) -> str:
    if isinstance(value, bool):
        return "a bool is not a date"
    if isinstance(value, datetime.datetime):
        return "the column has no time of day: write value.date()"
    return ""


def _time(value: Any) -> str:
    if isinstance(value, bool):
        return "a bool is not a time"
    if isinstance(value, datetime.time) and value.tzinfo is not None:
        return "the column has no time zone: write value.replace(tzinfo=None)"
    return ""


def _inet(value: Any) -> str:
    if isinstance(value, (int, bytes)):
        return "it is not an IP address as a str, such as 10.0.0.1"
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return "it is not a whole IP address, such as 10.0.0.1"
    return ""


def _of_sequence(part: Check | None, unique: bool) -> Check:
    def check(value: Any) -> str:
        if isinstance(value, Mapping):
            return "it is a map, and its values would be lost"
        items: Any = value
        if not isinstance(value, Sized):
            return ""  # the driver refuses it
        for each in items:
            if why := _inside(part, each):
                return why
        if unique and not isinstance(value, (set, frozenset)):
            for each in _twice(items):
                return f"{shown(each)} is in it twice, and a set has it once: write set(value)"
        return ""

    return check


def _twice(items: Iterable[Any]) -> list[Any]:
    """The first item that equals one before it, if there is one."""
    values: list[Any] = list(items)
    with contextlib.suppress(TypeError):  # an item that has no hash
        if len(set(values)) == len(values):
            return []
    found: list[Any] = []
    for each in values:
        if each in found:
            return [each]
        found.append(each)
    return []


def _of_map(key: Check | None, part: Check | None) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, Mapping):
            return ""  # the driver refuses it
        return next(
            (why for pair in value.items() if (why := _inside(key, pair[0]) or _inside(part, pair[1]))), ""
        )

    return check


def _of_fields(parts: list[Check | None], names: tuple[str, ...] | None) -> Check:
    def check(value: Any) -> str:
        if isinstance(value, Mapping):
            return "it is a map: write a tuple with the fields in their order"
        if isinstance(value, (tuple, list)):
            if len(value) != len(parts):
                return f"it has {len(value)} fields and the type {len(parts)}: write None for those that have no value"
            fields = list(value)
        elif names is not None:
            fields = [getattr(value, name, _MISSING) for name in names]
            if missing := [name for name, field in zip(names, fields, strict=True) if field is _MISSING]:
                return f"it has no {missing[0]!r}"
        else:
            return ""  # the driver takes or refuses it
        for part, each in zip(parts, fields, strict=True):
            if each is not None and (why := _inside(part, each)):
                return why
        return ""

    return check


def _inside(part: Check | None, value: Any) -> str:
    if value is None:
        return "None cannot be inside: leave it out"
    why = "" if part is None else part(value)
    return why and f"{shown(value)} inside: {why}"


_ROUND = "or round it first, by float(value)"

_CHECKS: dict[str, Check | None] = {
    "tinyint": _whole_number(basic.BYTE, "make the column smallint or wider"),
    "smallint": _whole_number(basic.SHORT, "make the column int or wider"),
    "int": _whole_number(basic.INT, "make the column bigint or varint"),
    "bigint": _whole_number(basic.LONG, "make the column varint"),
    "counter": _whole_number(basic.LONG, "counters have 64 bits"),
    "varint": _whole_number(basic.BIG_INT, "make the column decimal"),
    "float": _number(basic.FLOAT, f"make the column double or decimal, {_ROUND}"),
    "double": _number(basic.DOUBLE, f"make the column varint or decimal, {_ROUND}"),
    "decimal": _number(basic.BIG_DEC, "write a decimal.Decimal"),
    "boolean": _boolean,
    "blob": _blob,
    "timestamp": _timestamp,
    "date": _date,
    "time": _time,
    "inet": _inet,
    **dict.fromkeys(("text", "varchar", "ascii", "uuid", "timeuuid", "duration")),
}
