"""The mutations of one state as its handle logs them: parallel lists. The changelog's buffer makes columns of them."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from changelog_engine.errors import TypeMismatchError
from changelog_engine.state.cursor import Cursor

PUT = "put"
REMOVE = "remove"
CLEAR = "clear"
APPEND = "append"
REPLACE = "replace"
REGISTER_TIMER = "register_timer"
DELETE_TIMER = "delete_timer"


def misfit(operator: str, state: str, key: Any, error: TypeMismatchError) -> TypeMismatchError:
    """What to raise of a value that does not fit its state's type.

    Args:
        operator: uid.
        state: its name.
        key: under which the value was to be kept.
        error: says what does not fit.
    """
    return TypeMismatchError(
        f"state {state!r} of operator {operator!r}, key {key!r}: {error}. "
        "Declare the type that the values have in the state's descriptor, or convert the value"
    )


class MutationLog:
    """The waiting mutations of one state.

    Args:
        of_map: the state is a map.
        explicit: operations are kept.
        timed: the stream has timestamps.

    Attributes:
        keys: key identities; in namespaced state, pairs of key and namespace.
        values: CLEARED where the operation has no value.
        map_keys: identities; CLEARED where the operation has none. None for what is not a map.
        operations: None for states where the value tells the operation (put, or clear where it is CLEARED).
        times: timestamps of the elements, in ms; None where there are none.
    """

    __slots__ = ("keys", "map_keys", "operations", "times", "values")

    def __init__(self, of_map: bool, explicit: bool, timed: bool) -> None:
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.map_keys: list[Any] | None = [] if of_map else None
        self.operations: list[str] | None = [] if explicit else None
        self.times: list[int] | None = [] if timed else None

    def record(self, cursor: Cursor, value: Any, operation: str | None = None) -> None:
        """Append one mutation of the current key of a state that is not a map."""
        self.keys.append(cursor.key)
        self.values.append(value)
        if self.operations is not None and operation is not None:
            self.operations.append(operation)
        if self.times is not None:
            self.times.append(cursor.timestamp)

    def record_list(self, cursor: Cursor, values: list[Any], first: str) -> None:
        """Append one mutation of the current key for each of some values: the first one's operation, then ``append``."""
        self.keys.extend(repeat(cursor.key, len(values)))
        self.values.extend(values)
        if self.operations is not None:
            self.operations.append(first)
            self.operations.extend(repeat(APPEND, len(values) - 1))
        if self.times is not None:
            self.times.extend(repeat(cursor.timestamp, len(values)))

    def clear(self) -> None:
        """Forget the waiting mutations."""
        self.keys.clear()
        self.values.clear()
        for column in (self.map_keys, self.operations, self.times):
            if column is not None:
                column.clear()
