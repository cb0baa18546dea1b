"""A job whose changelog lies on an object store: its driver is killed, and the next one goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver_process import Driver, newest_checkpoint
from servers.s3 import S3Server

from changelog_engine.changelog.log_files import parse_pack
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.verification.verify import verify
from materializer.fold import state_at

pytestmark = pytest.mark.slow

NUMBERS, KEYS = 10_000, 50


def packs(base: str, job: str) -> list[str]:
    """Files with parts of several subtasks."""
    files = find_job_folder(base, job).open_changelog().files()
    return [path for path in files["path"].to_pylist() if parse_pack(path)]


def test_a_killed_driver_is_followed_by_one_that_goes_on(
    s3: S3Server, s3_options: dict[str, str], tmp_path: Path
) -> None:
    base = f"s3://{s3.create_bucket()}/log"
    settings = {
        **s3_options,
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": base,
        "execution.checkpointing.interval": "500ms",
        "state.changelog.periodic-materialize.interval": "2s",
        "parallelism.default": 2,
        "spark.local.dir": tmp_path / "spark",
    }
    job = ("counting_job.py", "count", NUMBERS, KEYS)
    together = {**settings, "changelog.part.packs": True}  # and the next driver goes on with a part a file
    with Driver(*job, options=together, work=tmp_path) as driver:
        driver.wait_for(
            lambda: newest_checkpoint(base, "count") >= 2 and packs(base, "count"),
            timeout_s=180,
            what="second checkpoint, and a pack",
        )
        driver.kill()
        driver.wait_gone()
    reached = newest_checkpoint(base, "count")
    with Driver(*job, options=settings, work=tmp_path) as driver:
        driver.hurry()
        assert driver.end() == 0, driver.output
        assert s3.secret_key not in driver.output
    folder = find_job_folder(base, "count")
    assert newest_checkpoint(base, "count") > reached
    assert packs(base, "count")
    assert verify(folder).faults == []
    folded = state_at(folder.changelog.root)
    assert folded.checkpoint.finished
    assert folded.states["by key", "count"] == dict.fromkeys(range(KEYS), NUMBERS // KEYS)
