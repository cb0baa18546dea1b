"""Async functions on Spark: a worker is killed while requests are under way, and the result is exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.functions import Count, by_key
from support.http_service import Ask, HttpService

from api.common import Configuration, Time, WatermarkStrategy
from api.datastream import AsyncDataStream, StreamExecutionEnvironment
from changelog_engine.testing import Checkpoint, Crash, ScriptedSource

pytestmark = pytest.mark.slow


def test_a_worker_killed_between_requests(spark: SparkSession, tmp_path: Path) -> None:
    paths = [f"/ok/{number}" for number in range(60)]
    script = [*paths[:20], Checkpoint(), *paths[20:40], Crash(kill=True), *paths[40:]]
    configuration = Configuration()
    configuration.set_string("state.changelog.dstl.dfs.base-path", str(tmp_path / "log"))
    configuration.set_string("restart-strategy", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.delay", "0 s")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.enable_changelog_state_backend(True).enable_checkpointing(50)
    source = ScriptedSource(script, memory=tmp_path)
    with HttpService(delay_ms=20) as service:
        asked = env.from_source(source, WatermarkStrategy.no_watermarks(), "paths")
        answers = AsyncDataStream.unordered_wait(asked, Ask(service.port), Time.minutes(5), 10)
        counts = answers.map(lambda pair: (int(pair[1]) % 2, pair[1])).key_by(lambda pair: pair[0])
        with counts.process(Count()).execute_and_collect("asked") as found:
            result = by_key(list(found))
        assert service.most_open <= 10
        assert set(service.asked) == set(paths)
        again = {path for path, times in service.asked.items() if times > 1}
        assert again <= set(paths[20:])
        assert service.open == 0
    assert result == {0: list(range(1, 31)), 1: list(range(1, 31))}
