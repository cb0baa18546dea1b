"""One part: mutations of one subtask as a Parquet file, built in memory and written durably at its end.

Invariants:
    * Nothing is on disk before ``finish``; the file's name carries the crc32 of its bytes.
    * Rows keep the order of ``write``; their sequence numbers are ``first_sequence``, +1, +2, ...
    * Small writes share a row group, so that a job with many states doesn't write many tiny ones; what waits for one is
      bounded in rows and in bytes.

Encodings (measured, see the table in docs/table-format.md): zstd level 1, snappy where there is little to compress;
low-cardinality columns and keys as dictionaries, which cost next to nothing when they arrive as such; sequence and
event_time as deltas; values as delta lengths.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changelog_engine.changelog.log_files import PartName, crc32, part_name
from changelog_engine.changelog.model import FORMAT_VERSION, Part
from changelog_engine.changelog.oversized import is_long
from changelog_engine.changelog.part_stats import OPTIONAL, PARQUET_STATISTICS, empty_entry, listed_values
from changelog_engine.changelog.rows import SCHEMA, Columns
from changelog_engine.codec.arrow_columns import of_type
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage

ROW_GROUP_ROWS = 65_536
_LEAST_ROWS = 8_192  # of a row group that is ended ahead, or
_LEAST_BYTES = 1 << 19
_ROW_GROUP_BYTES = 16 << 20  # in memory, before compression
# Every mutation has them; a required column saves Parquet's definition levels, up to half of what a column costs.
REQUIRED = ("checkpoint_id", "attempt", "sequence", "operator", "state", "key_group", "key", "operation")
_CONSTANTS = ("operator", "state", "operation")
_DICTIONARIES = ("operator", "state", "operation", "namespace", "map_key")
# A page that zstd compresses costs 25 us, however short it is: in a part, columns of nearly nothing have snappy.
_LIGHT = ("checkpoint_id", "attempt", "sequence", "operator", "state", "operation")
_DICTIONARY_BYTES = 16 * 1024 * 1024
_INDEX_TYPE = pa.int32()
_GIVEN = [field for field in SCHEMA if field.name not in ("checkpoint_id", "attempt", "sequence")]


class SealedPart(NamedTuple):
    """A part that is complete and not written yet."""

    name: PartName
    rows: int
    data: pa.Buffer  # the bytes of its file
    first_sequence: int
    key_groups: tuple[int, int]  # the first and the last of its rows' key groups

    def part(self, path: str, pack_size: int = 0) -> Part:
        """The part as it is when its bytes are durable.

        Args:
            path: of the file that has them.
            pack_size: bytes of that file where it is a pack.
        """
        return Part(
            path=path,
            size=self.data.size,
            rows=self.rows,
            checkpoint_id=self.name.checkpoint,
            attempt=self.name.attempt,
            stage=self.name.stage,
            subtask=self.name.subtask,
            first_sequence=self.first_sequence,
            first_key_group=self.key_groups[0],
            last_key_group=self.key_groups[1],
            pack_size=pack_size,
        )

    def write(self, storage: Storage, background: bool = False) -> Part:
        """Write it durably, as a file of its own; in the background where nobody waits for it."""
        path = part_name(self.name)
        storage.write_durable(path, self.data, background)
        return self.part(path)


class PartWriter:
    """Builds one part.

    Args:
        number: counts the subtask's parts in the attempt, from 1.
        key_groups: the range the subtask owns; stands for the part's range when no row has a key group.
        storage: where to write; None opens the folder.

    Example:
        >>> writer = PartWriter(folder, checkpoint_id=1, attempt=1, stage=1, subtask=0, number=1, first_sequence=0,
        ...                     key_groups=range(0, 128))
        >>> writer.write(1, {"operator": "count", "state": "n", "key": pa.array(['"a"']),
        ...                  "key_group": pa.array([7], pa.int32()), "operation": "put", "value": pa.array(["1"])})
        >>> part = writer.finish()
    """

    def __init__(
        self,
        folder: str,
        *,
        checkpoint_id: int,
        attempt: int,
        stage: int,
        subtask: int,
        number: int,
        first_sequence: int,
        key_groups: range,
        storage: Storage | None = None,
    ) -> None:
        self.rows = 0
        self._storage = storage or open_storage(folder)
        self._checkpoint_id = checkpoint_id
        self._attempt = attempt
        self._stage = stage
        self._subtask = subtask
        self._number = number
        self._first_sequence = first_sequence
        self._key_groups = key_groups
        self._range: tuple[int, int] | None = None
        self._last_groups: Any = None  # states of one function have them in common
        self._listed: dict[str, set[str]] = {"operator": set(), "operation": set()}
        self._empty = set(OPTIONAL)
        self._data: pa.Buffer | None = None
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        self._waiting: list[tuple[int, Columns]] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0

    @property
    def size(self) -> int:
        """About how many bytes the part has so far."""
        return int(self._sink.tell()) + self._waiting_bytes // 4

    def write(self, rows: int, columns: Columns) -> int:
        """Append rows; returns about how many bytes they have in memory.

        Args:
            rows: how many; 0 does nothing.
            columns: theirs; those not named are null. ``checkpoint_id``, ``attempt`` and ``sequence`` are the writer's.

        Raises:
            ValueError: an array has another length, or a column that every mutation has is null.
        """
        if rows > 1 and any(_is_array(value) and is_long(value) for value in columns.values()):
            half = rows // 2
            first = self.write(half, _sliced(rows, columns, 0, half))
            return first + self.write(rows - half, _sliced(rows, columns, half, rows))
        if not rows:
            return 0
        given = {field.name: _prepared(field, rows, columns.get(field.name)) for field in _GIVEN}
        size = sum([_size(rows, value) for value in given.values()])
        if self._waiting and self._waiting_bytes + size > _ROW_GROUP_BYTES:
            self._write_row_group()
        self._widen(given["key_group"])
        self._empty.difference_update([name for name in self._empty if columns.get(name) is not None])
        for name, listed in self._listed.items():
            value = given[name]
            listed.update([value] if isinstance(value, str) else pc.unique(value).to_pylist())
        self._waiting.append((rows, given))
        self._waiting_rows += rows
        self._waiting_bytes += size
        self.rows += rows
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._write_row_group()
        return size

    def end_row_group(self) -> None:
        """Compress what waits for a row group, where that is not little."""
        if self._waiting_rows >= _LEAST_ROWS or self._waiting_bytes >= _LEAST_BYTES:
            self._write_row_group()

    def finish(self, background: bool = False) -> Part:
        """Write the file durably; in the background where nobody waits for it.

        Returns:
            The part; nothing refers to its file until a checkpoint commits it.

        Raises:
            StorageError: it could not be written; the writer may be finished again.
        """
        return self.sealed().write(self._storage, background)

    def sealed(self) -> SealedPart:
        """Complete the part without writing it."""
        data = self._bytes()
        name = PartName(
            self._checkpoint_id, self._attempt, self._stage, self._subtask, self._number, crc32(data)
        )
        owned = self._key_groups.start, max(self._key_groups.start, self._key_groups.stop - 1)
        return SealedPart(name, self.rows, data, self._first_sequence, self._range or owned)

    def _bytes(self) -> pa.Buffer:
        if self._data is None:
            if self._writer is None or self._waiting:
                self._write_row_group()
            assert self._writer is not None
            self._writer.add_key_value_metadata(self._metadata())
            self._writer.close()
            self._data = self._sink.getvalue()
        return self._data

    def _metadata(self) -> dict[str, str]:
        return {
            "changelog.format": str(FORMAT_VERSION),
            "changelog.stage": str(self._stage),
            "changelog.subtask": str(self._subtask),
            "changelog.attempt": str(self._attempt),
            "changelog.first_sequence": str(self._first_sequence),
            "changelog.rows": str(self.rows),
            **listed_values(self._listed["operator"], self._listed["operation"]),
            **empty_entry(self._empty),
        }

    def _widen(self, key_groups: Any) -> None:
        if key_groups is self._last_groups:
            return
        self._last_groups = key_groups
        if isinstance(key_groups, int):
            low = high = key_groups
        else:
            groups = key_groups.to_numpy()
            low, high = int(groups.min()), int(groups.max())
        self._range = (
            (low, high) if self._range is None else (min(low, self._range[0]), max(high, self._range[1]))
        )

    def _write_row_group(self) -> None:
        waiting, self._waiting = self._waiting, []
        rows, self._waiting_rows = self._waiting_rows, 0
        self._waiting_bytes = 0
        if self._schema is None:
            self._schema, repeated = _file_schema(waiting)
            self._writer = open_writer(self._sink, self._schema, repeated, {*_LIGHT, *self._empty})
        if not rows:
            return
        first = self._first_sequence + self.rows - rows
        own = {
            "checkpoint_id": pa.repeat(pa.scalar(self._checkpoint_id, pa.int64()), rows),
            "attempt": pa.repeat(pa.scalar(self._attempt, pa.int32()), rows),
            "sequence": pa.arange(first, first + rows),
        }
        columns = [
            own[field.name]
            if field.name in own
            else _joined([(count, given[field.name]) for count, given in waiting], field.type)
            for field in self._schema
        ]
        assert self._writer is not None
        self._writer.write_table(pa.table(columns, schema=self._schema), row_group_size=rows)


def _prepared(field: pa.Field, rows: int, value: Any) -> Any:
    """One column of a write, checked: an array of the field's type or of a dictionary of it, a constant, or None."""
    name = field.name
    required = name in REQUIRED
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if not isinstance(value, pa.Array):
        if value is None and required:
            raise ValueError(_missing(name))
        return value
    if len(value) != rows:
        raise ValueError(_other_length(name, len(value), rows))
    if required and value.null_count:
        raise ValueError(_missing(name))
    if pa.types.is_dictionary(value.type):
        return of_type(value, pa.dictionary(_INDEX_TYPE, field.type))
    return of_type(value, field.type)


