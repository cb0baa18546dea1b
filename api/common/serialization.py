"""Schemas: how connectors turn values into bytes and bytes into values.

Source: pyflink.common.serialization
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import Any

from api import _arguments
from api._unsupported import module_getattr
from changelog_engine.errors import ConfigurationError, TypeMismatchError
from changelog_engine.types import TypeInformation, Types

__all__ = ["DeserializationSchema", "Encoder", "SerializationSchema", "SimpleStringSchema"]


class SerializationSchema(ABC):
    """Turns a value into the bytes of one message. Beyond PyFlink you can write one in Python.

    Source: pyflink.common.serialization.SerializationSchema
    """

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """The message of a value.

        Args:
            element: the value.

        Raises:
            TypeMismatchError: this schema cannot write it.
        """


class DeserializationSchema(ABC):
    """Turns the bytes of one message into a value. Beyond PyFlink you can write one in Python.

    Source: pyflink.common.serialization.DeserializationSchema
    """

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """The value of a message.

        Args:
            message: its bytes.

        Returns:
            The value; None for a message that is to be left out.
        """

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Whether a value ends the stream. By default none does.

        Args:
            next_element: a value that `deserialize` gave.
        """
        return False

    is_end_of_stream.never = True  # type: ignore[attr-defined] # connectors need not ask

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

    Source: pyflink.common.serialization.SimpleStringSchema
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = _known(charset, "SimpleStringSchema: charset")

    def serialize(self, element: str) -> bytes:
        """The text in this charset; what it cannot hold becomes ``?``, as in Java.

        Args:
            element: a str.

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
        """The message as text; bytes that are none become U+FFFD, as in Java.

        Args:
            message: its bytes.
        """
        return bytes(message).decode(self._charset, "replace")

    def get_produced_type(self) -> TypeInformation:
        """``Types.STRING()``."""
        return Types.STRING()


class Encoder:
    """Writes elements to the files of a sink, each by itself. Made by `simple_string_encoder`.

    Source: pyflink.common.serialization.Encoder
    """

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


_FORMATS = "api.datastream.formats"

__getattr__ = module_getattr(
    __name__,
    set(),
    {
        "AvroRowDeserializationSchema": f"{_FORMATS}.avro",
        "AvroRowSerializationSchema": f"{_FORMATS}.avro",
        "BulkWriterFactory": "api.common._bulk_writers",
        "CsvRowDeserializationSchema": f"{_FORMATS}.csv",
        "CsvRowSerializationSchema": f"{_FORMATS}.csv",
        "JsonRowDeserializationSchema": f"{_FORMATS}.json",
        "JsonRowSerializationSchema": f"{_FORMATS}.json",
        "RowDataBulkWriterFactory": "api.common._bulk_writers",
    },
)
