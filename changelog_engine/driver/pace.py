"""The pace of an attempt: how much an epoch reads, which one ends with a checkpoint, how long the driver rests after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from changelog_engine.clock import Clock, MonotonicMs
from changelog_engine.driver.pacing import FIRST_RECORDS, OVERLAPPING, BarrierClock, EpochSizer, RareRecords
from changelog_engine.driver.plan_traits import acknowledges
from changelog_engine.graph.nodes import JobSettings, NodeKind
from changelog_engine.graph.plan import JobPlan
from changelog_engine.operators.messages import EpochReport

_IDLE_MS = (20, 1_000)
_SOURCE_BUDGET_MS = 1_000
_ONE_BY_ONE = 32  # records of an epoch in thread mode
# An epoch that took so long may be followed by one in which a worker is idle for Spark's minute.
_NEAR_A_MINUTE_MS = 30_000
_MOST_IN_A_CHECKPOINT = 1_000  # epochs, where nothing waits
_LONGEST_APART_MS = 1_000
_REST_UP_TO_MS = 100  # where nothing waits: as long as the epoch took, and for both together at most this
_LEAST_TARGET_MS = 200  # an epoch costs about 100 ms, however small it is
_IDLE_SHARE = 20  # where records are rare, epochs take a twentieth of the time, as far as their target allows


class Pace:
    """The pace of one attempt.

    Attributes:
        budget_ms: how long a source may read in an epoch.
        after_failure: the newest checkpoint failed; who can wait for the next one waits until it is due.
    """

    def __init__(self, plan: JobPlan, settings: JobSettings, clock: Clock) -> None:
        interval = settings.checkpoint_interval_ms
        asked_ms = settings.epoch_target_ms
        # A checkpoint keeps where each epoch since the last one ended.
        self._apart_ms = asked_ms or min((interval or 0) / _MOST_IN_A_CHECKPOINT, _LONGEST_APART_MS)
        self._rest_up_to_ms = 0 if asked_ms else _REST_UP_TO_MS
        self._asked_ms = asked_ms or 0
        self._target_ms = target_ms = asked_ms or max(_LEAST_TARGET_MS, min(interval or 1_000, 1_000))
        self._clock = clock
        self._sizer = EpochSizer(target_ms / 1000, FIRST_RECORDS, settings.epoch_max_records)
        self._barriers = BarrierClock(interval, settings.min_pause_ms, clock.monotonic_ms())
        self.budget_ms = min(target_ms, _SOURCE_BUDGET_MS)
        self._slow_start = settings.thread_mode and _reads_one_by_one(plan)
        # A broker that waits for acknowledgements sends few records at a time, however many it has.
        self._may_be_rare = not acknowledges(plan)
        self._read_records = 0
        self._last_ms = 0.0
        # Of epochs that overlap, the last few: how long they took, and what the busiest source subtask read.
        self._overlapping: deque[tuple[float, int]] = deque(maxlen=OVERLAPPING)
        self._readers = 0  # subtasks that read something in the last epoch
        self._idle_ms = 0
        self._rare = RareRecords()
        self._covered = False  # by a checkpoint: the epoch that ends now
        self._uncommitted = False
        self._caught_up = False
        self.after_failure = False
        self._more_waits = False  # as far as is known

    @property
    def one_by_one(self) -> bool:
        """Whether an epoch reads a single record: the first ones do in thread mode."""
        return self._slow_start and self._read_records < _ONE_BY_ONE

    @property
    def records(self) -> int:
        """How many records an epoch reads, for each source subtask."""
        return 1 if self.one_by_one else self._sizer.records

    @property
    def long(self) -> bool:
        """Whether epochs are long enough for Spark to end an idle worker meanwhile."""
        return self._last_ms > _NEAR_A_MINUTE_MS

    def checkpoint_due(self) -> bool:
        """Whether the epoch that begins now shall end with a checkpoint."""
        return self._barriers.due(self._clock.monotonic_ms(), self._expected_ms)

    def checkpoint_due_behind(self, barrier: bool) -> bool:
        """Whether the epoch behind the one that runs, which has a barrier or not, shall end with a checkpoint."""
        return self._barriers.due_behind(self._clock.monotonic_ms(), self._expected_ms, barrier)

    @property
    def _expected_ms(self) -> float:
        """How long the next epoch takes.

        Of those that overlap, a long one is followed by a short one, and one that reads more takes longer, up to the target.
        """
        if not self._overlapping:
            return self._last_ms
        took_ms = sum([took_ms for took_ms, _ in self._overlapping])
        read = sum([read for _, read in self._overlapping])
        grown_ms = self._sizer.records * took_ms / read if read else 0.0
        return max(took_ms / len(self._overlapping), min(grown_ms, self._target_ms))

    def reads_ahead(self, slots: int | None) -> bool:
        """Whether it pays that sources read the next epoch while the stages behind them run this one.

        It does where more waits to be read, as far as is known, and sources leave cores to others: those of the last epoch
        did not keep all of them busy. Else it would only delay the end of this epoch.

        Args:
            slots: how many tasks run at a time; None when not known.
        """
        some = self._readers > 0 and (slots is None or self._readers < slots)
        return some and not self._caught_up and not self.one_by_one

    def checkpointed(self, barrier_ms: MonotonicMs, now_ms: MonotonicMs) -> None:
        """A checkpoint is acknowledged."""
        self._barriers.completed(barrier_ms, now_ms)
        self._covered, self.after_failure = True, False

    def checkpoint_failed(self) -> None:
        """A checkpoint failed and is left out: what it would have had waits for the next one, an interval later."""
        now_ms = self._clock.monotonic_ms()
        self._barriers.completed(now_ms, now_ms)
        self.after_failure = True

    def observe(
        self,
        reads: bool,
        duration_ms: float,
        records: int,
        reports: Sequence[EpochReport],
        overlaps: bool = False,
    ) -> None:
        """An epoch has ended."""
        self._last_ms = duration_ms
        share = max((report.records_in for report in reports if report.sources), default=0)
        if overlaps:
            self._overlapping.append((duration_ms, share))
        else:
            self._overlapping.clear()
        changed = (
            self._uncommitted or records > 0 or any(report.mutations or report.moved for report in reports)
        )
        self._uncommitted, self._covered = changed and not self._covered, False
        self._readers = sum(1 for report in reports if report.sources and report.records_in)
        behind = [source.behind for report in reports for source in report.read.values()]
        # A source that gave as much as was asked for may have more, whatever it knows.
        self._caught_up, self._more_waits = (
            all(each == 0 for each in behind),
            any(behind) or share >= self.records,
        )
        if reads and not self.one_by_one:
            self._sizer.observe(share, duration_ms / 1000, work_ms(reports) / 1000, overlaps)
        self._read_records += records

    def rest_ms(self, records: int, next_timer_ms: int | None) -> float:
        """How long to wait before the next epoch: a little when there was nothing to read, and longer when that goes on.

        Where nothing waits to be read, epochs are as far apart as their target, where one was asked for; else twice as far
        as they are long, up to a tenth of a second, so that a job with little to do keeps no machine busy, and a thousandth
        of the time between checkpoints. Where records are rare (`RareRecords`), they are twenty times as far apart as they
        are long, or as far as their target. A checkpoint that is due does not wait, nor is the rest so long that Spark ends
        an idle worker.

        Args:
            next_timer_ms: when a timer is due, on the wall clock, which ends the wait; None for none.
        """
        last_ms = self._last_ms
        self._rare.observe(records)
        if records:
            self._idle_ms, rest_ms = 0, 0.0
            if self._caught_up:
                rest_ms = max(self._apart_ms, min(2 * last_ms, self._rest_up_to_ms)) - last_ms
        else:
            self._idle_ms = min(max(2 * self._idle_ms, _IDLE_MS[0]), _IDLE_MS[1])
            rest_ms = max(self._idle_ms, self._asked_ms - last_ms)
        if self._rare and self._may_be_rare and not self._more_waits:
            rest_ms = max(rest_ms, min(_IDLE_SHARE * last_ms, self._target_ms) - last_ms)
        rest_ms = max(0.0, min(rest_ms, _NEAR_A_MINUTE_MS))
        if self._uncommitted:
            rest_ms = min(rest_ms, self._barriers.left_ms(self._clock.monotonic_ms(), last_ms))
        if next_timer_ms is None:
            return rest_ms
        return min(rest_ms, max(0, next_timer_ms - self._clock.wall_ms()))


def _reads_one_by_one(plan: JobPlan) -> bool:
    """Several sources would wait for each other's slow records, and an async function takes many at a time."""
    kinds = [node.kind for node in plan.graph.nodes]
    return kinds.count(NodeKind.SOURCE) == 1 and NodeKind.ASYNC not in kinds


def work_ms(reports: Sequence[EpochReport]) -> float:
    """How long an epoch's subtasks worked on records: the busiest of each stage, one stage after the other."""
    busiest: dict[int, float] = {}
    for report in reports:
        busiest[report.stage] = max(busiest.get(report.stage, 0.0), report.work_ms)
    return sum(busiest.values())
