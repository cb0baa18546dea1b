"""Rows as lines of CSV."""

from __future__ import annotations

from typing import Annotated, Any, Self

from changelog_engine.errors import ArgumentTypeError, ConfigurationError, TypeMismatchError
from changelog_engine.formats.csv_lines import CsvOptions, line_reader, line_writer, lines_reader
from changelog_engine.types import RowTypeInfo, TypeInformation
from changelog_engine.types.typeinfo import Misfit

from ..._arguments import AnyText, RowType, checked, checked_later
from ...common.serialization import DeserializationSchema, SerializationSchema
from ._csv_files import Character, CsvBulkWriters, CsvReaderFormat, CsvSchema, CsvSchemaBuilder

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


def _some_text(value: Any, what: str) -> None:
    if not isinstance(value, str) or not value:
        raise ArgumentTypeError(f"{what} must be a non-empty str, got {value!r}")


@checked
class _Builder:
    """What the builders share."""

    def __init__(self, type_info: RowTypeInfo, options: CsvOptions) -> None:
        self._type_info = type_info
        self._options = options

    def set_array_element_delimiter(self, delimiter: Annotated[str, _some_text]) -> Self:
        """What stands between the elements of an array or a nested row; default ``;``.

        Raises:
            ConfigurationError: not a str, or empty.
        """
        return self._set(array_delimiter=delimiter)

    def set_quote_character(self, c: Character) -> Self:
        """The character that fields are quoted with; default ``"``."""
        return self._set(quote=c)

    def _set(self, **option: Any) -> Self:
        self._options = self._options._replace(**option)
        return self


class CsvRowDeserializationSchema(DeserializationSchema):
    """Reads a line of CSV as a row; made by its ``Builder``.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> CsvRowDeserializationSchema.Builder(row_type).build().deserialize(b'1,"a, b"')
        Row(id=1, name='a, b')
    """

    def __init__(self, type_info: RowTypeInfo, options: CsvOptions, ignore_parse_errors: bool) -> None:
        self._type_info = type_info
        self._options = options
        self._ignore_parse_errors = ignore_parse_errors
        self._read = line_reader(
            type_info, options, "CsvRowDeserializationSchema: type_info", ignore_parse_errors
        )
        self._read_all = lines_reader(type_info, options, "CsvRowDeserializationSchema: type_info")

    def deserialize(self, message: bytes) -> Any:
        """The row of a message; None for comments that are allowed, and for what cannot be parsed when it is ignored.

        Args:
            message: its bytes, UTF-8.

        Raises:
            ValueError: it cannot be parsed; says which field.
        """
        try:
            if message is None:
                raise ValueError("there is no value to parse")
            return self._read(bytes(message).decode("utf-8"))
        except ValueError:
            if self._ignore_parse_errors:
                return None
            raise

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        """As `deserialize` for each of them, in less time."""
        try:
            if messages and {bytes}.issuperset(map(type, messages)):
                return self._read_all([message.decode() for message in messages])
        except ValueError:
            pass
        return [self.deserialize(message) for message in messages]

    def get_produced_type(self) -> TypeInformation:
        """Type of the rows."""
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type_info, self._options, self._ignore_parse_errors)

    @checked
    class Builder(_Builder):
        """Builds a `CsvRowDeserializationSchema`.

        Args:
            type_info: a row; fields may be arrays or rows of single values.

        Raises:
            ConfigurationError: no type of rows.
        """

        def __init__(self, type_info: RowType) -> None:
            super().__init__(type_info, CsvOptions())
            self._ignore_parse_errors = False

        def set_field_delimiter(self, delimiter: Character) -> Self:
            """What stands between fields; default ``,``.

            Args:
                delimiter: one character.
            """
            return self._set(field_delimiter=delimiter)

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Whether lines that begin with ``#`` are left out; default False."""
            return self._set(allow_comments=allow_comments)

        def set_escape_character(self, c: Character) -> Self:
            """The character that takes the meaning of the one after it; by default none does."""
            return self._set(escape=c)

        def set_null_literal(self, null_literal: AnyText) -> Self:
            """Which text is None; by default none is.

            Args:
                null_literal: the text, which may be empty.
            """
            return self._set(null_literal=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Whether a field that cannot be parsed becomes None and a line that is not a row is skipped; default False."""
            self._ignore_parse_errors = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """The schema.

            Raises:
                NotSupportedError: the type has parts that CSV has no form for.
            """
            return CsvRowDeserializationSchema(self._type_info, self._options, self._ignore_parse_errors)


class CsvRowSerializationSchema(SerializationSchema):
    r"""Writes a row as a line of CSV; made by its ``Builder``.

    Example:
        >>> from changelog_engine.api.common import Row, Types
        >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> CsvRowSerializationSchema.Builder(row_type).build().serialize(Row(1, 'a, b'))
        b'1,"a, b"\n'
    """

    def __init__(self, type_info: RowTypeInfo, options: CsvOptions) -> None:
        self._type_info = type_info
        self._options = options
        self._write = line_writer(type_info, options, "CsvRowSerializationSchema: type_info")

    def serialize(self, element: Any) -> bytes:
        """The line of a row.

        Args:
            element: a Row, or a tuple of its fields.

        Raises:
            TypeMismatchError: it is no such row.
        """
        try:
            return self._write(element).encode("utf-8")
        except (Misfit, TypeError, ValueError, AttributeError, KeyError, ArithmeticError) as error:
            raise TypeMismatchError(
                f"CsvRowSerializationSchema writes {self._type_info.name}, got {element!r}: {error}"
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type_info, self._options)

    @checked
    class Builder(_Builder):
        """Builds a `CsvRowSerializationSchema`.

        Args:
            type_info: a row; fields may be arrays or rows of single values.

        Raises:
            ConfigurationError: no type of rows.
        """

        def __init__(self, type_info: RowType) -> None:
            super().__init__(type_info, CsvOptions(null_literal=""))

        def set_field_delimiter(self, c: Character) -> Self:
            """What stands between fields; default ``,``.

            Args:
                c: one character.
            """
            return self._set(field_delimiter=c)

        def set_line_delimiter(self, delimiter: Annotated[str, checked_later]) -> Self:
            r"""What ends a line: ``\n`` (default), ``\r``, ``\r\n`` or nothing."""
            if delimiter not in ("\n", "\r", "\r\n", ""):
                raise ConfigurationError(
                    "CsvRowSerializationSchema.Builder.set_line_delimiter: delimiter must be '\\n', '\\r', '\\r\\n' or "
                    f"empty, got {delimiter!r}"
                )
            return self._set(line_delimiter=delimiter)

        def disable_quote_character(self) -> Self:
            """Quote nothing."""
            return self._set(quote=None)

        def set_escape_character(self, c: Character) -> Self:
            """The character that stands twice, inside of quotes, for itself; by default nothing does. Quotes are doubled."""
            return self._set(escape=c)

        def set_null_literal(self, s: AnyText) -> Self:
            """How None is written; default: as nothing."""
            return self._set(null_literal=s)

        def build(self) -> CsvRowSerializationSchema:
            """The schema.

            Raises:
                NotSupportedError: the type has parts that CSV has no form for.
            """
            return CsvRowSerializationSchema(self._type_info, self._options)
