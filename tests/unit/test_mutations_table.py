"""Spark's format of mutations without a session: typed columns and values before, against the views of changes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, LessThanOrEqual
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from support.reminders import reminded
from support.visits import UID, VISITS, visited

from changelog_engine.errors import ChangelogEngineError, NotLoggedError, RestoreError
from changelog_engine.history.mutations_source import MutationsDataSource, PushingMutationsSource
from changelog_engine.history.names import view_names
from changelog_engine.history.state_source import StateDataSource
from changelog_engine.inspection.sql import query
from changelog_engine.ledger.job_folder import find_job_folder
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate


def schema_of(source: Any) -> StructType:
    return from_arrow_schema(pa.schema([(column.name, column.arrow) for column in source.columns]))


def shipped(given: Any) -> Any:
    """As Spark hands it from one process to the next."""
    return cloudpickle.loads(cloudpickle.dumps(given))


def mutations(path: str, filters: tuple[Filter, ...] = (), **options: str) -> list[dict[str, Any]]:
    source = shipped(PushingMutationsSource({"path": path, **options}))
    reader = shipped(source.reader(schema_of(source)))
    assert list(reader.pushFilters(list(filters))) == list(filters)
    parts = shipped(reader.partitions())
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def changes(path: str, view: str, names: list[str], after: int = 0) -> list[str]:
    found = query(
        path, f"SELECT {', '.join(names)} FROM {view}_history WHERE valid_from_checkpoint > {after}"
    )
    return sorted(str(row) for row in found.rows)


def test_values_before_are_those_of_the_views_of_changes(tmp_path: Path) -> None:
    """At every start, also where the state before comes from a snapshot, and from merged files."""
    job = visited(tmp_path, "visits", VISITS * 3)
    path = f"{tmp_path}/visits"
    folder = find_job_folder(str(tmp_path), "visits")
    states = [each.name for found in job.commits[-1].operators for each in found.states]
    views = view_names([(UID, name) for name in states])
    for step in ("parts", "snapshot", "truncated"):
        if step == "snapshot":
            materialize(folder, job.commits[2].id)
        if step == "truncated":
            truncate(folder, Retention(0, 1, 0), lambda: 10_000.0)
        for name in states:
            options = {"operator": UID, "state": name, "valueBefore": "true", "startingCheckpoint": "oldest"}
            oldest = job.commits[2].id if step == "truncated" else 0
            for after in (oldest, job.commits[3].id):
                options["startingCheckpoint"] = str(after + 1)
                mine = mutations(path, **options)
                shown = [each for each in ("key", "key_json", "map_key", "map_key_json") if each in mine[0]]
                shown += ["operation", "sequence", "value_before", "value_before_json"]
                theirs = changes(path, views[UID, name], shown, after)
                assert sorted(str(tuple(row[each] for each in shown)) for row in mine) == theirs, (step, name)


def test_filters_on_checkpoints_and_times_choose_files(tmp_path: Path) -> None:
    job = reminded(tmp_path)
    path = f"{tmp_path}/job"
    everything = mutations(path)
    number, time = ("checkpoint_id",), ("checkpoint_time",)
    third = job.commits[2]
    when = datetime.fromtimestamp(third.time_ms / 1000, UTC)
    until = {each.id for each in job.commits if each.time_ms <= third.time_ms}
    for filters, left in (
        ((EqualTo(number, 2),), {2}),
        ((In(number, (1, 4, 99)),), {1, 4}),
        ((GreaterThan(number, 1), LessThanOrEqual(number, 3)), {2, 3}),
        ((EqualTo(number, 99),), set()),
        ((EqualTo(("value",), "1"),), {1, 2, 3, 4}),
        ((LessThanOrEqual(time, when),), until),
        ((GreaterThan(time, when),), {1, 2, 3, 4} - until),
    ):
        found = mutations(path, filters)
        assert {row["checkpoint_id"] for row in found} == left
        assert found == [row for row in everything if row["checkpoint_id"] in left]
    typed = mutations(path, (GreaterThan(number, 2),), operator="remind", state="count", valueBefore="true")
    assert {(row["checkpoint_id"], row["value_before"], row["value"]) for row in typed} == {
        (3, 2, 3),
        (4, 3, 4),
    }
    timers = mutations(path, operator="remind", state="timers", endingCheckpoint="-2")
    shown = ["key", "domain", "time_ms", "operation", "sequence"]
    view = query(path, f"SELECT {', '.join(shown)} FROM remind_timers_history", "-2")
    assert sorted(str(tuple(row[each] for each in shown)) for row in timers) == sorted(map(str, view.rows))


def test_filters_over_a_truncated_log(tmp_path: Path) -> None:
    """What was truncated is an error that says so, where a condition may ask for it; else it is no matter."""
    job = visited(tmp_path, "visits", VISITS * 3)
    path, last = f"{tmp_path}/visits", job.commits[-1]
    folder = find_job_folder(str(tmp_path), "visits")
    materialize(folder, job.commits[2].id)
    truncate(folder, Retention(0, 1, 0), lambda: 10_000.0)
    number, time = ("checkpoint_id",), ("checkpoint_time",)
    newest = [row for row in mutations(path, startingCheckpoint="oldest") if row["checkpoint_id"] == last.id]
    assert newest
    for some in (
        (EqualTo(number, last.id),),
        (GreaterThan(number, last.id - 1),),
        (In(number, (last.id, 99)),),
    ):
        assert mutations(path, some) == newest
    when = datetime.fromtimestamp(last.time_ms / 1000, UTC)
    for condition in (
        EqualTo(("value",), "1"),
        EqualTo(number, 2),
        In(number, (2, last.id)),
        EqualTo(time, when),
    ):
        with pytest.raises(NotLoggedError, match=r"startingCheckpoint = 4"):
            mutations(path, (condition,))


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    reminded(tmp_path)
    path = f"{tmp_path}/job"
    wrong = (
        ({"endingCheckpoint": "9999"}, "there is no checkpoint 9999.* nearest: 4"),
        ({"startingCheckpoint": "4", "endingCheckpoint": "2"}, "endingCheckpoint = 2 comes before"),
        ({"state": "cuont"}, "did you mean 'count'"),
        ({"operator": "remind", "state": "timer"}, "operator 'remind': there is no state 'timer'"),
        ({"operator": "remnid"}, "did you mean 'remind'"),
        ({"operator": "remind", "valueBefore": "true"}, "valueBefore needs the options operator and state"),
        ({"valueBefore": "yes"}, "neither true nor false"),
        ({"operator": "remind", "state": "timers", "valueBefore": "true"}, "valueBefore needs .* of a state"),
    )
    for options, words in wrong:
        with pytest.raises(ChangelogEngineError, match=words):
            mutations(path, **options)
    with pytest.raises(RestoreError, match="did you mean 'count'"):
        StateDataSource({"path": path, "operator": "remind", "state": "cuont"})
    with pytest.raises(RestoreError, match=r"-9 in .* the nearest is -4"):
        StateDataSource({"path": path, "operator": "remind", "state": "count", "at": "-9"})


def test_a_stream_from_the_newest_on_keeps_where_it_began(tmp_path: Path) -> None:
    """Spark asks for the first offset again when a query that had no batch is started again: it does not move."""
    reminded(tmp_path)
    source = MutationsDataSource({"path": f"{tmp_path}/job", "startingCheckpoint": "newest"})
    reader = source.streamReader(schema_of(source))
    start = reader.initialOffset()
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert first != start, "a batch is planned, and where it ends is kept"
    assert (reader.partitions(start, first), first["checkpoint"]) == ([], 4)
    assert reader.latestOffset(first, reader.getDefaultReadLimit()) == first
