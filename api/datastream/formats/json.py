"""Rows as JSON."""

from __future__ import annotations

from typing import Any, Self

import orjson

from changelog_engine.errors import ArgumentTypeError, ConfigurationError, TypeMismatchError
from changelog_engine.formats import json_values
from changelog_engine.types import RowTypeInfo, TypeInformation
from changelog_engine.types.typeinfo import Misfit

from ..._arguments import RowType, checked, row_type
from ...common.serialization import DeserializationSchema, SerializationSchema
from . import _json_schema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


class JsonRowDeserializationSchema(DeserializationSchema):
    """Reads a JSON object as a row; made by its `builder`.

    Fields that the type doesn't have are left out; missing ones are None. Dates and times are ISO 8601 texts, bytes Base64.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> schema = JsonRowDeserializationSchema.builder().type_info(row_type).build()
        >>> schema.deserialize(b'{"name": "one", "id": 1, "more": 2}')
        Row(id=1, name='one')
    """

    def __init__(
        self, type_info: RowTypeInfo, fail_on_missing_field: bool, ignore_parse_errors: bool
    ) -> None:
        self._type_info = type_info
        self._fail_on_missing_field = fail_on_missing_field
        self._ignore_parse_errors = ignore_parse_errors
        self._parse = json_values.parser(type_info)
        what = "JsonRowDeserializationSchema: type_info"
        self._convert = json_values.reader(type_info, what, fail_on_missing_field, ignore_parse_errors)
        self._convert_all = json_values.rows_reader(
            type_info, what, fail_on_missing_field, ignore_parse_errors
        )

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """A builder of such schemas."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Any:
        """The row of a message; None for JSON's null, and when it cannot be parsed and such errors are ignored.

        Raises:
            ValueError: it cannot be parsed; says which field.
        """
        try:
            found = self._parse(message)
            return None if found is None else self._converted(found, message)
        except (ValueError, TypeError):
            if self._ignore_parse_errors:
                return None
            if message is None:
                raise ValueError("there is no value to parse") from None
            raise

    def _converted(self, found: Any, message: bytes) -> Any:
        try:
            return self._convert(found)
        except json_values.Rounded:
            return self._convert(json_values.parsed_again(message))

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        """As `deserialize` for each of them, in less time."""
        try:
            return self._convert_all(list(map(self._parse, messages)))  # drives our own code
        except (ValueError, TypeError, KeyError, ArithmeticError, json_values.Rounded):
            return [self.deserialize(message) for message in messages]

    def get_produced_type(self) -> TypeInformation:
        """Type of the rows."""
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type_info, self._fail_on_missing_field, self._ignore_parse_errors)

    @checked
    class Builder:
        """Builds a `JsonRowDeserializationSchema`."""

        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: RowType) -> Self:
            """The type of the rows.

            Args:
                type_info: a row; its field names are the JSON object's.

            Raises:
                ConfigurationError: no type of rows.
            """
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> Self:
            """The type of the rows, by a JSON Schema.

            Numbers become ``BIG_DEC``.

            Args:
                json_schema: its text, of an object.

            Raises:
                NotSupportedError: a part that no type stands for.
            """
            what = "JsonRowDeserializationSchema.Builder.json_schema: json_schema"
            self._type_info = row_type(_json_schema.type_of(json_schema), what)
            return self

        def fail_on_missing_field(self) -> Self:
            """Fail when a field is missing; by default it is None."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> Self:
            """An unreadable field becomes None, a message that is not a JSON object is skipped; by default both fail."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """The schema.

            Raises:
                ConfigurationError: no type, or both missing fields fail and errors are ignored.
                NotSupportedError: the type has parts that JSON has no form for.
            """
            what = "JsonRowDeserializationSchema.Builder.build"
            if self._type_info is None:
                raise ConfigurationError(f"{what}: call type_info() or json_schema() first")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ConfigurationError(
                    f"{what}: fail_on_missing_field() and ignore_parse_errors() exclude each other: leave one out"
                )
            return JsonRowDeserializationSchema(
                self._type_info, self._fail_on_missing_field, self._ignore_parse_errors
            )


class JsonRowSerializationSchema(SerializationSchema):
    """Writes a row as a JSON object; made by its `builder`.

    Example:
        >>> from changelog_engine.api.common import Row, Types
        >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(Row(1, "one"))
        b'{"id":1,"name":"one"}'
    """

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type_info = type_info
        self._convert = json_values.writer(type_info, "JsonRowSerializationSchema: type_info")

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """A builder of such schemas."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """The JSON object of a row.

        Args:
            element: a Row, or a tuple of its fields.

        Raises:
            TypeMismatchError: it is no such row.
        """
        try:
            return orjson.dumps(self._convert(element))
        except (Misfit, TypeError, ValueError, AttributeError, KeyError, ArithmeticError) as error:
            raise TypeMismatchError(
                f"JsonRowSerializationSchema writes {self._type_info.name}, got {element!r}: {error}"
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type_info,)

    @checked
    class Builder:
        """Builds a `JsonRowSerializationSchema`."""

        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None

        def with_type_info(self, type_info: RowType) -> Self:
            """The type of the rows.

            Args:
                type_info: a row; its field names are the JSON object's.

            Raises:
                ConfigurationError: no type of rows.
            """
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """The schema.

            Raises:
                NotSupportedError: the type has parts that JSON has no form for.
            """
            if self._type_info is None:
                raise ArgumentTypeError(
                    "JsonRowSerializationSchema.Builder.build: call with_type_info() first"
                )
            return JsonRowSerializationSchema(self._type_info)
