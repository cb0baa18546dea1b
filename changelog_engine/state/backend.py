"""What a state backend is: it gives tables, and has a life cycle. docs/state-backends.md shows how to write one.

A backend keeps one table for each state of a subtask, from key identity to what the state's kind stores there, and one for
the timers of each operator and time domain. The engine makes the handles that user functions hold; they work on these
tables, and with the changelog on they log each mutation before it. A backend knows nothing of handles or of the log.

Invariants:
    * One subtask owns one backend and uses it from one thread.
    * Tables are created empty. A backend promises nothing about durability: the changelog (or a full snapshot) makes state
      durable, and an empty backend is filled again from there.
    * A table never holds None, an empty list or an empty dict: absence is the only form of "nothing".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from changelog_engine.graph.nodes import StateKind
from changelog_engine.state.sizes import TableSize
from changelog_engine.state.timer_table import HeapTimers, TimerTable

__all__ = ["KeyIdentity", "StateBackend", "StateKind", "StateTable", "TableSize", "TimerTable"]

KeyIdentity = Any
"""An int, a str or bytes; in namespaced state, a pair of such a one and the namespace's identity, which may be a tuple."""

EVENT_TIMERS = "__event_time_timers"
PROCESSING_TIMERS = "__processing_time_timers"
TIMER_DOMAINS = {EVENT_TIMERS: "event time", PROCESSING_TIMERS: "processing time"}
# As people are shown them, and name them.
TIMER_STATES = {state: f"({words} timers)" for state, words in TIMER_DOMAINS.items()}
_LOGGED = {shown: state for state, shown in TIMER_STATES.items()}

PAGE = "docs/state-backends.md"  # for messages


def logged_name(state: str) -> str:
    """What the log calls a state, or timers, by the name that people are shown."""
    return _LOGGED.get(state, state)


@runtime_checkable
class StateTable(Protocol):
    """A dict by key identity, as far as the engine uses one; a dict is one.

    An entry is a value for VALUE, REDUCING (what was folded) and AGGREGATING (the accumulator), a list of values for LIST,
    and for MAP a dict by map-key identity, which keeps the order of insertion. The engine may change the list or the dict
    that ``get`` gave, and sets it again afterwards, before it reads that key again: a table may give the same object each
    time or a new one. It changes no value that ``get`` gave.
    """

    def get(self, key: KeyIdentity, default: Any = None, /) -> Any:
        """The entry, or the default."""

    def pop(self, key: KeyIdentity, default: Any, /) -> Any:
        """Remove and return the entry, or the default."""

    def __setitem__(self, key: KeyIdentity, entry: Any, /) -> None: ...

    def items(self) -> Iterable[tuple[KeyIdentity, Any]]:
        """All entries, in any order. A table that is not a dict gives them as they are at the first one, whatever changes
        meanwhile; of a dict, the engine reads none while it changes.
        """  # noqa: D205


class BufferedTable(ABC):
    """A table of the engine's own that holds changed entries in a dict until it writes them.

    Attributes:
        changed: those entries, None for keys whose entry was removed; the same dict as long as the table lives. Whoever
            finds a key in it may set that key's entry there. All others are found and set by the table's methods.
    """

    changed: dict[KeyIdentity, Any]

    @abstractmethod
    def of_fixed_size(self, fixed: bool) -> None:
        """Whether its entries do not grow, as LONGs: then changed ones may wait for longer than an epoch."""


class StateBackend(ABC):
    """Keeps the keyed state of one subtask. Only ``table`` must be written; the others have defaults."""

    @abstractmethod
    def table(self, operator: str, state: str, kind: StateKind) -> StateTable:
        """An empty table for a state. It is asked for once for each state, when the state is declared.

        Args:
            operator: uid of the operator that has the state.
            state: its name; unique within the operator.
            kind: what its entries are. State with a time to live that reduces or aggregates is of kind VALUE here.
        """

    def timer_table(self, operator: str, domain: str) -> TimerTable:
        """An empty table for an operator's timers in a time domain, asked for once; by default one on the heap.

        Args:
            operator: uid of the operator.
            domain: tells the two time domains from each other.
        """
        return HeapTimers()

    def rows_folder(self) -> str | None:
        """A local folder below which restored rows may wait until their state is declared; the engine removes them.

        By default None: they wait in memory. A backend for more state than fits there names a folder.
        """
        return None

    def sizes(self) -> Mapping[tuple[str, str], TableSize]:
        """About how large tables are, by (operator, state), for people; asked at checkpoints, so it must take no time.

        A state "" stands for all those of the operator, an operator "" for all. Tables that are dicts need not be named.
        By default nothing is known.
        """
        return {}

    def begin_epoch(self) -> None:  # optional
        """An epoch begins: the time for a backend on disk to write what the one before changed.

        A checkpoint waits for what is done at the end of its epoch, and not for this. By default nothing happens.
        """

    def end_epoch(self) -> None:  # optional
        """An epoch has ended: the last moment to say that something is wrong, before a checkpoint is taken.

        By default nothing happens.
        """

    def close(self) -> None:  # optional
        """Let go of everything; nothing is asked of the backend or its tables afterwards. By default nothing happens."""


class KeptBackend(StateBackend):
    """A backend of the engine's own that another attempt of the process may go on with, tables and all (local recovery).

    Timers are on the heap, and the next attempt asks for new tables of them.
    """

    @abstractmethod
    def is_whole(self) -> bool:
        """Whether every table has all that was put into it: False where a write may have been done by half."""

    @abstractmethod
    def remove(self, table: StateTable) -> None:
        """This table of the backend is no longer used."""
