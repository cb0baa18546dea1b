"""Two executors: subtasks keep their process and are spread; an executor that dies takes nothing with it.

Reliability case 22.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from driver_process import Driver, checkpoints, executors_java
from final_state import assert_counted_once

pytestmark = pytest.mark.slow

NUMBERS, KEYS = 15_000, 100
EPOCHS = 5
WINDOWS = 8  # of so many epochs; where others take the machine's time, Spark gives a subtask to whoever is free first


def processes_of(driver: Driver, table: Path) -> dict[str, set[int]]:
    """The processes of each subtask during some epochs."""
    began, seen = checkpoints(table), {}
    while checkpoints(table) < began + EPOCHS:
        assert driver.process.poll() is None, driver.output
        for pin, pids in driver.pinned().items():
            seen.setdefault(pin, set()).update(pids)
        time.sleep(0.2)
    return seen


def test_pins_hold_on_two_executors_and_one_may_die(tmp_path: Path) -> None:
    table = tmp_path / "log" / "count" / "changelog"
    options = {
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        "execution.checkpointing.interval": "500ms",
        "changelog.epoch.target": "1s",
        "parallelism.default": 2,
        "spark.master": "local-cluster[2,2,1024]",
        **executors_java(),
        "spark.local.dir": tmp_path / "spark",
    }
    job = ("counting_job.py", "count", NUMBERS, KEYS)
    with Driver(*job, options=options, work=tmp_path) as driver:
        driver.wait_for(lambda: checkpoints(table) >= 2, what="second checkpoint")
        for _ in range(WINDOWS):
            seen = processes_of(driver, table)
            if all(len(pids) == 1 for pids in seen.values()):
                break
        assert sorted(seen) == ["0/0/0", "0/0/1", "0/1/0", "0/1/1", "0/2/0", "0/2/1"], driver.output
        assert {len(pids) for pids in seen.values()} == {1}, f"subtasks change their processes: {seen}"
        executors = {pin: driver.executor_of(min(pids)) for pin, pids in seen.items()}
        assert len({executors["0/1/0"], executors["0/1/1"]}) == 2, (
            f"keyed subtasks are on one executor: {executors}"
        )

        lost = executors["0/1/0"]
        os.kill(lost, signal.SIGKILL)
        before = checkpoints(table)
        driver.wait_for(lambda: checkpoints(table) > before + 1, what="checkpoint after an executor was lost")
        # Between two epochs the loss costs no restart: the subtasks that were there restore themselves.
        moved = driver.pinned()
        for pin, executor in executors.items():
            if executor == lost:
                assert moved[pin], f"nobody took the place of {pin}"
                assert not seen[pin] & set(moved[pin]), f"{pin}: {seen[pin]}, now {moved[pin]}"
        assert "\tat " not in driver.output, "pages of Java"
        driver.hurry()
        assert driver.end() == 0, driver.output
    assert_counted_once(table, NUMBERS, KEYS)
