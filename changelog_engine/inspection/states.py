"""States at a point: which there are, and their entries by page or by key."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.config.numbers import whole_number
from changelog_engine.display import Displayed, Document, Grid, Literal
from changelog_engine.errors import RestoreError
from changelog_engine.graph.descriptions import (
    DescribedOperator,
    DescribedState,
    key_type_of,
    keyed_operators,
    map_key_type_of,
)
from changelog_engine.graph.key_groups import key_group
from changelog_engine.graph.nodes import StateId
from changelog_engine.inspection.points import open_point
from changelog_engine.inspection.values import key_identities, value_cell
from changelog_engine.ledger.described import check_names
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.points import At
from changelog_engine.ledger.read_again import read_again
from changelog_engine.nearest import nearest
from changelog_engine.state.backend import TIMER_DOMAINS, TIMER_STATES
from changelog_engine.state.ttl import user_type
from changelog_engine.types.typeinfo import declared_name, shown
from materializer.fold import OBJECT_KEYS, FoldedState, fold_at


@dataclass(frozen=True)
class StateSummary:
    """One state, or the timers of an operator.

    Args:
        operator: uid.
        state: name; ``(event time timers)`` or ``(processing time timers)`` of timers.
        kind: value, list, map, reducing, aggregating or timer.
        keys: how many it has (timers: how many there are); None when it is withheld.
        window: the kind of its namespaces; None where it has none.
        ttl_ms: time to live.
        withheld: why its entries are not shown.
    """

    operator: str
    state: str
    kind: str
    keys: int | None
    key_type: str
    value_type: str | None = None
    map_key_type: str | None = None
    window: str | None = None
    ttl_ms: int | None = None
    withheld: str | None = None


@dataclass(frozen=True, repr=False)
class StatesAt(Displayed):
    """The states of a job at a checkpoint."""

    checkpoint: Checkpoint
    states: tuple[StateSummary, ...]

    def grid(self) -> Grid:
        """A row for each state."""
        columns = ("keys", "operator", "state", "kind", "key type", "value type", "time to live")
        rows = [
            (
                "not shown" if each.withheld else each.keys,
                each.operator,
                each.state,
                each.kind,
                each.key_type,
                " to ".join([name for name in (each.map_key_type, each.value_type) if name]),
                None if each.ttl_ms is None else f"{each.ttl_ms:,} ms",
            )
            for each in self.states
        ]
        return Grid(columns, rows, right=1)

    def display(self) -> Document:
        return Document(title_at("states", self.checkpoint), (), [self.grid()])


@dataclass(frozen=True)
class StateEntry:
    """What a state has for a key.

    Args:
        key: typed.
        state: name; ``(event time timers)`` or ``(processing time timers)`` of timers.
        namespace: text of the window; None where the state has none.
        value: typed; of a list state a list, of a map state a mapping, of a timer its time in epoch milliseconds.
    """

    operator: str
    state: str
    key: Any
    namespace: str | None
    value: Any


@dataclass(frozen=True)
class Miss:
    """What there is instead of a key that is not there.

    Args:
        operator: uid.
        key_type: name of the declared type of its keys.
        nearest: the few that are most like the one that was asked for.
    """

    operator: str
    key_type: str
    keys: int
    nearest: tuple[Any, ...]


@dataclass(frozen=True, repr=False)
class EntriesAt(Displayed):
    """A page of the entries at a checkpoint.

    Args:
        total: how many there are in all.
        withheld: (operator, state) to the reason why it is left out.
        missed: where a key was asked for and nothing has it: one for each operator. Nothing where keys are withheld.
    """

    checkpoint: Checkpoint
    entries: tuple[StateEntry, ...]
    total: int
    withheld: dict[StateId, str]
    missed: tuple[Miss, ...] = ()

    def grid(self) -> Grid:
        """A row for each entry."""
        namespaced = any(entry.namespace is not None for entry in self.entries)
        columns = ("operator", "state", "key", *(["namespace"] if namespaced else []), "value")
        rows = [
            (
                e.operator,
                e.state,
                Literal(e.key),
                *([e.namespace or ""] if namespaced else []),
                value_cell("timer" if e.state in TIMER_STATES.values() else "", e.value),
            )
            for e in self.entries
        ]
        return Grid(columns, rows, self.total)

    def display(self) -> Document:
        facts = [f"{state!r} of {uid!r} {why}" for (uid, state), why in self.withheld.items()]
        for miss in self.missed:
            near = ", ".join([shown(each) for each in miss.nearest]) or "none"
            facts.append(f"no such key: those of {miss.operator!r} are {miss.key_type}, the nearest: {near}")
        title = f"{title_at('entries', self.checkpoint)}: {self.total:,}"
        return Document(title, facts, [self.grid()])


@read_again
def states_at(path: str, at: At = None, *, allow_pickle: bool = False, counts: bool = True) -> StatesAt:
    """Which states there are at a point.

    Args:
        allow_pickle: count keys of states with pickled values, too, which loads them.
        counts: count keys, which folds the log; without, only the checkpoint's row is read.

    Raises:
        RestoreError: there is no such checkpoint, or it was truncated.
        CorruptChangelogError: a file is missing or damaged.
    """
    ledger, checkpoint = open_point(path, at)
    folded = fold_at(ledger, checkpoint, allow_pickle=allow_pickle) if counts else None
    found = []
    for operator in checkpoint.operators:
        for described in operator.states:
            summary = summary_of(operator, described)
            if folded is not None:
                name = (summary.operator, summary.state)
                withheld = folded.withheld.get(name)
                keys = None if withheld is not None else len(folded.states[name])
                summary = replace(summary, keys=keys, withheld=withheld)
            found.append(summary)
        if folded is not None:
            for each, domain in TIMER_DOMAINS.items():
                name = (operator.uid, TIMER_STATES[each])
                timers = folded.timers.get((operator.uid, domain))
                if timers is not None or name in folded.withheld:
                    count = None if timers is None else len(timers)
                    found.append(
                        StateSummary(
                            *name, "timer", count, key_name(operator), withheld=folded.withheld.get(name)
                        )
                    )
    return StatesAt(checkpoint, tuple(found))


@read_again
def entries_at(
    path: str,
    at: At = None,
    *,
    operator: str | None = None,
    state: str | None = None,
    key: str | None = None,
    allow_pickle: bool = False,
    first: int = 0,
    limit: int | None = None,
) -> EntriesAt:
    """Entries of states at a point.

    Args:
        operator: only of the one with this uid.
        state: only the one of this name. Timers are there where it is theirs, such as ``(event time timers)``.
        key: only this key, as text: see ``values.key_identities``. Only files that can hold its key group are read.
        allow_pickle: load pickled values, which runs what is in them.
        first: how many entries to pass over.
        limit: the most that the page has; None for all.

    Raises:
        RestoreError: there is no such checkpoint, operator or state; the error suggests the closest match.
        CorruptChangelogError: a file is missing or damaged.
        ConfigurationError: ``first`` or ``limit`` is below 0.
    """
    whole_number(first, "first", 0)
    if limit is not None:
        whole_number(limit, "limit", 0)
    ledger, checkpoint = open_point(path, at)
    check_names(checkpoint, operator, state, timers=True)
    missed: tuple[Miss, ...] = ()
    withheld: dict[StateId, str] = {}
    if key is None:
        operators = None if operator is None else frozenset([operator])
        folded = fold_at(ledger, checkpoint, allow_pickle=allow_pickle, operators=operators, state=state)
        entries, withheld = _entries(folded, state), folded.withheld
    else:
        entries = []
        for described in _keyed(checkpoint, operator, state):
            entries += _of_key(ledger, checkpoint, described, state, key, allow_pickle, withheld)
        if not entries:
            folded = fold_at(ledger, checkpoint, allow_pickle=allow_pickle, state=state)
            there = [e for e in _entries(folded, state) if operator in (None, e.operator)]
            entries = [e for e in there if _is_written(e.key, key)]
            withheld = {name: why for name, why in folded.withheld.items() if operator in (None, name[0])}
            if not entries and OBJECT_KEYS not in withheld.values():  # which may be it
                missed = tuple(_miss(each, there, key) for each in _keyed(checkpoint, operator, state))
    last = len(entries) if limit is None else first + limit
    return EntriesAt(checkpoint, tuple(entries[first:last]), len(entries), dict(withheld), missed)


def title_at(what: str, checkpoint: Checkpoint) -> str:
    """What stands above an answer about a checkpoint."""
    return f"{what} at checkpoint {checkpoint.id}, attempt {checkpoint.attempt}"


def summary_of(operator: DescribedOperator, described: DescribedState) -> StateSummary:
    """What a checkpoint says of a state; how many keys it has is not known from that."""
    map_key = map_key_type_of(described)
    return StateSummary(
        operator.uid,
        described.name,
        described.kind,
        None,
        key_name(operator),
        value_type=user_type(described).name,
        map_key_type=None if map_key is None else map_key.name,
        window=described.namespace,
        ttl_ms=described.ttl_ms,
    )


def key_name(operator: DescribedOperator) -> str:
    """The name of the declared type of an operator's keys."""
    return declared_name(key_type_of(operator))


