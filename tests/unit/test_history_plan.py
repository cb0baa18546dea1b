"""What state history is made of before Spark comes in: names, literals, files, times, columns."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.functions import Count, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script

from api.common import Time, Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.changelog.log_files import crc32, merged_name
from changelog_engine.changelog.model import Segment
from changelog_engine.changelog.part_stats import delta_stats, footer_of, listed_values
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.errors import (
    CorruptChangelogError,
    ForeignPathError,
    RestoreError,
    StorageError,
    TypeMismatchError,
)
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState
from changelog_engine.graph.key_groups import key_group
from changelog_engine.history.history import _key_filter
from changelog_engine.history.names import HISTORY_SUFFIX, RESERVED, literal, sql_name, view_names
from changelog_engine.history.rows_sql import Times, rows_sql
from changelog_engine.history.state_columns import StateColumns
from changelog_engine.history.tables import Tables
from changelog_engine.ledger.described import described_state
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage
from materializer.fold import state_at
from materializer.materialize import materialize

NAMES = st.text(alphabet="aAbB_-. '`\\$\U0001f600", max_size=4)


@given(st.sets(st.tuples(NAMES, NAMES), max_size=6))
def test_no_two_views_share_a_name(states: set[tuple[str, str]]) -> None:
    named = view_names(states)
    assert set(named) == states
    views = [view.lower() for name in named.values() for view in (name, name + HISTORY_SUFFIX)]
    assert len({*views, *RESERVED}) == len(views) + len(RESERVED)
    for name in views:
        assert name.isascii()
        assert name.replace("_", "a").isalnum()
        assert not name[0].isdigit()


def test_names_of_views() -> None:
    plain = [("visits", "count"), ("2 ops", "s")]
    assert view_names(plain) == {plain[0]: "visits_count", plain[1]: "_2_ops_s"}
    assert view_names([("a", "timers"), ("a", "x")], ["a"])["a", "x"] == "a_x"
    assert len(set(view_names([("a", "timers")], ["a"]).values())) == 2
    long = view_names([("o" * 300, "s" * 300), ("o" * 300, "s" * 299)])
    assert all(len(name) == 80 for name in long.values())
    assert len(set(long.values())) == 2
    clash = view_names([("a", "b"), ("a", "b_history"), ("A", "c"), ("a", "C"), ("a", "d")])
    assert clash["a", "d"] == "a_d"
    assert all(len(name.rpartition("_")[2]) == 10 for state, name in clash.items() if state[1] != "d")
    assert sql_name("") == "_"


@pytest.mark.parametrize("text", ["it's", "a\\", "${x}", "\n", "\U0001f600", "a;--", "\x00"])
def test_literals_of_other_text_are_bytes(text: str) -> None:
    assert literal(text) == f"CAST(X'{text.encode().hex()}' AS STRING)"


@pytest.fixture
def job(tmp_path: Path) -> TestJob:
    """Checkpoints 1 to 4, two subtasks, one part each: eight parts."""
    job = TestJob(tmp_path, Script((8,)))
    job.run(counting(rounds(8, 32)))
    return job


def counting(elements: Any) -> Any:
    return keyed_job(
        elements, Count(), key_type=Types.LONG(), parallelism=2, max_parallelism=128, uid="count"
    )


def tables(job: TestJob) -> Tables:
    return Tables(f"{job.settings.base_path}/job")


def checkpoints_of(files: tuple[str, ...]) -> list[int]:
    return sorted({int(file.split("-")[1]) for file in files})


def test_a_key_needs_the_parts_of_its_subtask(job: TestJob) -> None:
    opened = tables(job)
    point = opened.checkpoint()
    assert [c.id for c in job.commits] == [1, 2, 3, 4, 5][: len(job.commits)]
    whole = opened.state(point, "count")
    assert len(whole.log) == sum(c.parts for c in job.commits)
    operator, _ = described_state(point, "count", "count")
    for key in range(8):
        groups, where = _key_filter(operator, key)
        group = key_group(key, 128)
        assert (list(groups), where) == ([group], f"key_group = {group} AND key = '{key}'")
        files = opened.history(point, "count", groups).log
        assert {file.split("-")[4] for file in files} == {str(group * 2 // 128)}
    assert opened.state(point, "another operator").log == ()


def test_keys_of_other_types_are_refused(job: TestJob) -> None:
    operator, _ = described_state(tables(job).checkpoint(), "count", "count")
    with pytest.raises(TypeMismatchError, match="LONG"):
        _key_filter(operator, "1")


def test_only_files_of_the_lineage(job: TestJob) -> None:
    last = job.commits[-1].id
    job.run_driver(counting(rounds(8, 32)), restore="2")
    opened = tables(job)
    newest = opened.checkpoint()
    assert checkpoints_of(opened.state(newest, "count").log) == [1, 2, last + 1, last + 2]
    assert checkpoints_of(opened.state(opened.checkpoint(3), "count").log) == [1, 2, 3]
    first, times = opened.times(newest)
    by_id = {c.id: c.time_ms for c in job.commits}
    line = [1, 2, last + 1, last + 2]
    assert first == 1
    assert [times[number - 1] for number in line] == [by_id[number] for number in line]
    assert times[2:last] == [None] * (last - 2)


def test_the_newest_snapshot_comes_first(job: TestJob) -> None:
    folder = find_job_folder(job.settings.base_path, "job")
    for checkpoint in (1, 3):
        materialize(folder, checkpoint)
    opened = tables(job)
    for at, snapshot, log in ((4, 3, [4]), (3, 3, []), (2, 1, [2])):
        found = opened.state(opened.checkpoint(at), "count")
        assert (found.snapshot, checkpoints_of(found.log)) == (snapshot, log)
        assert found.base
    whole = opened.history(opened.checkpoint(4), "count")
    assert (whole.snapshot, whole.base, checkpoints_of(whole.log)) == (None, (), [1, 2, 3, 4])
    _remove(folder, "part-1-")
    cut = tables(job)
    found = cut.history(cut.checkpoint(4), "count")
    assert (found.snapshot, checkpoints_of(found.log)) == (1, [2, 3, 4])


@pytest.mark.parametrize("prefix", ["part-1-", "part-3-", "part-", "part-2-1-1-0"])
def test_a_log_with_a_hole_is_refused(job: TestJob, prefix: str) -> None:
    _remove(find_job_folder(job.settings.base_path, "job"), prefix)
    opened = tables(job)
    for select in (opened.state, opened.history):
        with pytest.raises(
            CorruptChangelogError, match=r"attempt 1 has 0 of 8 parts|no longer has part [123] of attempt 1"
        ):
            select(opened.checkpoint(4), "count")
    if prefix == "part-3-":
        assert checkpoints_of(opened.state(opened.checkpoint(2), "count").log) == [1, 2]


def _remove(folder: Any, prefix: str) -> None:
    log = folder.open_changelog()
    gone = [path for path in log.files()["path"].to_pylist() if path.startswith(prefix)]
    assert gone
    log.commit([], gone)


def _merge(folder: Any, parts: list[str]) -> None:
    """One file of merged rows in the place of some parts."""
    root = Path(folder.changelog.root)
    table = pa.concat_tables([pq.read_table(root / part) for part in parts]).cast(SCHEMA)
    table = table.sort_by("key_group").replace_schema_metadata(listed_values(["count"], ["put"]))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data = sink.getvalue()
    numbers = [int(part.split("-")[1]) for part in parts]
    path = merged_name(min(numbers), max(numbers), crc32(data))
    folder.changelog.write_durable(path, data)
    folder.open_changelog().commit([AddFile(path, data.size, 0, delta_stats(footer_of(data)))], parts)


def test_holes_are_found_among_merged_files(job: TestJob) -> None:
    """A merged file may have a part of its range only: its rows are counted."""
    folder = find_job_folder(job.settings.base_path, "job")
    listed = folder.open_changelog().files()["path"].to_pylist()
    parts = sorted(path for path in listed if path.startswith(("part-1-", "part-3-")))
    assert len(parts) == 4
    _merge(folder, parts)
    opened = tables(job)
    found = opened.history(opened.checkpoint(4), "count")
    assert (found.snapshot, len(found.log), found.lineage) == (None, 5, (Segment(1, 1, 4),))
    materialize(folder, 2)
    _remove(folder, "part-2-")  # between the two that were merged
    opened = tables(job)
    found = opened.history(opened.checkpoint(4), "count")
    assert (found.snapshot, len(found.log), found.lineage) == (2, 3, (Segment(1, 1, 4),))
    assert opened.state(opened.checkpoint(1), "count").snapshot is None
    _remove(folder, "merged-")
    opened = tables(job)
    with pytest.raises(CorruptChangelogError, match="attempt 1 has"):
        opened.state(opened.checkpoint(4), "count")
    with pytest.raises(CorruptChangelogError, match="attempt 1 has"):
        opened.state(opened.checkpoint(1), "count")


def test_full_snapshots_without_a_log(tmp_path: Path) -> None:
    job = TestJob(tmp_path, Script((8,)), changelog=False)
    job.run(counting(rounds(8, 32)))
    opened = tables(job)
    newest = opened.checkpoint()
    for found in (opened.state(newest, "count"), opened.history(newest, "count")):
        assert (found.snapshot, found.log) == (newest.id, ())
        assert found.base


def test_points(job: TestJob, tmp_path: Path) -> None:
    opened = tables(job)
    assert opened.checkpoint().id == job.commits[-1].id
    assert opened.checkpoint(2).id == 2
    with pytest.raises(RestoreError, match="there is no checkpoint 77"):
        opened.checkpoint(77)
    with pytest.raises(RestoreError, match="operator 'count': there is no state 'x'; there are count"):
        described_state(opened.checkpoint(), "count", "x")
    with pytest.raises(StorageError, match="no changelog in"):
        Tables(str(tmp_path))
    DeltaLog.create(open_storage(str(tmp_path / "foreign")), SCHEMA, {})
    with pytest.raises(ForeignPathError, match="is a Delta table, but no changelog"):
        Tables(str(tmp_path / "foreign"))


def test_a_time_at_which_a_truncated_checkpoint_was_the_newest(job: TestJob) -> None:
    times = {c.id: datetime.fromtimestamp(c.time_ms / 1000, UTC) for c in job.commits}
    assert [tables(job).checkpoint(times[number]).id for number in (1, 2, 4)] == [1, 2, 4]
    for number in (2, 3):
        _remove(find_job_folder(job.settings.base_path, "job"), f"checkpoint-{number}-")
    opened = tables(job)
    assert opened.checkpoint(times[4]).id == 4
    for when in (times[1], times[2], times[3]):
        with pytest.raises(RestoreError, match=r"checkpoints 2 to 3 of .* were truncated.*: ask for 1 or 4"):
            opened.checkpoint(when)
    with pytest.raises(RestoreError, match="no checkpoint at or before"):
        opened.checkpoint(times[1] - timedelta(seconds=1))


def test_columns_of_states() -> None:
    undeclared = DescribedOperator("op", "op", "process", 1, 128, keyed=True)
    operator = undeclared._replace(key_type=Types.TUPLE([Types.STRING(), Types.LONG()]).spec())
    state = DescribedState("s", "map", Types.DOUBLE().spec(), Types.LONG().spec(), "time_window")
    columns = StateColumns.of(operator, state)
    assert columns.key.name == "STRUCT<`f0`: STRING, `f1`: BIGINT>"
    assert columns.map_key is not None
    assert columns.window is not None
    assert (columns.map_key.name, columns.value_name, columns.ttl_ms) == ("BIGINT", "DOUBLE", None)
    assert columns.window.name == "STRUCT<start: TIMESTAMP, end: TIMESTAMP>"
    assert columns.identity_names() == ["key_json", "window_json", "map_key_json"]
    timed = Types.TUPLE([Types.LONG(), Types.STRING()]).spec()
    lists = StateColumns.of(undeclared, DescribedState("l", "list", timed, ttl={"ttl_ms": 1}))
    assert (lists.key.name, lists.map_key, lists.window, lists.value_name) == (
        "STRING",
        None,
        None,
        "ARRAY<STRING>",
    )
    assert lists.ttl_ms == 1


def test_merged_files_are_cut_to_the_lineage() -> None:
    lineage = (Segment(1, 1, 2), Segment(3, 9, 11))
    found = rows_sql(None, "SELECT * FROM log", 1, lineage)
    assert found.endswith(
        "WHERE sequence IS NOT NULL AND checkpoint_id > 1 AND ((attempt = 1 AND checkpoint_id BETWEEN 1 AND 2) "
        "OR (attempt = 3 AND checkpoint_id BETWEEN 9 AND 11))"
    )
    assert "WHERE sequence IS NOT NULL" in rows_sql(None, "x", None, ())
    assert Times(5, [1000, None]).milliseconds("id").startswith("CASE WHEN id >= 5 THEN")


NOW_MS = int(time.time() * 1000)
CLOCK_MS = [NOW_MS - 2 * 3_600_000]


class Expiring(KeyedProcessFunction):
    """States with a time to live of an hour; an element's second field is so many hours ago."""

    def open(self, runtime_context: Any) -> None:
        config = StateTtlConfig.new_builder(Time.hours(1)).build()
        value = ValueStateDescriptor("value", Types.TUPLE([Types.LONG(), Types.STRING()]))
        elements = ListStateDescriptor("list", Types.STRING())
        entries = MapStateDescriptor("map", Types.STRING(), Types.LONG())
        for descriptor in (value, elements, entries):
            descriptor.enable_time_to_live(config)
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(elements)
        self.map = runtime_context.get_map_state(entries)

    def process_element(self, value: Any, ctx: Any) -> None:
        CLOCK_MS[0] = NOW_MS - value[1] * 3_600_000
        self.value.update((value[1], value[2]))
        self.list.add(value[2])
        self.map.put(value[2], value[1])


def test_the_python_fold_shows_no_expired_values(tmp_path: Path) -> None:
    """As the views do: the value, and when it was accessed beside it."""
    job = TestJob(tmp_path, Script((1,)), clock=lambda: CLOCK_MS[0])
    elements = [("a", 2, "old"), ("b", 2, "gone"), ("a", 0, "new")]
    job.run(keyed_job(elements, Expiring(), key_type=Types.STRING()))
    assert dict(state_at(job.table(), 2).states["process", "value"]) == {"a": (2, "old"), "b": (2, "gone")}
    state = state_at(job.table())
    shown = {name: dict(entries) for (_, name), entries in state.states.items()}
    assert shown == {"value": {"a": (0, "new")}, "list": {"a": ["new"]}, "map": {"a": {"new": 0}}}
    shown = {name: dict(entries) for (_, name), entries in state.accessed.items()}
    assert shown == {"value": {"a": NOW_MS}, "list": {"a": [NOW_MS]}, "map": {"a": {"new": NOW_MS}}}
