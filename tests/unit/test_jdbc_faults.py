"""Exactly once in a database: drivers and workers that die at every step of a commit, and the table's own count."""

from __future__ import annotations

import gc
import itertools
import random
from collections import Counter

import pytest
from support.chance import chosen_seed
from support.databases import KINDS, Database
from support.functions import Count, counted, rounds
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Failure, Fault, Script

from api.common import Types
from api.datastream.connectors import JdbcSink
from changelog_engine.errors import JobExecutionError
from changelog_engine.graph.nodes import NodeKind, RestartKind, RestartSettings

RECORDS = 40
ELEMENTS = rounds(4, RECORDS)
EXPECTED = sorted(counted(ELEMENTS))
ROW = Types.ROW([Types.LONG(), Types.LONG()])
INSERT = "INSERT INTO t VALUES (?, ?)"
UPSERT = "INSERT INTO t VALUES (?, ?) ON CONFLICT (a, b) DO UPDATE SET b = excluded.b"


@pytest.fixture(params=KINDS)
def database(request, tmp_path):
    database = Database(request.param, tmp_path, request)
    database.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    return database


@pytest.fixture
def sqlite(request, tmp_path):
    database = Database("sqlite", tmp_path, request)
    database.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    return database


def exact(database):
    return JdbcSink.exactly_once_sink(INSERT, ROW, database.options)


def graph(jdbc_sink, parallelism=2, elements=ELEMENTS):
    """Counts by key, into the sink: each key's counts are 1, 2, 3 and so on."""
    build = GraphBuilder(parallelism=parallelism)
    keyed = build.key_by(
        build.source(elements, uid="source"), lambda element: element[0], key_type=Types.LONG()
    )
    counts = build.process(keyed, Count(), uid="count")
    build.add(NodeKind.SINK, "sink", counts, function=jdbc_sink._function, uid="sink")
    return build.graph()


def run_all(job, jdbc_sink, parallelism=lambda driver: 2):
    """Run drivers until the job has ended, and once more without elements.

    A driver may die after the last checkpoint and before the last commit, which is then up to the next run.
    """
    job.run(lambda driver: graph(jdbc_sink, parallelism(driver)))
    job.progress.waiting.clear()
    job.run_driver(graph(jdbc_sink, elements=[]))


def table(database):
    return sorted(database.execute("SELECT a, b FROM t"))


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("epoch", [1, 3])
def test_every_fault_alone(sqlite, tmp_path, fault, epoch):
    script = Script(sizes=(4,), failures=tuple(Failure(epoch, fault, stage, 0) for stage in (0, 1)))
    run_all(TestJob(tmp_path / "log", script), exact(sqlite))
    assert table(sqlite) == EXPECTED


@pytest.mark.filterwarnings("ignore:.*was deleted while still open:ResourceWarning")
@pytest.mark.parametrize("settings", [{}, {"changelog": False}, {"tolerable_failures": 5}])
def test_random_faults(little_to_collect, database, tmp_path, settings):
    """30 runs in all: each record is there exactly once."""
    seed = chosen_seed()
    chance = random.Random(seed)
    faults = list(Fault)
    for number in range(4 if database.kind != "mariadb" else 2):
        failures = tuple(
            Failure(chance.randint(1, 12), chance.choice(faults), chance.randint(0, 1), chance.randint(0, 1))
            for _ in range(chance.randint(1, 5))
        )
        sizes = tuple(chance.randint(1, 8) for _ in range(3))
        barriers = tuple(chance.random() < 0.7 for _ in range(3))
        parallelisms = [chance.randint(1, 3) for _ in range(50)]
        job = TestJob(tmp_path / f"log-{number}", Script(sizes, (*barriers, True), failures), **settings)
        run_all(job, exact(database), parallelisms.__getitem__)
        assert table(database) == EXPECTED, (number, job.progress)
        database.execute("DELETE FROM t")
    gc.collect()  # connections of writers whose process was lost


