"""The wrappers that a traced replay puts round the parts of a stage when the stage is built.

Invariants:
    * Operators see batches in the order and of the sizes that they would see: one that may give several elements, or none,
      for one is driven element by element, and what it gave for the batch is pushed on as the batch would have been, side
      outputs first.
    * Timers fire one by one, in their order.
    * An exchange keeps the origins of elements in the order of their block.
    * Of the stage of a wanted key only that key's elements and state are there; no other key's function is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from changelog_engine.clock import WallClock
from changelog_engine.errors import NotSupportedError, RestoreError
from changelog_engine.operators.base import Operator, UnionInput
from changelog_engine.operators.blocks import select
from changelog_engine.operators.build import StageBuilder
from changelog_engine.operators.driver_output import DriverOutput
from changelog_engine.operators.exchange import Exchange
from changelog_engine.operators.keyed import KeyedOperator, TimerOperator
from changelog_engine.operators.sink import CommittingSinkOperator, SinkOperator
from changelog_engine.operators.source import SourceHead, SourceStart
from changelog_engine.operators.stage import StageRuntime
from changelog_engine.operators.stateless import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    PassOperator,
    ProcessOperator,
    SideOutputOperator,
    TimestampsOperator,
)
from changelog_engine.operators.store import KeyedStore
from changelog_engine.operators.two_inputs import InputPort, TwoInputs
from changelog_engine.operators.windows import WindowOperator
from changelog_engine.provenance.source_ranges import RecordAt, SourceRange
from changelog_engine.provenance.trace import Step, Tracker, Via
from changelog_engine.provenance.traced_store import TracedStore
from changelog_engine.spark.runtimes import Assemble
from changelog_engine.state.backend import StateBackend
from changelog_engine.types.copies import separate

_EMIT_AT = 16_384  # as operators give what timers made


def traced(tracker: Tracker) -> Assemble:
    """Makes runtimes whose parts are wrapped."""

    def assemble(builder: StageBuilder) -> StageRuntime:
        if builder.store is not None:
            builder.store = _traced_store(builder.store, builder.clock, tracker)
        runtime = builder.build()
        for source in runtime.sources:
            _trace_source(source, tracker)
        for node, operator in runtime.operators.items():
            _trace_operator(operator, runtime.uids[node], builder.nodes[node].label, tracker)
        for operator in runtime.operators.values():
            for receivers in (operator.receivers, *operator.side_outputs.values()):
                for receiver in receivers:
                    if isinstance(receiver, UnionInput):
                        receiver.process = receiver._union.receiver.process
        for exchange in runtime.exchanges:
            _trace_exchange(exchange, tracker)
        _trace_blocks(runtime, tracker)
        return runtime

    return assemble


def _traced_store(store: KeyedStore, clock: WallClock, tracker: Tracker) -> TracedStore:
    """What the stage has in place of a store that nobody has used."""
    backend: StateBackend | None = store.backend
    if tracker.keys.get(store.config.stage) is not None:  # the state of one key fits on the heap
        store.close()
        backend = None
    return TracedStore(store.config, clock, backend, tracker)


def _replace(part: Any, **methods: Callable[..., Any]) -> None:
    """Give one part methods in place of those of its class; a wrapper has taken them before, to call them."""
    for name, method in methods.items():
        setattr(part, name, method)


def _trace_source(source: SourceHead, tracker: Tracker) -> None:
    """Elements come with where they were read."""
    open_reader = source._reader
    traced: set[int] = set()

    def reader_of(split: str) -> Any:
        reader: Any = open_reader(split)
        if id(reader) not in traced:
            traced.add(id(reader))
            _trace_reader(reader, source, split, tracker)
        return reader

    _replace(source, _reader=reader_of)


def _trace_reader(reader: Any, source: SourceHead, split: str, tracker: Tracker) -> None:
    read = reader._read

    def traced_read(at: Any, end: Any, most: int) -> Any:
        found = read(at, end, most)
        tracker.given = SourceRange(
            source.uid, source.name, split, reader._reader, at, found.next, len(found.values)
        )
        tracker.path = ()
        return found

    _replace(reader, _read=traced_read)


class _Gathered:
    """What an operator gives while it is driven element by element, until it is pushed on as one batch."""

    def __init__(self, operator: Operator, tracker: Tracker) -> None:
        self._operator = operator
        self._tracker = tracker
        self._push = operator.push
        self._groups: dict[int, tuple[Any, list[Any], list[int] | None, list[Any]]] = {}
        self.count = 0
        _replace(operator, push=self.take)

    def take(self, receivers: Sequence[Any], values: Sequence[Any], times: Sequence[int] | None) -> None:
        """In place of ``push``."""
        if not receivers:
            return
        group = self._groups.get(id(receivers))
        if group is None:
            group = self._groups[id(receivers)] = (receivers, [], None if times is None else [], [])
        group[1].extend(values)
        if group[2] is not None and times is not None:
            group[2].extend(times)
        group[3].extend([self._tracker.origin] * len(values))
        self.count += len(values)

    def flush(self, path: tuple[str, ...]) -> None:
        """Push on what was given, side outputs first."""
        if not self._groups:
            return
        tracker, groups = self._tracker, self._groups
        self._groups, self.count = {}, 0
        plain = groups.pop(id(self._operator.receivers), None)
        for receivers, values, times, origins in [*groups.values(), *([plain] if plain else [])]:
            tracker.given, tracker.path = origins, path
            self._push(receivers, values, times)


def _trace_operator(operator: Operator, uid: str, name: str, tracker: Tracker) -> None:
    if isinstance(operator, KeyedOperator):
        _trace_keyed(operator, uid, tracker)
    elif isinstance(operator, TwoInputs):
        gathered = _Gathered(operator, tracker)
        for port in operator.ports:
            _trace_elements(port, gathered, name, tracker)
    elif isinstance(operator, (SinkOperator, CommittingSinkOperator, DriverOutput)):
        _trace_sink(operator, uid, tracker)
    elif isinstance(operator, (FilterOperator, FlatMapOperator, ProcessOperator)):
        _trace_elements(operator, _Gathered(operator, tracker), name, tracker)
    elif isinstance(operator, (MapOperator, PassOperator, TimestampsOperator, SideOutputOperator)):
        _trace_one_to_one(operator, name if isinstance(operator, MapOperator) else None, tracker)
    else:
        raise NotSupportedError(
            f"operator {name!r} ({type(operator).__name__}) cannot be explained: its results do not come in the order of "
            "its elements, so it is not known which element each belongs to"
        )


def _trace_one_to_one(operator: Operator, name: str | None, tracker: Tracker) -> None:
    """An operator that gives one element for each."""
    push = operator.push
    is_source = isinstance(operator, SourceStart)

    def traced_push(receivers: Sequence[Any], values: Sequence[Any], times: Any) -> None:
        given, path = tracker.given, tracker.path
        if is_source and receivers is not operator.receivers and isinstance(given, SourceRange):
            tracker.given = [RecordAt(given, None)] * len(values)
        if name is not None:
            tracker.path = (*path, name)
        push(receivers, values, times)
        tracker.given, tracker.path = given, path

    _replace(operator, push=traced_push)


def _trace_elements(head: Any, gathered: _Gathered, name: str, tracker: Tracker) -> None:
    """An operator without keyed state, or an input of one: what it gives for an element comes from where that does."""
    process = head.process

    def drive(values: Sequence[Any], times: Sequence[int] | None) -> None:
        given, path = tracker.given, tracker.path
        for index in range(len(values)):
            tracker.origin = given[index]
            process([values[index]], None if times is None else times[index : index + 1])
        gathered.flush((*path, name))
        tracker.given, tracker.path = given, path

    _replace(head, process=drive)


def _trace_keyed(operator: KeyedOperator, uid: str, tracker: Tracker) -> None:
    gathered = _Gathered(operator, tracker)
    for head in operator.ports or [operator]:
        _trace_keyed_head(head, uid, gathered, tracker)
        if isinstance(head, InputPort):  # of the broadcast side, whose elements have no key
            _trace_elements(head, gathered, operator.name, tracker)
    if isinstance(operator, TimerOperator):
        if isinstance(operator, WindowOperator):
            _go_the_general_way(operator)
        _trace_firing(operator, gathered, tracker)


def _go_the_general_way(operator: WindowOperator) -> None:
    """Have windows of all kinds call the methods of their base class, which take windows and timers one by one."""
    general = WindowOperator
    for method in (general._due, general.run, general.fire_timers, general.on_timer):
        _replace(operator, **{method.__name__: method.__get__(operator)})


def _trace_keyed_head(head: Any, uid: str, gathered: _Gathered, tracker: Tracker) -> None:
    process_keyed = head.process_keyed

    def drive(identities: list[Any], values: Sequence[Any], times: Sequence[int] | None) -> None:
        given, path = tracker.given, tracker.path
        for index, identity in enumerate(identities):
            value = values[index]
            step = Step(uid, identity, given[index], separate([value])[0])
            tracker.step = tracker.origin = step
            process_keyed([identity], [value], None if times is None else times[index : index + 1])
        tracker.step = None
        gathered.flush(())
        tracker.given, tracker.path = given, path

    _replace(head, process_keyed=drive)


def _trace_firing(operator: TimerOperator, gathered: _Gathered, tracker: Tracker) -> None:
    fire = operator.fire_timers

    def drive(queue: Any, until: int, domain: Any) -> None:
        given, path = tracker.given, tracker.path
        while True:
            queue.taken = False
            fire(queue, until, domain)
            tracker.step = None
            if not queue.taken:
                break
            if gathered.count >= _EMIT_AT:
                gathered.flush(())
        gathered.flush(())
        tracker.given, tracker.path = given, path

    _replace(operator, fire_timers=drive)


def _trace_sink(operator: Operator, uid: str, tracker: Tracker) -> None:
    process = operator.process

    def traced_process(values: Sequence[Any], times: Sequence[int] | None) -> None:
        tracker.take_output(uid, values, times)
        process(values, times)

    _replace(operator, process=traced_process)


def _trace_exchange(exchange: Exchange, tracker: Tracker) -> None:
    """Keep the origins of what goes to each receiver; of a wanted key's stage, only what is the key's."""
    process, edge = exchange.process, exchange.edge
    wanted = tracker.keys.get(edge.to_stage) if edge.key_by is not None else None

    def traced_process(values: Sequence[Any], times: Sequence[int] | None) -> None:
        given, path = tracker.given, tracker.path
        before = [len(pieces) for pieces in exchange._pieces]
        process(values, range(len(values)))  # where each element goes; the times are put in below
        of_all = None if times is None else np.asarray(times, np.int64)
        for target, pieces in enumerate(exchange._pieces):
            kept: list[Any] = pieces[: before[target]]
            sent = tracker.sent.setdefault((edge.id, exchange.channel, target), [])
            for each in pieces[before[target] :]:
                keys, indices, column = cast(tuple[Any, Any, Any], each)
                if wanted is not None:
                    places = np.flatnonzero(_is_key(keys, wanted))
                    if not len(places):
                        continue
                    keys, indices, column = select(keys, places), indices[places], select(column, places)
                kept.append((keys, None if of_all is None else of_all[indices], column))
                origins = [given[index] for index in indices.tolist()]
                sent.extend([Via(path, origin) for origin in origins] if path else origins)
            exchange._pieces[target] = kept

    _replace(exchange, process=traced_process)


def _is_key(identities: Any, wanted: Any) -> Any:
    if isinstance(identities, np.ndarray) and identities.dtype == np.int64 and type(wanted) is int:
        return identities == wanted
    return np.fromiter((identity == wanted for identity in identities), bool, len(identities))


def _trace_blocks(runtime: StageRuntime, tracker: Tracker) -> None:
    """A block's elements have the origins that the exchange kept."""
    process, process_step = runtime._process, runtime._process_step
    waiting: list[Any] = []

    def traced_process(block: Any, *arguments: Any) -> None:
        waiting[:] = tracker.sent.pop((block.edge, block.channel, runtime.subtask), [])
        if len(waiting) != len(block.values):
            raise RestoreError(
                f"explaining lost its way: a block of {len(block.values)} elements has {len(waiting)} origins. This is a bug"
            )
        process(block, *arguments)

    def traced_step(heads: list[Any], identities: list[Any] | None, own: Any, times: Any) -> None:
        count = len(own[0])
        tracker.given, tracker.path = waiting[:count], ()
        del waiting[:count]
        process_step(heads, identities, own, times)

    _replace(runtime, _process=traced_process, _process_step=traced_step)
