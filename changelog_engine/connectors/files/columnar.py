"""Parquet and ORC files, read and written."""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from changelog_engine.codec.arrow_columns import UNIT_OF_INT96
from changelog_engine.connectors.files.arrow_types import (
    Rounded,
    arrow_schema,
    columns_of,
    from_arrow,
    instants_of,
    rounded_decimals,
)
from changelog_engine.connectors.files.encoders import BulkWriter, MergingFactory, not_merged
from changelog_engine.connectors.files.formats import FileFormat
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.errors import DamagedInputError, TypeMismatchError
from changelog_engine.formats.avro_records import to_write
from changelog_engine.formats.parts import Convert
from changelog_engine.graph.subtask_warnings import warn
from changelog_engine.types import RowTypeInfo, TypeInformation
from changelog_engine.types.row import rows_of_columns
from changelog_engine.types.typeinfo import Misfit, shown

BATCH_ROWS = 2048
_GROUP_ROWS = 64 * 1024
_UNITS = {"us": "microsecond", "ns": "nanosecond"}


class _ParquetContents:
    """A Parquet file that is open: rows in groups."""

    def __init__(self, stream: Any) -> None:
        self._file = pq.ParquetFile(stream, coerce_int96_timestamp_unit=UNIT_OF_INT96)
        self.total: int = self._file.metadata.num_rows
        self.groups: int = self._file.metadata.num_row_groups
        self.names: list[str] = self._file.schema_arrow.names

    def rows(self) -> list[int]:
        """How many rows each group has."""
        return [self._file.metadata.row_group(index).num_rows for index in range(self.groups)]

    def batches(self, group: int, columns: list[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a group; of these columns, None for all."""
        found: Iterator[pa.RecordBatch] = self._file.iter_batches(
            batch_rows, row_groups=[group], columns=columns
        )
        return found


class _OrcContents:
    """An ORC file that is open: rows in groups, which are called stripes."""

    def __init__(self, stream: Any) -> None:
        self._file = orc.ORCFile(stream)
        self.total: int = self._file.nrows
        self.groups: int = self._file.nstripes
        self.names: list[str] = self._file.schema.names

    def rows(self) -> list[int]:
        """How many rows each group has; one column is read to find out."""
        return [self._stripe(group, []).num_rows for group in range(self.groups)]

    def batches(self, group: int, columns: list[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a group; of these columns, None for all."""
        whole = self._stripe(group, columns)
        return (whole.slice(first, batch_rows) for first in range(0, whole.num_rows, batch_rows))

    def _stripe(self, group: int, columns: list[str] | None) -> pa.RecordBatch:
        if columns is not None and not columns:
            columns = self.names[:1]  # of no columns pyarrow gives no rows
        return self._file.read_stripe(group, columns=columns)


_Contents = _ParquetContents | _OrcContents


class ParquetRecords(FileFormat):
    """The rows of Parquet files. The position is a count of rows; a restore reads on from the row group that has it.

    Args:
        row_type: the columns that are read, as rows; a column that a file does not have is None. None reads all columns, as
            dicts.
        batch_rows: how many rows are decoded at a time.
        case_sensitive: whether columns must be called exactly so.
        schema: what the columns are read as; None for what goes with the row type.
    """

    contents: ClassVar[type[_Contents]] = _ParquetContents

    def __init__(
        self,
        row_type: RowTypeInfo | None = None,
        batch_rows: int = BATCH_ROWS,
        case_sensitive: bool = True,
        schema: pa.Schema | None = None,
    ) -> None:
        self.output_type = row_type
        # Missing columns that were; None: they may be
        self.told: set[str] | None = None if schema is not None else set()
        self.schema = schema if schema is not None or row_type is None else arrow_schema(row_type)
        self.batch_rows = batch_rows
        self.case_sensitive = case_sensitive
        self.row_type = row_type

    def reader(self, file: InputFile) -> SplitReader:
        return _ColumnarReader(self, file)

    def rounded(self) -> Rounded:
        """Types of columns whose decimals are rounded."""
        if self.row_type is not None:
            return rounded_decimals(self.row_type)
        return frozenset(field.type for field in self.schema or () if pa.types.is_decimal(field.type))


class OrcRecords(ParquetRecords):
    """The rows of ORC files, as `ParquetRecords`; a restore reads on from the stripe that has the position."""

    contents = _OrcContents


class _ColumnarReader(SplitReader):
    def __init__(self, records: ParquetRecords, file: InputFile) -> None:
        self._records = records
        self._file = file
        self._schema = records.schema
        # Of columns whose values are decimals to Arrow and ints to us.
        self._fits = {} if records.row_type is None else _of_whole_numbers(records.row_type)
        self._rounded = records.rounded()
        self._own = [] if self._schema is None else list(self._schema.names)
        self._found: dict[str, str] = {}  # column -> what it is called in the file
        self._stream: Any = None
        self._contents: _Contents | None = None
        self._rows: Iterator[Any] = iter(())
        self._position = -1

    def read(self, position: Position, max_records: int) -> Range:
        """Up to max_records rows from a count of rows on.

        Raises:
            StorageError: the file cannot be read, or has fewer rows than the position.
        """
        with self._file.reading(self.close):
            if position != self._position:
                self._seek(position)
            assert self._contents is not None
            total = self._contents.total
            values = list(itertools.islice(self._rows, max_records))
            if not values and max_records and position < total:
                raise DamagedInputError(
                    f"the input file {self._file.name} says that it has {total} rows and ends after {position}: it is "
                    "damaged"
                )
        self._position = position + len(values)
        return Range(values, self._position, self._position >= total)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = self._contents = None
        self._rows, self._position = iter(()), -1

    def _seek(self, position: int) -> None:
        if self._contents is None:
            self._stream = self._file.open()
            self._contents = self._records.contents(self._stream)
            self._refuse_twice(self._contents.names, "")
            if self._schema is not None:
                self._found = self._names()
                self._tell_missing()
        if position > self._contents.total:
            raise self._file.too_short(f"{self._contents.total} rows", f"after row {position}")
        starts = [0, *itertools.accumulate(self._contents.rows())] if position else [0]
        group = bisect.bisect_right(starts, position) - 1
        groups_left = range(group, self._contents.groups)
        rows = itertools.chain.from_iterable(self._group(index) for index in groups_left)
        self._rows = itertools.islice(rows, position - starts[group], None)

    def _group(self, group: int) -> Iterator[Any]:
        assert self._contents is not None
        columns = None
        if self._schema is not None:
            columns = [self._found[name] for name in self._own if name in self._found]
        batches = self._contents.batches(group, columns, self._records.batch_rows)
        return itertools.chain.from_iterable(self._decoded(batch) for batch in batches)

    def _names(self) -> dict[str, str]:
        """The name in the file of each column that is wanted and there."""
        assert self._contents is not None and self._schema is not None
        there = self._contents.names
        if self._records.case_sensitive:
            return {name: name for name in there}
        wanted = {name.lower() for name in self._schema.names}
        self._refuse_twice(
            [name.lower() for name in there if name.lower() in wanted], " where case does not matter"
        )
        lowered = {name.lower(): name for name in there}
        return {name: lowered[name.lower()] for name in self._schema.names if name.lower() in lowered}

    def _refuse_twice(self, names: list[str], where: str) -> None:
        """Refuse columns of one name: of two, one would be lost."""
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DamagedInputError(
                f"the input file {self._file.name} has more than one column {twice[0]!r}{where}: rename them"
            )

    def _tell_missing(self) -> None:
        told = self._records.told
        for name in self._own:
            if told is None or name in self._found or name in told:
                continue
            told.add(name)
            why = "" if f"/{name}=" not in self._file.name else ": names of folders are not read as values"
            warn(
                f"column {name!r} in {os.path.dirname(self._file.name)}",
                "the input file %s has no column %r, which is None in its rows%s",
                self._file.name,
                name,
                why,
            )

    def _decoded(self, batch: pa.RecordBatch) -> list[Any]:
        if self._schema is None:
            names = batch.schema.names
            columns = [_values(column, False) for column in batch.columns]
            if not columns:
                return [{} for _ in range(batch.num_rows)]
            return [dict(zip(names, items, strict=True)) for items in zip(*columns, strict=True)]
        names, own = self._found, self._own
        columns = []
        for field in self._schema:
            if field.name not in names:
                columns.append([None] * batch.num_rows)
                continue
            column = batch.column(names[field.name])
            if _is_instants(field.type) and pa.types.is_timestamp(column.type):
                columns.append(instants_of(column))
            else:
                values, fit = _values(self._cast(column, field), True), self._fits.get(field.name)
                columns.append(values if fit is None else [None if v is None else fit(v) for v in values])
        return rows_of_columns(own, columns)

    def _cast(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if column.type == field.type:
            return column
        try:
            # Finer timestamps than ours are rounded down, and decimals of a declared scale are rounded; all else must fit.
            if field.type in self._rounded and pa.types.is_decimal(column.type):
                column = pc.round(column, field.type.scale, "half_towards_infinity")
            if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type):
                # Of a zone's ambiguous hour nothing is rounded
                utc = column.cast(pa.timestamp(column.type.unit))
                column = pc.floor_temporal(utc, unit=_UNITS[field.type.unit])  # a cast cuts towards 1970
            cast = column.cast(field.type)
            _refuse_lost(column, field.type)
        except pa.ArrowException as error:
            raise TypeMismatchError(
                f"column {field.name!r} of {self._file.name} is {column.type} and was declared {field.type}: {error}"
            ) from None
        return cast


def _refuse_lost(column: pa.Array, wanted: pa.DataType) -> None:
    """Refuse values of which Arrow's casts lose a part, also inside of lists, maps and structs."""
    given = column.type
    if given == wanted or pa.types.is_null(given):
        return
    if pa.types.is_map(wanted):
        _refuse_lost(column.keys, wanted.key_type)
        _refuse_lost(column.items, wanted.item_type)
    elif pa.types.is_list(wanted):
        _refuse_lost(column.flatten(), wanted.value_type)
    elif pa.types.is_struct(wanted):
        for field, part in zip(given, column.flatten(), strict=True):
            if (place := wanted.get_field_index(field.name)) >= 0:
                _refuse_lost(part, wanted[place].type)
    elif (lost := _lost(column, wanted)) is not None:
        raise pa.ArrowInvalid(lost)


def _lost(column: pa.Array, wanted: pa.DataType) -> str | None:
    given = column.type
    if pa.types.is_boolean(wanted):
        return "it is not true or false"
    if pa.types.is_timestamp(given) and pa.types.is_date32(wanted):
        whole_days = column.cast(wanted).cast(given).equals(column)
        return None if whole_days else "a value has a time of day"
    if pa.types.is_timestamp(given) and pa.types.is_time(wanted):
        days = column.cast(pa.date32()).cast(pa.int32())
        return "a value has a date" if pc.any(pc.not_equal(days, 0)).as_py() else None
    if pa.types.is_float64(given) and pa.types.is_float32(wanted):
        same = pc.is_inf(column.cast(wanted)).equals(pc.is_inf(column))
        return None if same else "a value is too large for 32 bits"
    return None


def _of_whole_numbers(row_type: RowTypeInfo) -> dict[str, Callable[[Any], Any]]:
    """Of columns that are, or hold, BIG_INT: what makes ints of decimals."""
    fields = zip(row_type.get_field_names(), row_type.get_field_types(), strict=True)
    return {name: field.fit for name, field in fields if _holds_big_int(field)}


def _holds_big_int(part: object) -> bool:
    if isinstance(part, TypeInformation):
        return part.kind == "BIG_INT" or _holds_big_int(part.parameters())
    return isinstance(part, tuple) and any(map(_holds_big_int, part))  # drives our own code


def _is_instants(wanted: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(wanted) and wanted.unit == "ns")


def _values(column: pa.Array, rows: bool) -> list[Any]:
    values: list[Any] = column.to_pylist()
    convert = from_arrow(column.type, rows)
    return values if convert is None else [None if value is None else convert(value) for value in values]


class ColumnarFiles(MergingFactory):
    """A bulk format of columns: Parquet or ORC.

    Args:
        schema: the columns; elements are rows or tuples in their order, or dicts by their names.
        rounded: see ``columns_of``.
        avro: a schema of Avro, as JSON, that dicts must fit.
    """

    def __init__(
        self,
        kind: Literal["parquet", "orc"],
        schema: pa.Schema,
        rounded: Rounded = frozenset(),
        avro: dict[str, Any] | None = None,
    ) -> None:
        self._kind = kind
        self._schema = schema
        self._rounded = rounded
        self._avro = avro
        self.described = "Parquet files" if kind == "parquet" else "ORC files"

    def open(self, stream: Any) -> ColumnarWriter:
        convert = None if self._avro is None else to_write(self._avro)
        return ColumnarWriter(self._schema, self._rounded, convert, *self._written_to(stream))

    def merge(self, sources: Iterable[tuple[str, Any]], stream: Any) -> None:
        """The columns are copied without making rows of them."""
        write, close = self._written_to(stream)
        contents = _ParquetContents if self._kind == "parquet" else _OrcContents
        gathered: list[pa.RecordBatch] = []
        rows = 0
        try:
            for name, source in sources:
                for batch in self._batches(name, contents, source):
                    gathered.append(batch)
                    rows += batch.num_rows
                    if rows >= _GROUP_ROWS:
                        write(pa.concat_batches(gathered))
                        gathered, rows = [], 0
            if gathered:
                write(pa.concat_batches(gathered))
        finally:
            close()

    def _batches(self, name: str, contents: type[_Contents], source: Any) -> Iterator[pa.RecordBatch]:
        """The columns of a file, as they are written."""
        try:
            found = contents(source)
            if found.names != self._schema.names:
                raise pa.ArrowInvalid(f"its columns are {', '.join(found.names)}")
            rows = 0
            for group in range(found.groups):
                for batch in found.batches(group, None, _GROUP_ROWS):
                    rows += batch.num_rows
                    yield batch.cast(self._schema)
            if rows != found.total:
                raise pa.ArrowInvalid(f"it says that it has {found.total} rows, and has {rows}")
        except (pa.ArrowException, OSError) as error:
            raise not_merged(
                name, f"{self.described} with the columns {self._schema.names}", error
            ) from error

    def _written_to(self, stream: Any) -> tuple[Callable[[pa.RecordBatch], None], Callable[[], None]]:
        """How a batch is written to a new file, and the file ended."""
        if self._kind == "parquet":
            writer = pq.ParquetWriter(stream, self._schema)
            return writer.write_batch, writer.close
        orc_writer = orc.ORCWriter(_Unclosed(stream))
        return lambda batch: orc_writer.write(pa.Table.from_batches([batch])), orc_writer.close


class ColumnarWriter(BulkWriter):
    """Gathers rows and writes them by the group."""

    def __init__(
        self,
        schema: pa.Schema,
        rounded: Rounded,
        convert: Convert | None,
        write: Callable[[pa.RecordBatch], None],
        close: Callable[[], None],
    ) -> None:
        self._schema = schema
        self._rounded = rounded
        self._convert = convert
        self._write = write
        self._close = close
        self._gathered: list[Any] = []

    def write(self, values: Sequence[Any]) -> None:
        """See BulkWriter.

        Raises:
            TypeMismatchError: a dict does not fit the schema of Avro, or an element the columns.
        """
        self._gathered += values if self._convert is None else [self._fitted(value) for value in values]
        if len(self._gathered) >= _GROUP_ROWS:
            self._flush()

    def finish(self) -> None:
        try:
            if self._gathered:
                self._flush()
        finally:
            self._close()

    def _fitted(self, value: Any) -> Any:
        if self._convert is None or not isinstance(value, Mapping):
            return value
        try:
            return self._convert(value)
        except (Misfit, ValueError) as error:
            raise TypeMismatchError(f"{shown(value)} does not fit the Avro schema: {error}") from None

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._write(columns_of(gathered, self._schema, self._rounded))


class _Unclosed:
    """A stream that whoever got it cannot close."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.closed = False

    def write(self, data: Any) -> int:
        """Write."""
        return int(self._stream.write(data) or len(data))

    def tell(self) -> int:
        """Where it stands."""
        return int(self._stream.tell())

    def flush(self) -> None:
        """Flush."""
        self._stream.flush()

    def close(self) -> None:
        """Nothing."""
