"""Equality of elements as a job's results have it: 1, 1.0 and True are three values, and NaN is itself.

Invariant: what is equal here is equal in Python, NaN, or a dataclass all of whose fields are; of two elements that are equal
here, each class inside is the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from changelog_engine.types.foreign import fields_of
from changelog_engine.types.row import Row, field_names_of, values_of

# Equal ones may be different: 1.0 and 1.00, noon in UTC and one o'clock further east.
_BY_TEXT = frozenset((float, complex, Decimal, datetime.datetime, datetime.time))


class Exact:
    """An element that is equal to another one if all of it is, classes included; shown as the element is.

    Args:
        element: numbers of numpy, which columns hold, count as those of Python that they stand for.
    """

    __slots__ = ("_element", "_form")

    def __init__(self, element: Any) -> None:
        self._element = element
        self._form = _form_of(element)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and self._form == other._form

    def __hash__(self) -> int:
        return hash(self._form)

    def __repr__(self) -> str:
        return repr(self._element)


def exactly(elements: Iterable[Any]) -> list[Exact]:
    """The elements, to be compared."""
    return [Exact(element) for element in elements]


def _form_of(value: Any) -> Any:
    """Something that can be hashed, and tells whether values are the same."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if kind is np.ndarray:
        return kind, str(value.dtype), _form_of(value.tolist())
    if kind in _BY_TEXT:
        return kind, repr(value)  # which is the same for NaN, and not for 0.0 and -0.0
    if kind is list or isinstance(value, tuple):
        return kind, tuple([_form_of(item) for item in value])
    if kind in (set, frozenset):
        return kind, frozenset([_form_of(item) for item in value])
    if kind is dict:
        return kind, frozenset((_form_of(key), _form_of(item)) for key, item in value.items())
    if kind is Row:
        names = field_names_of(value)
        return (
            kind,
            value.get_row_kind(),
            None if names is None else tuple(names),
            tuple([_form_of(item) for item in values_of(value)]),
        )
    if (found := fields_of(value, compared=True)) is not None:
        return kind, tuple([_form_of(item) for item in found.values()])
    try:
        hash(value)
    except TypeError:
        return kind, repr(value)
    return kind, value
