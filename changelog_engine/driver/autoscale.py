"""Another parallelism by itself: what waits in the sources, how busy subtasks are, and the executors decide.

The rule, over a calm period in which the job ran undisturbed:
    1. More subtasks than the executors run at a time, or than the bounds allow: as many as there may be.
    2. What waits in the sources was at every look more than a while's work, and is not caught up with soon: twice as many.
       Where sources do not tell what waits, subtasks that work most of the time tell it.
    3. Nothing waited, and subtasks had little to do: half as many. Where sources do not tell what waits, the job must have
       rested: of one whose epochs cost much beside the work, subtasks have little to do although much waits.

Invariants:
    * Between two changes, and after each restart, lies at least a calm period.
    * The job's loop never waits for it, and its failure changes nothing: the job goes on as it is.
    * It asks as everybody does (``driver.rescaling``), and each request says why.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from changelog_engine.clock import MonotonicMs, monotonic_ms
from changelog_engine.connectors.protocols import is_endless
from changelog_engine.driver.figures import JobFigures, JobMonitor
from changelog_engine.driver.interval_thread import IntervalThread
from changelog_engine.driver.rescaling import RescaleRequests
from changelog_engine.errors import MAKES_NO_CHECKPOINTS, ChangelogEngineError, ConfigurationError
from changelog_engine.graph.nodes import JobSettings, NodeKind
from changelog_engine.graph.plan import JobPlan
from changelog_engine.graph.rescaling import following, rescaled

log = logging.getLogger("changelog_engine")

_LOOKS = 20  # in a calm period
_SHORTEST_LOOK_MS, _LONGEST_LOOK_MS = 20.0, 2_000.0
_LEAST_EPOCHS = 1  # must have ended in a calm period, or nothing is known
_WAITS_S = 5.0  # more work than this waits: too few subtasks
_NOTHING_S = 1.0  # less than this: nothing waits
_BUSY = 0.6  # of the time
_IDLE = 0.25  # half as many then work for less than half of the time: an epoch that has enough to do works for more
_RESTS = 0.6
_PATIENCE_S = 30.0
_WORK = ("read", "process", "encode", "write")


@dataclass(frozen=True)
class ScalingBounds:
    """Between what a job's parallelism moves.

    Args:
        calm_ms: how long a cause must last, and between two changes.
        follows: uids of the stages that have the job's parallelism.
        dealt: uids of endless sources in them whose subtasks without a split would hold event time back for ever: no more
            subtasks are asked for than they have splits.
    """

    least: int
    most: int
    calm_ms: int
    follows: frozenset[str]
    dealt: frozenset[str] = frozenset()

    def within(self, plan: JobPlan) -> ScalingBounds:
        """These, and not above a plan's max parallelism: a job that goes on has that of its checkpoint.

        Args:
            plan: the job, with the stages that it had.
        """
        most = min(stage.max_parallelism for stage in plan.stages if stage.uid in self.follows)
        return replace(self, least=min(self.least, most), most=min(self.most, most))

    def parallelism(self, plan: JobPlan) -> int:
        """The job's, as it is."""
        return max(stage.parallelism for stage in plan.stages if stage.uid in self.follows)


class Scaling(NamedTuple):
    """What is to be asked for."""

    parallelism: int
    why: str


class _Look(NamedTuple):
    at_ms: MonotonicMs
    epoch: int
    records: int
    work_ms: float
    epochs_ms: float
    behind: int | None


def bounds_of(plan: JobPlan, settings: JobSettings) -> ScalingBounds | None:
    """Between what a job's parallelism moves; None for a job that is not to be rescaled by itself.

    Raises:
        ConfigurationError: the job makes no checkpoints, its bounds cannot be, or none of its operators can change.
    """
    if not settings.autoscale:
        return None
    if settings.checkpoint_interval_ms is None:
        raise ConfigurationError(
            f"changelog.autoscale: a job is rescaled at a checkpoint, and {MAKES_NO_CHECKPOINTS}; or remove the option"
        )
    least, most = settings.autoscale_min_parallelism, settings.autoscale_max_parallelism
    if most is not None and most < least:
        raise ConfigurationError(
            f"changelog.autoscale.max-parallelism = {most} is less than changelog.autoscale.min-parallelism = {least}"
        )
    try:
        follows = following(plan)
        if most is None:
            most = max(least, min(s.max_parallelism for s in plan.stages if s.uid in follows))
        for bound in (least, most):
            rescaled(plan, bound)
    except ChangelogEngineError as error:
        raise ConfigurationError(f"changelog.autoscale: {error}") from error
    return ScalingBounds(least, most, settings.autoscale_calm_ms, follows, _dealt(plan, follows))


def _dealt(plan: JobPlan, follows: frozenset[str]) -> frozenset[str]:
    found: set[str] = set()
    for stage in plan.stages:
        here = plan.nodes_of(stage) if stage.uid in follows else []
        specs = [node.function for node in here if node.kind is NodeKind.TIMESTAMPS]
        if any(spec.out_of_orderness_ms is not None and spec.idle_timeout_ms is None for spec in specs):
            sources = [node for node in here if node.kind is NodeKind.SOURCE]
            found.update(plan.uids[node.id] for node in sources if is_endless(node.function))
    return frozenset(found)


