"""The handles that user functions hold: the five kinds of keyed state over a table, with a log or without.

Invariants:
    * With a log, every mutation is in it before the table changes. Reads are not logged, and neither is the removal of
      what is not there.
    * What is raised between the two, whoever catches it, is known to the state's guard. A ``try`` costs nothing until then.
    * A mutable value is copied on its way in and on its way out, so changing it in place changes neither state nor log.
    * Values are checked against the declared type before anything changes.
    * ``update(None)`` and ``clear()`` are the same, as documented for ValueState.

What runs once per record is in C where there is a compiler (compiled_handles.py), with these classes as its reference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from changelog_engine.codec.keys import KeyCodec, key_codec_for
from changelog_engine.codec.values import CLEARED, codec_for
from changelog_engine.errors import TypeMismatchError
from changelog_engine.graph.hooks import hook_of, pairs_of
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state.backend import KeyIdentity, StateTable
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.guarded import FailureGuard
from changelog_engine.state.mutation_log import APPEND, CLEAR, PUT, REMOVE, REPLACE, MutationLog, misfit
from changelog_engine.windowing.reserved import state_words


def _keep(value: Any) -> Any:
    return value


def _unknown(value: Any) -> bool:
    return False


class Admission:
    """Checks and copies of one state's values.

    Args:
        operator: uid, for messages.
        guard: remembers what came in the middle of a change; None for one that nobody asks.
    """

    def __init__(
        self, operator: str, spec: StateSpec, cursor: Cursor, guard: FailureGuard | None = None
    ) -> None:
        self.guard = FailureGuard() if guard is None else guard
        self.operator = operator
        self.spec = spec
        self.cursor = cursor
        self.type = spec.value_type
        self.exact = self.type.exact
        self.plain = self.type.quick_test()
        self.mutable = not self.type.immutable
        self.copy: Callable[[Any], Any] = self.type.copy if self.mutable else _keep
        self.copy_out: Callable[[Any], Any] = self.type.copy_out() if self.mutable else _keep
        self.fits: Callable[[Any], bool] = self.plain or _unknown
        self.quick_copy = self.type.quick_copy() if self.mutable else None

    @property
    def freeze(self) -> Callable[[Any], Any] | None:
        """What a private copy needs before it waits in the log: nothing, or encoding when it may share what can change."""
        return None if self.type.copied_whole else codec_for(self.type).encode

    @property
    def _where(self) -> str:
        return self.cursor.words(self.cursor.key)

    def admit(self, value: Any) -> Any:
        """The value as the declared type wants it.

        Raises:
            TypeMismatchError: it does not fit; the message names operator, state and key.
        """
        try:
            return self.type.check(value)
        except TypeMismatchError as error:
            raise misfit(self.operator, self.spec.name, self._where, error) from None

    def present(self, value: Any) -> Any:
        """As admit, and None is refused (lists, maps and reductions hold no None)."""
        if value is None:
            raise TypeMismatchError(
                f"{state_words(self.spec.name)} of operator {self.operator!r}{self._where}: None cannot be added; "
                "only ValueState takes None, and it means clear()"
            )
        return self.admit(value)

    def no_accumulator(self, function: Any, call: str) -> TypeMismatchError:
        """What to raise when an aggregate function gave None, which would forget all that was added."""
        return TypeMismatchError(
            f"{state_words(self.spec.name)} of operator {self.operator!r}{self._where}: "
            f"{type(function).__name__}.{call}() returned None, and it must return the accumulator, also one that it changed"
        )


class NotAValue:
    """What functions are given to ask and to change things by: no element, key or value of a state can hold it.

    Attributes:
        instead: what it is, and what to give in its place.
    """

    __slots__ = ()

    instead = "a state was given in place of what it holds: give that, as by value() or list(state.get())"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(self.instead)


class Handle(NotAValue):
    """What all handles share: ``state.value = 5`` is refused, which would hide the method and change no state.

    Attributes:
        more: what the error about a method that it does not have adds.
    """

    more = ""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise AttributeError(
                f"{name!r} of a state cannot be assigned, and would change nothing: call a method, such as update(value)"
            )
        super().__setattr__(name, value)


class TableHandle(Handle):
    """A handle on a table, with a log or without."""

    def __init__(
        self, table: StateTable, cursor: Cursor, admission: Admission, log: MutationLog | None = None
    ) -> None:
        self._table = table
        self._get = table.get
        self._cursor = cursor
        self._admission = admission
        self._guard = admission.guard
        self._fits = admission.fits
        self._copy = admission.copy
        self._copy_out = admission.copy_out
        self._log = log
        self._freeze = admission.freeze if log is not None and admission.mutable else None

    def clear(self) -> None:
        """Remove all that the current key has."""
        key = self._cursor.key
        if self._get(key) is None:
            return
        try:
            self._log_clear()
            self._table.pop(key, None)
        except BaseException as error:
            self._guard.unfinished = error
            raise

    def _log_clear(self) -> None:
        if self._log is not None:
            self._log.record(self._cursor.key, CLEARED, CLEAR, self._cursor.timestamp)


class CellHandle(TableHandle):
    """ValueState, and the cell under reducing and aggregating state; of immutable values."""

    def __init__(
        self, table: StateTable, cursor: Cursor, admission: Admission, log: MutationLog | None = None
    ) -> None:
        super().__init__(table, cursor, admission, log)
        self._exact = admission.exact
        self._plain = admission.plain

    def value(self) -> Any:
        """The current key's value, or None."""
        return self._get(self._cursor.key)

    def update(self, value: Any) -> None:
        """Set the current key's value; None clears it."""
        if type(value) is not self._exact:
            if value is None:
                self.clear()
                return
            if self._plain is None or not self._plain(value):
                value = self._admission.admit(value)
        self._set(value, value)

    def _set(self, value: Any, logged: Any) -> None:
        key = self._cursor.key
        try:
            if self._log is not None:
                self._log.record(key, logged, PUT, self._cursor.timestamp)
            self._table[key] = value
        except BaseException as error:
            self._guard.unfinished = error
            raise


