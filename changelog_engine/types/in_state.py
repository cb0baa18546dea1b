"""Types as state has them: equal to those that were declared, except that a FLOAT is not rounded.

PyFlink's process mode keeps the values of state as Python's floats for as long as it caches them, so a sum in a FLOAT is
that of its 64 bits. Here it always is, before and after a restore. What leaves a function as a FLOAT is rounded as ever; so
are the keys of a map state, which have to be found again.
"""

from __future__ import annotations

from changelog_engine.types.arrays import ElementsTypeInfo, MapTypeInfo
from changelog_engine.types.basic import FloatTypeInfo
from changelog_engine.types.composite import RowTypeInfo, TupleTypeInfo
from changelog_engine.types.typeinfo import TypeInformation


class _FloatInState(FloatTypeInfo):
    """FLOAT in state: checked, and not rounded."""

    rounds = False


_FLOAT = _FloatInState()


def in_state(type_info: TypeInformation) -> TypeInformation:
    """The type of a state's values; the same object where there is no FLOAT in it.

    Args:
        type_info: as declared.
    """
    if isinstance(type_info, FloatTypeInfo):
        return _FLOAT
    if isinstance(type_info, ElementsTypeInfo):
        element = in_state(type_info.elem_type)
        return type_info if element is type_info.elem_type else type(type_info)(element)
    if isinstance(type_info, MapTypeInfo):
        value = in_state(type_info.value_type)
        return type_info if value is type_info.value_type else type(type_info)(type_info.key_type, value)
    if isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        declared = type_info.get_field_types()
        fields = [in_state(each) for each in declared]
        if all(new is old for new, old in zip(fields, declared, strict=True)):
            return type_info
        if isinstance(type_info, RowTypeInfo):
            return RowTypeInfo(fields, type_info.get_field_names())
        return TupleTypeInfo(fields)
    return type_info
