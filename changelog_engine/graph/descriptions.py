"""Operators and their states as a checkpoint's row describes them (docs/table-format.md).

Invariants:
    * What is read is written as the same JSON. Fields that only a newer engine knows are kept for that, behind the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from changelog_engine.errors import CorruptChangelogError
from changelog_engine.graph.nodes import StateId
from changelog_engine.types import TypeInformation, type_of

TypeSpec = dict[str, Any]  # a type as JSON; type_of() makes the type of it
_Document = dict[str, Any]  # as it stands in the row
_NOTHING: _Document = {}  # nobody changes it
_NOT_IN_ROWS = ("keyed", "unknown")  # fields that a row has not under their names


class EarlierType(NamedTuple):
    """Entries of a state that are in another type than the newest: those of some key groups."""

    value_type: TypeSpec
    key_groups: list[list[int]]  # pairs of first and last
    unknown: _Document = _NOTHING


class DescribedState(NamedTuple):
    """A state."""

    name: str
    kind: str  # of a StateKind
    value_type: TypeSpec  # of what is stored: with a time to live, of a pair
    map_key_type: TypeSpec | None = None  # None where it was not declared, and for a state that is not a map
    namespace: str | None = None
    ttl: dict[str, int] | None = None
    earlier: tuple[EarlierType, ...] = ()
    since: int | None = None  # the checkpoint at which the state began or its type changed last
    removed: bool = False  # of a restored state: it goes, unless it is declared when the functions are opened
    unknown: _Document = _NOTHING  # fields of a newer engine

    @property
    def ttl_ms(self) -> int | None:
        """The time to live of its entries; None for one without."""
        return None if self.ttl is None else self.ttl["ttl_ms"]

    def to_json(self) -> _Document:
        """What stands in ``states``."""
        return _written(self, earlier=tuple([_written(each) for each in self.earlier]))

    @staticmethod
    def from_json(document: _Document) -> DescribedState:
        """Read ``to_json`` back."""
        found = _fields_of(DescribedState, document)
        earlier = [EarlierType(**_fields_of(EarlierType, each)) for each in found.get("earlier", ())]
        return DescribedState(**found | {"earlier": tuple(earlier)})


class DescribedOperator(NamedTuple):
    """An operator."""

    uid: str
    name: str
    kind: str  # of a NodeKind
    parallelism: int
    max_parallelism: int
    keyed: bool = False  # it has keyed state, though perhaps no state was declared to it yet
    key_type: TypeSpec | None = None  # None where it was not declared
    states: tuple[DescribedState, ...] = ()
    unknown: _Document = _NOTHING  # fields of a newer engine

    def to_json(self) -> _Document:
        """What stands in ``operators``."""
        document = self._asdict() | {"states": [state.to_json() for state in self.states]}
        left_out = _NOT_IN_ROWS if self.keyed else (*_NOT_IN_ROWS, "key_type", "states")
        return {name: value for name, value in document.items() if name not in left_out} | self.unknown

    @staticmethod
    def from_json(document: _Document) -> DescribedOperator:
        """Read ``to_json`` back."""
        found = _fields_of(DescribedOperator, document)
        states = tuple([DescribedState.from_json(each) for each in found.get("states", ())])
        return DescribedOperator(**found | {"keyed": "states" in found, "states": states})


_Described = EarlierType | DescribedState | DescribedOperator


def _written(described: EarlierType | DescribedState, **made: Any) -> _Document:
    """Its fields that are not as by default, in their order."""
    document, default = described._asdict() | made, described._field_defaults
    del document["unknown"]
    known = {name: value for name, value in document.items() if name not in default or value != default[name]}
    return known | described.unknown


def _fields_of(kind: type[_Described], document: _Document) -> _Document:
    """The fields of a description, with those that this engine doesn't know under ``unknown``.

    Raises:
        CorruptChangelogError: one is missing.
    """
    found: _Document = {}
    unknown: _Document = {}
    for name, value in document.items():
        (found if name in kind._fields and name not in _NOT_IN_ROWS else unknown)[name] = value
    for name in kind._fields[: -len(kind._field_defaults)]:
        if name not in found:
            raise CorruptChangelogError(
                f"what a checkpoint says of an operator or state is damaged: it has no {name!r} in {document!r:.200}"
            )
    return found | {"unknown": unknown}


def keyed_operators(operators: Iterable[DescribedOperator]) -> list[DescribedOperator]:
    """Those that have keyed state, though perhaps no state was declared to them yet."""
    return [operator for operator in operators if operator.keyed]


def states_of(
    operators: Iterable[DescribedOperator],
) -> dict[StateId, tuple[DescribedOperator, DescribedState]]:
    """Each keyed state, with its operator."""
    return {
        (each.uid, state.name): (each, state) for each in keyed_operators(operators) for state in each.states
    }


def key_type_of(operator: DescribedOperator) -> TypeInformation | None:
    """The declared type of the keys; None for an undeclared one."""
    return type_of(operator.key_type)


def map_key_type_of(state: DescribedState) -> TypeInformation | None:
    """The declared type of a map's keys; None where it was not declared, and for a state that is not a map."""
    return type_of(state.map_key_type)
