"""Factories of bulk writers, which file sinks take."""

from __future__ import annotations

from typing import Any

from changelog_engine.connectors import files
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.types import RowTypeInfo


class BulkWriterFactory:
    """Makes the writers of a bulk format; made by the classes of ``api.datastream.formats``.

    Args:
        factory: beyond PyFlink, an object with ``open(stream)`` and ``check()``; ``open`` gives a writer with
            ``write(values)`` and ``finish()``.

    Raises:
        ConfigurationError: an object without these.

    Source: pyflink.common.serialization.BulkWriterFactory
    """

    def __init__(self, factory: Any) -> None:
        if not isinstance(factory, files.BulkFactory):
            raise ArgumentTypeError(
                f"BulkWriterFactory needs an object with open(stream) and check(), got {factory!r}"
            )
        self._factory = factory


class RowDataBulkWriterFactory(BulkWriterFactory):
    """A `BulkWriterFactory` of rows of one type.

    Args:
        factory: see `BulkWriterFactory`.
        row_type: of the rows.

    Source: pyflink.common.serialization.RowDataBulkWriterFactory
    """

    def __init__(self, factory: Any, row_type: RowTypeInfo) -> None:
        super().__init__(factory)
        self._row_type = row_type

    def get_row_type(self) -> RowTypeInfo:
        """Type of the rows."""
        return self._row_type
