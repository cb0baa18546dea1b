"""One part: mutations of one subtask as a Parquet file, built in memory and written durably at its end.

Invariants:
    * Nothing is on disk before ``finish``; the file's name carries the crc32 of its bytes.
    * Rows keep the order of ``write``; their sequence numbers are ``first_sequence``, +1, +2, ...
    * Small writes share a row group, so that a job with many states doesn't write many tiny ones.

Encodings (measured, see the table in docs/table-format.md): zstd level 1; low-cardinality columns and keys as dictionaries,
which cost next to nothing when they arrive as such; sequence and event_time as deltas; values as delta lengths.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changelog_engine.changelog.log_files import PartName, crc32, part_name
from changelog_engine.changelog.model import FORMAT_VERSION, Part
from changelog_engine.changelog.part_stats import OPTIONAL, PARQUET_STATISTICS, empty_entry, listed_values
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage

ROW_GROUP_ROWS = 65_536
# Every mutation has them; a required column saves Parquet's definition levels, up to half of what a column costs.
REQUIRED = ("checkpoint_id", "attempt", "sequence", "operator", "state", "key_group", "key", "operation")
_CONSTANTS = ("operator", "state", "operation")
_DICTIONARIES = ("operator", "state", "operation", "key", "namespace", "map_key")
_DICTIONARY_BYTES = 16 * 1024 * 1024
_INDEX_TYPE = pa.int32()


class PartWriter:
    """Builds one part.

    Args:
        folder: the table's folder or URI.
        checkpoint_id: the checkpoint that will commit it.
        attempt, stage, subtask: who writes.
        number: counts the subtask's parts in the attempt, from 1.
        first_sequence: sequence number of its first row.
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
        self._listed: dict[str, set[str]] = {"operator": set(), "operation": set()}
        self._empty = set(OPTIONAL)
        self._data: pa.Buffer | None = None
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0

    @property
    def size(self) -> int:
        """About how many bytes the part has so far."""
        return int(self._sink.tell()) + self._waiting_bytes

    def write(self, rows: int, columns: dict[str, Any]) -> None:
        """Append rows.

        Args:
            rows: how many; 0 does nothing.
            columns: column name -> an array of that many values (plain or dictionary), a constant for all rows, or None;
                columns not named are null. ``checkpoint_id``, ``attempt`` and ``sequence`` are the writer's own.

        Raises:
            ValueError: an array has another length, or a column that every mutation has is null.
        """
        if not rows:
            return
        arrays = [self._column(field, rows, columns.get(field.name)) for field in SCHEMA]
        for field, array in zip(SCHEMA, arrays, strict=True):
            if len(array) != rows:
                raise ValueError(f"column {field.name!r} has {len(array)} values for {rows} rows")
            if not _allowed(field, array):
                raise ValueError(f"column {field.name!r} has nulls: every mutation has {', '.join(REQUIRED)}")
        self._widen(columns.get("key_group"))
        self._empty.difference_update([name for name in self._empty if columns.get(name) is not None])
        for name, listed in self._listed.items():
            value = columns[name]
            listed.update([value] if isinstance(value, str) else pc.unique(value).to_pylist())
        self._waiting.append(pa.table(arrays, names=SCHEMA.names))
        self._waiting_rows += rows
        self._waiting_bytes += sum(a.nbytes for a in arrays) // 4
        self.rows += rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._write_row_group()

    def finish(self) -> Part:
        """Write the file durably.

        Returns:
            The part; nothing refers to its file until a checkpoint commits it.

        Raises:
            StorageError: it could not be written; the writer may be finished again.
        """
        data = self._bytes()
        name = PartName(
            self._checkpoint_id, self._attempt, self._stage, self._subtask, self._number, crc32(data)
        )
        path = part_name(name)
        self._storage.write_durable(path, data)
        first, last = self._range or (
            self._key_groups.start,
            max(self._key_groups.start, self._key_groups.stop - 1),
        )
        return Part(
            path=path,
            size=data.size,
            rows=self.rows,
            checkpoint_id=self._checkpoint_id,
            attempt=self._attempt,
            stage=self._stage,
            subtask=self._subtask,
            first_sequence=self._first_sequence,
            first_key_group=first,
            last_key_group=last,
        )

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

    def _column(self, field: pa.Field, rows: int, value: Any) -> pa.Array:
        name = field.name
        if name == "checkpoint_id":
            return pa.repeat(pa.scalar(self._checkpoint_id, field.type), rows)
        if name == "attempt":
            return pa.repeat(pa.scalar(self._attempt, field.type), rows)
        if name == "sequence":
            return pa.arange(self._first_sequence + self.rows, self._first_sequence + self.rows + rows)
        if value is None:
            return pa.nulls(rows, field.type)
        if isinstance(value, pa.ChunkedArray):
            value = value.combine_chunks()
        if not isinstance(value, pa.Array):
            value = pa.scalar(value, field.type)
            if pa.types.is_string(field.type):
                zeros = pa.repeat(pa.scalar(0, _INDEX_TYPE), rows)
                return pa.DictionaryArray.from_arrays(zeros, pa.array([value.as_py()], field.type))
            return pa.repeat(value, rows)
        if pa.types.is_dictionary(value.type):
            if len(value.dictionary) > rows:
                return value.dictionary_decode().cast(field.type)
            wanted = pa.dictionary(_INDEX_TYPE, field.type)
            return value if value.type == wanted else value.cast(wanted)
        return value if value.type == field.type else value.cast(field.type)

    def _widen(self, key_groups: Any) -> None:
        if key_groups is None:
            return
        if isinstance(key_groups, int):
            low = high = key_groups
        else:
            bounds = pc.min_max(key_groups).as_py()
            if bounds["min"] is None:
                return
            low, high = bounds["min"], bounds["max"]
        self._range = (
            (low, high) if self._range is None else (min(low, self._range[0]), max(high, self._range[1]))
        )

    def _write_row_group(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting_rows = self._waiting_bytes = 0
        if self._schema is None:
            self._schema = _file_schema(waiting)
            self._writer = open_writer(self._sink, self._schema)
        tables = [_conform(table, self._schema) for table in waiting]
        if not tables:
            return
        table = tables[0]
        if len(tables) > 1:
            # The Parquet writer takes dictionary columns as they are only while the dictionary stays the same.
            table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
        assert self._writer is not None
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))


