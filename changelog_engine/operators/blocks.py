"""Blocks: how elements move between tasks. One byte string per sender, receiver and epoch.

A block holds columns. Columns of plain ints or floats travel as machine words, which are hashed and split by receiver five
times as fast as lists (docs/decisions/0002); strings as one string, or as numbers where they repeat; rows of the same names
as a column for each field; all others are pickled. Elements that are their own keys travel once. The watermark travels in
band, after the elements.

The receiver makes numbers and rows out of columns a piece at a time (``elements``): those of a whole epoch would have left
the processor's caches before they are used.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from changelog_engine.codec import by_value
from changelog_engine.codec.columns import repeats
from changelog_engine.errors import NotSerializableError
from changelog_engine.operators.failures import is_ctrl_c, user_traceback
from changelog_engine.operators.messages import EpochReport
from changelog_engine.types.copies import IMMUTABLE
from changelog_engine.types.row import Row, columns_of_rows, rows_of_columns
from changelog_engine.types.row_loops import LOOPS, classes_of

Column = Any  # list of objects, numpy array of int64 or float64, or RowColumns
_ROWS, _STRINGS, _CODED = "rows", "strings", "coded"  # no characters of a numpy type
_BETWEEN = "\0"
_SAMPLE = 1024
_DIFFERENT = 0.9
_FEW = 32  # rows, whose columns take longer to make than they save
_WHOLE = slice(None)
_WORDS = {int: np.int64, float: np.float64}
_TIMES = 4  # that a string comes to travel as a number


class RowColumns:
    """Rows of the same names, as a column for each field.

    Args:
        names: of the fields, at least one.
        columns: one a field, all of the same length.
    """

    __slots__ = ("columns", "names")

    def __init__(self, names: list[str], columns: list[Column]) -> None:
        self.names = names
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def rows(self, piece: slice) -> list[Row]:
        """New rows."""
        return rows_of_columns(self.names, [elements(column, piece) for column in self.columns])


class Block(NamedTuple):
    """Elements from one subtask to another.

    Args:
        channel: the sender's subtask.
        keys: identities of the keys of a hash exchange, as the codec of their declared type gives them; else None.
        times: timestamps in ms, or None.
        values: the elements; the column of the keys itself where each is its own key.
        watermark: the sender's watermark after these elements.
        idle: the sender no longer holds the watermark back.
    """

    edge: int
    channel: int
    keys: Column | None
    times: Column | None
    values: Column
    watermark: int
    idle: bool


def encode_block(block: Block, way: str = "") -> bytes:
    """A block as bytes; for the way see Exchange."""
    keys, times, values = block.keys, block.times, block.values
    packed = _packed(keys, {})
    # What is there twice is pickled once, and is one object again when it is read.
    columns = packed, _packed(times, {}), packed if values is keys else _packed(values, {id(keys): packed})
    return _dump(("block", block.edge, block.channel, *columns, *block[5:]), way)


def encode_report(report: EpochReport) -> bytes:
    """A report on its way to the driver, as bytes."""
    return _dump(("report", report))


def _dump(fields: tuple[Any, ...], way: str = "") -> bytes:
    try:
        return pickle.dumps(fields, 5)
    except Exception:  # classes of the user's main module are not in the worker's: they travel by value
        try:
            return by_value.dumps(fields, 5)
        except BaseException as error:  # whatever a __reduce__ of the user's raises
            if is_ctrl_c(error):
                raise
            raise NotSerializableError(
                f"an element{way} cannot be moved to another task: {type(error).__name__}: {error}. Elements must be "
                "picklable: numbers, text, tuples, Rows, or objects of such"
            ) from error


def decode(data: bytes, to: str = "") -> Block | EpochReport:
    """Bytes back to the block or report; ``elements`` makes lists of the block's columns.

    Args:
        to: for messages: which operators the elements are for.

    Raises:
        NotSerializableError: an object was pickled, and cannot be made again.
    """
    try:
        kind, *fields = pickle.loads(data)
    except (MemoryError, pickle.UnpicklingError):
        raise
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise NotSerializableError(
            f"an element{to} was pickled and cannot be read where it has arrived: {type(error).__name__}: {error}. Look at "
            f"its class's __reduce__, __getstate__ or __setstate__\n{user_traceback(error)}"
        ) from error
    if kind == "report":
        report: EpochReport = fields[0]
        return report
    edge, channel, packed, times, values, watermark, idle = fields
    keys = _unpack(packed, {})
    values = keys if values is packed else _unpack(values, {id(packed): keys})
    return Block(edge, channel, keys, _unpack(times, {}), values, watermark, idle)


def _packed(column: Column, known: dict[int, Any]) -> Any:
    try:
        return _pack(column, known)
    except RecursionError:  # a row that holds itself has no end of columns; pickle knows it again
        return column


def _pack(column: Column, known: dict[int, Any]) -> Any:
    """A column as it is pickled; ``known`` has what stands for columns that were packed before, by their ids."""
    if isinstance(column, np.ndarray):
        return column.dtype.char, column.tobytes()
    if isinstance(column, RowColumns):
        return (
            _ROWS,
            column.names,
            [known.get(id(values)) or _pack(values, known) for values in column.columns],
        )
    rows = columns_of_rows(column)
    if rows is not None and rows[0]:  # columns of rows without fields would not tell how many they are
        names, columns = rows
        return _ROWS, names, [_pack(column_of(values), known) for values in columns]
    coded = _coded(column)
    if coded is not None:
        return coded
    if type(column) is list and classes_of(column) == {str}:  # no subclasses, which would come out as str
        text = _BETWEEN.join(column)
        if text.count(_BETWEEN) == len(column) - 1:
            return _STRINGS, text
    return column


def _unpack(column: Any, known: dict[int, Column]) -> Column:
    """A column of what ``_pack`` gave; ``known`` has columns by the ids of what stands for them."""
    if type(column) is tuple:
        if column[0] == _ROWS:
            columns = [
                known[id(values)] if id(values) in known else _unpack(values, known) for values in column[2]
            ]
            return RowColumns(column[1], columns)
        if column[0] == _CODED:
            return _decoded(*column[1:])
        if column[0] == _STRINGS:
            return _shared(column[1].split(_BETWEEN))
        return np.frombuffer(column[1], column[0])
    return column


def _coded(column: Column) -> tuple[Any, ...] | None:
    """Strings that repeat as the different ones, and the number of each; None of others.

    The reader then makes each string once, and need not look for equal ones among all of them.
    """
    if LOOPS is None or type(column) is not list or not repeats([column], _TIMES, str):
        return None
    found = LOOPS.different_strings(column, len(column) // 2)
    if found is None:
        return None
    different, words = found
    numbers = np.frombuffer(words, np.int32)
    numbers = numbers.astype(np.min_scalar_type(len(different)))
    return _CODED, different, numbers.dtype.char, numbers.tobytes()


def _decoded(different: list[str], kind: str, numbers: bytes) -> list[str]:
    if LOOPS is not None:
        found: list[str] = LOOPS.objects_at(different, numbers, np.dtype(kind).itemsize)
        return found
    return list(map(different.__getitem__, np.frombuffer(numbers, kind).tolist()))  # drives our own code


def elements(column: Column, piece: slice = _WHOLE) -> list[Any]:
    """The objects of a decoded column, or of a piece of it; those of numbers and of rows are new."""
    if isinstance(column, np.ndarray):
        found: list[Any] = column[piece].tolist()
        return found
    if isinstance(column, RowColumns):
        return column.rows(piece)
    return column if piece is _WHOLE else column[piece]  # type: ignore[no-any-return]


def _shared(strings: list[str]) -> list[str]:
    """Equal strings as one object where a sample has equal ones: state that keeps them would be several times as large."""
    sample = strings[:: len(strings) // _SAMPLE or 1]
    if len(set(sample)) > _DIFFERENT * len(sample):
        return strings
    known: dict[str, str] = {}
    return list(map(known.setdefault, strings, strings))  # drives our own code


def column_of(values: Sequence[Any], receivers: int = 1) -> Column:
    """The fastest column for these values: an array when all are plain 64-bit ints or plain floats, else a list.

    Rows of the same names become columns here, while the processor still has them at hand, if nothing in them can be
    changed and each receiver gets more than a few. A source may give other sequences, such as tuples, which a block takes
    for columns of its own.

    Args:
        values: elements, or their keys.
    """
    if type(values) is range:
        return np.arange(values.start, values.stop, values.step, dtype=np.int64)
    column = _column_in_c(values)
    if column is not None:
        return column
    kinds = classes_of(values)
    if kinds == {Row} and len(values) >= _FEW * receivers:
        rows = _row_columns(list(values))
        if rows is not None:
            return rows
    return _plain_column(values, kinds)


def _column_in_c(values: Sequence[Any]) -> Column | None:
    """The column of values that nobody can change; None of some of those, and of all others."""
    if LOOPS is None:
        return None
    words = LOOPS.words_of(values)
    if isinstance(words, tuple):
        return np.frombuffer(words[1], _WORDS[words[0]])
    return values if words else None


def _plain_column(values: Sequence[Any], kinds: set[type]) -> Column:
    """An array or a list, of values of these classes."""
    if kinds == {int}:
        try:
            return np.fromiter(values, np.int64, count=len(values))
        except OverflowError:
            pass
    elif kinds == {float}:
        return np.fromiter(values, np.float64, count=len(values))
    return values if type(values) is list else list(values)


def _row_columns(rows: list[Any]) -> RowColumns | None:
    """Rows as columns; None where an object in them could be another's too, which pickle would know again."""
    found = columns_of_rows(rows)
    if found is None or not found[0]:
        return None
    columns = []
    for values in found[1]:
        column = _column_in_c(values)
        if column is None:
            kinds = classes_of(values)
            if not IMMUTABLE.issuperset(kinds):
                return None
            column = _plain_column(values, kinds)
        columns.append(column)
    return RowColumns(found[0], columns)


