"""Snapshots and truncation beside a job on Spark whose driver is killed: reliability cases 17 and 22."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver_process import Driver
from final_state import assert_counted_once

from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.restore_plan import complete_snapshots
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import Storage

pytestmark = pytest.mark.slow

NUMBERS, KEYS = 60_000, 50


def test_a_driver_killed_beside_materializations(tmp_path: Path) -> None:
    """The log is truncated at once, so the second driver restores from a snapshot that the first one's schedule made."""
    folder = find_job_folder(str(tmp_path / "log"), "count")
    options = {
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        "state.changelog.periodic-materialize.interval": "200ms",
        "changelog.history.retention": "0ms",
        "changelog.truncation.grace": "2s",
        "execution.checkpointing.interval": "200ms",
        "parallelism.default": 2,
        "spark.master": "local[2]",
    }
    job = ("counting_job.py", "count", NUMBERS, KEYS)
    with Driver(*job, options=options, work=tmp_path / "first") as first:
        first.wait_for(lambda: len(complete_snapshots(folder)) > 0, what="snapshot")
        first.wait_for(lambda: not _listed(folder.changelog, "checkpoint-1-"), what="truncation")
        first.kill()
        first.wait_gone()
    assert complete_snapshots(folder)
    calm = {**options, "state.changelog.periodic-materialize.interval": "5s"}
    with Driver(*job, options=calm, work=tmp_path / "second") as second:
        second.hurry()
        assert second.end(240) == 0, second.output
    assert_counted_once(tmp_path / "log" / "count" / "changelog", NUMBERS, KEYS)


def _listed(table: Storage, prefix: str) -> bool:
    return any(path.startswith(prefix) for path in DeltaLog(table).files()["path"].to_pylist())
