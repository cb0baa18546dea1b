"""Arrow's types and values for ours, for the columnar formats.

A struct is read as a Row where rows are declared, and as a dict where Avro records are; a map is a dict in both. A decimal
of a declared precision is a column of that precision, and rounded as in CSV's columns; one of none keeps 18 digits behind
the point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.errors import NotSupportedError, TypeMismatchError
from changelog_engine.formats.texts import of_32_bits, time_of_utc
from changelog_engine.types import ElementsTypeInfo, Instant, MapTypeInfo, RowTypeInfo, TypeInformation, Types
from changelog_engine.types.arrays import NO_ELEMENTS
from changelog_engine.types.basic import DecimalTypeInfo
from changelog_engine.types.foreign import has_nanoseconds
from changelog_engine.types.row import Row, columns_of_rows, make_row, values_in_order
from changelog_engine.types.typeinfo import Misfit, shown

_Convert = Callable[[Any], Any]
Rounded = frozenset[pa.DataType]

_OF_KIND = {
    "STRING": pa.string(),
    "CHAR": pa.string(),
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "BIG_DEC": pa.decimal128(38, 18),
    "BIG_INT": pa.decimal128(38, 0),
    "SQL_DATE": pa.date32(),
    "SQL_TIME": pa.time64("us"),
    "SQL_TIMESTAMP": pa.timestamp("us"),
    "INSTANT": pa.timestamp("ns", "UTC"),
}
_INSTANT_IN_MICROSECONDS = pa.timestamp("us", "UTC")
_NANOS = 1_000_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": _NANOS}


def arrow_type(type_info: TypeInformation, wide: bool = False) -> pa.DataType:
    """Arrow's type for one of ours.

    Args:
        wide: decimals have 38 digits, 18 of them behind the point, whatever was declared.

    Raises:
        NotSupportedError: Arrow has no type for it.
    """
    if type_info == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return pa.binary()
    if isinstance(type_info, ElementsTypeInfo):
        return pa.list_(arrow_type(type_info.elem_type, wide))
    if isinstance(type_info, MapTypeInfo):
        return pa.map_(arrow_type(type_info.key_type, wide), arrow_type(type_info.value_type, wide))
    if isinstance(type_info, RowTypeInfo):
        return pa.struct(list(arrow_schema(type_info, wide)))
    if isinstance(type_info, DecimalTypeInfo) and type_info.precision is not None and not wide:
        return pa.decimal128(type_info.precision, type_info.scale)
    if type_info.kind not in _OF_KIND:
        raise NotSupportedError(
            f"columnar files cannot hold values of type {type_info.name}; declare other fields"
        )
    return _OF_KIND[type_info.kind]


def arrow_schema(row_type: RowTypeInfo, wide: bool = False) -> pa.Schema:
    """The columns of a ROW type; see ``arrow_type``."""
    names, types = row_type.get_field_names(), row_type.get_field_types()
    return pa.schema([(name, arrow_type(each, wide)) for name, each in zip(names, types, strict=True)])


def rounded_decimals(row_type: RowTypeInfo) -> frozenset[pa.DataType]:
    """Arrow's types of the decimals with a declared precision that are in a ROW type.

    One that a decimal without a precision has too is not among them: of that one all digits must fit.
    """
    numbers = [each for each in _parts(row_type) if each.kind in ("BIG_DEC", "BIG_INT")]
    others = {arrow_type(each) for each in numbers if not _is_bounded(each)}
    return frozenset({arrow_type(each) for each in numbers if _is_bounded(each)} - others)


def _is_bounded(type_info: TypeInformation) -> bool:
    return isinstance(type_info, DecimalTypeInfo) and type_info.precision is not None


def _parts(type_info: TypeInformation) -> Iterator[TypeInformation]:
    """The types inside a type that have none inside."""
    if isinstance(type_info, RowTypeInfo):
        inner = type_info.get_field_types()
    elif isinstance(type_info, MapTypeInfo):
        inner = [type_info.key_type, type_info.value_type]
    elif isinstance(type_info, ElementsTypeInfo):
        inner = [type_info.elem_type]
    else:
        yield type_info
        return
    for each in inner:
        yield from _parts(each)


def orc_schema(row_type: RowTypeInfo) -> pa.Schema:
    """The columns of a ROW type, for ORC.

    Raises:
        NotSupportedError: a field that ORC cannot hold: it has no times of day.
    """
    schema = arrow_schema(row_type)
    for field in schema:
        if _has_time(field.type):
            raise NotSupportedError(
                f"ORC files cannot hold times of day, as in field {field.name!r}: "
                f"declare a STRING or a TIMESTAMP, or use Parquet"
            )
    return schema


def _has_time(given: pa.DataType) -> bool:
    if pa.types.is_map(given):
        return _has_time(given.key_type) or _has_time(given.item_type)
    inner = (given.field(index).type for index in range(given.num_fields))
    return pa.types.is_time(given) or any(_has_time(each) for each in inner)


def columns_of(values: list[Any], schema: pa.Schema, rounded: Rounded = frozenset()) -> pa.RecordBatch:
    """Rows, tuples or dicts as columns.

    Args:
        rounded: decimals of these types get as many digits behind the point as their column has; of others all digits
            must fit. See ``rounded_decimals``.

    Raises:
        TypeMismatchError: a value does not fit its column.
    """
    struct = pa.struct(list(schema))
    convert = to_arrow(struct, rounded)
    assert convert is not None
    try:
        columns = _same_columns(values, schema.names)
        if columns is not None:
            arrays = [
                _array(column, field.type, rounded) for column, field in zip(columns, schema, strict=True)
            ]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)
        return pa.RecordBatch.from_struct_array(pa.array([convert(value) for value in values], struct))
    except (pa.ArrowException, TypeError, ValueError, OverflowError, IndexError) as error:
        raise _misfit(values, schema, error, rounded) from None


def _same_columns(values: list[Any], names: list[str]) -> Sequence[Sequence[Any]] | None:
    """The columns of tuples, or of rows of one shape; None where elements are looked at one by one."""
    kinds, width = set(map(type, values)), len(names)
    if kinds == {Row}:
        found = columns_of_rows(values)
        if found is None or len(found[1]) != width:
            return None
        return values_in_order(make_row(found[0], found[1]), names)
    if kinds not in ({tuple}, {list}) or not width or set(map(len, values)) != {width}:
        return None
    return list(zip(*values, strict=True))


def _array(column: Sequence[Any], wanted: pa.DataType, rounded: Rounded) -> pa.Array:
    convert, plain = to_arrow(wanted, rounded), None if wanted in rounded else _PLAIN.get(wanted.id)
    if convert is not None and (plain is None or not plain >= set(map(type, column))):
        column = [None if item is None else convert(item) for item in column]
    array = pa.array(column, wanted)
    if pa.types.is_float32(wanted) and pc.any(pc.is_inf(array)).as_py():
        for item in column:
            _narrow(item)
    return array


def _misfit(values: list[Any], schema: pa.Schema, error: Exception, rounded: Rounded) -> TypeMismatchError:
    """The first value that does not fit, and its column."""
    for value in values:
        if isinstance(value, (Row, tuple, list)) and len(value) != len(schema):
            return TypeMismatchError(
                f"{shown(value)} has {len(value)} fields, not {len(schema)}: {schema.names}"
            )
        for index, field in enumerate(schema):
            try:
                if isinstance(value, Row):
                    item = values_in_order(value, schema.names)[index]
                else:
                    item = value.get(field.name) if isinstance(value, dict) else value[index]
                _array([item], field.type, rounded)
            except Exception as why:  # whatever the value does
                return TypeMismatchError(
                    f"field {field.name!r} of {shown(value)} is not of type {field.type}: {why}"
                )
    return TypeMismatchError(f"elements do not fit the columns {schema.names}: {error}")


def to_arrow(wanted: pa.DataType, rounded: Rounded) -> _Convert | None:
    """What makes a value of Python one that Arrow takes; None when it takes it as it is. See ``columns_of``."""
    if pa.types.is_struct(wanted):
        return _struct_to_arrow(wanted, rounded)
    if pa.types.is_map(wanted):
        key, item = to_arrow(wanted.key_type, rounded) or _same, to_arrow(wanted.item_type, rounded) or _same
        return lambda value: [(key(k), None if v is None else item(v)) for k, v in value.items()]
    if pa.types.is_list(wanted):
        inner = to_arrow(wanted.value_type, rounded) or _same
        return lambda value: [None if v is None else inner(v) for v in _listed(value)]
    if pa.types.is_timestamp(wanted):
        if wanted.unit == "ns":
            return _nanos
        return _micros if wanted == _INSTANT_IN_MICROSECONDS else _stamp
    if wanted in rounded:
        return _rounding(wanted)
    return _SCALARS.get(wanted.id)


def _rounding(wanted: pa.DataType) -> _Convert:
    """Makes decimals of what a DECIMAL may be given as; too many digits before the point are an error."""
    declared = DecimalTypeInfo(wanted.precision, wanted.scale)

    def rounded(value: Any) -> Decimal:
        try:
            return declared.rounded(declared.fit(value))
        except Misfit:
            raise TypeError(f"{shown(value)} is not a number") from None

    return rounded


def _listed(value: Any) -> Any:
    if isinstance(value, NO_ELEMENTS):
        raise TypeError(f"{shown(value)} is not a list")
    return value


def _exact(value: Any) -> Any:
    """Arrow asks a number of a class of its own for its text, which may be any."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _whole(value: Any) -> Any:
    """Arrow cuts off what is behind the point."""
    if isinstance(value, (float, Decimal, np.floating)):
        if value != value or value != int(value):
            raise TypeError(f"{shown(value)} is not a whole number")
        return int(value)
    if isinstance(value, np.timedelta64):
        raise TypeError(f"{shown(value)} is a length of time, not a number")
    return value


