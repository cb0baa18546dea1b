"""Values of state that a function changed in place, and did not set again: a warning tells of them.

The change is lost (docs/decisions/0007-mutable-values-are-copied.md). PyFlink's process mode shows it for as long as Python
caches the state, so that a program which forgets update() seems to work there, until a restore.

Invariants:
    * The first values that a function gets from a state, or sets, are looked at, those of tables on the heap; then the
      handle's methods are what they were.
    * Nothing is said of a value that was set anew, cleared or removed before the epoch's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from changelog_engine.codec.values import Encoded, codec_for
from changelog_engine.graph.nodes import StateKind
from changelog_engine.graph.subtask_warnings import warn
from changelog_engine.state.backend import KeyIdentity
from changelog_engine.state.compiled_handles import has_own_class
from changelog_engine.state.factory import OpenState
from changelog_engine.types import TypeInformation
from changelog_engine.windowing.reserved import RESERVED

_VALUES = 100  # of a state, that are looked at
_BYTES = 1 << 20  # of a state's values, encoded, behind which no more are looked at
_GETTERS = {
    StateKind.VALUE: ("value",),
    StateKind.REDUCING: ("get",),
    StateKind.LIST: ("get",),
    StateKind.MAP: ("get", "__getitem__"),
}
_SETTERS = {StateKind.VALUE: ("update",), StateKind.LIST: ("add",), StateKind.MAP: ("put", "__setitem__")}
_REMEDIES = {
    StateKind.VALUE: "update(value)",
    StateKind.REDUCING: "add(value)",
    StateKind.LIST: "update(values)",
    StateKind.MAP: "put(key, value)",
}


class _Seen(NamedTuple):
    """A value that a function got or set."""

    at: Any
    value: Any  # the function's own object
    encoded: Encoded  # that, as it was then
    stored: Any  # what stood there for it then, itself


class SeenValues:
    """The first values that a function got from a state, or set.

    Args:
        stored: what stands at a place now.
    """

    def __init__(self, value_type: TypeInformation, stored: Callable[[Any], Any]) -> None:
        self._encode = codec_for(value_type).encode
        self._stored = stored
        self._seen: list[_Seen] = []
        self._bytes_left = _BYTES
        self.left = _VALUES  # how many more are looked at

    def see(self, value: Any, at: Any) -> None:
        """Keep a value in mind that stands there now.

        Args:
            value: the function's own object.
            at: as ``stored`` takes it.
        """
        stored = self._stored(at)
        if stored is None:  # removed since an iterator over the state began
            return
        try:
            encoded = self._encode(value)
        except Exception:  # it was set, and admitted as another one, such as a tuple for a list
            return
        self._seen.append(_Seen(at, value, encoded, stored))
        self._bytes_left -= len(encoded.text or "") + len(encoded.payload or "")
        self.left = 0 if self._bytes_left < 0 else self.left - 1

    def lost(self) -> Any:
        """Where a value stands that was changed in place and not set again since the last call; None for nowhere."""
        seen, self._seen = self._seen, []
        for each in seen:
            if self._stored(each.at) is each.stored and self._changed(each):
                self.left = 0
                return each.at
        return None

    def _changed(self, seen: _Seen) -> bool:
        try:
            return self._encode(seen.value) != seen.encoded
        except Exception:  # what the state cannot have: it was changed
            return True


class _At(NamedTuple):
    """Where a value of keyed state stands."""

    key: KeyIdentity
    place: Any  # of a map, the map key's identity; of a list, the number of the element; else None


class _Watch:
    """The first values of one keyed state.

    Args:
        handle: of a class of its own, whose methods are replaced until enough was seen.
    """

    def __init__(self, state: OpenState, handle: Any) -> None:
        self._state = state
        self._kind = state.spec.kind
        self._handle = handle
        self._class = type(handle)  # explain gives the handle its general class
        self._values = SeenValues(state.spec.value_type, self._stored)
        seeing = {name: self._seeing_got(getattr(handle, name)) for name in _GETTERS[self._kind]}
        seeing |= {name: self._seeing_set(getattr(handle, name)) for name in _SETTERS.get(self._kind, ())}
        if self._kind is StateKind.MAP:
            items = handle.items
            seeing["items"] = lambda handle: self._each_seen(items())
            seeing["values"] = lambda handle: (value for _, value in self._each_seen(items()))
        self._own = {name: vars(self._class).get(name) for name in seeing}
        for name, method in seeing.items():
            setattr(self._class, name, method)

    def _seeing_got(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def seeing(handle: Any, *map_key: Any, **named: Any) -> Any:
            value = method(*map_key, **named)
            if self._values.left > 0 and value is not None and not named:
                if self._kind is not StateKind.LIST:
                    self._see(value, *map_key)
                else:
                    for place, each in enumerate(value):
                        self._see(each, place)
            return value

        return seeing

    def _seeing_set(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def seeing(handle: Any, *arguments: Any, **named: Any) -> Any:
            done = method(*arguments, **named)
            if self._values.left > 0 and not named and arguments[-1] is not None:
                place = (-1,) if self._kind is StateKind.LIST else arguments[:-1]
                self._see(arguments[-1], *place)
            return done

        return seeing

    def _each_seen(self, pairs: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """The pairs of a map, as they were when the map was asked."""
        for map_key, value in pairs:
            self._see(value, map_key)
            yield map_key, value

    def _see(self, value: Any, place: Any = None) -> None:
        if self._values.left == 0:
            return
        key = self._state.cursor.key
        if self._kind is StateKind.MAP:
            place = self._handle._identity(place)
        elif place == -1:
            place = len(self._state.table.get(key)) - 1
        self._values.see(value, _At(key, place))
        if self._values.left == 0:
            self._leave()

    def _leave(self) -> None:
        """Give the handle its own methods again."""
        for name, own in self._own.items():
            if own is None:
                delattr(self._class, name)
            else:
                setattr(self._class, name, own)
        self._own.clear()

    def end_epoch(self) -> bool:
        """Look at what was seen; whether that was all that is looked at."""
        lost = self._values.lost()
        if lost is not None:
            self._leave()
            key, name = self._state.cursor.words(lost.key), self._state.spec.name
            tell(self._state.operator, key, f"state {name!r}", _REMEDIES[self._kind])
        return self._values.left == 0

    def _stored(self, at: _At) -> Any:
        entry = self._state.table.get(at.key)
        if entry is None or at.place is None:
            return entry
        if self._kind is StateKind.MAP:
            return entry.get(at.place)
        return entry[at.place] if at.place < len(entry) else None


def tell(operator: str, key: str, state: str, remedy: str) -> None:
    """Warn of a change that is lost.

    Args:
        key: in words, as they follow the operator's name; "" for none.
        remedy: the call that keeps it.
    """
    warn(
        f"{state} of {operator!r} changed in place",
        "operator %r%s: a value of %s was changed in place, and not set again. The change is lost; PyFlink's process mode "
        "shows it until a restore. Call %s with what is to be kept. Further ones of this state are not named",
        operator,
        key,
        state,
        remedy,
    )


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
