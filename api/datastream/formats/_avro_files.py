"""Avro files: their schema, how they are read and how they are written."""

from __future__ import annotations

import json
from typing import Any

from changelog_engine.config import local_path
from changelog_engine.connectors import files, packages
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.types import PickledBytesTypeInfo

from ..._arguments import text
from ..._needs import needs
from ...common._bulk_writers import BulkWriterFactory
from ..connectors._file_source import InputFormat


class AvroSchema:
    """The schema of Avro records; made by its static methods.

    Example:
        >>> str(AvroSchema.parse_string('{"type": "string"}'))
        '{"type": "string"}'
    """

    def __init__(self, json_schema: str) -> None:
        self._json = json_schema

    def __str__(self) -> str:
        return self._json

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """A schema from its JSON text."""
        what = "AvroSchema.parse_string: json_schema"
        try:
            json.loads(text(json_schema, what))
        except ValueError as error:
            raise ConfigurationError(f"{what} is not JSON: {error}") from None
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """A schema from a file of JSON.

        Args:
            file_path: plain or as a ``file:`` URI.

        Raises:
            ConfigurationError: the file cannot be read or is not JSON.
        """
        path = local_path(text(file_path, "AvroSchema.parse_file: file_path"))
        try:
            with open(path or file_path, encoding="utf-8") as file:
                return AvroSchema.parse_string(file.read())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"AvroSchema.parse_file: cannot read {file_path!r}: {error}") from None


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """Type of Avro records: dicts, which travel as they are."""

    def __init__(self, schema: AvroSchema) -> None:
        schema_text(schema, "GenericRecordAvroTypeInfo")


@needs(packages.AVRO)
class AvroInputFormat(InputFormat):
    """Reads Avro files; the elements are dicts. Give it to ``env.create_input``, or, beyond PyFlink, to `FileSource`.

    Needs the package fastavro: ``pip install 'changelog-engine[avro]'``.

    Args:
        path: file or folder.
        schema: that the records are read as.

    Raises:
        ConfigurationError: an argument that cannot be used, or fastavro is not installed.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        records = files.AvroRecords(schema_text(schema, "AvroInputFormat: schema"))
        super().__init__(records, path, GenericRecordAvroTypeInfo(schema))


@needs(packages.AVRO)
class AvroBulkWriters:
    """Writes Avro files. Needs the package fastavro: ``pip install 'changelog-engine[avro]'``."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """The factory of writers of a schema. Elements are dicts for records, lists for arrays, and so on.

        Args:
            schema: made by ``AvroSchema.parse_string``.
        """
        return BulkWriterFactory(files.AvroFiles(schema_text(schema, "AvroBulkWriters.for_generic_record")))


def schema_text(schema: Any, what: str) -> str:
    """The JSON text of an AvroSchema."""
    if not isinstance(schema, AvroSchema):
        raise ArgumentTypeError(
            f"{what} needs an AvroSchema; AvroSchema.parse_string makes one; got {schema!r}"
        )
    return str(schema)