def no_such_key(key: str, operators: Iterable[DescribedOperator]) -> RestoreError:
    """The error of a key that none of the operators can have.

    Args:
        key: as messages show it.
    """
    types = ", ".join([f"{each.uid!r}: {key_name(each)}" for each in operators])
    return RestoreError(f"{key} is not a key of any operator; their keys are: {types}")


def _keyed(checkpoint: Checkpoint, operator: str | None, state: str | None) -> list[DescribedOperator]:
    return [
        found
        for found in keyed_operators(checkpoint.operators)
        if operator in (None, found.uid)
        and (
            any(state in (None, described.name) for described in found.states)
            or state in TIMER_STATES.values()
        )
    ]


def _of_key(
    ledger: Ledger,
    checkpoint: Checkpoint,
    described: DescribedOperator,
    state: str | None,
    key: str,
    allow_pickle: bool,
    withheld: dict[StateId, str],
) -> list[StateEntry]:
    """The entries of a key in one operator: one key group is read."""
    found = []
    identities = key_identities(key, key_type_of(described))
    groups = {key_group(identity, described.max_parallelism) for identity in identities}
    for group in sorted(groups):
        folded = fold_at(
            ledger,
            checkpoint,
            allow_pickle=allow_pickle,
            key_groups=range(group, group + 1),
            operators=frozenset([described.uid]),
            state=state,
        )
        withheld.update(folded.withheld)
        found += _entries(folded, state, identities)
    return found


