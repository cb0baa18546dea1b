"""How long the driver rests between two epochs."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from support.jobs import OneClock

from changelog_engine.clock import MonotonicMs
from changelog_engine.driver import control as control_module
from changelog_engine.driver.control import JobControl
from changelog_engine.driver.pace import Pace
from changelog_engine.driver.pacing import BarrierClock
from changelog_engine.errors import StorageError
from changelog_engine.graph.nodes import JobSettings, NodeKind
from changelog_engine.operators.messages import EpochReport, SourceReport


def plan_of(acknowledges: bool = False) -> Any:
    """A plan with a source, which wants to know what is durable or does not."""
    source = SimpleNamespace(kind=NodeKind.SOURCE, function=SimpleNamespace(acknowledges=acknowledges))
    return SimpleNamespace(graph=SimpleNamespace(nodes=[source]))


def rest_ms(
    target_ms: int | None, behind: list[int | None], records: int, timer_ms: int | None = None
) -> float:
    """The rest after an epoch of 30 ms, at wall clock 1,000."""
    pace = Pace(plan_of(), JobSettings(epoch_target_ms=target_ms), OneClock(lambda: 1_000))
    reports = [
        EpochReport(0, place, read={"s": SourceReport(1, each, None)}) for place, each in enumerate(behind)
    ]
    pace.observe(True, 30.0, records, [*reports, EpochReport(1, 0)])
    return pace.rest_ms(records, timer_ms)


@pytest.mark.parametrize(
    ("target_ms", "behind", "timer_ms", "rest"),
    [
        (None, [0, 0], None, 30),  # as long as the epoch was
        (200, [0, 0], None, 170),  # epochs as long as was asked for
        (200, [0, 7], None, 0),  # not while something waits
        (200, [0, None], None, 0),  # or may wait
        (20, [0, 0], None, 0),
        (200, [0, 0], 1_050, 50),  # a timer is due before
        (200, [0, 0], 900, 0),
    ],
)
def test_after_an_epoch_that_read(
    target_ms: int | None, behind: list[int | None], timer_ms: int | None, rest: float
) -> None:
    assert rest_ms(target_ms, behind, 2, timer_ms) == rest


@pytest.mark.parametrize(
    ("target_ms", "interval_ms", "pause_ms", "rest"),
    [
        (None, 600_000, 0, 570),  # a checkpoint keeps where each epoch ended: a thousand at most
        (None, 86_400_000, 0, 970),
        (None, 20_000, 0, 30),  # as long as the epoch was
        (None, 75_000, 0, 45),
        (None, 10, 0, 0),  # a checkpoint is due
        (10_000, 2_000, 0, 1_955),  # a checkpoint is due before
        (10_000, 2_000, 3_000, 1_955),  # the pause before the first one is over
        (500, 2_000, 0, 470),
        (600_000, None, 0, 30_000),  # Spark ends a worker that was idle for a minute
    ],
)
def test_a_rest_by_target_and_interval(
    target_ms: int | None, interval_ms: int | None, pause_ms: int, rest: float
) -> None:
    settings = JobSettings(
        epoch_target_ms=target_ms, checkpoint_interval_ms=interval_ms, min_pause_ms=pause_ms
    )
    pace = Pace(plan_of(), settings, OneClock(lambda: 1_000))
    pace.observe(True, 30.0, 2, [EpochReport(0, 0, read={"s": SourceReport(1, 0, None)})])
    assert pace.rest_ms(2, None) == rest


@pytest.mark.parametrize("asked", ["stop", "fail", "savepoint", "rescale"])
def test_a_rest_ends_when_something_is_asked(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    control = JobControl(None, plan_of(), lambda plan, over: None)
    if asked == "stop":
        control.stop()
    elif asked == "fail":
        control.fail(StorageError("broken"))
    elif asked == "savepoint":
        monkeypatch.setattr(type(control.savepoints), "waiting", True)
    else:
        monkeypatch.setattr(type(control.rescales), "waiting", object())
    monkeypatch.setattr(control_module, "Deadline", lambda after_s: Endless())
    control.rest(1.0)  # or this would never return


class Endless:
    """A deadline that never passes."""

    left_s = 0.001


@pytest.mark.parametrize(("target_ms", "rest"), [(None, 20), (40, 20), (200, 170), (60_000, 30_000)])
def test_after_an_epoch_without_anything_to_read(target_ms: int | None, rest: float) -> None:
    assert rest_ms(target_ms, [0, 0], 0) == rest
    assert rest_ms(target_ms, [0, 0], 0, 1_005) == 5


def rests(
    behind: int | None,
    epochs: list[int],
    interval_ms: int = 10_000,
    committed: bool = True,
    acknowledges: bool = False,
) -> list[float]:
    """The rests after epochs of 30 ms that read so many records, with a checkpoint at the end of each or none ever."""
    settings = JobSettings(checkpoint_interval_ms=interval_ms)
    pace = Pace(plan_of(acknowledges), settings, OneClock(lambda: 1_000))
    found = []
    for records in epochs:
        if committed:
            pace.checkpointed(MonotonicMs(1_000), MonotonicMs(1_000))
        pace.observe(
            True, 30.0, records, [EpochReport(0, 0, read={"s": SourceReport(records, behind, None)})]
        )
        found.append(pace.rest_ms(records, None))
    return found


def test_where_records_are_rare_epochs_are_few() -> None:
    """As soon as one reads many, epochs follow each other as before."""
    rare = [1, 0, 1, 0, 0, 1, 0, 10, 0, 1, 1, 1, 0, 11, 0, 1, 1, 0]
    slow = [570] * 7
    assert rests(0, rare) == [30, 20, 30, 20, 40, 30, *slow, 30, 20, 30, 30, 20]
    assert rests(None, rare) == [0, 20, 0, 20, 40, 0, *slow, 0, 20, 0, 0, 20]
    assert rests(7, rare) == [0, 20, 0, 20, 40, 0, 20, 0, 20, 0, 0, 0, 20, 0, 20, 0, 0, 20]  # more waits
    slow = [170] * 7
    assert rests(0, rare, interval_ms=100) == [30, 20, 30, 20, 40, 30, *slow, 30, 20, 30, 30, 20]
    assert rests(0, [1, 1, 0] * 5) == [30, 30, 20] * 5  # one right behind the other
    assert rests(0, [11, 0] * 5) == [30, 20] * 5
    assert rests(0, [10, 0] * 5, acknowledges=True) == [30, 20] * 5  # a broker gives no more at a time


def test_epochs_that_read_all_they_may_follow_each_other() -> None:
    """However little that is: a source that does not know what waits has more, perhaps, where records were rare before."""
    pace = Pace(
        plan_of(), JobSettings(checkpoint_interval_ms=10_000, epoch_max_records=5), OneClock(lambda: 1_000)
    )
    found = []
    for records in [1, 0, 1, 0, 1, 0, 4, 5, 5, 4]:
        pace.checkpointed(MonotonicMs(1_000), MonotonicMs(1_000))
        report = EpochReport(
            0, 0, records_in=records, sources={"s": {}}, read={"s": SourceReport(records, None, None)}
        )
        pace.observe(True, 30.0, records, [report])
        found.append(pace.rest_ms(records, None))
    assert found[5:] == [570, 570, 0, 0, 570]


def test_what_was_read_has_its_checkpoint_in_time() -> None:
    epochs = [1, 0] * 4
    assert rests(0, epochs, 200, committed=False)[-2:] == [155, 155]
    assert rests(0, epochs, 200)[-2:] == [170, 170]


def test_a_checkpoint_that_failed_is_not_tried_again_at_once() -> None:
    """An idle job with a store that is down tries it once an interval, as Flink does, and not in each epoch."""
    pace = Pace(plan_of(), JobSettings(checkpoint_interval_ms=400), OneClock(lambda: 1_000))
    pace.observe(True, 30.0, 1, [EpochReport(0, 0)])
    assert pace.rest_ms(0, None) == 20
    pace.checkpoint_failed()
    pace.observe(True, 30.0, 0, [EpochReport(0, 0)])
    assert not pace.checkpoint_due()
    assert [pace.rest_ms(0, None) for _ in range(5)] == [40, 80, 160, 320, 355]


def test_what_only_a_timer_changed_has_its_checkpoint_in_time() -> None:
    pace = Pace(plan_of(), JobSettings(checkpoint_interval_ms=100), OneClock(lambda: 1_000))
    pace.observe(True, 30.0, 0, [EpochReport(0, 0, moved=True)])
    assert [pace.rest_ms(0, None) for _ in range(3)] == [20, 40, 55]


def test_of_epochs_that_overlap_the_next_one_is_due_by_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the last few count together, where a short one comes behind each long one."""
    pace = Pace(plan_of(), JobSettings(checkpoint_interval_ms=1_000), OneClock(lambda: 1_000))
    expected: list[float] = []
    monkeypatch.setattr(
        BarrierClock,
        "due_behind",
        lambda self, now_ms, expected_ms, barrier: bool(expected.append(expected_ms)),
    )
    for duration_ms in (200.0, 150.0, 1_400.0, 400.0, 1_350.0):
        reports = [EpochReport(0, 0, records_in=pace.records, sources={"s": {}})]
        pace.observe(True, duration_ms, pace.records, reports, overlaps=True)
        pace.checkpoint_due_behind(True)
    assert expected[0] == 1_000, "the next one reads eight times as much, and has the target"
    assert expected[-1] == pytest.approx((1_400 + 400 + 1_350) / 3)