def _sliced(rows: int, columns: Columns, start: int, stop: int) -> Columns:
    """Some rows of a write."""
    for name, value in columns.items():
        if _is_array(value) and len(value) != rows:
            raise ValueError(_other_length(name, len(value), rows))
    return {
        name: value.slice(start, stop - start) if _is_array(value) else value
        for name, value in columns.items()
    }


def _is_array(value: Any) -> bool:
    return isinstance(value, pa.Array | pa.ChunkedArray)


def _other_length(name: str, length: int, rows: int) -> str:
    return f"column {name!r} has {length} values for {rows} rows"


def _missing(name: str) -> str:
    return f"column {name!r} has nulls: every mutation has {', '.join(REQUIRED)}"


def _size(rows: int, value: Any) -> int:
    """About how many bytes a column has in memory."""
    if value is None:
        return 0
    return int(value.nbytes) if isinstance(value, pa.Array) else 4 * rows


def _file_schema(waiting: list[tuple[int, Columns]]) -> tuple[pa.Schema, set[str]]:
    """The file's Arrow schema, from its first row group; and which columns repeat.

    Dictionaries are the columns of names, and those of which all came as dictionaries. Where only some did, Parquet's own
    dictionary is sooner made than theirs are joined.
    """
    fields = []
    repeated = set()
    for field in SCHEMA:
        values = [given.get(field.name) for _, given in waiting]
        came = [_is_dictionary(value) for value in values if value is not None]
        if any(came):
            repeated.add(field.name)
        if field.name in _CONSTANTS or (came and all(came)):
            field = field.with_type(pa.dictionary(_INDEX_TYPE, field.type))
        fields.append(field.with_nullable(field.name not in REQUIRED))
    return pa.schema(fields), repeated


