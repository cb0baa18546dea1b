"""Values of which a database makes other ones without a word, by the columns that they go into.

Invariants:
    * What is found here is not refused: programs count on some of it.
    * A value is told only where the column stores another one than it was given.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

Test = Callable[[Any], bool]
UTC_ZONES = ("UTC", "Etc/UTC", "GMT")
_WHOLE_KINDS = ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")
_TEXT_KINDS = ("STRING", "CHAR")
_NUMERIC = re.compile(r"numeric\(\d+,(-?\d+)\)")
_CHARACTERS = re.compile(r"char(?:acter)?\(\d+\)")
_VARYING = re.compile(r"character varying\((\d+)\)")
_TEMPORAL_MYSQL = re.compile(r"(time|datetime|timestamp)(?:\((\d)\))?")
_DIGITS = re.compile(r"\((\d)\)")
_MEMBERS = re.compile(r"'((?:[^']|'')*)'")
_TIME_OF_DAY = re.compile(r"(?<![\d:])(?!00:00(?::00(?:\.0*)?)?(?![\d:]))\d{1,2}:\d\d")
_OFFSET = re.compile(r"\d:\d\d[:\d.]*\s*[+-](?!00(?::?00){0,2}\s*$)\d\d?(?::?\d\d){0,2}\s*$")
_SHORT_YEAR = re.compile(r"\s*\d{1,2}[^\w\s:]\d{1,2}[^\w\s:]\d")
_SQLITE_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)
_SQLITE_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)


@dataclass(frozen=True)
class Replaced:
    """What a column does to some values.

    Attributes:
        of: whether it does so to a value; None is asked, too.
        becomes: what is stored in its place, and what to do about it.
    """

    of: Test
    becomes: str


def by_postgresql(kind: str, column: str, zone: str) -> Replaced | None:
    """What PostgreSQL stores.

    Args:
        kind: of the field, or of its list's elements.
        column: its type, with the digits that it declares; "" if it is not known.
        zone: in which the session takes times that have none.
    """
    if column.endswith("[]"):
        inside = by_postgresql(kind, column[:-2], zone)
        return inside and Replaced(
            lambda values: isinstance(values, list) and any(inside.of(value) for value in values),
            inside.becomes,
        )
    numeric, varying = _NUMERIC.fullmatch(column), _VARYING.fullmatch(column)
    if numeric is not None and kind in ("BIG_DEC", "STRING"):
        return _where(
            lambda value: _is_rounded(value, int(numeric[1])),
            f"the column is {column}, which rounds. Round it in the program, or give the column more digits",
        )
    if kind in _TEXT_KINDS and _CHARACTERS.fullmatch(column):
        return _where(
            _ends_blank, f"the column is {column}, where blanks at the end do not count. Use varchar or text"
        )
    if kind == "STRING" and varying is not None:
        return _where(
            lambda value: len(value) > int(varying[1]),
            f"the column is {column}, which cuts blanks at the end. Give it more characters",
        )
    if kind == "STRING" and column == "date":
        return _where(_has_time, "the column is a date, which leaves the time of day out. Use a timestamp")
    if kind == "STRING" and column.endswith("without time zone"):
        digits = _DIGITS.search(column)
        cut = _cut_seconds(int(digits[1]) if digits is not None else 6)
        return _where(
            lambda value: _OFFSET.search(value) is not None or cut.search(value) is not None,
            f"the column is {column}, which leaves offsets out and rounds further digits of a second. Use a timestamptz, "
            "and give it more digits",
        )
    if kind in ("SQL_TIMESTAMP", "SQL_TIME") and column.endswith("with time zone") and zone not in UTC_ZONES:
        return _where(
            lambda value: value.tzinfo is None,
            f"the column is {column}, which takes it in the session's zone, {zone}. Give values with a zone, or a column "
            "without one",
        )
    return None


def by_mysql(kind: str, column: str, null: str, extra: str, keeps_zero: bool) -> Replaced | None:
    """What MySQL and MariaDB store.

    Args:
        column: its type, as SHOW COLUMNS tells; so are `null` and `extra`.
        keeps_zero: whether 0 in an AUTO_INCREMENT column is one.
    """
    if column.startswith("timestamp") and null == "NO":
        return Replaced(
            lambda value: value is None,
            "the time at which the row is written, as the column is a TIMESTAMP NOT NULL",
        )
    if "auto_increment" in extra and not keeps_zero:
        return Replaced(lambda value: value == 0, "the next number of the column, which is AUTO_INCREMENT")
    name = re.split("[( ]", column)[0]
    if name in ("enum", "set"):
        return _of_members(kind, name, [found.replace("''", "'") for found in _MEMBERS.findall(column)])
    if name == "year" and kind in (*_WHOLE_KINDS, "STRING"):
        return _where(
            _is_short_year, "the column is a YEAR, which takes two digits for 1970 to 2069. Give four"
        )
    if name == "char" and kind in _TEXT_KINDS:
        return _where(
            _ends_blank, f"the column is {column}, whose blanks at the end are not read again. Use a VARCHAR"
        )
    temporal = _TEMPORAL_MYSQL.fullmatch(column)
    if temporal is not None and kind == "STRING":
        cut = _cut_seconds(int(temporal[2] or 0))
        return _where(
            lambda value: (
                cut.search(value) is not None or (name != "time" and _SHORT_YEAR.match(value) is not None)
            ),
            f"the column is {column}, which cuts further digits of a second, and takes years of two digits for 1970 to "
            "2069. Give it digits, such as DATETIME(6), and years four",
        )
    if name == "date" and kind == "STRING":
        return _where(
            lambda value: _SHORT_YEAR.match(value) is not None,
            "the column is a DATE, which takes years of two digits for 1970 to 2069. Give four",
        )
    return None


def by_sqlite(kind: str, column: str) -> Replaced | None:
    """What SQLite stores, by the affinity of the column's type."""
    declared = column.upper()
    text = any(part in declared for part in ("CHAR", "CLOB", "TEXT"))
    real = any(part in declared for part in ("REAL", "FLOA", "DOUB"))
    if "INT" not in declared and text:
        if kind != "DOUBLE":
            return None
        return _where(
            lambda value: math.isfinite(value) and float(f"{value:.15g}") != value,
            f"text with 15 digits, as the column is {column}. Use REAL",
        )
    if "INT" not in declared and not real and ("BLOB" in declared or not declared):
        return None
    whole = "INT" in declared or not real
    if kind in _TEXT_KINDS:
        return _where(
            lambda value: _is_other_number(value, whole),
            f"a number, as the column is {column or 'numeric'}. Use TEXT",
        )
    if kind in ("BIG_DEC", "BIG_INT") or (kind == "LONG" and not whole):
        return _where(
            lambda value: _is_inexact(value, whole),
            f"a floating point number, as the column is {column}. Use TEXT, which keeps all digits",
        )
    return None


