"""What is said of a program's schemas and selectors that fail at a record, by all connectors in the same words."""

from __future__ import annotations

from typing import Any

from changelog_engine.errors import RefusedForGoodError, TypeMismatchError
from changelog_engine.types.typeinfo import shown, shown_bytes


def unreadable(record: str, error: Exception | str, value: bytes | None, remedy: str) -> RefusedForGoodError:
    """A record that the deserialization schema fails at.

    Args:
        record: names the server and the record.
        value: its bytes; None for a record without.
        remedy: a sentence without its end.
    """
    why = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    held = "It has no value" if value is None else f"It is {shown_bytes(value)}"
    return RefusedForGoodError(f"{record} can't be read: {why}. {held}. {remedy}")


def unwritable(what: str, given: Any, element: Any, wanted: str = "bytes") -> TypeMismatchError:
    """What a program's function, which ``what`` names, gave for an element, and that is not what it is to give."""
    return TypeMismatchError(f"{what} gave {shown(given)} for {shown(element)}, which is not {wanted}")
