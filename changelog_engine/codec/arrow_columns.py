"""A column of Arrow in the form that its reader needs: one array, without a dictionary, of another type."""

from __future__ import annotations

import pyarrow as pa

# Spark's and Hive's timestamps in Parquet. Arrow reads them as nanoseconds unless it is told otherwise, which 64 bits do not
# hold beyond the years 1677 to 2262: 9999-12-31 became a day of 1816.
UNIT_OF_INT96 = "us"


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array; the rows of no chunk at all are an empty one.

    Raises:
        pyarrow.ArrowInvalid: it has more text than one array holds.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # no chunks, or more than one array can hold
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def without_dictionary(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The column with each row's own value where it had numbers of values in a dictionary."""
    if not pa.types.is_dictionary(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return column.cast(column.type.value_type)
    return column.dictionary_decode()


def of_type(column: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The column itself when it has this type, else cast to it."""
    return column if column.type == wanted else column.cast(wanted)
