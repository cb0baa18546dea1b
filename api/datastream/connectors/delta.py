"""Delta tables as sources and sinks. Beyond PyFlink's Python API; the names follow Flink's Delta connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from changelog_engine.connectors import delta as engine
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.types import RowTypeInfo, TupleTypeInfo, TypeInformation, Types

from ..._arguments import Whole, checked, text
from .base import Sink, Source


@checked
class DeltaSource(Source):
    """Rows of a Delta table: of one version, of what is appended after it too, or of its change data feed.

    Elements are rows with the table's columns as fields. Timestamps of a zone are instants; decimals keep their digits.

    Example:
        >>> DeltaSource.for_table("/data/orders").build()  # doctest: +SKIP

    Source: an addition of this engine
    """

    @staticmethod
    def for_table(path: str) -> DeltaSource.Builder:
        """Begin a source of a table.

        Args:
            path: of the table, or its URI.
        """
        return DeltaSource.Builder(path)

    @checked
    class Builder:
        """Builds a `DeltaSource`. Its methods return the builder."""

        def __init__(self, path: str) -> None:
            self._path = path
            self._version: int | None = None
            self._changes_from: int | None = None
            self._until: int | None = None
            self._follow = False
            self._change_data = False

        def version_as_of(self, version: Annotated[int, Whole(0)]) -> Self:
            """Read a version as a whole; by default the newest there is when ``build()`` is called.

            Args:
                version: from 0 on.
            """
            self._version = version
            return self

        def starting_version(self, version: Annotated[int, Whole(0)]) -> Self:
            """Read what commits did from a version on, rather than a version as a whole.

            Args:
                version: the first whose changes are read.
            """
            self._changes_from = version
            return self

        def ending_version(self, version: Annotated[int, Whole(0)]) -> Self:
            """End with a version.

            Args:
                version: the last that is read.
            """
            self._until = version
            return self

        def monitor_continuously(self) -> Self:
            """Go on with what is committed later; the source never ends."""
            self._follow = True
            return self

        def change_data_feed(self) -> Self:
            """Read changes: inserted, updated and deleted rows.

            Rows have the fields ``_change_type``, ``_commit_version`` and ``_commit_timestamp`` after the table's, and are
            of the kind that the change is. A version that is read as a whole counts as inserted.
            """
            self._change_data = True
            return self

        def build(self) -> DeltaSource:
            """The source. Looks at the table.

            Raises:
                ConfigurationError: no such table or version, or one that cannot be read so.
                NotSupportedError: a column that rows cannot hold.
            """
            return DeltaSource(
                engine.DeltaSource(
                    self._path,
                    self._version,
                    self._follow,
                    self._changes_from,
                    self._until,
                    self._change_data,
                )
            )


@checked
class DeltaSink(Sink):
    """Appends rows to a Delta table, exactly once: what a checkpoint covers appears at once, in one commit.

    Jobs without checkpoints write when the input ends.

    Example:
        >>> row = Types.ROW_NAMED(["id", "day"], [Types.LONG(), Types.STRING()])
        >>> sink = DeltaSink.for_row_data("/data/orders", row).with_partition_columns("day").build()

    Source: an addition of this engine
    """

    @staticmethod
    def for_row_data(path: str, row_type: TypeInformation) -> DeltaSink.Builder:
        """Begin a sink of rows.

        Args:
            path: of the table, or its URI; the table is made when it is not there.
            row_type: of the rows: ``Types.ROW_NAMED(...)``; fields of a tuple are called f0, f1 and so on.

        Raises:
            ConfigurationError: not a str, or no type.
        """
        return DeltaSink.Builder(path, row_type)

    class Builder:
        """Builds a `DeltaSink`. Its methods return the builder."""

        def __init__(self, path: str, row_type: TypeInformation | None) -> None:
            self._path = path
            self._row_type = row_type
            self._partition_by: list[str] = []
            self._properties: dict[str, str] = {}

        def with_partition_columns(self, *columns: str) -> Self:
            """Set the columns whose values part the table's files.

            Args:
                columns: texts, whole numbers, booleans or dates.
            """
            what = "DeltaSink.Builder.with_partition_columns: columns"
            self._partition_by = [text(column, what) for column in columns]
            return self

        def with_properties(self, properties: Mapping[str, str]) -> Self:
            """Set properties of the table, when it is made.

            Args:
                properties: such as ``{"delta.appendOnly": "true"}``.
            """
            what = "DeltaSink.Builder.with_properties: properties"
            if not isinstance(properties, Mapping):
                raise ArgumentTypeError(f"{what} must be a dict of str to str, got {properties!r}")
            self._properties = {text(key, what): text(value, what) for key, value in properties.items()}
            return self

        def build(self) -> DeltaSink:
            """The sink.

            Raises:
                ConfigurationError: no row type, or columns that cannot part a table.
                NotSupportedError: a field that Delta has no type for.
            """
            return DeltaSink(
                engine.DeltaSink(
                    self._path, as_row_type(self._row_type), self._partition_by, self._properties
                )
            )


def as_row_type(declared: TypeInformation | None) -> TypeInformation | None:
    """A tuple's type as that of a row; others as they are."""
    if isinstance(declared, TupleTypeInfo) and not isinstance(declared, RowTypeInfo):
        return Types.ROW(declared.get_field_types())
    return declared
