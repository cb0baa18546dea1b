"""Drivers as their users start and stop them: SIGTERM, a second driver, nothing left behind.

Reliability case 10 among them.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

import pytest
from driver_process import Driver, checkpoints
from final_state import assert_counted_once

from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.ownership import DriverLock
from materializer.fold import state_at

pytestmark = pytest.mark.slow

NUMBERS, KEYS = 15_000, 50


def test_a_second_driver_is_refused_and_sigterm_stops_the_first_after_a_checkpoint(tmp_path: Path) -> None:
    """The driver alone gets it, as by ``kill``, ``docker stop`` and Kubernetes; its JVM and workers end with it.

    Ctrl-C: `test_launcher_spark`.
    """
    table = tmp_path / "log" / "count" / "changelog"
    options = {
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        "execution.checkpointing.interval": "500ms",
        "changelog.epoch.target": "1s",
        "parallelism.default": 2,
        "spark.master": "local[2]",
    }
    job = ("counting_job.py", "count", NUMBERS, KEYS)
    with Driver(*job, options=options, work=tmp_path / "first") as first:
        first.wait_for(lambda: checkpoints(table), what="checkpoint")

        with Driver(*job, options=options, work=tmp_path / "second") as second:
            assert second.end() == 1
        assert last_line(second.output).startswith("changelog_engine.errors.FencedError: the job 'count' in ")
        assert f"host {socket.gethostname()}, pid {first.pid}, since " in last_line(second.output)
        assert "stop that one first, or give this job another name or base path" in last_line(second.output)

        before = checkpoints(table)
        first.wait_for(
            lambda: checkpoints(table) > before + 1, what="checkpoint after the second driver was refused"
        )
        os.kill(first.pid, signal.SIGTERM)
        assert first.end() == 143, first.output
        first.wait_gone()
    output = first.output
    assert "Traceback" not in output
    assert "THE JOB ENDED" not in output
    assert "stopping after the next checkpoint; send SIGTERM again to stop at once" in output
    said = r"job 'count' stopped after checkpoint (\d+); run it again to go on from there"
    stopped = re.search(said, last_line(output))
    assert stopped is not None, output
    folded = state_at(str(table))
    assert folded.checkpoint.id == int(stopped[1])
    assert folded.checkpoint.stopped
    assert not folded.checkpoint.finished
    assert "at org.apache" not in output
    assert "at java." not in output

    with Driver(*job, options=options, work=tmp_path / "third") as third:
        third.hurry()
        assert third.end() == 0, third.output
        assert "THE JOB ENDED" in third.output
        third.wait_gone()
    assert_counted_once(table, NUMBERS, KEYS)
    assert state_at(str(table)).checkpoint.lineage[0].last == folded.checkpoint.id


@pytest.mark.slow
def test_case_57_a_killed_jvm_is_one_clear_error(tmp_path: Path) -> None:
    table = tmp_path / "log" / "count" / "changelog"
    options = {
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        "execution.checkpointing.interval": "300ms",
        "parallelism.default": 1,
        "spark.master": "local[1]",
    }
    with Driver(
        "counting_job.py", "count", NUMBERS, KEYS, options=options, work=tmp_path / "first"
    ) as driver:
        driver.wait_for(lambda: checkpoints(table), what="checkpoint")
        jvm = next(pid for pid in children_of(driver.pid) if comm_of(pid) == "java")
        os.kill(jvm, signal.SIGKILL)
        assert driver.end() == 1
        driver.wait_gone()
    error = last_line(driver.output)
    assert f"the JVM of Spark (process {jvm}) was killed by SIGKILL" in error
    assert re.search(r"The state is safe up to checkpoint \d+: run the job again", error)
    # Threads of PySpark's may print what they met before; the error itself says nothing of it.
    _, _, told = driver.output.partition("changelog_engine/driver/coordinator.py")
    assert told
    assert "py4j" not in told
    assert "ConnectionRefused" not in told
    with DriverLock(find_job_folder(str(tmp_path / "log"), "count")):
        pass  # it was given back


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def comm_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def last_line(text: str) -> str:
    return text.rstrip().splitlines()[-1]