def _allowed(field: pa.Field, array: pa.Array) -> bool:
    """Whether the array has no nulls, or may have them."""
    return field.name not in REQUIRED or array.null_count == 0


def _file_schema(tables: list[pa.Table]) -> pa.Schema:
    """The file's Arrow schema: dictionaries for constants, and for a column whose first rows came as one."""
    fields = []
    for field in SCHEMA:
        came = any(pa.types.is_dictionary(table[field.name].type) for table in tables)
        if field.name in _CONSTANTS or came:
            field = field.with_type(pa.dictionary(_INDEX_TYPE, field.type))
        fields.append(field.with_nullable(field.name not in REQUIRED))
    return pa.schema(fields)


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the file's types: plain to dictionary or back where a later write came in another form."""
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if column.type != field.type:
            if pa.types.is_dictionary(field.type):
                column = column.dictionary_encode()
            column = column.cast(field.type)
        columns.append(column)
    return pa.table(columns, schema=schema)


def open_writer(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer with the encodings that suit the changelog's columns.

    Args:
        sink: where the bytes go.
        schema: the changelog's columns, some of them as dictionaries.
    """
    dictionaries = ["checkpoint_id", "attempt", "key_group", *_DICTIONARIES]
    encodings = {"sequence": "DELTA_BINARY_PACKED", "event_time": "DELTA_BINARY_PACKED"}
    if pa.types.is_dictionary(schema.field("value").type):
        dictionaries.append("value")
    else:
        encodings["value"] = "DELTA_LENGTH_BYTE_ARRAY"
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=dictionaries,
        column_encoding=encodings,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        write_statistics=list(PARQUET_STATISTICS),
        store_schema=False,
    )
