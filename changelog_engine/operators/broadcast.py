"""Broadcast state: maps that every subtask has the same of, written by the broadcast side of a function only.

It is operator state: not in the changelog, and in every checkpoint (of the first subtask, as all are equal).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from changelog_engine.changelog.conversion import DROPPED, Version, converted
from changelog_engine.changelog.small_state import KeptBroadcast
from changelog_engine.clock import WallClock
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.errors import InvalidJobError, NoCurrentKeyError
from changelog_engine.event_time import MAX_WATERMARK
from changelog_engine.graph.descriptions import DescribedState
from changelog_engine.graph.hooks import pairs_of
from changelog_engine.graph.nodes import NodeKind, StateSpec
from changelog_engine.operators.base import Operator
from changelog_engine.operators.context import (
    ElementContext,
    KeyedElementContext,
    KeyedTimerService,
    TaskContext,
)
from changelog_engine.operators.failures import UsersCode
from changelog_engine.operators.keyed import KeyedParts
from changelog_engine.operators.state_types import describe, restored_versions
from changelog_engine.operators.stateless import run_elements
from changelog_engine.operators.two_inputs import InputPort, KeyedTwoInputs, TwoInputs
from changelog_engine.state.changed_in_place import SeenValues, tell
from changelog_engine.state.handles import MapView
from changelog_engine.types import TypeInformation


class ReadOnlyBroadcastMap(MapView):
    """A broadcast state as the other side reads it."""

    more = ". Broadcast state is changed in process_broadcast_element() alone"

    def __init__(self, spec: StateSpec, entries: dict[Any, Any]) -> None:
        self._spec = spec
        self._entries = entries
        self._keys = key_codec_for(spec.map_key_type)
        exact = None if spec.map_key_type is None else spec.map_key_type.exact
        self._exact_key = exact if exact in (int, str) else None
        self._mutable = not spec.value_type.immutable
        self._copy = spec.value_type.copy if self._mutable else _same
        self._copy_out = spec.value_type.copy_out() if self._mutable else _same

    def get(self, key: Any) -> Any:
        """The value of a key, or None."""
        value = self._entries.get(key if type(key) is self._exact_key else self._keys.identity(key))
        return self._copy_out(value) if self._mutable else value

    def contains(self, key: Any) -> bool:
        """Whether the key is there."""
        return (key if type(key) is self._exact_key else self._keys.identity(key)) in self._entries

    def held(self) -> dict[Any, Any]:
        return self._entries

    __contains__ = contains
    __getitem__ = get


class BroadcastMap(ReadOnlyBroadcastMap):
    """A broadcast state as the broadcast side writes it."""

    more = ""

    def __init__(self, spec: StateSpec, entries: dict[Any, Any], operator: str) -> None:
        super().__init__(spec, entries)
        self._operator = operator
        self._values = SeenValues(spec.value_type, entries.get) if self._mutable else None

    def get(self, key: Any) -> Any:
        value = super().get(key)
        self._see(key, value)
        return value

    def _see(self, key: Any, value: Any) -> None:
        if value is not None and self._values is not None and self._values.left > 0:
            self._values.see(value, self._keys.identity(key))

    def elements_end(self) -> None:
        """The function has returned: warn of what it changed in place and did not put again."""
        if self._values is not None and (lost := self._values.lost()) is not None:
            key = f", map key {self._keys.key_of(lost)!r}"
            tell(self._operator, key, f"broadcast state {self._spec.name!r}", "put(key, value)")

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        given = value
        if value is not None:
            what = f"value of broadcast state {self._spec.name!r}"
            value = self._copy(self._spec.value_type.check(value, what))
        self._entries[self._keys.identity(key)] = value
        self._see(key, given)

    def put_all(self, entries: Any) -> None:
        """Set many values; takes a dict or pairs."""
        for key, value in list(pairs_of(entries)):
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Remove a key, if it is there."""
        self._entries.pop(self._keys.identity(key), None)

    def clear(self) -> None:
        """Remove all keys."""
        self._entries.clear()

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove


