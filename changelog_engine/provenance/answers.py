"""From what a traced replay kept to what is told of it, as deep as was asked for."""

from __future__ import annotations

from typing import Any

from changelog_engine.codec.keys import KeyCodec
from changelog_engine.provenance.result import (
    Cause,
    ExplainedMutation,
    ExplainedOutput,
    FiredTimer,
    HeldEntry,
    KeyedElement,
    SourceRecord,
    UnknownCause,
)
from changelog_engine.provenance.source_ranges import RecordAt
from changelog_engine.provenance.trace import Event, Held, Origin, OutputAt, Step, Via
from changelog_engine.state.backend import TIMER_DOMAINS

_LONGER = "and so on: the chain is longer than is followed"
_LONGEST = 40  # timers that timers set, and stages one after the other, that are followed


class Answers:
    """Makes answers, each once.

    Args:
        depth: how far mutations that were read are followed; 1 for not at all.
    """

    def __init__(self, keys: dict[str, KeyCodec], start: int | None, depth: int) -> None:
        self._keys = keys
        self._before = "the replay began" if start is None else f"checkpoint {start}"
        self._depth = depth
        self._made: dict[tuple[int, int], ExplainedMutation] = {}

    def mutation(self, event: Event, depth: int | None = None) -> ExplainedMutation:
        """A mutation."""
        depth = self._depth if depth is None else depth
        made = self._made.get((event.number, depth))
        if made is not None:
            return made
        found = event.mutation
        assert found is not None
        step = event.step
        if step is None:
            cause: Cause = UnknownCause(
                "the engine itself, between elements: the end of a time to live, or of an epoch"
            )
        else:
            cause = self._cause_of_step(step, depth, _LONGEST)
        made = self._made[event.number, depth] = ExplainedMutation(
            event.number,
            event.checkpoint,
            event.operator,
            found.state,
            found.key,
            found.operation,
            found.value,
            found.map_key,
            found.namespace,
            None if step is None else step.element,
            event.line,
            cause,
            self._reads(event.reads, depth),
        )
        return made

    def output(self, found: OutputAt) -> ExplainedOutput:
        """An output."""
        origin = Via(found.through, found.origin) if found.through else found.origin
        cause = self._cause(origin, self._depth, _LONGEST)
        return ExplainedOutput(found.sink, found.value, found.timestamp, found.checkpoint, cause)

    def _reads(self, reads: Any, depth: int) -> tuple[ExplainedMutation | HeldEntry, ...]:
        if depth <= 1:
            return ()
        return tuple(
            HeldEntry(each.operator, each.state, self._key(each.operator, each.key), _named(each.map_key))
            if isinstance(each, Held)
            else self.mutation(each, depth - 1)
            for each in reads
            if isinstance(each, Held) or each.mutation is not None
        )

    def _cause_of_step(self, step: Step, depth: int, left: int) -> Cause:
        """Why a keyed function was called."""
        if not left:
            return UnknownCause(_LONGER)
        if step.timer is None:
            return self._cause(step.origin, depth, left)
        domain, timestamp = step.timer
        set_by: Cause
        if step.origin is None:
            set_by = UnknownCause(f"it was set before {self._before}")
        else:
            set_by = self._cause_of_step(step.origin, depth, left - 1)
        return FiredTimer(step.operator, TIMER_DOMAINS[domain], timestamp, set_by)

    def _cause(self, origin: Origin, depth: int, left: int, through: tuple[str, ...] = ()) -> Cause:
        """Where an element came from."""
        if isinstance(origin, Via):
            return self._cause(origin.origin, depth, left, (*origin.through, *through))
        if isinstance(origin, RecordAt):
            read = origin.read
            if origin.place is None:
                return SourceRecord(read.source, read.name, read.split, read.begin, None, through)
            position, value = read.record(origin.place)
            return SourceRecord(read.source, read.name, read.split, position, value, through)
        if isinstance(origin, Step):
            if not left:
                return UnknownCause(_LONGER, through)
            return KeyedElement(
                origin.operator,
                self._key(origin.operator, origin.key),
                origin.element,
                self._cause_of_step(origin, depth, left - 1),
                self._reads(origin.reads or (), depth),
                through,
            )
        return UnknownCause("the engine itself", through)

    def _key(self, operator: str, key: Any) -> Any:
        codec = self._keys[operator]
        return codec.key_of(key[0] if type(key) is tuple else key)


def _named(map_key: Any) -> Any:
    return map_key.decode(errors="replace") if isinstance(map_key, bytes) else map_key
