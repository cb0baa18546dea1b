"""How elements become the bytes of a part file: each by itself, or many together by a bulk writer."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Any, Self

from changelog_engine.errors import StorageError, TypeMismatchError
from changelog_engine.types import TypeInformation, Types

# Charsets in which a str is encoded character by character, without a byte order mark.
_BYTEWISE = frozenset(("ascii", "iso8859-1", "utf-8"))


class RowEncoder(ABC):
    """Encodes elements one by one: files can end after any of them. Pickled and shipped."""

    def for_type(self, type_info: TypeInformation | None) -> Self:
        """The encoder for elements of a type; None for an undeclared one."""
        return self

    @abstractmethod
    def encode(self, values: Sequence[Any]) -> list[bytes]:
        """The bytes of each element."""

    def joined(self, values: Sequence[Any]) -> bytes:
        """The bytes of all elements, one after the other."""
        return b"".join(self.encode(values))


class BulkWriter(ABC):
    """Writes one file."""

    @abstractmethod
    def write(self, values: Sequence[Any]) -> None:
        """Take elements, in order."""

    @abstractmethod
    def finish(self) -> None:
        """Write what is left; the stream stays open."""


class BulkFactory(ABC):
    """Makes bulk writers. Pickled and shipped."""

    @abstractmethod
    def open(self, stream: Any) -> BulkWriter:
        """A writer to a binary stream."""

    def check(self) -> None:
        """Raise if it cannot work, before the job starts."""


class MergingFactory(BulkFactory):
    """A bulk factory that can make one file of several that it wrote. The records stay as they are.

    Attributes:
        concatenates: whether the bytes of several files, one after the other, are a file of the format too.
    """

    described: str
    concatenates: bool = False

    @abstractmethod
    def merge(self, sources: Iterable[tuple[str, Any]], stream: Any) -> None:
        """Write the records of several files to a stream, in order; the stream stays open.

        Args:
            sources: of each file its name for messages, and a binary stream that can be read and sought in.

        Raises:
            StorageError: a file that cannot be read, or was written with another schema.
        """


def not_merged(name: str, expected: str, error: Exception) -> StorageError:
    """The error of a file that waits for compaction and cannot be read."""
    return StorageError(
        f"the file {name}, which waits for compaction, cannot be read as {expected}: {error}. If the program changed what "
        "it writes, run it once with disable_compact(): that shows the files that wait as they are"
    )


class StringEncoder(RowEncoder):
    """Each element as text and a newline; what the charset cannot hold becomes ``?``, as in Java.

    Args:
        charset: any encoding that Python knows.
        text: element -> text; None for ``str``.
        nulls: whether None may be written.
    """

    def __init__(
        self, charset: str = "UTF-8", text: Callable[[Any], str] | None = None, nulls: bool = True
    ) -> None:
        self.charset = charset
        self._text: Callable[[Any], str] = text or str
        self._nulls = nulls

    def for_type(self, type_info: TypeInformation | None) -> Self:
        """Elements look as Java shows them: rows as ``+I[a, 1.0, null]``, where `print` has ``+I[a,1.0,None]``."""
        if type_info is None:
            return type(self)(self.charset)
        text = None if type_info == Types.STRING() else type_info.nested_text
        return type(self)(self.charset, text, nulls=False)

    def encode(self, values: Sequence[Any]) -> list[bytes]:
        """See RowEncoder.

        Raises:
            TypeMismatchError: None, where elements have a type: its line would look like that of the string ``None``.
        """
        if not self._nulls and NoneType in set(map(type, values)):
            raise TypeMismatchError(
                "an element is None, and no line of text stands for that: filter it out, or map it to a str, before "
                "the sink"
            )
        text, charset = self._text, self.charset
        return [f"{text(value)}\n".encode(charset, "replace") for value in values]

    def joined(self, values: Sequence[Any]) -> bytes:
        bytewise = codecs.lookup(self.charset).name in _BYTEWISE
        if not bytewise or self._text is not str or set(map(type, values)) != {str}:
            return super().joined(values)
        return "\n".join([*values, ""]).encode(self.charset, "replace")
