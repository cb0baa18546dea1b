"""A folded state's entries: a mapping that tells keys apart as the engine does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from changelog_engine.codec.keys import KeyCodec
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.state.backend import KeyIdentity


class StateEntries(Mapping[Any, Any]):
    """Keys to values, read-only, in the order in which the keys came.

    Keys are told apart by their identity: of an undeclared type, 1, 1.0 and True are three keys. So a key need not be
    hashable, and a lookup goes by the declared type of the keys. Equal to any mapping with the same entries.

    Args:
        entries: identity to value; of namespaced state, (identity, namespace) to value.
        namespaced: whether keys are pairs of a key and the text of its namespace.

    Raises:
        NotSerializableError: a key is an object that cannot be made, or must not be made here.

    Example:
        >>> from changelog_engine.codec.keys import key_codec_for
        >>> entries = StateEntries(key_codec_for(None), {1: "int", b"1.0": "float", b"true": "bool"})
        >>> entries
        {1: 'int', 1.0: 'float', True: 'bool'}
        >>> entries[True], len(entries), 2 in entries
        ('bool', 3, False)
    """

    def __init__(self, codec: KeyCodec, entries: Mapping[KeyIdentity, Any], namespaced: bool = False) -> None:
        self.codec = codec
        self.namespaced = namespaced
        # Keys are made now: whoever allows or forbids objects as keys does so for this call.
        self._entries = {identity: (self._key(identity), value) for identity, value in entries.items()}

    @staticmethod
    def made(codec: KeyCodec, entries: Mapping[KeyIdentity, tuple[Any, Any]]) -> StateEntries:
        """Entries whose keys somebody else has made, or something in their place.

        Args:
            entries: identity to key and value.
        """
        found = StateEntries(codec, {})
        found._entries = dict(entries)
        return found

    def spread(self) -> Iterator[tuple[Any, str | None, Any]]:
        """Key, namespace and value of each entry; the namespace is None where the state has none."""
        for key, value in self._entries.values():
            plain, namespace = key if self.namespaced else (key, None)
            yield plain, namespace, value

    def _key(self, identity: KeyIdentity) -> Any:
        if not self.namespaced:
            return self.codec.key_of(identity)
        return self.codec.key_of(identity[0]), identity[1]

    def _identity(self, key: Any) -> KeyIdentity:
        if not self.namespaced:
            return self.codec.identity(key)
        plain, namespace = key
        return self.codec.identity(plain), namespace

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._entries[self._identity(key)][1]
        except (KeyError, TypeError, ValueError, ChangelogEngineError):
            # A key of another type is not a key here.
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Any:
        """Pairs of key and value."""
        return list(self._entries.values())

    def values(self) -> Any:
        """The values."""
        return [value for _, value in self._entries.values()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return len(self) == len(other) and all(key in self and self[key] == other[key] for key in other)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {value!r}" for key, value in self._entries.values()) + "}"
