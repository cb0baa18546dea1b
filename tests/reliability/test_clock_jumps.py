"""The wall clock is set while a job runs, forwards and back: nothing that is measured notices (case 50)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.functions import Count
from support.graphs import keyed_job
from support.jobs import TestJob

from changelog_engine.clock import MonotonicMs, WallMs
from changelog_engine.errors import RestoreError
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.restore_decision import decide_restore
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000
EPOCH_MS = 100


class JumpingClock:
    """An epoch takes 100 ms; the wall clock is set as much as said before it."""

    def __init__(self, jumps_ms: dict[int, int]) -> None:
        self.jumps_ms = jumps_ms
        self.job: TestJob | None = None

    def _epochs(self) -> int:
        return 0 if self.job is None else len(self.job.stats)

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(float(self._epochs() * EPOCH_MS))

    def wall_ms(self) -> WallMs:
        epochs = self._epochs()
        jumped = sum(jump for epoch, jump in self.jumps_ms.items() if epoch <= epochs)
        return WallMs(START_MS + epochs * EPOCH_MS + jumped)


def run(base: Path, jumps_ms: dict[int, int]) -> TestJob:
    clock = JumpingClock(jumps_ms)
    job = TestJob(
        base, clock=clock, checkpoint_interval_ms=3 * EPOCH_MS, epoch_max_records=2, min_pause_ms=EPOCH_MS
    )
    clock.job = job
    job.run_driver(keyed_job([(n % 3, n) for n in range(60)], Count()))
    return job


@pytest.mark.parametrize(
    "jumps_ms",
    [
        {5: -HOUR_MS},
        {5: HOUR_MS},
        {5: -HOUR_MS, 12: 2 * HOUR_MS, 20: -HOUR_MS},
        {3: HOUR_MS, 10: -3 * HOUR_MS},
    ],
    ids=["back", "forth", "both", "far back"],
)
def test_case_50_checkpoints_keep_their_interval(tmp_path: Path, jumps_ms: dict[int, int]) -> None:
    steady, jumping = run(tmp_path / "steady", {}), run(tmp_path / "jumping", jumps_ms)
    assert [stats.checkpoint for stats in jumping.stats] == [stats.checkpoint for stats in steady.stats]
    assert len(steady.commits) > 5
    assert jumping.output == steady.output
    assert all(0 <= (stats.acknowledged_ms or 0) <= EPOCH_MS for stats in jumping.stats)
    times = [checkpoint.time_ms for checkpoint in jumping.commits]
    assert times == sorted(times)


def test_case_50_as_of_finds_its_checkpoint_across_jumps(tmp_path: Path) -> None:
    """Of checkpoints with the same time the newest is meant; a time before a jump finds what was there before it."""
    job = run(tmp_path, {6: HOUR_MS, 14: -2 * HOUR_MS})
    lineage = Lineage(DeltaLog(open_storage(job.table())))
    for checkpoint in job.commits:
        at = f"as-of:{_iso(checkpoint.time_ms)}"
        found = decide_restore(lineage, at).checkpoint
        assert found is not None
        assert found.time_ms == checkpoint.time_ms
        assert found.id == max(other.id for other in job.commits if other.time_ms == checkpoint.time_ms)


def test_case_50_a_time_among_checkpoints_that_a_clock_in_the_future_stamped_is_refused(
    tmp_path: Path,
) -> None:
    """All that came after the clock was right again keep the time that it had: nobody knows which was newest."""
    years_ms = 20 * 365 * 24 * HOUR_MS
    job = run(tmp_path, {9: years_ms, 12: -years_ms})
    lineage = Lineage(DeltaLog(open_storage(job.table())))
    right = [checkpoint for checkpoint in job.commits if checkpoint.time_ms < START_MS + years_ms]
    assert 1 < len(right) < len(job.commits) - 2
    for time_ms in (right[-1].time_ms, START_MS + HOUR_MS):
        with pytest.raises(
            RestoreError, match=rf"time that is yet to come.* is {right[-1].id} .* {job.commits[-1].id}$"
        ):
            decide_restore(lineage, _iso(time_ms))
    for point in (_iso(right[0].time_ms), str(right[0].id)):
        assert _chosen(lineage, point) == right[0].id
    for point in ("latest", _iso(job.commits[-1].time_ms)):
        assert _chosen(lineage, point) == job.commits[-1].id


def _chosen(lineage: Lineage, point: str) -> int | None:
    found = decide_restore(lineage, point).checkpoint
    return None if found is None else found.id


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
