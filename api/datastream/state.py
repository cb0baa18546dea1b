"""Keyed state: the five kinds, and the descriptors that declare them; and broadcast state.

Keyed state belongs to the current key of a keyed stream; every change of it is a row of the changelog.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from .state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from .state_ttl import StateTtlConfig

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]


class State(ABC):
    """Base of all kinds of state."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what is kept for the current key."""


class ValueState(State, Generic[T]):
    """One value for each key."""

    @abstractmethod
    def value(self) -> T:
        """The current key's value; None when nothing is set."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Set the current key's value.

        Args:
            value: what is set; None removes it.

        Raises:
            TypeMismatchError: it does not fit the declared type.
        """


class AppendingState(State, Generic[IN, OUT]):
    """State to which elements are added."""

    @abstractmethod
    def get(self) -> OUT:
        """The current key's content."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add an element to the current key's content.

        Raises:
            TypeMismatchError: it does not fit the declared type.
        """


class MergingState(AppendingState[IN, OUT]):
    """Appending state whose contents can be merged."""


class ListState(MergingState[T, Iterable[T]]):
    """A list for each key. ``get()`` gives an iterable; empty when nothing was added."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace the current key's list.

        Args:
            values: the new elements; an empty list clears.

        Raises:
            TypeMismatchError: an element does not fit the declared type.
        """

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add elements at the end of the current key's list.

        Raises:
            TypeMismatchError: an element does not fit the declared type.
        """

    def __iter__(self) -> Iterator[T]:
        """The elements of the current key's list."""
        return iter(self.get())


class _ReadableMap(State, Generic[K, V]):
    """What can be read of a map."""

    @abstractmethod
    def get(self, key: K) -> V:
        """The value of a key; None when there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether a key is there."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Keys with their values."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no key."""

    def __getitem__(self, key: K) -> V:
        """As `get`."""
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        """As `contains`."""
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        """As `keys`."""
        return iter(self.keys())


class _WritableMap(_ReadableMap[K, V]):
    """What changes a map."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of a key.

        Raises:
            TypeMismatchError: either does not fit its declared type.
        """

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of several keys.

        Raises:
            TypeMismatchError: one does not fit its declared type.
        """

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a key; nothing happens when it is not there."""

    def __setitem__(self, key: K, value: V) -> None:
        """As `put`."""
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        """As `remove`."""
        self.remove(key)


class MapState(_WritableMap[K, V]):
    """A map for each key of the stream; the keys that its methods take and give are the map's."""


class ReducingState(MergingState[T, T]):
    """One value for each key: all added elements combined by a reduce function.

    ``get()`` gives None before the first.
    """


class AggregatingState(MergingState[IN, OUT]):
    """An accumulator for each key, into which elements are added.

    ``get()`` gives the result out of it, or None before the first element.
    """


class ReadOnlyBroadcastState(_ReadableMap[K, V]):
    """A broadcast state as the elements of the other stream see it: to be read only."""


class BroadcastState(_WritableMap[K, V], ReadOnlyBroadcastState[K, V]):
    """A map that every subtask has a copy of, changed by the elements of a broadcast stream.

    All subtasks see the same elements, and each changes its own copy: make the change depend on the element
    and the state alone.
    """


class OperatorStateStore(ABC):
    """Gives access to state that belongs to no key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The broadcast state that a descriptor declares.

        Args:
            state_descriptor: one of those given to ``broadcast()``.

        Raises:
            InvalidJobError: the state is not one that was broadcast with the stream.
        """
