"""Live state as log rows: what a full snapshot holds. The rows are puts, appends and timer registrations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.changelog.rows import LogColumns
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.errors import StateTooLargeError
from changelog_engine.event_time import NO_TIMESTAMP
from changelog_engine.graph.nodes import StateId, StateKind, StateSpec
from changelog_engine.state import mutation_log
from changelog_engine.state.backend import StateTable, TimerTable
from changelog_engine.types import TypeInformation

_CHUNK = 131_072
_DATA = ("key", "namespace", "map_key", "value", "payload")


def snapshot_columns(
    tables: Mapping[StateId, StateTable],
    timers: Mapping[StateId, TimerTable],
    specs: dict[StateId, StateSpec],
    key_type: TypeInformation | None,
    max_parallelism: int,
    namespaces: dict[StateId, NamespaceCodec],
) -> Iterator[LogColumns]:
    """Every live entry as columns of the changelog, in chunks.

    Args:
        tables: of the states, by (operator, state).
        timers: tables of timers, by (operator, domain).
        namespaces: codecs of those states and timer queues that are namespaced.
    """
    scratch = ChangelogBuffer(key_type, False, max_parallelism)
    for (operator, name), spec in specs.items():
        log = scratch.log_of(operator, spec, namespaces.get((operator, name)))
        for entry in _entries(tables[operator, name].items(), spec.kind):
            log.record(*entry)
            if len(log.keys) >= _CHUNK:
                yield from scratch.drain()
        yield from scratch.drain()
    for (operator, domain), table in timers.items():
        log = scratch.timer_log(operator, domain, namespaces.get((operator, domain)))
        for timestamp, key in table:
            log.record(key, timestamp, mutation_log.REGISTER_TIMER)
        yield from scratch.drain()


class StateSizes:
    """Adds up the states of a full snapshot and refuses one of more bytes than a bound; None for none."""

    def __init__(self, bound: int | None) -> None:
        self._bound = bound
        self._bytes: dict[StateId, int] = {}

    def add(self, rows: LogColumns) -> None:
        """Some rows of a state.

        Raises:
            StateTooLargeError: the state is larger than the bound now.
        """
        if self._bound is None:
            return
        name, columns = rows.name, rows.columns
        size = self._bytes.get(name, 0) + sum(
            columns[data].nbytes for data in _DATA if columns.get(data) is not None
        )
        self._bytes[name] = size
        if size > self._bound:
            raise StateTooLargeError(
                f"state {name[1]!r} of operator {name[0]!r} has {size} bytes or more in one subtask, and "
                f"JobManagerCheckpointStorage allows {self._bound}: use FileSystemCheckpointStorage, turn the changelog on, "
                "or give JobManagerCheckpointStorage a larger max_state_size"
            )


def _entries(items: Any, kind: StateKind) -> Iterator[tuple[Any, ...]]:
    """What ``MutationLog.record`` takes of every entry."""
    for key, entry in items:
        if kind is StateKind.LIST:
            for value in entry:
                yield key, value, mutation_log.APPEND
        elif kind is StateKind.MAP:
            for map_key, value in entry.items():
                yield key, value, mutation_log.PUT, NO_TIMESTAMP, map_key
        else:
            yield key, entry, mutation_log.PUT
