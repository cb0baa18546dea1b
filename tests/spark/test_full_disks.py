"""Reliability case 12 on Spark: the disk of what tasks send each other, and of their state, is full, and has room again."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver_process import Driver
from support.small_disk import small_disk

from materializer.fold import state_at

pytestmark = pytest.mark.slow

NUMBERS, KEYS = 6_000, 50


def test_case_12_a_job_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    small, table = tmp_path / "small", tmp_path / "log" / "full" / "changelog"
    options = {
        "spark.master": "local[2]",
        "spark.local.dir": small / "spark",
        "parallelism.default": 2,
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": small / "state",
        "execution.checkpointing.interval": "200 ms",
        "python.fn-execution.bundle.size": 500,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1_000,
        "restart-strategy.fixed-delay.delay": "200 ms",
    }
    with (
        small_disk(small, 700) as resize,
        Driver("full_disk_job.py", "full", NUMBERS, KEYS, options=options, work=tmp_path) as driver,
    ):
        sent = f"disk full: there is no room in {small / 'spark'}"
        driver.wait_for(lambda: sent in driver.output, what="error of what tasks send each other")
        resize(100_000)
        assert driver.end() == 0, driver.output
    assert "batch is already consumed" not in driver.output
    folded = state_at(str(table))
    assert folded.checkpoint.finished
    assert folded.states["count", "count"] == dict.fromkeys(range(KEYS), NUMBERS // KEYS)
