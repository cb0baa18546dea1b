"""A job whose changelog lies on an object store: its driver is killed, and the next one goes on from there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver_process import Driver
from servers.s3 import S3Server

from changelog_engine.errors import ChangelogEngineError
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.storage.file_systems import options_in_use, use_options
from changelog_engine.verification.verify import verify
from materializer.fold import state_at

pytestmark = pytest.mark.slow

NUMBERS, KEYS = 40_000, 50


@pytest.fixture
def options(s3: S3Server) -> Iterator[dict[str, str]]:
    """How to reach the store; this process does so already."""
    before = options_in_use()
    found = {"s3.endpoint": s3.endpoint, "s3.access-key": s3.access_key, "s3.secret-key": s3.secret_key}
    use_options(found)
    yield found
    use_options(before)


def test_a_killed_driver_is_followed_by_one_that_goes_on(
    s3: S3Server, options: dict[str, str], tmp_path: Path
) -> None:
    base = f"s3://{s3.create_bucket()}/log"
    settings = {
        **options,
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": base,
        "execution.checkpointing.interval": "500ms",
        "state.changelog.periodic-materialize.interval": "2s",
        "parallelism.default": 2,
        "spark.local.dir": tmp_path / "spark",
    }
    job = ("counting_job.py", "count", NUMBERS, KEYS)
    with Driver(*job, options=settings, work=tmp_path) as driver:
        driver.wait_for(lambda: newest(base) >= 2, timeout_s=180, what="second checkpoint")
        driver.kill()
        driver.wait_gone()
    reached = newest(base)
    with Driver(*job, options=settings, work=tmp_path) as driver:
        driver.hurry()
        assert driver.end() == 0, driver.output
        assert s3.secret_key not in driver.output
    folder = find_job_folder(base, "count")
    assert newest(base) > reached
    assert verify(folder).faults == []
    folded = state_at(folder.changelog.root)
    assert folded.checkpoint.finished
    assert folded.states["by key", "count"] == dict.fromkeys(range(KEYS), NUMBERS // KEYS)


def newest(base: str) -> int:
    """Id of the newest checkpoint; 0 before there is one. Not asked for all too often: each time costs ten requests."""
    time.sleep(0.5)
    try:
        found = Lineage(find_job_folder(base, "count").open_changelog()).newest_checkpoint()
    except ChangelogEngineError:
        return 0
    return 0 if found is None else found.id
