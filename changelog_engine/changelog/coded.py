"""Columns of repeated texts as numbers, so that the fold works on arrays of numbers and touches each distinct text once.

Invariant: rows have the same number exactly when they have the same text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.codec.arrow_columns import of_type


class Coded(NamedTuple):
    """A column as numbers."""

    codes: Any  # of each row the position of its value; ``len(values)`` for null
    values: pa.Array  # distinct values; some may occur in no row

    def taken(self, at: Any, type_: pa.DataType) -> pa.Array:
        """The column's rows at some positions, as its type wants them."""
        codes = self.codes[at]
        missing = codes == len(self.values)
        indices = pa.array(codes, pa.int32(), mask=missing if missing.any() else None)
        return of_type(pa.DictionaryArray.from_arrays(indices, self.values), type_)


def coded(column: pa.ChunkedArray) -> Coded:
    """The column as numbers.

    Args:
        column: texts or numbers, plain or as dictionaries, one for each chunk.
    """
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    chunks = [_dense(chunk) for chunk in column.chunks if len(chunk)]
    if not chunks:
        return Coded(np.empty(0, np.int32), pa.array([], column.type.value_type))
    values = chunks[0].dictionary
    if all(len(chunk.dictionary) == len(values) and chunk.dictionary.equals(values) for chunk in chunks[1:]):
        return Coded(_joined([_indices(chunk, len(values)) for chunk in chunks]), values)
    encoded = pc.dictionary_encode(pa.concat_arrays([chunk.dictionary for chunk in chunks]))
    values, numbers = encoded.dictionary, encoded.indices.to_numpy()
    codes = []
    start = 0
    for chunk in chunks:
        size = len(chunk.dictionary)
        codes.append(np.append(numbers[start : start + size], np.int32(len(values)))[_indices(chunk, size)])
        start += size
    return Coded(_joined(codes), values)


def pair_codes(codes: Any, second: Coded) -> tuple[Any, int]:
    """A code for each pair of a number and a str, where null counts as a str; and how many different pairs there are."""
    return numbered(codes.astype(np.int64) * (len(second.values) + 1) + second.codes)


def numbered(codes: Any) -> tuple[Any, int]:
    """Numbers from 0 in the order in which they come, in place of others; and how many there are."""
    encoded = pc.dictionary_encode(pa.array(codes))
    return encoded.indices.to_numpy(), len(encoded.dictionary)


def _dense(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    """With a dictionary that isn't much larger than its rows: what was filtered or cut keeps the whole one."""
    if len(chunk.dictionary) <= 2 * len(chunk):
        return chunk
    return pc.dictionary_encode(chunk.dictionary.take(chunk.indices))


def _indices(chunk: pa.DictionaryArray, null: int) -> Any:
    indices = chunk.indices
    if indices.null_count:
        indices = indices.fill_null(null)
    return indices.to_numpy(zero_copy_only=False)


def _joined(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
