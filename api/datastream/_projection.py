"""Some fields of tuples: the map function behind ``DataStream.project``."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.types import TupleTypeInfo, TypeInformation, Types

from .. import _arguments


class Projection:
    """A map function that makes a tuple of some fields of a tuple.

    Args:
        field_indexes: numbers of the fields, in the order wanted.

    Example:
        >>> Projection((2, 0)).map(("a", 1, 0.5)), Projection((1,)).map(("a", 1, 0.5))
        ((0.5, 'a'), (1,))
    """

    def __init__(self, field_indexes: tuple[int, ...]) -> None:
        self._fields = itemgetter(*field_indexes)
        self._single = len(field_indexes) == 1

    def map(self, value: Any) -> tuple[Any, ...]:
        """See MapFunction."""
        fields = self._fields(value)
        return (fields,) if self._single else fields


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
