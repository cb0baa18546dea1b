"""How Java prints what Python prints differently; ``print()`` shows typed values as Flink's JVM does."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Collection
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from changelog_engine.types.instant import Instant, in_bounds

_MINUTE_S = 60
_SINGLE_DIGITS_ARE_EXACT = -40  # from this power of ten on, to two digits
_DAY_S = 86_400
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()
_LAST_DAY = datetime.date.max.toordinal()


def double_text(value: float) -> str:
    """Double.toString of Java up to 18: plain from 1e-3 up to 1e7, else with an exponent.

    Example:
        >>> double_text(1e20), double_text(0.001), double_text(1e7), double_text(2.0**60)
        ('1.0E20', '0.001', '1.0E7', '1.15292150460684698E18')
    """
    return _java_number(value, _digits_of_a_large_one(value, 53) or repr(value))


def float_text(value: float) -> str:
    """Float.toString: as Double.toString with the digits that 32 bits need."""
    single = np.float32(value)
    large = _digits_of_a_large_one(float(single), 24)
    return _java_number(float(single), large or np.format_float_scientific(single, unique=True))


def _digits_of_a_large_one(value: float, bits: int) -> str | None:
    """Of a whole number of more bits than are kept, and up to 63, Java 18 writes more digits than tell it from others."""
    more = math.frexp(value)[1] - bits - 2 if math.isfinite(value) else -1
    if not 0 <= more <= 61 - bits:
        return None
    left_out = len(str(1 << more)) - 1
    whole, rest = divmod(int(abs(value)), 10**left_out)
    return f"{whole + (left_out > 0 and rest >= 10**left_out >> 1)}E{left_out}"


def _java_number(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    _, parts, power = Decimal(shortest).as_tuple()
    if len(parts) == 1 and int(power) < _SINGLE_DIGITS_ARE_EXACT:
        _, parts, power = Decimal(f"{value:.1e}").as_tuple()  # of the smallest numbers Java writes two digits
    digits = "".join([str(part) for part in parts]).rstrip("0")
    point = len(parts) + int(power)  # where the decimal point is, counted from the first digit
    if -3 < point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def decimal_text(value: Decimal) -> str:
    """BigDecimal.toString: as Python's, without the sign of a zero.

    Example:
        >>> decimal_text(Decimal("-0.00")), decimal_text(Decimal("-1E+3"))
        ('0.00', '-1E+3')
    """
    return str(value if value else value.copy_abs())


def timestamp_text(value: datetime.datetime) -> str:
    """java.sql.Timestamp.toString: at least one digit of the fraction."""
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value.date().isoformat()} {value:%H:%M:%S}.{fraction}"


def instant_text(value: Instant) -> str:
    """java.time.Instant.toString: ISO in UTC with 0, 3, 6 or 9 digits of fraction; far years as seconds."""
    seconds, nanos = in_bounds(value)
    day, second = divmod(seconds, _DAY_S)
    if not 1 <= day + _FIRST_DAY <= _LAST_DAY:
        return repr(value)
    date = datetime.date.fromordinal(day + _FIRST_DAY).isoformat()
    minute, second = divmod(second, _MINUTE_S)
    fraction = f"{nanos:09d}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{date}T{minute // 60:02d}:{minute % 60:02d}:{second:02d}{'.' if fraction else ''}{fraction}Z"


def bytes_text(value: bytes) -> str:
    """Arrays.toString of a byte[]: signed numbers."""
    return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"


def hash_map_order(keys: Collection[Any], kind: str) -> list[Any]:
    """The keys in the order of the java.util.HashMap that Flink reads a MAP of this size into.

    Args:
        keys: in the order of insertion.
        kind: of the type of the keys. Those of a kind whose hashes are not known here keep the order of insertion.

    Example:
        >>> hash_map_order(["alpha", "m", "zeta"], "STRING")
        ['zeta', 'm', 'alpha']
    """
    count = len(keys)
    if count < 2 or kind not in _HASHES:
        return list(keys)
    return _by_bucket(keys, kind, count + 1 if count == 2 else math.ceil(count / 0.75))


def grown_order(keys: Collection[Any], kind: str) -> list[Any]:
    """The keys, of a kind whose hashes are known here, in the order of a HashMap that was empty and grew with them.

    Example:
        >>> grown_order(["t", "i", "f"], "STRING")
        ['t', 'f', 'i']
    """
    return _by_bucket(keys, kind, max(16, math.ceil(len(keys) / 0.75)))


def unpickled_order(keys: Collection[Any], kind: str) -> list[Any]:
    """The keys of a dict in the order in which Flink's reader of pickles has them.

    It takes the last entry first, fills a HashMap that grows with them, and another one from that.

    Example:
        >>> unpickled_order(["zeta", "mm"], "STRING")  # of one bucket
        ['mm', 'zeta']
    """
    count = len(keys)
    if count < 2 or kind not in _HASHES:
        return list(keys)
    return _by_bucket(grown_order(list(keys)[::-1], kind), kind, int(count / 0.75 + 1))


def _by_bucket(keys: Collection[Any], kind: str, capacity: int) -> list[Any]:
    hash_of = _HASHES[kind]
    last_bucket = (1 << (capacity - 1).bit_length()) - 1
    codes = [0 if key is None else hash_of(key) & 0xFFFFFFFF for key in keys]
    buckets = [(code ^ code >> 16) & last_bucket for code in codes]
    if buckets == sorted(buckets):
        return list(keys)
    return [key for _, key in sorted(zip(buckets, keys, strict=True), key=itemgetter(0))]


@lru_cache(maxsize=4096)
def hash_of_text(value: str) -> int:
    """Java's ``String.hashCode()``, in 32 bits without a sign."""
    code = 0
    for (unit,) in struct.iter_unpack("<H", value.encode("utf-16-le", "surrogatepass")):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code


def _hash_of_long(value: int) -> int:
    return value ^ (value & 0xFFFFFFFFFFFFFFFF) >> 32


def _hash_of_double(value: float) -> int:
    return _hash_of_long(struct.unpack("<q", struct.pack("<d", math.nan if value != value else value))[0])


def _hash_of_float(value: float) -> int:
    return int(np.float32(math.nan if value != value else value).view(np.int32))


_HASHES: dict[str, Callable[[Any], int]] = {
    "STRING": hash_of_text,
    "CHAR": ord,
    "BOOLEAN": lambda value: 1231 if value else 1237,
    "BYTE": int,
    "SHORT": int,
    "INT": int,
    "LONG": _hash_of_long,
    "FLOAT": _hash_of_float,
    "DOUBLE": _hash_of_double,
}
