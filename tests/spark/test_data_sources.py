"""Spark's formats over a job's log: a state as its view has it, and mutations exactly once, through restarts and rewinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.reminders import reminded
from support.small_queries import INTERPRETED, ONE_PARTITION, told
from support.visits import UID, VISITS, visited
from unit.test_commit_helpers import Driver

from changelog_engine import history
from changelog_engine.inspection.sql import query
from changelog_engine.ledger.job_folder import find_job_folder
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

pytestmark = pytest.mark.slow
_PUSHES = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def sql(spark: SparkSession) -> Iterator[SparkSession]:
    with told(spark, {**INTERPRETED, **ONE_PARTITION, _PUSHES: "true"}):
        history.register(spark)
        yield spark


def rows(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def state(sql: SparkSession, path: str, name: str, **more: Any) -> DataFrame:
    return sql.read.format("changelog_state").options(path=path, operator=UID, state=name, **more).load()


def same_without_spark(path: str, view: str, expected: DataFrame) -> None:
    """DuckDB's view has the columns of Spark's, and its rows."""
    found = query(path, f"SELECT * FROM {view}")
    assert list(found.columns) == expected.columns
    plain = {"STRING", "BIGINT", "INT", "BOOLEAN"}
    names = [field.name for field in expected.schema if field.dataType.simpleString().upper() in plain]
    places = [found.columns.index(name) for name in names]
    mine = sorted(str([row[place] for place in places]) for row in found.rows)
    assert mine == sorted(str(list(row)) for row in expected.select(names).collect())


def test_a_state_is_what_its_view_shows(sql: SparkSession, tmp_path: Path) -> None:
    job = visited(tmp_path, "visits", VISITS * 3)
    path = f"{tmp_path}/visits"
    opened = history.open(sql, path)
    materialize(find_job_folder(str(tmp_path), "visits"), job.commits[2].id)
    for views in opened.states:
        frame, view = state(sql, path, views.state), sql.table(f"{opened.database}.{views.view}")
        assert frame.schema.simpleString() == view.schema.simpleString()
        assert rows(frame) == rows(view)
        changes = sql.table(f"{opened.database}.{views.history_view}")
        same_without_spark(path, views.history_view, changes)
    same_without_spark(path, "mutations", sql.table(f"{opened.database}.mutations"))
    earlier = state(sql, path, "the count", at=str(job.commits[0].id))
    assert rows(earlier) == rows(opened.state(UID, "the count", job.commits[0].id))
    sql.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW pages USING changelog_state "
        f"OPTIONS (path '{path}', operator 'visits \"of\" \\\\ all', state 'pages')"
    )
    found = sql.sql("SELECT key, size(value) FROM pages WHERE key IN ('ann', 'nobody')")
    assert [tuple(row) for row in found.collect()] == [("ann", 9)]
    assert sql.table("pages").where("key_json = '\"ann\"'").rdd.getNumPartitions() == 1
    opened.close()
    with pytest.raises(PySparkException, match=r"did you mean .*the count"):
        state(sql, path, "the cuont")
    with pytest.raises(PySparkException, match=r"no option 'stat'; did you mean 'state'"):
        sql.read.format("changelog_state").options(path=path, operator=UID, stat="pages").load()


def test_timers_and_pushed_filters(sql: SparkSession, tmp_path: Path) -> None:
    job = reminded(tmp_path)
    path = f"{tmp_path}/job"
    opened = history.open(sql, path, "-2")
    view = sql.table(f"{opened.database}.remind_timers")
    timers = {"path": path, "operator": "remind", "state": "timers"}
    frame = sql.read.format("changelog_state").options(**timers, at="-2").load()
    assert frame.schema.simpleString() == view.schema.simpleString()
    assert rows(frame) == rows(view)
    assert frame.count() == 8
    assert frame.where("key = 'ann'").count() == 4
    opened.close()
    table = sql.read.format("changelog_mutations").options(path=path, operator="remind", state="count")
    counts = table.option("valueBefore", "true").load()
    first, last = job.commits[0], job.commits[-1]
    found = counts.where(f"checkpoint_time >= timestamp_millis({first.time_ms}) AND checkpoint_id IN (2, 3)")
    assert sorted(
        tuple(row) for row in found.select("checkpoint_id", "key", "value_before", "value").collect()
    ) == [(number, key, number - 1, number) for number in (2, 3) for key in ("ann", "bob")]
    texts = sql.read.format("changelog_mutations").options(path=path).load()
    same = sum(each.time_ms == first.time_ms for each in job.commits)
    for condition, files in (
        (f"checkpoint_id IN (1, {last.id}, 9999)", 2),
        ("checkpoint_id > 1 AND checkpoint_id <= 3", 2),
        (f"checkpoint_time = timestamp_millis({first.time_ms})", same),
        ("checkpoint_id > 9999", 1),  # of nothing
    ):
        assert texts.where(condition).rdd.getNumPartitions() == files, condition
    with pytest.raises(PySparkException, match="there is no checkpoint 9999"):
        table.option("endingCheckpoint", "9999").load().count()


def test_a_stream_of_mutations_goes_on_exactly_once(sql: SparkSession, tmp_path: Path) -> None:
    driver = Driver.start(tmp_path / "base")
    path = driver.folder.storage.root
    for number in range(1, 6):
        driver.checkpoint({"k": number, "kk": -number})

    def run(target: str, **options: str) -> list[tuple[Any, ...]]:
        """What the sink has after one run to the end of what there is."""
        stream = sql.readStream.format("changelog_mutations").options(path=path, **options).load()
        query = (
            stream.selectExpr("checkpoint_id", "unix_millis(checkpoint_time)", "attempt", "key", "value")
            .writeStream.format("parquet")
            .option("checkpointLocation", f"{tmp_path}/{target}-offsets")
            .trigger(availableNow=True)
            .start(f"{tmp_path}/{target}")
        )
        try:
            query.awaitTermination(120)
            assert query.exception() is None
            assert len(query.recentProgress) <= 6
        finally:
            query.stop()
        return sorted(tuple(row) for row in sql.read.parquet(f"{tmp_path}/{target}").collect())

    def given(*written: tuple[int, int, int]) -> list[tuple[Any, ...]]:
        """Of (checkpoint, attempt, value)."""
        return sorted(
            (number, number * 1000, attempt, key, str(sign * value))
            for number, attempt, value in written
            for key, sign in (("k", 1), ("kk", -1))
        )

    first = [(number, 1, number) for number in range(1, 6)]
    assert run("sink", maxCheckpointsPerTrigger="2") == given(*first)
    driver = Driver.start(tmp_path / "base", "5")  # the job is restarted, then rewound
    driver.checkpoint({"k": 60, "kk": -60})
    driver.checkpoint({"k": 70, "kk": -70})
    second = [*first, (6, 2, 60), (7, 2, 70)]
    assert run("sink") == given(*second)
    driver = Driver.start(tmp_path / "base", "6")
    driver.checkpoint({"k": 80, "kk": -80})
    with pytest.raises(
        PySparkException, match=r"rewound to checkpoint 6, so checkpoints 7 to 7 .*startingCheckpoint = 8"
    ):
        run("sink")
    assert run("sink", onRewind="continue") == given(*second, (8, 3, 80))
    table = sql.read.format("changelog_mutations").options(path=path)
    assert table.load().where("checkpoint_id >= 7").select("value").distinct().count() == 2
    assert {row.checkpoint_id for row in table.option("startingCheckpoint", "6").load().collect()} == {6, 8}
    materialize(driver.folder, 6)
    truncate(driver.folder, Retention(0, 1, 0), lambda: 10_000.0)
    with pytest.raises(PySparkException, match=r"mutations of checkpoints 1 to 6.*startingCheckpoint = 8"):
        run("late")
    assert run("later", startingCheckpoint="oldest") == given((8, 3, 80))
    assert run("newest", startingCheckpoint="newest") == []
    driver.checkpoint({"k": 90, "kk": -90})  # comes between the first run of the query and its second
    assert run("newest", startingCheckpoint="newest") == given((9, 3, 90))
