"""CSV files: their schema, how they are read and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

from changelog_engine.connectors import files
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.types import RowTypeInfo, TypeInformation, Types

from ..._arguments import AnyText, checked, checked_later
from ..._unsupported import NamesOfPyFlink
from ...common._bulk_writers import RowDataBulkWriterFactory
from ..connectors._file_source import StreamFormat


class CsvSchema:
    """How rows look in a CSV file; made by its builder.

    Example:
        >>> from changelog_engine.api.table import DataTypes
        >>> schema = (
        ...     CsvSchema.builder()
        ...     .add_number_column("id", DataTypes.INT())
        ...     .add_string_column("name")
        ...     .add_array_column("tags", "#")
        ...     .set_column_separator("|")
        ...     .build()
        ... )
        >>> schema.get_type_info().get_field_names()
        ['id', 'name', 'tags']
    """

    def __init__(self, schema: files.CsvSchema) -> None:
        self._schema = schema

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """A builder without columns."""
        return CsvSchemaBuilder()

    def get_type_info(self) -> RowTypeInfo:
        """Type of the rows."""
        return Types.ROW_NAMED(self._schema.names, [column.type_info for column in self._schema.columns])

    def size(self) -> int:
        """Number of columns."""
        return len(self._schema.columns)

    def __len__(self) -> int:
        return self.size()

    def __repr__(self) -> str:
        return f"CsvSchema({', '.join(self._schema.names)})"


def _a_character(value: Any, what: str) -> None:
    if not isinstance(value, str) or len(value) != 1:
        raise ArgumentTypeError(f"{what} must be one character, got {value!r}")


Character = Annotated[str, _a_character]


@checked
class CsvSchemaBuilder(NamesOfPyFlink):
    r"""Builds a `CsvSchema`.

    Without further calls: cells end at ``,``, are quoted by ``"``, nothing escapes, lines end with ``\n``, there is no
    header, nulls are written as empty cells, and empty cells are null where they cannot be a text or an array.
    """

    _not_here: Mapping[str, str] = {
        "set_any_property_name": "names a field for cells beyond the columns, and a row has one field for each column: "
        "add a column for each cell, or read lines with StreamFormat.text_line_format()"
    }

    def __init__(self) -> None:
        self._columns: list[files.CsvColumn] = []
        self._options: dict[str, Any] = {}

    def build(self) -> CsvSchema:
        """The schema.

        Raises:
            ConfigurationError: no columns, or two of one name.
            NotSupportedError: a type that no cell can hold.
        """
        return CsvSchema(files.CsvSchema(tuple(self._columns), **self._options))

    def add_array_column(
        self, name: str, separator: AnyText = ";", element_type: TypeInformation | None = None
    ) -> Self:
        """Add a column of lists.

        Args:
            separator: between the elements; default ``;``.
            element_type: of single values; default text.
        """
        return self._add(name, Types.LIST(element_type or Types.STRING()), separator)

    def add_boolean_column(self, name: str) -> Self:
        """Add a column of ``true`` and ``false``."""
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> Self:
        """Add a column of numbers.

        Args:
            number_type: such as ``DataTypes.INT()``; default ``BIGINT``.
        """
        return self._add(name, number_type or Types.LONG())

    def add_string_column(self, name: str) -> Self:
        """Add a column of texts."""
        return self._add(name, Types.STRING())

    def add_column(self, name: str, data_type: TypeInformation) -> Self:
        """Add a column of any type that a cell can hold, such as dates; beyond PyFlink.

        Args:
            data_type: such as ``DataTypes.DATE()``.
        """
        if data_type is None:
            raise ConfigurationError(
                "CsvSchemaBuilder.add_column: data_type must be a type such as DataTypes.DATE(), got None"
            )
        return self._add(name, data_type)

    def add_columns_from(self, schema: CsvSchema) -> Self:
        """Add all columns of another schema."""
        self._columns += schema._schema.columns
        return self

    def clear_columns(self) -> Self:
        """Remove all columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> Self:
        """Leave out lines that begin with ``#`` when reading."""
        return self._set(comments=allow)

    def disable_array_element_separator(self) -> Self:
        """Take no separator within the array columns that there are: their cells are lists of one element."""
        return self.set_array_element_separator("")

    def remove_array_element_separator(self, index: int) -> Self:
        """As `disable_array_element_separator`, for one column.

        Args:
            index: of the column, from 0.
        """
        columns = self._columns
        if not isinstance(index, int) or not 0 <= index < len(columns):
            raise ArgumentTypeError(
                f"CsvSchemaBuilder.remove_array_element_separator: there is no column {index!r}"
            )
        columns[index] = replace(columns[index], separator="")
        return self

    def set_array_element_separator(self, separator: AnyText) -> Self:
        """Set the separator within all array columns that there are."""
        columns = self._columns
        for index, column in enumerate(columns):
            if column.separator is not None:
                columns[index] = replace(column, separator=separator)
        return self

    def set_column_separator(self, char: Character) -> Self:
        """Set what ends cells: one character; default ``,``."""
        return self._set(separator=char)

    def disable_escape_char(self) -> Self:
        """Let nothing escape; this is the default."""
        return self._set(escape=None)

    def set_escape_char(self, char: Character) -> Self:
        """Set what escapes the character after it."""
        return self._set(escape=char)

    def set_line_separator(self, separator: Annotated[str, checked_later]) -> Self:
        r"""Set the end of lines that are written; ``\n``, ``\r`` and ``\r\n`` are read in any case."""
        if separator not in ("\n", "\r", "\r\n"):
            raise ConfigurationError(
                f"CsvSchemaBuilder.set_line_separator: separator must be '\\n', '\\r' or '\\r\\n', got {separator!r}"
            )
        return self._set(line_end=separator)

    def set_null_value(self, null_value: AnyText) -> Self:
        """Set the cell that stands for null, in all columns."""
        return self._set(null_text=null_value)

    def disable_quote_char(self) -> Self:
        """Quote nothing."""
        return self._set(quote=None)

    def set_quote_char(self, char: Character) -> Self:
        """Set what stands round cells that hold separators or ends of lines; default a double quote."""
        return self._set(quote=char)

    def set_skip_first_data_row(self, skip: bool = True) -> Self:
        """Leave out the first line (after the header) when reading."""
        return self._set(skip_first=skip)

    def set_strict_headers(self, strict: bool = True) -> Self:
        """Let a header name exactly the columns, in order, or reading fails."""
        return self._set(strict_header=strict)

    def set_use_header(self, use: bool = True) -> Self:
        """Read and write a first line with the names of the columns; cells go by these names."""
        return self._set(header=use)

    def size(self) -> int:
        """Number of columns so far."""
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def _add(self, name: str, wanted: TypeInformation, separator: str | None = None) -> Self:
        self._columns.append(files.CsvColumn(name, wanted, separator))
        return self

    def _set(self, **options: Any) -> Self:
        self._options.update(options)
        return self


@checked
class CsvReaderFormat(StreamFormat):
    """Reads CSV files as rows; UTF-8. A line that does not fit the schema is an error that names file and byte.

    Example:
        >>> from changelog_engine.api.datastream.connectors.file_system import FileSource
        >>> schema = CsvSchema.builder().add_string_column("name").set_use_header().build()
        >>> source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), "/data/in").build()
    """

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """The format of a schema.

        Args:
            schema: made by ``CsvSchema.builder()``.
        """
        return CsvReaderFormat(files.CsvRecords(schema._schema))


@checked
class CsvBulkWriters:
    """Writes rows to CSV files.

    Example:
        >>> from changelog_engine.api.datastream.connectors.file_system import FileSink
        >>> schema = CsvSchema.builder().add_string_column("name").build()
        >>> sink = FileSink.for_bulk_format("/data/out", CsvBulkWriters.for_schema(schema)).build()
    """

    @staticmethod
    def for_schema(schema: CsvSchema) -> RowDataBulkWriterFactory:
        """The factory of a schema's writers. Elements are rows or tuples in the order of its columns.

        Args:
            schema: made by ``CsvSchema.builder()``.
        """
        return RowDataBulkWriterFactory(files.CsvFiles(schema._schema), schema.get_type_info())
