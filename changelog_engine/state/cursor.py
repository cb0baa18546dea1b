"""Where a subtask stands while a user's function runs: the current key, and in namespaced state the namespace.

Invariants:
    * Handles see only the entry of the cursor's key.
    * Namespaced state (of windows) is a table by (key identity, namespace identity): its handles have a cursor of their own,
      whose key is that pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.errors import NoCurrentKeyError
from changelog_engine.event_time import NO_TIMESTAMP
from changelog_engine.graph.nodes import NO_KEY
from changelog_engine.state.backend import KeyIdentity
from changelog_engine.types.typeinfo import shown


def key_words(key: Any) -> str:
    """Which key a message is about; nothing for the key of streams that have none."""
    return "" if type(key) is bytes and key == NO_KEY else f", key {shown(key)}"


class Cursor:
    """Where the subtask stands: the current key and the current element's timestamp (ms, or the smallest long).

    It stands nowhere until a key is set, and after ``leave()``: reading ``key`` raises then. That costs nothing where there
    is a key, because a cursor that stands nowhere is of another class, in which ``key`` is not a slot.
    """

    __slots__ = ("key", "timestamp", "words")
    placed: ClassVar[bool] = True  # whether there is a current key

    def __init__(self) -> None:
        self.key: KeyIdentity
        self.timestamp: int = NO_TIMESTAMP
        self.words: Callable[[KeyIdentity], str] = key_words  # of a key's identity, for messages
        self.leave()

    def leave(self) -> None:
        """From now on there is no current key."""
        self.__class__ = _Nowhere


class _Nowhere(Cursor):
    """A cursor without a key: setting one makes it a cursor again."""

    __slots__ = ()
    placed = False

    @property
    def key(self) -> KeyIdentity:
        """There is none.

        Raises:
            NoCurrentKeyError: always.
        """
        raise NoCurrentKeyError()

    @key.setter
    def key(self, key: KeyIdentity) -> None:
        self.__class__ = Cursor  # type: ignore[assignment]
        self.key = key


class NamespaceScope(NamedTuple):
    """Where namespaced state of one operator lives: its cursor's key is a pair, (key identity, namespace identity)."""

    cursor: Cursor
    codec: NamespaceCodec
