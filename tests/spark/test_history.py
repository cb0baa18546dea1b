"""State history in Spark SQL: equal to the Python fold at every checkpoint, on every branch, from a bare session."""

from __future__ import annotations

import datetime
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from support.graphs import keyed_job
from support.jobs import TestJob
from support.operations import Operations, operations
from support.packed import packing
from support.profiles import PROFILES
from support.script import Fault
from support.scripts import scripts
from support.small_queries import INTERPRETED, ONE_PARTITION, told
from support.sql_cases import plain
from support.visits import UID, VISITS, Visits, view_of, visited

from api.common import Types
from changelog_engine import history
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.errors import RestoreError
from changelog_engine.history import History
from changelog_engine.ledger.job_folder import find_job_folder
from materializer.fold import FoldedState, state_at
from materializer.materialize import materialize

pytestmark = pytest.mark.slow
STATES = ("value", "other", "list", "map", "reducing", "aggregating")


@pytest.fixture(scope="module")
def sql(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session with one partition a shuffle: the data is small."""
    with told(spark, ONE_PARTITION):
        yield spark


def folded(state: FoldedState, name: str, profile: str) -> dict[Any, Any]:
    """A state of the Python fold: (JSON of the key, JSON of the map key) to the value, or to its JSON if undeclared."""
    types = PROFILES[profile]
    key_codec, map_codec = key_codec_for(types.key_type), key_codec_for(types.map_key_type)

    def shown(value: Any) -> Any:
        return json.loads(codec_for(None).encode(value).text) if profile == "undeclared" else value

    found = {}
    for key, value in state.states["process", name].items():
        key_json = key_codec.text(key_codec.identity(key))
        if name == "map":
            for map_key, item in value.items():
                found[key_json, map_codec.text(map_codec.identity(map_key))] = shown(item)
        else:
            found[key_json, None] = [shown(item) for item in value] if name == "list" else shown(value)
    return found


def entries(rows: list[Row], value: str, profile: str) -> dict[Any, Any]:
    """Rows of a view in the same form."""
    columns = rows[0].asDict() if rows else {}
    found = {}
    for row in rows:
        text = row[f"{value}_json"]
        shown = json.loads(text) if profile == "undeclared" else plain(row[value])
        name = row.key_json, row.map_key_json if "map_key_json" in columns else None
        assert name not in found
        found[name] = shown
    return found


@pytest.fixture
def interpreted(sql: SparkSession) -> Iterator[None]:
    """Many queries over few rows: compiling them would take most of the time. The tests of `shop` have it compiled."""
    with told(sql, INTERPRETED):
        yield


@st.composite
def busy(draw: st.DrawFn, profile: str) -> list[Any]:
    """A long stream over two keys, so that one job meets most orders of operations; queries cost more than rows."""
    types = PROFILES[profile]
    keys = draw(st.lists(types.keys, min_size=2, max_size=2))
    done = st.lists(operations(profile), min_size=4, max_size=6).map(tuple)
    return draw(
        st.lists(st.tuples(st.sampled_from(keys), st.integers(0, 60), done), min_size=50, max_size=60)
    )


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("profile", sorted(PROFILES))
@settings(max_examples=1, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_equals_the_python_fold(profile: str, data: st.DataObject, sql: SparkSession) -> None:
    """The state of any checkpoint on any branch, and what the history says was valid at each checkpoint of its lineage."""
    elements = data.draw(busy(profile), "elements")
    # Not the smallest there is, which hypothesis tries first: one key, one operation, for as many CPU seconds.
    assume(len({repr(key) for key, *_ in elements}) > 1)
    script = data.draw(scripts((Fault.WORKER, Fault.DRIVER, Fault.COMMIT_LIES), parallelism=2), "script")
    parallelisms = data.draw(
        st.lists(st.integers(1, 3), min_size=1, max_size=2), "parallelism of each driver"
    )
    rewind = data.draw(st.booleans(), "rewind")
    snapshot = data.draw(st.booleans(), "materialize")

    def graph(driver: int) -> Any:
        parallelism = parallelisms[driver % len(parallelisms)]
        timestamp = lambda element: element[1]  # noqa: E731
        key_type = PROFILES[profile].key_type
        return keyed_job(
            elements, Operations(profile), key_type=key_type, parallelism=parallelism, timestamp=timestamp
        )

    with tempfile.TemporaryDirectory() as base:
        job = TestJob(base, script)
        with packing():
            job.run(graph)
        if rewind:
            job.run(graph, restore=str(job.commits[0].id))
        if snapshot:
            materialize(find_job_folder(base, "job"), job.commits[len(job.commits) // 2].id)
        folds = {c.id: state_at(job.table(), c.id, allow_pickle=True) for c in job.commits}
        opened = history.open(sql, f"{base}/job")
        newest, other = job.commits[-1], data.draw(st.sampled_from(job.commits), "checkpoint")
        earlier = data.draw(st.sampled_from(STATES), "state")
        assert opened.checkpoint_id == newest.id
        for views in opened.states:
            name = views.state
            rows = sql.table(f"{opened.database}.{views.view}").collect()
            assert entries(rows, "value", profile) == folded(folds[newest.id], name, profile)
            changes = sql.table(f"{opened.database}.{views.history_view}").collect()
            check_before(changes, name)
            for segment in newest.lineage:
                for number in range(segment.first, segment.last + 1):
                    valid = [row for row in changes if _valid_at(row, number)]
                    assert entries(valid, "value_after", profile) == folded(folds[number], name, profile)
        rows = opened.state("process", earlier, other.id).collect()
        assert entries(rows, "value", profile) == folded(folds[other.id], earlier, profile)
        assert {views.state for views in opened.states} == set(STATES)
        opened.close()


def check_before(changes: list[Row], state: str) -> None:
    """Every mutation's value before is what the one before it left."""
    live: dict[str, dict[str | None, str | None]] = {}
    for row in sorted(changes, key=lambda row: (row.valid_from_checkpoint, row.sequence)):
        entries_of_key = live.setdefault(row.key_json, {})
        map_key = row.map_key_json if state == "map" else None
        assert row.value_before_json == entries_of_key.get(map_key)
        if row.operation == "clear":
            entries_of_key.clear()
        entries_of_key[map_key] = row.value_after_json


def _valid_at(row: Row, checkpoint: int) -> bool:
    begun = row.valid_from_checkpoint <= checkpoint
    return (
        begun
        and row.value_after_json is not None
        and (row.valid_to_checkpoint or checkpoint + 1) > checkpoint
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, sql: SparkSession) -> Iterator[tuple[TestJob, History]]:
    """A finished job of four checkpoints or so, opened."""
    base = tmp_path_factory.mktemp("shop")
    name = "it's a \U0001f600 `job`; ${y}"
    job = visited(base, name)
    opened = history.open(sql, find_job_folder(str(base), name).storage.root)
    yield job, opened
    opened.close()


def test_case_41_views_are_typed_and_need_no_quotes(shop: tuple[TestJob, History], sql: SparkSession) -> None:
    _, opened = shop
    assert opened.database.startswith("it_s_a")
    names = {row.tableName for row in sql.sql(f"SHOW TABLES IN {opened.database}").collect()}
    assert {"mutations", "checkpoints", "snapshots", "lineage", "states"} < names
    assert all(name.replace("_", "a").isalnum() and name.isascii() for name in names)
    count = sql.sql(f"SELECT key, value FROM {view_of(opened, 'the count')} ORDER BY key").collect()
    assert [tuple(row) for row in count] == [("ann", 3), ("bob", 1)]
    last = sql.sql(f"SELECT value.page, value.at FROM {view_of(opened, 'last`;--')} ORDER BY key").collect()
    assert [tuple(row) for row in last] == [("home", 3), ("home", 1)]
    pages = sql.sql(f"SELECT key, value, value_json FROM {view_of(opened, 'pages')} ORDER BY key").collect()
    assert [tuple(row) for row in pages] == [
        ("ann", ["home", "blog", "home"], '["home","blog","home"]'),
        ("bob", ["home"], '["home"]'),
    ]
    states = sql.table(f"{opened.database}.states").where("state IS NOT NULL").collect()
    assert {(row.operator, row.state) for row in states} == {(UID, views.state) for views in opened.states}


def test_case_42_pickled_values_show_as_type_and_size(
    shop: tuple[TestJob, History], sql: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is unpickled."""
    monkeypatch.setattr("pickle.loads", lambda data: pytest.fail("unpickled"))
    monkeypatch.setattr("changelog_engine.codec.values.load_payload", lambda data: pytest.fail("unpickled"))
    _, opened = shop
    opened.refresh()
    rows = sql.table(view_of(opened, "'${x}' \U0001f600/..")).orderBy("key", "map_key").collect()
    assert [tuple(row)[:8] for row in rows] == [
        ("ann", '"ann"', "blog", '"blog"', None, "[2]", "set", rows[0].pickled_bytes),
        ("ann", '"ann"', "home", '"home"', None, "[3]", "set", rows[1].pickled_bytes),
        ("bob", '"bob"', "home", '"home"', None, "[1]", "set", rows[2].pickled_bytes),
    ]
    assert all(row.pickled_bytes > 5 for row in rows)
    assert "payload" not in sql.table(f"{opened.database}.mutations").columns


def test_views_about_the_log(shop: tuple[TestJob, History], sql: SparkSession) -> None:
    job, opened = shop
    rows = sql.table(f"{opened.database}.checkpoints").orderBy("id").collect()
    assert [
        (r.id, r.attempt, r.parent, r.parts, r.rows, r.bytes, r.finished, r.on_lineage) for r in rows
    ] == [(c.id, 1, c.parent, c.parts, c.rows, c.bytes, c.finished, True) for c in job.commits]
    assert [r.time.timestamp() for r in rows] == [c.time_ms / 1000 for c in job.commits]
    assert [
        {
            uid: {split: [json.loads(p.position), p.finished] for split, p in s.items()}
            for uid, s in r.sources.items()
        }
        for r in rows
    ] == [
        {u: {s: list(p) for s, p in splits.items()} for u, splits in c.sources.items()} for c in job.commits
    ]
    mutations = sql.table(f"{opened.database}.mutations")
    assert mutations.count() == sum(c.rows for c in job.commits)
    assert mutations.where("NOT on_lineage").count() == 0
    lineage = sql.table(f"{opened.database}.lineage").collect()
    assert [(r.attempt, r.parent, r.first_checkpoint, r.lineage_last) for r in lineage] == [
        (1, None, 1, job.commits[-1].id)
    ]
    assert sql.table(f"{opened.database}.snapshots").count() == 0


def test_changes_have_values_before_and_after(shop: tuple[TestJob, History], sql: SparkSession) -> None:
    job, opened = shop
    columns = "operation, value_before, value_after, valid_from_checkpoint, valid_to_checkpoint"
    table = view_of(opened, "the count", changes=True)
    bob = sql.sql(
        f"SELECT {columns}, valid_from, valid_to FROM {table} WHERE key = 'bob' ORDER BY sequence"
    ).collect()
    assert [tuple(row)[:5] for row in bob] == [
        ("put", None, 1, 1, 2),
        ("put", 1, 2, 2, 2),
        ("clear", 2, None, 2, 3),
        ("put", None, 1, 3, None),
    ]
    times = [datetime.datetime.fromtimestamp(c.time_ms / 1000) for c in job.commits]
    assert [(row.valid_from, row.valid_to) for row in bob] == [
        (times[0], times[1]), (times[1], times[1]), (times[1], times[2]), (times[2], None)
    ]  # fmt: skip
    found = opened.changes(UID, "pages", key="bob").orderBy("sequence").collect()
    assert [(row.operation, row.value_before, row.value_after) for row in found] == [
        ("append", None, ["news"]),
        ("append", ["news"], ["news", "bye"]),
        ("clear", ["news", "bye"], None),
        ("append", None, ["home"]),
    ]


def test_the_difference_of_two_points(shop: tuple[TestJob, History]) -> None:
    job, opened = shop
    found = opened.difference(UID, "the count", 1, 2).orderBy("key").collect()
    assert [(r.key, r.change, r.value_before, r.value_after) for r in found] == [
        ("ann", "changed", 1, 2),
        ("bob", "removed", 1, None),
    ]
    found = opened.difference(UID, "'${x}' \U0001f600/..", 2).orderBy("key", "map_key").collect()
    assert [(r.key, r.map_key, r.change, r.value_after_json) for r in found] == [
        ("ann", "home", "changed", "[3]"),
        ("bob", "home", "added", "[1]"),
    ]
    assert opened.difference(UID, "pages", job.commits[-1].id).count() == 0


def test_points_in_time(shop: tuple[TestJob, History]) -> None:
    job, opened = shop
    second = datetime.datetime.fromtimestamp(job.commits[1].time_ms / 1000, datetime.UTC)
    for at in (2, second, second.isoformat()):
        assert [(r.key, r.value) for r in opened.state(UID, "the count", at).collect()] == [("ann", 2)]
    with pytest.raises(RestoreError, match="no checkpoint 99"):
        opened.state(UID, "the count", 99)
    with pytest.raises(RestoreError, match="no state 'x'; there are the count"):
        opened.state(UID, "x")
    with pytest.raises(RestoreError, match="not a point of a job"):
        opened.state(UID, "the count", "yesterday")
    with pytest.raises(RestoreError, match="no checkpoint at or before 1999"):
        opened.state(UID, "the count", "1999-01-01")


@pytest.mark.usefixtures("interpreted")
def test_one_key_opens_only_its_parts(tmp_path: Path, sql: SparkSession) -> None:
    """Of two subtasks' parts those of one, for the key's changes in all states and for one state."""
    job = visited(tmp_path, parallelism=2)
    opened = history.open(sql, f"{tmp_path}/visits")
    files = opened.files_of_key("ann")
    everything = {path.name for path in (tmp_path / "visits" / "changelog").glob("part-*")}
    assert len(everything) == sum(c.parts for c in job.commits)
    assert 0 < len(files) < len(everything)
    changes = opened.key("ann")
    assert {path.rpartition("/")[2] for path in changes.inputFiles()} == set(files)
    rows = changes.collect()
    assert {row.key_json for row in rows} == {'"ann"'}
    assert [
        (r.operator, r.state, r.map_key_json, r.value_after_json)
        for r in rows
        if r.valid_from_checkpoint == 1
    ] == [
        (UID, "the count", None, "1"),
        (UID, "pages", None, '["home"]'),
        (UID, "last`;--", None, '{"page":"home","at":1}'),
        (UID, "'${x}' \U0001f600/..", '"home"', "[1]"),
    ]
    one = opened.state(UID, "the count", key="ann")
    assert {path.rpartition("/")[2] for path in one.inputFiles()} <= set(files)
    assert [row.value for row in one.collect()] == [3]
    assert opened.key("nobody").count() == 0
    opened.close()


@pytest.mark.usefixtures("interpreted")
def test_branches_and_a_job_that_goes_on(tmp_path: Path, sql: SparkSession) -> None:
    job = visited(tmp_path)
    opened = history.open(sql, f"{tmp_path}/visits")
    first = opened.checkpoint_id
    count = view_of(opened, "the count")
    more = [*VISITS[:4], ("ann", "bye"), ("eve", "home"), ("eve", "home"), ("eve", "home")]
    graph = keyed_job(more, Visits(), key_type=Types.STRING(), uid=UID, name="visits")
    job.run_driver(graph, restore="2")
    assert dict(sql.sql(f"SELECT key, value FROM {count}").collect()) == {"ann": 3, "bob": 1}
    assert opened.refresh() == job.commits[-1].id > first
    assert dict(sql.sql(f"SELECT key, value FROM {count}").collect()) == {"eve": 3}
    assert dict(opened.state(UID, "the count", first).select("key", "value").collect()) == {
        "ann": 3,
        "bob": 1,
    }
    lineage = sql.table(f"{opened.database}.lineage").orderBy("attempt").collect()
    assert [(r.attempt, r.parent, r.lineage_first, r.lineage_last) for r in lineage] == [
        (1, None, 1, 2), (2, 2, first + 1, opened.checkpoint_id)
    ]  # fmt: skip
    mutations = sql.table(f"{opened.database}.mutations")
    assert {
        r[0] for r in mutations.where("NOT on_lineage").select("checkpoint_id").distinct().collect()
    } <= set(range(3, first + 1))
    difference = opened.difference(UID, "the count", first).orderBy("key").collect()
    assert [(r.key, r.change) for r in difference] == [
        ("ann", "removed"),
        ("bob", "removed"),
        ("eve", "added"),
    ]
    assert opened.refresh(at=first) == first
    assert dict(sql.sql(f"SELECT key, value FROM {count}").collect()) == {"ann": 3, "bob": 1}
    opened.close()


@pytest.mark.usefixtures("interpreted")
def test_databases_of_others_are_left_alone(tmp_path: Path, sql: SparkSession) -> None:
    folder = tmp_path / "warehouse"
    sql.sql(f"CREATE DATABASE visits LOCATION 'file:{folder}'")
    try:
        opened = []
        for place in ("a", "b"):
            visited(tmp_path / place, elements=VISITS[: 2 if place == "a" else 4])
            opened.append(history.open(sql, f"{tmp_path}/{place}/visits/changelog"))
        names = {each.database for each in opened}
        assert len(names) == 2
        assert "visits" not in names
        assert [sql.table(view_of(each, "the count")).count() for each in opened] == [2, 1]
        again = history.open(sql, f"{tmp_path}/a/visits")
        assert again.database == opened[0].database
        for each in opened:
            each.close()
        assert not names & {row[0] for row in sql.sql("SHOW DATABASES").collect()}
        assert list((tmp_path / "a" / "visits" / "changelog").glob("part-*"))
        assert sql.sql("SHOW TABLES IN visits").count() == 0
    finally:
        sql.sql("DROP DATABASE visits CASCADE")
