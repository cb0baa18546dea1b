"""ORC files."""

from __future__ import annotations

from typing import Annotated

from changelog_engine.connectors import files

from ..._arguments import RowType, Whole, checked, checked_later
from ...common._bulk_writers import BulkWriterFactory, RowDataBulkWriterFactory
from ...common.configuration import Configuration
from ..connectors._file_source import BulkFormat

__all__ = ["OrcBulkWriters", "OrcColumnarRowInputFormat"]


@checked
class OrcColumnarRowInputFormat(BulkFormat):
    """Reads ORC files as rows, for `FileSource.for_bulk_file_format`. Flink has it in Java, and not in PyFlink.

    A column that a file does not have is None; one of another type is converted where that loses nothing.

    Args:
        row_type: the columns to read: ``DataTypes.ROW``, or ``Types.ROW_NAMED``.
        batch_size: how many rows are decoded at a time; default 2048.
        is_case_sensitive: whether columns must be called exactly so; default True.

    Raises:
        NotSupportedError: a type that ORC cannot hold.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> from changelog_engine.api.datastream.connectors.file_system import FileSource
        >>> format = OrcColumnarRowInputFormat(Types.ROW_NAMED(["id"], [Types.LONG()]))
        >>> source = FileSource.for_bulk_file_format(format, "/data/in").build()

    Source: no counterpart in PyFlink; org.apache.flink.orc.OrcColumnarRowInputFormat
    """

    def __init__(
        self,
        row_type: RowType,
        batch_size: Annotated[int, Whole(1)] = 2048,
        is_case_sensitive: bool = True,
    ) -> None:
        files.orc_schema(row_type)  # refuses what ORC cannot hold
        super().__init__(files.OrcRecords(row_type, batch_size, is_case_sensitive))


@checked
class OrcBulkWriters:
    """Writes rows to ORC files."""

    @staticmethod
    def for_row_type(
        row_type: RowType,
        writer_properties: Annotated[Configuration | None, checked_later] = None,
        hadoop_config: Annotated[Configuration | None, checked_later] = None,
    ) -> BulkWriterFactory:
        """The factory of writers of a type. Elements are rows or tuples in its order.

        Args:
            row_type: ``DataTypes.ROW``, or ``Types.ROW_NAMED``.
            writer_properties: kept; nothing here reads it.
            hadoop_config: kept; nothing here reads it.

        Raises:
            ConfigurationError: no ROW type.
            NotSupportedError: a type that ORC cannot hold.
        """
        schema, rounded = files.orc_schema(row_type), files.rounded_decimals(row_type)
        return RowDataBulkWriterFactory(files.ColumnarFiles("orc", schema, rounded=rounded), row_type)
