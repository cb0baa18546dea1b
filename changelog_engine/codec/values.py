"""The codec: values of a declared type to the log's columns ``value`` and ``payload``, and back.

Invariants:
    * ``decode_many(*encode_many(values)) == values``, with the same classes and everything inside them, for
      any value that can be pickled.
    * The text is JSON that people can query. The payload is there only where the text alone is not exact.
    * The text ``null`` is the value None; a null text is CLEARED: no value at all.
    * What ``encode`` gave does not change when the value does.
"""

from __future__ import annotations

import functools
import operator
from contextlib import suppress
from itertools import compress, repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.codec import columns
from changelog_engine.codec.arrow_columns import as_array, without_dictionary
from changelog_engine.codec.composites import RowForm, TupleForm, dumps, form_of
from changelog_engine.codec.forms import (
    AnyForm,
    BooleanForm,
    FloatForm,
    IntegerForm,
    JsonForm,
    NotExact,
    StringForm,
    is_plain,
)
from changelog_engine.codec.payload import dump_payload, load_payload, readable_text
from changelog_engine.types import TypeInformation, Types
from changelog_engine.types.row import dicts_of_rows
from changelog_engine.types.row_loops import classes_of

_NONE = type(None)


class _Cleared:
    """The class of CLEARED."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "CLEARED"

    def __repr__(self) -> str:
        return "CLEARED"


CLEARED: Final = _Cleared()


class Encoded(NamedTuple):
    """A value as the log keeps it."""

    text: str | None  # JSON; None only for CLEARED
    payload: bytes | None  # the pickled value where the text is not exact


_WORTH_A_LOOK = 1024
_OBJECTS = 4_096  # made at a time: those of more leave the processor's caches before they are written
# What the JSON writer and the forms raise for values that need a closer look.
_HARD = (NotExact, TypeError, ValueError, RecursionError)


class Codec:
    """Values of one type to text and payload, one by one or in bulk. Made by codec_for; keeps no state."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type = type_info
        self._form = form_of(type_info)
        self._any = isinstance(self._form, AnyForm)
        # What a type without an exact class admitted was looked at, field by field.
        form = self._form
        direct = form.direct_fields if isinstance(form, RowForm) else form.direct
        self._as_admitted = direct and (type_info.exact is None or type_info.of_admitted)

    def encode(self, value: Any) -> Encoded:
        """The value as it is now.

        Args:
            value: a value of the declared type, or CLEARED.

        Raises:
            TypeMismatchError: the value does not fit the declared type.
            NotSerializableError: the value cannot be written at all.
        """
        if value is CLEARED:
            return Encoded(None, None)
        if self._any:
            return _encode_any(value)
        try:
            return Encoded(dumps(self._form.to_json([value])[0]), None)
        except _HARD:
            return self._encode_hard(value)

    def _encode_hard(self, value: Any) -> Encoded:
        value = self.type.check(value)
        try:
            return Encoded(dumps(self._form.to_json([value])[0]), None)
        except _HARD:
            return Encoded(readable_text(value), dump_payload(value))

    def encode_many(self, values: list[Any], admitted: bool = False) -> tuple[pa.Array, pa.Array | None]:
        """The columns ``value`` and ``payload`` of many values.

        Args:
            values: values of the declared type, what encode gave, and CLEARED, in any mixture.
            admitted: each value is one that the type's ``check`` gave back, as those in a state's table are, so that what it
                looked at need not be looked at again.

        Returns:
            Texts (string, or a dictionary of string where ints repeat; null for CLEARED), and payloads
            (binary), None when no value has one.

        Raises:
            TypeMismatchError: a value does not fit the declared type.
            NotSerializableError: a value cannot be written at all.
        """
        if admitted and isinstance(self._form, IntegerForm):
            with suppress(NotExact, TypeError):  # one is CLEARED, or out of bounds
                return columns.int_texts(values, False, self._form.low, self._form.high), None
        kinds = classes_of(values)
        if _Cleared in kinds or Encoded in kinds:
            return self._encode_mixed(values, kinds, admitted)
        try:
            texts = _scalar_texts(self._form, values, kinds)
            if texts is not None:
                return texts, None
        except NotExact:
            pass  # some value needs a payload or does not fit: the chunk that holds it finds out
        return self._encode_chunks(values, admitted and self._as_admitted)

    def encode_again(self, values: list[Any]) -> tuple[pa.Array, pa.Array | None]:
        """As encode_many of admitted values of which many are the same objects: each object is encoded once.

        Args:
            values: as of encode_many; none may change meanwhile.

        Returns:
            As of encode_many; texts as a dictionary where half of the values or more are not the first of their object.
        """
        if not isinstance(self._form, TupleForm) or len(values) < _WORTH_A_LOOK:
            return self.encode_many(values, admitted=True)
        codes, firsts = columns.same_objects(values)
        if 2 * len(firsts) > len(values):
            return self.encode_many(values, admitted=True)
        texts, payloads = self.encode_many([values[index] for index in firsts], admitted=True)
        if texts.null_count or pa.types.is_dictionary(texts.type):
            return texts.take(codes), None if payloads is None else payloads.take(codes)
        return pa.DictionaryArray.from_arrays(codes, texts), None if payloads is None else payloads.take(
            codes
        )

    def _encode_mixed(
        self, values: list[Any], kinds: set[type], admitted: bool
    ) -> tuple[pa.Array, pa.Array | None]:
        if kinds <= {Encoded, _Cleared}:
            pairs = [(None, None) if value is CLEARED else value for value in values]
            return _arrays([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        if Encoded not in kinds:
            present = list(map(operator.is_not, values, repeat(CLEARED)))
            texts_there, there = self.encode_many(list(compress(values, present)), admitted)
            return _spread(texts_there, present), None if there is None else _spread(there, present)
        raw = [value for value in values if type(value) not in (Encoded, _Cleared)]
        raw_texts, raw_payloads = self.encode_many(raw, admitted)
        given = [None] * len(raw) if raw_payloads is None else raw_payloads.to_pylist()
        rest = iter(zip(raw_texts.to_pylist(), given, strict=True))
        texts: list[str | None] = []
        payloads: list[bytes | None] = []
        for value in values:
            if value is CLEARED:
                text, payload = None, None
            else:
                text, payload = value if type(value) is Encoded else next(rest)
            texts.append(text)
            payloads.append(payload)
        return _arrays(texts, payloads)

    def _encode_chunks(self, values: list[Any], as_they_are: bool) -> tuple[pa.Array, pa.Array | None]:
        text_pieces: list[pa.Array] = []
        payload_pieces: list[pa.Array | None] = []
        for start in range(0, len(values), columns.CHUNK_ROWS):
            chunk = values[start : start + columns.CHUNK_ROWS]
            try:
                texts, payloads = _chunk_texts(self._form, chunk, as_they_are), None
            except _HARD:
                encoded = [self.encode(value) for value in chunk]
                texts, payloads = _arrays([one[0] for one in encoded], [one[1] for one in encoded])
            text_pieces.append(texts)
            payload_pieces.append(payloads)
        if not text_pieces:
            return pa.array([], pa.string()), None
        if all(piece is None for piece in payload_pieces):
            return pa.concat_arrays(text_pieces), None
        filled = [
            pa.nulls(len(texts), pa.binary()) if payloads is None else payloads
            for texts, payloads in zip(text_pieces, payload_pieces, strict=True)
        ]
        return pa.concat_arrays(text_pieces), pa.concat_arrays(filled)

    def decode_many(self, texts: Any, payloads: Any = None) -> list[Any]:
        """The values of the log's columns ``value`` and ``payload``.

        Args:
            texts: Arrow array (string, also chunked or dictionary-encoded) or list of str and None.
            payloads: Arrow array of binary, list of bytes and None, or None for no payload at all.

        Returns:
            New values in the same order, CLEARED for null texts.

        Raises:
            NotSerializableError: a payload cannot be read back.
        """
        texts = columns.as_strings(texts)
        if payloads is not None:
            payloads = _as_binary(payloads)
            if payloads.null_count == len(payloads):
                payloads = None
        if payloads is None and isinstance(self._form, IntegerForm):
            ints = columns.ints_of(texts)
            if ints is not None:
                return ints
        found: list[Any] = []
        for start in range(0, len(texts), columns.CHUNK_ROWS):
            part = None if payloads is None else payloads.slice(start, columns.CHUNK_ROWS)
            found.extend(self._decode_chunk(texts.slice(start, columns.CHUNK_ROWS), part))
        return found

    def _decode_chunk(self, texts: pa.Array, payloads: pa.Array | None) -> list[Any]:
        absent = texts.is_null() if texts.null_count else None
        if absent is not None:
            texts = texts.fill_null("null")
        if payloads is not None and payloads.null_count < len(payloads):
            # The text beside a payload is for people; it may hold what the JSON reader rounds or refuses.
            texts = pc.if_else(payloads.is_valid(), "null", texts)
        values = self._form.from_json(columns.parsed(texts))
        if payloads is not None and payloads.null_count < len(payloads):
            values = [
                value if data is None else load_payload(data)
                for value, data in zip(values, payloads.to_pylist(), strict=True)
            ]
        if absent is not None:
            values = [CLEARED if none else v for v, none in zip(values, absent.to_pylist(), strict=True)]
        return values


def _scalar_texts(form: JsonForm, values: list[Any], kinds: set[type]) -> pa.Array | None:
    """The values as JSON text, made by Arrow; None when Arrow cannot make it for this form and these classes."""
    undeclared = isinstance(form, AnyForm)
    empty = _NONE in kinds
    if len(kinds) - empty != 1:
        return None
    only = next(kind for kind in kinds if kind is not _NONE)
    if (only is str and (undeclared or isinstance(form, StringForm))) or (
        only is bool and (undeclared or isinstance(form, BooleanForm))
    ):
        return columns.plain_texts(values)
    if form.as_text:
        return columns.plain_texts(form.to_json(values))
    if only is int and undeclared:
        return columns.int_texts(values, empty)
    if only is int and isinstance(form, IntegerForm):
        return columns.int_texts(values, empty, form.low, form.high)
    if only is float and (undeclared or isinstance(form, FloatForm)):
        return columns.float_texts(values, names=not undeclared)
    return None


def _chunk_texts(form: JsonForm, chunk: list[Any], as_they_are: bool) -> pa.Array:
    """The texts of not more than a chunk of values, written all at once where that can be."""
    if isinstance(form, RowForm) and form.names and _NONE not in classes_of(chunk):
        whole = _texts_of_rows(form, chunk) if as_they_are else None
        if whole is not None:
            return whole
        fields = zip(form.tuples.fields, form.columns_of(chunk), strict=True)
        of_fields = [_field_texts(field, column, as_they_are) for field, column in fields]
        whole = columns.object_texts([dumps(name) for name in form.names], of_fields)
        if whole is not None:
            return whole
    written = chunk if as_they_are and form.direct else form.to_json(chunk)
    texts = columns.array_texts(written)
    return columns.one_array([dumps(value) for value in written], pa.string()) if texts is None else texts


def _texts_of_rows(form: RowForm, rows: list[Any]) -> pa.Array | None:
    """The texts of rows as state keeps them whose fields are direct or floats; None where they cannot be written at once."""
    whole = columns.row_texts(rows, form.names)
    if whole is not None:
        return whole
    pieces = []
    for start in range(0, len(rows), _OBJECTS):
        objects = dicts_of_rows(rows[start : start + _OBJECTS], form.names)
        texts = None if objects is None else columns.array_texts(objects, with_null=not form.floats)
        if texts is None:
            return None
        pieces.append(texts)
    return pa.concat_arrays(pieces)


def _field_texts(form: JsonForm, values: list[Any], as_they_are: bool) -> pa.Array:
    try:
        texts = _scalar_texts(form, values, classes_of(values))
        if texts is not None:
            return texts
    except NotExact:
        pass  # larger ints, which have a form of their own
    return _chunk_texts(form, values, as_they_are)


def _encode_any(value: Any) -> Encoded:
    if is_plain(value, 0):
        try:
            return Encoded(dumps(value), None)
        except TypeError:
            pass  # large ints, surrogates
    return Encoded(readable_text(value), dump_payload(value))


def _arrays(
    texts: list[str | None] | list[str], payloads: list[bytes | None] | None
) -> tuple[pa.Array, pa.Array | None]:
    column = columns.one_array(texts, pa.string())
    if payloads is None or all(payload is None for payload in payloads):
        return column, None
    return column, columns.one_array(payloads, pa.binary())


def _as_binary(payloads: Any) -> pa.Array:
    return pa.array(payloads, pa.binary()) if isinstance(payloads, list) else as_array(payloads)


def _spread(column: pa.Array, present: list[bool]) -> pa.Array:
    """A column with nulls put in where nothing is present."""
    column = without_dictionary(column)
    there = np.array(present, np.bool_)
    return column.take(pa.array(np.cumsum(there) - 1, mask=~there))


@functools.lru_cache(maxsize=1024)
def _codec_of(type_info: TypeInformation) -> Codec:
    return Codec(type_info)


def codec_for(type_info: TypeInformation | None) -> Codec:
    """The codec of a declared type, shared by all who ask for an equal one.

    Args:
        type_info: the type; None for undeclared.

    Example:
        >>> codec_for(Types.TUPLE([Types.STRING(), Types.LONG()])).encode(("a", 1))
        Encoded(text='["a",1]', payload=None)
    """
    return _codec_of(Types.PICKLED_BYTE_ARRAY() if type_info is None else type_info)
