"""Reliability case 14 with real processes: a worker that is stuck lets the checkpoint time out, and the job goes on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from session_jobs import AppendTo, Count, environment, lines_of

from api.common import Types, WatermarkStrategy
from api.datastream.connectors.number_seq import NumberSequenceSource
from api.datastream.functions import MapFunction
from materializer.fold import state_at

pytestmark = pytest.mark.slow

NUMBERS, KEYS, STUCK_AT = 400, 4, 250


class StuckOnce(MapFunction):
    """Never comes back from one element, the first time."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def map(self, value: Any) -> Any:
        if value == STUCK_AT and not Path(self.mark).exists():
            Path(self.mark).touch()
            threading.Event().wait()
        return value


def test_case_14_a_stuck_worker_does_not_hang_the_job(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The epoch is cancelled at its timeout, the next attempt goes on from a checkpoint, each element counts once."""
    env = environment(
        tmp_path / "log",
        parallelism=1,
        execution__checkpointing__timeout="10s",
        execution__checkpointing__interval="10ms",
        python__fn_execution__bundle__size=50,
    )
    source = NumberSequenceSource(0, NUMBERS - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    keyed = numbers.map(StuckOnce(tmp_path / "mark"), Types.LONG()).key_by(lambda v: v % KEYS, Types.LONG())
    keyed.process(Count()).uid("counts").add_sink(AppendTo(tmp_path / "out"))
    env.execute("stuck")

    assert (tmp_path / "mark").exists()
    told = next(said for said in caplog.messages if "the epoch took longer than 10 s" in said)
    assert (
        "the epoch took longer than 10 s: 'stage 0: numbers, Map' runs in 1 of 1 subtask. Look whether"
        in told
    )
    folded = state_at(str(tmp_path / "log" / "stuck" / "changelog"))
    assert folded.checkpoint.finished
    assert folded.checkpoint.attempt >= 2  # more if a slow machine made other epochs time out
    assert folded.states["counts", "count"] == dict.fromkeys(range(KEYS), NUMBERS // KEYS)
    assert {tuple(line) for line in lines_of(tmp_path / "out")} == {
        (key, count) for key in range(KEYS) for count in range(1, NUMBERS // KEYS + 1)
    }
