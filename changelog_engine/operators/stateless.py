"""Operators without keyed state: map, flat_map, filter, process, timestamps, sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from inspect import isgenerator
from itertools import compress
from typing import Any

from changelog_engine.changelog.small_state import KeptTimes
from changelog_engine.errors import TypeMismatchError
from changelog_engine.event_time import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP, other_unit
from changelog_engine.graph.subtask_warnings import warn
from changelog_engine.operators.base import (
    UNCHECKED,
    Operator,
    OutputType,
    call_hook,
    results_of,
)
from changelog_engine.operators.context import ElementContext, milliseconds
from changelog_engine.operators.failures import UsersCode, refuse_not_iterable
from changelog_engine.types import Row, TypeInformation
from changelog_engine.types.copies import IMMUTABLE, take_each
from changelog_engine.types.row_loops import classes_of
from changelog_engine.types.typeinfo import shown


class FunctionOperator(Operator):
    """An operator round a user's function: opens and closes it."""

    def __init__(self, name: str, output: TypeInformation | None, function: Any, context: Any) -> None:
        super().__init__(name, output)
        self.function = function
        self.context = context
        self._told_of_parts = False

    def open(self) -> None:
        call_hook(self.function, "open", self.name, self.context)

    def close(self) -> None:
        call_hook(self.function, "close", self.name)

    def tell_of_parts(self, result: Any) -> None:
        """Say once that a process function returned what seems to be one element, whose parts are the elements, as in Flink.

        Args:
            result: what it returned last of a batch.
        """
        if not self._told_of_parts and _is_one_element(result):
            self._told_of_parts = True
            warn(
                f"parts of {self.name!r}",
                "the function of operator %r returned %s, and each part of this %s becomes an element, as in Flink: yield "
                "it if it is one element, or return a list",
                self.name,
                shown(result),
                type(result).__name__,
            )


def _is_one_element(result: Any) -> bool:
    """Whether several elements would hardly be returned in this form."""
    if isinstance(result, tuple):
        return len(result) > 1 and not all(isinstance(each, (tuple, list, dict, Row)) for each in result)
    return isinstance(result, (str, bytes, dict, Row)) and len(result) > 0


class MapOperator(FunctionOperator):
    """One element out for each one in."""

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        call, rest, own = self.function.map, iter(values), self.own
        with UsersCode(self.name, "map", values, rest):
            if own is None:
                out = [call(value) for value in rest]
            else:
                out = []
                append = out.append
                for value in rest:
                    result = call(value)
                    append(result if type(result) in IMMUTABLE else own(result))
        self.emit(out, times)


class FilterOperator(FunctionOperator):
    """Keeps the elements for which the function is true."""

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        if type(values) is not list:
            values = list(values)  # which holds each once: see own below
        call, rest = self.function.filter, iter(values)
        self.trust(values)
        own = self.own
        kept: list[Any] = []
        mask: list[bool] = []  # of bools, made here: a result's own test may raise
        with UsersCode(self.name, "filter", values, rest):
            if own is None and times is None:
                kept = [value for value in rest if call(value)]
            elif own is None:
                mask = [bool(call(value)) for value in rest]
                kept = list(compress(values, mask))
            else:
                for value in rest:
                    keeps = bool(call(value))
                    mask.append(keeps)
                    if keeps:
                        kept.append(value if type(value) in IMMUTABLE else own(value, 1))
        if times is not None:
            times = list(compress(times, mask))
        self.emit(kept, times)


class FlatMapOperator(FunctionOperator):
    """Any number of elements out for each one in."""

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        out: list[Any] = []
        own = self.own
        collect = out.extend if own is None else partial(take_each, out, own=own)
        out_times: list[int] | None = None if times is None else []
        flat_map, rest = self.function.flat_map, iter(values)
        with UsersCode(self.name, "flat_map", values, rest):
            for index, value in enumerate(rest):
                before = len(out)
                collect(results_of(flat_map(value)))
                if out_times is not None and times is not None:
                    out_times.extend([times[index]] * (len(out) - before))
        self.emit(out, out_times)


