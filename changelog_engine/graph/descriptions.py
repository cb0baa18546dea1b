"""Operators and their states as a checkpoint's row describes them (docs/table-format.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NotRequired, TypedDict

from changelog_engine.types import TypeInformation, type_of

TypeSpec = dict[str, Any]  # a type as JSON; type_of() makes the type of it


class EarlierType(TypedDict):
    """Entries of a state that are in another type than the newest: those of some key groups."""

    value_type: TypeSpec
    key_groups: list[list[int]]  # pairs of first and last


class DescribedState(TypedDict):
    """A state. A type that is missing, or None, was not declared."""

    name: str
    kind: str  # of a StateKind
    value_type: TypeSpec  # of what is stored: with a time to live, of a pair
    key_type: NotRequired[TypeSpec | None]
    map_key_type: NotRequired[TypeSpec | None]
    namespace: NotRequired[str]
    ttl: NotRequired[dict[str, int]]
    since: NotRequired[int]  # the checkpoint at which the state began or its type changed last
    earlier: NotRequired[list[EarlierType]]
    # Of a restored state: it goes, unless it is declared when the functions are opened.
    removed: NotRequired[bool]


class DescribedOperator(TypedDict):
    """An operator; those with keyed state have ``key_type`` and ``states``."""

    uid: str
    name: str
    kind: str  # of a NodeKind
    parallelism: int
    max_parallelism: int
    key_type: NotRequired[TypeSpec | None]
    states: NotRequired[list[DescribedState]]


def keyed_operators(operators: Iterable[DescribedOperator]) -> list[DescribedOperator]:
    """Those that have keyed state, though perhaps no state was declared to them yet."""
    return [operator for operator in operators if "states" in operator]


def states_of(
    operators: Iterable[DescribedOperator],
) -> Iterator[tuple[DescribedOperator, DescribedState]]:
    """Each keyed state, with its operator."""
    for operator in keyed_operators(operators):
        for state in operator["states"]:
            yield operator, state


def key_type_of(described: DescribedOperator | DescribedState) -> TypeInformation | None:
    """The declared type of the keys; None for an undeclared one."""
    return type_of(described.get("key_type"))


def map_key_type_of(state: DescribedState) -> TypeInformation | None:
    """The declared type of a map's keys; None where it was not declared, and for a state that is not a map."""
    return type_of(state.get("map_key_type"))


def with_key_type(state: DescribedState, key_type: TypeSpec | None) -> DescribedState:
    """The state with the type of its keys, which stands with the operator in a row."""
    return {**state, "key_type": key_type}


def ttl_ms_of(state: DescribedState) -> int | None:
    """The time to live of the state's entries; None for one without."""
    ttl = state.get("ttl")
    return None if ttl is None else ttl["ttl_ms"]
