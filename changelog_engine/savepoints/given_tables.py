"""Tables that a user gives, as batches of columns: Arrow, pandas, Parquet files, plain columns, and whatever speaks Arrow.

Invariants:
    * Every row comes once, in the order of the table; a table without an order of its own is said to have none.
    * A column is an Arrow array, or a list of Python objects where Arrow has no one type for them.
    * A column that is missing, unknown or there twice is an error before any row is looked at.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem, FileType

from changelog_engine.codec.arrow_columns import UNIT_OF_INT96, without_dictionary
from changelog_engine.config.names import names_of
from changelog_engine.connectors.files.arrow_types import instants_of
from changelog_engine.errors import ConfigurationError, StorageError, TypeMismatchError
from changelog_engine.types import ElementsTypeInfo, MapTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation
from changelog_engine.types.typeinfo import shown

BATCH_ROWS = 131_072
_ARROW_GIVES_BACK = names_of("string bytes boolean integer floating date time datetime64 empty")
_PARQUET = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit=UNIT_OF_INT96))

Column: TypeAlias = Any  # an array of Arrow, or a list of Python objects


class Batch(NamedTuple):
    """Some rows that follow each other."""

    first: int | None  # number of the first row in its table, from 0; None where rows have no numbers
    rows: int
    columns: dict[str, Column]


def is_spark_frame(given: Any) -> bool:
    """Whether a table is a DataFrame of Spark's; PySpark is not loaded to find out."""
    return any(base.__module__.startswith("pyspark.sql.") for base in type(given).__mro__)


def batches(given: Any, where: str, wanted: Collection[str], optional: Collection[str]) -> Iterator[Batch]:
    """The rows of a table.

    Args:
        given: a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a pandas DataFrame, columns by name, the path of a
            Parquet file or of a folder with such, or anything with ``__arrow_c_stream__`` (Polars, DuckDB).
        wanted: names of columns that it must have.
        optional: of those that it may have.

    Raises:
        ConfigurationError: it is something else, or has other columns.
        StorageError: a file can't be read.
    """
    if isinstance(given, Mapping):
        yield from _of_columns(dict(given), where, wanted, optional)
        return
    if type(given).__module__.startswith("pandas."):
        names = [str(name) for name in given.columns]
        check_columns(names, where, wanted, optional)
        yield from _of_columns(
            {name: _of_pandas(given.iloc[:, at], where, name) for at, name in enumerate(names)},
            where,
            wanted,
            optional,
        )
        return
    names, found = _arrow_batches(given, where)
    check_columns(names, where, wanted, optional)
    first = 0
    try:
        for record_batch in found:
            for start in range(0, record_batch.num_rows, BATCH_ROWS):
                cut = record_batch.slice(start, BATCH_ROWS)
                columns: dict[str, Column] = dict(zip(names, cut.columns, strict=True))
                yield Batch(first, cut.num_rows, columns)
                first += cut.num_rows
    except (pa.ArrowException, OSError) as error:
        raise StorageError(f"{where} can't be read: {error}") from error


def check_columns(
    names: Sequence[str], where: str, wanted: Collection[str], optional: Collection[str]
) -> None:
    """Refuse a table whose columns are not those that are wanted.

    Raises:
        ConfigurationError: says which are there and which are wanted.
    """
    needs = ", ".join(wanted) + "".join(f", and may have {name}" for name in optional)
    for name in wanted:
        if name not in names:
            raise ConfigurationError(
                f"{where} has no column {name!r}; it has {', '.join([repr(name) for name in names]) or 'none'}. "
                f"It needs the columns "
                f"{needs}: rename its columns"
            )
    for name in names:
        if name not in wanted and name not in optional:
            raise ConfigurationError(
                f"{where} has a column {name!r}, which means nothing here. It needs the columns {needs}: leave "
                "the others out"
            )
        if list(names).count(name) > 1:
            raise ConfigurationError(
                f"{where} has {list(names).count(name)} columns {name!r}: leave one of them"
            )


