"""What a fix changes: each entry that it would have otherwise, with what it was; nothing is written here.

Invariants:
    * A value is checked against the type that the checkpoint has for its state before it counts.
    * What a fix gives back is compared by what the log would have of it, with what was there before the fix saw it: a list
      that it changed in place counts as changed.
    * A fix that gives back nothing at all is an error: what is to stay or to go has to be said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from changelog_engine.codec.keys import KeyIdentity, key_codec_for
from changelog_engine.codec.values import CLEARED, codec_for
from changelog_engine.errors import ConfigurationError, RestoreError, TypeMismatchError
from changelog_engine.graph.descriptions import (
    DescribedOperator,
    DescribedState,
    key_type_of,
    map_key_type_of,
    states_of,
)
from changelog_engine.graph.nodes import StateKind
from changelog_engine.inspection.values import EntryName
from changelog_engine.ledger.described import check_names
from changelog_engine.savepoints.given_tables import batches
from changelog_engine.savepoints.state_rows import MAP_KEY, StateShape, refused_twice, typed_rows
from changelog_engine.state.ttl import user_type
from changelog_engine.types.typeinfo import shown
from materializer.entries import StateEntries
from materializer.fold import FoldedState


class _Word:
    """The class of DELETE and UNCHANGED."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


DELETE: Final = _Word("DELETE")  # what a fix gives back for an entry that is to go
UNCHANGED: Final = _Word("UNCHANGED")  # and for one that is to stay as it is

Fix = Callable[["FixedEntry"], Any] | Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class FixedEntry(EntryName):
    """One entry of state, as a fix sees it.

    Args:
        value: the value, a whole list, the value of a map's entry, or an accumulator: the fix's own copy.
    """

    value: Any


@dataclass(frozen=True)
class Correction(EntryName):
    """One entry that a fix changes.

    Args:
        before, after: typed; None for nothing.
    """

    before: Any
    after: Any
    deleted: bool


@dataclass(frozen=True)
class StateChanges:
    """What a fix changes in one state, as its rows will need it.

    Args:
        map_identities: of their map keys; None for what is not a map.
        accessed: when each was last accessed, where the state has a time to live.
    """

    operator: DescribedOperator
    described: DescribedState
    corrections: list[Correction]
    identities: list[KeyIdentity]
    map_identities: list[KeyIdentity] | None
    accessed: list[int] | None


def changes_of(folded: FoldedState, fix: Fix, operator: str | None, state: str | None) -> list[StateChanges]:
    """What a fix changes, state by state.

    Args:
        fix: see ``repair``.
        operator: only in the one with this uid; None for all.
        state: only in the state of this name; None for all.

    Raises:
        ConfigurationError: a state is withheld, or the fix says nothing.
        TypeMismatchError: a value is not of the state's type.
        RestoreError: a state has entries of two types at the checkpoint, or the fix names what there is not.
    """
    tables = None if callable(fix) else {(uid, name) for uid, states in fix.items() for name in states}
    empty = [] if callable(fix) else [uid for uid, states in fix.items() if not states]
    if empty:
        raise ConfigurationError(f"the fix of operator {empty[0]!r} names no state: leave the operator out")
    for named in sorted(tables or ()):
        check_names(folded.checkpoint, *named)
    found = []
    for (uid, name), (described_operator, described) in states_of(folded.checkpoint.operators).items():
        if tables is not None:
            if (uid, name) not in tables:
                continue
        elif operator not in (None, uid) or state not in (None, name):
            continue
        if described.earlier:
            raise RestoreError(
                f"state {name!r} of operator {uid!r} has entries of two types at checkpoint {folded.checkpoint.id}: its "
                "type was changed just before. Take a later checkpoint"
            )
        one = _State(folded, described_operator, described)
        changed = one.by_function(fix) if callable(fix) else one.by_table(fix[uid][name])
        if changed.corrections:
            found.append(changed)
    return found


