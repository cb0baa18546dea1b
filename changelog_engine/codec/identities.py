"""What every kind of key codec does: identities and texts in bulk.

Invariants:
    * An identity is an int, a str or bytes. Two keys are the same key exactly when their identities are
      equal, and the text is a function of the identity: 1, 1.0, True and "1" are four keys.
    * ``from_texts(texts(identities)) == identities``, and ``key_of(identity(key))`` equals the key as the
      declared type wants it, with the same classes inside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.codec import columns
from changelog_engine.codec.canonical import canonical_text, from_canonical
from changelog_engine.codec.forms import NotExact
from changelog_engine.types import TypeInformation
from changelog_engine.types.row_loops import classes_of

KeyIdentity = int | str | bytes


class KeyCodec(ABC):
    """Keys of one declared type. Made by key_codec_for; keeps no state.

    Attributes:
        ints: smallest and largest of the ints that are keys and stand for themselves; None where none does.
    """

    ints: tuple[int, int] | None = None

    def __init__(self, type_info: TypeInformation) -> None:
        self.type = type_info

    def identities(self, keys: list[Any], what: str) -> list[KeyIdentity]:
        """The identities of keys, checked against the declared type.

        Args:
            what: names the keys in the message, e.g. ``key of 'by user'``.

        Returns:
            One identity a key, in order; the very same list when all keys stand for themselves.

        Raises:
            TypeMismatchError: a key does not fit its declared type.
            NotSerializableError: an object that cannot be a key.
        """
        return [self._identity(key, what) for key in keys]

    def identity(self, key: Any) -> KeyIdentity:
        """The identity of one key; raises as identities does."""
        return self._identity(key, "key")

    def key_of(self, identity: KeyIdentity) -> Any:
        """The key of an identity.

        Raises:
            NotSerializableError: the class of the key is not known here.
        """
        return self._parse(identity.decode()) if type(identity) is bytes else identity

    def texts(self, identities: list[Any]) -> pa.Array:
        """The JSON texts of identities."""
        if identities and type(identities[0]) is int:
            try:
                return columns.int_texts(identities, empty=False)
            except (NotExact, TypeError):
                pass  # a mixture, or larger ints
        kinds = classes_of(identities)
        if kinds == {bytes}:
            return columns.one_array(identities, pa.string())
        if kinds == {str}:
            try:
                return columns.plain_texts(identities)
            except NotExact:
                pass
        return columns.one_array([self.text(identity) for identity in identities], pa.string())

    def text(self, identity: KeyIdentity) -> str:
        """The JSON text of one identity."""
        if type(identity) is bytes:
            return identity.decode()
        return canonical_text(identity) if type(identity) is str else str(identity)

    def from_texts(self, texts: Any) -> list[KeyIdentity]:
        """The identities of texts.

        Args:
            texts: Arrow array of string (also chunked or dictionary-encoded) or list, without nulls.
        """
        texts = columns.as_strings(texts)
        if not len(texts):
            return []
        ints: list[Any] | None = None if self.ints is None else columns.ints_of(texts)
        if ints is not None:
            return ints
        found: list[KeyIdentity] = []
        for start in range(0, len(texts), columns.CHUNK_ROWS):
            found.extend(self._from_chunk(texts.slice(start, columns.CHUNK_ROWS)))
        return found

    def _from_chunk(self, texts: pa.Array) -> list[KeyIdentity]:
        if pc.all(pc.starts_with(texts, '"')).as_py():
            return columns.parsed(texts)
        if not pc.any(pc.match_substring_regex(texts, '^["0-9-]')).as_py():
            return self._from_others(texts)
        return [self._from_text(text) for text in texts.to_pylist()]

    def _from_others(self, texts: pa.Array) -> list[KeyIdentity]:
        """The identities of texts that are neither numbers nor strings."""
        return [self._from_text(text) for text in texts.to_pylist()]

    @abstractmethod
    def _identity(self, key: Any, what: str) -> KeyIdentity:
        """The identity of one key."""

    def _from_text(self, text: str) -> KeyIdentity:
        """The identity of one text: its bytes, unless keys of the type stand for themselves."""
        return text.encode()

    def _parse(self, text: str) -> Any:
        return from_canonical(text)
