"""Which folder below the base path an element goes to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import PurePosixPath
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from changelog_engine.errors import ConfigurationError, TypeMismatchError

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_SHORT_ZONES = {
    "PST": "America/Los_Angeles",
    "CST": "America/Chicago",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
}
_NUMBERS: dict[str, Callable[[datetime], int]] = {
    "M": lambda time: time.month,
    "L": lambda time: time.month,
    "d": lambda time: time.day,
    "D": lambda time: time.timetuple().tm_yday,
    "H": lambda time: time.hour,
    "k": lambda time: time.hour or 24,
    "K": lambda time: time.hour % 12,
    "h": lambda time: time.hour % 12 or 12,
    "m": lambda time: time.minute,
    "s": lambda time: time.second,
}


class Buckets(Protocol):
    """Assigns elements to buckets, which are paths below the base path; the empty one is the base path itself."""

    def assign(self, values: Sequence[Any], now_ms: int) -> Iterable[tuple[str, Sequence[Any]]]:
        """The elements by bucket, in order within each."""


class BasePathBuckets:
    """All elements go to the base path."""

    def assign(self, values: Sequence[Any], now_ms: int) -> Iterable[tuple[str, Sequence[Any]]]:
        return (("", values),)


class DateTimeBuckets:
    """The folder is the current time by a pattern: the wall clock, not the elements' times.

    Args:
        pattern: as Java's DateTimeFormatter takes it; the letters y u M L d D H h K k m s S n E a and quoted text.
        zone_id: a zone such as ``Europe/Berlin`` or ``GMT-08:00``; None for the system's.

    Raises:
        ConfigurationError: a pattern or zone that cannot be used.
    """

    def __init__(self, pattern: str = "yyyy-MM-dd--HH", zone_id: str | None = None) -> None:
        self.pattern = pattern
        self.zone_id = zone_id
        self._pieces = _compiled(pattern)
        self._zone = None if zone_id is None else _zone(zone_id)
        checked_bucket(self.bucket_at(0))

    def bucket_at(self, now_ms: int) -> str:
        """The bucket at a time."""
        time = datetime.fromtimestamp(now_ms / 1000, self._zone)
        return "".join(piece if isinstance(piece, str) else _text(*piece, time) for piece in self._pieces)

    def assign(self, values: Sequence[Any], now_ms: int) -> Iterable[tuple[str, Sequence[Any]]]:
        return ((self.bucket_at(now_ms), values),)


class ElementBuckets:
    """A user's function says which bucket an element goes to."""

    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function

    def assign(self, values: Sequence[Any], now_ms: int) -> Iterable[tuple[str, Sequence[Any]]]:
        found: dict[str, list[Any]] = {}
        for value in values:
            bucket = self._function(value)
            if bucket not in found:
                checked_bucket(bucket)
            found.setdefault(bucket, []).append(value)
        return found.items()


def checked_bucket(bucket: Any) -> str:
    """The bucket if it is a path below the base path.

    Raises:
        TypeMismatchError: it is not such a path.
    """
    if not isinstance(bucket, str):
        raise TypeMismatchError(f"a bucket must be a str, got {bucket!r}")
    parts = PurePosixPath(bucket).parts
    if bucket.startswith("/") or ".." in parts or "\0" in bucket:
        raise TypeMismatchError(f"the bucket {bucket!r} leaves the base path")
    return bucket


def _compiled(pattern: str) -> list[str | tuple[str, int]]:
    pieces: list[str | tuple[str, int]] = []
    for token in (match.group() for match in _TOKEN.finditer(pattern)):
        if token == "'":
            raise ConfigurationError(f"the bucket pattern {pattern!r} has a quote that does not end")
        if token.startswith("'"):
            pieces.append(token[1:-1].replace("''", "'") or "'")
        elif not token[0].isalpha():
            pieces.append(token)
        elif token[0] in _NUMBERS or token[0] in "yuSnEa":
            pieces.append((token[0], len(token)))
        else:
            raise ConfigurationError(
                f"the bucket pattern {pattern!r} has the letter {token[0]!r}; y u M L d D H h K k m s S n E a are known"
            )
    return pieces


def _text(letter: str, count: int, time: datetime) -> str:
    if letter in "yu":
        return f"{time.year % 100:02d}" if count == 2 else f"{time.year:0{count}d}"
    if letter in "ML" and count >= 3:
        name = _MONTHS[time.month - 1]
        return name[:3] if count == 3 else name if count == 4 else name[0]
    if letter == "E":
        name = _DAYS[time.weekday()]
        return name[:3] if count <= 3 else name if count == 4 else name[0]
    if letter == "a":
        return "AM" if time.hour < 12 else "PM"
    if letter == "S":
        return f"{time.microsecond:06d}000"[:count].ljust(count, "0")
    if letter == "n":
        return f"{time.microsecond * 1000:0{count}d}"
    return f"{_NUMBERS[letter](time):0{count}d}"


def _zone(zone_id: str) -> tzinfo:
    match = _OFFSET.fullmatch(zone_id)
    if match is not None:
        span = timedelta(hours=int(match.group(2)), minutes=int(match.group(3) or 0))
        return timezone(span if match.group(1) == "+" else -span)
    try:
        return ZoneInfo(_SHORT_ZONES.get(zone_id, "UTC" if zone_id == "Z" else zone_id))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigurationError(
            f"unknown time zone {zone_id!r}; use a name such as 'Europe/Berlin'"
        ) from None
