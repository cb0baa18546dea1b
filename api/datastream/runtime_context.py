"""RuntimeContext: where a function runs, and its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ..metrics.metricbase import MetricGroup

if TYPE_CHECKING:
    # Descriptors hold functions, whose open() is given what is here: only the names lead back.
    from .state import (
        AggregatingState,
        AggregatingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        ReducingState,
        ReducingStateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )


class KeyedStateStore(ABC):
    """Gives access to keyed state. Only on keyed streams, after ``key_by``."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """A value for each key.

        Args:
            state_descriptor: declares it.

        Raises:
            NotKeyedError: the stream is not keyed.
            InvalidJobError: the name stands for a state of another kind or type.
        """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list for each key. Args and Raises as `get_state`."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A map for each key. Args and Raises as `get_state`."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A combined value for each key. Args and Raises as `get_state`."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """An accumulator for each key. Args and Raises as `get_state`."""


class RuntimeContext(KeyedStateStore):
    """Where a function runs, and its state; given to ``open``."""

    @abstractmethod
    def get_task_name(self) -> str:
        """The name of the task that runs the function."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """The parallelism of the task."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The max parallelism of the task: its number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """The number of this subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often the job has been restarted in this run: 0 at first."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """The task's name with subtask, parallelism and attempt: ``map (3/6)#0``.

        The subtask is counted from 1.
        """

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A job parameter, set by ``env.get_config().set_global_job_parameters``.

        Args:
            key: its name.
            default_value: returned when it is not set.
        """

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """The metrics of this function in this subtask: make them in ``open``, count where you like."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """The same as `get_metrics_group`."""
