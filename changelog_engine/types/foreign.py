"""What is asked of values whose classes are not the engine's: dataclasses of users, times of pandas."""

from __future__ import annotations

import datetime
from dataclasses import fields, is_dataclass
from typing import Any


def fields_of(value: Any, compared: bool = False) -> dict[str, Any] | None:
    """The fields of a dataclass's instance, by name, with None for one that was deleted; None of anything else.

    Args:
        compared: those alone that count when two instances are compared.
    """
    if not is_dataclass(value) or isinstance(value, type):
        return None
    return {
        field.name: getattr(value, field.name, None)
        for field in fields(value)
        if field.compare or not compared
    }


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes that an object has of its own; none of a class, and of what keeps none by name."""
    held = getattr(value, "__dict__", None)
    return held if isinstance(held, dict) else {}


def name_of(called: Any) -> str:
    """What messages call a function or class."""
    return str(getattr(called, "__qualname__", None) or repr(called))


def has_nanoseconds(value: datetime.datetime) -> bool:
    """Whether a time is finer than a microsecond, as one of pandas may be."""
    return bool(getattr(value, "nanosecond", 0))