def _is_dictionary(value: Any) -> bool:
    return isinstance(value, pa.Array) and pa.types.is_dictionary(value.type)


def _joined(pieces: list[tuple[int, Any]], type_: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A column of a row group out of those of its writes, each with its number of rows, as the file's type wants them."""
    values = [value for _, value in pieces]
    if pa.types.is_dictionary(type_) and all(isinstance(value, str) for value in values):
        distinct = list(dict.fromkeys(values))
        numbers = np.array([distinct.index(value) for value in values], np.int32)
        codes = np.repeat(numbers, [count for count, _ in pieces])
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(distinct, type_.value_type))
    arrays = [_of_type(count, value, type_) for count, value in pieces]
    if not pa.types.is_dictionary(type_):
        return pa.chunked_array(arrays, type_)
    joined = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    if len(joined.dictionary) > len(joined):
        return joined.dictionary_decode().dictionary_encode()  # it would be written with all that others need
    return joined


def _of_type(rows: int, value: Any, type_: pa.DataType) -> pa.Array:
    """One write's column with the file's type: plain to dictionary or back where it came in another form."""
    wanted = type_.value_type if pa.types.is_dictionary(type_) else type_
    if value is None:
        found = pa.nulls(rows, wanted)
    elif isinstance(value, pa.Array):
        found = value
    elif wanted is not type_:
        zeros = pa.repeat(pa.scalar(0, _INDEX_TYPE), rows)
        found = pa.DictionaryArray.from_arrays(zeros, pa.array([value], wanted))
    else:
        found = pa.repeat(pa.scalar(value, wanted), rows)
    if found.type == type_:
        return found
    return found.dictionary_encode() if wanted is not type_ else found.dictionary_decode()


def open_writer(
    sink: Any, schema: pa.Schema, repeated: Collection[str] = ("key",), light: Collection[str] = ()
) -> pq.ParquetWriter:
    """A writer with the encodings that suit the changelog's columns.

    Args:
        sink: where the bytes go.
        schema: the changelog's columns, some of them as dictionaries.
        repeated: columns whose texts repeat; of ``key`` and ``value`` only these get dictionaries.
        light: columns that are nearly nothing without compression.
    """
    dictionaries = ["checkpoint_id", "attempt", "key_group", *_DICTIONARIES]
    encodings = {"sequence": "DELTA_BINARY_PACKED", "event_time": "DELTA_BINARY_PACKED"}
    dictionaries += [name for name in ("key", "value") if name in repeated]
    if "value" not in repeated:
        encodings["value"] = "DELTA_LENGTH_BYTE_ARRAY"
    return pq.ParquetWriter(
        sink,
        schema,
        compression={name: "snappy" if name in light else "zstd" for name in schema.names},
        compression_level={name: 1 for name in schema.names if name not in light},
        use_dictionary=dictionaries,
        column_encoding=encodings,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        write_statistics=list(PARQUET_STATISTICS),
        store_schema=False,
    )