class CopyingCell(CellHandle):
    """A cell of mutable values: copied in and out. The log gets the copy that the table keeps; see Admission.freeze."""

    def value(self) -> Any:
        value = self._get(self._cursor.key)
        return None if value is None else self._copy_out(value)

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        if not self._fits(value):
            value = self._admission.admit(value)
        frozen = None if self._freeze is None else self._freeze(value)
        copied = self._copy(value)
        self._set(copied, copied if frozen is None else frozen)


class AddingHandle(Handle, ABC):
    """What reducing, aggregating and list state share: one more element goes to those that are there."""

    @abstractmethod
    def add(self, value: Any) -> None:
        """Add one element."""

    @abstractmethod
    def held(self) -> Any:
        """What the table has of the current key, or None."""

    def begins(self, value: Any) -> bool:
        """As ``add``; tells whether nothing was there before."""
        first = self.held() is None
        self.add(value)
        return first


class OverCell(AddingHandle):
    """What reducing and aggregating state share: one cell holds all that was added."""

    _cell: Any

    @property
    def cell(self) -> Any:
        """The state under it: windows that merge combine what it holds."""
        return self._cell

    def held(self) -> Any:
        return self._cell.value()

    def clear(self) -> None:
        """Forget all that was added."""
        self._cell.clear()


class ReducingHandle(OverCell):
    """ReducingState: folds what is added with the reduce function."""

    def __init__(self, cell: Any, reduce: Callable[[Any, Any], Any], admission: Admission) -> None:
        self._cell = cell
        self._reduce = reduce
        self._admission = admission
        self._value = cell.value
        # A cell of an exact class leaves the range of whole numbers to the log: it is looked at here.
        cell_checks = admission.plain is not None and admission.exact is None and not admission.mutable
        self._fits = None if cell_checks else admission.fits

    def get(self) -> Any:
        """The folded value, or None before the first add."""
        return self._cell.value()

    def add(self, value: Any) -> None:
        """Fold one value in."""
        before = self._value()
        if before is not None:
            value = self._reduce(before, value)
        fits = self._fits
        if value is None or (fits is not None and not fits(value)):
            value = self._admission.present(value)
        self._cell.update(value)


