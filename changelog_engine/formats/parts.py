"""Conversions of values that have parts, made of the parts' conversions. A part that is None stays None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changelog_engine.formats.row_fields import fields_reader
from changelog_engine.types import RowTypeInfo, TypeInformation

Convert = Callable[[Any], Any]


def each_item(convert: Convert) -> Convert:
    """Of what has items, to a list."""
    return lambda items: [None if item is None else convert(item) for item in items]


def each_value(convert: Convert) -> Convert:
    """Of dicts, whose keys stay."""
    return lambda entries: {key: None if value is None else convert(value) for key, value in entries.items()}


def row_to_dict(type_info: RowTypeInfo, convert_of: Callable[[TypeInformation], Convert]) -> Convert:
    """Of rows, to dicts by the names of their fields; ``convert_of`` has the conversion for a field's type."""
    fields_of = fields_reader(type_info)
    names, types = type_info.get_field_names(), type_info.get_field_types()
    fields = [(name, convert_of(field)) for name, field in zip(names, types, strict=True)]

    def write(row: Any) -> dict[str, Any]:
        return {
            name: None if value is None else convert(value)
            for (name, convert), value in zip(fields, fields_of(row), strict=True)
        }

    return write
