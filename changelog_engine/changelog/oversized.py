"""Columns with more text than one Arrow array holds: 2 GiB, as its offsets have 32 bits.

Arrow cuts such a column into chunks when it is read, and refuses to join them. Here rows are taken out of it, and tables are
cut into pieces of which each column can be joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ARRAY_BYTES = 1 << 30  # half of what an array holds: what is made of it, such as JSON, may be longer

_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def is_long(column: Any) -> bool:
    """Whether a column, which an array of a dictionary is read as, must not be one array of plain values."""
    if isinstance(column, pa.DictionaryArray) and column.type.value_type in _LARGE:
        longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
        return longest * len(column) > ARRAY_BYTES and text_bytes(column) > ARRAY_BYTES
    return column.type in _LARGE and column.nbytes > ARRAY_BYTES


def text_bytes(column: pa.Array | pa.ChunkedArray) -> int:
    """How long a column's texts are together, those of a dictionary as often as rows have them; 0 of one without texts."""
    if isinstance(column, pa.ChunkedArray):
        return sum([text_bytes(chunk) for chunk in column.chunks])
    of_values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
    if of_values.type not in _LARGE and of_values.type not in _LARGE.values():
        return 0
    lengths = pc.binary_length(of_values).cast(pa.int64())
    if isinstance(column, pa.DictionaryArray):
        lengths = lengths.take(column.indices)
    return pc.sum(lengths).as_py() or 0


def takeable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with a type from which any rows can be taken; ``taken`` brings what was taken back."""
    return column.cast(_LARGE[column.type]) if is_long(column) else column


def taken(column: pa.Array | pa.ChunkedArray, at: pa.Array, type_: pa.DataType) -> Any:
    """The rows at some positions.

    Args:
        column: as ``takeable`` gave it.

    Returns:
        An array, or chunks where it would be too long.
    """
    found = column.take(at)
    if found.type == type_:
        return found
    chunks = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
    return pa.chunked_array([_narrowed(piece, type_) for chunk in chunks for piece in _cut(chunk)], type_)


def _cut(array: pa.Array) -> Iterator[pa.Array]:
    if array.nbytes <= ARRAY_BYTES or len(array) < 2:
        yield array
    else:
        half = len(array) // 2
        yield from _cut(array.slice(0, half))
        yield from _cut(array.slice(half))


def _narrowed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    # A slice keeps the offsets of the whole array, which may not fit; a copy counts from 0.
    return (pa.concat_arrays([array]) if array.offset else array).cast(type_)


def pieces(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in pieces of which each column of texts can be one array; a single row is not cut."""
    if table.num_rows < 2 or not any(is_long(column) for column in table.columns):
        yield table
    else:
        half = table.num_rows // 2
        yield from pieces(table.slice(0, half))
        yield from pieces(table.slice(half))
