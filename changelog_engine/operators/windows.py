"""The window operator: any assigner, any trigger.

Invariants:
    * What is kept of a window's elements, its trigger's state and its timers are keyed state; the window is its namespace.
    * Two cursors move together: the store's stands at the key, the scope's at the pair of key and window (for windows that
      merge, at the state window while elements are touched).
    * A window of event time goes, with all of its state, when the watermark passes its end by the allowed lateness; one of
      processing time when the clock passes its end; others when a trigger purges them.
    * Results have the timestamp of the element or event-time timer that made the window fire, as in PyFlink: of windows that
      fire at their end, that is the window's last ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from changelog_engine.config.names import names_of
from changelog_engine.errors import ChangelogEngineError, InvalidJobError
from changelog_engine.event_time import MAX_WATERMARK, NO_TIMESTAMP
from changelog_engine.graph.hooks import hook_of
from changelog_engine.graph.nodes import StateKind
from changelog_engine.operators.base import call_hook, results_of
from changelog_engine.operators.context import KeyedTimerService
from changelog_engine.operators.failures import NOTHING, engine_call, user_call
from changelog_engine.operators.keyed import KeyedElements, KeyedParts, TimerOperator
from changelog_engine.operators.windows_context import (
    AssignerContext,
    FunctionContext,
    NoWindowStates,
    TriggerContext,
    WindowStates,
    merge_entries,
)
from changelog_engine.operators.windows_merging import MergingWindows
from changelog_engine.state.cursor import NamespaceScope
from changelog_engine.state.timers import TimeDomain, TimerQueue
from changelog_engine.windowing.assigner import MergingWindowAssigner
from changelog_engine.windowing.namespaces import WindowCodec
from changelog_engine.windowing.spec import Firing, WindowSpec
from changelog_engine.windowing.trigger import TriggerResult

EMIT_AT = 16_384
_ELEMENT_CALLS = {StateKind.REDUCING: "reduce", StateKind.AGGREGATING: "add", StateKind.LIST: "on_element"}
_WITH_CONTEXT = (Firing.PROCESS, Firing.PROCESS_ALL)
_ASSIGN = "assign_windows"
_CALLS = names_of(
    f"{_ASSIGN} merge_windows max_timestamp create_accumulator add get_result merge "
    "on_element on_event_time on_processing_time on_merge clear reduce apply process"
)
_FIRING_CALLS = {Firing.APPLY: "apply", Firing.APPLY_ALL: "apply"}


class WindowOperator(TimerOperator):
    """Elements of a key in windows."""

    net = False  # whether windows' timers, and which windows merged, are logged as net changes
    contents: Any = None
    merging: MergingWindows | None = None

    def __init__(
        self,
        parts: KeyedParts,
        timers: KeyedTimerService,
        spec: WindowSpec,
        codec: WindowCodec,
        scope: NamespaceScope,
    ) -> None:
        super().__init__(parts, timers)
        context = parts.context
        self.spec = spec
        self.assigner, self.trigger = spec.assigner, spec.trigger
        self.codec = codec
        self.scope = scope
        self.place = scope.cursor
        self.event_time = bool(spec.assigner.is_event_time())
        self.own_timers = timers.event if self.event_time else timers.processing
        self.lateness = spec.allowed_lateness_ms if self.event_time else 0
        merges = isinstance(spec.assigner, MergingWindowAssigner)
        states = WindowStates(context, scope)
        self.assigner_context = AssignerContext(timers, context)
        self.trigger_context = TriggerContext(timers, context, states, self.place)
        self.function_context = FunctionContext(timers, context, NoWindowStates() if merges else states)
        self.call = self._element_call = _ELEMENT_CALLS[spec.contents.kind]
        self.listed = spec.contents.kind is StateKind.LIST
        self._clear = hook_of(spec.function, "clear") if spec.firing in _WITH_CONTEXT else None
        self._late: tuple[list[Any], list[int]] = ([], [])

    def open(self) -> None:
        super().open()
        call_hook(self.spec.contents.function, "open", self.name, self.context)
        self.contents = self.context.declare(self.spec.contents, self.scope)
        if isinstance(self.assigner, MergingWindowAssigner):
            self.merging = MergingWindows(self.assigner, self.codec, self.context, self.net)

    def close(self) -> None:
        call_hook(self.spec.contents.function, "close", self.name)
        super().close()

    def run(self, batch: KeyedElements) -> None:
        identities, values, times, out, out_times = batch
        cursor, place = self.cursor, self.place
        add = self._add if self.merging is None else self._add_merging
        for index, (key, value) in enumerate(zip(identities, values, strict=True)):
            cursor.key = key
            cursor.timestamp = place.timestamp = time = NO_TIMESTAMP if times is None else times[index]
            windows = self.assigner.assign_windows(value, time, self.assigner_context)
            taken = False
            for window in windows:
                taken = add(key, window, value, time, out, out_times) or taken
            if not taken and self.event_time and time + self.lateness <= self.timers.watermark:
                self.late(value, time)

    def process_keyed(
        self, identities: list[Any], values: Sequence[Any], times: Sequence[int] | None
    ) -> None:
        try:
            super().process_keyed(identities, values, times)
        finally:
            self.place.leave()

    def failure(self, error: BaseException, call: str, element: Any = NOTHING) -> ChangelogEngineError:
        # Assigner, trigger and function take turns: the traceback knows whose it was. Ours refuse elements, too.
        called = user_call(error) or engine_call(error, _ASSIGN)
        return super().failure(error, called if called in _CALLS else call, element)

    def late(self, value: Any, time: int) -> None:
        """An element that no window takes any more."""
        if self.spec.late_tag_id is not None:
            self._late[0].append(value)
            self._late[1].append(time)
        else:
            self.context.get_metrics_group().counter("numLateRecordsDropped").inc()

    def emit_results(self, out: list[Any], out_times: list[int] | None) -> None:
        if self._late[0]:
            assert self.spec.late_tag_id is not None
            (values, times), self._late = self._late, ([], [])
            self.emit_aside(self.spec.late_tag_id, values, times)
        if self.function is None:
            self.emit(out, out_times)
        else:
            self.emit_tagged(out, out_times)

    def on_timer(self, time: int, event_time: bool, out: list[Any], out_times: list[int] | None) -> None:
        """A timer of the window at the cursor is due."""
        place, merging = self.place, self.merging
        key, identity = own = place.key
        state = own
        if merging is not None:
            state_window = merging.state_window(identity)
            if state_window is None:  # the window has merged or gone, and its trigger left a timer behind
                return
            state = (key, state_window)
        window = self.codec.window(identity)
        trigger = self.trigger.on_event_time if event_time else self.trigger.on_processing_time
        self._act(trigger(time, window, self.trigger_context), window, own, state, out, out_times)
        if event_time is self.event_time and time == self._cleanup_time(window):
            self._remove(window, own, state)

    def _due(self, queue: TimerQueue, until: int) -> Iterable[Any]:
        """Take timers that are due off their queue, those included that are set meanwhile."""
        return self.firing(queue, until)

    def fire_timers(self, queue: TimerQueue, until: int, domain: TimeDomain) -> None:
        cursor, place, event_time = self.cursor, self.place, domain is TimeDomain.EVENT_TIME
        out: list[Any] = []
        out_times: list[int] | None = [] if event_time else None
        self.call = "on_event_time" if event_time else "on_processing_time"
        try:
            for timestamp, place.key in self._due(queue, until):
                cursor.key = place.key[0]
                cursor.timestamp = place.timestamp = timestamp
                self.on_timer(timestamp, event_time, out, out_times)
                if len(out) >= EMIT_AT:
                    self.emit_results(out, out_times)
                    out = []
                    out_times = [] if event_time else None
        except BaseException as error:
            raise self.failure(error, self.call) from error
        finally:
            self.call = self._element_call
            cursor.leave()
            place.leave()
        self.emit_results(out, out_times)

    def _add(
        self, key: Any, window: Any, value: Any, time: int, out: list[Any], out_times: list[int] | None
    ) -> bool:
        """Add an element to a window; False when the window takes none any more."""
        if self._is_late(window):
            return False
        self.place.key = own = (key, self.codec.identity(window))
        self._take(window, own, own, value, time, out, out_times)
        return True

    def _add_merging(
        self, key: Any, window: Any, value: Any, time: int, out: list[Any], out_times: list[int] | None
    ) -> bool:
        """As _add, with windows that merge."""
        assert self.merging is not None
        added = self.merging.add(window, self._is_late, self._on_merge)
        if added is None:
            return False
        actual, state_window = added
        own = (key, self.codec.identity(actual))
        self._take(actual, own, (key, state_window), value, time, out, out_times)
        return True

    def _take(
        self,
        window: Any,
        own: Any,
        state: Any,
        value: Any,
        time: int,
        out: list[Any],
        out_times: list[int] | None,
    ) -> None:
        """Add an element to a window, ask the trigger, and see to it that the window goes some day.

        ``own`` is the pair of key and window, ``state`` that of key and the window that holds the elements.
        """
        place = self.place
        place.key = state
        self.contents.add(value)
        place.key = own
        result = self.trigger.on_element(value, time, window, self.trigger_context)
        self._act(result, window, own, state, out, out_times)
        cleanup = self._cleanup_time(window)
        if cleanup is not None:
            self.own_timers.register(cleanup)

    def _act(
        self,
        result: TriggerResult,
        window: Any,
        own: Any,
        state: Any,
        out: list[Any],
        out_times: list[int] | None,
    ) -> None:
        """Do what a trigger wants; the cursor stands at the window before and after."""
        if result is TriggerResult.CONTINUE:
            return
        if not isinstance(result, TriggerResult):
            raise InvalidJobError(
                f"trigger {type(self.trigger).__name__} of operator {self.name!r} returned {result!r}; its methods must "
                "return a TriggerResult"
            )
        place = self.place
        place.key = state
        if result.is_fire():
            contents = self.contents.get()
            place.key = own
            if contents if self.listed else contents is not None:
                self.fire(window, contents, out, out_times)
            place.key = state
        if result.is_purge():
            self.contents.clear()
        place.key = own

    def fire(self, window: Any, contents: Any, out: list[Any], out_times: list[int] | None) -> None:
        """Call the window's function with what is kept of the window's elements: a list, or their combination."""
        before = len(out)
        firing = self.spec.firing
        if firing is Firing.EMIT:
            self.collect(out, (contents,))
        else:
            called, self.call = self.call, _FIRING_CALLS.get(firing, "process")
            elements = contents if self.listed else [contents]
            result = self._results(firing, window, elements)
            self.collect(out, results_of(result))
            self.tell_of_parts(result)
            self.call = called
        if out_times is not None:
            out_times.extend([self.place.timestamp] * (len(out) - before))

    def _results(self, firing: Firing, window: Any, elements: list[Any]) -> Any:
        function, context = self.function, self.function_context
        if firing is Firing.APPLY:
            return function.apply(self.keys.key_of(self.cursor.key), window, elements)
        if firing is Firing.APPLY_ALL:
            return function.apply(window, elements)
        context.current = window
        if firing is Firing.PROCESS:
            return function.process(self.keys.key_of(self.cursor.key), context, elements)
        return function.process(context, elements)

    def _remove(self, window: Any, own: Any, state: Any) -> None:
        """Forget a window and all of its state."""
        place = self.place
        place.key = state
        self.contents.clear()
        place.key = own
        self.trigger.clear(window, self.trigger_context)
        self.clear_function(window)
        if self.merging is not None:
            self.merging.remove(own[1])

    def clear_function(self, window: Any) -> None:
        """Let the function clear its state of a window."""
        if self._clear is not None:
            self.function_context.current = window
            called, self.call = self.call, "clear"
            self._clear(self.function_context)
            self.call = called

    def _on_merge(self, merged: Any, old: list[Any], state_window: Any, others: list[Any]) -> None:
        """Windows of the current key became one."""
        key, place, context = self.cursor.key, self.place, self.trigger_context
        # Windows that were late before are of a run with more lateness, and one of theirs goes as soon as time moves on.
        if self._is_late(merged) and not all(self._is_late(window) for window in old):
            raise InvalidJobError(
                f"operator {self.name!r} merged windows into {merged!r}, which ends before the current watermark, "
                f"{self.timers.watermark}: merging must not move the end of a window back"
            )
        identity = self.codec.identity
        merged_identity = identity(merged)
        gone = [window for window in old if identity(window) != merged_identity]
        place.key = (key, merged_identity)
        context.merged = [(key, identity(window)) for window in gone]
        self.trigger.on_merge(merged, context)
        for window in gone:
            place.key = (key, identity(window))
            self.trigger.clear(window, context)
            cleanup = self._cleanup_time(window)
            if cleanup is not None:
                self.own_timers.delete(cleanup)
        sources = [(key, other) for other in others]
        merge_entries(self.contents, self.spec.contents, place, (key, state_window), sources)

    def _is_late(self, window: Any) -> bool:
        if not self.event_time:
            return False
        cleanup = self._cleanup_time(window)
        return (MAX_WATERMARK if cleanup is None else cleanup) <= self.timers.watermark

    def _cleanup_time(self, window: Any) -> int | None:
        """When a window goes; None for never."""
        end: int = window.max_timestamp() + self.lateness
        return end if end < MAX_WATERMARK else None
