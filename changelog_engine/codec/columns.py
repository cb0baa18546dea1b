"""JSON text of whole columns of scalars by Arrow, without a Python object for each text."""

from __future__ import annotations

import array
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.codec.arrow_columns import as_array, of_type, without_dictionary
from changelog_engine.codec.forms import INT64_HIGH, INT64_LOW, NotExact
from changelog_engine.types.java_text import double_text
from changelog_engine.types.row_loops import LOOPS, classes_of

CHUNK_ROWS = 65_536
_SAMPLE = 1024
SAMPLED = 4 * _SAMPLE  # of fewer values, none is taken
TEXTS_REPEAT = 3  # times that a text comes to be worth a dictionary
INTS_REPEAT = 128  # of an int: digits are made and written about as soon as a dictionary
_ARRAYS = frozenset((tuple, list))


def int_texts(values: list[Any], empty: bool, low: int = INT64_LOW, high: int = INT64_HIGH) -> pa.Array:
    """Texts of ints (None: null), as a dictionary when a sample says that they repeat.

    Args:
        values: ints and None only.
        empty: whether there are any None.

    Returns:
        An array of string, or a dictionary array of string.

    Raises:
        NotExact: a value out of bounds.
    """
    repeated = repeats([values], INTS_REPEAT)
    if high == INT64_HIGH and not (empty or repeated):
        texts = _texts_in_c(None if LOOPS is None else LOOPS.int_texts(values))
        if texts is not None:
            return texts
    try:
        numbers = pa.array(values, pa.int64()) if empty else int_array(values)
    except (OverflowError, pa.ArrowInvalid):
        raise NotExact from None
    if high < INT64_HIGH and len(numbers):
        bounds = pc.min_max(numbers).as_py()
        if bounds["min"] is not None and (bounds["min"] < low or bounds["max"] > high):
            raise NotExact
    if repeated:
        encoded = numbers.dictionary_encode()
        texts = encoded.dictionary.cast(pa.string())
        if numbers.null_count == 0:
            return pa.DictionaryArray.from_arrays(encoded.indices, texts)
        return _null_text(pa.DictionaryArray.from_arrays(encoded.indices, texts).dictionary_decode())
    return _null_text(numbers.cast(pa.string()))


def _texts_in_c(found: tuple[bytearray, bytearray] | None) -> pa.Array | None:
    """An array of what C made of values, if it did."""
    if found is None:
        return None
    offsets, data = found
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) // 4 - 1, buffers)


def digits(values: list[int]) -> pa.Array:
    """The digits of ints; raises as int_array."""
    texts = _texts_in_c(None if LOOPS is None else LOOPS.int_texts(values))
    return int_array(values).cast(pa.string()) if texts is None else texts


def int_array(values: list[Any]) -> pa.Array:
    """An array of int64, sooner made than Arrow makes it.

    Args:
        values: ints only.

    Raises:
        OverflowError: an int has more than 64 bits.
        TypeError: a value is not an int.
    """
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(int_words(values))])


def int_words(values: list[Any]) -> Any:
    """Ints as words of 64 bits, in a buffer that can be written to; raises as int_array."""
    words = None if LOOPS is None else LOOPS.words_of(values)
    return words[1] if isinstance(words, tuple) and words[0] is int else array.array("q", values)


def repeats(lists: list[list[Any]], times: int, kind: type | None = None) -> bool:
    """A guess from a sample: each value in the lists occurs this many times or more, on average.

    Args:
        lists: of values that can be hashed; of few values in all, the answer is no.
        times: at least 2.
        kind: where given, the answer is no if the sample is not of this class alone; then others need no hash.
    """
    total = sum(map(len, lists))
    if total < SAMPLED:
        return False
    step = total // _SAMPLE
    sample = [value for some in lists for value in some[::step]]
    if kind is not None and classes_of(sample) != {kind}:
        return False
    taken, distinct = len(sample), len(set(sample))
    again = taken - distinct
    if 2 * again > taken:
        return True
    if 4 * again * total < times * taken**2:  # half of what is expected where each occurs exactly that often
        return False
    # How many differ that the sample missed, by those that it has once and twice (Chao's estimator).
    found = Counter(Counter(sample).values())
    missed = found[1] * (found[1] - 1) / (2 * (found[2] + 1))
    return times * (distinct + missed) <= total


