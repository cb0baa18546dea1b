"""Reliability case 22: thirty drivers of one job, each killed with SIGKILL at a random moment, on real files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.chance import chosen_seed
from support.jobs import TestJob
from support.killed_drivers import KEYS, counting
from support.script import Script

from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.verification.verify import verify
from materializer.fold import state_at
from materializer.materialize import materialize

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
KILLS, ROUNDS = 30, 2


def test_case_22_thirty_drivers_killed_at_random_leave_the_exact_output_and_state(tmp_path: Path) -> None:
    """Another parallelism each time; halfway a snapshot is made. The last driver lives, and all is as if none had died."""
    seed = chosen_seed()
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    for part in range(ROUNDS):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "support.killed_drivers",
                tmp_path,
                str(KILLS // ROUNDS),
                str(seed + part),
            ],
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
        folder = find_job_folder(str(tmp_path / "log"), "job")
        assert verify(folder).faults == []
        materialize(folder)

    counted = state_at(f"{tmp_path}/log/job/changelog").states["counts", "count"]
    end = sum(counted.values()) + 1_000
    (tmp_path / "end").write_text(str(end))
    job = TestJob(tmp_path / "log", Script(sizes=(500,)))
    job.run_driver(counting(tmp_path, 2))

    expected = Counter(number % KEYS for number in range(end))
    folded = state_at(job.table())
    assert folded.checkpoint.finished
    assert folded.states["counts", "count"] == expected
    lines = Counter(
        line for file in (tmp_path / "out").glob("[!.]*.txt") for line in file.read_text().splitlines()
    )
    assert lines == Counter(
        str((key, count)) for key, most in expected.items() for count in range(1, most + 1)
    )
    rows = Lineage(folder.open_changelog())
    attempts = {entry.attempt for entry in rows.checkpoints.values()}
    assert len(attempts) > KILLS // 2, "most drivers got on before they were killed"
    assert verify(folder).faults == []