class BroadcastStates:
    """The broadcast states of one operator in one subtask, as they were given to broadcast()."""

    def __init__(self, operator: str, specs: tuple[StateSpec, ...]) -> None:
        self._operator = operator
        self._specs = {spec.name: replace(spec, ttl=None) for spec in specs}
        self._undeclared = KeptBroadcast()  # states that were restored, and that the job no longer has
        self._entries: dict[str, dict[Any, Any]] = {name: {} for name in self._specs}
        self._asked: tuple[Any, Any, Any] = (None, None, None)  # last: views, descriptor, and what that gave
        self.readers = {spec.name: ReadOnlyBroadcastMap(spec, self._entries[spec.name]) for spec in specs}
        self.writers = {spec.name: BroadcastMap(spec, self._entries[spec.name], operator) for spec in specs}

    def of(self, views: dict[str, Any], descriptor: Any) -> Any:
        """A view of the state that a descriptor names.

        Raises:
            InvalidJobError: broadcast() was not given that state.
        """
        if views is self._asked[0] and descriptor is self._asked[1]:  # as for nearly every element
            return self._asked[2]
        view = views.get(descriptor.get_name())
        if view is None:
            known = ", ".join([repr(name) for name in self._specs]) or "none"
            raise InvalidJobError(
                f"operator {self._operator!r} asks for broadcast state {descriptor.get_name()!r}; broadcast() was given "
                f"{known}: give its descriptor to broadcast() too"
            )
        self._asked = views, descriptor, view
        return view

    def elements_end(self) -> None:
        """The broadcast side's function has returned from all elements that it was given."""
        for writer in self.writers.values():
            writer.elements_end()

    def snapshot(self) -> KeptBroadcast:
        """All entries with their types."""
        rows = {name: self._rows(name) for name in self._specs}
        types = {name: describe(spec) for name, spec in self._specs.items()}
        undeclared = self._undeclared
        return KeptBroadcast(undeclared.rows | rows, undeclared.types | types)

    def _rows(self, name: str) -> list[list[str | None]]:
        spec, entries = self._specs[name], self._entries[name]
        if not entries:
            return []
        keys = key_codec_for(spec.map_key_type).texts(list(entries)).to_pylist()
        values, payloads = codec_for(spec.value_type).encode_many(list(entries.values()))
        binary: list[Any] = [None] * len(keys) if payloads is None else payloads.to_pylist()
        return [
            [key, value, None if payload is None else base64.b64encode(payload).decode()]
            for key, value, payload in zip(keys, values.to_pylist(), binary, strict=True)
        ]

    def restore(self, kept: KeptBroadcast) -> None:
        """Take back what snapshot() gave; states that the job no longer has are kept as they are.

        Raises:
            RestoreError: a state was written with a type that the declared one doesn't take.
        """
        self._undeclared = kept.only(kept.rows.keys() - self._specs.keys())
        for name in self._specs.keys() & kept.rows.keys():
            self._take(name, self._specs[name], kept.rows[name], kept.types.get(name))

    def _take(
        self, name: str, spec: StateSpec, rows: list[list[str | None]], found: DescribedState | None
    ) -> None:
        version = Version(spec.value_type)  # an older engine kept no types
        if found is not None:
            version = restored_versions(self._operator, found, None, spec, None).newest
        if not rows:
            return
        keys, values, payloads = zip(*rows, strict=True)
        identities = key_codec_for(spec.map_key_type).from_texts(pa.array(keys, pa.string()))
        binary = [None if payload is None else base64.b64decode(payload) for payload in payloads]
        decoded = codec_for(version.type).decode_many(
            pa.array(values, pa.string()), pa.array(binary, pa.binary())
        )
        if version.convert is not None:
            decoded = [
                converted(version, value, self._operator, spec, {"map key": key})
                for value, key in zip(decoded, keys, strict=True)
            ]
        self._entries[name].update(
            (identity, value)
            for identity, value in zip(identities, decoded, strict=True)
            if value is not DROPPED
        )


