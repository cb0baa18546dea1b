"""Plain objects in a collection where MAP<STRING, STRING> is declared: PyFlink makes a map of their attributes.

Its Java side unpickles an object of a class that it does not know as a map, with the class's name as ``__class__``, and
writes every value as Java does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changelog_engine.types import Row, TypeInformation, Types
from changelog_engine.types.arrays import ElementsTypeInfo
from changelog_engine.types.composite import RowTypeInfo, TupleTypeInfo
from changelog_engine.types.java_text import double_text
from changelog_engine.types.row import field_names_of, make_row, values_of

_ATTRIBUTES = Types.MAP(Types.STRING(), Types.STRING())
_TEXT_OF: dict[type, Callable[[Any], str]] = {
    str: str,
    int: str,
    float: double_text,
    bool: lambda value: "true" if value else "false",
}


def with_attributes(value: Any, declared: TypeInformation) -> Any:
    """A value with maps in place of its plain objects where their type is MAP<STRING, STRING>.

    An object with an attribute that is not a str, a number or a bool stays as it is, and so does one without attributes.
    """
    if declared == _ATTRIBUTES:
        return _attributes(value)
    if isinstance(declared, ElementsTypeInfo) and isinstance(value, list):
        return [with_attributes(item, declared.elem_type) for item in value]
    if not isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return value
    types = declared.get_field_types()
    if isinstance(value, Row) and len(value) == len(types):
        fields = [with_attributes(item, each) for item, each in zip(values_of(value), types, strict=True)]
        return make_row(field_names_of(value), fields, value.get_row_kind())
    if type(value) in (tuple, list) and len(value) == len(types):
        return tuple([with_attributes(item, each) for item, each in zip(value, types, strict=True)])
    return value


def _attributes(value: Any) -> Any:
    held = getattr(value, "__dict__", None)
    if (
        not isinstance(held, dict)
        or not held
        or isinstance(value, type)
        or not {*map(type, held.values())} <= _TEXT_OF.keys()
    ):
        return value
    owner = type(value)
    texts = {name: _TEXT_OF[type(item)](item) for name, item in held.items()}
    return {"__class__": f"{owner.__module__}.{owner.__qualname__}", **texts}