def _of_columns(
    given: dict[str, Any], where: str, wanted: Collection[str], optional: Collection[str]
) -> Iterator[Batch]:
    check_columns(list(given), where, wanted, optional)
    columns = {name: _plain(column, where, name) for name, column in given.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ConfigurationError(f"the columns of {where} have different numbers of values: {told}")
    rows = next(iter(lengths.values()))
    for start in range(0, rows, BATCH_ROWS):
        cut = {name: column[start : start + BATCH_ROWS] for name, column in columns.items()}
        yield Batch(start, min(BATCH_ROWS, rows - start), cut)


def _plain(column: Any, where: str, name: str) -> Column:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, (pa.Array, list)):
        return column
    if type(column).__module__ == "numpy":
        return _of_numpy(column, where, name)
    if isinstance(column, (str, bytes)) or not isinstance(column, Sequence):
        raise ConfigurationError(
            f"column {name!r} of {where} is {shown(column)}: give a list, or an array of Arrow or numpy"
        )
    return list(column)


def _of_numpy(column: Any, where: str, name: str) -> Column:
    """An array of numpy; its times stay times, which ``tolist`` makes ints of where they are finer than Python's."""
    if column.dtype.kind not in "mM":
        return column.tolist()
    try:
        return pa.array(column)
    except pa.ArrowException as error:
        raise ConfigurationError(
            f"column {name!r} of {where} has the type {column.dtype}, which Arrow has not: cast it, such as by "
            f"astype('datetime64[us]') ({error})"
        ) from error


def _of_pandas(series: Any, where: str, name: str) -> Column:
    """A column of pandas': its missing values are nulls; objects of which Arrow would make others stay as they are."""
    if series.dtype != object or _one_class(series):
        with contextlib.suppress(pa.ArrowException, OverflowError, UnicodeError):
            found = pa.array(series, from_pandas=True)
            return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    missing = series.isna().tolist()
    return [
        None if gone else _without_arrays(value, where, name)
        for value, gone in zip(series.tolist(), missing, strict=True)
    ]


def _one_class(series: Any) -> bool:
    """Whether Arrow has one type for a column of objects that gives equal objects back, of the same classes."""
    types = sys.modules["pandas"].api.types  # loaded by whoever made the series
    kind = types.infer_dtype(series, skipna=True)
    if kind == "datetime":
        return len({value.tzinfo is None for value in series.dropna()}) == 1
    return kind in _ARROW_GIVES_BACK


def _without_arrays(value: Any, where: str, name: str) -> Any:
    """Arrays of numpy, which pandas has in place of lists, as lists."""
    if type(value).__module__ != "numpy" or not value.ndim:  # its scalars have no dimensions
        return value
    plain = _of_numpy(value, where, name)
    plain = plain if isinstance(plain, list) else plain.to_pylist()
    return [_without_arrays(each, where, name) for each in plain]


def _arrow_batches(given: Any, where: str) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    if isinstance(given, (str, os.PathLike)):
        given = _parquet(os.fspath(given), where)
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return given.column_names, iter(given.to_batches())
    if isinstance(given, ds.Dataset):
        _check_pieces(given, where)
        # With several files at once the order of rows would be up to threads.
        return given.schema.names, given.to_batches(use_threads=False)
    if not isinstance(given, pa.RecordBatchReader):
        try:
            given = pa.RecordBatchReader.from_stream(given)
        except (TypeError, AttributeError):  # it does not speak Arrow
            raise ConfigurationError(
                f"{where} is {shown(given)}: give a table of Arrow or pandas, columns by name, the path of Parquet "
                "files, or a DataFrame of Spark"
            ) from None
    return given.schema.names, iter(given)


def _check_pieces(given: ds.Dataset, where: str) -> None:
    """Refuse a dataset with a file that lacks a column: its rows would have None there."""
    for fragment in given.get_fragments():
        try:
            names = {*fragment.physical_schema.names, *ds.get_partition_keys(fragment.partition_expression)}
        except (pa.ArrowException, OSError) as error:
            raise StorageError(f"{where}: can't read {fragment} of the dataset: {error}") from error
        missing = [name for name in given.schema.names if name not in names]
        if missing:
            raise ConfigurationError(
                f"{where}: {fragment} has no column {missing[0]!r}, and other "
                "files of the dataset have one: give all of them the same columns"
            )


