"""The windows of a key that may merge, and which state window holds the elements of each.

When windows become one, the elements stay where those of the first one are, and the others' are moved there. The map from
window to state window is keyed state, ``__merging_windows``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.operators.context import TaskContext
from changelog_engine.types import Types
from changelog_engine.windowing.assigner import MergingWindowAssigner
from changelog_engine.windowing.namespaces import WindowCodec

MERGING_WINDOWS = "__merging_windows"
_MAX_READ = 65_536

# (merged window, windows that became it, state window of the first, state windows of the others)
OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]


class _Groups(MergingWindowAssigner.MergeCallback[Any]):
    def __init__(self) -> None:
        self.found: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.found.append((list(to_be_merged), merge_result))


class MergingWindows:
    """The windows of the current key.

    Args:
        context: the operator's runtime context.
        net: the map's log has net changes.

    Attributes:
        handle: of the map, whose keys and values are the texts of windows and their state windows.
    """

    def __init__(
        self,
        assigner: MergingWindowAssigner[Any, Any],
        codec: WindowCodec,
        context: TaskContext,
        net: bool = False,
    ) -> None:
        self._assigner = assigner
        self._codec = codec
        self.handle = context.declare(
            StateSpec(MERGING_WINDOWS, StateKind.MAP, Types.STRING(), Types.STRING(), net=net)
        )
        self._read: dict[str, Any] = {}  # identities by texts, to parse few

    def state_window(self, identity: Any) -> Any:
        """The identity of the state window of a window, or None when the key has no such window."""
        text = self.handle.get(self._codec.text(identity))
        return None if text is None else self.read(text)

    def held(self) -> list[tuple[Any, Any]]:
        """Pairs of the key's windows and their state windows."""
        entry, read = self.handle.held(), self.read
        return [] if entry is None else [(read(own), read(state)) for own, state in entry.items()]

    def read(self, text: str) -> Any:
        """The identity of a text of the map."""
        identity = self._read.get(text)
        if identity is None:
            identity = self._remember(text, self._codec.from_text(text))
        return identity

    def put(self, identity: Any, state: Any) -> None:
        """Remember a window and its state window."""
        text = self._codec.text(identity)
        self._remember(text, identity)
        self.handle.put(text, text if identity is state else self._codec.text(state))

    def remove(self, identity: Any) -> None:
        """Forget a window."""
        self.handle.remove(self._codec.text(identity))

    def _remember(self, text: str, identity: Any) -> Any:
        if len(self._read) >= _MAX_READ:
            self._read.clear()
        self._read[text] = identity
        return identity

    def add(self, window: Any, is_late: Callable[[Any], bool], on_merge: OnMerge) -> tuple[Any, Any] | None:
        """Add a window to those of the key, and merge what merges with it.

        Args:
            is_late: tells that it takes no elements any more, unless it merges with one that does.
            on_merge: called when windows of the key became one.

        Returns:
            The window that holds the new one, and the identity of its state window; None when it is late.
        """
        codec, new = self._codec, self._codec.identity(window)
        mapping = dict(self.held())
        actual, actual_identity = window, new
        if mapping:
            groups = _Groups()
            self._assigner.merge_windows([*(codec.window(held) for held in mapping), window], groups)
            for members, result in groups.found:
                identities = list(dict.fromkeys([codec.identity(member) for member in members]))
                merged = codec.identity(result)
                if new in identities:
                    actual, actual_identity = result, merged
                old = [identity for identity in identities if identity in mapping]
                if old and old != [merged]:
                    self._replace(old, merged, mapping, result, on_merge)
        if actual_identity not in mapping:
            if is_late(actual):
                return None
            mapping[actual_identity] = actual_identity
            self.put(actual_identity, actual_identity)
        return actual, mapping[actual_identity]

    def _replace(
        self, old: list[Any], merged: Any, mapping: dict[Any, Any], result: Any, on_merge: OnMerge
    ) -> None:
        """Put a merged window in the place of those that became it."""
        for identity in old:
            if identity != merged:
                self.remove(identity)
        states = [mapping.pop(identity) for identity in old]
        mapping[merged] = states[0]
        self.put(merged, states[0])
        on_merge(result, [self._codec.window(identity) for identity in old], states[0], states[1:])
