"""Types as state has them: as declared, but FLOATs are not rounded, and ints in DOUBLE or FLOAT stay ints.

PyFlink's process mode keeps the values of state as Python's objects for as long as it caches them, so a sum in a FLOAT is
that of its 64 bits, and a sum of ints is shown as 3. Here a FLOAT has all its bits before and after a restore; an int is a
float, 3.0, once it was read out of the log or out of RocksDB. A MAP keeps the order of its entries. What leaves a function
as a FLOAT or DOUBLE is converted as ever; so are the keys of a map state, which have to be found again.
"""

from __future__ import annotations

from typing import Any

from changelog_engine.types.arrays import ElementsTypeInfo, MapTypeInfo
from changelog_engine.types.basic import DoubleTypeInfo, FloatTypeInfo
from changelog_engine.types.composite import RowTypeInfo, TupleTypeInfo
from changelog_engine.types.typeinfo import TypeInformation


class _FloatInState(FloatTypeInfo):
    """FLOAT in state: checked, and not rounded."""

    rounds = False

    def fit(self, value: Any) -> float:
        number = super().fit(value)
        return value if type(value) is int else number


class _DoubleInState(DoubleTypeInfo):
    """DOUBLE in state: an int that it can hold stays one."""

    def fit(self, value: Any) -> float:
        number = super().fit(value)
        return value if type(value) is int else number


class _MapInState(MapTypeInfo):
    """MAP in state: its entries stay in the order in which they were put."""

    in_java_order = False


_FLOAT = _FloatInState()
_DOUBLE = _DoubleInState()


def in_state(type_info: TypeInformation) -> TypeInformation:
    """The type of a state's values; the same object where there is no FLOAT, DOUBLE or MAP in it.

    Args:
        type_info: as declared.
    """
    if isinstance(type_info, FloatTypeInfo):
        return _FLOAT
    if isinstance(type_info, DoubleTypeInfo):
        return _DOUBLE
    if isinstance(type_info, ElementsTypeInfo):
        element = in_state(type_info.elem_type)
        return type_info if element is type_info.elem_type else type(type_info)(element)
    if isinstance(type_info, MapTypeInfo):
        return _MapInState(type_info.key_type, in_state(type_info.value_type))
    if isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        declared = type_info.get_field_types()
        fields = [in_state(each) for each in declared]
        if all(new is old for new, old in zip(fields, declared, strict=True)):
            return type_info
        if isinstance(type_info, RowTypeInfo):
            return RowTypeInfo(fields, type_info.get_field_names())
        return TupleTypeInfo(fields)
    return type_info
