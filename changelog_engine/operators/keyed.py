"""Keyed operators: process with timers, map, flat_map, filter and reduce on keyed state.

Invariants:
    * While a user's function runs for an element or timer, the cursor stands at its key; at all other times it stands
      nowhere, and state that is touched then raises.
    * Event-time timers fire when the watermark passes them, in time order, timers set while firing included; then the
      watermark is passed on.

The loops of ``process_keyed`` run once per record. Keep them free of what isn't needed.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from changelog_engine.codec.keys import KeyCodec
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.event_time import MAX_WATERMARK, NO_TIMESTAMP, other_unit
from changelog_engine.graph.hooks import hook_of
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.graph.subtask_warnings import warn
from changelog_engine.operators.base import results_of
from changelog_engine.operators.context import KeyedElementContext, KeyedTimerService, TaskContext
from changelog_engine.operators.failures import (
    NOTHING,
    UselessResultError,
    element_at,
    refuse_not_iterable,
    user_failure,
)
from changelog_engine.operators.stateless import FunctionOperator
from changelog_engine.readable import iso
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.timers import TimeDomain, TimerQueue
from changelog_engine.types import TypeInformation, Types
from changelog_engine.types.copies import IMMUTABLE, copied, own, take_each
from changelog_engine.types.in_state import in_state
from changelog_engine.windowing.reserved import REDUCED

log = logging.getLogger("changelog_engine")

_EMIT_AT = 16_384
_NO_RESULTS = ()


@dataclass(frozen=True)
class KeyedParts:
    """What the head of a keyed stage is made of."""

    name: str
    output: TypeInformation | None
    function: Any  # this process's own copy of the user's; None where there is none
    context: TaskContext
    cursor: Cursor  # of the subtask's store
    keys: KeyCodec


class KeyedElements(NamedTuple):
    """Elements with the identities of their keys, and where what the function gives of them goes."""

    identities: list[Any]
    values: Iterator[Any]  # an iterator, so that it stands at the element at which the function raised
    times: Sequence[int] | None  # None for elements without timestamps; their results have none either
    out: list[Any]
    out_times: list[int] | None  # one for each of ``out``


class KeyedOperator(FunctionOperator):
    """Base of the heads of keyed stages."""

    call = "process_element"

    def __init__(self, parts: KeyedParts) -> None:
        super().__init__(parts.name, parts.output, parts.function, parts.context)
        self.cursor = parts.cursor
        self.keys = parts.keys

    def process_keyed(
        self, identities: list[Any], values: Sequence[Any], times: Sequence[int] | None
    ) -> None:
        self.take(identities, values, times, self.run)

    def take(
        self,
        identities: list[Any],
        values: Sequence[Any],
        times: Sequence[int] | None,
        run: Callable[[KeyedElements], None],
        call: str | None = None,
    ) -> None:
        """Have elements run, and push on what comes of them.

        Args:
            call: what is called for each of them, for messages; None for ``self.call``, as it is when that fails.
        """
        out: list[Any] = []
        out_times: list[int] | None = None if times is None else []
        rest = iter(values)
        try:
            run(KeyedElements(identities, rest, times, out, out_times))
        except BaseException as error:
            raise self.failure(error, call or self.call, element_at(values, rest)) from error
        finally:
            self.cursor.leave()
        self.emit_results(out, out_times)

    def collect(self, out: list[Any], results: Iterable[Any]) -> None:
        """Add what a function gave."""
        own = self.own
        if own is not None:
            take_each(out, results, own)
        else:
            append = out.append
            for result in results:  # sooner than extend, which makes room for eight of a generator
                append(result)

    def failure(self, error: BaseException, call: str, element: Any = NOTHING) -> ChangelogEngineError:
        """What to raise when the function raised at the current key; see user_failure."""
        key = self.keys.key_of(self.cursor.key) if self.cursor.placed else NOTHING
        return user_failure(error, self.name, call, key, element)

    def run(self, batch: KeyedElements) -> None:
        """Call the user's function for each element and collect what it gives."""
        identities, values, times, out, out_times = batch
        cursor, apply = self.cursor, self.apply
        cursor.timestamp = NO_TIMESTAMP
        if times is None or out_times is None:
            for cursor.key, value in zip(identities, values, strict=True):
                apply(value, out)
        else:
            for cursor.key, cursor.timestamp, value in zip(identities, times, values, strict=True):
                before = len(out)
                apply(value, out)
                out_times.extend([cursor.timestamp] * (len(out) - before))

    def emit_results(self, out: list[Any], out_times: list[int] | None) -> None:
        """Push on what the function gave for a batch."""
        self.emit(out, out_times)

    def apply(self, value: Any, out: list[Any]) -> None:
        """Process one element."""
        raise TypeError(f"{type(self).__name__} processes no single elements")

    def end_key(self) -> None:
        """In BATCH mode: the current key has no more elements."""

    def next_processing_timer(self) -> int | None:
        """The earliest processing-time timer, or None."""
        return None

    def fire_processing_timers(self, now_ms: int) -> None:
        """Fire processing-time timers that are due."""


