"""What a traced replay knows while it runs: which record or timer is being processed, what it changed and what it read.

Invariant: exactly one invocation is under way while a user's function runs; a mutation belongs to the invocation in which it
was logged, and mutations are numbered in the order in which they happened, whatever their state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from changelog_engine.provenance.result import CodeLine
from changelog_engine.provenance.source_ranges import SourceRange
from changelog_engine.replay.log_rows import Mutation
from changelog_engine.types.copies import separate

Origin = Any
"""Where an element comes from: a RecordAt, a Step whose function gave it, a Via round one of these, or None."""


class Via(NamedTuple):
    """An element that came through operators without keyed state."""

    through: tuple[str, ...]
    origin: Origin


@dataclass(slots=True, eq=False)
class Step:
    """One call of a keyed function: for an element, or for a timer.

    Attributes:
        operator: uid.
        key: identity of the key; in windows' timers a pair with the window.
        origin: of the element; of a timer the Step that set it, None where that was before the replay.
        timer: (domain, timestamp) of a timer.
        reads: the mutations and held entries that were read so far, in order.
    """

    operator: str
    key: Any
    origin: Origin
    element: Any
    timer: tuple[str, int] | None = None
    reads: dict[Any, None] | None = None


class Held(NamedTuple):
    """An entry that was there before the replay began, and was read."""

    operator: str
    state: str
    key: Any
    map_key: Any


@dataclass(slots=True, eq=False)
class Event:
    """One mutation.

    Attributes:
        number: from 1, in the order in which mutations happened.
        key: as the log keeps it: an identity, or a pair with a namespace.
        step: what was under way; None for the engine's own, such as the end of a time to live.
        line: of the user's code that did it.
        reads: what the invocation had read until then.
        mutation: what happened; it is known when the log was written.
        live: of an entry of a map: it is there after it.
    """

    number: int
    checkpoint: int
    operator: str
    state: str
    key: Any
    index: int
    live: bool = True
    step: Step | None = None
    line: CodeLine | None = None
    reads: tuple[Any, ...] = ()
    mutation: Mutation | None = None


class OutputAt(NamedTuple):
    """An element that reached a sink."""

    sink: str
    value: Any
    timestamp: int | None
    through: tuple[str, ...]
    origin: Origin
    checkpoint: int


@dataclass(eq=False)
class Tracker:
    """What is going on in a traced replay.

    Args:
        keys: stage to the identity of the key whose mutations are kept; of stages that are not in it, all are.
        wants_output: (sink, value) -> whether an output is kept; None keeps none.
        keeps_all: mutations of stages without a wanted key are kept even when reads are not.
    """

    keys: dict[int, Any]
    reads: bool = False
    wants_output: Callable[[str, Any], bool] | None = None
    keeps_all: bool = False

    def __post_init__(self) -> None:
        self.step: Step | None = None
        self.origin: Origin = None  # of what an operator gives now
        self.given: Sequence[Origin] | SourceRange = ()  # of the batch that is pushed now
        self.path: tuple[str, ...] = ()  # of the batch: operators since the source or the last keyed one
        self.sent: dict[tuple[int, int, int], list[Origin]] = {}  # of the blocks under way
        self.checkpoint = 0
        self.events: list[Event] = []
        self.outputs: list[OutputAt] = []

    def take_output(self, sink: str, values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Elements have reached a sink."""
        wants = self.wants_output
        if wants is None:
            return
        for index, value in enumerate(values):
            if wants(sink, value):
                kept = separate([value])[0]
                time = None if times is None else int(times[index])
                self.outputs.append(OutputAt(sink, kept, time, self.path, self.given[index], self.checkpoint))
