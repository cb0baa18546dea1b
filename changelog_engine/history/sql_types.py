"""Declared types as SQL types, in two dialects side by side: Spark's, and Arrow's, which DuckDB takes.

Of each there is the name of the type, and what turns the log's JSON text into values of it: SQL, and a function.

Invariants:
    * An expression never fails: what does not fit its type is null, and the text stands in a column beside it.
    * Nothing is rounded: a decimal with too many digits is null. Only an INSTANT loses what is below a microsecond.

An *item* is JSON text of a list or map as it is, and any other JSON value as plain text: strings without their quotes. It is
what Spark's ``from_json`` gives for the elements of an ``array<string>``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from changelog_engine.codec.keys import has_own_json
from changelog_engine.history.names import literal, quoted
from changelog_engine.types import (
    ElementsTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from changelog_engine.types.basic import FloatTypeInfo
from changelog_engine.types.in_state import in_state

OLDEST_MS, NEWEST_MS = -62_135_596_800_000, 253_402_300_799_999  # years 1 to 9999
_INTEGERS = {"BYTE": "TINYINT", "SHORT": "SMALLINT", "INT": "INT", "LONG": "BIGINT"}
_NUMBERS = {**_INTEGERS, "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "BOOLEAN": "BOOLEAN"}
_TIMESTAMP = pa.timestamp("us")  # without Spark all times are UTC, without a zone
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(38,0)")
_TEXTS = ("STRING", "CHAR", "SQL_TIME")
_EXACT_DECIMAL = r"^[+-]?([0-9]{1,20}([.][0-9]{0,18})?|[0-9]([.][0-9]{0,9})?E([+][0-9]{1,2}|-[0-9]))$"
_EXACT_INTEGER = r"^-?[0-9]{1,38}$"
_MANY_DIGITS = re.compile(r"[0-9]{19}")

Expression = Callable[[str], str]
Convert = Callable[[Any], Any]


class SqlType(NamedTuple):
    """A type in SQL."""

    name: str  # as in Spark's DDL
    of_item: Expression  # Spark's SQL of an item -> that of its value
    arrow: pa.DataType  # the type without Spark
    of_json: Convert  # a JSON value -> its value for Arrow; None where it does not fit


def item_of(json_text: str) -> str:
    """SQL of JSON text -> SQL of its item."""
    return f"get(from_json(concat('[', {json_text}, ']'), 'array<string>'), 0)"


def value_of(found: SqlType, json_text: str) -> str:
    """SQL of JSON text -> SQL of the value."""
    if found.name in _NUMBERS.values() and found.name not in ("FLOAT", "DOUBLE"):
        return found.of_item(json_text)  # a number's text is its item
    return found.of_item(item_of(json_text))


def time_of(milliseconds: str) -> str:
    """SQL of epoch milliseconds -> SQL of a timestamp; null outside the years 1 to 9999."""
    return f"CASE WHEN {milliseconds} BETWEEN {OLDEST_MS} AND {NEWEST_MS} THEN timestamp_millis({milliseconds}) END"


def sql_type(type_info: TypeInformation | None) -> SqlType:
    """The SQL type of a declared type of values in state, where a FLOAT has 64 bits.

    Args:
        type_info: the type; None for undeclared.
    """
    return _Types().of(None if type_info is None else in_state(type_info))


def key_sql_type(type_info: TypeInformation | None) -> SqlType:
    """As sql_type, for keys: those with maps or undeclared parts are text, because their JSON is canonical."""
    if type_info is None or not has_own_json(type_info):
        return _text()
    return _Types().of(type_info)


def window_sql_type(namespace: str) -> SqlType:
    """The type of windows, by the kind of namespace as a checkpoint describes it."""
    if namespace == "time_window":
        name = "STRUCT<start: TIMESTAMP, end: TIMESTAMP>"

        def window(item: str) -> str:
            start, end = (
                time_of(f"try_cast(get(from_json({item}, 'array<string>'), {i}) AS BIGINT)") for i in (0, 1)
            )
            return f"CASE WHEN {item} IS NOT NULL THEN named_struct('start', {start}, 'end', {end}) END"

        bounds = pa.struct([("start", _TIMESTAMP), ("end", _TIMESTAMP)])
        return SqlType(name, window, bounds, _window_of)
    if namespace == "count_window":
        return _scalar("LONG")
    return _text()


def _text() -> SqlType:
    return SqlType("STRING", lambda item: item, pa.string(), text_of)


def text_of(value: Any) -> str | None:
    """A JSON value as text: a string as it is, all else as JSON."""
    if value is None or isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # whole numbers over 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parsed(text: str) -> Any:
    """A JSON value with all digits of its whole numbers: orjson makes floats of those over 64 bits.

    Raises:
        ValueError: it is not JSON.
    """
    return json.loads(text) if _MANY_DIGITS.search(text) else orjson.loads(text)


def time_of_ms(milliseconds: Any) -> datetime | None:
    """``time_of`` without Spark: UTC, without a zone."""
    if not isinstance(milliseconds, int) or not OLDEST_MS <= milliseconds <= NEWEST_MS:
        return None
    return datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)


def _window_of(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        return None
    return {"start": time_of_ms(value[0]), "end": time_of_ms(value[1])}


class _Types:
    """Makes the types of one expression; lambda variables inside have names of their own."""

    def __init__(self) -> None:
        self._numbers = count()

    def of(self, type_info: TypeInformation | None) -> SqlType:
        if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
            return _text()
        if isinstance(type_info, RowTypeInfo):
            return self._row(type_info)
        if isinstance(type_info, TupleTypeInfo):
            return self._tuple(type_info)
        if isinstance(type_info, MapTypeInfo):
            return self._map(type_info)
        if type_info.exact is bytes:
            return SqlType("BINARY", lambda item: f"try_to_binary({item}, 'base64')", pa.binary(), _bytes_of)
        if isinstance(type_info, ElementsTypeInfo):
            return self._list(type_info)
        unrounded = isinstance(type_info, FloatTypeInfo) and not type_info.rounds
        return _scalar("DOUBLE" if unrounded else type_info.kind)

    def _variable(self) -> str:
        return f"x{next(self._numbers)}"

    def _list(self, type_info: ElementsTypeInfo) -> SqlType:
        element, x = self.of(type_info.elem_type), self._variable()

        def value(item: str) -> str:
            items = f"from_json({item}, 'array<string>')"
            made = element.of_item(x)
            return items if made == x else f"transform({items}, {x} -> {made})"

        def plain(found: Any) -> Any:
            return [element.of_json(each) for each in found] if isinstance(found, list) else None

        return SqlType(f"ARRAY<{element.name}>", value, pa.list_(element.arrow), plain)

    def _tuple(self, type_info: TupleTypeInfo) -> SqlType:
        fields = [self.of(field) for field in type_info.get_field_types()]
        x = self._variable()
        names = [f"f{i}" for i in range(len(fields))]

        def value(item: str) -> str:
            values = [field.of_item(f"get({x}, {i})") for i, field in enumerate(fields)]
            struct = f"CASE WHEN size({x}) = {len(fields)} THEN {_struct(names, values)} END"
            return f"get(transform(array(from_json({item}, 'array<string>')), {x} -> {struct}), 0)"

        def plain(found: Any) -> Any:
            if not isinstance(found, list) or len(found) != len(fields):
                return None
            return {n: f.of_json(each) for n, f, each in zip(names, fields, found, strict=True)}

        return SqlType(_struct_name(names, fields), value, _struct_type(names, fields), plain)

    def _row(self, type_info: RowTypeInfo) -> SqlType:
        names = list(type_info.get_field_names())
        if len({name.lower() for name in names}) < len(names):
            return _text()  # SQL takes "a" and "A" for one name
        fields = [self.of(field) for field in type_info.get_field_types()]
        x = self._variable()

        def value(item: str) -> str:
            values = [
                field.of_item(f"try_element_at({x}, {literal(name)})")
                for name, field in zip(names, fields, strict=True)
            ]
            struct = f"CASE WHEN {x} IS NOT NULL THEN {_struct(names, values)} END"
            return f"get(transform(array(from_json({item}, 'map<string,string>')), {x} -> {struct}), 0)"

        def plain(found: Any) -> Any:
            if not isinstance(found, dict):
                return None
            return {n: f.of_json(found.get(n)) for n, f in zip(names, fields, strict=True)}

        return SqlType(_struct_name(names, fields), value, _struct_type(names, fields), plain)

    def _map(self, type_info: MapTypeInfo) -> SqlType:
        key, item_type = self.of(type_info.key_type), self.of(type_info.value_type)
        x, y = self._variable(), self._variable()
        from_object = _is_text_in_json(type_info.key_type)
        is_map = "<" not in key.name

        def value(item: str) -> str:
            if from_object:
                entries, parts = (
                    f"map_entries(from_json({item}, 'map<string,string>'))",
                    (f"{y}.key", f"{y}.value"),
                )
            else:
                pairs = (
                    f"transform(from_json({item}, 'array<string>'), {y} -> from_json({y}, 'array<string>'))"
                )
                entries, parts = pairs, (f"get({y}, 0)", f"get({y}, 1)")
            pair = _struct(["key", "value"], [key.of_item(parts[0]), item_type.of_item(parts[1])])
            made = f"transform({entries}, {y} -> {pair})"
            if not is_map:
                return made
            # Keys that are null or the same after the conversion would make the whole query fail.
            sound = f"NOT exists({x}.key, k -> k IS NULL) AND size(array_distinct({x}.key)) = size({x}.key)"
            return (
                f"get(transform(array({made}), {x} -> CASE WHEN {sound} THEN map_from_entries({x}) END), 0)"
            )

        def pairs_of(found: Any) -> list[tuple[Any, Any]] | None:
            if isinstance(found, dict):  # keys that are numbers are text in an object
                pairs = [(key.of_json(_parsed(k) if key.name in _WHOLE else k), v) for k, v in found.items()]
            elif isinstance(found, list):
                if not all(isinstance(pair, list) and len(pair) == 2 for pair in found):
                    return None
                pairs = [(key.of_json(pair[0]), pair[1]) for pair in found]
            else:
                return None
            return [(k, item_type.of_json(v)) for k, v in pairs]

        def plain(found: Any) -> Any:
            pairs = pairs_of(found)
            if pairs is None or not is_map:
                return None if pairs is None else [{"key": k, "value": v} for k, v in pairs]
            return pairs if len({k for k, _ in pairs if k is not None}) == len(pairs) else None

        if is_map:
            name, arrow = f"MAP<{key.name}, {item_type.name}>", pa.map_(key.arrow, item_type.arrow)
        else:
            name = f"ARRAY<STRUCT<key: {key.name}, value: {item_type.name}>>"
            arrow = pa.list_(_struct_type(["key", "value"], [key, item_type]))
        return SqlType(name, value, arrow, plain)


def _scalar(kind: str) -> SqlType:
    if kind in _NUMBERS:
        name = _NUMBERS[kind]
        return SqlType(name, lambda item: f"try_cast({item} AS {name})", *_PLAIN_NUMBERS[kind])
    if kind in _TEXTS:
        return _text()
    if kind == "BIG_INT":
        return _matching(
            "DECIMAL(38,0)", f"RLIKE '{_EXACT_INTEGER}'", pa.decimal128(38, 0), _decimal_of(38, 0)
        )
    if kind == "BIG_DEC":
        return _matching(
            "DECIMAL(38,18)", f"RLIKE '{_EXACT_DECIMAL}'", pa.decimal128(38, 18), _decimal_of(20, 18)
        )
    if kind == "SQL_DATE":
        return SqlType(
            "DATE", lambda item: f"try_cast({item} AS DATE)", pa.date32(), _fitting(date.fromisoformat)
        )
    if kind == "SQL_TIMESTAMP":  # one with an offset from UTC is another kind of time
        return _matching("TIMESTAMP_NTZ", "NOT RLIKE 'T.*[Z+-]'", _TIMESTAMP, _fitting(_without_zone))
    if kind == "INSTANT":
        return SqlType(
            "TIMESTAMP", lambda item: f"try_cast({item} AS TIMESTAMP)", _TIMESTAMP, _fitting(_instant_of)
        )
    return _text()


def _matching(name: str, condition: str, arrow: pa.DataType, of_json: Convert) -> SqlType:
    return SqlType(
        name, lambda item: f"CASE WHEN {item} {condition} THEN try_cast({item} AS {name}) END", arrow, of_json
    )


def _fitting(convert: Convert) -> Convert:
    """What a conversion gives, or None where it fails."""

    def of_json(value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except (ValueError, TypeError, AttributeError, ArithmeticError):
            return None

    return of_json


def _whole(bits: int) -> Convert:
    high = 1 << (bits - 1)
    return lambda value: value if type(value) is int and -high <= value < high else None


def _float(value: Any) -> float | None:
    return None if isinstance(value, bool) else float(value)


def _decimal_of(digits: int, places: int) -> Convert:
    """Decimals with a number of digits before the point, and a number after it."""

    def exact(value: Any) -> Decimal | None:
        found = Decimal(str(value))
        if not found.is_finite() or isinstance(value, bool):
            return None
        exponent = int(found.as_tuple().exponent)
        fits = -exponent <= places and (not found or found.adjusted() < digits)
        return found if fits else None

    return _fitting(exact)


def _bytes_of(value: Any) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        return None


def _without_zone(text: str) -> datetime | None:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is None else None


def _instant_of(text: str) -> datetime:
    whole, point, rest = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}{point}{rest[:6]}")


def _parsed(text: str) -> Any:
    try:
        return parsed(text)
    except ValueError:
        return None


def _struct_type(names: list[str], fields: list[SqlType]) -> pa.DataType:
    return pa.struct([pa.field(name, field.arrow) for name, field in zip(names, fields, strict=True)])


_PLAIN_NUMBERS: dict[str, tuple[pa.DataType, Convert]] = {
    "BYTE": (pa.int8(), _whole(8)),
    "SHORT": (pa.int16(), _whole(16)),
    "INT": (pa.int32(), _whole(32)),
    "LONG": (pa.int64(), _whole(64)),
    "FLOAT": (pa.float32(), _fitting(_float)),
    "DOUBLE": (pa.float64(), _fitting(_float)),
    "BOOLEAN": (pa.bool_(), lambda value: value if isinstance(value, bool) else None),
}


def _is_text_in_json(key_type: TypeInformation) -> bool:
    """Whether a map with such keys is an object in JSON."""
    others = ("FLOAT", "DOUBLE", "BOOLEAN", PickledBytesTypeInfo.kind)
    composite = isinstance(key_type, (TupleTypeInfo, RowTypeInfo, MapTypeInfo))
    lists = isinstance(key_type, ElementsTypeInfo) and key_type.exact is not bytes
    return not composite and not lists and key_type.kind not in others


def _struct(names: list[str], values: list[str]) -> str:
    return f"named_struct({', '.join(f'{literal(n)}, {v}' for n, v in zip(names, values, strict=True))})"


def _struct_name(names: list[str], fields: list[SqlType]) -> str:
    return f"STRUCT<{', '.join(f'{quoted(n)}: {f.name}' for n, f in zip(names, fields, strict=True))}>"