class _State:
    """One state on its way."""

    def __init__(self, folded: FoldedState, operator: DescribedOperator, described: DescribedState) -> None:
        self.uid, self.name = operator.uid, described.name
        self.kind = StateKind(described.kind)
        self.where = f"state {self.name!r} of operator {self.uid!r}"
        self.checkpoint = folded.checkpoint
        self.entries = folded.states[self.uid, self.name]
        self.times = folded.accessed.get((self.uid, self.name))
        self.max_parallelism = operator.max_parallelism
        self.key_type = key_type_of(operator)
        self.keys = key_codec_for(self.key_type)
        self.map_key_type = map_key_type_of(described)
        self.map_keys = key_codec_for(self.map_key_type)
        self.value_type = user_type(described)
        is_map = self.kind is StateKind.MAP
        self.changes = StateChanges(
            operator, described, [], [], [] if is_map else None, None if self.times is None else []
        )

    def by_function(self, fix: Callable[[FixedEntry], Any]) -> StateChanges:
        for key, namespace, map_key, value in self._each():
            entry = FixedEntry(
                self.uid, self.name, self.kind.value, key, namespace, map_key, self._copied(value)
            )
            try:
                given = fix(entry)
            except Exception as error:
                error.add_note(f"fix was called with the entry of key {shown(key)} of {self.where}")
                raise
            if given is UNCHANGED or (given is None and value is None):
                continue
            if given is None:
                raise ConfigurationError(
                    f"fix gave back None for the entry of key {shown(key)} of {self.where}: let it return UNCHANGED, DELETE "
                    "or the new value"
                )
            self._change(key, namespace, map_key, value, given)
        return self.changes

    def _each(self) -> Iterator[tuple[Any, str | None, Any, Any]]:
        for plain, namespace, value in self.entries.spread():
            if self.kind is StateKind.MAP:
                for map_key, held in value.items():
                    yield plain, namespace, map_key, held
            else:
                yield plain, namespace, None, value

    def by_table(self, table: Any) -> StateChanges:
        where = f"the table of corrections of {self.where}"
        if self.entries.namespaced:
            raise ConfigurationError(f"{where}: the state is of windows, so give a function as fix")
        shape = StateShape(
            where, self.kind, self.key_type, self.value_type, self.map_key_type, self.max_parallelism
        )
        wanted: dict[tuple[KeyIdentity, KeyIdentity | None], tuple[Any, Any, Any]] = {}
        for batch in batches(table, where, shape.wanted, ("delete",)):
            for number, key, map_key, value, delete in typed_rows(shape, batch):
                name = self.keys.identity(key), None if map_key is None else self.map_keys.identity(map_key)
                held = wanted.get(name)
                if self.kind is StateKind.LIST and not delete and (held is None or held[2] is not DELETE):
                    wanted.setdefault(name, (key, None, []))[2].append(value)
                    continue
                if held is not None:
                    raise refused_twice(where, number, key, map_key)
                wanted[name] = (key, map_key, DELETE if delete else value)
        for key, map_key, value in wanted.values():
            before = self._held(key, map_key)
            if before is _NOTHING and value is DELETE:
                raise ConfigurationError(
                    f"{where}: there is no entry of key {shown(key)}{_of_map(self.kind, map_key)} at checkpoint "
                    f"{self.checkpoint.id} that could be deleted"
                )
            self._change(key, None, map_key, before, value)
        return self.changes

    def _held(self, key: Any, map_key: Any) -> Any:
        if key not in self.entries:
            return _NOTHING
        held = self.entries[key]
        if self.kind is not StateKind.MAP:
            return held
        return held.get(map_key, _NOTHING)

    def _copied(self, value: Any) -> Any:
        if self.kind is StateKind.LIST:
            return [self.value_type.copy(each) for each in value]
        return value if value is None or self.value_type.immutable else self.value_type.copy(value)

    def _change(self, key: Any, namespace: str | None, map_key: Any, before: Any, given: Any) -> None:
        deleted = given is DELETE
        after = None if deleted else self._copied(self._checked(key, given))  # a fix may change it later
        if self.kind is StateKind.LIST and not deleted and not after:
            deleted, after = True, None  # an empty list is no list
        if not deleted and before is not _NOTHING and self._text(before) == self._text(after):
            return
        shown_before = None if before is _NOTHING else before
        self.changes.corrections.append(
            Correction(
                self.uid, self.name, self.kind.value, key, namespace, map_key, shown_before, after, deleted
            )
        )
        self.changes.identities.append(self.keys.identity(key))
        if self.changes.map_identities is not None:
            self.changes.map_identities.append(self.map_keys.identity(map_key))
        if self.changes.accessed is not None:
            self.changes.accessed.append(
                self._accessed(key if namespace is None else (key, namespace), map_key)
            )

    def _checked(self, key: Any, value: Any) -> Any:
        what = f"the new value of key {shown(key)} of {self.where}"
        if self.kind is not StateKind.LIST:
            return self.value_type.check(value, what)
        if not isinstance(value, (list, tuple)):
            raise TypeMismatchError(f"{what} must be a list, got {shown(value)}")
        if any(each is None for each in value):
            raise TypeMismatchError(f"{what} has None in it, which a list state does not hold: leave it out")
        return [self.value_type.check(each, what) for each in value]

    def _text(self, value: Any) -> Any:
        """What the log would have of it."""
        encode = codec_for(self.value_type).encode
        return [encode(each) for each in value] if self.kind is StateKind.LIST else encode(value)

    def _accessed(self, key: Any, map_key: Any) -> int:
        """An entry that is corrected was not accessed."""
        assert self.times is not None
        if key not in self.times:
            return self.checkpoint.wall_clock_ms
        found = self.times[key]
        if isinstance(found, StateEntries):
            return int(found[map_key]) if map_key in found else self.checkpoint.wall_clock_ms
        return max(found) if isinstance(found, list) else int(found)


_NOTHING: Final = CLEARED  # there is no such entry


def _of_map(kind: StateKind, map_key: Any) -> str:
    return f" and {MAP_KEY.replace('_', ' ')} {shown(map_key)}" if kind is StateKind.MAP else ""
