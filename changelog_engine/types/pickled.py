"""PICKLED_BYTE_ARRAY: any Python object, and what an undeclared type means."""

from __future__ import annotations

import copy
import datetime
from decimal import Decimal
from typing import Any

from changelog_engine.errors import NotSerializableError
from changelog_engine.types.typeinfo import TypeInformation, register_one, shown

_DATES = (datetime.date, datetime.time, datetime.datetime, datetime.timedelta)
_ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes, Decimal, *_DATES))


class PickledBytesTypeInfo(TypeInformation):
    """Accepts anything."""

    kind = "PICKLED_BYTE_ARRAY"
    name = "PICKLED_BYTE_ARRAY"
    immutable = False
    copied_whole = False  # an object's class may say what a copy shares

    def fit(self, value: Any) -> Any:
        return value

    def copy(self, value: Any) -> Any:
        """See TypeInformation.copy.

        Raises:
            NotSerializableError: the object cannot be copied.
        """
        kind = type(value)
        if kind in _ATOMS or (kind is tuple and all(type(item) in _ATOMS for item in value)):
            return value
        if kind is list and all(type(item) in _ATOMS for item in value):
            return value.copy()
        try:
            return copy.deepcopy(value)
        except Exception as error:
            raise NotSerializableError(
                f"{shown(value)} of type {kind.__name__} cannot be copied into state: {error}; "
                "keep only plain data in state"
            ) from error


PICKLED_BYTE_ARRAY = PickledBytesTypeInfo()
register_one(PICKLED_BYTE_ARRAY)