class KeyedMapOperator(KeyedOperator):
    """map() on a keyed stream."""

    call = "map"

    def apply(self, value: Any, out: list[Any]) -> None:
        result = self.function.map(value)
        out.append(own(result) if self.copies and type(result) not in IMMUTABLE else result)


class KeyedFilterOperator(KeyedOperator):
    """filter() on a keyed stream."""

    call = "filter"

    def apply(self, value: Any, out: list[Any]) -> None:
        if self.function.filter(value):
            out.append(copied(value) if self.copies and type(value) not in IMMUTABLE else value)


class KeyedFlatMapOperator(KeyedOperator):
    """flat_map() on a keyed stream."""

    call = "flat_map"

    def apply(self, value: Any, out: list[Any]) -> None:
        self.collect(out, results_of(self.function.flat_map(value)))


class ReduceOperator(KeyedOperator):
    """reduce() on a keyed stream: emits the running result for every element; in BATCH mode the last one only."""

    call = "reduce"
    cell: Any = None

    def __init__(self, parts: KeyedParts, final_only: bool) -> None:
        super().__init__(parts)
        self.final_only = final_only

    def open(self) -> None:
        super().open()
        result_type = self.output_type.declared or Types.PICKLED_BYTE_ARRAY()
        self.cell = self.context.declare(StateSpec(REDUCED, StateKind.VALUE, in_state(result_type)))

    def apply(self, value: Any, out: list[Any]) -> None:
        before = self.cell.value()
        if before is not None:
            value = self.function.reduce(before, value)
            if value is None:  # it would begin the key anew
                raise UselessResultError("returned None; it must return what the two values are together")
        self.cell.update(value)
        if not self.final_only:
            out.append(own(value) if self.copies and type(value) not in IMMUTABLE else value)

    def end_key(self) -> None:
        if self.final_only:
            self.emit([self.cell.value()], [MAX_WATERMARK])  # as at a timer of the input's end
            self.cell.clear()


class TimerOperator(KeyedOperator, ABC):
    """Base of keyed operators with timers in both time domains."""

    def __init__(self, parts: KeyedParts, timers: KeyedTimerService) -> None:
        super().__init__(parts)
        self.timers = timers
        self._warned = False

    def watermark(self, watermark: int) -> None:
        self.timers.watermark = watermark
        self.fire_timers(self.timers.event, watermark, TimeDomain.EVENT_TIME)
        super().watermark(watermark)

    def resume(self, watermark: int) -> None:
        self.timers.watermark = watermark
        super().resume(watermark)

    def has_timers(self) -> bool:
        return self.timers.any_registered()

    def next_processing_timer(self) -> int | None:
        return self.timers.processing.next_timestamp()

    def fire_processing_timers(self, now_ms: int) -> None:
        self._warn_of_unit(now_ms)
        self.fire_timers(self.timers.processing, now_ms, TimeDomain.PROCESSING_TIME)

    def _warn_of_unit(self, now_ms: int) -> None:
        first = self.next_processing_timer()
        unit = None if first is None or first > now_ms else other_unit(first)
        if unit is not None and not self._warned:
            self._warned = True
            warn(
                f"timers of {self.name!r}",
                "operator %r set a timer of processing time for %d, which seems to be %s, and fires at once: timers are "
                "milliseconds since 1970",
                self.name,
                first,
                unit,
            )

    def end_key(self) -> None:
        with self.timers.ending_key():
            self.fire_timers(self.timers.event, MAX_WATERMARK, TimeDomain.EVENT_TIME)
            self.fire_timers(self.timers.processing, MAX_WATERMARK, TimeDomain.PROCESSING_TIME)

    def firing(self, queue: TimerQueue, until: int) -> Iterator[Any]:
        """Take timers that are due off their queue, those included that are set meanwhile; tells where these may not end."""
        return queue.firing(until, partial(self._tell_of_endless, until))

    def _tell_of_endless(self, until: int, timestamp: int) -> None:
        if until == MAX_WATERMARK:
            why = (
                "The input has ended, and with it all times have come: a job in which each timer sets the next one never "
                "ends. Set none where the current watermark is 2**63 - 1"
            )
        else:
            why = "Set them for times that are still to come"
        log.warning(  # at once: the epoch may have no end, either
            "operator %r fires timers that were set while others fired, for times that have come already: more than 100,000 "
            "by now, the last for %s, and nothing else of its subtask goes on meanwhile. %s",
            self.name,
            iso(timestamp),
            why,
        )

    @abstractmethod
    def fire_timers(self, queue: TimerQueue, until: int, domain: TimeDomain) -> None:
        """Do what the timers of a queue are for that are due, those included that are set meanwhile."""


