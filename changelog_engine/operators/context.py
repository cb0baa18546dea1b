"""The contexts that user functions get: the runtime context in open(), the element's context in each call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from changelog_engine.errors import InvalidJobError
from changelog_engine.graph.nodes import StateSpec
from changelog_engine.operators.messages import MIN_WATERMARK
from changelog_engine.operators.metrics import TaskMetricGroup
from changelog_engine.state.backend import Cursor, NamespaceScope
from changelog_engine.state.timers import TimerQueue

Clock = Callable[[], int]


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class TaskInfo:
    """Where a function runs."""

    def __init__(
        self,
        name: str,
        subtask: int,
        parallelism: int,
        max_parallelism: int,
        restarts: int,
        parameters: dict[str, str],
    ) -> None:
        self.name = name
        self.subtask = subtask
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.restarts = restarts
        self.parameters = parameters


class TaskContext:
    """RuntimeContext: facts about the task, and the keyed state of an operator.

    Args:
        info: where the function runs.
        states: (StateSpec, scope) -> handle; None on a stream that is not keyed.
    """

    def __init__(
        self, info: TaskInfo, states: Callable[[StateSpec, NamespaceScope | None], Any] | None
    ) -> None:
        self._info = info
        self._states = states
        self._declared: dict[str, tuple[StateSpec, Any]] = {}
        self.metrics: TaskMetricGroup | None = None

    def get_task_name(self) -> str:
        """The operator's name."""
        return self._info.name

    def get_number_of_parallel_subtasks(self) -> int:
        """How many subtasks run the operator."""
        return self._info.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """The number of key groups."""
        return self._info.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """From 0 to parallelism - 1."""
        return self._info.subtask

    def get_attempt_number(self) -> int:
        """How often this run of the job was restarted; 0 at first."""
        return self._info.restarts

    def get_task_name_with_subtasks(self) -> str:
        """Such as ``MyTask (3/6)#0``: name, 1-based subtask, parallelism, attempt."""
        info = self._info
        return f"{info.name} ({info.subtask + 1}/{info.parallelism})#{info.restarts}"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A global job parameter, or the default."""
        return self._info.parameters.get(key, default_value)

    def get_metrics_group(self) -> TaskMetricGroup:
        """The metrics of this operator in this subtask."""
        if self.metrics is None:
            self.metrics = TaskMetricGroup((self._info.name, str(self._info.subtask)))
        return self.metrics

    get_metric_group = get_metrics_group

    def declare(self, spec: StateSpec, scope: NamespaceScope | None = None) -> Any:
        """The handle of a state of this operator; with a scope, of namespaced state.

        Raises:
            InvalidJobError: the stream is not keyed, or the name is taken by a state of another type.
        """
        if self._states is None:
            raise InvalidJobError(
                f"operator {self._info.name!r} asks for keyed state {spec.name!r}, but its stream is not keyed: "
                "call key_by() before it"
            )
        if scope is not None:
            spec = replace(spec, namespace=scope.codec.name)
        known = self._declared.get(spec.name)
        if known is not None:
            before, handle = known
            if _shape(before) != _shape(spec):
                raise InvalidJobError(
                    f"operator {self._info.name!r} declares state {spec.name!r} twice with different types: "
                    f"{before.kind.value} of {before.value_type.name} and {spec.kind.value} of {spec.value_type.name}"
                )
            return handle
        handle = self._states(spec, scope)
        self._declared[spec.name] = (spec, handle)
        return handle

    @property
    def declared(self) -> list[StateSpec]:
        """The states the function asked for so far."""
        return [spec for spec, _ in self._declared.values()]

    def get_state(self, state_descriptor: Any) -> Any:
        """A ValueState."""
        return self.declare(state_descriptor.to_spec())

    get_list_state = get_state
    get_map_state = get_state
    get_reducing_state = get_state
    get_aggregating_state = get_state


def _shape(spec: StateSpec) -> tuple[Any, ...]:
    return spec.kind, spec.value_type, spec.map_key_type, spec.namespace


class ElementContext:
    """ProcessFunction.Context on a stream that is not keyed, and its timer service."""

    def __init__(self, operator: str, clock: Clock) -> None:
        self.operator = operator
        self.clock = clock
        self.current_timestamp = MIN_WATERMARK
        self.watermark = MIN_WATERMARK

    def timestamp(self) -> int:
        """The element's timestamp in ms; the smallest long when it has none."""
        return self.current_timestamp

    def timer_service(self) -> ElementContext:
        """Reads the clocks; timers need a keyed stream."""
        return self

    def current_processing_time(self) -> int:
        """Wall clock in ms."""
        return self.clock()

    def current_watermark(self) -> int:
        """The current watermark in ms."""
        return self.watermark

    def _refuse(self, timestamp: int) -> None:
        raise InvalidJobError(
            f"operator {self.operator!r} sets a timer, but its stream is not keyed: call key_by() before process()"
        )

    register_event_time_timer = _refuse
    register_processing_time_timer = _refuse
    delete_event_time_timer = _refuse
    delete_processing_time_timer = _refuse


class KeyedTimerService:
    """TimerService of a keyed operator."""

    def __init__(self, event: TimerQueue, processing: TimerQueue, clock: Clock) -> None:
        self.event = event
        self.processing = processing
        self.clock = clock
        self.watermark = MIN_WATERMARK
        self.register_event_time_timer = _checked(event.register)
        self.register_processing_time_timer = _checked(processing.register)
        self.delete_event_time_timer = _checked(event.delete)
        self.delete_processing_time_timer = _checked(processing.delete)

    def current_processing_time(self) -> int:
        """Wall clock in ms."""
        return self.clock()

    def current_watermark(self) -> int:
        """The current watermark in ms."""
        return self.watermark


def _checked(action: Callable[[int], None]) -> Callable[[int], None]:
    def act(timestamp: Any) -> None:
        if type(timestamp) is not int or not MIN_WATERMARK <= timestamp < 2**63:
            raise InvalidJobError(f"a timer's timestamp is a 64-bit int in milliseconds, not {timestamp!r}")
        action(timestamp)

    return act


class KeyedElementContext:
    """KeyedProcessFunction.Context and OnTimerContext."""

    def __init__(self, cursor: Cursor, key_of: Callable[[Any], Any], timers: KeyedTimerService) -> None:
        self._cursor = cursor
        self._key_of = key_of
        self._timers = timers
        self.domain: Any = None

    def get_current_key(self) -> Any:
        """The key of the element or timer."""
        return self._key_of(self._cursor.key)

    def timestamp(self) -> int:
        """The element's or timer's timestamp in ms; the smallest long when it has none."""
        return self._cursor.timestamp

    def timer_service(self) -> KeyedTimerService:
        """Clocks and timers of the current key."""
        return self._timers

    def time_domain(self) -> Any:
        """In on_timer: EVENT_TIME or PROCESSING_TIME."""
        return self.domain
