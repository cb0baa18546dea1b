"""Serializers of whole objects."""

from __future__ import annotations

import pickle
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import cloudpickle

from changelog_engine.api_names import refuse_other_names

refuse_other_names(__name__)

__all__ = ["PickleSerializer", "Serializer"]

_LENGTH = struct.Struct("!i")


class Serializer(ABC):
    """Turns objects into bytes, and a stream of bytes into objects; each is preceded by its length."""

    @abstractmethod
    def dumps(self, obj: Any) -> bytes:
        """The object as bytes.

        Args:
            obj: what to write.
        """

    @abstractmethod
    def loads(self, obj: bytes) -> Any:
        """The object that the bytes hold.

        Args:
            obj: what `dumps` gave.
        """

    def serialize(self, iterable: Iterable[Any], stream: BinaryIO) -> None:
        """Write objects one after the other, each after its length.

        Args:
            stream: where their bytes go.
        """
        for each in iterable:
            data = self.dumps(each)
            stream.write(_LENGTH.pack(len(data)))
            stream.write(data)

    def deserialize(self, stream: BinaryIO) -> Iterator[Any]:
        """Read objects until the stream ends.

        Args:
            stream: what `serialize` wrote.

        Raises:
            EOFError: the stream ends inside an object.
        """
        while head := stream.read(_LENGTH.size):
            size = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else -1
            data = stream.read(max(size, 0))
            if len(data) != size:
                raise EOFError("a stream of serialized objects ends inside one of them")
            yield self.loads(data)


class PickleSerializer(Serializer):
    """Objects by pickling; functions and classes of the script are written by value.

    Example:
        >>> serializer = PickleSerializer()
        >>> serializer.loads(serializer.dumps({"a": (1, None)}))
        {'a': (1, None)}
    """

    def dumps(self, obj: Any) -> bytes:
        """The object, pickled.

        Args:
            obj: what to write.
        """
        data: bytes = cloudpickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
        return data

    def loads(self, obj: bytes) -> Any:
        """The object that was pickled.

        Args:
            obj: what `dumps` gave. Unpickle only what you trust: it may run code.
        """
        return pickle.loads(obj)
