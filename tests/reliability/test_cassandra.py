"""The Cassandra sink: nothing is lost, the later row of a key stays, what does not fit is named, a node that is gone."""

from __future__ import annotations

import datetime
import logging
import uuid
from pathlib import Path
from typing import Any

import pytest
from servers.cassandra_node import CassandraServer
from servers.process import HOST, free_port
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Failure, Fault, Script

from api.common import Duration, Types
from api.common.types import Row
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors.cassandra import (
    CassandraFailureHandler,
    CassandraSink,
    ClusterBuilder,
    ConsistencyLevel,
    MapperOptions,
)
from changelog_engine.connectors import cassandra as engine
from changelog_engine.errors import ConfigurationError, ConnectorError, TypeMismatchError
from changelog_engine.graph.nodes import JobGraph, NodeKind
from changelog_engine.testing import without_spark

pytestmark = pytest.mark.slow


def options(cassandra: CassandraServer, **more: Any) -> engine.ConnectionOptions:
    given = {"port": cassandra.port, "user": cassandra.user, "password": cassandra.password, **more}
    return engine.ConnectionOptions((HOST,), **given)


def sink_into(cassandra: CassandraServer, table: str, columns: str = "k, n", **more: Any) -> Any:
    marks = ", ".join("?" for _ in columns.split(","))
    return engine.CassandraSink(
        f"INSERT INTO {table} ({columns}) VALUES ({marks})", options(cassandra), **more
    )


def written(sink: Any, rows: list[Any]) -> None:
    """Write rows, and wait for them."""
    writer = sink.writer(0, 1)
    try:
        writer.write(rows)
        writer.flush()
    finally:
        writer.close()


def job_into(sink: Any, elements: list[Any], parallelism: int = 2) -> JobGraph:
    build = GraphBuilder(f"job-{uuid.uuid4().hex[:8]}", parallelism, 16)
    build.add(NodeKind.SINK, "sink", build.source(elements, uid="in"), function=sink, uid="sink")
    return build.graph()


def rows_of(cassandra: CassandraServer, table: str, columns: str = "k, n") -> list[Any]:
    return sorted(cassandra.execute(f"SELECT {columns} FROM {table}"))


@pytest.fixture
def table(cassandra: CassandraServer) -> str:
    return cassandra.create_table("k text PRIMARY KEY, n int")


def test_a_program(cassandra: CassandraServer, table: str, caplog: pytest.LogCaptureFixture) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    cluster = ClusterBuilder(
        HOST, cassandra.port, cassandra.user, cassandra.password, ConsistencyLevel.QUORUM
    )
    tuples = env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()]))
    rows = env.from_collection([Row("c", 3), Row("d", None)], Types.ROW([Types.STRING(), Types.INT()]))
    for stream in (tuples, rows):
        builder = CassandraSink.add_sink(stream).set_query(f"INSERT INTO {table} (k, n) VALUES (?, ?)")
        builder.set_cluster_builder(cluster).set_failure_handler(CassandraFailureHandler.no_op())
        builder.set_max_concurrent_requests(5, Duration.of_seconds(20))
        builder.set_mapper_options(MapperOptions().ttl(5))
        builder.build().name("words").set_parallelism(1)
    assert "ttl have no effect: they are for Java's POJOs" in caplog.text
    with without_spark():
        env.execute(f"job-{uuid.uuid4().hex[:8]}")
    assert rows_of(cassandra, table) == [("a", 1), ("b", 2), ("c", 3), ("d", None)]


def test_nothing_is_lost(cassandra: CassandraServer, tmp_path: Path, table: str) -> None:
    failures = (Failure(2, Fault.WORKER), Failure(3, Fault.PARTS), Failure(5, Fault.COMMITTED))
    job = TestJob(tmp_path, Script((9,), (True, False), failures))
    elements = [(f"{number:03}", number) for number in range(60)]
    job.run(job_into(sink_into(cassandra, table), elements))
    assert rows_of(cassandra, table) == elements


def test_the_node_is_killed_while_it_writes(cassandra: CassandraServer, tmp_path: Path, table: str) -> None:
    job = TestJob(tmp_path, Script((300,), (True,)))

    def kill() -> None:
        cassandra.kill()
        cassandra.start()

    commits = iter([lambda: None, kill])
    job.on_commit = lambda _: next(commits, lambda: None)()  # type: ignore[method-assign]
    elements = [(f"{number:04}", number) for number in range(1500)]
    job.run(job_into(sink_into(cassandra, table), elements))
    assert rows_of(cassandra, table) == elements


def test_an_epoch_ends_when_the_cluster_has_all_and_the_later_row_stays(
    cassandra: CassandraServer, table: str
) -> None:
    writer = sink_into(cassandra, table, most_requests=64).writer(0, 1)
    writer.write([(f"{number % 7}", number) for number in range(2000)])
    assert writer._on_the_way <= 64
    writer.flush()
    assert rows_of(cassandra, table) == [
        (str(number % 7), number) for number in sorted(range(1993, 2000), key=lambda n: n % 7)
    ]
    writer.close()


