"""What a state of one key held before and after each of its mutations, kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import pyarrow as pa

from changelog_engine.codec.keys import key_codec_for
from changelog_engine.state import mutation_log
from changelog_engine.types import TypeInformation
from materializer.entries import StateEntries


class Elements(Sequence[Any]):
    """The first elements of a list that grows: every state of it costs nothing."""

    def __init__(self, items: list[Any], length: int) -> None:
        self._items, self._length = items, length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._items[: self._length][index]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._items[index % self._length]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(self[:])


class HeldEntries:
    """What a state of one key holds, by namespace, while its mutations are gone through.

    Args:
        map_key_type: declared type of a map's keys.
    """

    def __init__(self, map_key_type: TypeInformation | None) -> None:
        self._map_key_type = map_key_type
        self._held: dict[str | None, Any] = {}

    def apply(
        self, operation: str, namespace: str | None, text: str | None, map_key: Any, value: Any
    ) -> tuple[Any, Any]:
        """What there was before a mutation, and what there is after it.

        Args:
            text: of a map's key, as the log has it.
        """
        before = self._held.get(namespace)
        after = self._held[namespace] = value if operation == mutation_log.PUT else None
        return before, after


class _HeldList(HeldEntries):
    def apply(
        self, operation: str, namespace: str | None, text: str | None, map_key: Any, value: Any
    ) -> tuple[Any, Any]:
        before = self._held.get(namespace)
        if operation == mutation_log.APPEND:
            items = [] if before is None else before._items
            items.append(value)
            after: Elements | None = Elements(items, len(items))
        else:
            after = Elements([value], 1) if operation == mutation_log.REPLACE else None
        self._held[namespace] = after
        return before, after


class _HeldMap(HeldEntries):
    """A mutation is of one entry; a clear is of all of them."""

    def apply(
        self, operation: str, namespace: str | None, text: str | None, map_key: Any, value: Any
    ) -> tuple[Any, Any]:
        entries = self._held.setdefault(namespace, {})
        if operation == mutation_log.CLEAR:
            before = _whole(entries, self._map_key_type)
            entries.clear()
            return before, None
        before = entries.get(text, (None, None))[1]
        if operation == mutation_log.PUT:
            entries[text] = (map_key, value)
            return before, value
        entries.pop(text, None)
        return before, None


_OF_KIND: dict[str, type[HeldEntries]] = {"list": _HeldList, "map": _HeldMap}


def held_entries(kind: str, map_key_type: TypeInformation | None) -> HeldEntries:
    """What a state of a kind holds before its first mutation: nothing."""
    return _OF_KIND.get(kind, HeldEntries)(map_key_type)


def _whole(entries: dict[str, tuple[Any, Any]], key_type: TypeInformation | None) -> StateEntries | None:
    """A map of texts to map key and value as it is shown: keys that are equal to Python, such as 1 and True, stay two."""
    if not entries:
        return None
    codec = key_codec_for(key_type)
    identities = codec.from_texts(pa.array(list(entries), pa.string()))
    return StateEntries.made(codec, dict(zip(identities, entries.values(), strict=True)))
