"""JSON forms of scalars: what each declared type looks like in the log, column by column.

Invariants:
    * ``from_json(parse(dump(to_json(values))))`` gives values back exactly, or ``to_json`` raises NotExact
      and the whole value takes the payload column.
    * A form that has nothing to convert gives back the very list it got.
    * Not-a-number is one value, as it is to Java: the bits inside it are not kept.
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from changelog_engine.types import Instant
from changelog_engine.types.java_text import double_text, instant_text
from changelog_engine.types.row_loops import classes_of

INT64_LOW = -(2**63)
INT64_HIGH = 2**63 - 1
_EXACT = 2**53  # up to it every int is a float
MAX_INT_BITS = 8192  # Python refuses to print ints of more than 4300 digits
_MAX_DEPTH = 200  # orjson refuses to write deeper than 254
_EPOCH = datetime.datetime(1970, 1, 1)
_NONE = type(None)
_ATOMS = frozenset((str, int, bool, _NONE))
_TEXT = frozenset((str,))


class NotExact(Exception):
    """JSON cannot carry these values exactly, or they are not of the declared type."""


class JsonForm:
    """How values of one type become JSON and come back.

    Attributes:
        python: the exact class of the values.
        as_text: every JSON value is a string.
        reads_plain: from_json has nothing to convert.
        direct: to_json gives values that a declared type admitted back as they are, or the JSON writer refuses them.
    """

    python: type
    as_text = False
    reads_plain = False
    direct = False

    def to_json(self, values: list[Any]) -> list[Any]:
        """What to hand to the JSON writer for each value; None stays None.

        Raises:
            NotExact: for any of the values.
        """
        kinds = classes_of(values)
        empty = _NONE in kinds
        kinds.discard(_NONE)
        if not kinds:
            return values
        if len(kinds) > 1 or self.python not in kinds:
            raise NotExact
        return _over_present(self.write, values) if empty else self.write(values)

    def from_json(self, values: list[Any]) -> list[Any]:
        """The values from what the JSON reader gave; None stays None."""
        if self.reads_plain:
            return values
        return _over_present(self.read, values) if any(v is None for v in values) else self.read(values)

    def write(self, values: list[Any]) -> list[Any]:
        """As to_json, for values that all have the right class."""
        return values

    def read(self, values: list[Any]) -> list[Any]:
        """As from_json, without None."""
        return values


def _over_present(convert: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
    present = [value for value in values if value is not None]
    converted = convert(present)
    if converted is present:
        return values
    rest = iter(converted)
    return [None if value is None else next(rest) for value in values]


class IntegerForm(JsonForm):
    """JSON numbers; those over 64 bits as strings of digits, because JSON readers round such numbers.

    Args:
        low: smallest valid value, None for no bound.
    """

    python = int

    def __init__(self, low: int | None, high: int | None) -> None:
        self.bounded = self.reads_plain = self.direct = low is not None
        self.low = INT64_LOW if low is None else low
        self.high = INT64_HIGH if high is None else high

    def write(self, values: list[Any]) -> list[Any]:
        if self.low <= min(values) and max(values) <= self.high:
            return values
        if self.bounded or any(value.bit_length() > MAX_INT_BITS for value in values):
            raise NotExact
        return [value if INT64_LOW <= value <= INT64_HIGH else str(value) for value in values]

    def from_json(self, values: list[Any]) -> list[Any]:
        if self.bounded or str not in classes_of(values):
            return values
        return [int(value) if type(value) is str else value for value in values]


class FloatForm(JsonForm):
    """JSON numbers, and the strings NaN, Infinity and -Infinity; the ints that state keeps come back as floats."""

    python = float

    def to_json(self, values: list[Any]) -> list[Any]:
        try:
            return super().to_json(values)
        except NotExact:
            if int not in map(type, values):
                raise
        floats = [float(value) if type(value) is int and abs(value) <= _EXACT else value for value in values]
        return super().to_json(floats)

    def write(self, values: list[Any]) -> list[Any]:
        if all(map(math.isfinite, values)):
            return values
        return [value if math.isfinite(value) else double_text(value) for value in values]

    def from_json(self, values: list[Any]) -> list[Any]:
        if classes_of(values) <= {float, _NONE}:
            return values
        return [value if value is None else float(value) for value in values]


class BooleanForm(JsonForm):
    """true and false."""

    python = bool
    reads_plain = direct = True


class StringForm(JsonForm):
    """JSON strings; text that UTF-8 cannot carry is not exact."""

    python = str
    as_text = True
    reads_plain = direct = True

    def write(self, values: list[Any]) -> list[Any]:
        joined = "".join(values)
        if not joined.isascii():
            try:
                joined.encode()
            except UnicodeEncodeError:
                raise NotExact from None
        return values


class TextForm(JsonForm):
    """A class whose values have an exact text, which ``write_one`` makes; it may raise NotExact."""

    as_text = True

    def __init__(self, python: type, write_one: Callable[[Any], str], read_one: Callable[[str], Any]) -> None:
        self.python = python
        self._write_one = write_one
        self._read_one = read_one

    def write(self, values: list[Any]) -> list[Any]:
        write_one = self._write_one
        return [write_one(value) for value in values]

    def read(self, values: list[Any]) -> list[Any]:
        read_one = self._read_one
        return [read_one(value) for value in values]


class AnyForm(JsonForm):
    """Undeclared: None, bool, int of 64 bits, str, finite float, lists and string-keyed dicts of these."""

    reads_plain = True

    def to_json(self, values: list[Any]) -> list[Any]:
        if not is_plain(values, 0):
            raise NotExact
        return values


def is_plain(value: Any, depth: int, tuples: bool = False) -> bool:
    """True when JSON brings the same classes back.

    Numbers over 64 bits and surrogates are left to the JSON writer, which refuses them.

    Args:
        depth: how deep it is inside another.
    """
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind is float:
        return math.isfinite(value)
    if depth > _MAX_DEPTH or not (kind is list or kind is dict or (tuples and kind is tuple)):
        return False
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False
        value = value.values()
    if _ATOMS.issuperset(map(type, value)):
        return True
    return all(is_plain(item, depth + 1, tuples) for item in value if type(item) not in _ATOMS)


def iso_is_exact(value: datetime.datetime | datetime.time) -> bool:
    """True when ISO text keeps everything: no fold, and no zone but UTC or an unnamed offset."""
    if value.fold:
        return False
    zone = value.tzinfo
    if zone is None or zone is datetime.UTC:
        return True
    if type(zone) is not datetime.timezone:
        return False
    return zone.tzname(None) == datetime.timezone(zone.utcoffset(None)).tzname(None)


def _iso(value: Any) -> str:
    if not iso_is_exact(value):
        raise NotExact
    return str(value.isoformat())


def _instant_of(text: str) -> Instant:
    since = datetime.datetime.fromisoformat(text[:19]) - _EPOCH
    return Instant(since.days * 86_400 + since.seconds, int(text[20:-1].ljust(9, "0")))


def _instant_text(value: Instant) -> str:
    text = instant_text(value)
    if not text.endswith("Z") or not 0 <= value.nanos < 1_000_000_000:
        raise NotExact
    return text


DECIMAL_FORM = TextForm(Decimal, str, Decimal)
DATE_FORM = TextForm(datetime.date, datetime.date.isoformat, datetime.date.fromisoformat)
TIME_FORM = TextForm(datetime.time, _iso, datetime.time.fromisoformat)
TIMESTAMP_FORM = TextForm(datetime.datetime, _iso, datetime.datetime.fromisoformat)
INSTANT_FORM = TextForm(Instant, _instant_text, _instant_of)
BYTES_FORM = TextForm(bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode)
