"""Which types a declared type may grow into, and how a value comes along.

A state that a checkpoint holds may be declared with a wider type by a later version of the job: every value of the old type
has one of the new type that stands for the same. docs/operations.md has the table.

Invariants:
    * A widening loses nothing: no rounding, no cut, no value that does not fit.
    * Where ``readable``, values and their text in the log stay as they are, so nothing needs to be written again.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from changelog_engine.types.arrays import ElementsTypeInfo, MapTypeInfo
from changelog_engine.types.basic import IntegerTypeInfo
from changelog_engine.types.composite import RowTypeInfo, TupleTypeInfo
from changelog_engine.types.pickled import PickledBytesTypeInfo
from changelog_engine.types.row import make_row, values_of
from changelog_engine.types.typeinfo import TypeInformation

_INTEGERS = ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")
# Of each float, the whole numbers that it holds exactly.
_EXACT_FLOATS = {"FLOAT": ("BYTE", "SHORT"), "DOUBLE": ("BYTE", "SHORT", "INT")}

Convert = Callable[[Any], Any]


class Widening(NamedTuple):
    """How values of one type become values of a wider one.

    Args:
        convert: an old value, not None, to the new one; None where the values stay as they are.
        readable: what the log has of an old value is what it would have of the new one.
    """

    convert: Convert | None
    readable: bool

    def apply(self, value: Any) -> Any:
        """The new value; None stays None."""
        return value if value is None or self.convert is None else self.convert(value)


_SAME = Widening(None, True)


def widening(old: TypeInformation, new: TypeInformation) -> Widening | None:
    """How a value of the old type becomes one of the new type; None when the new type doesn't take every old value.

    Args:
        old: the type that values were written with.
        new: the type that is declared now.

    Example:
        >>> from changelog_engine.types import Types
        >>> widening(Types.INT(), Types.LONG())
        Widening(convert=None, readable=True)
        >>> widening(Types.TUPLE([Types.INT()]), Types.TUPLE([Types.LONG(), Types.STRING()])).apply((1,))
        (1, None)
        >>> widening(Types.LONG(), Types.INT()) is None
        True
    """
    if old == new:
        return _SAME
    if isinstance(new, PickledBytesTypeInfo):
        return Widening(None, False)
    if isinstance(new, IntegerTypeInfo):
        return _SAME if is_wider_integer(old, new) else None
    if new.kind in _EXACT_FLOATS:
        if old.kind in _EXACT_FLOATS[new.kind]:
            return Widening(float, False)
        return _SAME if (old.kind, new.kind) == ("FLOAT", "DOUBLE") else None
    if new.kind == "BIG_DEC":
        return Widening(Decimal, False) if isinstance(old, IntegerTypeInfo) else None
    if new.kind == "STRING":
        return _SAME if old.kind == "CHAR" else None
    if old.kind != new.kind:
        return None
    return _of_parts(old, new)


def is_wider_integer(old: TypeInformation, new: TypeInformation) -> bool:
    """Whether both are whole numbers and the new ones hold the old ones.

    Args:
        old: any type.
        new: any type.
    """
    if not isinstance(old, IntegerTypeInfo) or not isinstance(new, IntegerTypeInfo):
        return False
    return _INTEGERS.index(old.kind) <= _INTEGERS.index(new.kind)


def _of_parts(old: TypeInformation, new: TypeInformation) -> Widening | None:
    if isinstance(old, TupleTypeInfo) and isinstance(new, TupleTypeInfo):
        return _of_fields(old, new, lambda value: value, lambda value, fields: tuple(fields))
    if isinstance(old, RowTypeInfo) and isinstance(new, RowTypeInfo):
        names = new.get_field_names()
        if names[: len(old.get_field_names())] != old.get_field_names():
            return None
        return _of_fields(old, new, values_of, lambda row, fields: make_row(names, fields, row._row_kind))
    if isinstance(old, ElementsTypeInfo) and isinstance(new, ElementsTypeInfo):
        of_element = widening(old.elem_type, new.elem_type)
        if old.exact is not new.exact:  # arrays of bytes are bytes
            return None
        if of_element is None or of_element.convert is None:
            return of_element
        element = of_element.apply
        return Widening(lambda values: [element(value) for value in values], False)
    if isinstance(old, MapTypeInfo) and isinstance(new, MapTypeInfo):
        return _of_maps(old, new)
    return None


def _of_maps(old: MapTypeInfo, new: MapTypeInfo) -> Widening | None:
    """Keys keep their identity: only whole numbers grow."""
    of_value = widening(old.value_type, new.value_type)
    if of_value is None or not (old.key_type == new.key_type or is_wider_integer(old.key_type, new.key_type)):
        return None
    if of_value.convert is None:
        return of_value
    value = of_value.apply
    return Widening(lambda entries: {key: value(item) for key, item in entries.items()}, False)


def _of_fields(
    old: TupleTypeInfo | RowTypeInfo,
    new: TupleTypeInfo | RowTypeInfo,
    values_of: Callable[[Any], Any],
    make: Callable[[Any, list[Any]], Any],
) -> Widening | None:
    """Fields grow one by one; new ones come at the end and are None."""
    before, after = old.get_field_types(), new.get_field_types()
    if len(before) > len(after):
        return None
    fields = [widening(was, now) for was, now in zip(before, after, strict=False)]
    known = [field for field in fields if field is not None]
    if len(known) < len(fields):
        return None
    added = [None] * (len(after) - len(before))
    if not added and all(field.convert is None for field in known):
        return Widening(None, all(field.readable for field in known))

    def convert(value: Any) -> Any:
        grown = [field.apply(item) for field, item in zip(known, values_of(value), strict=True)]
        return make(value, grown + added)

    return Widening(convert, False)
