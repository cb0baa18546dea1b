"""Reliability case 63: a driver that is stopped for long, replaced meanwhile, and goes on: nothing of it is seen."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.chance import chosen_seed
from support.part_files import finished, lines
from support.stopped_driver import run

TESTS = Path(__file__).parents[1]
NUMBERS = 2_000
ROUNDS = 3


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_case_63_nothing_is_seen_of_a_driver_that_wakes_after_it_was_replaced(
    tmp_path: Path, number: int
) -> None:
    """It is stopped at whatever it is doing, for as long as the second driver takes, which is to the end."""
    seed = chosen_seed()
    chance = random.Random(seed + number)
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    with subprocess.Popen(
        [sys.executable, "-m", "support.stopped_driver", str(tmp_path), str(NUMBERS)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as first:
        try:
            assert first.stdout is not None
            for _ in range(chance.randint(1, 4)):
                assert first.stdout.readline(), first.communicate()[1]
            time.sleep(chance.uniform(0, 0.05))
            first.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)

            run(tmp_path, NUMBERS, (200,))

            seen = {path: path.read_bytes() for path in finished(tmp_path / "out")}
            version = DeltaTable(tmp_path / "table").version()
            check(tmp_path)
            first.send_signal(signal.SIGCONT)
            _, complaints = first.communicate(timeout=300)
        finally:
            first.kill()
    assert first.returncode != 0, "it was told that it was replaced"
    assert "took the job" in complaints
    check(tmp_path)
    assert {path: path.read_bytes() for path in finished(tmp_path / "out")} == seen
    assert DeltaTable(tmp_path / "table").version() == version

    run(tmp_path, NUMBERS, (200,))  # begins anew, because the job had ended: everything twice
    check(tmp_path, 2)


def check(folder: Path, times: int = 1) -> None:
    """Every number is there so many times in both sinks."""
    expected = Counter(dict.fromkeys(range(1, NUMBERS + 1), times))
    assert Counter({int(line): count for line, count in lines(folder / "out").items()}) == expected
    rows = DeltaTable(folder / "table").to_pyarrow_table()["n"].to_pylist()
    assert Counter(rows) == expected
