"""Functions on the fields of elements: behind sum, min, max, min_by and max_by of a keyed stream, and behind project.

sum, min and max change the chosen field of the key's first element and leave its other fields; min_by and
max_by choose between whole elements, and keep the first of equal ones. An element without fields, such as a
number, is its own field.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, TypeMismatchError
from changelog_engine.graph.key_groups import key_group
from changelog_engine.types import BasicTypeInfo, Row, RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from changelog_engine.types.row import field_names_of, make_row

from .. import _arguments
from ._wrappers import WithLifeCycle

Position = Any  # an int or a str; rows have names too


def smaller(value1: Any, value2: Any) -> Any:
    """The smaller one; the first of equal ones."""
    return value2 if value2 < value1 else value1


def larger(value1: Any, value2: Any) -> Any:
    """The larger one; the first of equal ones."""
    return value2 if value2 > value1 else value1


class FieldAggregation:
    """Combines the chosen field of two elements; the other fields are the first element's.

    Args:
        position: number or name of the field.
        combine: takes the field of both elements, returns the new one.

    Example:
        >>> FieldAggregation(1, operator.add).reduce(("a", 1, "x"), ("a", 2, "y"))
        ('a', 3, 'x')
    """

    def __init__(self, position: Position, combine: Callable[[Any, Any], Any]) -> None:
        self.position = position
        self.combine = combine

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The combination; the first element is left as it is."""
        position = self.position
        if isinstance(value1, tuple):
            fields = list(value1)
            fields[position] = self.combine(value1[position], value2[position])
            return tuple(fields)
        if isinstance(value1, (list, Row)):
            result = (
                list(value1)
                if isinstance(value1, list)
                else make_row(field_names_of(value1), list(value1), value1.get_row_kind())
            )
            result[position] = self.combine(value1[position], value2[position])
            return result
        _check_whole(position, value1)
        return self.combine(value1, value2)


class ElementAggregation:
    """Chooses one of two elements by a field.

    Args:
        position: number or name of the field.
        better: takes the field of the new element and of the one so far, tells whether the new one is chosen.

    Example:
        >>> ElementAggregation(1, operator.gt).reduce(("a", 1), ("b", 1))
        ('a', 1)
    """

    def __init__(self, position: Position, better: Callable[[Any, Any], bool]) -> None:
        self.position = position
        self.better = better

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The element chosen."""
        if isinstance(value1, (tuple, list, Row)):
            chosen = self.better(value2[self.position], value1[self.position])
        else:
            _check_whole(self.position, value1)
            chosen = self.better(value2, value1)
        return value2 if chosen else value1


AGGREGATIONS: dict[str, Callable[[Position], Any]] = {
    "sum": lambda position: FieldAggregation(position, operator.add),
    "min": lambda position: FieldAggregation(position, smaller),
    "max": lambda position: FieldAggregation(position, larger),
    "min_by": lambda position: ElementAggregation(position, operator.lt),
    "max_by": lambda position: ElementAggregation(position, operator.gt),
}


def aggregation(method: str, position: Any, element_type: TypeInformation | None) -> Any:
    """The reduce function of a method of KeyedStream.

    Args:
        method: its name.
        position: number or name of the field.
        element_type: the declared type of the elements, to which the position must fit.

    Raises:
        ConfigurationError: it is not a position, or the type has no such field.
    """
    what = f"KeyedStream.{method}: the position"
    if isinstance(position, bool) or not isinstance(position, (int, str)):
        raise ArgumentTypeError(f"{what} must be the number or the name of a field, got {position!r}")
    if isinstance(element_type, RowTypeInfo):
        names = element_type.get_field_names()
        if isinstance(position, str) and position not in names:
            raise ConfigurationError(f"{what} {position!r} is none of the fields {', '.join(names)}")
        _check_number(position, len(names), what)
    elif isinstance(element_type, TupleTypeInfo):
        if isinstance(position, str):
            raise ArgumentTypeError(f"{what} must be a number, as tuples have no names, got {position!r}")
        _check_number(position, len(element_type.get_field_types()), what)
    elif isinstance(element_type, BasicTypeInfo) and position != 0:
        raise ConfigurationError(
            f"{what} must be 0, which is the whole element, as the elements are {element_type.name}; got "
            f"{position!r}"
        )
    return AGGREGATIONS[method](position)


def _check_number(position: Position, count: int, what: str) -> None:
    if isinstance(position, int) and not -count <= position < count:
        raise ConfigurationError(f"{what} must be below {count}, the number of fields, got {position}")


def _check_whole(position: Position, value: Any) -> None:
    if position != 0:
        raise TypeMismatchError(
            f"field {position!r} of {value!r}: an element without fields has field 0 only, which is all of it"
        )


class Projection:
    """A map function that makes a tuple of some fields of a tuple.

    Args:
        field_indexes: numbers of the fields, in the order wanted.

    Example:
        >>> Projection((2, 0)).map(("a", 1, 0.5)), Projection((1,)).map(("a", 1, 0.5))
        ((0.5, 'a'), (1,))
    """

    def __init__(self, field_indexes: tuple[int, ...]) -> None:
        self._fields = operator.itemgetter(*field_indexes)
        self._single = len(field_indexes) == 1

    def map(self, value: Any) -> tuple[Any, ...]:
        """The fields chosen."""
        fields = self._fields(value)
        return (fields,) if self._single else fields


class KeyAndElement:
    """A map function that makes a row of an element's key and the element.

    Args:
        key: the key's function; one that has ``open`` and ``close`` gives its own.

    Example:
        >>> KeyAndElement(len).map("ab")
        Row(f0=2, f1='ab')
    """

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self._key = key

    def open(self, runtime_context: Any) -> None:
        """Open the key's function."""
        if isinstance(self._key, WithLifeCycle):
            self._key.open(runtime_context)

    def close(self) -> None:
        """Close it."""
        if isinstance(self._key, WithLifeCycle):
            self._key.close()

    def map(self, value: Any) -> Row:
        """The row."""
        return Row(f0=self._key(value), f1=value)


def subtask_of_key(key_type: TypeInformation | None, key: Any, subtasks: int) -> int:
    """The number of the subtask that gets all rows of a key.

    Example:
        >>> subtask_of_key(None, "a", 1)
        0
    """
    return key_group(key_codec_for(key_type).identity(key), subtasks)


def projected_type(type_info: TypeInformation, field_indexes: tuple[Any, ...]) -> TypeInformation:
    """The type of the tuples of some fields.

    Raises:
        ConfigurationError: no tuple type, no field, or one that the type does not have.
    """
    if not isinstance(type_info, TupleTypeInfo):
        raise ArgumentTypeError(
            f"DataStream.project needs a stream of tuples, declared as Types.TUPLE([...]); this one has type "
            f"{type_info.name}"
        )
    if not field_indexes:
        raise ConfigurationError("DataStream.project needs the number of at least one field")
    types = type_info.get_field_types()
    for index in field_indexes:
        _arguments.whole_number(index, "DataStream.project: the number of a field", 0, len(types) - 1)
    return Types.TUPLE([types[index] for index in field_indexes])
