"""Values of state that a function changed in place, and did not set again: a warning tells of them.

The change is lost (docs/decisions/0007-mutable-values-are-copied.md). PyFlink's process mode shows it for as long as Python
caches the state, so that a program which forgets update() seems to work there, until a restore.

Invariants:
    * The first values that a function gets from a state, or sets, are looked at, those of tables on the heap; then the
      handle's methods are what they were.
    * Nothing is said of a value that was set anew, cleared or removed before the epoch's end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from changelog_engine.codec.values import Encoded, codec_for
from changelog_engine.graph.nodes import StateKind
from changelog_engine.state.backend import KeyIdentity
from changelog_engine.state.compiled_handles import has_own_class
from changelog_engine.state.factory import OpenState
from changelog_engine.windowing.reserved import RESERVED

log = logging.getLogger(__name__)

_VALUES = 100  # of a state, that are looked at
_BYTES = 1 << 20  # of a state's values, encoded, behind which no more are looked at
_GETTERS = {StateKind.VALUE: ("value",), StateKind.LIST: ("get",), StateKind.MAP: ("get", "__getitem__")}
_SETTERS = {StateKind.VALUE: ("update",), StateKind.LIST: ("add",), StateKind.MAP: ("put", "__setitem__")}
_REMEDIES = {
    StateKind.VALUE: "update(value)",
    StateKind.LIST: "update(values)",
    StateKind.MAP: "put(key, value)",
}


class _Seen(NamedTuple):
    """A value that a function got or set.

    Args:
        key: at which.
        place: of a map, the map key's identity; of a list, the number of the element; else None.
        value: the function's own object.
        encoded: that, as it was then.
        stored: what stands in the table for it, itself.
    """

    key: KeyIdentity
    place: Any
    value: Any
    encoded: Encoded
    stored: Any


class _Watch:
    """The first values of one state.

    Args:
        handle: of a class of its own, whose methods are replaced until enough was seen.
    """

    def __init__(self, state: OpenState, handle: Any) -> None:
        self._state = state
        self._kind = state.spec.kind
        self._handle = handle
        self._encode = codec_for(state.spec.value_type).encode
        self._seen: list[_Seen] = []
        self._left, self._bytes_left = _VALUES, _BYTES
        getters, setters = _GETTERS[self._kind], _SETTERS[self._kind]
        self._class = type(handle)  # explain gives the handle its general class
        self._own = {name: vars(self._class).get(name) for name in (*getters, *setters)}
        seeing = {name: self._seeing_got(getattr(handle, name)) for name in getters}
        seeing |= {name: self._seeing_set(getattr(handle, name)) for name in setters}
        for name, method in seeing.items():
            setattr(self._class, name, method)

    def _seeing_got(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def seeing(handle: Any, *map_key: Any, **named: Any) -> Any:
            value = method(*map_key, **named)
            if self._left > 0 and value is not None and not named:
                if self._kind is not StateKind.LIST:
                    self._see(value, *map_key)
                else:
                    for place, each in enumerate(value):
                        if self._left > 0:
                            self._see(each, place)
            return value

        return seeing

    def _seeing_set(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def seeing(handle: Any, *arguments: Any, **named: Any) -> Any:
            done = method(*arguments, **named)
            if self._left > 0 and not named and arguments[-1] is not None:
                place = (-1,) if self._kind is StateKind.LIST else arguments[:-1]
                self._see(arguments[-1], *place)
            return done

        return seeing

    def _see(self, value: Any, place: Any = None) -> None:
        """Keep a value in mind that stands in the table now."""
        key = self._state.cursor.key
        try:
            encoded = self._encode(value)
        except Exception:  # it was set, and admitted as another one, such as a tuple for a list
            return
        if self._kind is StateKind.MAP:
            place = self._handle._identity(place)
        elif place == -1:
            place = len(self._state.table.get(key)) - 1
        self._seen.append(_Seen(key, place, value, encoded, self._stored(key, place)))
        self._left -= 1
        self._bytes_left -= len(encoded.text or "") + len(encoded.payload or "")
        if self._left == 0 or self._bytes_left < 0:
            self._leave()

    def _leave(self) -> None:
        """Give the handle its own methods again."""
        self._left = 0
        for name, own in self._own.items():
            if own is None:
                delattr(self._class, name)
            else:
                setattr(self._class, name, own)
        self._own.clear()

    def end_epoch(self) -> bool:
        """Look at what was seen; whether that was all that is looked at."""
        seen, self._seen = self._seen, []
        lost = next((each for each in seen if self._lost(each)), None)
        if lost is not None:
            log.warning(
                "operator %r%s: a value of state %r was changed in place, and not set again. The change is lost; PyFlink's "
                "process mode shows it until a restore. Call %s with what is to be kept. Further ones of this state in this "
                "subtask are not named",
                self._state.operator,
                self._state.cursor.words(lost.key),
                self._state.spec.name,
                _REMEDIES[self._kind],
            )
        if lost is not None:
            self._leave()
        return self._left == 0

    def _stored(self, key: KeyIdentity, place: Any) -> Any:
        entry = self._state.table.get(key)
        if entry is None or self._kind is StateKind.VALUE:
            return entry
        if self._kind is StateKind.MAP:
            return entry.get(place)
        return entry[place] if place < len(entry) else None

    def _lost(self, seen: _Seen) -> bool:
        if self._stored(seen.key, seen.place) is not seen.stored:
            return False
        try:
            return self._encode(seen.value) != seen.encoded
        except Exception:  # what the state cannot have: it was changed
            return True


class ChangesInPlace:
    """The states of a subtask whose first values are looked at."""

    def __init__(self) -> None:
        self._watches: list[_Watch] = []

    def watch(self, state: OpenState, handle: Any) -> None:
        """Look at a state, if its values can change, and its handle can be watched."""
        spec = state.spec
        if spec.kind not in _GETTERS or spec.name.startswith(RESERVED) or spec.value_type.immutable:
            return
        if type(state.table) is dict and has_own_class(handle):
            self._watches.append(_Watch(state, handle))

    def end_epoch(self) -> None:
        """All functions have returned: warn of what they changed and did not set."""
        if self._watches:
            self._watches = [watch for watch in self._watches if not watch.end_epoch()]
