"""State with a time to live: an ordinary state of pairs (time of the last access in ms, value), and handles that read them.

The user's state is kept as ``TUPLE(LONG, value type)``, so log, snapshots, restore and backends need nothing of their own,
and anyone who reads the log sees when an entry was last accessed. As in Flink, a list expires by element, a map by entry.

Invariants:
    * An entry that expires is removed by the ordinary handles: the removal is a mutation like any other.
    * An entry has expired when its last access lies a time to live back, or longer.
    * A state without a time to live never comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from changelog_engine.graph.descriptions import DescribedState
from changelog_engine.graph.hooks import pairs_of
from changelog_engine.graph.nodes import StateKind, StateSpec, TtlSpec
from changelog_engine.state.backend import StateTable
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.handles import Admission, AggregatingHandle, Handle, ReducingHandle, function_of
from changelog_engine.state.ttl_sweep import Sweep
from changelog_engine.types import TupleTypeInfo, TypeInformation, Types, type_from_spec
from changelog_engine.types.in_state import in_state

_FOLDED = (StateKind.REDUCING, StateKind.AGGREGATING)


class TimedType(TupleTypeInfo):
    """``TUPLE(LONG, value type)`` that takes every tuple as it is: the handles here make them, of values they checked."""

    exact = sure = tuple
    of_admitted = True

    def __init__(self, value_type: TypeInformation) -> None:
        super().__init__([Types.LONG(), value_type])

    def parameters(self) -> tuple[Any, ...]:
        """See TypeInformation.parameters; a tuple type of the user's with the same fields is another type."""
        return (TimedType, *super().parameters())

    def quick_test(self) -> Callable[[Any], bool] | None:
        return TypeInformation.quick_test(self)


def stored_type(spec: StateSpec) -> TypeInformation:
    """The type that is kept for a state: the user's, or the pair of a time and the user's.

    Example:
        >>> from changelog_engine.types import Types
        >>> stored_type(StateSpec("s", StateKind.VALUE, Types.STRING(), ttl=TtlSpec(1000))).name
        'TUPLE<LONG, STRING>'
    """
    return spec.value_type if spec.ttl is None else TimedType(spec.value_type)


def user_type(described: DescribedState) -> TypeInformation:
    """The user's type of a state's values, as a checkpoint describes it: without the time of the last access."""
    spec = described.value_type
    return in_state(type_from_spec(spec if described.ttl_ms is None else spec["fields"][1]))


def stored_spec(spec: StateSpec) -> StateSpec:
    """The state that is kept for a user's state; the same one when it has no time to live.

    What is folded is a plain cell here: its TTL handle folds.
    """
    if spec.ttl is None:
        return spec
    kind = StateKind.VALUE if spec.kind in _FOLDED else spec.kind
    return replace(spec, kind=kind, value_type=stored_type(spec), function=None, ttl=None)


class TtlStates:
    """The states with a time to live of one subtask, by a wall clock in ms."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._sweeps: list[Sweep] = []

    def handle(self, operator: str, spec: StateSpec, inner: Any, table: StateTable, cursor: Cursor) -> Any:
        """The user's handle of a state. What a restore left in its table is cleaned of expired entries first.

        Args:
            operator: uid, for messages.
            inner: the handle of the stored state.
        """
        assert spec.ttl is not None
        sweep = Sweep(spec, inner, table, cursor, self._clock)
        sweep.check_all()
        self._sweeps.append(sweep)
        admission = Admission(operator, spec, cursor)
        shared = inner, spec.ttl, sweep, admission, self._clock
        if spec.kind is StateKind.LIST:
            return TtlList(*shared)
        if spec.kind is StateKind.MAP:
            return TtlMap(*shared)
        cell = TtlCell(*shared)
        if spec.kind is StateKind.REDUCING:
            return TtlReducing(cell, function_of(spec), admission)
        if spec.kind is StateKind.AGGREGATING:
            return TtlAggregating(cell, function_of(spec))
        return cell

    def after_records(self, records: int) -> None:
        """The clean-up that was asked for with every record, for some of them at once."""
        for sweep in self._sweeps:
            sweep.after_records(records)

    def end_epoch(self, full_snapshot: bool) -> None:
        """The clean-up at the end of an epoch; with a full snapshot to come, that of states it is to leave out."""
        for sweep in self._sweeps:
            if full_snapshot and sweep.ttl.in_full_snapshot:
                sweep.check_all()
            else:
                sweep.end_epoch()

    def close(self) -> None:
        """Let go of the tables, before they are closed."""
        for sweep in self._sweeps:
            sweep.close()


class TtlHandle(Handle):
    """What the handles with a time to live share.

    Args:
        inner: the handle of the stored state.
        sweep: the clean-up of the state's table.
        clock: wall clock in ms.
    """

    def __init__(
        self, inner: Any, ttl: TtlSpec, sweep: Sweep, admission: Any, clock: Callable[[], int]
    ) -> None:
        self._inner = inner
        self._ttl_ms = ttl.ttl_ms
        self._renew = ttl.renew_on_read
        self._show = ttl.return_expired
        self._sweep = sweep
        self._per_access = ttl.incremental_size if sweep.incremental else 0
        self._admission = admission
        self._fits = admission.fits
        self._clock = clock

    def accessed(self) -> None:
        """The incremental clean-up that comes with every access."""
        if self._per_access and self._clock() >= self._sweep.due_ms:
            self._sweep.check_some(self._per_access)

    def clear(self) -> None:
        """Remove what is kept for the current key."""
        self._inner.clear()
        self.accessed()


class TtlCell(TtlHandle):
    """ValueState with a time to live, and the cell under reducing and aggregating state."""

    def value(self) -> Any:
        """The current key's value, or None."""
        now = self._clock()
        if now >= self._sweep.due_ms:
            self.accessed()
        entry = self._inner.value()
        if entry is None:
            return None
        since, value = entry
        if since + self._ttl_ms <= now:
            self._inner.clear()
            return value if self._show else None
        if self._renew and since != now:
            self._inner.update((now, value))
        return value

    def update(self, value: Any) -> None:
        """Set the current key's value; None clears it."""
        now = self._clock()
        if now >= self._sweep.due_ms:
            self.accessed()
        if value is None:
            self._inner.clear()
        else:
            self._inner.update((now, value if self._fits(value) else self._admission.admit(value)))

    def put(self, value: Any) -> None:
        """As update, without clean-up."""
        if value is None:
            self._inner.clear()
        else:
            self._inner.update((self._clock(), self._admission.admit(value)))

    def peek(self) -> Any:
        """The current key's value for folding: None when there is none to go on from. It is not removed or renewed."""
        entry = self._inner.value()
        if entry is None or (not self._show and entry[0] + self._ttl_ms <= self._clock()):
            return None
        return entry[1]


