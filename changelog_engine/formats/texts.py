"""Single values as text, as Flink's JSON and CSV formats write them, and back."""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from changelog_engine.types import DecimalTypeInfo, Instant, TypeInformation, Types
from changelog_engine.types.instant import in_bounds

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_BOUNDS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}
_TOO_LARGE = float.fromhex("0x1.ffffffp127")  # from here on 32 bits hold infinity only
_LEAST_TOO_LARGE = 309  # digits of a number that 64 bits do not hold
_timestamp_of = datetime.datetime.fromisoformat
_FRACTION = re.compile(r"[.,](\d+)")
_TRUTH = {"true": True, "false": False}


def is_bytes(type_info: TypeInformation) -> bool:
    """Whether values are bytes."""
    return type_info == _BYTES


def from_text(type_info: TypeInformation) -> Callable[[str], Any] | None:
    """What parses a text to a value of a type; None for types that no text stands for."""
    kind = type_info.kind
    if kind in _BOUNDS:
        return lambda text: _bounded(int(_number(text)), kind)
    if is_bytes(type_info):
        return lambda text: base64.b64decode(text, validate=True)
    if isinstance(type_info, DecimalTypeInfo):
        rounded = type_info.rounded
        return lambda text: rounded(_decimal(text))
    parsers: dict[str, Callable[[str], Any]] = {
        "STRING": str,
        "BIG_INT": lambda text: int(_number(text)),
        "FLOAT": lambda text: of_32_bits(_real(text)),
        "DOUBLE": _real,
        "BOOLEAN": _truth,
        "CHAR": _char,
        "SQL_DATE": _date,
        "SQL_TIME": _time,
        "SQL_TIMESTAMP": _timestamp,
        "INSTANT": _instant,
    }
    return parsers.get(kind)


def many_from_text(type_info: TypeInformation) -> Callable[[Sequence[str]], list[Any]] | None:
    """What parses many texts of a type in less time than `from_text`; None where nothing does.

    It raises ValueError for some text that stands for no value, without saying which.
    """
    kind = type_info.kind
    if kind == "STRING":
        return list
    if kind == "DOUBLE":
        return _reals
    if kind == "FLOAT":
        return lambda texts: [of_32_bits(number) for number in _reals(texts)]
    if kind not in _BOUNDS:
        return None
    limit = 1 << (_BOUNDS[kind] - 1)

    def whole_numbers(texts: Sequence[str]) -> list[Any]:
        values = list(map(int, _numbers(texts)))
        if values and not -limit <= min(values) <= max(values) < limit:
            raise ValueError(f"a number is too large for {kind}")
        return values

    return whole_numbers


def _number(text: str) -> str:
    """The text, which Python would read without its underscores: ``1_0`` is no number for anybody else."""
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    return text


def _numbers(texts: Sequence[str]) -> Sequence[str]:
    """As `_number`, for many."""
    if "_" in "".join(texts):
        raise ValueError("an underscore is in a number")
    return texts


def _real(text: str) -> float:
    number = float(_number(text))
    if math.isinf(number) and any(sign.isdigit() for sign in text):
        raise ValueError(f"{text!r} is too large for 64 bits")
    return number


def _reals(texts: Sequence[str]) -> list[float]:
    """As `_real`, for many."""
    text = "".join(texts)
    if "_" in text or "e" in text or "E" in text or max(map(len, texts), default=0) >= _LEAST_TOO_LARGE:
        return [_real(each) for each in texts]
    return list(map(float, texts))


def of_32_bits(number: float) -> float:
    """The number as it is, if it can be a FLOAT."""
    if _TOO_LARGE <= abs(number) < math.inf:
        raise ValueError(f"{number} is too large for FLOAT: it needs more than 32 bits")
    return number


def cell_reader(type_info: TypeInformation) -> Callable[[str], Any] | None:
    """As `from_text`, for a cell of CSV, whether a line of its own or in a file: there an instant names its zone."""
    return _zoned_instant if type_info.kind == "INSTANT" else from_text(type_info)


def _truth(text: str) -> bool:
    found = _TRUTH.get(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return found


def _decimal(text: str) -> Decimal:
    try:
        found = Decimal(_number(text).strip())
    except ArithmeticError:
        raise ValueError(f"{text!r} is not a number") from None
    if not found.is_finite():  # Python reads "NaN" and "Infinity", Java's decimals have neither
        raise ValueError(f"{text!r} is not a number")
    return found if found else found.copy_abs()  # nor have they -0


def _bounded(number: int, kind: str) -> int:
    limit = 1 << (_BOUNDS[kind] - 1)
    if not -limit <= number < limit:
        raise ValueError(f"{number} is too large for {kind}: it needs more than {_BOUNDS[kind]} bits")
    return number


def _char(text: str) -> str:
    if len(text) != 1:
        raise ValueError(f"{text!r} is not one character")
    return text


def _date(text: str) -> datetime.date:
    if len(text) != 10 or text[7] != "-":  # Python also reads 20240229 and 2024-W09-4
        raise ValueError(f"{text!r} is not a date such as 2024-02-29")
    return datetime.date.fromisoformat(text)


def _time(text: str) -> datetime.time:
    found = datetime.time.fromisoformat(text)
    if found.utcoffset():
        raise ValueError(f"{text!r} is not a time of UTC: write it with Z, or without a zone")
    return found.replace(tzinfo=None)


def without_zone(value: datetime.datetime) -> datetime.datetime:
    """A timestamp in UTC without a zone; one without a zone is in UTC already."""
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def _timestamp(text: str) -> datetime.datetime:
    found = _timestamp_of(text)
    try:
        return without_zone(found)
    except OverflowError:
        raise ValueError(f"{text!r} is out of bounds: in UTC its year is not 1 to 9999") from None


def _instant(text: str) -> Instant:
    found = datetime.datetime.fromisoformat(text)
    return _instant_of(found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC), text)


def _instant_of(found: datetime.datetime, text: str) -> Instant:
    seconds = math.floor((found.replace(microsecond=0)).timestamp())
    fraction = _FRACTION.search(text)  # datetime knows no nanoseconds
    return Instant(seconds, 0 if fraction is None else _nanos(fraction.group(1), text))


def _nanos(digits: str, text: str) -> int:
    if digits[9:].strip("0"):
        raise ValueError(f"{text!r} has more than nine digits behind the seconds")
    return int(digits[:9].ljust(9, "0"))


def _zoned_instant(text: str) -> Instant:
    found = datetime.datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no zone, such as Z")
    return _instant_of(found, text)


def time_of_utc(value: datetime.time) -> datetime.time:
    """A time of day without its zone.

    Raises:
        ValueError: the zone is another one than UTC.
    """
    if value.tzinfo is not None and value.utcoffset() != datetime.timedelta(0):
        raise ValueError(f"{value!r} is of another zone than UTC, and a time of day has none")
    return value.replace(tzinfo=None)


def time_text(value: datetime.time) -> str:
    """``12:00:00``, with a fraction where there is one.

    Raises:
        ValueError: it has a zone that is not UTC.
    """
    return time_of_utc(value).isoformat()


def instant_text(value: Instant) -> str:
    """``1970-01-01T00:00:00Z``, with as many digits of a fraction as it needs."""
    seconds, nanos = in_bounds(value)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    fraction = f"{nanos:09d}".rstrip("0")
    return moment.isoformat() + (f".{fraction}Z" if fraction else "Z")


def bytes_text(value: Any) -> str:
    """Base64."""
    return base64.b64encode(bytes(value)).decode("ascii")
