"""Reliability case 7 on Spark: sinks commit between two epochs, and what goes wrong there loses and doubles nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from driver_process import Driver, often_killed

pytestmark = pytest.mark.slow


def test_sinks_commit_before_the_next_epoch_reads_and_what_fails_there_fails_that_epoch(
    tmp_path: Path,
) -> None:
    """The source gives no more before each commit was tried; one of them fails, and one kills its worker."""
    out = tmp_path / "out"
    out.mkdir()
    options = often_killed(tmp_path / "log")
    with Driver("early_commits_job.py", str(out), options=options, work=tmp_path) as driver:
        assert driver.end() == 0, driver.output
        driver.wait_gone()
    assert "NO COMMIT CAME" not in driver.output
    assert "a commit between two epochs did" in driver.output
    assert "the first commit fails" in driver.output
    died = ("ended between two epochs, and another one has gone on from checkpoint", "Python worker exited")
    assert any(said in driver.output for said in died), "before its next task came, or with that in its hands"
    prepared = [file.suffix for file in out.glob("prepared.*")]
    assert {name.split("-")[0] for name in prepared} >= {".1", ".2"}, "the first commit failed no attempt"
    assert len({name.split("-")[1] for name in prepared}) > 1, "no worker died"
    assert all((out / f"tried{name}").exists() for name in prepared)
    lines = Counter(line for file in out.glob("*.txt") for line in file.read_text().splitlines())
    assert lines == Counter(f"{number} 1" for number in range(400))
