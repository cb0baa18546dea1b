"""The store of a traced replay: its logs and handles tell of each mutation and each read as it happens.

Invariants:
    * Values are those of the log: they are decoded from what the log would write, just before it forgets them.
    * Nothing here is reached by a running job: a replay has this store, and these logs and handles, in place of the others.
"""

from __future__ import annotations

import functools
import os
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from types import FrameType
from typing import Any

from changelog_engine.changelog.buffer import ChangelogBuffer, StateLog
from changelog_engine.changelog.row_filter import OfKeys
from changelog_engine.clock import WallClock
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.codec.values import codec_for
from changelog_engine.graph.key_groups import key_group
from changelog_engine.graph.nodes import StateId, StateSpec
from changelog_engine.operators.store import KeyedStore
from changelog_engine.operators.store_config import StoreConfig
from changelog_engine.provenance.result import CodeLine
from changelog_engine.provenance.trace import Event, Held, Step, Tracker
from changelog_engine.replay.log_rows import Mutation, user_value
from changelog_engine.state.backend import TIMER_STATES, StateBackend
from changelog_engine.state.compiled_handles import general
from changelog_engine.state.cursor import Cursor, NamespaceScope
from changelog_engine.state.factory import HandleFactory, OpenState
from changelog_engine.state.handles import (
    AggregatingHandle,
    CellHandle,
    CopyingCell,
    ListHandle,
    MapHandle,
    ReducingHandle,
)
from changelog_engine.state.mutation_log import APPEND, CLEAR, REMOVE, REPLACE
from changelog_engine.state.timers import TimerQueue, of_whole_ms
from changelog_engine.state.ttl import TtlStates
from changelog_engine.whose_code import is_ours

_HERE = os.path.dirname(os.path.abspath(__file__))
_engine_file = functools.cache(is_ours)
_INDEX = attrgetter("index")
_ALL = object()  # in the mutations of a map: those of all of it


class TracedStore(KeyedStore):
    """State of a subtask whose mutations and reads are told to a tracker.

    Args:
        config: see ``KeyedStore``.
        clock: wall clock in ms.
        backend: keeps the tables; None for one on the heap.
        tracker: of the replay. Of a key that it wants, only its own rows are restored.
    """

    def __init__(
        self, config: StoreConfig, clock: WallClock, backend: StateBackend | None, tracker: Tracker
    ) -> None:
        self._tracker = tracker
        wanted = tracker.keys.get(config.stage)
        only = None
        if wanted is not None:
            texts = key_codec_for(config.key_type).texts([wanted]).to_pylist()
            only = OfKeys(key_group(wanted, config.max_parallelism), texts)
        super().__init__(config, clock, backend, only)

    def _make_buffer(self) -> ChangelogBuffer:
        return _TracedBuffer(self.config, self._tracker)

    def _make_handles(self, logs: ChangelogBuffer | None) -> HandleFactory:
        if isinstance(logs, _TracedBuffer) and self._tracker.reads:
            return _TracedHandles(self.backend, self.cursor, logs, self.expiring)
        return super()._make_handles(logs)

    def timers(
        self, operator: str, domain: str, scope: NamespaceScope | None = None, net: bool = False
    ) -> TimerQueue:
        """An operator's timers, which fire one at a time."""
        queue = super().timers(operator, domain, scope, net)
        _trace_timers(queue, operator, domain, self._tracker)
        return queue


class _TracedBuffer(ChangelogBuffer):
    """The logs of all states of one subtask, which tell of each mutation, as it is made.

    Attributes:
        traced: the mutations of states that are not timers.
    """

    def __init__(self, config: StoreConfig, tracker: Tracker) -> None:
        super().__init__(config.key_type, config.timed, config.max_parallelism)
        self.traced: dict[StateId, TracedLog] = {}
        self._tracker = tracker
        self._wanted = tracker.keys.get(config.stage)

    def log_of(self, operator: str, spec: StateSpec, namespaces: NamespaceCodec | None = None) -> StateLog:
        log = super().log_of(operator, replace(spec, net=False), namespaces)
        self.traced[operator, spec.name] = TracedLog(self._tracker, log, spec, self._wanted)
        return log

    def timer_log(
        self, operator: str, domain: str, namespaces: NamespaceCodec | None = None, net: bool = False
    ) -> StateLog:
        log = super().timer_log(operator, domain, namespaces)
        TracedLog(self._tracker, log, None, self._wanted)
        return log


class _TracedHandles(HandleFactory):
    """Makes handles that tell of what is read through them."""

    def __init__(
        self, backend: StateBackend, cursor: Cursor, logs: _TracedBuffer, expiring: TtlStates
    ) -> None:
        super().__init__(backend, cursor, logs, expiring)
        self._traced = logs.traced

    def stored(self, state: OpenState) -> Any:
        handle = super().stored(state)
        _trace_reads(handle, self._traced[state.operator, state.spec.name])
        return handle


