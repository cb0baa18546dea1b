"""The fields of elements that a format writes as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from changelog_engine.types import RowTypeInfo
from changelog_engine.types.row import Row, spread, values_in_order
from changelog_engine.types.typeinfo import shown


def fields_reader(type_info: RowTypeInfo) -> Callable[[Any], Sequence[Any]]:
    """What gives the fields of an element in the order of a type, and raises ValueError where it has others.

    Rows with the type's names are taken by name, and dicts; other rows, tuples and lists as they stand.
    """
    names = type_info.get_field_names()
    count, known = len(names), frozenset(names)

    def fields_of(element: Any) -> Sequence[Any]:
        fields = spread(element) if type(element) is Row else None
        if fields is not None and [*fields] == names:  # nearly always
            return [*fields.values()]
        if isinstance(element, Row):
            values: Sequence[Any] = values_in_order(element, names)
        elif isinstance(element, dict):
            if element.keys() != known:
                raise ValueError(
                    f"it has the fields {', '.join([str(name) for name in element])}, not {', '.join(names)}"
                )
            return [element[name] for name in names]
        elif isinstance(element, (tuple, list)):
            values = element
        else:
            raise ValueError(f"{shown(element)} is not a row")
        if len(values) != count:
            raise ValueError(f"a row of {len(values)} fields where {count} are declared")
        return values

    return fields_of
