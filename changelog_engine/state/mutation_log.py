"""The mutations of one state as its handle logs them: parallel lists. The changelog's buffer makes columns of them."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from changelog_engine.codec.values import CLEARED
from changelog_engine.errors import TypeMismatchError
from changelog_engine.event_time import NO_TIMESTAMP
from changelog_engine.state.cursor import Cursor
from changelog_engine.windowing.reserved import declared_in, state_words

PUT = "put"
REMOVE = "remove"
CLEAR = "clear"
APPEND = "append"
REPLACE = "replace"
REGISTER_TIMER = "register_timer"
DELETE_TIMER = "delete_timer"


def misfit(operator: str, state: str, where: str, error: TypeMismatchError) -> TypeMismatchError:
    """What to raise of a value that does not fit its state's type.

    Args:
        operator: uid.
        where: the words for the key under which the value was to be kept, see ``cursor.key_words``.
        error: says what does not fit.
    """
    return TypeMismatchError(
        f"{state_words(state)} of operator {operator!r}{where}: {error}. "
        f"Declare the type that the values have in {declared_in(state)}, or convert the value"
    )


class MutationLog:
    """The waiting mutations of one state.

    Args:
        net: the log is one of net changes, for what the engine keeps account of by itself (windows' timers, and which
            windows of a key have merged): what comes and goes again before the log is written leaves no mutation in it.

    Attributes:
        keys: key identities; in namespaced state, pairs of key and namespace.
        values: CLEARED where the operation has no value.
        map_keys: identities; CLEARED where the operation has none. None for what is not a map.
        operations: None for states where the value tells the operation (put, or clear where it is CLEARED).
        times: timestamps of the elements, in ms; None where there are none.
        fresh: of net changes, what was added since the log was written and is still there, in the order of the additions:
            (timestamp in ms, key) of a timer, and the element's time; (key, map key) of a map's entry, and the pair of its
            value and the element's time. It comes behind the lists, which have what was removed. An entry is only added
            where there is none. None in other logs.
    """

    __slots__ = ("fresh", "keys", "map_keys", "operations", "times", "values")

    def __init__(self, of_map: bool, explicit: bool, timed: bool, net: bool = False) -> None:
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.map_keys: list[Any] | None = [] if of_map else None
        self.operations: list[str] | None = [] if explicit else None
        self.times: list[int] | None = [] if timed else None
        self.fresh: dict[tuple[Any, Any], Any] | None = {} if net else None

    def record(
        self, key: Any, value: Any, operation: str, time: int = NO_TIMESTAMP, map_key: Any = CLEARED
    ) -> None:
        """Append one mutation, at the element's timestamp in ms."""
        self.keys.append(key)
        if self.map_keys is not None:
            self.map_keys.append(map_key)
        self.values.append(value)
        if self.operations is not None:
            self.operations.append(operation)
        if self.times is not None:
            self.times.append(time)

    def record_list(self, cursor: Cursor, values: list[Any], first: str) -> None:
        """Append one mutation of the current key for each of some values: the first one's operation, then ``append``."""
        self.keys.extend(repeat(cursor.key, len(values)))
        self.values.extend(values)
        if self.operations is not None:
            self.operations.append(first)
            self.operations.extend(repeat(APPEND, len(values) - 1))
        if self.times is not None:
            self.times.extend(repeat(cursor.timestamp, len(values)))

    def waiting(self) -> int:
        """How many mutations wait."""
        return len(self.keys) + (len(self.fresh) if self.fresh else 0)

    def collect(self) -> None:
        """Put what was added into the lists, which are about to be encoded."""
        if not self.fresh:
            return
        assert self.operations is not None
        if self.map_keys is None:
            timestamps, keys = zip(*self.fresh, strict=True)
            self.values.extend(timestamps)
            times: Any = self.fresh.values()
        else:
            keys, map_keys = zip(*self.fresh, strict=True)
            values, times = zip(*self.fresh.values(), strict=True)
            self.map_keys.extend(map_keys)
            self.values.extend(values)
        self.keys.extend(keys)
        self.operations.extend(repeat(REGISTER_TIMER if self.map_keys is None else PUT, len(keys)))
        if self.times is not None:
            self.times.extend(times)
        self.fresh.clear()

    def clear(self) -> None:
        """Forget the waiting mutations."""
        self.keys.clear()
        self.values.clear()
        for column in (self.map_keys, self.operations, self.times, self.fresh):
            if column is not None:
                column.clear()
