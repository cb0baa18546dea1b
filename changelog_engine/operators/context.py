"""The contexts that user functions get: the runtime context in open(), the element's context in each call."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from changelog_engine.clock import WallClock
from changelog_engine.errors import ArgumentTypeError, InvalidJobError, NotKeyedError
from changelog_engine.event_time import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from changelog_engine.graph.nodes import StateDescription, StateKind, StateSpec
from changelog_engine.graph.subtask_warnings import warn
from changelog_engine.operators.base import Operator
from changelog_engine.operators.metrics import TaskMetricGroup
from changelog_engine.state.cursor import Cursor, NamespaceScope
from changelog_engine.state.handles import NotAValue
from changelog_engine.state.timers import TimerQueue, of_whole_ms


@dataclass(frozen=True)
class TaskInfo:
    """Where a function runs."""

    name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    restarts: int
    parameters: dict[str, str]


class TaskContext:
    """RuntimeContext: facts about the task, and the keyed state of an operator.

    Args:
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
            NotKeyedError: the stream is not keyed.
            InvalidJobError: the name is taken by a state of another type.
        """
        if self._states is None:
            raise _not_keyed(self._info.name, f"keyed state {spec.name!r}")
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
        return self._asked(state_descriptor, StateKind.VALUE, "get_state")

    def get_list_state(self, state_descriptor: Any) -> Any:
        """A ListState."""
        return self._asked(state_descriptor, StateKind.LIST, "get_list_state")

    def get_map_state(self, state_descriptor: Any) -> Any:
        """A MapState."""
        return self._asked(state_descriptor, StateKind.MAP, "get_map_state")

    def get_reducing_state(self, state_descriptor: Any) -> Any:
        """A ReducingState."""
        return self._asked(state_descriptor, StateKind.REDUCING, "get_reducing_state")

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        """An AggregatingState."""
        return self._asked(state_descriptor, StateKind.AGGREGATING, "get_aggregating_state")

    def _asked(self, descriptor: Any, kind: StateKind, method: str) -> Any:
        spec = descriptor.to_spec() if isinstance(descriptor, StateDescription) else None
        if spec is None or spec.kind is not kind:
            got = repr(descriptor)
            if spec is not None:
                takes = "get_state" if spec.kind is StateKind.VALUE else f"get_{spec.kind.value}_state"
                got = f"a {type(descriptor).__name__}, which {takes} takes"
            raise ArgumentTypeError(
                f"operator {self._info.name!r}: {method} needs the descriptor of a {kind.value} state, got {got}"
            )
        return self.declare(spec)


def _shape(spec: StateSpec) -> tuple[Any, ...]:
    return spec.kind, spec.value_type, spec.map_key_type, spec.namespace


def _not_keyed(operator: str, asked: str) -> NotKeyedError:
    error = NotKeyedError(
        f"operator {operator!r} asks for {asked}, but its stream is not keyed: call key_by() right before it"
    )
    error.operator = operator
    return error


class _WithoutState(NotAValue):
    """What contexts of elements and timers say who are asked for state, or for Java's ways out."""

    __slots__ = ()

    instead = "a context was given in place of what it knows: give that, as by timestamp()"

    def __getattr__(self, name: str) -> Any:
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name.startswith("get_") and name.endswith("_state"):
            message += (
                f": state is asked for in open(), by runtime_context.{name}(descriptor), and kept in self"
            )
        elif name in ("output", "collect"):
            message += ": yield results, and (tag, element) for a side output"
        raise AttributeError(message, name=name, obj=self)


class ElementContext(_WithoutState):
    """ProcessFunction.Context on a stream that is not keyed, and its timer service.

    Args:
        operator: has the name and the current watermark.
    """

    def __init__(self, operator: Operator, clock: WallClock) -> None:
        self.operator = operator
        self.clock = clock
        self.current_timestamp = NO_TIMESTAMP

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
        return self.operator.current_watermark

    def __getattr__(self, name: str) -> Any:
        if name == "get_current_key":  # not there, so that hasattr says so; the error says why
            raise self._keyless("the current key")
        return super().__getattr__(name)

    def _keyless(self, asked: str) -> InvalidJobError:
        return _not_keyed(self.operator.name, asked)

    def _refuse(self, timestamp: int) -> None:
        raise self._keyless("a timer")

    register_event_time_timer = _refuse
    register_processing_time_timer = _refuse
    delete_event_time_timer = _refuse
    delete_processing_time_timer = _refuse


class KeyedTimerService(NotAValue):
    """TimerService of a keyed operator."""

    instead = "a timer service was given in place of what it knows: give that, as by current_watermark()"

    def __init__(self, event: TimerQueue, processing: TimerQueue, clock: WallClock) -> None:
        self.event = event
        self.processing = processing
        self.clock = clock
        self.watermark = MIN_WATERMARK
        self.register_event_time_timer = event.setter(_whole_ms)
        self.register_processing_time_timer = processing.setter(_whole_ms)
        self.delete_event_time_timer = of_whole_ms(event.delete, _whole_ms)
        self.delete_processing_time_timer = of_whole_ms(processing.delete, _whole_ms)
        self._warned = False

    def any_registered(self) -> bool:
        """Whether there are timers, of any key."""
        return self.event.next_timestamp() is not None or self.processing.next_timestamp() is not None

    @contextlib.contextmanager
    def ending_key(self) -> Iterator[None]:
        """In BATCH mode, while the timers of a key that has no more elements fire: event time is at its end.

        Timers that are set meanwhile are not taken, as in Flink, which so ends chains that set the next one for ever.
        """
        taking = self.register_event_time_timer, self.register_processing_time_timer
        self.register_event_time_timer = self.register_processing_time_timer = self._ignore
        self.watermark = MAX_WATERMARK
        try:
            yield
        finally:
            self.register_event_time_timer, self.register_processing_time_timer = taking
            self.watermark = MIN_WATERMARK

    def _ignore(self, timestamp: Any) -> None:
        if not self._warned:
            self._warned = True
            warn(
                "timers set by last timers",
                "a timer for %s was set while the last timers of a key fire: in BATCH mode such timers are ignored, as in "
                "Flink. Further ones are not named",
                timestamp,
            )

    def current_processing_time(self) -> int:
        """Wall clock in ms."""
        return self.clock()

    def current_watermark(self) -> int:
        """The current watermark in ms."""
        return self.watermark


def milliseconds(time: Any) -> int | None:
    """A user's timestamp as 64-bit int; a fraction of a millisecond is cut off, as in Flink.

    Args:
        time: an int, a float, such as ``moment.timestamp() * 1000``, or a number of numpy's.

    Returns:
        None for what is not such a number.
    """
    if not isinstance(time, (int, float, np.number)) or not math.isfinite(time):
        return None
    whole = int(time)
    return whole if MIN_WATERMARK <= whole < 2**63 else None


def _whole_ms(timestamp: Any) -> int:
    whole = milliseconds(timestamp)
    if whole is None:
        raise InvalidJobError(f"a timer's timestamp is a 64-bit int in milliseconds, not {timestamp!r}")
    return whole


class KeyedElementContext(_WithoutState):
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
