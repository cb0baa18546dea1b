"""ORC files.

Source: pyflink.datastream.formats.orc
"""

from __future__ import annotations

from changelog_engine.connectors import files
from changelog_engine.types import RowTypeInfo

from ..._unsupported import module_getattr
from ...common._bulk_writers import BulkWriterFactory, RowDataBulkWriterFactory
from ...common.configuration import Configuration
from .parquet import row_type_of

__all__ = ["OrcBulkWriters"]


class OrcBulkWriters:
    """Writes rows to ORC files.

    Source: pyflink.datastream.formats.orc.OrcBulkWriters
    """

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo,
        writer_properties: Configuration | None = None,
        hadoop_config: Configuration | None = None,
    ) -> BulkWriterFactory:
        """The factory of writers of a type. Elements are rows or tuples in its order.

        Args:
            row_type: ``DataTypes.ROW``, or ``Types.ROW_NAMED``.
            writer_properties: kept; nothing here reads it.
            hadoop_config: kept; nothing here reads it.

        Raises:
            ConfigurationError: no ROW type.
            NotSupportedError: a type that columns cannot hold.
        """
        found = row_type_of(row_type, "OrcBulkWriters.for_row_type: row_type")
        return RowDataBulkWriterFactory(files.ColumnarFiles("orc", files.arrow_schema(found)), found)


__getattr__ = module_getattr(__name__)