def test_each_checkpoint_is_seen_when_it_is_committed(sqlite, tmp_path):
    """Never more than the durable checkpoints cover, and never less than all but the last of them."""

    class Watching(TestJob):
        def on_commit(self, checkpoint):
            seen.append((len(table(sqlite)), sum(self.committed_epochs)))

    seen: list[tuple[int, int]] = []
    Watching(tmp_path / "log", Script(sizes=(5,))).run(graph(exact(sqlite), 1))
    assert [covered for _, covered in seen][-1] == RECORDS
    assert all(before == covered for (_, covered), (before, _) in itertools.pairwise(seen))
    assert seen[0][0] == 0


def test_an_old_checkpoint_commits_nothing_again(sqlite, tmp_path):
    """What a rewound job's checkpoint had prepared is in the table already; only what comes after is written anew."""
    job = TestJob(tmp_path / "log", Script(sizes=(5,)))
    job.run(graph(exact(sqlite), 1))
    assert table(sqlite) == EXPECTED
    old = next(c for c in job.commits if sum(job.committed_epochs[: job.epochs_at[c.id]]) == 20)
    again = TestJob(tmp_path / "log", Script(sizes=(7,)))
    again.run(graph(exact(sqlite), 1), restore=str(old.id))
    twice = Counter(table(sqlite)) - Counter(EXPECTED)
    assert twice == Counter(counted(ELEMENTS)[20:])


def test_a_job_that_runs_again_in_a_database_that_was_made_anew(sqlite, tmp_path):
    """It had finished, and began anew: that the database did not know its writers was an error at each of its starts."""
    job = TestJob(tmp_path / "log")
    job.run(graph(exact(sqlite)))
    for name in ("t", "changelog_engine_commits", "changelog_engine_commits_staged"):
        sqlite.execute(f"DROP TABLE {name}")
    sqlite.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    job.run_driver(graph(exact(sqlite)))
    assert table(sqlite) == EXPECTED


@pytest.mark.parametrize("once", [True, False])
def test_a_table_that_is_missing_ends_the_job_and_costs_nothing(sqlite, tmp_path, once):
    """It restarted for ever."""
    sqlite.execute("DROP TABLE t")
    insert = "INSERT INTO t (a, b) VALUES (?, ?)"
    kind = JdbcSink.exactly_once_sink if once else JdbcSink.sink
    sink = kind(insert, ROW, sqlite.options)
    job = TestJob(tmp_path / "log", restart=RestartSettings(RestartKind.FIXED_DELAY, attempts=9, delay_ms=0))
    with pytest.raises(JobExecutionError) as raised:
        job.run_driver(graph(sink))
    assert raised.value.seen == 3
    for said in ("no such table: t", insert, "row: f0=", "Make the table", "seen 3 times"):
        assert said in str(raised.value)
    sqlite.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    job.run_driver(graph(sink))
    assert table(sqlite) == EXPECTED


def test_without_checkpoints_rows_come_at_the_end(sqlite, tmp_path):
    TestJob(tmp_path / "log", checkpoint_interval_ms=None).run(graph(exact(sqlite)))
    assert table(sqlite) == EXPECTED


def test_upserts_at_least_once_are_exact_after_faults(sqlite, tmp_path):
    sqlite.execute("CREATE UNIQUE INDEX both_columns ON t (a, b)")
    failures = tuple(Failure(epoch, fault) for epoch, fault in enumerate(Fault, start=2))
    job = TestJob(tmp_path / "log", Script(sizes=(2,), failures=failures))
    run_all(job, JdbcSink.sink(UPSERT, ROW, sqlite.options))
    assert table(sqlite) == EXPECTED


def test_plain_inserts_at_least_once_lose_nothing(sqlite, tmp_path):
    failures = (Failure(3, Fault.PARTS), Failure(6, Fault.WORKER))
    job = TestJob(tmp_path / "log", Script(sizes=(3,), failures=failures))
    run_all(job, JdbcSink.sink(INSERT, ROW, sqlite.options))
    assert set(table(sqlite)) == set(EXPECTED)
    assert len(table(sqlite)) > RECORDS, "the faults came too early to show anything"
