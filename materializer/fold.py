"""The fold: the state at a checkpoint, out of the changelog alone.

Invariant: ``state_at(path, n)`` is the fold of the lineage of checkpoint n, never of all rows up to it; it equals what the
job held when checkpoint n was taken.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from changelog_engine.changelog.model import Checkpoint, RestorePoint
from changelog_engine.changelog.part_reader import read_parts
from changelog_engine.changelog.replay import fill_state, group_by_state, timers_of
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.codec.canonical import refusing_objects
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import ConfigurationError, RestoreError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state.backend import EVENT_TIMERS, PROCESSING_TIMERS
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.filesystem import Storage
from changelog_engine.types import type_from_spec

_ALL_KEY_GROUPS = range(32_768)


@dataclass(frozen=True)
class FoldedState:
    """Every keyed state of a job at one checkpoint.

    Args:
        checkpoint: the checkpoint.
        states: (operator uid, state name) to {key: value}; a list state's value is a list, a map state's a dict, an
            aggregating state's its accumulator.
        timers: (operator uid, "event time" or "processing time") to [(timestamp in ms, key)] in order of registration.
    """

    checkpoint: Checkpoint
    states: dict[tuple[str, str], dict[Any, Any]] = field(default_factory=dict)
    timers: dict[tuple[str, str], list[tuple[int, Any]]] = field(default_factory=dict)


def state_at(table: str, checkpoint_id: int | None = None, *, allow_pickle: bool = False) -> FoldedState:
    """Fold a job's changelog up to a checkpoint.

    Args:
        table: the job's ``changelog`` folder or URI.
        checkpoint_id: which checkpoint; None for the newest.
        allow_pickle: load values that only pickle could carry. Loading a pickle runs what is in it: do so only for tables
            that your own jobs wrote.

    Returns:
        The state.

    Raises:
        RestoreError: there is no such checkpoint.
        ConfigurationError: there are pickled values and allow_pickle is False.
        NotSerializableError: there are keys that are objects and allow_pickle is False.
        CorruptChangelogError: a file is missing or damaged.

    Example:
        >>> state = state_at("changelog-data/count/changelog")  # doctest: +SKIP
        >>> state.states["count", "n"]["a"]  # doctest: +SKIP
        3
    """
    with contextlib.nullcontext() if allow_pickle else refusing_objects():
        return _state_at(table, checkpoint_id, allow_pickle)


def _state_at(table: str, checkpoint_id: int | None, allow_pickle: bool) -> FoldedState:
    lineage = Lineage(DeltaLog(Storage(table)))
    checkpoint = lineage.newest_checkpoint() if checkpoint_id is None else lineage.checkpoint(checkpoint_id)
    if checkpoint is None:
        raise RestoreError(f"there is no checkpoint in {table} yet")
    point = RestorePoint(table, checkpoint.id, checkpoint.lineage, checkpoint.snapshot)
    pending = group_by_state(read_parts(point, _ALL_KEY_GROUPS))
    folded = FoldedState(checkpoint)
    for operator in checkpoint.operators:
        key_type = None if operator.get("key_type") is None else type_from_spec(operator["key_type"])
        for described in operator.get("states", ()):
            name = (operator["uid"], described["name"])
            tables = pending.pop(name, [])
            _check_pickles(tables, name, allow_pickle)
            folded.states[name] = _fold(tables, described, key_type)
        for domain, words in ((EVENT_TIMERS, "event time"), (PROCESSING_TIMERS, "processing time")):
            tables = pending.pop((operator["uid"], domain), [])
            if tables:
                _check_pickles(tables, (operator["uid"], words), allow_pickle)
                key_of = key_codec_for(key_type).key_of
                timers = [
                    (timestamp, key_of(identity)) for timestamp, identity in timers_of(tables, key_type)
                ]
                folded.timers[operator["uid"], words] = timers
    return folded


def _fold(tables: list[pa.Table], described: dict[str, Any], key_type: Any) -> dict[Any, Any]:
    map_key = described.get("map_key_type")
    spec = StateSpec(
        described["name"],
        StateKind(described["kind"]),
        type_from_spec(described["value_type"]),
        None if map_key is None else type_from_spec(map_key),
    )
    entries: dict[Any, Any] = {}
    fill_state(tables, spec, key_type, entries)
    keys = key_codec_for(key_type)
    if spec.kind is not StateKind.MAP:
        return {_hashable(keys.key_of(identity)): value for identity, value in entries.items()}
    map_keys = key_codec_for(spec.map_key_type)
    return {
        _hashable(keys.key_of(identity)): {_hashable(map_keys.key_of(k)): v for k, v in entry.items()}
        for identity, entry in entries.items()
    }


def _hashable(key: Any) -> Any:
    """The key itself where a dict can hold it, else its text."""
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


def _check_pickles(tables: list[pa.Table], name: tuple[str, str], allowed: bool) -> None:
    if not allowed and any(table["payload"].null_count < table.num_rows for table in tables):
        raise ConfigurationError(
            f"state {name[1]!r} of operator {name[0]!r} holds pickled values, and loading a pickle runs what is in it: "
            "pass allow_pickle=True if this table was written by your own job"
        )
