"""Savepoints through the public API, on Spark: taken beside the job, stopped with, restored by another job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from driver_process import wait_for
from gated_source import GatedSource
from session_jobs import Count, environment

from api.common import JobStatus, Types, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from changelog_engine.errors import ConfigurationError, JobExecutionError, StorageError
from materializer.fold import state_at

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark")]
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def job(tmp_path: Path, parallelism: int = 2, **options: Any) -> StreamExecutionEnvironment:
    env = environment(tmp_path / "log", parallelism, **options)
    source = env.from_source(GatedSource(tmp_path / "gate"), NO_WATERMARKS, "gate").uid("gate")
    source.key_by(lambda v: v % 5, Types.LONG()).process(Count()).uid("counts").print()
    return env


def counts(path: str) -> dict[int, int]:
    return dict(state_at(f"{path}/changelog").states["counts", "count"])


def test_savepoints_of_a_job(tmp_path: Path) -> None:
    env = job(tmp_path, execution__checkpointing__interval="1h")
    client = env.execute_async("first")
    assert isinstance(client.trigger_savepoint().exception(), ConfigurationError)
    directory = str(tmp_path / "savepoints")

    def half_is_counted() -> bool:
        return sum(counts(client.trigger_savepoint(directory).result()).values()) == 100

    wait_for(half_is_counted)
    assert client.get_job_status().result() == JobStatus.RUNNING
    (tmp_path / "file").touch()
    assert isinstance(client.stop_with_savepoint(False, str(tmp_path / "file")).exception(), StorageError)
    assert client.get_job_status().result() == JobStatus.RUNNING

    path = client.stop_with_savepoint(False, directory).result()
    assert Path(path).parent == Path(directory)
    assert Path(path).name.startswith(f"savepoint-{str(client.get_job_id())[:6]}-")
    assert client.get_job_status().result() == JobStatus.FINISHED
    assert client.get_job_execution_result().result().get_net_runtime() > 0
    assert counts(path) == dict.fromkeys(range(5), 20)
    assert isinstance(client.trigger_savepoint(directory).exception(), JobExecutionError)

    (tmp_path / "gate").touch()
    options = {"execution__savepoint__path": path, "execution__state-recovery__claim-mode": "CLAIM"}
    again = job(tmp_path, parallelism=3, changelog=False, **options)
    again.execute("second")
    assert counts(str(tmp_path / "log" / "second")) == dict.fromkeys(range(5), 40)
    assert not Path(path).exists()
