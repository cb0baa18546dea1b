"""Dates, times and instants."""

from __future__ import annotations

import datetime
from typing import Any

from changelog_engine.types.instant import Instant
from changelog_engine.types.java_text import instant_text, timestamp_text
from changelog_engine.types.typeinfo import Misfit, TypeInformation, register


class SqlTimeTypeInfo(TypeInformation):
    """SQL_DATE, SQL_TIME, SQL_TIMESTAMP and INSTANT.

    Documented source: ``pyflink.common.typeinfo.SqlTimeTypeInfo``.

    Args:
        kind: one of these names.
        python_class: the class of the values.
    """

    def __init__(self, kind: str, python_class: type) -> None:
        self.kind = kind  # type: ignore[misc] # one class serves four kinds
        self.name = kind
        self.exact = self.sure = python_class
        self._class = python_class

    def fit(self, value: Any, widen: bool) -> Any:
        """See TypeInformation.fit."""
        # A datetime is a date to Python; as a SQL_DATE it would lose its time.
        if not isinstance(value, self._class) or (
            self._class is datetime.date and isinstance(value, datetime.datetime)
        ):
            raise Misfit(self, value)
        return value

    def text(self, value: Any) -> str:
        """See TypeInformation.text."""
        if isinstance(value, datetime.datetime):
            return timestamp_text(value)
        if isinstance(value, datetime.time):
            return f"{value:%H:%M:%S}"
        return instant_text(value) if isinstance(value, Instant) else str(value)


SQL_DATE = SqlTimeTypeInfo("SQL_DATE", datetime.date)
SQL_TIME = SqlTimeTypeInfo("SQL_TIME", datetime.time)
SQL_TIMESTAMP = SqlTimeTypeInfo("SQL_TIMESTAMP", datetime.datetime)
INSTANT = SqlTimeTypeInfo("INSTANT", Instant)

for _type in (SQL_DATE, SQL_TIME, SQL_TIMESTAMP, INSTANT):
    register(_type.kind, lambda spec, found=_type: found)  # type: ignore[misc]
