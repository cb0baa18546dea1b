"""Rows as Avro's binary records."""

from __future__ import annotations

import io
import json
from typing import Any

from changelog_engine.connectors import packages
from changelog_engine.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from changelog_engine.formats import avro_records, avro_values
from changelog_engine.types import RowTypeInfo, TypeInformation

from ... import _arguments
from ..._needs import needs
from ...common.serialization import DeserializationSchema, SerializationSchema
from ._avro_files import AvroBulkWriters, AvroInputFormat, AvroSchema, GenericRecordAvroTypeInfo

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

_EXAMPLE = '{"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]}'


@needs(packages.AVRO)
class AvroRowDeserializationSchema(DeserializationSchema):
    """Reads a binary Avro record, without a file header or a registry's prefix, as a row.

    Times become naive datetimes in UTC. A union of null and a type is that type.

    Args:
        record_class: name of a Java class, which cannot be used here.

    Raises:
        ConfigurationError: no schema of a record, or the package fastavro is not installed.
        NotSupportedError: a Java class is given.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        what = "AvroRowDeserializationSchema"
        self._text = _schema_text(what, record_class, avro_schema_string)
        self._schema, self._type_info = _parsed(self._text, what)
        self._convert = avro_values.from_avro(self._type_info)
        self._read = packages.AVRO.load().schemaless_reader

    def deserialize(self, message: bytes) -> Any:
        """The row of a message.

        Raises:
            ValueError: it is not a record of this schema.
        """
        if message is None:
            raise ValueError("there is no value to parse")
        stream = io.BytesIO(message)
        try:
            record = self._read(stream, self._schema, None)
        except Exception as error:
            # fastavro lets out whatever a damaged message leads to, EOFError and IndexError too.
            raise ValueError(f"no record of this schema: {type(error).__name__} {error}".rstrip()) from None
        if stream.tell() != len(message):
            raise ValueError(f"no record of this schema: {len(message) - stream.tell()} bytes are left over")
        return self._convert(record)

    def get_produced_type(self) -> TypeInformation:
        """Type of the rows."""
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self._text)


@needs(packages.AVRO)
class AvroRowSerializationSchema(SerializationSchema):
    """Writes a row as a binary Avro record, without a file header.

    Args:
        record_class: name of a Java class, which cannot be used here.

    Raises:
        ConfigurationError: no schema of a record, or the package fastavro is not installed.
        NotSupportedError: a Java class is given.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        what = "AvroRowSerializationSchema"
        self._text = _schema_text(what, record_class, avro_schema_string)
        self._schema, self._type_info = _parsed(self._text, what)
        self._convert = avro_values.to_avro(self._type_info)
        self._checked = avro_records.to_write(self._schema)
        self._write = packages.AVRO.load().schemaless_writer

    def serialize(self, element: Any) -> bytes:
        """The record of a row.

        Args:
            element: a Row, or a tuple of its fields.

        Raises:
            TypeMismatchError: it is no such row.
        """
        stream = io.BytesIO()
        try:
            record = self._checked(self._convert(element))
            self._write(stream, self._schema, record)
        except Exception as error:
            # fastavro raises whatever a wrong value leads to.
            raise TypeMismatchError(
                f"AvroRowSerializationSchema writes {self._type_info.name}, got {element!r}: {error}"
            ) from None
        return stream.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self._text)


def _schema_text(what: str, record_class: str | None, avro_schema_string: str | None) -> str:
    if record_class is not None:
        raise NotSupportedError(
            f"{what}({record_class!r}): Java classes cannot be used in this engine; give avro_schema_string"
        )
    return _arguments.text(avro_schema_string, f"{what}: avro_schema_string")


def _parsed(text: str, what: str) -> tuple[Any, RowTypeInfo]:
    fastavro = packages.AVRO.load()
    try:
        plain = json.loads(text)
        parsed = fastavro.parse_schema(plain, expand=True)
    except Exception as error:
        # fastavro has errors of its own for each part of a schema.
        raise ConfigurationError(f"{what}: avro_schema_string is not an Avro schema: {error}") from None
    type_info = avro_values.type_of(parsed)
    if not isinstance(type_info, RowTypeInfo):
        raise ConfigurationError(f"{what}: avro_schema_string must be of a record, such as {_EXAMPLE}")
    return fastavro.parse_schema(plain), type_info
