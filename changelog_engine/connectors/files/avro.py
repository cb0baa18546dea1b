"""Avro files, read and written as dicts; needs the package fastavro."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from changelog_engine.connectors.files.encoders import BulkWriter, MergingFactory, not_merged
from changelog_engine.connectors.files.formats import FileFormat
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.packages import AVRO
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.errors import (
    ConfigurationError,
    DamagedInputError,
    NotSupportedError,
    StorageError,
    TypeMismatchError,
)
from changelog_engine.formats.avro_records import to_write
from changelog_engine.formats.parts import Convert
from changelog_engine.types.typeinfo import shown

_SIMPLE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "null": pa.null(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def parsed(schema: str) -> Any:
    """An Avro schema from its JSON text.

    Raises:
        ConfigurationError: it is not an Avro schema.
    """
    fastavro = AVRO.load()
    try:
        return fastavro.parse_schema(json.loads(schema))
    except Exception as error:  # fastavro's errors share no base
        raise ConfigurationError(
            f"{schema[:200]!r} is not an Avro schema ({type(error).__name__}: {error})"
        ) from None


class AvroRecords(FileFormat):
    """The records of Avro files, as dicts. The position is the offset of a block and a count of records in it.

    Args:
        schema: JSON text of the schema that records are read as; None for the one they were written with.

    Raises:
        ConfigurationError: no schema, or fastavro is not installed.
    """

    def __init__(self, schema: str | None = None) -> None:
        if schema is not None:
            parsed(schema)
        self.start = [0, 0]
        self._schema = schema

    def reader(self, file: InputFile) -> SplitReader:
        return _AvroReader(file, None if self._schema is None else parsed(self._schema))


class _AvroReader(SplitReader):
    def __init__(self, file: InputFile, schema: Any) -> None:
        self._file = file
        self._schema = schema
        self._stream: Any = None
        self._blocks: Iterator[Any] = iter(())
        self._records: Iterator[Any] = iter(())  # of the current block
        self._block = [0, 0]  # offset of the current block, and how many of its records were given
        self._next_block = 0  # offset of the one after it

    def read(self, position: Position, max_records: int) -> Range:
        """Up to max_records records from a position on.

        Raises:
            StorageError: the file cannot be read, or is not an Avro file.
        """
        position = list(position)
        values: list[Any] = []
        try:
            if self._stream is None or position != self._block:
                self._seek(position)
            while len(values) < max_records:
                found = list(itertools.islice(self._records, max_records - len(values)))
                self._block[1] += len(found)
                values += found
                if not found and not self._turn():
                    return Range(values, list(self._block), True)
        except StorageError:
            self.close()
            raise
        except Exception as error:  # fastavro raises all kinds for damaged files
            self.close()
            kind = StorageError if isinstance(error, OSError) else DamagedInputError
            raise kind(
                f"cannot read the input file {self._file.name} as Avro, from {position} on: "
                f"{type(error).__name__}: {error}"
            ) from error
        return Range(values, list(self._block), False)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _seek(self, position: list[int]) -> None:
        self.close()
        self._stream = self._file.open()
        self._blocks = AVRO.load().block_reader(self._stream, reader_schema=self._schema)
        self._next_block = position[0] or self._stream.tell()
        self._file.seek(self._stream, self._next_block)
        self._block, self._records = [self._next_block, 0], iter(())
        if position[1] and self._turn():
            skipped = sum(1 for _ in itertools.islice(self._records, position[1]))
            self._block[1] = skipped

    def _turn(self) -> bool:
        """Go to the next block; False at the end of the file.

        Raises:
            DamagedInputError: the file has fewer bytes than it had.
        """
        block = next(self._blocks, None)
        if block is None:
            if (end := self._stream.tell()) < self._file.size:
                raise DamagedInputError(
                    f"cannot read the input file {self._file.name} as Avro: it was cut while it was read: it ends before "
                    f"byte {end}, and had {self._file.size}"
                )
            return False
        self._block, self._records = [block.offset, 0], iter(block)
        return True


class AvroFiles(MergingFactory):
    """The bulk format of Avro files.

    Args:
        schema: JSON text of the schema; elements are what fastavro writes with it: dicts for records.
        codec: compression: ``null``, ``deflate``, ``snappy`` and so on.
    """

    described = "Avro files"

    def __init__(self, schema: str, codec: str = "null") -> None:
        self._schema = schema
        self._codec = codec

    def check(self) -> None:
        """Raise if it is not a schema, or fastavro is not installed."""
        parsed(self._schema)

    def open(self, stream: Any) -> AvroFileWriter:
        schema = parsed(self._schema)
        return AvroFileWriter(AVRO.load().write.Writer(stream, schema, codec=self._codec), to_write(schema))

    def merge(self, sources: Iterable[tuple[str, Any]], stream: Any) -> None:
        """Blocks are copied without decoding their records."""
        writer = AVRO.load().write.Writer(stream, parsed(self._schema), codec=self._codec)
        for name, source in sources:
            for block in self._blocks(name, source):
                writer.write_block(block)
        writer.flush()

    def _blocks(self, name: str, source: Any) -> Iterator[Any]:
        try:
            reader = AVRO.load().block_reader(source)
            if parsed(reader.metadata["avro.schema"]) != parsed(self._schema):
                raise ValueError(f"its schema is {reader.metadata['avro.schema']}")
            yield from reader
        except OSError:
            raise
        except Exception as error:  # fastavro raises all kinds for damaged files
            raise not_merged(name, f"Avro files of the schema {self._schema}", error) from error


class AvroFileWriter(BulkWriter):
    """Writes one Avro file."""

    def __init__(self, writer: Any, to_write: Convert) -> None:
        self._writer = writer
        self._to_write = to_write

    def write(self, values: Sequence[Any]) -> None:
        for value in values:
            try:
                self._writer.write(self._to_write(value))
            except OSError:
                raise
            except Exception as error:  # fastavro raises all kinds
                raise TypeMismatchError(
                    f"{shown(value)} does not fit the Avro schema: {type(error).__name__}: {error}"
                ) from None

    def finish(self) -> None:
        self._writer.flush()


def arrow_schema_of_avro(schema: str) -> pa.Schema:
    """The columns for records of an Avro schema, for Parquet files.

    Raises:
        ConfigurationError: no schema of records.
        NotSupportedError: a type that columns cannot hold.
    """
    document = json.loads(schema)
    if not isinstance(document, dict) or document.get("type") != "record":
        raise ConfigurationError(f"a Parquet file needs the Avro schema of a record, got {schema[:100]!r}")
    return pa.schema(list(_arrow(document, {})))


def _arrow(schema: Any, known: dict[str, pa.DataType]) -> pa.DataType:
    if isinstance(schema, list):
        members = [member for member in schema if member != "null"]
        if len(members) == 1:
            return _arrow(members[0], known)
        raise NotSupportedError(
            f"columns cannot hold the Avro union {schema}; use a union of null and one type"
        )
    if isinstance(schema, str):
        if schema in known:
            return known[schema]
        schema = {"type": schema}
    kind = schema.get("type")
    if schema.get("logicalType") in _LOGICAL:
        return _LOGICAL[schema["logicalType"]]
    if schema.get("logicalType") == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if kind == "record":
        fields = [pa.field(field["name"], _arrow(field["type"], known)) for field in schema["fields"]]
        known[schema["name"]] = pa.struct(fields)
        return known[schema["name"]]
    if kind == "array":
        return pa.list_(_arrow(schema["items"], known))
    if kind == "map":
        return pa.map_(pa.string(), _arrow(schema["values"], known))
    if kind == "fixed":
        return pa.binary(schema["size"])
    if isinstance(kind, (dict, list)):
        return _arrow(kind, known)
    if kind not in _SIMPLE:
        raise NotSupportedError(f"columns cannot hold the Avro type {kind!r}")
    if kind == "enum":
        known[schema["name"]] = pa.string()
    return _SIMPLE[kind]