def _trace_timers(queue: Any, operator: str, domain: str, tracker: Tracker) -> None:
    """Remember who set a timer, and let timers fire one at a time: between two, ``taken`` is set to False."""
    pop_due, register, cursor, table = queue.pop_due, queue.register, queue._cursor, queue.table
    set_by: dict[Any, Step | None] = {}
    queue.taken = False

    def traced_pop(until: int) -> Any:
        timer = None if queue.taken else table.first()
        if timer is None or timer[0] > until:
            return None
        queue.taken = True
        step = Step(operator, timer[1], set_by.pop(timer, None), None, (domain, timer[0]))
        tracker.step = tracker.origin = step
        return pop_due(until)

    def traced_register(timestamp: int) -> None:
        timer = (timestamp, cursor.key)
        if timer not in table:
            set_by[timer] = tracker.step
        register(timestamp)

    def firing(until: int, told: Any = None) -> Iterator[Any]:
        return iter(functools.partial(traced_pop, until), None)  # drives our own code

    queue.firing, queue.register = firing, traced_register
    queue.setter = functools.partial(of_whole_ms, traced_register)


def _user_line() -> CodeLine | None:
    """The innermost line of code on the stack that is not the engine's, as far as the traced operator."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not _engine_file(file):
            if file.startswith("<") and not file.startswith(("<stdin", "<ipython", "<string")):
                frame = frame.f_back
                continue
            return CodeLine(file, frame.f_lineno, frame.f_code.co_name)
        if file.startswith(_HERE) and frame.f_code.co_name == "drive":
            return None
        frame = frame.f_back
    return None


class TracedLog:
    """The mutations of one state's log.

    Args:
        spec: the state; None for timers.
        wanted: identity of the only key that matters; None for all.
    """

    def __init__(self, tracker: Tracker, log: StateLog, spec: StateSpec | None, wanted: Any) -> None:
        self._tracker = tracker
        self._log = log
        self._spec = spec
        self._wanted = wanted
        self._keeps = wanted is not None or tracker.reads or tracker.keeps_all
        self._namespaced = log._namespaces is not None
        self._pending: list[Event] = []
        self._last: dict[Any, Any] = {}
        log.keys = _Keys(self)
        self._of_map = log.map_keys is not None
        self._explicit = log.operations is not None and spec is not None
        if self._explicit and tracker.reads:
            log.operations = _Operations(self)

    def note(self, key: Any, index: int) -> None:
        """A mutation of a key is being logged."""
        if not self._keeps or (
            self._wanted is not None and (key[0] if self._namespaced else key) != self._wanted
        ):
            return
        tracker = self._tracker
        event = Event(
            len(tracker.events) + 1, tracker.checkpoint, self._log.operator, self._log.state, key, index
        )
        step = event.step = tracker.step
        event.line = _user_line()
        if step is not None and step.reads:
            event.reads = tuple(step.reads)
        tracker.events.append(event)
        self._pending.append(event)
        if tracker.reads and not self._explicit:
            self._last[key] = event

    def note_operation(self, operation: str, index: int) -> None:
        """The operation of a mutation of a list or a map, whose key was logged before, perhaps with the keys of others."""
        at = bisect_left(self._pending, index, key=_INDEX)
        if at == len(self._pending) or self._pending[at].index != index:
            return
        event = self._pending[at]
        event.live = operation not in (REMOVE, CLEAR)
        if self._of_map:
            assert self._log.map_keys is not None
            if operation == CLEAR:
                self._last[event.key] = {_ALL: event}
            else:
                self._last.setdefault(event.key, {})[self._log.map_keys[index]] = event
        elif operation == APPEND:
            self._last.setdefault(event.key, []).append(event)
        else:
            self._last[event.key] = [event] if operation == REPLACE else []

    def settle(self) -> None:
        """The log forgets its mutations: decode those that are kept."""
        events, self._pending = self._pending, []
        if not events:
            return
        log, spec = self._log, self._spec
        at = [event.index for event in events]
        values: list[Any] = [log.values[index] for index in at]
        if spec is not None:
            codec = codec_for(spec.value_type)
            texts, payloads = codec.encode_many(values)
            values = [user_value(spec, value) for value in codec.decode_many(texts, payloads)]
        texts_of: list[Any] = [None] * len(at)
        if log._namespaces is not None:
            texts_of = log._namespaces.texts([event.key[1] for event in events]).to_pylist()
        for position, event in enumerate(events):
            plain = event.key[0] if self._namespaced else event.key
            operation, map_key = log.operation_of(event.index), None
            if log.map_keys is not None and log._map_codec is not None:
                identity = log.map_keys[event.index]
                map_key = None if operation == CLEAR else log._map_codec.key_of(identity)
            event.mutation = Mutation(
                TIMER_STATES.get(log.state, log.state),
                log._key_codec.key_of(plain),
                operation,
                values[position],
                map_key,
                texts_of[position],
            )

    def read(self, key: Any, found: bool) -> None:
        """The only value of a key was read."""
        event = self._last.get(key)
        if event is not None:
            self._note_reads([event])
        elif found:
            self._note_reads([self._held(key, None)])

    def read_list(self, key: Any, count: int) -> None:
        """The elements of a key were read."""
        events = self._last.get(key, [])
        self._note_reads([*([self._held(key, None)] if count > len(events) else []), *events])

    def read_entry(self, key: Any, map_key: Any, found: bool) -> None:
        """An entry of a key's map was read."""
        events = self._last.get(key, {})
        event = events.get(map_key) or events.get(_ALL)
        if event is not None:
            self._note_reads([event])
        elif found:
            self._note_reads([self._held(key, map_key)])

    def read_all(self, key: Any, count: int) -> None:
        """A key's map was read."""
        events = self._last.get(key, {})
        held = _ALL not in events and count > sum(event.live for event in events.values())
        self._note_reads([*([self._held(key, None)] if held else []), *events.values()])

    def _held(self, key: Any, map_key: Any) -> Held:
        return Held(self._log.operator, self._log.state, key, map_key)

    def _note_reads(self, found: Sequence[Any]) -> None:
        step = self._tracker.step
        if step is not None and found:
            if step.reads is None:
                step.reads = {}
            step.reads.update(dict.fromkeys(found))


