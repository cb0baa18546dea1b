"""Reliability case 60: what becomes of workers that Spark thinks have been idle for too long."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver_process import Driver

from materializer.fold import state_at

pytestmark = pytest.mark.slow


def test_case_60_workers_keep_their_state_while_they_wait(tmp_path: Path) -> None:
    """Spark closes the connections of all workers after each epoch, and none has a checkpoint: nobody notices."""
    options = {
        "spark.master": "local[2]",
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        "state.changelog.enabled": True,
        "execution.checkpointing.interval": "1 h",
        "python.fn-execution.bundle.size": 20,
        "restart-strategy.type": "none",
    }
    with Driver("idle_workers_job.py", options=options, work=tmp_path) as driver:
        assert driver.end() == 0, driver.output
        assert "attempt 1, epoch 4" in driver.output
        driver.wait_gone()
    folded = state_at(str(tmp_path / "log" / "idle" / "changelog"))
    assert folded.states["by key", "count"] == dict.fromkeys(range(10), 10)