def run_elements(
    process_element: Any,
    context: ElementContext,
    values: Iterator[Any],
    times: Sequence[int] | None,
    operator: FunctionOperator,
) -> tuple[list[Any], list[int] | None]:
    """Call a process function for each element of a stream that is not keyed; what it gives, with the elements' times."""
    own = operator.own
    context.current_timestamp = NO_TIMESTAMP
    out: list[Any] = []
    append = out.append
    result = None
    try:
        if times is None:
            for value in values:
                result = process_element(value, context)
                if result is None or result is False:
                    continue
                for each in result:  # sooner than by extend, which makes room for eight of a generator
                    append(own(each) if own is not None and type(each) not in IMMUTABLE else each)
            operator.tell_of_parts(result)
            return out, None
        out_times: list[int] = []
        for value, context.current_timestamp in zip(values, times, strict=True):
            result = process_element(value, context)
            if result is None or result is False:
                continue
            for each in result:
                append(own(each) if own is not None and type(each) not in IMMUTABLE else each)
                out_times.append(context.current_timestamp)
    except TypeError:
        refuse_not_iterable(result)
        raise
    operator.tell_of_parts(result)
    return out, out_times


class ProcessOperator(FunctionOperator):
    """process() on a stream that is not keyed."""

    def __init__(
        self, name: str, output: TypeInformation | None, function: Any, context: Any, clock: Any
    ) -> None:
        super().__init__(name, output, function, context)
        self.element_context = ElementContext(self, clock)

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        rest = iter(values)
        with UsersCode(self.name, "process_element", values, rest):
            out, out_times = run_elements(
                self.function.process_element, self.element_context, rest, times, self
            )
        self.emit_tagged(out, out_times)


_INT = frozenset((int,))


class _Progress:
    """Event time of a stream, or of one split of it."""

    __slots__ = ("idle", "largest", "last_element_ms", "seen")

    def __init__(self, largest: int | None = None) -> None:
        self.largest = largest  # timestamp
        self.seen = False  # whether elements came in this epoch
        self.last_element_ms: int | None = None
        self.idle = False

    def end_epoch(self, now_ms: int, timeout_ms: int | None) -> None:
        """Find out whether it is idle."""
        if self.seen or self.last_element_ms is None:
            self.last_element_ms = now_ms
        self.idle = timeout_ms is not None and now_ms - self.last_element_ms >= timeout_ms
        self.seen = False


_IN_FROM_SOURCE = (
    "\nPyFlink never calls the timestamp assigner of the strategy that from_source is given. If this program ran there,"
    " leave .with_timestamp_assigner() out of it: elements then have the times that the source gives them, as in PyFlink"
)