def _narrow(value: Any) -> Any:
    """Arrow makes infinity of what is too large."""
    return None if value is None else of_32_bits(value)


def _text(value: Any) -> Any:
    """Arrow would take bytes as a str."""
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not a str")
    return value


def _bytes(value: Any) -> Any:
    """Arrow would take a str as bytes."""
    if isinstance(value, str):
        raise TypeError(f"{shown(value)} is not bytes")
    return value


def _date(value: Any) -> Any:
    """Arrow cuts off the time of day, and takes numbers for days."""
    if isinstance(value, datetime):
        if value.tzinfo is not None or value.time() != time():
            raise TypeError(f"{shown(value)} is a time, not a date")
        return value.date()
    if not isinstance(value, date):
        raise TypeError(f"{shown(value)} is not a date")
    return value


def _time(value: Any) -> Any:
    """Arrow drops the zone, and takes numbers for microseconds."""
    if not isinstance(value, time):
        raise TypeError(f"{shown(value)} is not a time of day")
    return time_of_utc(value)


def _stamp(value: Any) -> Any:
    """Arrow takes numbers for a count since 1970, and cuts off what pandas has below a microsecond."""
    if isinstance(value, datetime) and has_nanoseconds(value):
        raise TypeError(
            f"{shown(value)} is finer than a microsecond: round it, or make the column an INSTANT"
        )
    return _moment(value)