def _null_text(texts: pa.Array) -> pa.Array:
    return texts.fill_null("null") if texts.null_count else texts


def one_array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """An array of texts or bytes, which Arrow would cut into several where they are more than one holds.

    Raises:
        ArrowCapacityError: they are more than 2 GiB.
    """
    found = pa.array(values, type_)
    if isinstance(found, pa.ChunkedArray):
        raise pa.ArrowCapacityError(f"{found.nbytes} bytes are more than one array holds")
    return found


def float_texts(values: list[Any], names: bool) -> pa.Array:
    """Texts of floats and None.

    Args:
        values: floats and None only.
        names: whether NaN and infinities become JSON strings.

    Raises:
        NotExact: a value is not finite, and names is False.
    """
    pieces = []
    for start in range(0, len(values), CHUNK_ROWS):
        chunk = values[start : start + CHUNK_ROWS]
        line = orjson.dumps(chunk)[1:-1].decode()
        pieces.append(pc.split_pattern(pa.array([line]), ",").values)
    texts = _joined(pieces)
    # The JSON writer gives null for what is not finite, as it does for None.
    nulls = pc.equal(texts, "null")
    if not pc.any(nulls).as_py():
        return texts
    replaced = [values[index] for index in np.flatnonzero(nulls.to_numpy(zero_copy_only=False)).tolist()]
    if not names and any(value is not None for value in replaced):
        raise NotExact
    found = ["null" if value is None else f'"{double_text(value)}"' for value in replaced]
    return pc.replace_with_mask(texts, nulls, pa.array(found, pa.string()))


def plain_texts(values: list[Any]) -> pa.Array:
    """Texts of strings, bools and None.

    Raises:
        NotExact: text that UTF-8 cannot carry.
    """
    texts = _texts_in_c(None if LOOPS is None else LOOPS.json_texts(values, None))
    if texts is not None:
        return texts
    try:
        return one_array([orjson.dumps(value) for value in values], pa.string())
    except TypeError:
        raise NotExact from None


def array_texts(values: list[Any], with_null: bool = True) -> pa.Array | None:
    """Texts of tuples, lists or dicts that JSON's own writer takes, written in one call.

    Args:
        values: any objects; not more than a chunk.
        with_null: whether one may have a null, which JSON's writer gives for a float that is not finite, too.

    Returns:
        An array of string; None when the values are others, or when their closing bracket is inside one that was not written
        in C: each has to be written alone.

    Raises:
        TypeError: the JSON writer refuses a value.
    """
    kinds = classes_of(values)
    if kinds and kinds <= _ARRAYS:
        texts = _texts_in_c(None if LOOPS is None else LOOPS.json_texts(values, None))
        if texts is not None:
            return texts
    if kinds == {dict}:
        bracket = b"}"
    elif kinds and kinds <= _ARRAYS:
        bracket = b"]"
    else:
        return None
    text = orjson.dumps(values)
    if not with_null and b"null" in text:
        return None
    line = memoryview(text)[1:-1]
    raw = np.frombuffer(line, np.uint8)
    ends = np.flatnonzero(raw == bracket[0])
    if len(ends) != len(values) or len(line) >= 2**31:
        return None
    wanted = np.ones(len(raw), np.bool_)
    wanted[ends[:-1] + 1] = False  # the commas between
    offsets = np.zeros(len(values) + 1, np.int32)
    offsets[1:] = ends + 1 - np.arange(len(values))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw[wanted])]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def row_texts(rows: list[Any], names: list[str]) -> pa.Array | None:
    """Texts of rows as state keeps them, of these names; None where JSON's own writer is needed."""
    return _texts_in_c(None if LOOPS is None else LOOPS.json_texts(rows, names))


