"""How elements become the bytes of a part file: each by itself, or many together by a bulk writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from changelog_engine.types import TypeInformation, Types


@runtime_checkable
class RowEncoder(Protocol):
    """Encodes elements one by one: files can end after any of them. Pickled and shipped."""

    def for_type(self, type_info: TypeInformation | None) -> RowEncoder:
        """The encoder for elements of a type; None for an undeclared one."""

    def encode(self, values: Sequence[Any]) -> list[bytes]:
        """The bytes of each element."""


class BulkWriter(Protocol):
    """Writes one file."""

    def write(self, values: Sequence[Any]) -> None:
        """Take elements, in order."""

    def finish(self) -> None:
        """Write what is left; the stream stays open."""


@runtime_checkable
class BulkFactory(Protocol):
    """Makes bulk writers. Pickled and shipped."""

    def open(self, stream: Any) -> BulkWriter:
        """A writer to a binary stream."""

    def check(self) -> None:
        """Raise if it cannot work, before the job starts."""


class StringEncoder:
    """Each element as text and a newline; what the charset cannot hold becomes ``?``, as in Java.

    Args:
        charset: any encoding that Python knows.
        text: element -> text; None for ``str``.
    """

    def __init__(self, charset: str = "UTF-8", text: Callable[[Any], str] | None = None) -> None:
        self.charset = charset
        self._text: Callable[[Any], str] = text or str

    def for_type(self, type_info: TypeInformation | None) -> StringEncoder:
        """Elements look as `print` shows them."""
        plain = type_info is None or type_info == Types.STRING()
        return StringEncoder(self.charset, None if plain or type_info is None else type_info.format)

    def encode(self, values: Sequence[Any]) -> list[bytes]:
        """See RowEncoder."""
        text, charset = self._text, self.charset
        return [f"{text(value)}\n".encode(charset, "replace") for value in values]
