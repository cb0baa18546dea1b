"""Keys: their identity in dicts, their JSON text in the log, and the way between them, by declared type.

Ints and strs stand for themselves: ints of declared integer types, strs of declared text types, and for
undeclared keys ints of 64 bits and text that UTF-8 can carry. Every other key is the UTF-8 bytes of its JSON
text.
"""

from __future__ import annotations

import array
import functools
import json
from typing import Any

import orjson
import pyarrow as pa

from changelog_engine.codec.canonical import canonical_text, from_canonical, from_canonical_tree
from changelog_engine.codec.composites import dumps, form_of
from changelog_engine.codec.forms import INT64_HIGH, INT64_LOW, NotExact
from changelog_engine.codec.identities import KeyCodec, KeyIdentity
from changelog_engine.errors import NotSerializableError
from changelog_engine.types import (
    ElementsTypeInfo,
    IntegerTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from changelog_engine.types.row_loops import classes_of

__all__ = ["KeyCodec", "KeyIdentity", "key_codec_for"]

_EXACT = "$exact"  # marks text of a declared type whose own JSON would not be exact


class UndeclaredKeys(KeyCodec):
    """Keys of any kind: canonical JSON."""

    ints = INT64_LOW, INT64_HIGH

    def identities(self, keys: list[Any], what: str) -> list[Any]:
        kinds = classes_of(keys)
        if (kinds == {int} and _all_int64(keys)) or (kinds == {str} and _is_utf8("".join(keys))):
            return keys
        return [self._identity(key, what) for key in keys]

    def _identity(self, key: Any, what: str) -> KeyIdentity:
        kind = type(key)
        if kind is int and INT64_LOW <= key <= INT64_HIGH:
            return int(key)
        if kind is str and _is_utf8(key):
            return str(key)
        try:
            return canonical_text(key).encode()
        except NotSerializableError as error:
            raise NotSerializableError(f"{what}: {error}") from error

    def _from_text(self, text: str) -> KeyIdentity:
        first = text[0]
        if first == '"':
            return str(orjson.loads(text))
        if first in "-0123456789" and not set(text) & set(".eE") and len(text) <= 20:
            number = int(text)
            if INT64_LOW <= number <= INT64_HIGH:
                return number
        return text.encode()

    def _from_others(self, texts: pa.Array) -> list[KeyIdentity]:
        return _binary(texts)


class IntegerKeys(KeyCodec):
    """Keys of a declared integer type: every int stands for itself."""

    def __init__(self, type_info: IntegerTypeInfo) -> None:
        super().__init__(type_info)
        self._low, self._high = type_info.low, type_info.high
        if self._low is None or self._high is None:
            self.ints = INT64_LOW, INT64_HIGH
        else:
            self.ints = self._low, self._high

    def identities(self, keys: list[Any], what: str) -> list[Any]:
        if classes_of(keys) == {int} and self._all_in_range(keys):
            return keys
        return [self._identity(key, what) for key in keys]

    def _all_in_range(self, keys: list[int]) -> bool:
        if self._low is None or self._high is None:
            return True
        if self._high == INT64_HIGH:
            return _all_int64(keys)
        return bool(self._low <= min(keys) and max(keys) <= self._high)

    def _identity(self, key: Any, what: str) -> KeyIdentity:
        return b"null" if key is None else self.type.check(key, what)

    def _from_text(self, text: str) -> KeyIdentity:
        if text == "null":
            return b"null"
        return int(text) if text[0] != "{" else int(from_canonical(text))

    def text(self, identity: KeyIdentity) -> str:
        return identity.decode() if type(identity) is bytes else canonical_text(identity)


class TextKeys(KeyCodec):
    """Keys of declared text: every str stands for itself."""

    def identities(self, keys: list[Any], what: str) -> list[Any]:
        if classes_of(keys) == {str} and self.type.sure is str:
            return keys
        return [self._identity(key, what) for key in keys]

    def _identity(self, key: Any, what: str) -> KeyIdentity:
        return b"null" if key is None else self.type.check(key, what)

    def _from_text(self, text: str) -> KeyIdentity:
        return b"null" if text == "null" else str(from_canonical(text))


class _KeysInBytes(KeyCodec):
    """Keys of which none stands for itself."""

    def _from_chunk(self, texts: pa.Array) -> list[KeyIdentity]:
        return _binary(texts)


class TypedKeys(_KeysInBytes):
    """Keys of other declared types: their own JSON where that is exact, else canonical JSON under a mark."""

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info)
        self._form = form_of(type_info)
        self._form_decides = _form_decides(type_info)

    def identities(self, keys: list[Any], what: str) -> list[Any]:
        if not self._form_decides:
            keys = [self.type.check(key, what) for key in keys]
        try:
            written = self._form.to_json(keys)
            # orjson's small bytes sit in blocks of 1 KiB; these are kept, so they must be copies.
            texts = [dumps(value) for value in written]
        except (NotExact, TypeError, ValueError):
            texts = []
        if not texts or any(map(_is_marked, texts)):  # drives our own code
            return [self._identity(key, what) for key in keys]
        return list(map(str.encode, texts))

    def _identity(self, key: Any, what: str) -> KeyIdentity:
        key = self.type.check(key, what)
        try:
            text = dumps(self._form.to_json([key])[0])
            if not _is_marked(text):
                return text.encode()
        except (NotExact, TypeError, ValueError):
            pass
        return f'{{"{_EXACT}":{canonical_text(key)}}}'.encode()

    def _parse(self, text: str) -> Any:
        if _is_marked(text):
            return from_canonical_tree(json.loads(text)[_EXACT])
        return self._form.from_json([orjson.loads(text)])[0]


