"""The log of a finished job is a table that Spark SQL reads as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driver_process import Driver
from session_jobs import Count, Slowly, environment

from api.common import Types, WatermarkStrategy
from api.datastream.connectors.number_seq import NumberSequenceSource

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark")]


def test_spark_sql_counts_what_the_checkpoints_say(tmp_path: Path) -> None:
    env = environment(tmp_path / "log", python__fn_execution__bundle__size=500)
    source = NumberSequenceSource(0, 2_999)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers = numbers.map(Slowly(0.001), Types.LONG())  # several checkpoints, however fast the machine
    numbers.key_by(lambda v: v % 10, Types.LONG()).process(Count()).uid("counts").filter(
        lambda v: False
    ).print()
    env.execute("readable")

    with Driver(
        "count_rows.py", tmp_path / "log" / "readable" / "changelog", work=tmp_path / "sql"
    ) as reader:
        assert reader.end(180) == 0, reader.output
    result = json.loads(reader.output.rpartition("RESULT ")[2])
    mutations = {name: rows for name, rows in result["rows"].items() if name not in ("checkpoint", "attempt")}
    assert mutations == {"put": 3_000}
    assert sum(result["checkpoints"]) == 3_000
    assert len(result["checkpoints"]) == result["rows"]["checkpoint"] > 1
    assert result["newest"] == {str(key): "300" for key in range(10)}
