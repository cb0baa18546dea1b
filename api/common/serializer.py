"""TypeSerializer: how values of one type are written to bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    r"""Writes values of one type to a stream of bytes and reads them back.

    The engine keeps state by its declared type and needs none; windows of your own kind name one.

    Example:
        >>> class Latin1(TypeSerializer[str]):
        ...     def serialize(self, element, stream):
        ...         stream.write(element.encode("latin-1"))
        ...
        ...     def deserialize(self, stream):
        ...         return stream.read().decode("latin-1")
        >>> stream = BytesIO()
        >>> Latin1().serialize("é", stream)
        >>> stream.getvalue()
        b'\xe9'
    """

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write a value.

        Args:
            stream: where its bytes go.
        """

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read a value.

        Args:
            stream: stands at the value's first byte.

        Returns:
            A value equal to the one that was written.
        """