class TtlReducing(ReducingHandle):
    """ReducingState with a time to live: adding to an expired value begins anew."""

    def add(self, value: Any) -> None:
        cell, present = self._cell, self._admission.present
        cell.accessed()
        before = cell.peek()
        cell.put(present(value) if before is None else present(self._reduce(before, value)))


class TtlAggregating(AggregatingHandle):
    """AggregatingState with a time to live: adding to an expired accumulator begins anew."""

    def add(self, value: Any) -> None:
        cell = self._cell
        cell.accessed()
        accumulator = cell.peek()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        cell.put(self.accumulated(accumulator, self._function.add(value, accumulator), "add"))


class TtlList(TtlHandle):
    """ListState whose elements expire one by one.

    As in Flink, reading leaves expired elements to the clean-up while others live, unless it renews those.
    """

    def get(self) -> list[Any]:
        """The elements in order; an empty list when there are none."""
        self.accessed()
        entries = self._inner.get()
        if not entries:
            return []
        now = self._clock()
        live = [entry for entry in entries if entry[0] + self._ttl_ms > now]
        if not live:
            self._inner.clear()
        elif self._renew and any(since != now for since, _ in entries):
            self._inner.update([(now, value) for _, value in live])
        return [value for _, value in (entries if self._show else live)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        """Append one element."""
        self.accessed()
        self._inner.add((self._clock(), self._admission.present(value)))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements in order."""
        self.accessed()
        self._inner.add_all(self._timed(values))

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list; an empty one clears it."""
        self.accessed()
        self._inner.update(self._timed(values))

    def _timed(self, values: Iterable[Any]) -> list[tuple[int, Any]]:
        now, present = self._clock(), self._admission.present
        return [(now, present(value)) for value in values]


class TtlMap(TtlHandle):
    """MapState whose entries expire one by one."""

    def get(self, map_key: Any) -> Any:
        """The value of a map key, or None."""
        found = self._read(map_key)
        return None if found is None else found[1]

    def contains(self, map_key: Any) -> bool:
        """Whether a map key is there."""
        return self._read(map_key) is not None

    def _read(self, map_key: Any) -> Any:
        self.accessed()
        entry = self._inner.get(map_key)
        if entry is None:
            return None
        since, value = entry
        now = self._clock()
        if since + self._ttl_ms <= now:
            self._inner.remove(map_key)
            return entry if self._show else None
        if self._renew and since != now:
            self._inner.put(map_key, (now, value))
        return entry

    def put(self, map_key: Any, value: Any) -> None:
        """Set the value of a map key."""
        self.accessed()
        self._inner.put(map_key, (self._clock(), self._admission.admit(value)))

    def put_all(self, entries: Any) -> None:
        """Set many values; takes a dict or pairs."""
        self.accessed()
        now, admit = self._clock(), self._admission.admit
        self._inner.put_all([(map_key, (now, admit(value))) for map_key, value in list(pairs_of(entries))])

    def remove(self, map_key: Any) -> None:
        """Remove a map key, if it is there."""
        self.accessed()
        self._inner.remove(map_key)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of map key and value, as they were at the call."""
        return iter(self._read_all())

    def keys(self) -> Iterator[Any]:
        """Map keys, as they were at the call."""
        return iter([map_key for map_key, _ in self._read_all()])

    def values(self) -> Iterator[Any]:
        """Values, as they were at the call."""
        return iter([value for _, value in self._read_all()])

    def _read_all(self) -> list[tuple[Any, Any]]:
        self.accessed()
        entries = list(self._inner.items())
        now = self._clock()
        live = [entry for entry in entries if entry[1][0] + self._ttl_ms > now]
        if entries and not live:
            self._inner.clear()
        elif len(live) < len(entries):
            for map_key, (since, _) in entries:
                if since + self._ttl_ms <= now:
                    self._inner.remove(map_key)
        if self._renew:
            for map_key, (since, value) in live:
                if since != now:
                    self._inner.put(map_key, (now, value))
        return [(map_key, value) for map_key, (_, value) in (entries if self._show else live)]

    def is_empty(self) -> bool:
        """Whether no map key is there. As in Flink, an expired one that was not removed yet is there."""
        self.accessed()
        return bool(self._inner.is_empty())

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[Any]:
        return self.keys()
