"""The handles that user functions hold: the five kinds of keyed state over a table.

Invariants:
    * A mutable value is copied on its way in and on its way out, so changing it in place changes neither state nor log.
    * Values are checked against the declared type before anything changes.
    * ``update(None)`` and ``clear()`` are the same, as documented for ValueState.

``CellHandle.update`` runs once per record in most jobs. Keep it free of what isn't needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from changelog_engine.codec.keys import KeyCodec, key_codec_for
from changelog_engine.errors import TypeMismatchError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state.backend import Cursor, StateTable


def _keep(value: Any) -> Any:
    return value


class Admission:
    """Checks and copies of one state's values.

    Args:
        operator: uid, for messages.
        spec: the state.
        cursor: tells the key, for messages.
    """

    def __init__(self, operator: str, spec: StateSpec, cursor: Cursor) -> None:
        self.operator = operator
        self.spec = spec
        self.cursor = cursor
        self.type = spec.value_type
        self.exact = self.type.exact
        self.plain = self.type.quick_test()
        self.mutable = not self.type.immutable
        self.copy: Callable[[Any], Any] = self.type.copy if self.mutable else _keep

    def admit(self, value: Any) -> Any:
        """The value as the declared type wants it.

        Raises:
            TypeMismatchError: it does not fit; the message names operator, state and key.
        """
        try:
            return self.type.check(value)
        except TypeMismatchError as error:
            raise TypeMismatchError(
                f"state {self.spec.name!r} of operator {self.operator!r}, key {self.cursor.key!r}: {error}. "
                "Declare the type that the values have in the state's descriptor, or convert the value"
            ) from None

    def present(self, value: Any) -> Any:
        """As admit, and None is refused (lists, maps and reductions hold no None)."""
        if value is None:
            raise TypeMismatchError(
                f"state {self.spec.name!r} of operator {self.operator!r}, key {self.cursor.key!r}: None cannot be added; "
                "only ValueState takes None, and it means clear()"
            )
        return self.admit(value)


class CellHandle:
    """ValueState, and the cell under reducing and aggregating state."""

    def __init__(self, table: StateTable, cursor: Cursor, admission: Admission) -> None:
        self._table = table
        self._cursor = cursor
        self._get = table.get
        self._admission = admission
        self._exact = admission.exact
        self._plain = admission.plain
        self._default = admission.spec.default

    def value(self) -> Any:
        """The current key's value, or the descriptor's default (None)."""
        return self._get(self._cursor.key, self._default)

    def update(self, value: Any) -> None:
        """Set the current key's value; None clears it."""
        if type(value) is not self._exact:
            if value is None:
                self.clear()
                return
            if self._plain is None or not self._plain(value):
                value = self._admission.admit(value)
        self._table[self._cursor.key] = value

    def clear(self) -> None:
        """Remove the current key's value."""
        self._table.pop(self._cursor.key, None)


class CopyingCellHandle(CellHandle):
    """A cell of mutable values: copied in and out."""

    def value(self) -> Any:
        value = self._get(self._cursor.key)
        return self._default if value is None else self._admission.copy(value)

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        self._table[self._cursor.key] = self._admission.copy(self._admission.admit(value))


class ReducingHandle:
    """ReducingState: folds what is added with the reduce function."""

    def __init__(self, cell: Any, reduce: Callable[[Any, Any], Any], admission: Admission) -> None:
        self._cell = cell
        self._reduce = reduce
        self._admission = admission
        self._value = cell.value
        self._cell_checks = (
            admission.plain is not None
        )  # else it leaves the range of whole numbers to the log

    @property
    def cell(self) -> Any:
        """The state under it: windows that merge combine what it holds."""
        return self._cell

    def get(self) -> Any:
        """The folded value, or None before the first add."""
        return self._cell.value()

    def add(self, value: Any) -> None:
        """Fold one value in."""
        before = self._value()
        if before is not None:
            value = self._reduce(before, value)
        if value is None or not self._cell_checks:
            value = self._admission.present(value)
        self._cell.update(value)

    def clear(self) -> None:
        """Forget the folded value."""
        self._cell.clear()