def _moment(value: Any) -> Any:
    if not isinstance(value, datetime):
        raise TypeError(f"{shown(value)} is not a datetime")
    return value


def _nanos(value: Any) -> Any:
    return value.seconds * _NANOS + value.nanos if isinstance(value, Instant) else _moment(value)


def _micros(value: Any) -> Any:
    """Rounded down, also before 1970."""
    return value.seconds * 1_000_000 + value.nanos // 1000 if isinstance(value, Instant) else _stamp(value)


_WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_NOTHING = type(None)
# What makes a value of Python one that Arrow takes as it is meant, by the type's id; and the classes that need no look.
_SCALARS: dict[int, _Convert] = {
    **dict.fromkeys([each.id for each in _WHOLE], _whole),
    pa.float32().id: _narrow,
    pa.string().id: _text,
    pa.binary().id: _bytes,
    pa.date32().id: _date,
    pa.time64("us").id: _time,
    pa.time32("ms").id: _time,
    pa.decimal128(1).id: _exact,
}
_PLAIN: dict[int, frozenset[type]] = {
    **dict.fromkeys([each.id for each in _WHOLE], frozenset((int, _NOTHING))),
    pa.float32().id: frozenset((float, int, _NOTHING)),
    pa.string().id: frozenset((str, _NOTHING)),
    pa.binary().id: frozenset((bytes, bytearray, _NOTHING)),
    pa.date32().id: frozenset((date, _NOTHING)),
    pa.decimal128(1).id: frozenset((Decimal, int, _NOTHING)),
}


