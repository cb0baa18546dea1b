"""Pacing and restart strategies: pure functions of what they were told."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changelog_engine.clock import MonotonicMs
from changelog_engine.driver.pacing import LARGEST_RECORDS, BarrierClock, EpochSizer
from changelog_engine.driver.restart import Restarts, strategy_of
from changelog_engine.graph.nodes import JobSettings, RestartKind, RestartSettings

RATES = st.floats(10, 5e6)


@given(RATES, st.floats(0.05, 2), st.floats(0, 5), st.floats(0, 1))
def test_epochs_come_to_their_target_time(
    rate: float, target_s: float, overhead_s: float, unseen: float
) -> None:
    """A steady rate, a fixed cost, and a part of the work that the subtasks don't see as such (writing): within a few epochs
    each takes about its target, or half of it is work.
    """
    sizer = EpochSizer(target_s)
    seconds = 0.0
    for _ in range(25):
        work_s = sizer.records / rate
        seconds = overhead_s + work_s * (1 + unseen)
        sizer.observe(sizer.records, seconds, work_s)
    if sizer.records in (1, LARGEST_RECORDS) or sizer.records < 10:
        return
    assert target_s / 2 <= seconds <= 2 * (target_s + 1.5 * overhead_s)
    assert work_s >= min(0.3 * seconds, 0.45 * target_s) / (1 + unseen)


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 100), st.booleans()), max_size=30),
    st.integers(1, 10**5),
)
def test_sizes_stay_within_bounds_and_grow_by_steps(
    epochs: list[tuple[int, float, bool]], bound: int
) -> None:
    sizer = EpochSizer(1.0, 1_000, bound)
    for records, seconds, overlaps in epochs:
        before = sizer.records
        sizer.observe(records if overlaps else min(records, before), seconds, seconds, overlaps)
        assert 1 <= sizer.records <= bound
        assert sizer.records <= before * 8


def test_epochs_that_overlap_come_to_their_target_together() -> None:
    """A long one, in which most of the next one is done, and a short one; their sizes were decided two epochs before."""
    sizer = EpochSizer(1.0)
    sizes = [sizer.records, sizer.records]
    for number in range(40):
        seconds = 0.05 + sizes[number] / 40_000 * (1.4 if number % 2 else 0.6)
        sizer.observe(sizes[number], seconds, sizes[number] / 40_000, overlaps=True)
        sizes.append(sizer.records)
    assert min(sizes[12:]) >= 30_000
    assert max(sizes[12:]) <= 50_000


def test_a_slow_function_has_few_records_an_epoch_from_the_second_on() -> None:
    """A second for each record: after the first epoch each takes about its target."""
    sizer, sizes = EpochSizer(1.0), []
    for _ in range(4):
        sizes.append(sizer.records)
        sizer.observe(sizer.records, sizer.records, sizer.records)
    assert sizes == [1_000, 1, 1, 1]


def test_a_cold_first_epoch_says_little_and_a_source_that_has_no_more_says_nothing() -> None:
    sizer = EpochSizer(1.0, 1_000)
    sizer.observe(1_000, 30.0, 0.5)
    assert sizer.records == 1_000, "its work took half of the target, whatever else it did"
    loads = EpochSizer(1.0, 1_000)
    loads.observe(1_000, 30.0, 20.0)
    assert loads.records == 25
    loads.observe(25, 0.05, 0.002)
    assert loads.records == 200, "it loaded a model, and grows again"
    little = EpochSizer(1.0, 1_000)
    little.observe(1_000, 30.0, 0.25)
    assert little.records == 2_000, "it may work for half a second"
    little = EpochSizer(1.0, 1_000)
    little.observe(10, 30.0, 0.001)
    assert little.records == 1_000
    sizer.observe(10, 0.001, 0.001)
    assert sizer.records == 1_000
    sizer.observe(0, 30.0, 0.0)
    assert sizer.records == 1_000, "a slow epoch without elements says nothing either"
    sizer.observe(1_000, 0.001, 0.001)
    assert sizer.records == 8_000
    sizer.observe(8_000, 1e9, 1e9)
    assert sizer.records == 1_000


def test_a_slow_store_does_not_starve_the_job() -> None:
    """Commits that take longer than the target: a third of each epoch is work."""
    sizer = EpochSizer(0.5)
    for _ in range(100):
        work_s = sizer.records / 10_000
        sizer.observe(sizer.records, work_s + 0.6, work_s)
    assert 2_500 <= sizer.records <= 4_000


@given(st.integers(10, 5_000), st.integers(0, 3_000), st.lists(st.integers(1, 400), min_size=50, max_size=50))
def test_barriers_keep_to_interval_and_pause(interval: int, pause: int, durations: list[int]) -> None:
    """Epochs of any length: checkpoints are a minimum pause apart, and none is later than an epoch can make it."""
    now = 1_000_000
    clock = BarrierClock(interval, pause, now)
    last_end, last_barrier = now - pause, now
    for duration in durations:
        due = clock.due(now, duration)
        left_ms = clock.left_ms(now, duration)
        assert due == (left_ms == 0)
        assert clock.due(now + left_ms, duration)
        barrier = now + duration
        if due:
            assert barrier - last_end >= pause
            assert barrier + duration >= last_barrier + interval
            clock.completed(barrier, barrier + 5)
            last_end, last_barrier = barrier + 5, barrier
        else:
            in_time = barrier + duration / 2 < last_barrier + interval
            assert in_time or barrier - last_end < pause
        now = barrier + (5 if due else 0)


def test_no_interval_means_no_barrier() -> None:
    clock = BarrierClock(None, 0, 0)
    assert not clock.due(10**9, 10**9)
    assert clock.left_ms(10**9, 10**9) == math.inf


def test_without_a_strategy_checkpointing_decides() -> None:
    assert strategy_of(JobSettings()).kind is RestartKind.NONE
    chosen = strategy_of(JobSettings(checkpoint_interval_ms=1))
    assert chosen == RestartSettings(
        RestartKind.EXPONENTIAL_DELAY,
        initial_backoff_ms=1000,
        max_backoff_ms=60_000,
        backoff_multiplier=1.5,
        reset_backoff_ms=3_600_000,
        jitter=0.1,
    )
    given_one = RestartSettings(RestartKind.NONE)
    assert strategy_of(JobSettings(checkpoint_interval_ms=1, restart=given_one)) is given_one


def test_no_restart() -> None:
    assert Restarts(RestartSettings(RestartKind.NONE)).after_failure(0) is None


@given(st.integers(0, 10))
def test_fixed_delay(attempts: int) -> None:
    restarts = Restarts(RestartSettings(RestartKind.FIXED_DELAY, attempts=attempts, delay_ms=7))
    assert [restarts.after_failure(time) for time in range(attempts)] == [7] * attempts
    assert restarts.after_failure(99) is None


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30), st.integers(1, 4), st.integers(1, 500))
def test_failure_rate(pauses: list[int], failures: int, interval: int) -> None:
    restarts = Restarts(
        RestartSettings(RestartKind.FAILURE_RATE, delay_ms=3, failures=failures, interval_ms=interval)
    )
    times: list[int] = []
    for pause in pauses:
        times.append((times[-1] if times else 0) + pause)
        recent = [time for time in times if times[-1] - time <= interval]
        assert restarts.after_failure(times[-1]) == (3 if len(recent) <= failures else None)


def test_exponential_delay() -> None:
    restarts = Restarts(
        RestartSettings(
            RestartKind.EXPONENTIAL_DELAY,
            initial_backoff_ms=10,
            max_backoff_ms=60,
            backoff_multiplier=2.0,
            reset_backoff_ms=1_000,
        ),
        uniform=lambda least, most: 0.0,
    )
    assert [restarts.after_failure(time) for time in (0, 10, 20, 30, 40)] == [10, 20, 40, 60, 60]
    assert restarts.after_failure(1_041) == 10
    assert restarts.after_failure(1_050) == 20


@given(st.integers(0, 2**32))
def test_jitter_stays_within_its_factor_and_the_longest_pause(seed: int) -> None:
    settings = RestartSettings(RestartKind.EXPONENTIAL_DELAY, max_backoff_ms=5_000, backoff_multiplier=2.0)
    restarts = Restarts(settings, random.Random(seed).uniform)
    pauses = [restarts.after_failure(MonotonicMs(0.0)) for _ in range(6)]
    for pause, plain in zip(pauses, [1000, 2000, 4000, 5000, 5000, 5000], strict=True):
        assert pause is not None
        assert plain * 0.9 <= pause <= min(plain * 1.1, 5000)


@pytest.mark.parametrize("target_s", [0.1, 1.0])
def test_sizes_shrink_when_an_epoch_was_cut_short(target_s: float) -> None:
    """A source that stopped at the epoch's time read less than was asked for: the next size follows what it read."""
    sizer = EpochSizer(target_s, 100_000)
    sizer.observe(100_000, target_s, target_s)
    sizer.observe(500, target_s * 4, target_s * 4)
    assert sizer.records <= 500