class AggregatingHandle(OverCell):
    """AggregatingState: keeps the aggregate function's accumulator."""

    def __init__(self, cell: Any, function: Any) -> None:
        self._cell = cell
        self._function = function

    def get(self) -> Any:
        """The aggregate's result, or None before the first add."""
        accumulator = self._cell.value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add one value to the accumulator."""
        accumulator = self._cell.value()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._cell.update(self.accumulated(accumulator, self._function.add(value, accumulator), "add"))

    def accumulated(self, before: Any, after: Any, call: str) -> Any:
        """What a call of the function made of an accumulator; None clears the state.

        Raises:
            TypeMismatchError: it gave None for one that is not None, and its accumulators do not begin as None.
        """
        if after is None and before is not None and self._function.create_accumulator() is not None:
            raise self._cell._admission.no_accumulator(self._function, call)
        return after


class ListHandle(TableHandle, AddingHandle):
    """ListState over a table of lists.

    It logs one mutation per element: ``append``, or ``replace`` (the list becomes just this element).
    """

    def __init__(
        self, table: StateTable, cursor: Cursor, admission: Admission, log: MutationLog | None
    ) -> None:
        super().__init__(table, cursor, admission, log)
        self._mutable = admission.mutable

    def held(self) -> Any:
        return self._table.get(self._cursor.key)

    def get(self) -> list[Any]:
        """The elements in order; an empty list when there are none."""
        entry = self._table.get(self._cursor.key)
        if entry is None:
            return []
        return [self._copy_out(value) for value in entry] if self._mutable else list(entry)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        if not self._fits(value):
            value = self._admission.present(value)
        self._change([self._copy(value)] if self._mutable else [value], APPEND)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements in order."""
        admitted = self._admitted(values)
        if admitted:
            self._change(admitted, APPEND)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list; an empty one clears it."""
        admitted = self._admitted(values)
        if admitted:
            self._change(admitted, REPLACE)
        else:
            self.clear()

    def _admitted(self, values: Iterable[Any]) -> list[Any]:
        """The values as the declared type wants them, and nobody else's."""
        fits, present = self._fits, self._admission.present
        admitted = [value if fits(value) else present(value) for value in values]
        return [self._copy(value) for value in admitted] if self._mutable else admitted

    def _change(self, values: list[Any], operation: str) -> None:
        """Put values behind those that are there, or in place of them."""
        key, freeze = self._cursor.key, self._freeze
        frozen = values if freeze is None else [freeze(value) for value in values]
        try:
            self._record(frozen, operation)
            entry = self._table.get(key) if operation == APPEND else None
            if entry is not None:
                entry.extend(values)
                values = entry
            self._table[key] = values
        except BaseException as error:
            self._guard.unfinished = error
            raise

    def _record(self, frozen: list[Any], operation: str) -> None:
        if self._log is None:
            return
        if len(frozen) == 1:
            self._log.record(self._cursor.key, frozen[0], operation, self._cursor.timestamp)
        else:
            self._log.record_list(self._cursor, frozen, operation)


