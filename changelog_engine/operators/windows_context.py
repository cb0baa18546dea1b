"""What assigners, triggers and window functions are given: clocks, timers and state of the window at hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from changelog_engine.errors import InvalidJobError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.operators.context import KeyedTimerService, TaskContext
from changelog_engine.state.cursor import Cursor, NamespaceScope
from changelog_engine.state.handles import NotAValue
from changelog_engine.windowing.assigner import WindowAssigner
from changelog_engine.windowing.reserved import RESERVED
from changelog_engine.windowing.trigger import Trigger

_MERGEABLE = frozenset({StateKind.LIST, StateKind.REDUCING, StateKind.AGGREGATING})


class WindowStates:
    """Keyed state of one window, as a KeyedStateStore. Handles follow the scope's cursor.

    The state ``name`` of a window is the operator's state ``window:name``: the key may have one called ``name`` as well.
    """

    def __init__(self, context: TaskContext, scope: NamespaceScope) -> None:
        self._context = context
        self._scope = scope
        self._known: dict[str, tuple[Any, Any]] = {}

    def get_state(self, state_descriptor: Any) -> Any:
        """The state of a descriptor."""
        name = state_descriptor.get_name()
        known = self._known.get(name)
        if known is not None and known[0] is state_descriptor:
            return known[1]
        spec = state_descriptor.to_spec()
        if not name.startswith(RESERVED):
            spec = replace(spec, name=f"window:{name}")
        handle = self._context.declare(spec, self._scope)
        self._known[name] = state_descriptor, handle
        return handle

    get_list_state = get_state
    get_map_state = get_state
    get_reducing_state = get_state
    get_aggregating_state = get_state


class NoWindowStates:
    """Stands for the state of a window that may merge: there is none."""

    def get_state(self, state_descriptor: Any) -> Any:
        """Refuse.

        Raises:
            InvalidJobError: always.
        """
        raise InvalidJobError(
            f"window_state() was asked for state {state_descriptor.get_name()!r}, but these windows merge, so they have "
            "none of their own: use global_state()"
        )

    get_list_state = get_state
    get_map_state = get_state
    get_reducing_state = get_state
    get_aggregating_state = get_state


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """WindowAssignerContext of an operator."""

    def __init__(self, timers: KeyedTimerService, runtime: TaskContext) -> None:
        self._timers = timers
        self._runtime = runtime

    def get_current_processing_time(self) -> int:
        return self._timers.clock()

    def get_runtime_context(self) -> TaskContext:
        return self._runtime


class TriggerContext(Trigger.OnMergeContext):
    """TriggerContext and OnMergeContext of an operator; the scope's cursor stands at the window."""

    def __init__(
        self, timers: KeyedTimerService, runtime: TaskContext, states: WindowStates, cursor: Cursor
    ) -> None:
        self._timers = timers
        self._runtime = runtime
        self._states = states
        self._cursor = cursor
        self.merged: list[Any] = []  # pairs of key and window that became one

    def get_current_processing_time(self) -> int:
        return self._timers.clock()

    def get_metric_group(self) -> Any:
        return self._runtime.get_metrics_group()

    def get_current_watermark(self) -> int:
        return self._timers.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.register_processing_time_timer(time)

    def register_event_time_timer(self, time: int) -> None:
        self._timers.register_event_time_timer(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.delete_processing_time_timer(time)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.delete_event_time_timer(time)

    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        return self._states.get_state(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        spec = state_descriptor.to_spec()
        if spec.kind not in _MERGEABLE:
            raise InvalidJobError(
                f"merge_partitioned_state was given state {spec.name!r}, a {spec.kind.value} state, which cannot be merged: "
                "use list, reducing or aggregating state"
            )
        handle = self._states.get_state(state_descriptor)
        merge_entries(handle, spec, self._cursor, self._cursor.key, self.merged)


class FunctionContext(NotAValue):
    """ProcessWindowFunction.Context and ProcessAllWindowFunction.Context of an operator.

    Args:
        runtime: the operator's runtime context: state of the key.
    """

    instead = "a context was given in place of what it knows: give that, as by window()"

    def __init__(
        self, timers: KeyedTimerService, runtime: TaskContext, states: WindowStates | NoWindowStates
    ) -> None:
        self._timers = timers
        self._runtime = runtime
        self._states = states
        self.current: Any = None

    def window(self) -> Any:
        """The window."""
        return self.current

    def current_processing_time(self) -> int:
        """Wall clock in ms."""
        return self._timers.clock()

    def current_watermark(self) -> int:
        """The current watermark in ms."""
        return self._timers.watermark

    def window_state(self) -> Any:
        """State of the key and window."""
        return self._states

    def global_state(self) -> TaskContext:
        """State of the key."""
        return self._runtime


def merge_entries(handle: Any, spec: StateSpec, cursor: Cursor, target: Any, sources: list[Any]) -> None:
    """Move entries of namespaced state into another one, in order.

    Args:
        cursor: of the handle's scope; stands at the target afterwards, whatever is raised.
        sources: such pairs; the target among them is left alone.
    """
    try:
        _move_entries(handle, spec, cursor, target, sources)
    finally:
        cursor.key = target


def _move_entries(handle: Any, spec: StateSpec, cursor: Cursor, target: Any, sources: list[Any]) -> None:
    for source in sources:
        if source == target:
            continue
        cursor.key = source
        if spec.kind is StateKind.AGGREGATING:
            accumulator = handle.cell.value()
            handle.clear()
            cursor.key = target
            if accumulator is not None:
                before = handle.cell.value()
                if before is not None:
                    accumulator = handle.accumulated(
                        before, spec.function.merge(before, accumulator), "merge"
                    )
                handle.cell.update(accumulator)
            continue
        held = handle.get()
        handle.clear()
        cursor.key = target
        if spec.kind is StateKind.LIST:
            handle.add_all(held)
        elif held is not None:
            handle.add(held)