class TimestampsOperator(Operator):
    """Assigns timestamps; emits a periodic watermark at the end of each epoch, so results don't hang on the wall clock.

    The upstream's watermarks are replaced, except the last one, which ends the stream. Right after a source it may be told
    which split the elements are of: then the watermark is the smallest over the splits that are not idle.
    """

    def __init__(self, name: str, output: TypeInformation | None, spec: Any) -> None:
        super().__init__(name, output)
        self.spec = spec
        self._hint = _IN_FROM_SOURCE if spec.in_from_source else ""
        self.periodic = True  # whether this epoch ends with a watermark
        self.idle = False
        self._warned = False
        self._progress = _Progress()  # of the split that is read
        self._splits: dict[str, _Progress] | None = None
        self._before: int | None = (
            None  # largest timestamp before splits were told apart; time never falls behind it
        )

    def turn_to(self, split: str) -> None:
        """The elements that follow are of this split."""
        assert self._splits is not None
        self._progress = self._splits[split]

    def only_splits(self, splits: Iterable[str] | None) -> None:
        """These are the splits from now on; a split that is gone holds nothing back. None: they are not told apart."""
        before = self._splits
        if splits is None:
            if before is not None:
                self._splits, self._before = None, None
                self._progress = _Progress(self._time_so_far())
            return
        if before is None:
            self._before = self._progress.largest
        if before is None or before.keys() != set(splits):
            self._splits = {split: (before or {}).get(split) or _Progress() for split in splits}

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        assigner = self.spec.assigner
        if assigner is not None:
            extract, rest = assigner.extract_timestamp, iter(values)
            with UsersCode(self.name, "extract_timestamp", values, rest, self._hint):
                if times is None:
                    times = [extract(value, NO_TIMESTAMP) for value in rest]
                else:
                    times = [extract(value, time) for value, time in zip(rest, times, strict=True)]
            if not _INT.issuperset(classes_of(times)):
                times = self._milliseconds(times, values)
        progress = self._progress
        progress.seen = True
        if times is not None and len(times):
            largest = max(times)
            if largest > MAX_WATERMARK or min(times) < NO_TIMESTAMP:
                self._milliseconds(times, values)  # one of them is more than 64 bits hold: an error
            if progress.largest is None or largest > progress.largest:
                if progress.largest is None and assigner is not None:
                    self._warn_of_unit(largest)
                progress.largest = largest
        self.push(self.receivers, values, times)

    def _warn_of_unit(self, time: int) -> None:
        unit = other_unit(time)
        if unit is not None and not self._warned:
            self._warned = True
            warn(
                f"timestamps of {self.name!r}",
                "extract_timestamp of operator %r gave %d, which seems to be %s: a timestamp is milliseconds since 1970",
                self.name,
                time,
                unit,
            )

    def _milliseconds(self, times: Sequence[Any], values: Sequence[Any]) -> list[int]:
        found = []
        for time, value in zip(times, values, strict=True):
            whole = milliseconds(time)
            if whole is None:
                yields = (
                    ". It is a generator function: write return instead of yield" if isgenerator(time) else ""
                )
                raise TypeMismatchError(
                    f"extract_timestamp of operator {self.name!r} returned {shown(time)} for the element "
                    f"{shown(value)}; a timestamp is a number of milliseconds since 1970, such as "
                    f"moment.timestamp() * 1000{yields}{self._hint}"
                )
            found.append(whole)
        return found

    def watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK:
            super().watermark(watermark)

    def idleness(self, idle: bool) -> None:
        """The upstream's is replaced too."""

    def end_epoch(self, now_ms: int) -> None:
        watched = [self._progress] if self._splits is None else list(self._splits.values())
        for progress in watched:
            progress.end_epoch(now_ms, self.spec.idle_timeout_ms)
        active = [progress.largest for progress in watched if not progress.idle]
        ended = self.current_watermark == MAX_WATERMARK
        idle = not active and not ended
        if idle != self.idle:
            self.idle = idle
            super().idleness(idle)
        lag = self.spec.out_of_orderness_ms
        if lag is None or ended or not self.periodic:
            return
        # Of an idle stream: up to where it came.
        largest = active or [progress.largest for progress in watched]
        known = [time for time in largest if time is not None]
        least = min(known) if known and len(known) == len(largest) else self._before
        if least is None:
            return
        watermark = max(least, least if self._before is None else self._before) - lag - 1
        if watermark > self.current_watermark:
            super().watermark(watermark)

    def snapshot(self) -> int | KeptTimes | None:
        if self._splits is None:
            return self._progress.largest
        splits = {split: progress.largest for split, progress in self._splits.items()}
        return _kept_times(self.current_watermark, splits, self._before)

    def _time_so_far(self) -> int | None:
        """The timestamp that stands for the watermark."""
        lag = self.spec.out_of_orderness_ms
        return (
            None
            if lag is None or self.current_watermark == MIN_WATERMARK
            else self.current_watermark + lag + 1
        )

    def resume(self, watermark: int) -> None:
        """The upstream's watermark is replaced; restore() tells the receivers theirs."""

    def restore(self, state: Any) -> None:
        lag = self.spec.out_of_orderness_ms
        if isinstance(state, dict):
            self._splits = {split: _Progress(largest) for split, largest in state["splits"].items()}
            current, self._before = state["current"], state.get("before")
        else:
            self._progress.largest = state
            current = None if lag is None else state - lag - 1
        if current is not None and current != MIN_WATERMARK:
            if isinstance(state, dict):
                self.current_watermark = current
            for receiver in self.receivers:
                receiver.resume(current)


def _kept_times(current: int, splits: dict[str, int | None], before: int | None) -> KeptTimes:
    state: KeptTimes = {"current": current, "splits": splits}
    if before is not None:
        state["before"] = before
    return state


def merged_times(states: Sequence[int | KeptTimes | None]) -> int | KeptTimes | None:
    """What snapshot() of a TimestampsOperator gave in all subtasks, at one checkpoint, as one; None: it begins anew."""
    times = [state for state in states if isinstance(state, int)]
    if times and len(times) == len(states):
        return min(times)
    by_split = [state for state in states if isinstance(state, dict)]
    if not by_split or len(by_split) < len(states):
        return None  # one has seen nothing, so its elements may be of any time; or some go by splits
    return _kept_times(
        min(state["current"] for state in by_split),
        {split: largest for state in by_split for split, largest in state["splits"].items()},
        min((state["before"] for state in by_split if "before" in state), default=None),
    )


class SideOutputOperator(Operator):
    """Takes the elements of a tag from its producer and checks them against the tag's type.

    Args:
        what: the side output, as messages name it.
    """

    def __init__(self, producer: str, what: str, output: TypeInformation | None) -> None:
        super().__init__(producer, output)
        self._tag_type = OutputType(what, output)
        self.output_type = UNCHECKED  # they have it from here on

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        self.push(self.receivers, self._tag_type.check(values), times)


class PassOperator(Operator):
    """Passes everything on: the head of a source."""

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        self.push(self.receivers, values, times)