def _struct_to_arrow(wanted: pa.DataType, rounded: Rounded) -> _Convert:
    fields = [(field.name, to_arrow(field.type, rounded)) for field in wanted]
    names = [name for name, _ in fields]
    known = frozenset(names)

    def convert(value: Any) -> Any:
        if isinstance(value, Mapping):
            unknown = [name for name in value if name not in known]
            if unknown:
                raise TypeError(f"{shown(value)} has {unknown[0]!r}, which is none of {names}")
            items = [value.get(name) for name in names]
        elif isinstance(value, (Row, tuple, list)):
            if len(value) != len(fields):
                raise TypeError(f"{shown(value)} has {len(value)} fields, not {len(fields)}")
            items = values_in_order(value, names) if isinstance(value, Row) else list(value)
        else:
            raise TypeError(f"{shown(value)} is not a row")
        return {
            name: item if inner is None or item is None else inner(item)
            for (name, inner), item in zip(fields, items, strict=True)
        }

    return convert


def from_arrow(given: pa.DataType, rows: bool) -> _Convert | None:
    """What makes ours of a value as Arrow gives it; None for as it is.

    Args:
        rows: whether structs become rows rather than dicts.
    """
    if pa.types.is_struct(given):
        names = [field.name for field in given]
        fields = [from_arrow(field.type, rows) or _same for field in given]
        if rows:
            return lambda value: make_row(names, _each(fields, names, value))
        return lambda value: dict(zip(names, _each(fields, names, value), strict=True))
    if pa.types.is_map(given):
        key, item = from_arrow(given.key_type, rows) or _same, from_arrow(given.item_type, rows) or _same
        return lambda value: {key(k): None if v is None else item(v) for k, v in value}
    if pa.types.is_list(given):
        inner = from_arrow(given.value_type, rows)
        return None if inner is None else lambda value: [None if v is None else inner(v) for v in value]
    if pa.types.is_timestamp(given) and given.unit == "ns":
        return _instant if rows else _datetime
    return None


def _each(fields: list[_Convert], names: list[str], value: dict[str, Any]) -> list[Any]:
    items = (value[name] for name in names)
    return [None if item is None else field(item) for field, item in zip(fields, items, strict=True)]


def _instant(value: Any) -> Instant:
    return Instant(*divmod(value.value, _NANOS))  # of pandas, as Arrow gives nanoseconds


def instants_of(column: pa.Array) -> list[Instant | None]:
    """The instants of timestamps of any unit; also those, as of the year 9999, that 64 bits of nanoseconds do not hold."""
    per_second = _PER_SECOND[column.type.unit]
    nanos = _NANOS // per_second
    found: list[Instant | None] = []
    for count in column.cast(pa.int64()).to_pylist():
        if count is None:
            found.append(None)
        else:
            seconds, rest = divmod(count, per_second)
            found.append(Instant(seconds, rest * nanos))
    return found


def _datetime(value: Any) -> datetime:
    found: datetime = value.to_pydatetime(warn=False)
    return found


def _same(value: Any) -> Any:
    return value