def field_of(keys: Column, values: Column) -> int | None:
    """Which field of rows their keys are, if they are columns and the keys are the objects, or the words, in one of them."""
    if not isinstance(values, RowColumns):
        return None
    for field, column in enumerate(values.columns):
        if type(column) is not type(keys) or len(column) != len(keys):
            continue
        if isinstance(column, np.ndarray):
            if column.dtype == keys.dtype and column[0] == keys[0] and np.array_equal(column, keys):
                return field
        elif column[0] is keys[0] and all(map(is_, column, keys)):  # drives our own code
            return field
    return None


def select(column: Column, places: Any) -> Column:
    """The part of a column that is at an array of places."""
    if isinstance(column, np.ndarray):
        return column[places]
    take = _taker(places)
    if not isinstance(column, RowColumns):
        return take(column)
    columns = [take(each) if type(each) is list else select(each, places) for each in column.columns]
    return RowColumns(column.names, columns)


def _taker(places: Any) -> Callable[[list[Any]], list[Any]]:
    """Takes the same places, an array of them, out of each list."""
    if LOOPS is not None:
        at = LOOPS.objects_at
        words = places.astype(np.uint32)
        return lambda values: at(values, words, 4)
    return lambda values: [values[place] for place in places.tolist()]


def join(pieces: list[Column]) -> Column:
    """Columns one after another; a list where they are not of one kind."""
    if len(pieces) == 1:
        return pieces[0]
    first = pieces[0]
    if isinstance(first, np.ndarray) and all(
        isinstance(piece, np.ndarray) and piece.dtype == first.dtype for piece in pieces
    ):
        return np.concatenate(pieces)
    rows = _as_row_columns(pieces)
    if rows is not None:
        fields = zip(*[piece.columns for piece in rows], strict=True)
        return RowColumns(rows[0].names, [join(list(field)) for field in fields])
    return _as_list(pieces)


def _as_row_columns(pieces: list[Column]) -> list[RowColumns] | None:
    """Pieces of which some are columns of rows, as such columns; None where that cannot be, or none is."""
    if not any(_are_columns(piece) for piece in pieces):
        return None
    found: list[RowColumns] = []
    for are_columns, run in groupby(pieces, _are_columns):  # drives our own code
        if are_columns:
            found.extend(run)
            continue
        rows = _row_columns(_as_list(run))  # sent a few at a time
        if rows is None:
            return None
        found.append(rows)
    return found if all(piece.names == found[0].names for piece in found) else None


def _are_columns(piece: Column) -> bool:
    return isinstance(piece, RowColumns)


def _as_list(pieces: Iterable[Column]) -> list[Any]:
    joined: list[Any] = []
    for piece in pieces:
        joined.extend(elements(piece))
    return joined