@pytest.mark.parametrize(
    ("records", "behind", "slots", "ahead"),
    [
        ([7, 0], [9, None], 2, True),  # one core was idle
        ([7, 7], [9, 9], 2, False),
        ([7, 7], [9, 9], None, True),
        ([7, 0], [0, 0], 2, False),  # nothing waits
        ([0, 0], [None, None], 2, False),
    ],
)
def test_whether_sources_read_ahead(
    records: list[int], behind: list[int | None], slots: int | None, ahead: bool
) -> None:
    pace = Pace(plan_of(), JobSettings(), OneClock(lambda: 1_000))
    reports = [
        EpochReport(
            0, place, records_in=count, sources={"s": {}}, read={"s": SourceReport(count, waits, None)}
        )
        for place, (count, waits) in enumerate(zip(records, behind, strict=True))
    ]
    pace.observe(True, 30.0, sum(records), [*reports, EpochReport(1, 0, records_in=sum(records))])
    assert pace.reads_ahead(slots) is ahead


def test_the_barrier_behind_the_epoch_that_runs() -> None:
    """As due() says it when that epoch has ended as expected."""
    for interval_ms, pause_ms, barrier in itertools.product([50, 100, 150], [0, 90], [True, False]):
        ahead = BarrierClock(interval_ms, pause_ms, MonotonicMs(0))
        behind = ahead.due_behind(MonotonicMs(20), 40, barrier)
        if barrier:
            ahead.completed(MonotonicMs(60), MonotonicMs(60))
        assert ahead.due(MonotonicMs(60), 40) is behind
    assert not BarrierClock(None, 0, MonotonicMs(0)).due_behind(MonotonicMs(20), 40, True)
