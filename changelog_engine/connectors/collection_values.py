"""What PyFlink's Java side makes of values in a collection that do not have the declared type as they are.

Where STRING is declared it takes a number's or a bool's text, as Java writes it. Where MAP<STRING, STRING> is declared, an
object of a class that it does not know becomes a map of its attributes, with the class's name as ``__class__``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from changelog_engine.types import Row, TypeInformation, Types
from changelog_engine.types.arrays import ElementsTypeInfo, MapTypeInfo
from changelog_engine.types.composite import RowTypeInfo, TupleTypeInfo
from changelog_engine.types.foreign import attributes_of
from changelog_engine.types.java_text import decimal_text, double_text, unpickled_order
from changelog_engine.types.row import field_names_of, make_row, values_of

_STRING = Types.STRING()
_ATTRIBUTES = Types.MAP(_STRING, _STRING)
_TEXT_OF: dict[type, Callable[[Any], str]] = {
    str: str,
    int: str,
    float: double_text,
    bool: lambda value: "true" if value else "false",
    Decimal: decimal_text,
}


def as_java_takes_it(value: Any, declared: TypeInformation) -> Any:
    """A value with texts in place of numbers and bools, and maps in place of plain objects, where such are declared.

    What is neither stays as it is: an object with an attribute that has no such text, too.
    """
    if declared == _STRING:
        text = _TEXT_OF.get(type(value))
        return value if text is None else text(value)
    if isinstance(declared, MapTypeInfo):
        entries = _attributes(value) if declared == _ATTRIBUTES else value
        return _map(entries, declared) if type(entries) is dict else value
    if isinstance(declared, ElementsTypeInfo) and isinstance(value, list):
        return [as_java_takes_it(item, declared.elem_type) for item in value]
    if not isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return value
    types = declared.get_field_types()
    if isinstance(value, Row) and len(value) == len(types):
        fields = [as_java_takes_it(item, each) for item, each in zip(values_of(value), types, strict=True)]
        return make_row(field_names_of(value), fields, value.get_row_kind())
    if type(value) is dict and isinstance(declared, RowTypeInfo):
        named = dict(zip(declared.get_field_names(), types, strict=True))
        return {
            name: as_java_takes_it(item, named[name]) if name in named else item
            for name, item in value.items()
        }
    if type(value) in (tuple, list) and len(value) == len(types):
        return tuple([as_java_takes_it(item, each) for item, each in zip(value, types, strict=True)])
    return value


def has_map(declared: TypeInformation) -> bool:
    """Whether values of the type have maps in them, whose entries Java puts into another order."""
    if isinstance(declared, ElementsTypeInfo):
        return has_map(declared.elem_type)
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return any(has_map(each) for each in declared.get_field_types())
    return isinstance(declared, MapTypeInfo)


def _map(entries: dict[Any, Any], declared: MapTypeInfo) -> Any:
    """The entries in the order in which Java has them; as they are where two keys would become one."""
    found = {
        as_java_takes_it(key, declared.key_type): as_java_takes_it(item, declared.value_type)
        for key, item in entries.items()
    }
    if len(found) != len(entries):
        return entries
    return {key: found[key] for key in unpickled_order(found, declared.key_type.kind)}


def _attributes(value: Any) -> Any:
    held = attributes_of(value)
    if not held or not {*map(type, held.values())} <= _TEXT_OF.keys():
        return value
    owner = type(value)
    return {"__class__": f"{owner.__module__}.{owner.__qualname__}", **held}
