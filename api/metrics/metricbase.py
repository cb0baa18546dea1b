"""Metrics: figures that a function keeps about its work, in each subtask for itself.

Get a group in ``open`` from ``runtime_context.get_metrics_group()`` and make metrics with it. They count from the
start of the subtask: a restart of the job begins anew, as in Flink.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from changelog_engine.api_names import refuse_other_names

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

refuse_other_names(__name__)


class Metric:
    """Base of metrics."""


class Counter(Metric, ABC):
    """A number that goes up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add to it.

        Args:
            n: how much; default 1.
        """

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Take from it.

        Args:
            n: how much; default 1.
        """

    @abstractmethod
    def get_count(self) -> int:
        """Its value."""


class Distribution(Metric, ABC):
    """Sum, count, least and largest of the values it is given."""

    @abstractmethod
    def update(self, value: int) -> None:
        """Take in a value.

        Args:
            value: a number.
        """


class Meter(Metric, ABC):
    """How often something happens, per second."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Tell it that something happened.

        Args:
            value: how often; default 1.
        """

    @abstractmethod
    def get_rate(self) -> float:
        """Events per second over its time span."""

    @abstractmethod
    def get_count(self) -> int:
        """All events so far."""


class MetricGroup(ABC):
    """Makes metrics, and groups of metrics; names are unique within a group."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group inside this one; the same one for the same name.

        Args:
            extra: a value; then the result is the group of this value inside that of the name, and
                ``get_all_variables`` has the pair.
        """

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """A counter; the same one for the same name.

        Raises:
            InvalidJobError: the name stands for a metric of another kind.
        """

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """A number that is asked for when it is looked at.

        Args:
            obj: called without arguments for the number.

        Raises:
            InvalidJobError: ``obj`` cannot be called, or the name is taken.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter; the same one for the same name.

        Args:
            time_span_in_seconds: over which the rate is taken; default 60.

        Raises:
            InvalidJobError: the name stands for a metric of another kind, or the time span is below 1.
        """

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """A distribution; the same one for the same name.

        Raises:
            InvalidJobError: the name stands for a metric of another kind.
        """

    @abstractmethod
    def get_scope_components(self) -> list[str]:
        """Where the group stands: the task's name, its subtask, and the groups from the outer to this one."""

    @abstractmethod
    def get_all_variables(self) -> dict[str, str]:
        """The pairs that ``add_group(name, extra)`` made on the way to this group."""

    @abstractmethod
    def get_metric_identifier(self, metric_name: str) -> str:
        """The full name of a metric: the scope's components and the name, joined by dots."""
