"""What a state of one key held before and after each of its mutations, kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from changelog_engine.state import mutation_log


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
    """What a state of one key holds, by namespace, while its mutations are gone through."""

    def __init__(self) -> None:
        self._held: dict[str | None, Any] = {}

    def apply(
        self, operation: str, namespace: str | None, map_key: str | None, value: Any
    ) -> tuple[Any, Any]:
        """What there was before a mutation, and what there is after it.

        Args:
            map_key: of a map's key, the text that the log has.
        """
        before = self._held.get(namespace)
        after = self._held[namespace] = value if operation == mutation_log.PUT else None
        return before, after


class _HeldList(HeldEntries):
    def apply(
        self, operation: str, namespace: str | None, map_key: str | None, value: Any
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
    """A mutation is of one entry; a clear is of all of them, of which there is a dict by the texts of their keys."""

    def apply(
        self, operation: str, namespace: str | None, map_key: str | None, value: Any
    ) -> tuple[Any, Any]:
        if operation == mutation_log.CLEAR:
            return self._held.pop(namespace, None) or None, None
        entries = self._held.setdefault(namespace, {})
        before = entries.get(map_key)
        if operation == mutation_log.PUT:
            entries[map_key] = value
            return before, value
        entries.pop(map_key, None)
        return before, None


def held_entries(kind: str) -> HeldEntries:
    """What a state of a kind holds before its first mutation: nothing."""
    return {"list": _HeldList, "map": _HeldMap}.get(kind, HeldEntries)()