def _parquet(path: str, where: str) -> ds.Dataset:
    try:
        found = ds.dataset(path, format=_PARQUET)
        folder = FileSystem.from_uri(path)[1] if "://" in path else path
        log = found.filesystem.get_file_info(f"{folder.rstrip('/')}/_delta_log")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StorageError(f"{where}: can't read {path} as Parquet: {error}") from error
    if log.type is FileType.Directory:
        raise ConfigurationError(
            f"{where}: {path} is a Delta table, whose list of files says which count. Read it first, such as by "
            "deltalake.DeltaTable(path).to_pyarrow_table() or spark.read.format('delta').load(path)"
        )
    for fragment in found.get_fragments():  # columns that the first file lacks would be left out
        try:
            names = fragment.physical_schema.names
        except (pa.ArrowException, OSError) as error:
            raise StorageError(f"{where}: can't read {fragment.path} as Parquet: {error}") from error
        if sorted(names) != sorted(found.schema.names):
            raise ConfigurationError(
                f"{where}: {fragment.path} has the columns {', '.join(names)}, and other files of {path} have "
                f"{', '.join(found.schema.names)}: give all of them the same columns"
            )
    return found


def python_values(column: Column, type_info: TypeInformation) -> list[Any]:
    """The values of a column as Python objects that a declared type takes: structs as tuples of fields, maps as dicts.

    Raises:
        TypeMismatchError: a timestamp with a zone for a type without, or the other way round, or one that is finer than
            what Python holds. What does not fit otherwise is given as it is: whoever checks it says so.
    """
    if isinstance(column, list):
        return column
    column = without_dictionary(column)
    convert = _converter(column.type, type_info)
    if pa.types.is_timestamp(column.type):
        return _moments(column, type_info)
    if column.type == pa.time64("ns"):
        try:
            column = column.cast(pa.time64("us"))
        except pa.ArrowInvalid as error:
            raise TypeMismatchError(
                f"the column has times finer than a microsecond: round them ({error})"
            ) from error
    values: list[Any] = column.to_pylist()
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _moments(column: pa.Array, type_info: TypeInformation) -> list[Any]:
    zone, unit = column.type.tz, column.type.unit
    if type_info.kind == "INSTANT":
        if zone is None:
            raise TypeMismatchError(
                "the column has times without a zone, and an INSTANT is a point in time: cast it to a timestamp with the "
                "zone UTC, or declare SQL_TIMESTAMP"
            )
        return [*instants_of(column)]
    if type_info.kind == "SQL_TIMESTAMP" and zone is not None:
        raise TypeMismatchError(
            f"the column has times of the zone {zone}, and a SQL_TIMESTAMP has none: cast it to a timestamp without a zone, "
            "or declare INSTANT"
        )
    if unit == "ns":
        try:
            column = column.cast(pa.timestamp("us", tz=zone))
        except pa.ArrowInvalid as error:
            raise TypeMismatchError(
                f"the column has times finer than a microsecond: round them, or declare INSTANT ({error})"
            ) from error
    values: list[Any] = column.to_pylist()
    return values


def _converter(arrow: pa.DataType, type_info: TypeInformation) -> Callable[[Any], Any] | None:
    """What makes Arrow's Python objects those of a declared type; None when they are."""
    if pa.types.is_struct(arrow) and isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        types = type_info.get_field_types()
        names = [arrow.field(at).name for at in range(arrow.num_fields)]
        if len(types) != len(names):
            return None
        if isinstance(type_info, RowTypeInfo):
            if set(names) != set(type_info.get_field_names()):
                return None
            names = type_info.get_field_names()
        inner = [_converter(arrow.field(name).type, one) for name, one in zip(names, types, strict=True)]
        fields = list(zip(names, inner, strict=True))
        return lambda value: tuple(
            value[name] if each is None or value[name] is None else each(value[name]) for name, each in fields
        )
    if pa.types.is_map(arrow) and isinstance(type_info, MapTypeInfo):
        return _as_dict
    lists = pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow)
    if lists and isinstance(type_info, ElementsTypeInfo):
        each = _converter(arrow.value_type, type_info.elem_type)
        if each is not None:
            return lambda value: [None if one is None else each(one) for one in value]
    return None


def _as_dict(pairs: list[tuple[Any, Any]]) -> Any:
    """A map as a dict; pairs with a key twice stay pairs, which no map type takes."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else pairs


def whole_numbers(column: Column) -> pa.Array | None:
    """A column of ints of 64 bits without nulls as int64; None when it is something else."""
    if isinstance(column, list) or not pa.types.is_integer(column.type) or column.null_count:
        return None
    if column.type == pa.uint64() and len(column) and pc.max(column).as_py() >= 2**63:
        return None
    return column.cast(pa.int64())
