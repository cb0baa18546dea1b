"""What a traced replay knows while it runs: which record or timer is being processed, what it changed and what it read.

Invariants:
    * Exactly one invocation is under way while a user's function runs; a mutation belongs to the invocation in which it was
      logged, and mutations are numbered in the order in which they happened, whatever their state.
    * Values are those of the log: they are decoded from what the log would write, just before it forgets them.
    * Nothing here is reached by a running job: a replay puts these lists and handles where the ordinary ones would be.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import FrameType
from typing import Any, NamedTuple

from changelog_engine.changelog.buffer import StateLog
from changelog_engine.clock import Deadline, monotonic_s
from changelog_engine.codec.values import codec_for
from changelog_engine.graph.nodes import StateSpec
from changelog_engine.operators.failures import is_ours
from changelog_engine.provenance.result import CodeLine
from changelog_engine.replay.log_rows import TIMERS, Mutation, user_value
from changelog_engine.replay.source import same
from changelog_engine.state.compiled_handles import general
from changelog_engine.state.handles import (
    AggregatingHandle,
    CellHandle,
    CopyingCell,
    ListHandle,
    LoggingCell,
    MapHandle,
    ReducingHandle,
)
from changelog_engine.state.mutation_log import APPEND, CLEAR, REMOVE, REPLACE
from changelog_engine.types.copies import separate

_HERE = os.path.dirname(os.path.abspath(__file__))
_engine_file = functools.cache(is_ours)
_PATIENCE_S = 10.0
_INDEX = attrgetter("index")
_ALL = object()  # in the mutations of a map: those of all of it

Origin = Any
"""Where an element comes from: a RecordAt, a Step whose function gave it, a Via round one of these, or None."""


class SourceRange:
    """The elements of one read of a split. They are read again when somebody asks what one of them was.

    Args:
        source: uid of the source's operator.
        split: id of the split.
        reader: of the split, the source's own.
        begin, end: positions before and after the elements.
        count: how many there are.
    """

    def __init__(
        self, source: str, name: str, split: str, reader: Any, begin: Any, end: Any, count: int
    ) -> None:
        self.source, self.name, self.split = source, name, split
        self.begin, self.end = begin, end
        self._reader = reader
        self._count = count
        self._records: list[tuple[Any, Any]] | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> RecordAt:
        return RecordAt(self, index)

    def record(self, index: int) -> tuple[Any, Any]:
        """Position and value of an element; None for the value when the source gives it no more."""
        if self._records is None:
            self._records = self._read_again()
        if index < len(self._records):
            return self._records[index]
        return (self.begin + index if self._dense else None), None

    def _read_again(self) -> list[tuple[Any, Any]]:
        """Each position and element: at once where every element takes one position, else one read after the other."""
        at, dense = self.begin, self._dense
        found: list[tuple[Any, Any]] = []
        deadline = Deadline(_PATIENCE_S, monotonic_s)
        while len(found) < self._count:
            read = self._reader.read(at, self._count - len(found) if dense else 1)
            found += [(at + index if dense else at, value) for index, value in enumerate(read.values)]
            if not same(at, read.next):
                at, deadline = read.next, Deadline(_PATIENCE_S, monotonic_s)
            elif read.finished or deadline.passed:  # a source may have nothing to give for a while
                break
            else:
                time.sleep(0.001)
        return found

    @property
    def _dense(self) -> bool:
        """Whether every element takes one position."""
        return type(self.begin) is int and type(self.end) is int and self.end - self.begin == self._count


class RecordAt(NamedTuple):
    """One element of a range; a place of None stands for what a source gave to a side output."""

    read: SourceRange
    place: int | None


class Via(NamedTuple):
    """An element that came through operators without keyed state."""

    through: tuple[str, ...]
    origin: Origin


@dataclass(slots=True, eq=False)
class Step:
    """One call of a keyed function: for an element, or for a timer.

    Attributes:
        operator: uid.
        key: identity of the key; in windows' timers a pair with the window.
        origin: of the element; of a timer the Step that set it, None where that was before the replay.
        element: what the function got.
        timer: (domain, timestamp) of a timer.
        reads: the mutations and held entries that were read so far, in order.
    """

    operator: str
    key: Any
    origin: Origin
    element: Any
    timer: tuple[str, int] | None = None
    reads: dict[Any, None] | None = None


class Held(NamedTuple):
    """An entry that was there before the replay began, and was read."""

    operator: str
    state: str
    key: Any
    map_key: Any


@dataclass(slots=True, eq=False)
class Event:
    """One mutation.

    Attributes:
        number: from 1, in the order in which mutations happened.
        checkpoint: with which it was logged.
        operator, state: whose.
        key: as the log keeps it: an identity, or a pair with a namespace.
        step: what was under way; None for the engine's own, such as the end of a time to live.
        line: of the user's code that did it.
        reads: what the invocation had read until then.
        mutation: what happened; it is known when the log was written.
        live: of an entry of a map: it is there after it.
    """

    number: int
    checkpoint: int
    operator: str
    state: str
    key: Any
    index: int
    live: bool = True
    step: Step | None = None
    line: CodeLine | None = None
    reads: tuple[Any, ...] = ()
    mutation: Mutation | None = None


class OutputAt(NamedTuple):
    """An element that reached a sink."""

    sink: str
    value: Any
    timestamp: int | None
    through: tuple[str, ...]
    origin: Origin
    checkpoint: int


@dataclass(eq=False)
class Tracker:
    """What is going on in a traced replay.

    Args:
        keys: stage to the identity of the key whose mutations are kept; of stages that are not in it, all are.
        reads: whether reads of state are kept too.
        wants_output: (sink, value) -> whether an output is kept; None keeps none.
        keeps_all: mutations of stages without a wanted key are kept even when reads are not.
    """

    keys: dict[int, Any]
    reads: bool = False
    wants_output: Callable[[str, Any], bool] | None = None
    keeps_all: bool = False

    def __post_init__(self) -> None:
        self.step: Step | None = None
        self.origin: Origin = None  # of what an operator gives now
        self.given: Sequence[Origin] | SourceRange = ()  # of the batch that is pushed now
        self.path: tuple[str, ...] = ()  # of the batch: operators since the source or the last keyed one
        self.sent: dict[tuple[int, int, int], list[Origin]] = {}  # of the blocks under way
        self.checkpoint = 0
        self.events: list[Event] = []
        self.outputs: list[OutputAt] = []

    def take_output(self, sink: str, values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Elements have reached a sink."""
        wants = self.wants_output
        if wants is None:
            return
        for index, value in enumerate(values):
            if wants(sink, value):
                kept = separate([value])[0]
                time = None if times is None else int(times[index])
                self.outputs.append(OutputAt(sink, kept, time, self.path, self.given[index], self.checkpoint))


