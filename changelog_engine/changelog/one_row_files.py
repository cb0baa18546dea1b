"""Files of one row about the log itself: a checkpoint, an attempt, or a snapshot that is complete."""

from __future__ import annotations

import struct
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.changelog.log_files import RowName, crc32, parse_row, read_unchanged, row_name
from changelog_engine.changelog.part_stats import PARQUET_STATISTICS, listed_values
from changelog_engine.changelog.rows import SCHEMA, RowOfLog
from changelog_engine.storage.damaged import reading
from changelog_engine.storage.protocol import Storage


def row_file(
    operation: str, checkpoint: int, attempt: int, document: str, time_ms: int
) -> tuple[str, pa.Buffer]:
    """Name and bytes of a one-row file about the log.

    Args:
        checkpoint: its id; for an attempt, the checkpoint it starts from, or 0.
        time_ms: epoch milliseconds, goes into event_time.
    """
    given = RowOfLog(checkpoint, attempt, operation, document, time_ms * 1000)._asdict()
    row = pa.Table.from_arrays(
        [column_of_one(given.get(field.name), field.type) for field in SCHEMA], schema=SCHEMA
    )
    data = row_bytes(operation, row)
    return row_name(RowName(operation, checkpoint, attempt, crc32(data))), data


def column_of_one(value: str | int | None, type_: pa.DataType) -> pa.Array:
    """A column with one value.

    ``pa.array()`` would import pandas to see whether the value is of it: a quarter of a second of CPU in a driver whose
    first epoch waits for the row of its attempt.
    """
    if value is None:
        return pa.nulls(1, type_)
    if isinstance(value, str):
        data = value.encode()
        offsets = struct.pack("=2i", 0, len(data))
        return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    number = value.to_bytes(type_.bit_width // 8, sys.byteorder, signed=True)
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(number)])


# A page that zstd compresses costs 25 us, and all but the document are a number, a word or nothing.
_OF_ONE_ROW = {name: "zstd" if name == "value" else "snappy" for name in SCHEMA.names}


def row_bytes(operation: str, rows: pa.Table) -> pa.Buffer:
    """A file of rows about the log, all of one kind, as Parquet."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows.replace_schema_metadata(listed_values([], [operation])),
        sink,
        compression="zstd" if rows.num_rows > 1 else _OF_ONE_ROW,
        use_dictionary=False,
        write_statistics=list(PARQUET_STATISTICS),
    )
    return sink.getvalue()


def read_row(storage: Storage, path: str, size: int | None = None) -> str:
    """The JSON document of a one-row file.

    Args:
        size: see read_unchanged.

    Raises:
        CorruptChangelogError: the file is missing or isn't what its name says.
    """
    name = parse_row(path)
    with reading(storage.join(path)):
        data = read_unchanged(storage, path, None if name is None else name.crc, size)
        values = pq.ParquetFile(pa.BufferReader(data)).read(["value"], use_threads=False)["value"]
        return str(values[0].as_py())