def test_none_writes_a_null_or_leaves_the_column(cassandra: CassandraServer, table: str) -> None:
    written(sink_into(cassandra, table), [("a", 1), ("b", 2)])
    written(sink_into(cassandra, table, ignores_none=True), [("a", None)])
    written(sink_into(cassandra, table), [("b", None)])
    assert rows_of(cassandra, table) == [("a", 1), ("b", None)]


def test_values_of_all_kinds(cassandra: CassandraServer) -> None:
    columns = {
        "k": ("int", -(2**31)),
        "b": ("bigint", 2**63 - 1),
        "s": ("smallint", -(2**15)),
        "d": ("double", 0.1),
        "t": ("text", "ä\0"),
        "o": ("boolean", False),
        "y": ("blob", b"\x00\xff"),
        "l": ("list<int>", [1, 2]),
        "m": ("map<text, double>", {"a": 1.5}),
        "ts": ("timestamp", datetime.datetime(2024, 2, 29, 1, 2, 3, 4_000)),
    }
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    table = cassandra.create_table(f"{kinds}, PRIMARY KEY (k)")
    row = tuple(value for _, value in columns.values())
    written(sink_into(cassandra, table, ", ".join(columns)), [row])
    (found,) = cassandra.execute(f"SELECT {', '.join(columns)} FROM {table}")
    assert (
        tuple(dict(each) if name == "m" else each for name, each in zip(columns, found, strict=True)) == row
    )


@pytest.mark.parametrize(
    ("element", "said"),
    [
        (("a", 2**31), "2147483648 does not fit column 'n' of type int"),
        (("a", "x"), "'x' does not fit column 'n' of type int"),
        (("a", 1.5), "1.5 does not fit column 'n' of type int"),
        ((5, 1), "5 does not fit column 'k' of type varchar"),
        (("a",), r"the query has 2 placeholders \(\?\) and the element 1 fields"),
        (("a", 1, 2), r"the query has 2 placeholders \(\?\) and the element 3 fields"),
        ("ab", "writes rows and tuples, got 'ab'"),
        (None, "writes rows and tuples, got None"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_written(
    cassandra: CassandraServer, table: str, element: Any, said: str
) -> None:
    with pytest.raises(TypeMismatchError, match=said):
        written(sink_into(cassandra, table), [("fits", 1), element])
    assert rows_of(cassandra, table) == []


def test_what_the_cluster_refuses(cassandra: CassandraServer, table: str) -> None:
    with pytest.raises(ConnectorError, match=r"writing \(None, 1\) failed: .*Invalid null value"):
        written(sink_into(cassandra, table), [(None, 1)])
    big = cassandra.create_table("k text PRIMARY KEY, n text")
    with pytest.raises(ConnectorError, match=r"writing \('a', 'xxx.*\.\.\. failed"):
        written(sink_into(cassandra, big), [("a", "x" * 20_000_000)])


class TestBeforeItStarts:
    def test_queries(self, cassandra: CassandraServer, table: str) -> None:
        for query, said in (
            ("INSERT INTO tests.nowhere (k) VALUES (?)", "table nowhere does not exist"),
            ("INSERT INTO nowhere.t (k) VALUES (?)", "keyspace nowhere does not exist"),
            (f"INSERT INTO {table} (k, other) VALUES (?, ?)", "Undefined column name other"),
            ("INSERTO t", "SyntaxException"),
        ):
            with pytest.raises(ConfigurationError, match=f"{said}.*; query: INSERT"):
                engine.CassandraSink(query, options(cassandra)).check_before_start()
        fitting = sink_into(cassandra, table)
        fitting.for_type(Types.TUPLE([Types.STRING(), Types.INT()])).check_before_start()
        three = fitting.for_type(Types.ROW([Types.STRING(), Types.INT(), Types.INT()]))
        with pytest.raises(ConfigurationError, match=r"2 placeholders \(\?\) and the stream's type 3 fields"):
            three.check_before_start()

    def test_who_is_not_let_in(self, cassandra: CassandraServer) -> None:
        with pytest.raises(
            ConnectorError, match=r"refuses user 'cassandra'.*password are incorrect"
        ) as caught:
            engine.CassandraSink("x", options(cassandra, password="hidden")).check_before_start()
        assert "hidden" not in str(caught.value)
        with pytest.raises(ConnectorError, match="refuses a client without user and password"):
            engine.CassandraSink("x", options(cassandra, user=None)).check_before_start()

    def test_no_node(self, caplog: pytest.LogCaptureFixture) -> None:
        port = free_port()
        nowhere = engine.ConnectionOptions((HOST,), port)
        with (
            caplog.at_level(logging.ERROR),
            pytest.raises(
                ConnectorError, match=rf"Cassandra \({HOST}, port {port}\) cannot be reached: .*Is it"
            ),
        ):
            engine.CassandraSink("x", nowhere).check_before_start()
        with pytest.raises(ConnectorError, match="no address is known of any of these hosts"):
            engine.CassandraSink(
                "x", engine.ConnectionOptions(("no.such.host.invalid",))
            ).check_before_start()
