"""Two sets of log rows, recorded and replayed, compared state by state and key by key.

Invariants:
    * Rows of a key are compared in their order; rows of different keys in any.
    * What the engine keeps account of by itself (windows' timers, and which windows have merged) is compared by its net
      changes: what comes and goes within a checkpoint need not be in a log.
    * Values are compared as they are in the log; where only their pickles or the times of a time to live differ, as objects.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from changelog_engine.changelog.fold import group_by_state
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.codec.canonical import canonical_text
from changelog_engine.errors import ChangelogEngineError, ConfigurationError
from changelog_engine.graph.descriptions import (
    DescribedOperator,
    key_type_of,
    keyed_operators,
    map_key_type_of,
)
from changelog_engine.graph.nodes import StateId, StateKind, StateSpec
from changelog_engine.nearest import named
from changelog_engine.operators.windows_merging import MERGING_WINDOWS
from changelog_engine.replay.log_rows import Mutation, mutations_of
from changelog_engine.state.backend import TIMER_DOMAINS, TIMER_STATES
from changelog_engine.state.mutation_log import DELETE_TIMER, PUT, REGISTER_TIMER, REMOVE
from changelog_engine.state.ttl import TimedType, user_type
from changelog_engine.types import Row, TypeInformation
from changelog_engine.types.foreign import fields_of
from changelog_engine.types.row import field_names_of, values_of
from changelog_engine.types.typeinfo import shown

_OF_THE_ENGINE = frozenset((*TIMER_DOMAINS, MERGING_WINDOWS))
_COMPARED = ("key", "namespace", "map_key", "operation", "value", "payload")
# What is written down differs where the value does.
_WRITTEN = frozenset(
    (
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        bytearray,
        Decimal,
        datetime,
        time,
        set,
        frozenset,
        np.ndarray,
    )
)


@dataclass(frozen=True)
class Difference:
    """What the log has for one key of one state, and what the replay gave.

    Args:
        operator: uid of the operator.
        state: the state's name; ``(event time timers)`` or ``(processing time timers)`` for timers.
        namespace: in state of windows, the window's text.
        checkpoint: with which the mutations were logged; None for the final state.
        recorded: the log's mutations of the key; of the final state, its live entries as puts and appends.
    """

    operator: str
    state: str
    key: Any
    namespace: str | None
    checkpoint: int | None
    recorded: list[Mutation]
    replayed: list[Mutation]

    def __str__(self) -> str:
        window = "" if self.namespace is None else f", window {self.namespace}"
        where = "final state" if self.checkpoint is None else f"checkpoint {self.checkpoint}"
        head = f"{where}: {self.state!r} of {self.operator!r}, key {shown(self.key)}{window}"
        recorded, replayed = self.sides()
        if self.checkpoint is None:
            return f"{head}\n  recorded: {recorded}\n  replayed: {replayed}"
        at = self._first()
        before = "" if at == 0 else f"\n  before:   {_words(self.recorded[at - 1])}"
        number = f"mutation {at + 1} of {len(self.recorded)} recorded and {len(self.replayed)} replayed"
        return f"{head}: {number}{before}\n  recorded: {recorded}\n  replayed: {replayed}"

    def sides(self) -> tuple[str, str]:
        """What was recorded and what was replayed, in words: the first mutation that differs, or the live entries."""
        if self.checkpoint is None:
            return _entries(self.recorded), _entries(self.replayed)
        at = self._first()
        one, other = [_words(side[at] if at < len(side) else None) for side in (self.recorded, self.replayed)]
        return one, other

    def _first(self) -> int:
        """The place of the first mutation that differs."""
        pairs = list(itertools.zip_longest(self.recorded, self.replayed))
        return next(
            (index for index, (one, other) in enumerate(pairs) if not _same(one, other)), len(pairs) - 1
        )


class StateTypes(NamedTuple):
    """What is needed to read rows: states as they are stored, and the types of operators' keys."""

    specs: dict[StateId, StateSpec]
    keys: dict[str, TypeInformation | None]