class _Telling(list[Any]):
    """A column of a log that tells of each item."""

    def __init__(self, traced: TracedLog) -> None:
        super().__init__()
        self._traced = traced

    def extend(self, items: Any) -> None:
        for item in items:
            self.append(item)


class _Keys(_Telling):
    """The keys of a log's mutations."""

    def append(self, key: Any) -> None:
        super().append(key)
        self._traced.note(key, len(self) - 1)

    def clear(self) -> None:
        self._traced.settle()
        super().clear()


class _Operations(_Telling):
    """The operations of a log's mutations; what else there is of a mutation was logged before."""

    def append(self, operation: str) -> None:
        super().append(operation)
        self._traced.note_operation(operation, len(self) - 1)


class _TracedCell(CellHandle):
    _traced: TracedLog

    def value(self) -> Any:
        found = super().value()
        self._traced.read(self._cursor.key, found is not None)
        return found


class _TracedCopyingCell(_TracedCell, CopyingCell):
    pass


class _TracedList(ListHandle):
    _traced: TracedLog

    def get(self) -> list[Any]:
        found = super().get()
        self._traced.read_list(self._cursor.key, len(found))
        return found


class _TracedMap(MapHandle):
    _traced: TracedLog

    def get(self, map_key: Any) -> Any:
        found = super().get(map_key)
        self._traced.read_entry(self._cursor.key, self._identity(map_key), found is not None)
        return found

    def contains(self, map_key: Any) -> bool:
        found = super().contains(map_key)
        self._traced.read_entry(self._cursor.key, self._identity(map_key), found)
        return found

    def items(self) -> Iterator[tuple[Any, Any]]:
        self._read_all()
        return super().items()

    def keys(self) -> Iterator[Any]:
        self._read_all()
        return super().keys()

    def values(self) -> Iterator[Any]:
        self._read_all()
        return super().values()

    def is_empty(self) -> bool:
        self._read_all()
        return super().is_empty()

    def _read_all(self) -> None:
        self._traced.read_all(self._cursor.key, len(self._table.get(self._cursor.key) or ()))

    __getitem__ = get
    __contains__ = contains


_TRACED: dict[type, type] = {
    CellHandle: _TracedCell,
    CopyingCell: _TracedCopyingCell,
    ListHandle: _TracedList,
    MapHandle: _TracedMap,
}


def _trace_reads(handle: Any, traced: TracedLog) -> None:
    """From now on the handle of a state tells what is read through it."""
    general(handle)
    if isinstance(handle, (ReducingHandle, AggregatingHandle)):
        cell: CellHandle = handle.cell if isinstance(handle, ReducingHandle) else handle._cell
        _trace_reads(cell, traced)
        if isinstance(handle, ReducingHandle):
            handle._value = cell.value
        return
    reading = _TRACED.get(type(handle))
    if reading is not None:
        handle.__class__ = reading
        handle._traced = traced
