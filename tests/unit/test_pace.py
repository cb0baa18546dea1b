"""How long the driver rests between two epochs."""

from __future__ import annotations

from typing import Any

import pytest
from support.jobs import OneClock

from changelog_engine.driver.pace import Pace
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.operators.messages import EpochReport, SourceReport


def rest_ms(
    target_ms: int | None, behind: list[int | None], records: int, timer_ms: int | None = None
) -> float:
    """The rest after an epoch of 30 ms, at wall clock 1,000."""
    plan: Any = None  # asked in thread mode only
    pace = Pace(plan, JobSettings(epoch_target_ms=target_ms), OneClock(lambda: 1_000))
    reports = [
        EpochReport(0, place, read={"s": SourceReport(1, each, None)}) for place, each in enumerate(behind)
    ]
    pace.observe(True, 30.0, records, [*reports, EpochReport(1, 0)])
    return pace.rest_ms(records, timer_ms)


@pytest.mark.parametrize(
    ("target_ms", "behind", "timer_ms", "rest"),
    [
        (None, [0, 0], None, 0),  # as soon as there may be something to read
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


@pytest.mark.parametrize("target_ms", [None, 200])
def test_after_an_epoch_without_anything_to_read(target_ms: int | None) -> None:
    assert rest_ms(target_ms, [0, 0], 0) == 20
    assert rest_ms(target_ms, [0, 0], 0, 1_005) == 5
