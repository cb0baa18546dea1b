"""Savepoints out of Spark's DataFrames: its tasks read, check and write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import changelog_engine
from api.common import Types
from api.datastream.state import ListStateDescriptor, MapStateDescriptor
from changelog_engine.errors import ConfigurationError, TypeMismatchError
from materializer import state_at

pytestmark = pytest.mark.slow


def test_dataframes_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The same state, types and refusals; the tasks write the parts."""
    numbers = spark.range(1000).selectExpr("cast(id as string) key", "id value")
    lists = spark.range(30).selectExpr("cast(id % 3 as string) key", "id value", "-id position")
    maps = spark.range(30).selectExpr(
        "cast(id % 3 as string) key", "id map_key", "if(id = 7, null, id) value"
    )
    timers = spark.range(6).selectExpr("cast(id % 2 as string) key", "timestamp_millis(100 - id) timestamp")
    types = {
        "op": {
            "numbers": Types.LONG(),
            "lists": ListStateDescriptor("lists", Types.LONG()),
            "maps": MapStateDescriptor("maps", Types.LONG(), Types.INT()),
        }
    }

    def bootstrap(**changed: Any) -> Any:
        tables = {"numbers": numbers, "lists": lists, "maps": maps, **changed}
        return changelog_engine.bootstrap(
            tmp_path / f"sp{len(list(tmp_path.iterdir()))}",
            {"op": tables},
            key_types={"op": Types.STRING()},
            types=types,
            timers={"op": {"event time": timers}},
        )

    savepoint = bootstrap()
    savepoint.verify()
    folded = state_at(f"{savepoint.path}/changelog")
    assert folded.states["op", "numbers"] == {str(n): n for n in range(1000)}
    assert folded.states["op", "lists"] == {
        str(k): [n for n in range(29, -1, -1) if n % 3 == k] for k in range(3)
    }
    assert folded.states["op", "maps"] == {
        str(k): {n: None if n == 7 else n for n in range(30) if n % 3 == k} for k in range(3)
    }
    assert folded.timers["op", "event time"] == [(n, str(n % 2)) for n in range(95, 101)]
    for changed, message in (
        ({"numbers": numbers.union(numbers)}, "two rows are for the key"),
        (
            {"numbers": numbers.selectExpr("key", "if(value = 7, null, value) value")},
            "the key '7', .*is null",
        ),
        ({"numbers": numbers.withColumnRenamed("value", "v")}, "has no column 'value'"),
        ({"lists": numbers}, "whose rows have no order"),
    ):
        with pytest.raises((TypeMismatchError, ConfigurationError), match=message):
            bootstrap(**changed)
