"""Parquet files."""

from __future__ import annotations

import json
from typing import Annotated

from changelog_engine.connectors import files

from ..._arguments import RowType, Whole, checked, checked_later
from ...common._bulk_writers import BulkWriterFactory, RowDataBulkWriterFactory
from ...common.configuration import Configuration
from ..connectors._file_source import BulkFormat, StreamFormat
from ._avro_files import AvroSchema, schema_text

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]


class AvroParquetReaders:
    """Reads Parquet files as Avro records, which are dicts."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """The format for `FileSource.for_record_stream_format`. All columns of a file are read.

        Raises:
            ConfigurationError: no AvroSchema of records.
            NotSupportedError: a type that columns cannot hold.
        """
        files.arrow_schema_of_avro(schema_text(schema, "AvroParquetReaders.for_generic_record"))
        return StreamFormat(files.ParquetRecords())


@checked
class ParquetColumnarRowInputFormat(BulkFormat):
    """Reads Parquet files as rows, for `FileSource.for_bulk_file_format`.

    A column that a file does not have is None; one of another type is converted where that loses nothing.

    Args:
        row_type: the columns to read: ``DataTypes.ROW``, or ``Types.ROW_NAMED``.
        hadoop_config: kept; nothing here reads it.
        batch_size: how many rows are decoded at a time; default 2048.
        is_utc_timestamp: kept; timestamps are read as they are written.
        is_case_sensitive: whether columns must be called exactly so; default True.

    Raises:
        NotSupportedError: a type that columns cannot hold.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> from changelog_engine.api.datastream.connectors.file_system import FileSource
        >>> format = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["id"], [Types.LONG()]))
        >>> source = FileSource.for_bulk_file_format(format, "/data/in").build()
    """

    def __init__(
        self,
        row_type: RowType,
        hadoop_config: Annotated[Configuration | None, checked_later] = None,
        batch_size: Annotated[int, Whole(1)] = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        super().__init__(files.ParquetRecords(row_type, batch_size, is_case_sensitive))


@checked
class ParquetBulkWriters:
    """Writes rows to Parquet files."""

    @staticmethod
    def for_row_type(
        row_type: RowType,
        hadoop_config: Annotated[Configuration | None, checked_later] = None,
        utc_timestamp: bool = False,
    ) -> BulkWriterFactory:
        """The factory of writers of a type. Elements are rows or tuples in its order.

        Args:
            row_type: ``DataTypes.ROW``, or ``Types.ROW_NAMED``.
            hadoop_config: kept; nothing here reads it.
            utc_timestamp: kept; timestamps without zone are written as they are, as microseconds.

        Raises:
            ConfigurationError: no ROW type.
            NotSupportedError: a type that columns cannot hold.
        """
        schema, rounded = files.arrow_schema(row_type), files.rounded_decimals(row_type)
        return RowDataBulkWriterFactory(files.ColumnarFiles("parquet", schema, rounded=rounded), row_type)


class AvroParquetWriters:
    """Writes Avro records, which are dicts, to Parquet files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """The factory of writers of a schema.

        Raises:
            ConfigurationError: no AvroSchema of records.
            NotSupportedError: a type that columns cannot hold.
        """
        text = schema_text(schema, "AvroParquetWriters.for_generic_record")
        found = files.arrow_schema_of_avro(text)
        return BulkWriterFactory(files.ColumnarFiles("parquet", found, avro=json.loads(text)))
