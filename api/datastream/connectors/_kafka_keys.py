"""Keys of records out of rows: the schema of a key may declare some of the row's fields."""

from __future__ import annotations

from typing import Any

from changelog_engine.types.row import field_names_of, make_row, values_of

from ...common.serialization import SerializationSchema
from ...common.types import Row
from ..formats.avro import AvroRowSerializationSchema
from ..formats.json import JsonRowSerializationSchema


class KeyOfRow(SerializationSchema):
    """Writes the fields of a row that a schema declares, by their names.

    Flink takes the row's first fields, whatever they are called, so that a key ``id`` may hold another field's value.
    """

    def __init__(self, schema: SerializationSchema, names: list[str]) -> None:
        self._schema = schema
        self._names = names

    def serialize(self, element: Any) -> bytes:
        """The key; an element that is not a row with more fields is given to the schema as it is."""
        own = field_names_of(element) if isinstance(element, Row) else None
        if own is not None and len(own) > len(self._names) and set(own) >= set(self._names):
            values = values_of(element)
            element = make_row(self._names, [values[own.index(name)] for name in self._names])
        return self._schema.serialize(element)


def key_schema(schema: SerializationSchema) -> SerializationSchema:
    """The schema as one of keys: JSON's and Avro's of rows may declare a part of the row."""
    if isinstance(schema, (JsonRowSerializationSchema, AvroRowSerializationSchema)):
        return KeyOfRow(schema, schema._type_info.get_field_names())
    return schema