def user_line() -> CodeLine | None:
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


class Entries:
    """The mutations of one state's log.

    Args:
        tracker: of the replay.
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
        event.line = user_line()
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
                TIMERS.get(log.state, log.state),
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

    def __init__(self, entries: Entries) -> None:
        super().__init__()
        self._entries = entries

    def extend(self, items: Any) -> None:
        for item in items:
            self.append(item)


class _Keys(_Telling):
    """The keys of a log's mutations."""

    def append(self, key: Any) -> None:
        super().append(key)
        self._entries.note(key, len(self) - 1)

    def clear(self) -> None:
        self._entries.settle()
        super().clear()


class _Operations(_Telling):
    """The operations of a log's mutations; what else there is of a mutation was logged before."""

    def append(self, operation: str) -> None:
        super().append(operation)
        self._entries.note_operation(operation, len(self) - 1)


class _Traced(CellHandle):
    _entries: Entries

    def value(self) -> Any:
        found = super().value()
        self._entries.read(self._cursor.key, found is not None)
        return found


class _TracedCell(_Traced, LoggingCell):
    pass


class _TracedCopyingCell(_Traced, CopyingCell):
    pass


class _TracedList(ListHandle):
    _entries: Entries

    def get(self) -> list[Any]:
        found = super().get()
        self._entries.read_list(self._cursor.key, len(found))
        return found


class _TracedMap(MapHandle):
    _entries: Entries

    def get(self, map_key: Any) -> Any:
        found = super().get(map_key)
        self._entries.read_entry(self._cursor.key, self._identity(map_key), found is not None)
        return found

    def contains(self, map_key: Any) -> bool:
        found = super().contains(map_key)
        self._entries.read_entry(self._cursor.key, self._identity(map_key), found)
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
        self._entries.read_all(self._cursor.key, len(self._table.get(self._cursor.key) or ()))

    __getitem__ = get
    __contains__ = contains


_TRACED: dict[type, type] = {
    LoggingCell: _TracedCell,
    CopyingCell: _TracedCopyingCell,
    ListHandle: _TracedList,
    MapHandle: _TracedMap,
}


def trace_reads(handle: Any, entries: Entries) -> None:
    """From now on the handle of a state tells what is read through it."""
    general(handle)
    if isinstance(handle, (ReducingHandle, AggregatingHandle)):
        cell: CellHandle = handle.cell if isinstance(handle, ReducingHandle) else handle._cell
        trace_reads(cell, entries)
        if isinstance(handle, ReducingHandle):
            handle._value = cell.value
        return
    traced = _TRACED.get(type(handle))
    if traced is not None:
        handle.__class__ = traced
        handle._entries = entries
