"""A job on Spark is asked for other parallelisms while it runs, and its driver killed right between two attempts: exact."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from driver_process import Driver, checkpoints, often_killed
from final_state import assert_counted_once

from changelog_engine.inspection.timeline import Timeline
from changelog_engine.ledger.attempt_notes import RESCALED, read_notes
from changelog_engine.storage.opening import open_storage
from materializer.fold import state_at

pytestmark = pytest.mark.slow

NUMBERS, KEYS = 8_000, 11
PROGRAM = [sys.executable, "-c", "from changelog_engine.cli import main; main()", "rescale"]


def parallelism(table: Path) -> int:
    """Of the stage with the keys, at the newest checkpoint."""
    operators = state_at(str(table)).checkpoint.operators
    return next(operator.parallelism for operator in operators if operator.uid == "by key")


def started(pid: int) -> float:
    """When a process began, in seconds since 1970."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - up_s + ticks / os.sysconf("SC_CLK_TCK")


def test_up_and_down_and_killed_between_two_attempts(tmp_path: Path) -> None:
    job = tmp_path / "log" / "counting"
    table = job / "changelog"
    options = often_killed(tmp_path / "log")
    with Driver("counting_job.py", "counting", NUMBERS, KEYS, options=options, work=tmp_path) as driver:
        driver.wait_for(lambda: checkpoints(table) > 1, what="checkpoint")
        for wanted in (4, 1):
            asked = subprocess.run([*PROGRAM, job, str(wanted)], capture_output=True, text=True, timeout=170)
            assert asked.returncode == 0, f"{asked.stderr}\n{driver.output}"
            assert asked.stdout.startswith("rescaled "), asked.stdout
            before = checkpoints(table)
            driver.wait_for(lambda before=before: checkpoints(table) > before, what="checkpoint")  # type: ignore[misc]
            assert parallelism(table) == wanted
            if wanted == 4:
                began = Timeline(str(job)).attempts[-1].time_ms / 1000
                late = [pin for pin, (pid,) in driver.pinned().items() if started(pid) >= began]
                assert not late, "workers that were started ahead are those that the new attempt has"
        newest = Timeline(str(job)).attempts[-1].attempt
        assert newest == 3, f"no restart\n{driver.output}"
        with subprocess.Popen([*PROGRAM, job, "3"], stderr=subprocess.PIPE, text=True) as asking:
            changelog = open_storage(str(table))
            driver.wait_for(
                lambda: read_notes(changelog, [newest])[newest].ended == RESCALED, what="end of the attempt"
            )
            driver.kill()
            driver.wait_gone()
            assert "ended without an answer" in asking.communicate(timeout=60)[1]
    (tmp_path / "hurry").touch()
    with Driver("counting_job.py", "counting", NUMBERS, KEYS, options=options, work=tmp_path) as driver:
        assert driver.end() == 0, driver.output
    assert_counted_once(table, NUMBERS, KEYS)
    assert parallelism(table) == 2, "a new run has the program's"
    told = [attempt.how for attempt in Timeline(str(job)).attempts]
    assert told[:3] == ["began", "rescaled", "rescaled"]
