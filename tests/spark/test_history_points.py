"""State history at one point: time to live, timers, truncated and merged logs, many rows."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script
from support.small_queries import INTERPRETED, ONE_PARTITION, told
from support.visits import UID, VISITS, Visits, view_of, visited

from api.common import Time, Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine import history
from changelog_engine.errors import ChangelogEngineError, CorruptChangelogError, RestoreError
from changelog_engine.history.catalog import Catalog
from changelog_engine.ledger.job_folder import find_job_folder
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sql(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session with one partition a shuffle and no compiled code: the data is small."""
    with told(spark, INTERPRETED | ONE_PARTITION):
        yield spark


def test_case_46_spark_reads_no_damaged_file(tmp_path: Path, sql: SparkSession) -> None:
    """A flipped bit in a key or a value passes Parquet's readers."""
    visited(tmp_path)
    folder = find_job_folder(str(tmp_path), "visits")
    opened = history.open(sql, folder.storage.root)
    expected = dict(opened.state(UID, "the count").select("key", "value").collect())
    for part in sorted(Path(folder.changelog.root).glob("part-*")):
        data = part.read_bytes()
        part.write_bytes(data.replace(b"ann", b"anm") if b"ann" in data else bytes([data[0] ^ 1]) + data[1:])
        for asked in (lambda: history.open(sql, folder.storage.root), lambda: opened.state(UID, "the count")):
            with pytest.raises(CorruptChangelogError, match=f"{part.name} was changed"):
                asked()
        part.write_bytes(data)
    assert dict(opened.state(UID, "the count").select("key", "value").collect()) == expected
    opened.close()


def test_truncated_log_begins_at_its_snapshot(tmp_path: Path, sql: SparkSession) -> None:
    job = visited(tmp_path)
    folder = find_job_folder(str(tmp_path), "visits")
    before = history.open(sql, folder.storage.root)
    materialize(folder, 2)
    log = folder.open_changelog()
    old = [
        path
        for path in log.files()["path"].to_pylist()
        if path.startswith(("part-1-", "part-2-", "checkpoint-1-"))
    ]
    log.commit([], old)
    for path in old:
        (tmp_path / "visits" / "changelog" / path).unlink()
    before.refresh()
    assert dict(before.state(UID, "the count").select("key", "value").collect()) == {"ann": 3, "bob": 1}
    changes = sql.table(view_of(before, "the count", changes=True)).orderBy("key", "sequence").collect()
    assert [(r.key, r.operation, r.value_before, r.value_after) for r in changes] == [
        ("ann", "snapshot", None, 2),
        ("ann", "put", 2, 3),
        ("bob", "put", None, 1),
    ]
    assert [(r.checkpoint_id, r.on_lineage) for r in sql.table(f"{before.database}.snapshots").collect()] == [
        (2, True)
    ]
    with pytest.raises(ChangelogEngineError, match="checkpoint 1"):
        before.state(UID, "the count", 1)
    assert job.commits[-1].id == before.checkpoint_id
    before.close()


def test_views_of_files_that_are_gone_fail(tmp_path: Path, sql: SparkSession) -> None:
    """Never a wrong answer: neither from a view that was made before, nor after a refresh that could not be."""
    visited(tmp_path)
    folder = find_job_folder(str(tmp_path), "visits")
    opened = history.open(sql, folder.storage.root)
    log = folder.open_changelog()
    old = [path for path in log.files()["path"].to_pylist() if path.startswith("part-1-")]
    log.commit([], old)
    for path in old:
        (tmp_path / "visits" / "changelog" / path).unlink()
    view = view_of(opened, "the count")
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        sql.table(view).collect()
    with pytest.raises(CorruptChangelogError, match=r"no longer has part 1 of attempt 1"):
        opened.refresh()
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        sql.table(view).collect()
    # Who lists the folder anew finds the others only: another session on the same catalog, and a table that was refreshed.
    for session in (sql.newSession(), sql):
        session.catalog.refreshTable(f"{opened.database}.__changelog")
        for query in (
            f"SELECT * FROM {view}",
            f"SELECT 1 FROM {opened.database}.mutations WHERE key = 'nobody'",
        ):
            with pytest.raises(Exception, match="files that this view names have been deleted"):
                session.sql(query).collect()
    opened.close()


