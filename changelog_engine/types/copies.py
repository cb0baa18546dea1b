"""Whose an element is: what a function gave stays as it was when it was given, and each receiver has its own.

Elements wait in batches, so a function that changes what it gave before (a buffer that it fills again, a dict that it keeps)
would change what nobody has seen yet. What it gives is copied at once, if its class is one that can be changed; where a
stream has several receivers, those that call users' code get copies of their own (docs/decisions/0016).

Invariants:
    * A value of an immutable class, and a tuple of such, is never copied.
    * An object that nobody else holds is not copied either: whoever made it has let go of it. CPython counts who holds it;
      what its frames hold themselves is measured, and never taken for more than it is.
    * What cannot be copied is passed on as it is, as between chained functions of PyFlink.
"""

from __future__ import annotations

import copy
import datetime
import enum
import sys
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import chain
from sys import getrefcount
from typing import Any

import numpy as np

from changelog_engine.types.row import (
    Row,
    RowKind,
    field_names_of,
    make_row,
    row_of_fields,
    rows_of_fields,
    spread,
    values_of,
)
from changelog_engine.types.row_loops import LOOPS, classes_of

_TIMES = (datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone)
_NUMBERS = (bool, int, float, complex, Decimal, np.int64, np.int32, np.float64, np.float32, np.bool_)
IMMUTABLE = frozenset((type(None), str, bytes, uuid.UUID, RowKind, range, *_NUMBERS, *_TIMES))
_is_flat_row: Callable[[Any], bool] | None = None
if LOOPS is not None:
    LOOPS.bind_immutable(IMMUTABLE)
    _is_flat_row = LOOPS.is_flat


def own(value: Any, others: int = 0) -> Any:
    """What a function gave, as it is now: the value itself when nobody can change it any more.

    Args:
        value: of a class that isn't in ``IMMUTABLE``; the caller holds it in one local variable.
        others: who else may hold it and does it no harm, such as the batch that it came in.
    """
    kind = type(value)
    if kind is tuple:
        return value if IMMUTABLE.issuperset(map(type, value)) else copied(value)
    if getrefcount(value) <= _ALONE + others:
        if kind is Row and _is_flat_row is not None and _is_flat_row(value):
            return value
        if kind is dict:
            inside: Iterable[Any] = value.values()
        elif kind is list:
            inside = value
        elif kind is Row:
            inside = value._own.values() if value._list is None else value._list
        else:
            return copied(value)
        return value if IMMUTABLE.issuperset(map(type, inside)) else copied(value)
    return copied(value)


def own_tested(value: Any, others: int = 0) -> Any:
    """As ``own``, of what a ``flat`` type's test sees before anybody else does.

    A Row that holds a value that can be changed is an error there.
    """
    if type(value) is Row and getrefcount(value) <= _ALONE + others:
        return value
    return own(value, others)  # which finds one holder more, and copies


def as_given(value: Any) -> Any:
    """What a function gave, as it is now: ``as_given(function(...))``, for one whose results wait for others."""
    return value if type(value) in IMMUTABLE else own(value)


def each_as_given(values: Sequence[Any]) -> Sequence[Any]:
    """Elements that were given together, as they are now.

    Args:
        values: the caller holds them in one local variable. Who gave them may hold them, too.
    """
    if type(values) is range or IMMUTABLE.issuperset(classes_of(values)):
        return values
    found: list[Any] = []
    take_each(found, values, partial(own, others=1) if getrefcount(values) <= _ALONE else own)
    return found


def copied(value: Any) -> Any:
    """A private copy; the value itself when it is immutable, or cannot be copied."""
    try:
        return _copy(value)
    except RecursionError:  # it holds itself, perhaps
        return _deeply(value)


def take_each(out: list[Any], results: Iterable[Any], own: Callable[[Any], Any] = own) -> None:
    """As ``out.extend(results)``, each as it is when it is given.

    Args:
        out: where to.
        results: of a function.
        own: the ``own`` of this module that goes with them.
    """
    append = out.append
    for result in results:
        append(result if type(result) in IMMUTABLE else own(result))


def separate(values: Sequence[Any]) -> Sequence[Any]:
    """The values for one more receiver."""
    if LOOPS is not None:
        copies: list[Row] | None = LOOPS.copies_of(values)
        if copies:
            return copies
    kinds = classes_of(values)
    if IMMUTABLE.issuperset(kinds):
        return values
    if kinds == {Row}:
        fields = [value._own for value in values if value._list is None]
        inside = chain.from_iterable([each.values() for each in fields])
        if len(fields) == len(values) and IMMUTABLE.issuperset(map(type, inside)):
            return rows_of_fields([each.copy() for each in fields])
        with suppress(RecursionError):  # one that holds itself, perhaps: see copied
            return [_of_row(value) for value in values]
    return [value if type(value) in IMMUTABLE else copied(value) for value in values]


def _copy(value: Any) -> Any:
    copier = _COPIERS.get(type(value))
    return _of_a_class(value) if copier is None else copier(value)


def _of_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if IMMUTABLE.issuperset(map(type, value)):
        return value
    return tuple([item if type(item) in IMMUTABLE else _copy(item) for item in value])


def _of_list(value: list[Any]) -> list[Any]:
    if IMMUTABLE.issuperset(map(type, value)):
        return value.copy()
    return [item if type(item) in IMMUTABLE else _copy(item) for item in value]


def _of_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    if IMMUTABLE.issuperset(map(type, value.values())):  # a key can be hashed, so it is left alone
        return value.copy()
    return {key: item if type(item) in IMMUTABLE else _copy(item) for key, item in value.items()}


def _of_row(value: Row) -> Row:
    fields = spread(value)
    if fields is not None:
        return row_of_fields(_of_dict(fields))
    return make_row(field_names_of(value), _of_list(values_of(value)), value.get_row_kind())


def _of_a_class(value: Any) -> Any:
    return value if isinstance(value, enum.Enum) else _deeply(value)


def _deeply(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a lock, a connection, a match: nothing to copy
        return value


_COPIERS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys(IMMUTABLE, lambda value: value),
    tuple: _of_tuple,
    list: _of_list,
    dict: _of_dict,
    Row: _of_row,
    set: set.copy,
    bytearray: bytearray.copy,
}


# The caller's variable, that of the function it calls, the argument of getrefcount: no frame of ours holds more. From Python
# 3.14 on a call only borrows what its caller's variable holds, so one of them counts.
_MOST_FRAMES = 3 if sys.version_info < (3, 14) else 1


def _count_of_one_holder() -> int:
    """What getrefcount says in a function that ``take_each`` calls with what nobody else holds.

    Taking what is held for what is not would let a change of the user's into elements that were given, the other way round
    costs a copy. So it is the least of many calls, as Python runs a function otherwise once it ran often, and no more than
    the frames can hold, whatever a debugger held of them meanwhile.
    """
    counts: list[int] = []

    def count(value: Any) -> Any:
        counts.append(getrefcount(value))

    take_each([], ({} for _ in range(64)), count)
    return min(_MOST_FRAMES, *counts)


_ALONE = _count_of_one_holder()
