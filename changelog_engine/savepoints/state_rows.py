"""Rows of a user's table as rows of state: checked, encoded, with their key groups; and whether any is there twice.

Invariants:
    * What comes out is what a job whose state this is would have written: the same texts, the same key groups.
    * A value that does not fit is an error that names table, row and column; a null key, and a key that is there twice
      where state holds one, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.rows import Columns
from changelog_engine.codec.arrow_columns import of_type, without_dictionary
from changelog_engine.codec.identities import KeyCodec
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.errors import ChangelogEngineError, TypeMismatchError
from changelog_engine.graph.key_groups import key_groups, key_groups_of_ints
from changelog_engine.graph.nodes import StateKind
from changelog_engine.savepoints.given_tables import Batch, Column, python_values, whole_numbers
from changelog_engine.types import IntegerTypeInfo, TypeInformation, Types
from changelog_engine.types.typeinfo import shown

_WORDS = {"map_key": "map key", "value": "timestamp"}
KEY, MAP_KEY, VALUE, POSITION, TIMESTAMP, DELETE = (
    "key",
    "map_key",
    "value",
    "position",
    "timestamp",
    "delete",
)
SCHEMA_OF_ROWS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("key", pa.large_string()),
        pa.field("map_key", pa.large_string()),
        pa.field("value", pa.large_string()),
        pa.field("payload", pa.large_binary()),
        pa.field("position", pa.int64()),
    ]
)


@dataclass(frozen=True)
class StateShape:
    """What the rows of one table are to become.

    Args:
        kind: of the state; None for timers.
        key_type: of the keys; None for undeclared.
        value_type: the user's type of values, elements or accumulators; None for timers.
        accessed_ms: where the state has a time to live, when all entries were last accessed, epoch milliseconds.
    """

    where: str
    kind: StateKind | None
    key_type: TypeInformation | None
    value_type: TypeInformation | None
    map_key_type: TypeInformation | None
    max_parallelism: int
    accessed_ms: int | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns that the table must have."""
        if self.kind is None:
            return KEY, TIMESTAMP
        return (KEY, MAP_KEY, VALUE) if self.kind is StateKind.MAP else (KEY, VALUE)

    @property
    def optional(self) -> tuple[str, ...]:
        """Those that it may have."""
        return (POSITION,) if self.kind is StateKind.LIST else ()

    @property
    def distinct(self) -> tuple[str, ...]:
        """The columns that no two rows may have alike; none where they may."""
        if self.kind is StateKind.LIST:
            return ()
        if self.kind is None:
            return KEY, VALUE
        return (KEY, MAP_KEY) if self.kind is StateKind.MAP else (KEY,)


def encoded_rows(shape: StateShape, batch: Batch) -> pa.Table:
    """A batch's rows as rows of state, in their order; those of SCHEMA_OF_ROWS's columns that have something.

    Raises:
        TypeMismatchError: a key, map key or value is null, or is not of its type.
    """
    return _Rows(shape, batch).encoded()


def typed_rows(shape: StateShape, batch: Batch) -> Iterator[tuple[int, Any, Any, Any, bool]]:
    """A batch's rows as Python objects: number, key, map key (None for what is not a map), value, whether it is to go.

    A column ``delete`` says which go; their values mean nothing.

    Raises:
        TypeMismatchError: a key, map key or value is null, or is not of its type.
    """
    return _Rows(shape, batch).typed()


def refused_twice(where: str, number: int, key: Any, map_key: Any) -> TypeMismatchError:
    """The error for a row of an entry that another row is for."""
    more = "" if map_key is None else f" and the map key {shown(map_key)}"
    return TypeMismatchError(
        f"{where}, row {number} (counted from 0): an earlier row is for the key {shown(key)}{more}, too: keep one of them"
    )


