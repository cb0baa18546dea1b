"""StateChangesSource: what it gives of every kind of state, what it refuses, and a job that reads another one's."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from properties.test_followed_log import OPERATORS, Model
from pyspark.sql.datasource import EqualNullSafe, EqualTo
from pyspark.sql.types import StructType
from support.functions import Count, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script
from support.visits import UID, visited

from api.common import Types, WatermarkStrategy
from api.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from api.datastream.state import ValueStateDescriptor
from changelog_engine.connectors.state_changes import StateChangesSource
from changelog_engine.errors import (
    ChangelogEngineError,
    ConfigurationError,
    ConnectorError,
    ForeignPathError,
    RestoreError,
)
from changelog_engine.history.pushed_filters import key_texts
from changelog_engine.history.state_source import StateReader
from changelog_engine.history.tables import Tables
from changelog_engine.ledger.follower import LogFollower
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.testing import without_spark
from changelog_engine.testing.conformance import check_source
from changelog_engine.ui.opened_job import OpenedJob, States
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

SEEN = "'${x}' \U0001f600/.."


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("base")
    visited(base, max_parallelism=8, parallelism=2)
    return base / "visits"


def source(job: Path, state: str, **more: Any) -> StateChangesSource:
    return StateChangesSource(str(job), UID, state, until="newest", **more)


def told(rows: list[Any], *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


def test_it_keeps_the_promises_of_sources(job: Path) -> None:
    counts = check_source(source(job, "the count"))
    assert told(counts, "checkpoint", "key", "operation", "value") == [
        (1, "ann", "put", 1),
        (1, "bob", "put", 1),
        (2, "ann", "put", 2),
        (2, "bob", "clear", None),
        (2, "bob", "put", 2),
        (3, "ann", "put", 3),
        (3, "bob", "put", 1),
    ]
    pages = check_source(source(job, "pages", start=2))
    assert told(pages, "checkpoint", "key", "operation", "value")[:2] == [
        (2, "ann", "append", "blog"),
        (2, "bob", "append", "bye"),
    ]
    (last,) = [row.value for row in check_source(source(job, "last`;--", start=3)) if row.key == "bob"]
    assert (last.page, last.at) == ("home", 1)


def test_a_program_that_runs_again_ends_where_it_would_have_ended(job: Path) -> None:
    """Its new run finds a newer checkpoint: of some key groups what came later was read, of others not."""
    first = StateChangesSource(str(job), UID, "the count", until=2)
    (split,) = first.splits(1)
    reader = source(job, "the count").reader(split)  # until the newest, which is 3 by now
    position, found, finished = split.start, [], False
    while not finished:
        values, position, finished, *_ = reader.read(position, 1)
        found += [row.checkpoint for row in values]
    assert set(found) == {1, 2}


def test_pickles_are_loaded_where_that_is_allowed(job: Path) -> None:
    with pytest.raises(ConnectorError, match="allow_pickle=True"):
        check_source(source(job, SEEN))
    seen = check_source(source(job, SEEN, allow_pickle=True))
    assert ("news", {1}) in told(seen, "map_key", "value")


def test_what_is_not_there(job: Path, tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match=r"no state 'the cuont'.*did you mean .*the count"):
        source(job, "the cuont")
    with pytest.raises(RestoreError, match=r"start = 9: the lineage .* has the checkpoints 1 to"):
        source(job, "pages", start=9)
    with pytest.raises(ConfigurationError, match="until = 9 is neither 'newest' nor"):
        StateChangesSource(str(job), UID, "pages", until=9)
    with pytest.raises(ConfigurationError, match="on_rewind = 'no'"):
        source(job, "pages", on_rewind="no")
    with pytest.raises(ConnectorError, match="has no event time"):
        check_source(source(job, "pages", time="event"))
    with pytest.raises(ChangelogEngineError, match="there is no changelog"):
        source(tmp_path, "pages")


def test_a_job_reads_another_ones_state(tmp_path: Path) -> None:
    counting = TestJob(tmp_path, Script((4,)))
    counting.run(keyed_job(rounds(4, 40), Count(), key_type=Types.LONG(), uid="count"))
    folder = find_job_folder(str(tmp_path), "job")
    materialize(folder, 2)
    truncate(folder, Retention(0, 1, 0), lambda: 1e12)
    path = folder.storage.root

    def read(**more: Any) -> list[Any]:
        changes = StateChangesSource(path, "count", "count", until="newest", **more)
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        newest = env.from_source(changes, WatermarkStrategy.no_watermarks(), "counts").key_by(
            lambda change: change.key
        )
        with without_spark():
            return [
                row.value for row in newest.reduce(lambda one, other: other).execute_and_collect("reader")
            ]

    with pytest.raises(Exception, match=r"mutations of checkpoints 1 to 2.*start = 3"):
        read()
    values = read(start="oldest")
    assert values
    assert max(values) == 10


def test_a_float_of_state_keeps_its_bits_on_the_way_to_another_subtask(tmp_path: Path) -> None:
    class Share(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.share = runtime_context.get_state(ValueStateDescriptor("share", Types.FLOAT()))

        def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> None:
            self.share.update(value[1] / 10)

    TestJob(tmp_path, Script((4,))).run(keyed_job(rounds(2, 4), Share(), key_type=Types.LONG(), uid="share"))
    changes = StateChangesSource(str(tmp_path / "job"), "share", "share", until="newest")
    env = StreamExecutionEnvironment.get_execution_environment()
    by_key = env.from_source(changes, WatermarkStrategy.no_watermarks(), "shares").key_by(lambda row: row.key)
    with without_spark():
        values = [row.value for row in by_key.reduce(lambda _, new: new).execute_and_collect("reader")]
    assert sorted(values) == [0.0, 0.1, 0.2, 0.3]


def test_a_folder_made_anew_is_never_taken_for_the_one_that_was_read(tmp_path: Path) -> None:
    def made(checkpoints: int) -> Model:
        shutil.rmtree(tmp_path, ignore_errors=True)
        model = Model(str(tmp_path))
        for _ in range(checkpoints):
            model.checkpoint(["11"])
        return model

    path = made(3).path
    follower, page, states = LogFollower(path), OpenedJob(path), States()
    start = follower.newest()
    frame = StateReader(path, Tables(path).table, 3, "count", "n", StructType())
    assert frame.partitions()
    assert _shown(page, states, 3) == 30
    page.details([0])
    again = made(2)
    again.checkpoint(["11", "11111"])
    with pytest.raises(ForeignPathError, match="made anew"):
        frame.partitions()
    page.refresh()
    assert _shown(page, states, 3, "11111") == 31
    for _ in range(4):
        again.checkpoint(["11"])
    with pytest.raises(ForeignPathError, match="made anew"):
        follower.after(start)


def _shown(job: OpenedJob, states: States, checkpoint: int, key: str = "11") -> Any:
    """The value of a key, as the page shows it."""
    at = job.checkpoint(checkpoint)
    page = states.get(job, at, "count", "n").page(at)
    return {each.text: each.entries[0][1] for each in page.keys}.get(key)


def test_other_key_groups_than_the_splits_have_are_an_error(tmp_path: Path) -> None:
    model = Model(str(tmp_path))
    model.checkpoint(["11"])
    changes = StateChangesSource(model.path, "count", "n", on_rewind="continue")
    (split,) = changes.splits(1)
    read = changes.reader(split).read(split.start, 10)
    assert [row.value for row in read.values] == [10]
    model.rewind(1)
    model.driver.operators = [OPERATORS[0]._replace(max_parallelism=16)]
    model.checkpoint(["1" * 12])
    for later in (changes, StateChangesSource(model.path, "count", "n", on_rewind="continue")):
        with pytest.raises(ConnectorError, match="max parallelism 16 at checkpoint 2, and 8 when"):
            later.reader(split).read(read.next, 10)


def test_a_filter_that_asks_for_no_key_keeps_the_rows_without_one() -> None:
    operator = OPERATORS[0]
    assert key_texts(EqualNullSafe(("key",), None), operator) in (None, {"null"})
    assert key_texts(EqualNullSafe(("key",), 5), operator) == {"5"}
    assert key_texts(EqualTo(("key_json",), "null"), operator) == {"null"}