def _where(test: Test, becomes: str) -> Replaced:
    return Replaced(lambda value: value is not None and test(value), becomes)


def _is_rounded(value: Decimal | str, scale: int) -> bool:
    with contextlib.suppress(InvalidOperation):  # more digits than the context has, or no number
        number = Decimal(value)
        if round(number, scale) == number:
            return False
    try:
        _, digits, exponent = Decimal(value).as_tuple()
    except InvalidOperation:
        return False
    return isinstance(exponent, int) and exponent < -scale and any(digits[exponent + scale :])


def _ends_blank(value: str) -> bool:
    return value.endswith(" ")


def _has_time(value: str) -> bool:
    return _TIME_OF_DAY.search(value) is not None


def _cut_seconds(digits: int) -> re.Pattern[str]:
    """A time of day whose seconds have more digits than these."""
    return re.compile(rf":\d\d\.\d{{{digits}}}\d*[1-9]")


def _of_members(kind: str, name: str, members: list[str]) -> Replaced | None:
    if kind in (*_WHOLE_KINDS, "BOOLEAN"):
        return _where(
            lambda value: True,
            f"the column is of {name.upper()}, where a number stands for its members. Give their names",
        )
    if kind not in _TEXT_KINDS:
        return None
    there = frozenset(members)
    return _where(
        (lambda value: value not in there)
        if name == "enum"
        else (lambda value: bool(value) and not there.issuperset(value.split(","))),
        f"the column is of {name.upper()}, where a number stands for its members, and case and blanks at the end do not "
        "count. Give their names",
    )


def _is_short_year(value: int | str) -> bool:
    if isinstance(value, str):
        return len(value.strip()) < 3
    return 0 < value < 100


def _is_other_number(value: str, whole: bool) -> bool:
    """Whether text that SQLite takes for a number is not what is shown of that number."""
    if _SQLITE_NUMBER.fullmatch(value) is None:
        return False
    if (
        whole
        and _SQLITE_WHOLE.fullmatch(value)
        and str(number := int(value)) == value
        and _in_64_bits(number)
    ):
        return False
    text = repr(float(value) + 0.0)  # SQLite has no -0
    return value not in (text, text.removesuffix(".0"))


def _is_inexact(value: Decimal | int, whole: bool) -> bool:
    """Whether a number is another one as a float, or as a whole number of 64 bits where these are."""
    if isinstance(value, Decimal) and not value.is_finite():
        return False
    if whole and _in_64_bits(value) and _SQLITE_WHOLE.fullmatch(str(value)):
        return False
    try:
        return Decimal(repr(float(value))) != value
    except OverflowError:
        return True


def _in_64_bits(value: Decimal | int) -> bool:
    return -(2**63) <= value < 2**63