class _Rows:
    """One batch on its way."""

    def __init__(self, shape: StateShape, batch: Batch) -> None:
        self.shape = shape
        self.batch = batch

    def encoded(self) -> pa.Table:
        shape, columns = self.shape, self.batch.columns
        keys, groups = self._keys(KEY, shape.key_type)
        found: Columns = {"key": keys, "key_group": pa.array(groups, pa.int32())}
        if shape.kind is None:
            found["value"] = self._timestamps(columns[TIMESTAMP])
        else:
            found["value"], found["payload"] = self._values(columns[VALUE])
        if shape.kind is StateKind.MAP:
            found["map_key"], _ = self._keys(MAP_KEY, shape.map_key_type)
        if POSITION in columns:
            found["position"] = self._whole(columns[POSITION], POSITION)
        fields = [field for field in SCHEMA_OF_ROWS if found.get(field.name) is not None]
        return pa.table(
            [of_type(found[field.name], field.type) for field in fields], schema=pa.schema(fields)
        )

    def typed(self) -> Iterator[tuple[int, Any, Any, Any, bool]]:
        shape, given, rows = self.shape, self.batch.columns, self.batch.rows
        gone = [False] * rows
        if DELETE in given:
            boolean = Types.BOOLEAN()
            gone = self._checked(self._python(given[DELETE], boolean, DELETE), boolean, DELETE, nulls=False)
        declared = Types.PICKLED_BYTE_ARRAY() if shape.key_type is None else shape.key_type
        keys = self._checked(self._python(given[KEY], declared, KEY), declared, KEY, nulls=False)
        map_keys: list[Any] = [None] * rows
        if shape.kind is StateKind.MAP:
            map_type = shape.map_key_type or Types.PICKLED_BYTE_ARRAY()
            map_keys = self._checked(
                self._python(given[MAP_KEY], map_type, MAP_KEY), map_type, MAP_KEY, nulls=False
            )
        value_type = shape.value_type or Types.PICKLED_BYTE_ARRAY()
        values = self._checked(self._python(given[VALUE], value_type, VALUE), value_type, VALUE, nulls=True)
        for at, row in enumerate(zip(keys, map_keys, values, gone, strict=True)):
            if row[2] is None and not row[3] and shape.kind is not StateKind.MAP:
                raise self._wrong(VALUE, at, "is null: give a value, or say true in a column 'delete'")
            yield (self.batch.first or 0) + at, *row

    def _keys(self, column: str, key_type: TypeInformation | None) -> tuple[pa.Array, Any]:
        """Texts and key groups."""
        given = self.batch.columns[column]
        numbers = whole_numbers(given) if _takes_all(key_type, given) else None
        if numbers is not None:
            return numbers.cast(pa.string()), key_groups_of_ints(
                numbers.to_numpy(), self.shape.max_parallelism
            )
        declared = Types.PICKLED_BYTE_ARRAY() if key_type is None else key_type
        codec = key_codec_for(key_type)
        keys = self._checked(self._python(given, declared, column), declared, column, nulls=False)
        identities = self._each(lambda some: codec.identities(some, "the key"), keys, column)
        texts = without_dictionary(codec.texts(identities))
        return texts, _groups(identities, texts, self.shape.max_parallelism)

    def _values(self, column: Column) -> tuple[pa.Array, pa.Array | None]:
        shape, value_type = self.shape, self.shape.value_type
        assert value_type is not None
        numbers = whole_numbers(column) if _takes_all(value_type, column) else None
        if numbers is not None and shape.accessed_ms is None:
            return numbers.cast(pa.string()), None
        nulls = shape.kind is StateKind.MAP
        values = self._checked(self._python(column, value_type, VALUE), value_type, VALUE, nulls)
        stored = value_type
        if shape.accessed_ms is not None:
            since, stored = shape.accessed_ms, Types.TUPLE([Types.LONG(), value_type])
            values = [(since, value) for value in values]
        codec = codec_for(stored)
        texts, payloads = self._each(codec.encode_many, values, VALUE)
        return without_dictionary(texts), payloads

    def _timestamps(self, column: Column) -> pa.Array:
        if not isinstance(column, list) and pa.types.is_timestamp(column.type):
            if column.type.tz is None:
                raise self._wrong(
                    TIMESTAMP,
                    None,
                    "the times have no zone: cast them to a timestamp with the zone UTC, or give epoch milliseconds",
                )
            try:
                column = column.cast(pa.timestamp("ms", tz=column.type.tz)).cast(pa.int64())
            except pa.ArrowInvalid as error:
                raise self._wrong(TIMESTAMP, None, f"finer than a millisecond ({error})") from None
        return self._whole(column, TIMESTAMP).cast(pa.string())

    def _whole(self, column: Column, name: str) -> pa.Array:
        numbers = whole_numbers(column)
        if numbers is None:
            long = Types.LONG()
            numbers = pa.array(self._checked(self._python(column, long, name), long, name, False), pa.int64())
        return numbers

    def _python(self, column: Column, type_info: TypeInformation, name: str) -> list[Any]:
        try:
            return python_values(column, type_info)
        except TypeMismatchError as error:
            raise self._wrong(name, None, str(error)) from None

    def _checked(self, values: list[Any], type_info: TypeInformation, column: str, nulls: bool) -> list[Any]:
        """The values as their type wants them."""
        if type_info.fits_all(values):
            return values
        found: list[Any] = []
        for at, value in enumerate(values):
            if value is None and not nulls:
                raise self._wrong(
                    column, at, "is null, which state does not hold: leave the row out, or fill it"
                )
            try:
                found.append(type_info.check(value, "the value"))
            except TypeMismatchError as error:
                raise self._wrong(column, at, str(error)) from None
        return found

    def _each(self, encode: Callable[[list[Any]], Any], values: list[Any], column: str) -> Any:
        """What all values become; of an error, which one it was."""
        try:
            return encode(values)
        except ChangelogEngineError as whole:
            for at, value in enumerate(values):
                try:
                    encode([value])
                except ChangelogEngineError as error:
                    raise self._wrong(column, at, str(error), type(error)) from None
            raise whole

    def _wrong(
        self, column: str, at: int | None, why: str, kind: type[ChangelogEngineError] = TypeMismatchError
    ) -> ChangelogEngineError:
        where = self.shape.where
        if at is None:
            return kind(f"{where}, column {column!r}: {why}")
        if self.batch.first is not None:
            return kind(f"{where}, row {self.batch.first + at} (counted from 0), column {column!r}: {why}")
        keys = self.batch.columns[KEY]
        key = keys[at] if isinstance(keys, list) else keys[at].as_py()
        return kind(f"{where}, the row with the key {shown(key)}, column {column!r}: {why}")