def _entries(folded: FoldedState, state: str | None, identities: list[Any] | None = None) -> list[StateEntry]:
    """All entries of states, or those of some keys; timers, as they will fire, where ``state`` is their name."""
    wanted = None if identities is None else frozenset(identities)
    found = [
        StateEntry(uid, name, *entry)
        for (uid, name), entries in folded.states.items()
        for entry in entries.spread()
        if wanted is None or entries.codec.identity(entry[0]) in wanted
    ]
    for operator in folded.checkpoint.operators:
        codec = key_codec_for(key_type_of(operator))
        namespaced = any(each.namespace is not None for each in operator.states)
        for domain in [each for each, shown_name in TIMER_STATES.items() if shown_name == state]:
            timers = folded.timers.get((operator.uid, TIMER_DOMAINS[domain]), [])
            for time, entry in sorted(timers, key=itemgetter(0)):
                key, window = entry if namespaced else (entry, None)
                if wanted is None or codec.identity(key) in wanted:
                    found.append(StateEntry(operator.uid, TIMER_STATES[domain], key, window, time))
    return found


def _is_written(key: Any, text: str) -> bool:
    """Whether Python writes a key so; of an object, and of a number too long for it, it may not."""
    try:
        return text in (repr(key), str(key))
    except Exception:
        return False


def _miss(described: DescribedOperator, entries: list[StateEntry], key: str) -> Miss:
    keys = {shown(entry.key, sys.maxsize): entry.key for entry in entries if entry.operator == described.uid}
    return Miss(described.uid, key_name(described), len(keys), tuple(nearest(keys.values(), key)))