class AggregatingHandle:
    """AggregatingState: keeps the aggregate function's accumulator."""

    def __init__(self, cell: Any, function: Any) -> None:
        self._cell = cell
        self._function = function

    @property
    def cell(self) -> Any:
        """The state under it, which holds the accumulator."""
        return self._cell

    def get(self) -> Any:
        """The aggregate's result, or None before the first add."""
        accumulator = self._cell.value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add one value to the accumulator."""
        accumulator = self._cell.value()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._cell.update(self._function.add(value, accumulator))

    def clear(self) -> None:
        """Forget the accumulator."""
        self._cell.clear()


class ListHandle:
    """ListState over a table of lists."""

    def __init__(self, table: StateTable, cursor: Cursor, admission: Admission) -> None:
        self._table = table
        self._cursor = cursor
        self._admission = admission
        self._copy = admission.copy
        self._mutable = admission.mutable

    def get(self) -> list[Any]:
        """The elements in order; an empty list when there are none."""
        entry = self._table.get(self._cursor.key)
        if entry is None:
            return []
        return [self._copy(value) for value in entry] if self._mutable else list(entry)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        """Append one element."""
        self._append([self._copy(self._admission.present(value))])

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements in order."""
        admitted = [self._copy(self._admission.present(value)) for value in values]
        if admitted:
            self._append(admitted)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list; an empty one clears it."""
        admitted = [self._copy(self._admission.present(value)) for value in values]
        if admitted:
            self._replace(admitted)
        else:
            self.clear()

    def clear(self) -> None:
        """Remove all elements."""
        self._table.pop(self._cursor.key, None)

    def _append(self, values: list[Any]) -> None:
        key = self._cursor.key
        entry = self._table.get(key)
        if entry is None:
            entry = values
        else:
            entry.extend(values)
        self._table[key] = entry

    def _replace(self, values: list[Any]) -> None:
        self._table[self._cursor.key] = values


class MapHandle:
    """MapState over a table of dicts by map-key identity."""

    def __init__(self, table: StateTable, cursor: Cursor, admission: Admission) -> None:
        self._table = table
        self._cursor = cursor
        self._admission = admission
        self._copy = admission.copy
        self._mutable = admission.mutable
        self._keys: KeyCodec = key_codec_for(admission.spec.map_key_type)
        exact = getattr(admission.spec.map_key_type, "exact", None)
        self._exact_key = exact if exact in (int, str) else None

    def _identity(self, map_key: Any) -> Any:
        try:
            return self._keys.identity(map_key)
        except TypeMismatchError as error:
            spec = self._admission.spec
            raise TypeMismatchError(
                f"map key of state {spec.name!r} of operator {self._admission.operator!r}, "
                f"key {self._cursor.key!r}: {error}"
            ) from None

    def get(self, map_key: Any) -> Any:
        """The value of a map key, or None."""
        entry = self._table.get(self._cursor.key)
        if entry is None:
            return None
        value = entry.get(map_key if type(map_key) is self._exact_key else self._identity(map_key))
        return self._copy(value) if self._mutable else value

    def put(self, map_key: Any, value: Any) -> None:
        """Set the value of a map key."""
        identity = map_key if type(map_key) is self._exact_key else self._identity(map_key)
        value = None if value is None else self._admission.admit(value)
        self._put(identity, self._copy(value))

    def entry(self) -> Any:
        """All of the current key's map, by identities, or None: neither it nor what is in it may be changed."""
        return self._table.get(self._cursor.key)

    def put_all(self, entries: Any) -> None:
        """Set many values; takes a dict or pairs."""
        pairs = entries.items() if hasattr(entries, "items") else entries
        for map_key, value in list(pairs):
            self.put(map_key, value)

    def remove(self, map_key: Any) -> None:
        """Remove a map key, if it is there."""
        entry = self._table.get(self._cursor.key)
        identity = map_key if type(map_key) is self._exact_key else self._identity(map_key)
        if entry is not None and identity in entry:
            self._remove(identity, entry)

    def contains(self, map_key: Any) -> bool:
        """Whether a map key is there."""
        entry = self._table.get(self._cursor.key)
        if entry is None:
            return False
        return (map_key if type(map_key) is self._exact_key else self._identity(map_key)) in entry

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of map key and value, as they were at the call."""
        entry = self._table.get(self._cursor.key) or {}
        key_of, copy = self._keys.key_of, self._copy
        return iter([(key_of(identity), copy(value)) for identity, value in entry.items()])

    def keys(self) -> Iterator[Any]:
        """Map keys, as they were at the call."""
        entry = self._table.get(self._cursor.key) or {}
        return iter([self._keys.key_of(identity) for identity in entry])

    def values(self) -> Iterator[Any]:
        """Values, as they were at the call."""
        entry = self._table.get(self._cursor.key) or {}
        return iter([self._copy(value) for value in entry.values()])

    def is_empty(self) -> bool:
        """Whether no map key is there."""
        return self._table.get(self._cursor.key) is None

    def clear(self) -> None:
        """Remove all map keys."""
        self._table.pop(self._cursor.key, None)

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[Any]:
        return self.keys()

    def _put(self, identity: Any, value: Any) -> None:
        key = self._cursor.key
        entry = self._table.get(key)
        if entry is None:
            entry = {}
        entry[identity] = value
        self._table[key] = entry

    def _remove(self, identity: Any, entry: dict[Any, Any]) -> None:
        del entry[identity]
        if entry:
            self._table[self._cursor.key] = entry
        else:
            self._table.pop(self._cursor.key, None)


def function_of(spec: StateSpec) -> Any:
    """The reduce callable or aggregate function of a spec."""
    if spec.kind is StateKind.REDUCING:
        return getattr(spec.function, "reduce", spec.function)
    return spec.function