class CanonicalKeys(_KeysInBytes):
    """Keys of declared types with maps or undeclared parts: checked, then canonical JSON."""

    def _identity(self, key: Any, what: str) -> KeyIdentity:
        return canonical_text(self.type.check(key, what)).encode()


def _binary(texts: pa.Array) -> list[KeyIdentity]:
    found: list[KeyIdentity] = texts.cast(pa.binary()).to_pylist()
    return found


def _is_marked(text: str) -> bool:
    return text.startswith(f'{{"{_EXACT}":')


def _all_int64(keys: list[int]) -> bool:
    try:
        array.array("q", keys)
    except OverflowError:
        return False
    return True


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _form_decides(type_info: TypeInformation) -> bool:
    """True when the JSON form takes no values but those that check would leave as they are."""
    if type_info.exact is bytes:
        return True
    if isinstance(type_info, ElementsTypeInfo):
        return type_info.kind != "PRIMITIVE_ARRAY" and _form_decides(type_info.elem_type)
    if isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        return all(_form_decides(field) for field in type_info.get_field_types())
    return type_info.kind not in ("FLOAT", "CHAR")


def has_own_json(type_info: TypeInformation) -> bool:
    """True when equal keys have equal JSON: no maps, whose order may differ, and nothing undeclared."""
    if isinstance(type_info, (MapTypeInfo, PickledBytesTypeInfo)):
        return False
    if isinstance(type_info, ElementsTypeInfo):
        return has_own_json(type_info.elem_type)
    if isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        return all(has_own_json(field) for field in type_info.get_field_types())
    return True


@functools.lru_cache(maxsize=1024)
def _key_codec_of(type_info: TypeInformation) -> KeyCodec:
    if isinstance(type_info, PickledBytesTypeInfo):
        return UndeclaredKeys(type_info)
    if isinstance(type_info, IntegerTypeInfo):
        return IntegerKeys(type_info)
    if type_info.kind in ("STRING", "CHAR"):
        return TextKeys(type_info)
    return TypedKeys(type_info) if has_own_json(type_info) else CanonicalKeys(type_info)


def key_codec_for(type_info: TypeInformation | None) -> KeyCodec:
    """The codec of keys of a declared type, shared by all who ask for an equal one.

    Args:
        type_info: the type; None for undeclared.

    Example:
        >>> codec = key_codec_for(None)
        >>> codec.identities([1, "a", 1.0, True], "key")
        [1, 'a', b'1.0', b'true']
        >>> codec.key_of(b"1.0")
        1.0
    """
    return _key_codec_of(Types.PICKLED_BYTE_ARRAY() if type_info is None else type_info)
