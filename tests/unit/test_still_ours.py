"""Writers ask before each request whether the process may still write: it may have stood still within a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from api.common import Row, Types
from api.common.serialization import SimpleStringSchema
from changelog_engine.connectors import still_ours
from changelog_engine.connectors.cassandra import CassandraSink
from changelog_engine.connectors.cassandra import ConnectionOptions as CassandraOptions
from changelog_engine.connectors.cassandra.sink import CassandraWriter
from changelog_engine.connectors.elasticsearch.cluster import Cluster, MayPassError
from changelog_engine.connectors.elasticsearch.documents import Emitter
from changelog_engine.connectors.elasticsearch.options import Backoff, BulkOptions, ClusterOptions
from changelog_engine.connectors.elasticsearch.sink import ElasticsearchSink, ElasticsearchWriter
from changelog_engine.connectors.jdbc import BatchingSink, ConnectionOptions, ExecutionOptions
from changelog_engine.connectors.jdbc.dialects import SqliteDialect
from changelog_engine.connectors.jdbc.sink import BatchingWriter
from changelog_engine.connectors.kinesis import ClientProperties, KinesisSink, SinkOptions
from changelog_engine.connectors.kinesis.clients import RequestError
from changelog_engine.connectors.kinesis.sink import KinesisWriter
from changelog_engine.connectors.sinks import FunctionSink
from changelog_engine.errors import FencedError

Sent = list[Any]


class Passing(Exception):
    """A failure that is tried again."""


@pytest.fixture
def sent() -> Iterator[Sent]:
    """What was sent. After the first request another driver has taken the job over."""
    sent: Sent = []

    def check() -> None:
        if sent:
            raise FencedError("another driver took the job over")

    token = still_ours._check.set(check)
    yield sent
    still_ours._check.reset(token)


def jdbc(sent: Sent, fails: bool, folder: Any) -> Callable[[], None]:
    def write(dialect: Any, connection: Any, sql: str, rows: Any) -> int:
        sent.append(rows)
        if fails:
            raise Passing
        return len(rows)

    connection = ConnectionOptions(f"jdbc:sqlite:{folder / 'rows.db'}")
    row = Types.ROW([Types.INT()])
    sink = BatchingSink("INSERT INTO t VALUES (?)", row, connection, ExecutionOptions(batch_size=2))
    mock.patch.object(SqliteDialect, "write", write).start()
    mock.patch.object(SqliteDialect, "may_pass", lambda dialect, error: isinstance(error, Passing)).start()
    mock.patch("changelog_engine.connectors.jdbc.session._FIRST_WAIT_S", 0.0).start()
    return lambda: BatchingWriter(sink).write([Row(number) for number in range(6)])


def elasticsearch(sent: Sent, fails: bool, folder: Any) -> Callable[[], None]:
    def bulk(cluster: Any, actions: Any) -> list[Any]:
        sent.append(actions)
        if fails:
            raise MayPassError("no answer")
        return []

    mock.patch.object(Cluster, "bulk", bulk).start()
    mock.patch.object(Cluster, "product", return_value=None).start()
    mock.patch.object(Emitter, "type_for", return_value=None).start()
    options = BulkOptions(max_actions=2, backoff=Backoff.CONSTANT, max_retries=3)
    sink = ElasticsearchSink(Emitter("i", None, "n", None), ClusterOptions(("http://localhost:9",)), options)
    return lambda: ElasticsearchWriter(sink, sleep=lambda _: None).write(
        [{"n": number} for number in range(6)]
    )


def kinesis(sent: Sent, fails: bool, folder: Any) -> Callable[[], None]:
    def call(operation: str, Records: Any, **arguments: Any) -> dict[str, Any]:
        sent.append(Records)
        if fails:
            raise RequestError("", "no answer", True)
        return {"Records": [{}] * len(Records)}

    properties = ClientProperties({"aws.region": "eu-west-1"}, "KinesisSink", source=False)
    sink = KinesisSink("s", SimpleStringSchema(), None, properties, SinkOptions(batch_size=2))
    client = SimpleNamespace(call=call, failure=RuntimeError)
    mock.patch("changelog_engine.connectors.kinesis.sink.Client", return_value=client).start()
    return lambda: KinesisWriter(sink, 0, sleep=lambda _: None).write([str(number) for number in range(6)])


def cassandra(sent: Sent, fails: bool, folder: Any) -> Callable[[], None]:
    def execute_async(bound: Any) -> Any:
        sent.append(bound)
        return mock.Mock(add_callbacks=lambda written, failed: written(None))

    statement = SimpleNamespace(column_metadata=[], bind=list)
    session = SimpleNamespace(prepared=lambda query: statement, execute_async=execute_async)
    mock.patch("changelog_engine.connectors.cassandra.sink._connected", return_value=session).start()
    sink = CassandraSink("INSERT", CassandraOptions(("localhost",)))
    return lambda: CassandraWriter(sink).write([()] * 6)


def test_a_function_is_called_for_few_more_elements(sent: Sent) -> None:
    with pytest.raises(FencedError):
        FunctionSink(sent.append).writer(0, 1).write(list(range(1000)))
    assert sent == list(range(200))


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("writing", [jdbc, elasticsearch, kinesis, cassandra])
def test_nothing_more_is_sent_within_a_block_and_nothing_is_tried_again(
    sent: Sent, writing: Callable[[Sent, bool, Any], Callable[[], None]], fails: bool, tmp_path: Any
) -> None:
    """Else old values come over those that the driver which took over has written since."""
    try:
        write = writing(sent, fails, tmp_path)
        with pytest.raises(FencedError):
            write()
    finally:
        mock.patch.stopall()
    assert len(sent) == 1
