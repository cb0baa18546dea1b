"""What a state backend promises.

A backend keeps tables: one per operator and state, from key identity to what the state's kind stores there (a value, a
list, a dict by map-key identity). One subtask owns one backend and uses it from one thread. A backend promises nothing
about durability: the changelog (or a snapshot) makes state durable, and a lost backend is filled again from there.

Invariants:
    * A table never holds None, an empty list or an empty dict: absence is the only form of "nothing".
    * Handles see only the entry of the cursor's key.
    * Namespaced state (of windows) is a table by (key identity, namespace identity): its handles have a cursor of their own,
      whose key is that pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol

from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.errors import NoCurrentKeyError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.types import TypeInformation

KeyIdentity = Any  # int, str or bytes; in namespaced state, a pair of such a one and the namespace's identity

EVENT_TIMERS = "__event_time_timers"
PROCESSING_TIMERS = "__processing_time_timers"


class Cursor:
    """Where the subtask stands: the current key and the current element's timestamp (ms, or the smallest long).

    It stands nowhere until a key is set, and after ``leave()``: reading ``key`` raises then. That costs nothing where there
    is a key, because a cursor that stands nowhere is of another class, in which ``key`` is no slot.
    """

    __slots__ = ("key", "timestamp")
    placed: ClassVar[bool] = True  # whether there is a current key

    def __init__(self) -> None:
        self.key: KeyIdentity
        self.timestamp: int = -(2**63)
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


class NamespaceCursor(Cursor):
    """A cursor in namespaced state: ``key`` is the pair (key identity, namespace identity)."""

    __slots__ = ()


class NamespaceScope(NamedTuple):
    """Where namespaced state of one operator lives.

    Args:
        cursor: tells key and namespace to the handles.
        codec: namespaces in the log.
    """

    cursor: NamespaceCursor
    codec: NamespaceCodec


class StateTable(Protocol):
    """A dict by key identity, as far as handles use one."""

    def get(self, key: KeyIdentity, default: Any = None, /) -> Any:
        """The entry, or the default."""

    def pop(self, key: KeyIdentity, default: Any, /) -> Any:
        """Remove and return the entry, or the default."""

    def __setitem__(self, key: KeyIdentity, entry: Any, /) -> None: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[KeyIdentity]: ...

    def items(self) -> Iterable[tuple[KeyIdentity, Any]]:
        """All entries. A table that is no dict gives them as they are at the first one, whatever changes meanwhile."""


class StateBackend(Protocol):
    """Keeps the keyed state of one subtask.

    One member more is optional: ``rows_folder()`` makes a `LocalFolder` for restored rows that wait for their state to be
    declared. Without it they wait in memory.
    """

    cursor: Cursor
    queues: dict[tuple[str, str], Any]

    def table(self, operator: str, state: str, kind: StateKind | None = None) -> StateTable:
        """The table of a state, created empty at first; whoever declares the state says its kind."""

    def state(
        self,
        operator: str,
        spec: StateSpec,
        key_type: TypeInformation | None,
        scope: NamespaceScope | None = None,
    ) -> Any:
        """The handle of a state, created empty at first; with a scope, of namespaced state."""

    def timers(
        self,
        operator: str,
        domain: str,
        key_type: TypeInformation | None,
        scope: NamespaceScope | None = None,
    ) -> Any:
        """The timer queue of an operator; domain is EVENT_TIMERS or PROCESSING_TIMERS."""

    def end_epoch(self) -> None:
        """An epoch has ended: the time for a backend on disk to write what changed."""

    def close(self) -> None:
        """Let go of everything."""
