"""Time and Duration: spans of time; Instant: a point in time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from changelog_engine.errors import ArgumentTypeError
from changelog_engine.types import Instant

from .._arguments import instance, whole_number

__all__ = ["Duration", "Instant", "Time"]

_MS = {"milliseconds": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
_ROUNDING = 1e-6  # of a millisecond: 0.57 s are 570 ms, though 0.57 * 1000 is not 570.0


def _in_ms(value: Any, unit: str) -> int:
    """An amount of a unit in milliseconds; half a second is 500."""
    what = f"Time.{unit}"
    if not isinstance(value, float):
        return whole_number(value, what, -(2**63)) * _MS[unit]
    exact = value * _MS[unit]
    if not math.isfinite(exact) or abs(exact - round(exact)) > _ROUNDING:
        raise ArgumentTypeError(f"{what} must be a whole number of milliseconds, got {value!r} {unit}")
    return round(exact)


class Duration:
    """A span of time; made by its static methods.

    Example:
        >>> Duration.of_seconds(2).to_milliseconds()
        2000
    """

    def __init__(self, nanoseconds: int) -> None:
        self._nanoseconds = whole_number(nanoseconds, "a Duration", -(2**63) * 10**9)

    @staticmethod
    def of_days(days: int) -> Duration:
        """A number of days, of 24 hours each."""
        return Duration(whole_number(days, "Duration.of_days", -(2**63)) * 86_400 * 10**9)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """A number of hours."""
        return Duration(whole_number(hours, "Duration.of_hours", -(2**63)) * 3_600 * 10**9)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """A number of minutes."""
        return Duration(whole_number(minutes, "Duration.of_minutes", -(2**63)) * 60 * 10**9)

    @staticmethod
    def of_seconds(seconds: int, nano_adjustment: int = 0) -> Duration:
        """A number of seconds, plus nanoseconds."""
        whole = whole_number(seconds, "Duration.of_seconds", -(2**63)) * 10**9
        return Duration(
            whole + whole_number(nano_adjustment, "Duration.of_seconds: nano_adjustment", -(2**63))
        )

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """A number of milliseconds."""
        return Duration(whole_number(millis, "Duration.of_millis", -(2**63)) * 10**6)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """A number of nanoseconds."""
        return Duration(nanos)

    def to_milliseconds(self) -> int:
        """Whole milliseconds, rounded down."""
        return self._nanoseconds // 10**6

    def __eq__(self, other: object) -> bool:
        """Whether the other one is as long."""
        return isinstance(other, Duration) and self._nanoseconds == other._nanoseconds

    def __hash__(self) -> int:
        """Hash of the length."""
        return hash(("Duration", self._nanoseconds))

    def __repr__(self) -> str:
        """Its length in ms."""
        return f"Duration({self._nanoseconds / 10**6:.15g} ms)"


class Time:
    """A span of time in whole milliseconds, made of a number of some unit. Fractions of a unit may make whole milliseconds.

    Args:
        milliseconds: its length.

    Raises:
        ArgumentTypeError: not a number, or not of whole milliseconds.

    Example:
        >>> Time.minutes(1).to_milliseconds()
        60000
    """

    def __init__(self, milliseconds: float) -> None:
        self._milliseconds = _in_ms(milliseconds, "milliseconds")

    def to_milliseconds(self) -> int:
        """Its length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: float) -> Time:
        """A number of milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: float) -> Time:
        """A number of seconds."""
        return Time(_in_ms(seconds, "seconds"))

    @staticmethod
    def minutes(minutes: float) -> Time:
        """A number of minutes."""
        return Time(_in_ms(minutes, "minutes"))

    @staticmethod
    def hours(hours: float) -> Time:
        """A number of hours."""
        return Time(_in_ms(hours, "hours"))

    @staticmethod
    def days(days: float) -> Time:
        """A number of days, of 24 hours each."""
        return Time(_in_ms(days, "days"))

    def __eq__(self, other: object) -> bool:
        """Whether the other one is as long."""
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        """Hash of the length."""
        return hash(("Time", self._milliseconds))

    def __repr__(self) -> str:
        """Its length in ms."""
        return f"Time({self._milliseconds} ms)"

    def __str__(self) -> str:
        """Its length, as PyFlink has it."""
        return f"{self._milliseconds} ms"


@dataclass(frozen=True)
class AtLeast:
    """In ``Annotated[Duration, AtLeast(1)]``: a Duration of at least this many milliseconds."""

    ms: int

    def __call__(self, value: Any, what: str) -> None:
        """Refuse what is none."""
        span = instance(value, Duration, what, "Duration.of_seconds(2)")
        whole_number(span.to_milliseconds(), f"{what} in ms", self.ms)