def test_case_20_views_that_are_made_while_the_log_is_truncated(
    tmp_path: Path, sql: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark lists the folders after the files were chosen, and leaves out what is gone by then: without a word."""
    visited(tmp_path)
    folder, begin, left = find_job_folder(str(tmp_path), "visits"), Catalog.begin, [1]

    def begun(catalog: Catalog, tables: Any) -> None:
        if left.pop() if left else 0:
            materialize(folder)
            truncate(folder, Retention(history_ms=0, retained=1, grace_ms=0))
        begin(catalog, tables)

    right = state_at(f"{tmp_path}/visits/changelog").states[UID, "the count"]
    monkeypatch.setattr(Catalog, "begin", begun)
    opened = history.open(sql, folder.storage.root)
    found = sql.table(view_of(opened, "the count")).collect()
    assert {row.key: row.value for row in found} == dict(right)
    assert not left
    opened.close()


def test_many_rows_are_sieved(tmp_path: Path, sql: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sieve for large logs changes no answer: on a branch, with and without a snapshot, with too many entries for it."""
    job = visited(tmp_path)
    more = [*VISITS[:4], ("ann", "bye"), ("eve", "home"), ("eve", "home"), ("eve", "home"), ("bob", "x")]
    job.run_driver(keyed_job(more, Visits(), key_type=Types.STRING(), uid=UID, name="visits"), restore="2")
    folder = find_job_folder(str(tmp_path), "visits")
    opened = history.open(sql, folder.storage.root)
    states = ["the count", next(views.state for views in opened.states if views.kind == "map")]

    def shown() -> list[list[Any]]:
        return [sorted(map(repr, opened.state(UID, state).collect())) for state in states]

    expected = shown()
    assert all(expected)
    monkeypatch.setattr("changelog_engine.history.views._MANY_ROWS", 0)
    assert "newest_place" in opened.state(UID, states[0])._jdf.queryExecution().optimizedPlan().toString()
    assert shown() == expected
    with monkeypatch.context() as few:
        few.setattr("changelog_engine.history.rows_sql.MOST_ENTRIES", 1)
        assert shown() == expected
    materialize(folder, job.commits[-2].id)
    opened.refresh()
    assert "newest_place" in opened.state(UID, states[0])._jdf.queryExecution().optimizedPlan().toString()
    assert shown() == expected
    opened.close()


class Reminders(KeyedProcessFunction):
    """Registers an event-time timer for each element, deletes one, and one of processing time."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        if value[2] == "delete":
            timers.delete_event_time_timer(value[1])
        elif value[2] == "late":
            timers.register_processing_time_timer(2**45)
        else:
            timers.register_event_time_timer(value[1])
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, "fired"


REMINDERS = [
    ("a", 5000, ""), ("b", 6000, ""), ("a", 7000, "late"), ("b", 6000, "delete"), ("a", 8000, ""),
    ("a", 7500, ""),
]  # fmt: skip


def test_timers(tmp_path: Path, sql: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    job = TestJob(tmp_path, Script((2,)))
    timestamp = lambda element: element[1] - 5000  # noqa: E731
    job.run(keyed_job(REMINDERS, Reminders(), key_type=Types.STRING(), timestamp=timestamp, uid="remind"))
    opened = history.open(sql, f"{tmp_path}/job", at=2)
    (views,) = opened.timers
    assert (views.view, views.history_view) == ("remind_timers", "remind_timers_history")
    at = datetime.datetime.fromtimestamp
    columns = ["key", "key_json", "domain", "time", "time_ms"]
    found = sql.table(f"{opened.database}.{views.view}").select(columns).orderBy("time_ms").collect()
    assert [tuple(row) for row in found] == [
        ("a", '"a"', "event time", at(5), 5000),
        (
            "a",
            '"a"',
            "processing time",
            at(2**45 // 1000) + datetime.timedelta(milliseconds=2**45 % 1000),
            2**45,
        ),
    ]
    changes = opened.timer_changes("remind", job.commits[-1].id, key="b").orderBy("sequence").collect()
    assert [(r.time_ms, r.operation, r.valid_from_checkpoint, r.valid_to_checkpoint) for r in changes] == [
        (6000, "register_timer", 1, 2), (6000, "delete_timer", 2, None)
    ]  # fmt: skip
    assert [row.time_ms for row in opened.timers_of("remind", 1, key="b").collect()] == [6000]
    assert opened.timers_of("remind", job.commits[-1].id).where("domain = 'event time'").count() == 0
    monkeypatch.setattr("changelog_engine.history.views._MANY_ROWS", 0)
    assert sorted(row.time_ms for row in opened.timers_of("remind").collect()) == [5000, 2**45]
    rows = opened.key("b").collect()
    assert [(r.kind, r.state, r.value_before_json, r.value_after_json) for r in rows] == [
        ("timer", "__event_time_timers", None, "6000"),
        ("timer", "__event_time_timers", "6000", None),
    ]
    opened.refresh()
    newest = [row for row in opened.key("a").collect() if row.valid_from_checkpoint == opened.checkpoint_id]
    assert [row.value_after_json for row in newest if row.operation == "register_timer"] == [
        "8000",
        "7500",
    ], "as they were made, not by event time"
    listed = sql.table(f"{opened.database}.states").collect()
    assert [(row.operator, row.state, row.view) for row in listed] == [("remind", None, "remind_timers")]
    with pytest.raises(RestoreError, match="no operator with state 'x'; there are remind"):
        opened.timers_of("x")
    opened.close()


NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000
CLOCK_MS = [NOW_MS - 2 * HOUR_MS]


class Expiring(KeyedProcessFunction):
    """States with a time to live of an hour; an element's second field is so many hours ago."""

    def open(self, runtime_context: Any) -> None:
        config = StateTtlConfig.new_builder(Time.hours(1)).build()
        value = ValueStateDescriptor("value", Types.STRING())
        elements = ListStateDescriptor("list", Types.LONG())
        entries = MapStateDescriptor("map", Types.STRING(), Types.LONG())
        for descriptor in (value, elements, entries):
            descriptor.enable_time_to_live(config)
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(elements)
        self.map = runtime_context.get_map_state(entries)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        CLOCK_MS[0] = NOW_MS - value[1] * HOUR_MS
        self.value.update(value[2])
        self.list.add(len(value[2]))
        self.map.put(value[2], value[1])
        yield value


def test_time_to_live_is_a_column_of_its_own(tmp_path: Path, sql: SparkSession) -> None:
    """What had expired when the checkpoint was taken is not shown, though nothing has removed it yet."""
    job = TestJob(tmp_path, Script((1,)), clock=lambda: CLOCK_MS[0])
    elements = [("a", 2, "[old]"), ("b", 2, "gone"), ("a", 0, 'x,"]')]
    job.run(keyed_job(elements, Expiring(), key_type=Types.STRING()))
    opened = history.open(sql, f"{tmp_path}/job")
    accessed = datetime.datetime.fromtimestamp(NOW_MS / 1000)
    (row,) = opened.state("process", "value").collect()
    assert (row.key, row.value, row.value_json, row.accessed) == ("a", 'x,"]', '"x,\\"]"', accessed)
    (row,) = opened.state("process", "list").collect()
    assert (row.value, row.value_json, row.accessed) == ([4], "[4]", [accessed])
    (row,) = sql.table(f"{opened.database}.process_map").collect()
    assert (row.map_key, row.value, row.value_json, row.accessed) == ('x,"]', 0, "0", accessed)
    for views in opened.states:
        assert opened.state("process", views.state, 2).count() == 2
    changes = opened.changes("process", "value", 2).orderBy("sequence").collect()
    before = accessed - datetime.timedelta(hours=2)
    assert [(r.key, r.value_before, r.value_after, r.accessed) for r in changes] == [
        ("a", None, "[old]", before), ("b", None, "gone", before)
    ]  # fmt: skip
    opened.close()
