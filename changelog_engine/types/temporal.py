"""Dates, times and instants."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from changelog_engine.types.foreign import has_nanoseconds
from changelog_engine.types.instant import Instant
from changelog_engine.types.java_text import instant_text, timestamp_text
from changelog_engine.types.typeinfo import Misfit, TypeInformation, register_one, the_one


class SqlTimeTypeInfo(TypeInformation):
    """SQL_DATE, SQL_TIME, SQL_TIMESTAMP and INSTANT.

    Args:
        kind: one of these names.
        python_class: the class of the values.
    """

    firm = True

    def __init__(self, kind: str, python_class: type) -> None:
        self.kind = kind
        self.name = kind
        self.exact = self.sure = python_class
        self._class = python_class

    DATE = the_one("SQL_DATE")
    TIME = the_one("SQL_TIME")
    TIMESTAMP = the_one("SQL_TIMESTAMP")

    def fit(self, value: Any) -> Any:
        if type(value) is self._class:
            return value
        if isinstance(value, np.datetime64):
            return self._of_numpy(value)
        if not isinstance(value, self._class):
            raise Misfit(self, value)
        if isinstance(value, datetime.datetime):
            return self._of_datetime(value)
        if isinstance(value, datetime.time):  # and below: of a class of its own, which no restore gives back
            time = datetime.time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo)
            return time.replace(fold=value.fold)
        if isinstance(value, datetime.date):
            return datetime.date(value.year, value.month, value.day)
        return value

    def _of_numpy(self, value: np.datetime64) -> Any:
        if np.isnat(value):
            raise Misfit(self, value, "not a time")
        moment = moment_of_numpy(value)
        if moment is None:
            raise Misfit(self, value, "not of the years 1 to 9999")
        if np.datetime64(moment) != value:
            raise Misfit(self, value, "finer than a microsecond")
        if self._class is datetime.datetime:
            return moment
        if self._class is datetime.date and moment.time() == datetime.time():
            return moment.date()
        raise Misfit(self, value)

    def _of_datetime(self, value: datetime.datetime) -> datetime.date:
        """Of a class of its own, such as pandas.Timestamp."""
        if value != value or has_nanoseconds(value):
            raise Misfit(self, value, "not a time" if value != value else "finer than a microsecond")
        if self._class is datetime.date:
            if value.timetz() != datetime.time():
                raise Misfit(self, value, "it would lose its time; take its date()")
            return value.date()
        return datetime.datetime.combine(value.date(), value.timetz()).replace(fold=value.fold)

    def text(self, value: Any) -> str:
        if isinstance(value, datetime.datetime):
            return timestamp_text(value)
        if isinstance(value, datetime.time):
            return f"{value:%H:%M:%S}"
        return instant_text(value) if isinstance(value, Instant) else str(value)


_NEAR_1970 = ("ps", "fs", "as")  # units in which NumPy has a few months only


def moment_of_numpy(value: np.datetime64) -> datetime.datetime | None:
    """A time of NumPy without what is finer than a microsecond; None where it is not of the years 1 to 9999.

    NumPy makes an int of such a time, and of one that is further away another time, without a word.

    Args:
        value: no NaT.
    """
    if np.datetime_data(value.dtype)[0] not in _NEAR_1970:
        year = 1970 + int(value.astype("datetime64[Y]").astype(np.int64))
        if not datetime.MINYEAR <= year <= datetime.MAXYEAR:
            return None
    moment: datetime.datetime = value.astype("datetime64[us]").item()
    return moment


class DateTypeInfo(SqlTimeTypeInfo):
    """The class of ``Types.SQL_DATE()``, of which all instances are equal."""

    def __init__(self) -> None:
        super().__init__("SQL_DATE", datetime.date)


class TimeTypeInfo(SqlTimeTypeInfo):
    """The class of ``Types.SQL_TIME()``, of which all instances are equal."""

    def __init__(self) -> None:
        super().__init__("SQL_TIME", datetime.time)


class TimestampTypeInfo(SqlTimeTypeInfo):
    """The class of ``Types.SQL_TIMESTAMP()``, of which all instances are equal."""

    def __init__(self) -> None:
        super().__init__("SQL_TIMESTAMP", datetime.datetime)


class InstantTypeInfo(SqlTimeTypeInfo):
    """The class of ``Types.INSTANT()``, of which all instances are equal."""

    def __init__(self) -> None:
        super().__init__("INSTANT", Instant)


SQL_DATE = DateTypeInfo()
SQL_TIME = TimeTypeInfo()
SQL_TIMESTAMP = TimestampTypeInfo()
INSTANT = InstantTypeInfo()

for _type in (SQL_DATE, SQL_TIME, SQL_TIMESTAMP, INSTANT):
    register_one(_type)
