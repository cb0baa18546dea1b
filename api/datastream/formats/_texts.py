"""Single values as text, as Flink's JSON and CSV formats write them, and back."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from changelog_engine.types import Instant, TypeInformation, Types

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_BOUNDS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}
_TRUTH = {"true": True, "false": False}


def is_bytes(type_info: TypeInformation) -> bool:
    """Whether values are bytes."""
    return type_info == _BYTES


def from_text(type_info: TypeInformation) -> Callable[[str], Any] | None:
    """What parses a text to a value of a type; None for types that no text stands for."""
    kind = type_info.kind
    if kind in _BOUNDS:
        limit = 1 << (_BOUNDS[kind] - 1)
        return lambda text: _bounded(int(text.strip()), limit, kind)
    if is_bytes(type_info):
        return lambda text: base64.b64decode(text, validate=True)
    return {
        "STRING": str,
        "BIG_INT": lambda text: int(text.strip()),
        "BIG_DEC": lambda text: Decimal(text.strip()),
        "FLOAT": lambda text: float(text.strip()),
        "DOUBLE": lambda text: float(text.strip()),
        "BOOLEAN": lambda text: _TRUTH[text.strip().lower()],
        "CHAR": _char,
        "SQL_DATE": datetime.date.fromisoformat,
        "SQL_TIME": lambda text: _time(text),
        "SQL_TIMESTAMP": lambda text: _timestamp(text),
        "INSTANT": lambda text: _instant(text),
    }.get(kind)


def _bounded(number: int, limit: int, kind: str) -> int:
    if not -limit <= number < limit:
        raise ValueError(f"{number} is too large for {kind}")
    return number


def _char(text: str) -> str:
    if len(text) != 1:
        raise ValueError(f"{text!r} is not one character")
    return text


def _time(text: str) -> datetime.time:
    return datetime.time.fromisoformat(text).replace(tzinfo=None)


def _timestamp(text: str) -> datetime.datetime:
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)


def _instant(text: str) -> Instant:
    found = datetime.datetime.fromisoformat(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    seconds = math.floor((found.replace(microsecond=0)).timestamp())
    return Instant(seconds, found.microsecond * 1000)


def time_text(value: datetime.time) -> str:
    """``12:00:00``, with a fraction where there is one."""
    return value.isoformat()


def bytes_text(value: Any) -> str:
    """Base64."""
    return base64.b64encode(bytes(value)).decode("ascii")
