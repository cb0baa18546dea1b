"""What a job on Spark shows of itself while it runs: workers that are up, metrics, names in Spark's interface."""

from __future__ import annotations

import os
import re
import socket
import urllib.request
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from session_jobs import Count, environment

from api.common import Types, WatermarkStrategy
from api.datastream.connectors.number_seq import NumberSequenceSource
from changelog_engine.driver.figures import JobMonitor

pytestmark = pytest.mark.slow


def test_a_job_on_spark_shows_itself(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    context = spark.sparkContext
    notes: list[int] = []
    scraped: list[str] = []
    names: set[str] = set()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    end_epoch = JobMonitor.end_epoch

    def look(monitor: JobMonitor, duration_ms: float) -> None:
        end_epoch(monitor, duration_ms)
        notes.append(sum(name.startswith("note-") for name in os.listdir(context._temp_dir)))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            scraped.append(answer.read().decode())
        tracker = context.statusTracker()
        for job in tracker.getJobIdsForGroup(context.getLocalProperty("spark.jobGroup.id")):
            info = tracker.getJobInfo(job)
            for stage in () if info is None else info.stageIds:
                found = tracker.getStageInfo(stage)
                names.update(() if found is None else (found.name,))

    monkeypatch.setattr(JobMonitor, "end_epoch", look)
    env = environment(
        tmp_path / "log",
        parallelism=1,
        python__fn_execution__bundle__size=50,
        metrics__reporter__prometheus__port=port,
        changelog__progress__show="always",
        changelog__progress__interval="1 ms",
    )
    source = NumberSequenceSource(0, 199)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.key_by(lambda v: v % 10, Types.LONG()).process(Count()).name("count").print()
    env.execute("shown")

    assert notes[0] == 2
    assert not [name for name in os.listdir(context._temp_dir) if name.startswith("note-")]
    read = 'changelog_engine_records_in_total{job="shown",source="numbers",uid="[^"]+"} '
    assert re.search(read + "50.0", scraped[0])
    assert any(re.search(read + "200.0", each) for each in scraped)
    assert any(name.startswith("stage 0: numbers") for name in names), names
    assert any(name.startswith("stage 1: count") for name in names), names
    assert context.getLocalProperty("callSite.short") is None
    assert "shown" not in capsys.readouterr().out
