"""Metrics of user functions, kept by each subtask for itself.

Invariants:
    * A name stands for one metric in its group; asking again gives the same one.
    * What a meter remembers is bounded by its time span in seconds.
    * Metrics are not state: they are not logged and begin anew when a subtask does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from changelog_engine.clock import monotonic_s
from changelog_engine.errors import InvalidJobError

Seconds = Callable[[], float]
_M = TypeVar("_M", bound="TaskMetric")


class MetricFigure(NamedTuple):
    """What there is to see of one metric."""

    operator: str  # name of the operator whose function keeps it
    subtask: int
    kind: str
    names: tuple[str, ...]  # of the groups round it, and its own
    variables: dict[str, str]  # the pairs of key-value groups round it
    figure: Any  # plain numbers; None of a gauge that failed
    uid: str = ""  # of the operator: several may have one name

    @property
    def full_name(self) -> str:
        """Its identifier."""
        return ".".join((self.operator, str(self.subtask), *self.names))


class TaskMetric(ABC):
    """Base of the metrics."""

    kind: str

    @abstractmethod
    def figure(self) -> Any:
        """What there is to see of it: plain numbers."""


class TaskCounter(TaskMetric):
    """Counter."""

    kind = "counter"

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Take away."""
        self._count -= n

    def get_count(self) -> int:
        """The value."""
        return self._count

    figure = get_count


class TaskGauge(TaskMetric):
    """A number that is asked for."""

    kind = "gauge"

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask

    def figure(self) -> Any:
        number = self._ask()
        return number if isinstance(number, (int, float, str)) else None  # it travels to the driver


class TaskDistribution(TaskMetric):
    """Distribution."""

    kind = "distribution"

    def __init__(self) -> None:
        self._sum: float = 0
        self._count = 0
        self._least: float | None = None
        self._most: float | None = None

    def update(self, value: int) -> None:
        """Take in a value."""
        self._sum += value
        self._count += 1
        if self._least is None or value < self._least:
            self._least = value
        if self._most is None or value > self._most:
            self._most = value

    def figure(self) -> dict[str, float | None]:
        mean = self._sum / self._count if self._count else None
        return {
            "sum": self._sum,
            "count": self._count,
            "min": self._least,
            "max": self._most,
            "mean": mean,
        }


class TaskMeter(TaskMetric):
    """Meter.

    Args:
        span_s: seconds over which the rate is taken.
        now: seconds on a clock that never goes back.
    """

    kind = "meter"

    def __init__(self, span_s: int, now: Seconds = monotonic_s) -> None:
        self._span_s = span_s
        self._now = now
        self._count = 0
        self._in_span = 0
        self._seconds: deque[list[int]] = deque()  # [second, events], oldest first; at most span_s of them

    def mark_event(self, value: int = 1) -> None:
        """Something happened."""
        second = int(self._now())
        self._forget(second)
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += value
        else:
            self._seconds.append([second, value])
        self._count += value
        self._in_span += value

    def get_rate(self) -> float:
        """Events per second over the time span."""
        self._forget(int(self._now()))
        return self._in_span / self._span_s

    def get_count(self) -> int:
        """All events."""
        return self._count

    def figure(self) -> dict[str, float]:
        return {"rate": self.get_rate(), "count": self._count}

    def _forget(self, second: int) -> None:
        while self._seconds and self._seconds[0][0] <= second - self._span_s:
            self._in_span -= self._seconds.popleft()[1]


class TaskMetricGroup:
    """MetricGroup.

    Args:
        scope: the names from the outermost to this group.
        variables: the pairs of key-value groups.
    """

    def __init__(self, scope: tuple[str, ...], variables: dict[str, str] | None = None) -> None:
        self._scope = scope
        self._variables = variables or {}
        self._metrics: dict[str, TaskMetric] = {}
        self._groups: dict[tuple[str, bool], TaskMetricGroup] = {}

    def add_group(self, name: str, extra: str | None = None) -> TaskMetricGroup:
        """A group inside this one."""
        if extra is None:
            return self._group(name, False, self._variables)
        outer = self._group(name, True, self._variables)
        return outer._group(extra, False, {**self._variables, name: extra})

    def counter(self, name: str) -> TaskCounter:
        """A counter."""
        return self._metric(name, TaskCounter, TaskCounter)

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """A number that is asked for."""
        if not callable(obj):
            raise InvalidJobError(f"gauge {name!r} needs a function without arguments, got {obj!r}")
        if name in self._metrics:
            raise InvalidJobError(f"the name {name!r} is taken in metric group {'.'.join(self._scope)!r}")
        self._metric(name, TaskGauge, lambda: TaskGauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> TaskMeter:
        """A meter."""
        if type(time_span_in_seconds) is not int or time_span_in_seconds < 1:
            raise InvalidJobError(
                f"meter {name!r}: the time span is at least 1 second, got {time_span_in_seconds!r}"
            )
        return self._metric(name, TaskMeter, lambda: TaskMeter(time_span_in_seconds))

    def distribution(self, name: str) -> TaskDistribution:
        """A distribution."""
        return self._metric(name, TaskDistribution, TaskDistribution)

    def get_scope_components(self) -> list[str]:
        """The names from the outermost to this group."""
        return list(self._scope)

    def get_all_variables(self) -> dict[str, str]:
        """The pairs of key-value groups."""
        return dict(self._variables)

    def get_metric_identifier(self, metric_name: str) -> str:
        """The full name of a metric."""
        return ".".join((*self._scope, metric_name))

    def figures(self, uid: str = "") -> list[MetricFigure]:
        """Every metric of this group and those inside. A gauge that fails is None."""
        found: list[MetricFigure] = []
        operator, subtask, *groups = self._scope
        for name, metric in self._metrics.items():
            try:
                figure = metric.figure()
            except (Exception, SystemExit, GeneratorExit):
                # A gauge may do anything, and must not fail the job.
                figure = None
            names = (*groups, name)
            found.append(
                MetricFigure(operator, int(subtask), metric.kind, names, self._variables, figure, uid)
            )
        for group in self._groups.values():
            found += group.figures(uid)
        return found

    def _group(self, name: str, is_key: bool, variables: dict[str, str]) -> TaskMetricGroup:
        if type(name) is not str or not name:
            raise InvalidJobError(f"the name of a metric group must be a non-empty str, got {name!r}")
        known = self._groups.get((name, is_key))
        if known is None:
            known = self._groups[name, is_key] = TaskMetricGroup((*self._scope, name), variables)
        return known

    def _metric(self, name: str, kind: type[_M], make: Callable[[], _M]) -> _M:
        if type(name) is not str or not name:
            raise InvalidJobError(f"the name of a metric must be a non-empty str, got {name!r}")
        known = self._metrics.get(name)
        if known is None:
            known = self._metrics[name] = make()
        if not isinstance(known, kind):
            raise InvalidJobError(
                f"the name {name!r} is taken in metric group {'.'.join(self._scope)!r} by a metric of "
                "another kind"
            )
        return known
