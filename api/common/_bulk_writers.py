"""Factories of bulk writers, which file sinks take."""

from __future__ import annotations

from typing import Any

from changelog_engine.connectors import check_inherits, files
from changelog_engine.types import RowTypeInfo


class BulkWriterFactory:
    """Makes the writers of a bulk format; made by the classes of ``api.datastream.formats``.

    Args:
        factory: beyond PyFlink, an object that inherits ``changelog_engine.connectors.files.BulkFactory``.
    """

    def __init__(self, factory: Any) -> None:
        check_inherits(factory, "BulkWriterFactory needs", files.BulkFactory)
        self._factory = factory


class RowDataBulkWriterFactory(BulkWriterFactory):
    """A `BulkWriterFactory` of rows of one type.

    Args:
        factory: see `BulkWriterFactory`.
    """

    def __init__(self, factory: Any, row_type: RowTypeInfo) -> None:
        super().__init__(factory)
        self._row_type = row_type

    def get_row_type(self) -> RowTypeInfo:
        """Type of the rows."""
        return self._row_type