class BroadcastContext(ElementContext):
    """The context of one side of a broadcast function on a stream that is not keyed."""

    def __init__(
        self, operator: Operator, clock: WallClock, states: BroadcastStates, views: dict[str, Any]
    ) -> None:
        super().__init__(operator, clock)
        self._broadcast = states
        self._views = views

    def get_broadcast_state(self, state_descriptor: Any) -> Any:
        """The broadcast state of a descriptor; read-only on the side that is not broadcast."""
        return self._broadcast.of(self._views, state_descriptor)


class KeyedBroadcastContext(BroadcastContext):
    """The context of the broadcast side of a function on a keyed stream: there are keys, but none is current."""

    def get_current_key(self) -> Any:
        """There is none.

        Raises:
            NoCurrentKeyError: always.
        """
        raise NoCurrentKeyError()

    def _keyless(self, asked: str) -> InvalidJobError:
        return NoCurrentKeyError()


class KeyedReadOnlyContext(KeyedElementContext):
    """The context of the keyed side of a broadcast function, and of its timers."""

    def __init__(self, cursor: Any, key_of: Any, timers: Any, states: BroadcastStates) -> None:
        super().__init__(cursor, key_of, timers)
        self._broadcast = states

    def get_broadcast_state(self, state_descriptor: Any) -> Any:
        """The broadcast state of a descriptor, to be read only."""
        return self._broadcast.of(self._broadcast.readers, state_descriptor)

    def current_processing_time(self) -> int:
        """Wall clock in ms."""
        return self._timers.clock()

    def current_watermark(self) -> int:
        """The current watermark in ms."""
        return self._timers.current_watermark()


class _Broadcasting:
    """What both broadcast operators do with their state at checkpoints."""

    states: BroadcastStates

    def snapshot_shared(self) -> KeptBroadcast:
        """The broadcast state, which is the same in all subtasks."""
        return self.states.snapshot()

    def restore_shared(self, state: KeptBroadcast) -> None:
        """Take back what snapshot_shared() gave."""
        self.states.restore(state)


class BroadcastOperator(_Broadcasting, TwoInputs):
    """A broadcast function over a stream that is not keyed.

    Args:
        batch: BATCH mode: the elements of the other side wait until the broadcast side has ended.
    """

    def __init__(
        self,
        name: str,
        output: TypeInformation | None,
        function: Any,
        context: TaskContext,
        states: BroadcastStates,
        clock: WallClock,
        batch: bool,
    ) -> None:
        self.states = states
        super().__init__(name, output, function, context, NodeKind.BROADCAST_PROCESS, clock)
        self._waiting: list[tuple[Sequence[Any], Sequence[int] | None]] | None = [] if batch else None

    def context_of(self, side: int, clock: WallClock) -> ElementContext:
        return BroadcastContext(self, clock, self.states, (self.states.readers, self.states.writers)[side])

    def process_input(self, port: InputPort, values: Sequence[Any], times: Sequence[int] | None) -> None:
        if self._waiting is not None and port is self.ports[0]:
            self._waiting.append((values, times))
        else:
            super().process_input(port, values, times)
            self.states.elements_end()

    def watermark(self, watermark: int) -> None:
        if self._waiting and watermark == MAX_WATERMARK:
            waiting, self._waiting = self._waiting, None
            for values, times in waiting:
                self.process_input(self.ports[0], values, times)
        super().watermark(watermark)


class KeyedBroadcastOperator(_Broadcasting, KeyedTwoInputs):
    """A broadcast function over a keyed stream."""

    def __init__(self, parts: KeyedParts, timers: KeyedTimerService, states: BroadcastStates) -> None:
        self.states = states
        elements = KeyedReadOnlyContext(parts.cursor, parts.keys.key_of, timers, states)
        broadcast = KeyedBroadcastContext(self, timers.clock, states, states.writers)
        super().__init__(parts, timers, NodeKind.BROADCAST_PROCESS, elements, broadcast)

    def process_input(self, port: InputPort, values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Take elements of the broadcast side, which has no key."""
        rest = iter(values)
        with UsersCode(self.name, port.call, values, rest):
            process = self.function.process_broadcast_element
            out, out_times = run_elements(process, port.context, rest, times, self)
        self.states.elements_end()
        self.emit_tagged(out, out_times)


def _same(value: Any) -> Any:
    return value