class Judge:
    """Says when a job is to have another parallelism. Pure arithmetic on figures and an injected time.

    Args:
        now_ms: of the monotonic clock.
    """

    def __init__(self, bounds: ScalingBounds, now_ms: MonotonicMs) -> None:
        self._bounds = bounds
        self._looks: deque[_Look] = deque()
        self._began_ms = now_ms
        self._of: tuple[int, int] | None = None  # attempt, parallelism

    def look(
        self,
        now_ms: MonotonicMs,
        figures: JobFigures,
        parallelism: int,
        slots: int | None,
        splits: int | None = None,
    ) -> Scaling | None:
        """Take the newest figures in; returns a change when there is to be one.

        Args:
            now_ms: of the monotonic clock.
            slots: tasks that the executors run at a time; None when that is not known.
            splits: more subtasks than these are not asked for; None for no such bound.
        """
        of = figures.attempt, parallelism
        if of != self._of or figures.status != "RUNNING":
            self._of = of
            self.rest(now_ms)
            return None
        self._looks.append(
            _Look(
                now_ms,
                figures.epoch,
                figures.records_in,
                sum(figures.times_ms.get(part, 0.0) for part in _WORK),
                sum(figures.times_ms.values()),
                _behind(figures),
            )
        )
        calm_ms = self._bounds.calm_ms
        if now_ms - self._began_ms < calm_ms:
            return None
        while len(self._looks) > 2 and now_ms - self._looks[1].at_ms >= calm_ms:
            self._looks.popleft()
        return self._judged(parallelism, slots, splits)

    def rest(self, now_ms: MonotonicMs) -> None:
        """What was seen says nothing any more; a calm period begins."""
        self._began_ms = now_ms
        self._looks.clear()

    def _judged(self, now: int, slots: int | None, splits: int | None) -> Scaling | None:
        bounds = self._bounds
        most = bounds.most if slots is None else max(bounds.least, min(bounds.most, slots))
        if now < bounds.least:
            return Scaling(bounds.least, f"{now} is less than the least parallelism")
        if now > most:
            few = most < bounds.most
            why = f"the executors run {slots} tasks at a time" if few else "it is more than the bound"
            return Scaling(most, why)
        first, last = self._looks[0], self._looks[-1]
        seconds = (last.at_ms - first.at_ms) / 1000
        if last.epoch - first.epoch < _LEAST_EPOCHS or seconds <= 0:
            return None
        rate = (last.records - first.records) / seconds
        busy = min(1.0, (last.work_ms - first.work_ms) / 1000 / seconds)
        waits = [look.behind for look in self._looks if look.behind is not None]
        # Neither, when a part of the looks is from before the first epoch.
        known = len(waits) == len(self._looks)
        untold = not waits
        most = most if splits is None else min(most, splits)
        if now < most:
            why = self._too_few(waits, rate, seconds) if known else _busy_words(busy) if untold else ""
            if why:
                return Scaling(min(2 * now, most), why)
        if now > bounds.least and busy < _IDLE:
            fewer = max(bounds.least, math.ceil(now / 2))
            if known and max(waits) <= rate * _NOTHING_S:
                return Scaling(fewer, f"nothing waits, and its subtasks work {busy:.0%} of the time")
            rests = 1 - min(1.0, (last.epochs_ms - first.epochs_ms) / 1000 / seconds)
            if untold and rests > _RESTS:
                return Scaling(fewer, f"it rests {rests:.0%} of the time")
        return None

    def _too_few(self, waits: list[int], rate: float, seconds: float) -> str:
        """Why there are too few subtasks, by what waits; "" for enough."""
        if min(waits) <= rate * _WAITS_S:
            return ""
        falls = (waits[0] - waits[-1]) / seconds
        if falls > 0 and waits[-1] / falls * 1000 <= self._bounds.calm_ms:
            return ""  # it catches up in time
        return f"{waits[-1]:,} elements wait, {rate:,.0f} are read in a second"


class Autoscaler(IntervalThread):
    """Rescales a job by itself, in a thread of its own; at its end a request under way has its answer.

    Args:
        slots: gives how many tasks the executors run at a time; None when that is not known.
    """

    def __init__(
        self,
        bounds: ScalingBounds,
        rescales: RescaleRequests,
        monitor: JobMonitor,
        slots: Callable[[], int | None],
        name: str,
    ) -> None:
        every_ms = min(max(bounds.calm_ms / _LOOKS, _SHORTEST_LOOK_MS), _LONGEST_LOOK_MS)
        super().__init__("autoscale", every_ms / 1000, _PATIENCE_S)
        self._bounds = bounds
        self._rescales = rescales
        self._monitor = monitor
        self._slots = slots
        self._name = name
        self._judge = Judge(bounds, monotonic_ms())

    def _look(self) -> None:
        try:
            self._scale()
        except Exception:  # of Spark's: the next look may fare better
            log.warning("job %r: changelog.autoscale could not look", self._name, exc_info=True)
            self._judge.rest(monotonic_ms())

    def _scale(self) -> None:
        plan = self._rescales.plan
        now = self._bounds.parallelism(plan)
        monitor, slots = self._monitor, self._slots()
        splits = min((monitor.splits.get(uid, 0) for uid in self._bounds.dealt), default=None)
        wanted = self._judge.look(monotonic_ms(), monitor.latest, now, slots, splits)
        if wanted is None or self._stopping.is_set():
            return
        log.info("job %r: changelog.autoscale %d -> %d: %s", self._name, now, wanted.parallelism, wanted.why)
        try:
            self._rescales.take(wanted.parallelism, wanted.why, plan)
        except ChangelogEngineError as refused:
            if not self._stopping.is_set():
                log.warning("job %r: changelog.autoscale: %s", self._name, refused)
        self._judge.rest(monotonic_ms())


def _behind(figures: JobFigures) -> int | None:
    """What waits in all sources; None when one of them does not tell."""
    each = [source.behind for source in figures.sources.values()]
    known = [count for count in each if count is not None]
    return sum(known) if known and len(known) == len(each) else None


def _busy_words(busy: float) -> str:
    return f"its subtasks work {busy:.0%} of the time" if busy > _BUSY else ""