class MapView(NotAValue, ABC):
    """What can be read of a map as a whole.

    Attributes:
        more: as of a Handle.
    """

    more = ""

    _keys: KeyCodec
    _copy_out: Callable[[Any], Any]

    @abstractmethod
    def held(self) -> Any:
        """All of the map, by identities, or None: neither it nor what is in it may be changed."""

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of map key and value, as they were at the call."""
        key_of, copy = self._keys.key_of, self._copy_out
        return iter([(key_of(identity), copy(value)) for identity, value in (self.held() or {}).items()])

    def keys(self) -> Iterator[Any]:
        """Map keys, as they were at the call."""
        return iter([self._keys.key_of(identity) for identity in self.held() or ()])

    def values(self) -> Iterator[Any]:
        """Values, as they were at the call."""
        return iter([self._copy_out(value) for value in (self.held() or {}).values()])

    def is_empty(self) -> bool:
        """Whether no map key is there."""
        return not self.held()

    def __iter__(self) -> Iterator[Any]:
        return self.keys()


class MapHandle(TableHandle, MapView):
    """MapState over a table of dicts by map-key identity; it logs one mutation per map key."""

    def __init__(
        self, table: StateTable, cursor: Cursor, admission: Admission, log: MutationLog | None
    ) -> None:
        super().__init__(table, cursor, admission, log)
        self._mutable = admission.mutable
        self._keys: KeyCodec = key_codec_for(admission.spec.map_key_type)
        key_type = admission.spec.map_key_type
        self._exact_key = key_type.exact if key_type is not None and key_type.exact in (int, str) else None

    def _identity(self, map_key: Any) -> Any:
        try:
            return self._keys.identity(map_key)
        except TypeMismatchError as error:
            spec = self._admission.spec
            raise TypeMismatchError(
                f"map key of state {spec.name!r} of operator {self._admission.operator!r}"
                f"{self._cursor.words(self._cursor.key)}: {error}"
            ) from None

    def get(self, map_key: Any) -> Any:
        """The value of a map key, or None."""
        entry = self._table.get(self._cursor.key)
        if entry is None:
            return None
        value = entry.get(map_key if type(map_key) is self._exact_key else self._identity(map_key))
        return self._copy_out(value) if self._mutable else value

    def put(self, map_key: Any, value: Any) -> None:
        identity = map_key if type(map_key) is self._exact_key else self._identity(map_key)
        if value is not None and not self._fits(value):
            value = self._admission.admit(value)
        self._put(identity, self._copy(value))

    @property
    def on_heap(self) -> bool:
        """Whether the table is a dict."""
        return isinstance(self._table, dict)

    def held(self) -> Any:
        return self._get(self._cursor.key)

    def put_all(self, entries: Any) -> None:
        """Set many values; takes a dict or pairs."""
        for map_key, value in list(pairs_of(entries)):
            self.put(map_key, value)

    def remove(self, map_key: Any) -> None:
        """Remove a map key, if it is there."""
        entry = self._table.get(self._cursor.key)
        identity = map_key if type(map_key) is self._exact_key else self._identity(map_key)
        if entry is not None and identity in entry:
            self._remove(identity, entry)

    def rename(self, identity: Any, to: Any, value: Any) -> None:
        """Remove a map key, and set the value of another one, both by their identities."""
        self.remove(identity)
        self.put(to, value)

    def contains(self, map_key: Any) -> bool:
        """Whether a map key is there."""
        entry = self._table.get(self._cursor.key)
        if entry is None:
            return False
        return (map_key if type(map_key) is self._exact_key else self._identity(map_key)) in entry

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def _put(self, identity: Any, value: Any) -> None:
        key, frozen = self._cursor.key, value if self._freeze is None else self._freeze(value)
        try:
            self._record(key, identity, frozen, PUT)
            entry = self._table.get(key)
            if entry is None:
                entry = {}
            entry[identity] = value
            self._table[key] = entry
        except BaseException as error:
            self._guard.unfinished = error
            raise

    def _remove(self, identity: Any, entry: dict[Any, Any]) -> None:
        key = self._cursor.key
        try:
            self._record(key, identity, CLEARED, REMOVE)
            del entry[identity]
            if entry:
                self._table[key] = entry
            else:
                self._table.pop(key, None)
        except BaseException as error:
            self._guard.unfinished = error
            raise

    def _record(self, key: KeyIdentity, identity: Any, value: Any, operation: str) -> None:
        if self._log is not None:
            self._log.record(key, value, operation, self._cursor.timestamp, identity)


class NetMapHandle(MapHandle):
    """A map of the engine's own with a log of net changes: what comes and goes before the log is written is not in it.

    Keys and values are identities, and the map is never cleared at once.
    """

    def __init__(self, table: StateTable, cursor: Cursor, admission: Admission, log: MutationLog) -> None:
        super().__init__(table, cursor, admission, log)
        assert log.fresh is not None
        self._fresh = log.fresh

    def put(self, map_key: Any, value: Any) -> None:
        cursor = self._cursor
        key = cursor.key
        entry = self._get(key)
        if entry is None:
            entry = {}
        elif map_key in entry and (key, map_key) not in self._fresh:
            super()._record(key, map_key, CLEARED, REMOVE)
        self._fresh[key, map_key] = value, cursor.timestamp
        entry[map_key] = value
        self._table[key] = entry

    def rename(self, identity: Any, to: Any, value: Any) -> None:
        cursor = self._cursor
        key = cursor.key
        entry = self._get(key)
        if entry is None or identity not in entry or to in entry:
            super().rename(identity, to, value)
            return
        self._record(key, identity, CLEARED, REMOVE)
        del entry[identity]
        self._fresh[key, to] = value, cursor.timestamp
        entry[to] = value
        self._table[key] = entry

    def _record(self, key: KeyIdentity, identity: Any, value: Any, operation: str) -> None:
        if self._fresh.pop((key, identity), None) is None:
            super()._record(key, identity, value, operation)


def function_of(spec: StateSpec) -> Any:
    """The reduce callable or aggregate function of a spec."""
    if spec.kind is StateKind.REDUCING:
        return hook_of(spec.function, "reduce") or spec.function
    return spec.function
