"""A source over a Python collection that travels with the job."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from changelog_engine.connectors.collection_values import as_java_takes_it, has_map
from changelog_engine.connectors.protocols import Position, Range, Source, Split, SplitReader
from changelog_engine.errors import ArgumentTypeError, TypeMismatchError
from changelog_engine.types import TypeInformation
from changelog_engine.whose_code import calling_line

log = logging.getLogger("changelog_engine")
_IMMUTABLE_CLASSES = frozenset({int, str, float, bool, bytes, complex, type(None)})


class CollectionSource(Source):
    """The elements of a collection, in order, from one subtask. The position is an index.

    Args:
        elements: any finite iterable; it is read once, now. Empty means an empty stream. Of a str come its
            characters, of a dict its keys, which a warning says; of a set its elements in the order of their texts.
        output_type: declared type; every element is checked against it, now.

    Raises:
        ConfigurationError: not iterable.
        TypeMismatchError: an element does not fit; the message holds its index.
    """

    bounded = True
    parallel = False

    def __init__(self, elements: Iterable[Any], output_type: TypeInformation | None = None) -> None:
        if type(elements).__name__ == "DataFrame":
            raise ArgumentTypeError(
                "from_collection: the elements of a DataFrame are its columns. Give its rows: "
                "list(df.itertuples(index=False, name=None)) of pandas, df.rows() of Polars; for one of Spark see "
                "docs/connectors/spark_and_delta.md"
            )
        if not isinstance(elements, Iterable):
            raise ArgumentTypeError(
                f"from_collection needs a list of elements, got {type(elements).__name__}; put a single "
                "element in a list"
            )
        _warn_of_parts(elements)
        if isinstance(elements, (set, frozenset)):
            # Python has another order in each run: positions in it would be of other elements.
            elements = sorted(elements, key=lambda element: (type(element).__qualname__, repr(element)))
        self.output_type = output_type
        self._elements = _checked(list(elements), output_type)

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("collection", 0)]

    def reader(self, split: Split) -> CollectionReader:
        return CollectionReader(self._elements, self.output_type is not None and self.output_type.immutable)


def _warn_of_parts(elements: Iterable[Any]) -> None:
    """Say so where the elements are parts of what may have been meant as one element, as they are in PyFlink too."""
    if isinstance(elements, (str, bytes, bytearray)):
        parts = "characters" if isinstance(elements, str) else "bytes, as numbers"
        todo = "put it in a list to have it as one element"
    elif isinstance(elements, Mapping):
        parts, todo = (
            "keys, without their values",
            "give list(d.items()) for its pairs, [d] to have it as one element",
        )
    else:
        return
    log.warning(
        "from_collection: the elements of a %s are its %s: %s (%s)",
        type(elements).__name__,
        parts,
        todo,
        calling_line(),
    )


class CollectionReader(SplitReader):
    """Gives out slices.

    Elements that a user could change in place are given as copies, so that a replay sees the
    collection as it was.
    """

    def __init__(self, elements: list[Any], immutable: bool) -> None:
        self._elements = elements
        self._immutable = immutable

    def read(self, position: Position, max_records: int) -> Range:
        end = min(position + max_records, len(self._elements))
        values = self._elements[position:end]
        if not self._immutable and not _IMMUTABLE_CLASSES.issuperset(map(type, values)):
            # One by one: what two of them share, they share no more.
            values = [copy.deepcopy(value) for value in values]
        return Range(values, end, end >= len(self._elements))


def _checked(elements: list[Any], output_type: TypeInformation | None) -> list[Any]:
    if output_type is None:
        return elements
    maps = has_map(output_type)
    if not maps and output_type.fits_all([element for element in elements if element is not None]):
        return elements
    return [_check(element, output_type, index, maps) for index, element in enumerate(elements)]


def _check(element: Any, output_type: TypeInformation, index: int, maps: bool) -> Any:
    what = f"element {index} of from_collection"
    try:
        fitting = output_type.check(element, what)
    except TypeMismatchError:
        fitting = None
    if fitting is None or maps:
        return output_type.check(as_java_takes_it(element, output_type), what)
    return fitting
