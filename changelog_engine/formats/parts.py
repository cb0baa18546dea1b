"""Conversions of values that have parts, made of the parts' conversions. A part that is None stays None."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from changelog_engine.formats.row_fields import fields_reader
from changelog_engine.types import ElementsTypeInfo, RowTypeInfo, TypeInformation
from changelog_engine.types.arrays import elements_of
from changelog_engine.types.typeinfo import Misfit

Convert = Callable[[Any], Any]
_REFUSED = (Misfit, TypeError, ValueError, AttributeError, KeyError, ArithmeticError)


def each_item(type_info: ElementsTypeInfo, convert: Convert) -> Convert:
    """Of what has the elements of such a type, to a list."""
    return lambda items: [
        None if item is None else convert(item)
        for item in (items if type(items) is list else elements_of(type_info, items))
    ]


def each_value(convert: Convert) -> Convert:
    """Of dicts, whose keys stay."""
    return lambda entries: {key: None if value is None else convert(value) for key, value in entries.items()}


def each_field(names: Sequence[str], converts: Sequence[Convert]) -> Callable[[Sequence[Any]], list[Any]]:
    """Of a row's fields, to a list; an error names the field."""

    def convert_all(values: Sequence[Any]) -> list[Any]:
        try:
            return [
                None if value is None else convert(value)
                for convert, value in zip(converts, values, strict=True)
            ]
        except _REFUSED:
            _raise_with_name(zip(names, converts, strict=True), values)
            raise

    return convert_all


def _raise_with_name(fields: Iterable[tuple[str, Convert]], values: Sequence[Any]) -> None:
    for (name, convert), value in zip(fields, values, strict=True):
        try:
            if value is not None:
                convert(value)
        except Misfit as misfit:
            raise misfit.inside(name) from None
        except _REFUSED as error:
            raise ValueError(f"field {name!r}: {error}") from None


def row_to_dict(type_info: RowTypeInfo, convert_of: Callable[[TypeInformation], Convert]) -> Convert:
    """Of rows, to dicts by the names of their fields; ``convert_of`` has the conversion for a field's type."""
    fields_of, names = fields_reader(type_info), type_info.get_field_names()
    fields = [
        (name, convert_of(field)) for name, field in zip(names, type_info.get_field_types(), strict=True)
    ]

    def write(row: Any) -> dict[str, Any]:
        values = fields_of(row)
        try:
            return {
                name: None if value is None else convert(value)
                for (name, convert), value in zip(fields, values, strict=True)
            }
        except _REFUSED:
            _raise_with_name(fields, values)
            raise

    return write