def types_of(operators: list[DescribedOperator]) -> StateTypes:
    """The types that a checkpoint describes."""
    specs: dict[StateId, StateSpec] = {}
    keys: dict[str, TypeInformation | None] = {}
    for operator in operators:
        keys[operator.uid] = key_type_of(operator)
        for state in operator.states:
            value_type = user_type(state)
            specs[operator.uid, state.name] = StateSpec(
                state.name,
                StateKind(state.kind),
                value_type if state.ttl_ms is None else TimedType(value_type),
                map_key_type_of(state),
            )
    return StateTypes(specs, keys)


def states_named(names: Iterable[str], operators: Sequence[DescribedOperator]) -> frozenset[StateId]:
    """The states and domains of timers that names mean, each of one operator (``count.total``) or of all (``total``).

    Raises:
        ConfigurationError: there is no such state.
    """
    known: dict[str, set[StateId]] = {}
    for operator in keyed_operators(operators):
        uid = operator.uid
        timers = {shown_name: domain for domain, shown_name in TIMER_STATES.items()}
        for shown_name, state in (timers | {each.name: each.name for each in operator.states}).items():
            for name in (shown_name, f"{uid}.{shown_name}"):
                known.setdefault(name, set()).add((uid, state))
    found: set[StateId] = set()
    for name in names:
        if name not in known:
            raise ConfigurationError(named("state", name, known))
        found |= known[name]
    return frozenset(found)


def differences(
    recorded: Iterable[pa.Table],
    replayed: Iterable[pa.Table],
    recorded_types: StateTypes,
    replayed_types: StateTypes,
    checkpoint: int | None,
    left_out: frozenset[StateId] = frozenset(),
) -> list[Difference]:
    """Every key whose rows differ, by operator and state.

    Args:
        checkpoint: of both; None for the rows of final states, where the order of a map's entries does not matter.
        left_out: states, or domains of timers, that are not compared.
    """
    ours, theirs = group_by_state(recorded), group_by_state(replayed)
    found: list[Difference] = []
    for name in sorted((ours.keys() | theirs.keys()) - left_out):
        one = _ordered(ours.get(name, []), checkpoint is None)
        other = _ordered(theirs.get(name, []), checkpoint is None)
        if checkpoint is not None and not one.equals(other):
            one, other = _net(one), _net(other)
        if not one.equals(other):
            found.extend(_by_key(name, one, other, recorded_types, replayed_types, checkpoint))
    return found


def _ordered(tables: list[pa.Table], final: bool) -> pa.Table:
    """The compared columns of a state's rows, keys together, rows of a key in order."""
    fields = [*("operator", "state"), *_COMPARED]
    schema = pa.schema([pa.field(name, SCHEMA.field(name).type) for name in fields])
    table = (
        pa.concat_tables([t.select(fields).cast(schema) for t in tables]) if tables else schema.empty_table()
    )
    table = table.append_column("order", pa.array(range(table.num_rows), pa.int64()))
    keys = ["key", "namespace", *(["map_key"] if final else []), "order"]
    return table.sort_by([(name, "ascending") for name in keys]).drop_columns("order").combine_chunks()


_ADDS = frozenset((REGISTER_TIMER, PUT))
_REMOVES = frozenset((DELETE_TIMER, REMOVE))


def _net(table: pa.Table) -> pa.Table:
    """Net changes of windows' timers or of the map of merging windows: what was removed, sorted, before what was added."""
    name = table["state"][0].as_py() if table.num_rows else None
    if name not in _OF_THE_ENGINE:
        return table
    operations = table["operation"].to_pylist()
    if not _ADDS.union(_REMOVES).issuperset(operations):
        return table
    keys, namespaces = table["key"].to_pylist(), table["namespace"].to_pylist()
    entries = table["map_key" if name == MERGING_WINDOWS else "value"].to_pylist()
    if name != MERGING_WINDOWS and None in namespaces:
        return table  # timers of functions: each is there
    places = list(zip(keys, namespaces, entries, strict=True))
    last = {place: index for index, place in enumerate(places)}
    first: dict[Any, str] = {}
    for place, operation in zip(places, operations, strict=True):
        first.setdefault(place, operation)
    groups: dict[Any, int] = {}
    kept = []
    for place, index in sorted(last.items(), key=lambda item: item[1]):
        adds = operations[index] in _ADDS
        if adds or first[place] in _REMOVES:
            order = (index, "") if adds else (-1, place[2])  # in which entries go has no meaning
            kept.append((groups.setdefault(place[:2], len(groups)), *order, index))
    return table.take(pa.array([index for *_, index in sorted(kept)], pa.int64())).combine_chunks()