class TimerFunctionOperator(TimerOperator):
    """Base of operators whose function has ``on_timer``.

    Args:
        element_context: what the function gets with each element and timer.
    """

    def __init__(
        self, parts: KeyedParts, timers: KeyedTimerService, element_context: KeyedElementContext | None = None
    ) -> None:
        super().__init__(parts, timers)
        self._deaf = hook_of(parts.function, "on_timer") is None
        self.element_context = element_context or KeyedElementContext(parts.cursor, parts.keys.key_of, timers)

    def emit_results(self, out: list[Any], out_times: list[int] | None) -> None:
        self.emit_tagged(out, out_times)

    def fire_timers(self, queue: TimerQueue, until: int, domain: TimeDomain) -> None:
        self.element_context.domain = domain
        try:
            out, out_times = self._fire(self.firing(queue, until), domain is TimeDomain.EVENT_TIME)
        except BaseException as error:
            raise self.failure(error, "on_timer") from error
        finally:
            self.element_context.domain = None
            self.cursor.leave()
        self.emit_tagged(out, out_times)

    def _fire(self, due: Iterable[Any], event_time: bool) -> tuple[list[Any], list[int] | None]:
        """Call the function for each timer; returns what it gave that was not pushed on yet, with the timers' times."""
        context, function, own = self.element_context, self.function, self.own
        out: list[Any] = []
        append = out.append
        out_times: list[int] | None = [] if event_time else None
        result = timestamp = None
        try:
            for timestamp, _ in due:
                result = function.on_timer(timestamp, context)
                if result is None:
                    continue
                for each in result:  # as collect: this runs for every timer
                    append(own(each) if own is not None and type(each) not in IMMUTABLE else each)
                    if out_times is not None:
                        out_times.append(timestamp)
                if len(out) >= _EMIT_AT:
                    self.emit_tagged(out, out_times)
                    out = []
                    append = out.append
                    out_times = [] if event_time else None
        except TypeError:
            refuse_not_iterable(result)
            raise
        self.tell_of_parts(result)
        if timestamp is not None and self._deaf:
            self._deaf = False
            warn(
                f"on_timer of {self.name!r}",
                "a timer of operator %r fired for nothing: %s has no on_timer(timestamp, ctx)",
                self.name,
                type(function).__name__,
            )
        return out, out_times


class KeyedProcessOperator(TimerFunctionOperator):
    """process() on a keyed stream."""

    def run(self, batch: KeyedElements) -> None:
        run_process(self.function.process_element, self.element_context, batch, self)


def run_process(
    process_element: Any,
    context: Any,
    batch: KeyedElements,
    operator: KeyedOperator,
) -> None:
    """Call a process function for each element of a keyed stream and collect what it gives."""
    cursor, own = operator.cursor, operator.own
    identities, values, times, out, out_times = batch
    append = out.append
    cursor.timestamp = NO_TIMESTAMP
    result = None
    try:
        if times is None or out_times is None:
            for cursor.key, value in zip(identities, values, strict=True):
                result = process_element(value, context)
                if result is None or result is _NO_RESULTS or result is False:
                    continue
                for each in result:  # as take_each: this runs for every element
                    append(own(each) if own is not None and type(each) not in IMMUTABLE else each)
            operator.tell_of_parts(result)
            return
        for cursor.key, cursor.timestamp, value in zip(identities, times, values, strict=True):
            result = process_element(value, context)
            if result is None or result is _NO_RESULTS or result is False:
                continue
            for each in result:
                append(own(each) if own is not None and type(each) not in IMMUTABLE else each)
                out_times.append(cursor.timestamp)
    except TypeError:
        refuse_not_iterable(result)
        raise
    operator.tell_of_parts(result)
