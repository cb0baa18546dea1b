"""Schemas: how connectors turn values into bytes and bytes into values."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import Any

from changelog_engine.errors import ConfigurationError, TypeMismatchError
from changelog_engine.graph.hooks import does_nothing
from changelog_engine.types import Row, TypeInformation, Types

from .. import _arguments

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema(ABC):
    """Turns a value into the bytes of one message. Beyond PyFlink you can write one in Python."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """The message of a value.

        Raises:
            TypeMismatchError: this schema cannot write it.
        """


class DeserializationSchema(ABC):
    """Turns the bytes of one message into a value. Beyond PyFlink you can write one in Python."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """The value of a message.

        Returns:
            The value; None for a message that is to be left out.
        """

    @does_nothing
    def is_end_of_stream(self, next_element: Any) -> bool:
        """Whether a value ends the stream. By default none does.

        Args:
            next_element: a value that `deserialize` gave.
        """
        return False

    def get_produced_type(self) -> TypeInformation | None:
        """Type of the values; None, the default, for undeclared."""
        return None


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    r"""Text as bytes and back.

    Args:
        charset: any encoding that Python knows; default UTF-8.

    Raises:
        ConfigurationError: an unknown charset.

    Example:
        >>> schema = SimpleStringSchema()
        >>> schema.serialize("é"), schema.deserialize(b"a"), schema.get_produced_type()
        (b'\xc3\xa9', 'a', String)
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = _known(charset, "SimpleStringSchema: charset")

    def serialize(self, element: str) -> bytes:
        """The text in this charset; what it cannot hold becomes ``?``, as in Java.

        Raises:
            TypeMismatchError: no str.
        """
        if not isinstance(element, str):
            raise TypeMismatchError(
                f"SimpleStringSchema writes text, got {element!r} of type {type(element).__name__}; "
                "make a str of it in a map() before"
            )
        return element.encode(self._charset, "replace")

    def deserialize(self, message: bytes) -> str:
        """The message as text; bytes that are none become U+FFFD, as in Java."""
        return bytes(message).decode(self._charset, "replace")

    def serialize_all(self, elements: list[str]) -> list[bytes]:
        """As `serialize` for each of them, in less time."""
        if self._is_utf_8() and set(map(type, elements)) == {str}:
            try:
                return list(map(str.encode, elements))
            except UnicodeEncodeError:  # half of a surrogate pair
                pass
        return [self.serialize(element) for element in elements]

    def deserialize_all(self, messages: list[bytes]) -> list[str]:
        """As `deserialize` for each of them, in less time."""
        if self._is_utf_8() and set(map(type, messages)) == {bytes}:
            try:
                return list(map(bytes.decode, messages))  # drives our own code
            except UnicodeDecodeError:
                pass
        return [self.deserialize(message) for message in messages]

    def _is_utf_8(self) -> bool:
        return codecs.lookup(self._charset).name == "utf-8"

    def get_produced_type(self) -> TypeInformation:
        """``Types.STRING()``."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    r"""Bytes as they are.

    Example:
        >>> schema = ByteArraySchema()
        >>> schema.serialize(bytearray(b"\0a")), schema.deserialize(b"a"), schema.get_produced_type()
        (b'\x00a', b'a', PrimitiveArrayTypeInfo<Byte>)
    """

    def serialize(self, element: bytes) -> bytes:
        """The element.

        Raises:
            TypeMismatchError: not bytes.
        """
        return _bytes(element, "ByteArraySchema", "the element")

    def deserialize(self, message: bytes) -> bytes:
        """The message."""
        return bytes(message)

    def get_produced_type(self) -> TypeInformation:
        """``Types.PRIMITIVE_ARRAY(Types.BYTE())``."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """The bytes in one field of a row, such as the key of a message.

    Args:
        field_index: of the field, from 0.

    Example:
        >>> from changelog_engine.api.common import Row
        >>> RowFieldExtractorSchema(1).serialize(Row("one", b"1"))
        b'1'
    """

    def __init__(self, field_index: int) -> None:
        self._field_index = _arguments.whole_number(field_index, "RowFieldExtractorSchema: field_index", 0)

    def serialize(self, element: Row) -> bytes:
        """The bytes of the field.

        Args:
            element: a row, or a tuple.

        Raises:
            TypeMismatchError: not a row, without such a field, or the field is not bytes.
        """
        if not isinstance(element, (Row, tuple)) or self._field_index >= len(element):
            raise TypeMismatchError(
                f"RowFieldExtractorSchema takes field {self._field_index} of rows, got {element!r} of type "
                f"{type(element).__name__}; make a Row of it in a map() before"
            )
        return _bytes(
            element[self._field_index], "RowFieldExtractorSchema", f"field {self._field_index} of {element!r}"
        )


def _bytes(value: Any, schema: str, what: str) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeMismatchError(
            f"{schema} writes bytes, and {what} is {value!r} of type {type(value).__name__}; make bytes of it in a map() "
            "before"
        )
    return value if type(value) is bytes else bytes(value)


class Encoder:
    """Writes elements to the files of a sink, each by itself. Made by `simple_string_encoder`."""

    def __init__(self, charset_name: str) -> None:
        self._charset_name = charset_name

    @property
    def charset_name(self) -> str:
        """The encoding of its text."""
        return self._charset_name

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """One that writes each element as text and a newline.

        Args:
            charset_name: any encoding that Python knows; default UTF-8.

        Raises:
            ConfigurationError: an unknown charset.

        Example:
            >>> Encoder.simple_string_encoder().charset_name
            'UTF-8'
        """
        return Encoder(_known(charset_name, "Encoder.simple_string_encoder: charset_name"))


def _known(charset: Any, what: str) -> str:
    name = _arguments.text(charset, what)
    try:
        codecs.lookup(name)
    except LookupError:
        raise ConfigurationError(f"{what}: Python knows no encoding {name!r}") from None
    return name
