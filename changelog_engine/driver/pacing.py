"""How many records the next epoch reads, and whether a checkpoint barrier ends it. Pure arithmetic on an injected clock.

Invariants:
    * The first epoch is small; the next ones grow at most eightfold, so an unknown function never makes a long epoch.
    * What an epoch costs whatever it reads never makes the next one smaller: with records waiting, a third of the time or
      more is work on them.
    * Between two barriers lies at least the minimum pause.
"""

from __future__ import annotations

import math
from collections import deque

from changelog_engine.clock import MonotonicMs

FIRST_RECORDS = 1_000  # no fewer: watermarks come between epochs, as in Flink none does in its first 200 ms
LARGEST_RECORDS = 4_000_000
OVERLAPPING = 3  # epochs that overlap, which count together
_GROWTH = 8
_REMEMBERED = 16  # epochs
_FEW = 10  # records that an epoch may read where they are rare
_ALONE = 3  # epochs that read something, each followed by one that found nothing, after which records count as rare


class EpochSizer:
    """Sizes epochs so that each takes about its target time: the next one grows as the last one's work was shorter.

    An epoch has a fixed cost: Spark's scheduling, a commit, a write to a slow store. It must not make epochs smaller, so an
    epoch has work for half of its target at least, and for as long as it waits where that is longer. What of an epoch was
    waiting is not quite known: writing grows with the records and is not work that subtasks see. As much time as they saw
    may be that.

    The first epoch also starts processes and opens functions, so how long it took says nothing about speed, and how long it
    worked on records is an upper bound: a warm one works no longer on as many. The next one grows where that was little, and
    shrinks where it was much.

    Where stages run the next epoch while this one runs, part of an epoch's work lies in the time of the one before, and its
    size was decided two epochs before: so the rate of the last few together counts, or sizes would swing.

    Args:
        first: records of the first epoch, for each source subtask.
        bound: never more than this; None for LARGEST_RECORDS.
    """

    def __init__(self, target_s: float, first: int = FIRST_RECORDS, bound: int | None = None) -> None:
        self.target_s = target_s
        self.bound = LARGEST_RECORDS if bound is None else bound
        self.records = min(first, self.bound)
        self._warm = False
        self._before = self.records  # until the last epoch was taken in
        self._overlapping: deque[tuple[int, float, float]] = deque(maxlen=OVERLAPPING)
        # Of late: time in which certainly nobody worked.
        self._waits_s: deque[float] = deque(maxlen=_REMEMBERED)

    def observe(self, records: int, seconds: float, work_s: float, overlaps: bool = False) -> None:
        """Take in the last epoch.

        Args:
            records: what the busiest source subtask read.
            seconds: how long the epoch took.
            work_s: how much of it its subtasks worked on records, one stage after the other.
            overlaps: stages ran it before it began, or ran the next one before it ended.
        """
        asked, self._before = self._before if overlaps else self.records, self.records
        warm, self._warm = self._warm, True
        if not warm:
            if records >= asked / 2:
                growth = self.target_s / 2 / max(work_s, 1e-3)
                self.records = int(min(max(self.records * min(growth, _GROWTH), 1), self.bound))
            return
        self._waits_s.append(max(0.0, seconds - 2 * work_s))
        factor = self.target_s / max(seconds, 1e-3)
        if not records or (records < asked / 2 and factor > 1):
            return  # there was no more to read: a short epoch says nothing
        base: float = min(self.records, records) if factor < 1 else self.records
        if overlaps:
            self._overlapping.append((records, seconds, work_s))
            base, seconds, work_s = (sum(each) / len(each) for each in zip(*self._overlapping, strict=True))
            records, factor = int(base), self.target_s / max(seconds, 1e-3)
        else:
            self._overlapping.clear()
            if 0.5 < factor < 2:
                factor = factor**0.5  # near the target, follow half of each change: single epochs are noisy
        least_work_s = max(self.target_s / 2, min(self._waits_s))
        factor = max(factor, least_work_s / max(work_s, 1e-3) * records / base)
        wanted = base * min(max(factor, 1 / _GROWTH), _GROWTH)
        self.records = int(min(max(wanted, 1), self.records * _GROWTH, self.bound))


class BarrierClock:
    """Decides which epochs end with a checkpoint. All times are the monotonic clock's.

    Args:
        interval_ms: between the starts of two checkpoints; None for never.
        min_pause_ms: between the end of one and the start of the next.
    """

    def __init__(self, interval_ms: int | None, min_pause_ms: int, now_ms: MonotonicMs) -> None:
        self.interval_ms = interval_ms
        self.min_pause_ms = min_pause_ms
        self._due_ms: float = now_ms + (interval_ms or 0)
        self._ended_ms: float = now_ms - min_pause_ms

    def due(self, now_ms: MonotonicMs, expected_ms: float) -> bool:
        """Whether an epoch that starts now and takes about this long shall end with a barrier."""
        if self.interval_ms is None:
            return False
        at = now_ms + expected_ms
        return at + expected_ms / 2 >= self._due_ms and at - self._ended_ms >= self.min_pause_ms

    def due_behind(self, now_ms: MonotonicMs, expected_ms: float, barrier: bool) -> bool:
        """Whether the epoch behind the one that runs shall end with a barrier, when both end as expected.

        Args:
            expected_ms: how long each of them takes; the one that runs ends at most this long after now.
        """
        if self.interval_ms is None:
            return False
        ends_ms = now_ms + expected_ms
        due_ms = ends_ms + self.interval_ms if barrier else self._due_ms
        paused_ms = ends_ms if barrier else self._ended_ms
        at = ends_ms + expected_ms
        return at + expected_ms / 2 >= due_ms and at - paused_ms >= self.min_pause_ms

    def left_ms(self, now_ms: MonotonicMs, expected_ms: float) -> float:
        """How long until an epoch that then starts and takes about this long is due; infinite without checkpoints."""
        if self.interval_ms is None:
            return math.inf
        begins_ms = max(self._due_ms - 1.5 * expected_ms, self._ended_ms + self.min_pause_ms - expected_ms)
        return max(0.0, begins_ms - now_ms)

    def completed(self, barrier_ms: MonotonicMs, now_ms: MonotonicMs) -> None:
        """A checkpoint is done, or failed and is left out; the next is due an interval after its barrier."""
        self._due_ms = barrier_ms + (self.interval_ms or 0)
        self._ended_ms = now_ms


class RareRecords:
    """Whether records are rare: of late each epoch that read something read few, and one behind it found nothing.

    They are until an epoch reads many.
    """

    def __init__(self) -> None:
        self._alone = 0  # epochs that read few, each with one behind it that found nothing
        self._nothing_before = False

    def __bool__(self) -> bool:
        return self._alone >= _ALONE

    def observe(self, records: int) -> None:
        """Take in how many records the last epoch read."""
        if not records:
            self._alone += not self._nothing_before
        elif records > _FEW or not (self or self._nothing_before):
            # After a long rest, one record in each epoch does not mean that there are many.
            self._alone = 0
        self._nothing_before = not records