def _by_key(
    name: StateId,
    one: pa.Table,
    other: pa.Table,
    ours: StateTypes,
    theirs: StateTypes,
    checkpoint: int | None,
) -> list[Difference]:
    recorded, replayed = _ranges(one), _ranges(other)
    found = []
    for key in dict.fromkeys([*recorded, *replayed]):
        left, right = one.slice(*recorded.get(key, (0, 0))), other.slice(*replayed.get(key, (0, 0)))
        if left.equals(right):
            continue
        mutations = [
            mutations_of(table, types.specs, types.keys.get(name[0]))
            for table, types in ((left, ours), (right, theirs))
        ]
        if len(mutations[0]) == len(mutations[1]) and all(
            _same(*pair) for pair in zip(*mutations, strict=True)
        ):
            continue
        first = next(mutation for mutation in (*mutations[0], *mutations[1]))
        state = TIMER_STATES.get(name[1], name[1])
        found.append(Difference(name[0], state, first.key, key[1], checkpoint, mutations[0], mutations[1]))
    return found


def _ranges(table: pa.Table) -> dict[tuple[str, str | None], tuple[int, int]]:
    """(key, namespace) to where its rows begin and how many there are."""
    names = list(zip(table["key"].to_pylist(), table["namespace"].to_pylist(), strict=True))
    found = {}
    begin = 0
    for name, group in itertools.groupby(names):
        count = sum(1 for _ in group)
        found[name] = (begin, count)
        begin += count
    return found


def _same(one: Mutation | None, other: Mutation | None) -> bool:
    if one is None or other is None:
        return one is other
    if one[:3] != other[:3] or one.namespace != other.namespace:
        return False
    return _equal(one.map_key, other.map_key) and _equal(one.value, other.value)


def _equal(one: Any, other: Any) -> bool:
    """Alike when written down, or equal and of one class, and so all parts: 1, 1.0 and True are three values."""
    with suppress(ChangelogEngineError, TypeError, ValueError):
        if canonical_text(one) == canonical_text(other):
            return True
    kind = type(one)
    if kind is not type(other) or kind in _WRITTEN:
        return False
    try:
        parts = _parts(one), _parts(other)
        if parts[0] is None or parts[1] is None:
            return bool(one == other)
        return parts[0].keys() == parts[1].keys() and all(
            _equal(part, parts[1][at]) for at, part in parts[0].items()
        )
    except (ChangelogEngineError, TypeError, ValueError):
        return False


def _parts(value: Any) -> dict[Any, Any] | None:
    """What a value is made of, by its places; None for what has an equality of its own."""
    kind = type(value)
    if kind is list or isinstance(value, tuple):
        return dict(enumerate(value))
    if kind is dict:
        return {canonical_text(key): item for key, item in value.items()}
    if kind is Row:
        names = field_names_of(value)
        kinds = {"kind": value.get_row_kind(), "names": names and tuple(names)}
        return {**kinds, **dict(enumerate(values_of(value)))}
    return fields_of(value, compared=True)


def _words(mutation: Mutation | None) -> str:
    if mutation is None:
        return "nothing"
    words = [mutation.operation]
    if mutation.map_key is not None:
        words.append(f"[{shown(mutation.map_key)}]")
    if mutation.value is not None or mutation.operation in ("put", "append", "replace"):
        words.append(shown(mutation.value))
    return " ".join(words)


def _entries(mutations: list[Mutation]) -> str:
    """Live entries as a value, a list or a map would show them."""
    if not mutations:
        return "nothing"
    entries = [
        shown(m.value) if m.map_key is None else f"{shown(m.map_key)}: {shown(m.value)}"
        for m in mutations[:20]
    ]
    more = f", and {len(mutations) - 20} more" if len(mutations) > 20 else ""
    single = len(mutations) == 1 and mutations[0].operation == "put" and mutations[0].map_key is None
    return entries[0] if single else f"[{', '.join(entries)}{more}]"
