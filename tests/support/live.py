"""The state that subtasks hold, as plain data, and the state that the log describes, in the same form.

Both are ``{(operator, state): {exact(key): value}}``; timers are ``{(operator, domain): [(timestamp, exact(key))]}`` in the
order of registration. Keys are pictures (``support.same.exact``), because 1, 1.0 and True are three keys.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any
from unittest import mock

from changelog_engine.changelog.fold import fill_state, group_by_state, timers_of
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.graph.descriptions import DescribedState, key_type_of, map_key_type_of
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.reading import read_parts
from changelog_engine.operators.messages import EpochOrder
from changelog_engine.operators.store import KeyedStore
from changelog_engine.state.backend import EVENT_TIMERS, PROCESSING_TIMERS
from changelog_engine.types import type_from_spec
from support.same import exact

State = dict[tuple[str, str], Any]
TIMERS = (EVENT_TIMERS, PROCESSING_TIMERS)


def decoded_table(entries: Any, spec: StateSpec, key_type: Any) -> dict[Any, Any]:
    """A state table by pictures of its keys."""
    keys = key_codec_for(key_type)
    if spec.kind is not StateKind.MAP:
        return {exact(keys.key_of(identity)): copy.deepcopy(entry) for identity, entry in entries.items()}
    map_keys = key_codec_for(spec.map_key_type)
    return {
        exact(keys.key_of(identity)): [(map_keys.key_of(k), copy.deepcopy(v)) for k, v in entry.items()]
        for identity, entry in entries.items()
    }


def live_state(store: KeyedStore) -> State:
    """What a subtask holds now."""
    state: State = {}
    for (operator, name), spec in store.specs.items():
        state[operator, name] = decoded_table(store.tables[operator, name], spec, store.key_type)
    key_of = key_codec_for(store.key_type).key_of
    for name, timers in store.timer_tables.items():
        state[name] = [(timestamp, exact(key_of(key))) for timestamp, key in timers]
    return state


def logged_state(base: str, name: str = "job", checkpoint: int | None = None) -> State:
    """What a restore of a checkpoint (None: the newest) would give, over all key groups."""
    folder = find_job_folder(base, name)
    lineage = Lineage(folder.open_changelog())
    row = lineage.newest_checkpoint() if checkpoint is None else lineage.checkpoint(checkpoint)
    assert row is not None
    pending = group_by_state(read_parts(plan_restore(folder, row), range(32_768)))
    state: State = {}
    for operator in row.operators:
        key_type = key_type_of(operator)
        for described in operator.states:
            spec = spec_of(described)
            table: dict[Any, Any] = {}
            fill_state(pending.pop((operator.uid, spec.name), []), spec, key_type, table)
            state[operator.uid, spec.name] = decoded_table(table, spec, key_type)
        for domain in TIMERS:
            tables = pending.pop((operator.uid, domain), [])
            key_of = key_codec_for(key_type).key_of
            timers = [(at, exact(key_of(key))) for at, key in timers_of(tables, key_type)]
            state[operator.uid, domain] = timers
    assert not pending, f"rows of states that the checkpoint doesn't know: {list(pending)}"
    return without_empty(state)


def spec_of(described: DescribedState) -> StateSpec:
    """A state's spec out of a checkpoint's row."""
    return StateSpec(
        described.name,
        StateKind(described.kind),
        type_from_spec(described.value_type),
        map_key_type_of(described),
    )


def merged(states: list[State]) -> State:
    """The states of all subtasks as one. Timers keep their order within a subtask only, so they are sorted."""
    whole: State = {}
    for state in states:
        for name, entries in state.items():
            if isinstance(entries, dict):
                target = whole.setdefault(name, {})
                assert not target.keys() & entries.keys(), f"two subtasks hold the same key of {name}"
                target.update(entries)
            else:
                whole.setdefault(name, []).extend(entries)
    return without_empty(whole)


def without_empty(state: State) -> State:
    """Without tables that hold nothing; timers sorted."""
    return {
        name: entries if isinstance(entries, dict) else sorted(entries)
        for name, entries in state.items()
        if entries
    }


class LiveStates:
    """What all subtasks held at each barrier: ``{(attempt, checkpoint): {(stage, subtask): state}}``."""

    def __init__(self) -> None:
        self.at: dict[tuple[int, int], dict[tuple[int, int], State]] = {}

    def of(self, attempt: int, checkpoint: int) -> State:
        """The job's state at a checkpoint."""
        return merged(list(self.at.get((attempt, checkpoint), {}).values()))

    @contextlib.contextmanager
    def watched(self) -> Iterator[LiveStates]:
        """Take notes at every barrier."""
        inner = KeyedStore.end_epoch

        def end_epoch(store: KeyedStore, order: EpochOrder) -> Any:
            if order.kind.barrier:
                held = self.at.setdefault((order.attempt, order.checkpoint_id), {})
                held[store.config.stage, store.config.subtask] = live_state(store)
            return inner(store, order)

        with mock.patch.object(KeyedStore, "end_epoch", end_epoch):
            yield self
