"""Cassandra without a node: what the builders take, and what they refuse."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from api.common import Types
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors.cassandra import (
    CassandraCommitter,
    CassandraFailureHandler,
    CassandraSink,
    ClusterBuilder,
    ConsistencyLevel,
    MapperOptions,
)
from changelog_engine.connectors import cassandra as engine
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, NotSupportedError

QUERY = "INSERT INTO shop.words (word, n) VALUES (?, ?)"


def builder(type_info: Any = None) -> CassandraSink.CassandraSinkBuilder:
    env = StreamExecutionEnvironment.get_execution_environment()
    return CassandraSink.add_sink(env.from_collection([("a", 1)], type_info))


def engine_sink(made: CassandraSink) -> engine.CassandraSink:
    sink = made._transformation.function
    assert isinstance(sink, engine.CassandraSink)
    return sink


def test_what_was_set() -> None:
    cluster = ClusterBuilder(["a", "b"], 9043, "ann", "p/w", ConsistencyLevel.QUORUM)
    words = builder(Types.TUPLE([Types.STRING(), Types.LONG()])).set_query(QUERY).set_cluster_builder(cluster)
    made = words.set_max_concurrent_requests(3).enable_ignore_null_fields().build()
    assert made.name("words").uid("w").set_parallelism(2).disable_chaining().slot_sharing_group("g") is made
    sink = engine_sink(made)
    assert (sink.query, sink.most_requests, sink.wait_s, sink.ignores_none) == (QUERY, 3, None, True)
    assert sink.options == engine.ConnectionOptions(("a", "b"), 9043, "ann", "p/w", "QUORUM")
    assert "p/w" not in repr(cluster) + repr(sink.options)
    assert pickle.loads(pickle.dumps(sink)).options == sink.options
    assert (made._transformation.name, made._transformation.uid) == ("words", "w")


def test_a_host_and_elements_of_no_declared_type() -> None:
    sink = engine_sink(builder().set_query(QUERY).set_host("db").build())
    assert sink.options == engine.ConnectionOptions(("db",))
    assert sink.most_requests == engine.DEFAULT_REQUESTS


def test_elements_without_fields_are_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    made = CassandraSink.add_sink(env.from_collection([1], Types.INT())).set_query(QUERY).set_host("db")
    with pytest.raises(NotSupportedError, match="writes rows and tuples, and the stream is of INT"):
        made.build()


@pytest.mark.parametrize("call", [lambda: builder().enable_write_ahead_log(), lambda: (
    CassandraCommitter.default_checkpoint_committer(ClusterBuilder("db"))
)])  # fmt: skip
def test_the_write_ahead_log_says_what_to_use(call: Any) -> None:
    with pytest.raises(
        NotSupportedError, match=r"write-ahead log, which is not here: .* JdbcSink\.exactly_once_sink"
    ):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ClusterBuilder(object()), "Java's builders cannot be used"),  # type: ignore[arg-type]
        (lambda: ClusterBuilder([]), "hosts must be a host or several"),
        (lambda: ClusterBuilder(["a", ""]), "hosts must be a non-empty str"),
        (lambda: ClusterBuilder("a", 0), "port must be between 1 and 65535"),
        (lambda: ClusterBuilder("a", user_name="ann"), "both user_name and password"),
        (lambda: ClusterBuilder("a", user_name="ann", password=5), "password must be a str"),  # type: ignore[arg-type]
        (lambda: ClusterBuilder("a", consistency_level="ONE"), "must be one of ConsistencyLevel."),  # type: ignore[arg-type]
        (lambda: ClusterBuilder("a", consistency_level=ConsistencyLevel.SERIAL), "SERIAL is for reads"),
        (lambda: builder().set_query(""), "query must be a non-empty str"),
        (lambda: builder().set_host("db", 70_000), "port must be between"),
        (lambda: builder().set_host("db").set_cluster_builder(ClusterBuilder("db")), "set already"),
        (lambda: builder().set_cluster_builder("db"), "must be a ClusterBuilder"),  # type: ignore[arg-type]
        (lambda: builder().set_mapper_options({}), "must be a MapperOptions"),  # type: ignore[arg-type]
        (lambda: builder().set_failure_handler(print), "no_op"),  # type: ignore[arg-type]
        (lambda: builder().set_max_concurrent_requests(0), "must be between 1"),
        (lambda: builder().set_max_concurrent_requests(1, 5), "must be a Duration"),  # type: ignore[arg-type]
        (lambda: builder().set_host("db").build(), r"give a query by set_query"),
        (lambda: builder().set_query(QUERY).build(), r"give a host by set_host"),
        (lambda: MapperOptions().ttl(-1), "ttl must be between"),
        (lambda: MapperOptions().consistency_level(1), "must be one of ConsistencyLevel."),  # type: ignore[arg-type]
        (lambda: MapperOptions().tracing(1), "must be True or False"),  # type: ignore[arg-type]
        (lambda: CassandraSink.add_sink([1]), "input must be a DataStream"),  # type: ignore[arg-type]
    ],
)
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises((ConfigurationError, ArgumentTypeError), match=said):
        call()


def test_the_handler_that_there_is() -> None:
    assert isinstance(CassandraFailureHandler.no_op(), CassandraFailureHandler)


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cassandra", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'changelog-engine\[cassandra\]'"):
        engine.CassandraSink(QUERY, engine.ConnectionOptions(("db",)))