def _takes_all(type_info: TypeInformation | None, column: Column) -> bool:
    """Whether a column's type says that all of its values are whole numbers within a declared type's bounds."""
    if not isinstance(type_info, IntegerTypeInfo) or isinstance(column, list):
        return False
    if not pa.types.is_integer(column.type) or not len(column):
        return False
    if type_info.low is None or type_info.high is None:
        return True
    bounds = pc.min_max(column).as_py()
    return bounds["min"] is None or bool(type_info.low <= bounds["min"] and bounds["max"] <= type_info.high)


def _groups(identities: list[Any], texts: pa.Array, max_parallelism: int) -> npt.NDArray[np.int32]:
    """As key_groups, without remembering the checksum of each key."""
    if set(map(type, identities)) <= {str, bytes}:
        sums = map(zlib.crc32, texts.cast(pa.binary()).to_pylist())  # drives our own code
        found = np.fromiter(sums, np.uint32, len(identities))
        return (found % np.uint32(max_parallelism)).astype(np.int32)
    return key_groups(identities, max_parallelism)


def refuse_repeated(shape: StateShape, rows: pa.Table, numbers: npt.NDArray[np.int64] | None) -> None:
    """Refuse rows of which two are for the same entry.

    Args:
        rows: all that have these key groups.
        numbers: of each row its number in the user's table; None where rows have none.

    Raises:
        TypeMismatchError: names the key and both rows.
    """
    names = list(shape.distinct)
    if POSITION in rows.column_names:
        names = [KEY, POSITION]
    if not names or rows.num_rows < 2:
        return
    first = _repeated_at(rows, names)
    if first is None:
        return
    again = rows.slice(first[1], 1)
    key = _key_of(key_codec_for(shape.key_type), again[KEY][0].as_py())
    which = "two rows are for"
    if numbers is not None:
        pair = " and ".join(str(number) for number in sorted(numbers[list(first)].tolist()))
        which = f"rows {pair} (counted from 0) are both for"
    more = "".join(f" and the {_WORDS.get(name, name)} {again[name][0].as_py()}" for name in names[1:])
    raise TypeMismatchError(
        f"{shape.where}: {which} the key {shown(key)}{more}, and state holds one such entry: keep one of them"
    )


def _repeated_at(rows: pa.Table, names: Sequence[str]) -> tuple[int, int] | None:
    """The places of a row and of the first that repeats one."""
    codes: npt.NDArray[np.int64] | None = None
    for name in names:
        encoded = pc.dictionary_encode(rows[name].combine_chunks())
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        distinct = len(encoded.dictionary)
        if name == names[0] and len(names) == 1 and distinct == rows.num_rows:
            return None
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = own if codes is None else codes * distinct + own
    assert codes is not None
    order = np.argsort(codes, kind="stable")
    same = np.flatnonzero(codes[order[1:]] == codes[order[:-1]])
    if not len(same):
        return None
    at = min(same.tolist(), key=lambda place: int(order[place + 1]))
    return int(order[at]), int(order[at + 1])


def _key_of(codec: KeyCodec, text: str) -> Any:
    return codec.key_of(codec.from_texts([text])[0])


def in_order(shape: StateShape, rows: pa.Table) -> npt.NDArray[np.int64]:
    """The places of the rows by key group, those of a key in their order; timers stay as they are, as registered."""
    if shape.kind is None:
        return np.arange(rows.num_rows)
    # numpy sorts numbers of 16 bits by their digits
    groups = rows["key_group"].to_numpy().astype(np.uint16)
    if POSITION not in rows.column_names:
        return np.argsort(groups, kind="stable")
    order = np.argsort(rows[POSITION].to_numpy(), kind="stable")
    return order[np.argsort(groups[order], kind="stable")]