def same_objects(values: list[Any]) -> tuple[pa.Array, list[int]]:
    """Which values are the same object.

    Args:
        values: any objects, each held by the list or by others meanwhile.

    Returns:
        Of each value the number of its object, by first appearance; and where each object appears first.
    """
    found = None if LOOPS is None else LOOPS.same_objects(values)
    if found is not None:
        words, places = found
        return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(words)]), places
    ids = np.fromiter(map(id, values), np.uint64, len(values))  # drives our own code
    encoded = pa.array(ids).dictionary_encode()
    numbers = encoded.indices.to_numpy()
    seen = np.maximum.accumulate(numbers)
    firsts = np.flatnonzero(np.diff(seen, prepend=np.int32(-1)))
    return encoded.indices, firsts.tolist()


def constant_texts(values: list[str]) -> pa.DictionaryArray:
    """Texts that are mostly the same few objects, as a dictionary in the order of their first appearance."""
    numbers, firsts = same_objects(values)
    texts = [values[index] for index in firsts]
    if len(set(texts)) == len(texts):  # else two objects have the same text
        return pa.DictionaryArray.from_arrays(numbers, pa.array(texts, pa.string()))
    return pa.array(values, pa.string()).dictionary_encode()


def object_texts(names: list[str], fields: list[pa.Array]) -> pa.Array | None:
    """Texts of JSON objects out of those of their fields.

    Args:
        names: of the fields, as JSON; at least one.
        fields: texts, one array a field; not more than a chunk of rows.

    Returns:
        An array of string; None when it would be longer than one can be.
    """
    fields = [as_strings(texts) for texts in fields]
    rows = len(fields[0])
    around = rows * (2 + sum([len(name) * 4 + 2 for name in names]))
    if sum([len(_characters(field)) for field in fields]) + around >= 2**31:
        return None
    pieces: list[Any] = []
    for name, texts in zip(names, fields, strict=True):
        pieces += [f"{',' if pieces else '{'}{name}:", texts]
    return pc.binary_join_element_wise(*pieces, "}", "")


def _characters(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """The UTF-8 of all texts, one after the other, without a copy."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return np.empty(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)
    return np.frombuffer(data, np.uint8)[bounds[texts.offset] : bounds[texts.offset + len(texts)]]


def _joined(pieces: list[pa.Array]) -> pa.Array:
    if len(pieces) == 1:
        return pieces[0]
    return pa.concat_arrays(pieces) if pieces else pa.array([], pa.string())


def as_strings(texts: Any) -> pa.Array:
    """A plain string array from a list, a chunked, large or dictionary-encoded array."""
    if isinstance(texts, list):
        return one_array(texts, pa.string())
    return of_type(without_dictionary(as_array(texts)), pa.string())


def ints_of(texts: pa.Array) -> list[int] | None:
    """The ints of texts that are all decimal ints of 64 bits, else None."""
    raw = _characters(texts)
    # Arrow makes an error message for every text that is not a number: look first.
    if texts.null_count or (((raw < 0x30) | (raw > 0x39)) & (raw != 0x2D)).any():
        return None
    try:
        numbers: list[int] = texts.cast(pa.int64()).to_numpy().tolist()
    except pa.ArrowInvalid:
        return None
    return numbers


def parsed(texts: pa.Array) -> list[Any]:
    """The JSON values of a chunk of texts without nulls, in one call of the JSON reader."""
    if not len(texts):
        return []
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    line = pc.binary_join(whole, ",")[0].as_buffer()
    values: list[Any] = orjson.loads(b"[" + memoryview(line) + b"]")
    return values
