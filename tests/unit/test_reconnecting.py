"""What is tried again: the log has one line when it begins, one every 30 seconds, one when it is over."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from api.common.serialization import SimpleStringSchema
from api.datastream.connectors.kafka import KafkaSource
from changelog_engine.clock import Deadline
from changelog_engine.connectors.data_loss import DataLoss
from changelog_engine.connectors.elasticsearch import (
    Backoff,
    BulkOptions,
    ClusterOptions,
    ElasticsearchSink,
    Emitter,
)
from changelog_engine.connectors.elasticsearch.cluster import MayPassError, Refusal
from changelog_engine.connectors.elasticsearch.sink import ElasticsearchWriter
from changelog_engine.connectors.jdbc.options import ConnectionOptions
from changelog_engine.connectors.jdbc.session import Session
from changelog_engine.connectors.kafka import ClientProperties as KafkaProperties
from changelog_engine.connectors.kafka.transactions import Transaction, Transactions, TransactionState
from changelog_engine.connectors.kinesis import ClientProperties, KinesisSink, SinkOptions
from changelog_engine.connectors.kinesis.clients import RequestError
from changelog_engine.connectors.kinesis.reader import OLDEST, TIME, Polling, ShardReader
from changelog_engine.connectors.kinesis.sink import KinesisWriter
from changelog_engine.connectors.properties import Properties
from changelog_engine.connectors.reconnecting import Trouble, UnreachableError, connected
from changelog_engine.errors import ConnectorError, RefusedForGoodError

DAY_MS = 24 * 3_600_000


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Fails:
    """Gives an answer after some failures."""

    def __init__(self, times: int, error: Exception, answer: Any = None) -> None:
        self.left, self.error, self.answer = times, error, answer

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.left:
            self.left -= 1
            raise self.error
        return self.answer


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, "changelog_engine")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_trouble_is_told_when_it_begins_lasts_and_ends(said: Callable[[], list[str]]) -> None:
    time = Time()
    trouble = Trouble("the server", time.clock)
    trouble.over()
    for _ in range(70):
        trouble.again("the server does not answer")
        time.sleep(1)
    trouble.over()
    trouble.over()
    assert said() == [
        "the server does not answer; trying again",
        "the server does not answer; trying again, for 30 s now",
        "the server does not answer; trying again, for 60 s now",
        "the server: works again, after 70 s",
    ]


def test_what_comes_and_goes_is_told_every_thirty_seconds(said: Callable[[], list[str]]) -> None:
    time = Time()
    trouble = Trouble("the server", time.clock)
    for _ in range(100):
        trouble.again("it is busy")
        time.sleep(1)
        trouble.over()
    assert len(said()) == 8
    assert said()[::2] == ["it is busy; trying again"] * 4


def test_connecting(said: Callable[[], list[str]]) -> None:
    time = Time()
    connect = Fails(10, UnreachableError("nobody is there"), "a connection")
    assert connected(connect, "the server", 5.0, time.sleep, 60.0, time.clock) == "a connection"
    assert said() == [
        "nobody is there; trying again",
        "nobody is there; trying again, for 30 s now",
        "the server: works again, after 50 s",
    ]
    began, gone = time.clock(), Fails(99, UnreachableError("gone"))
    with pytest.raises(UnreachableError):
        connected(gone, "the server", 5.0, time.sleep, 12.0, time.clock)
    assert (time.clock() - began, gone.left) == (10.0, 96), "it does not sleep beyond its patience"
    once = Fails(99, UnreachableError("gone"))
    with pytest.raises(UnreachableError):
        connected(once, "the server", 0.0, time.sleep, 0.0, time.clock)
    assert once.left == 98


def test_deadlines() -> None:
    time = Time()
    deadline = Deadline(2.0, time.clock)
    assert (deadline.left_s, deadline.passed) == (2.0, False)
    time.sleep(2.5)
    assert (deadline.left_s, deadline.passed) == (0.0, True)


def test_transactions_are_waited_for_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    properties = KafkaProperties({"bootstrap.servers": "nowhere:1"}, "KafkaSink")
    transactions = Transactions(properties, 7.0, time.clock, time.sleep)
    monkeypatch.setattr(transactions, "state", lambda transaction: TransactionState.COMMITTING)
    with pytest.raises(ConnectorError, match="'t-1' does not end"):
        transactions.commit(Transaction("t-1", 1, 0, 0))
    assert 1_007 < time.now_s < 1_010


def test_jdbc(said: Callable[[], list[str]], tmp_path: Path) -> None:
    time, url = Time(), f"jdbc:sqlite:{tmp_path}/t.db"
    session = Session(ConnectionOptions(url, None, None, None), 9, time.sleep, time.clock)
    locked = sqlite3.OperationalError("database is locked")
    locked.sqlite_errorcode = sqlite3.SQLITE_BUSY
    busy = Fails(9, locked, "done")
    assert session.run(busy, "writing rows") == "done"
    assert len(said()) == 3
    assert f"writing rows failed at {url}" in said()[0]
    assert said()[0].endswith("database is locked; trying again")
    assert said()[1].endswith("trying again, for 36 s now")
    assert said()[2] == f"the database at {url}: works again, after 45 s"


def test_looking_for_new_partitions(monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]) -> None:
    class Gone:
        topics = Fails(7, ConnectorError("Kafka (nowhere:1): listing topics failed"), {})

        def __init__(self, *arguments: Any, timeout_s: float) -> None:
            pass

        def close(self) -> None:
            pass

    time = Time()
    builder = KafkaSource.builder().set_bootstrap_servers("nowhere:1").set_topics("t")
    builder.set_value_only_deserializer(SimpleStringSchema())
    source = builder.set_property("partition.discovery.interval.ms", "10000").build()._source
    source._trouble._clock = time.clock
    source.topics = SimpleNamespace(of=lambda there, servers: [])
    monkeypatch.setattr("changelog_engine.connectors.kafka.source.Cluster", Gone)
    for _ in range(8):
        assert source.discover({}) == []
        time.sleep(10)
    failed = "Kafka (nowhere:1): listing topics failed; trying again"
    works = "KafkaSource: looking for new partitions: works again, after 70 s"
    assert said() == [failed, f"{failed}, for 30 s now", f"{failed}, for 60 s now", works]


class Cluster:
    """Of Elasticsearch, that is busy for some requests."""

    def __init__(self, busy: int, refusal: Refusal | None = None) -> None:
        self.busy, self.refusal = busy, refusal

    def bulk(self, actions: Any) -> list[Refusal]:
        self.busy -= 1
        if self.refusal is not None:
            return [self.refusal] if self.busy >= 0 else []
        if self.busy >= 0:
            raise MayPassError("no host answers")
        return []

    def failure(self, what: str) -> ConnectorError:
        return ConnectorError(f"Elasticsearch (h:1): {what}")

    def refused(self, what: str, reason: str) -> RefusedForGoodError:
        return RefusedForGoodError(str(self.failure(what)), reason)


def bulk_writer(
    monkeypatch: pytest.MonkeyPatch, time: Time, cluster: Cluster, retries: int
) -> ElasticsearchWriter:
    monkeypatch.setattr(ElasticsearchWriter, "_retried", lambda self, ask: None)
    bulk = BulkOptions(backoff=Backoff.CONSTANT, max_retries=retries, delay_ms=10_000)
    sink = ElasticsearchSink(Emitter("i", None, None, None), ClusterOptions(("h:1",)), bulk)
    writer = ElasticsearchWriter(sink, time.clock, time.sleep)
    writer._cluster = cluster  # type: ignore[assignment]
    return writer


def test_elasticsearch(monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]) -> None:
    time = Time()
    writer = bulk_writer(monkeypatch, time, Cluster(5), 9)
    writer.write([{"a": 1}])
    writer.prepare(False)
    failed = "Elasticsearch (h:1): a bulk request of 1 actions failed: no host answers; trying again"
    assert said() == [failed, f"{failed}, for 30 s now", "Elasticsearch (h:1): works again, after 50 s"]


@pytest.mark.parametrize("status", [400, 429])
def test_elasticsearch_says_who_refuses_once(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    cluster = Cluster(9, Refusal(0, status, "full"))
    writer = bulk_writer(monkeypatch, Time(), cluster, 1)
    writer.write([{"a": 1}])
    with pytest.raises(ConnectorError, match=f"refused with status {status}: full") as caught:
        writer.prepare(False)
    assert str(caught.value).count("Elasticsearch (h:1)") == 1


class Kinesis:
    """A client whose requests fail for some time."""

    def __init__(self, busy: int) -> None:
        self.busy = busy
        self.asked: list[str] = []

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append(operation)
        if operation == "describe_stream_summary":
            return {"StreamDescriptionSummary": {"RetentionPeriodHours": 48}}
        if operation == "get_shard_iterator":
            return {"ShardIterator": "it"}
        self.busy -= 1
        if self.busy >= 0:
            raise RequestError("LimitExceededException", "too fast", True)
        if operation == "put_records":
            return {"Records": [{} for _ in arguments["Records"]], "FailedRecordCount": 0}
        return {"Records": [], "NextShardIterator": "it", "MillisBehindLatest": 0}

    def failure(self, what: str) -> ConnectorError:
        return ConnectorError(f"Kinesis (eu): {what}")

    def refused(self, what: str) -> RefusedForGoodError:
        return RefusedForGoodError(str(self.failure(what)))


class Schema:
    def serialize(self, value: Any) -> bytes:
        return str(value).encode()

    def deserialize(self, data: bytes) -> str:
        return data.decode()


def shard_reader(client: Kinesis, time: Time, now_ms: int = 0) -> ShardReader:
    polling = Polling(10, 0.0, 99, 10.0, 10.0, 1.0)
    loss = DataLoss(Properties({}, "FlinkKinesisConsumer"))
    given = (client, lambda: None, loss, polling, Schema(), "orders", "shard-0")
    return ShardReader(*given, time.clock, lambda: now_ms)  # type: ignore[arg-type]


def test_a_kinesis_source(said: Callable[[], list[str]]) -> None:
    time, client = Time(), Kinesis(5)
    reader = shard_reader(client, time)
    position: Any = [OLDEST, None, 0]
    for _ in range(6):
        position = reader.read(position, 10).next
        time.sleep(10.0)
    failed = "Kinesis (eu): reading shard 'shard-0' of stream 'orders' failed: too fast; trying again"
    works = "Kinesis (eu): reading shard 'shard-0' of stream 'orders': works again, after 50 s"
    assert said() == [failed, f"{failed}, for 30 s now", works]


def test_a_kinesis_sink(monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]) -> None:
    time = Time()
    properties = ClientProperties({"aws.region": "eu"}, "KinesisStreamsSink", False)
    sink = KinesisSink("orders", Schema(), None, properties, SinkOptions())
    writer = KinesisWriter(sink, 0, time.clock, time.sleep)
    writer._client = Kinesis(20)  # type: ignore[assignment]
    writer.write(["a"])
    writer.prepare(False)
    failed = "Kinesis (eu): stream 'orders' did not take 1 of 1 records: too fast; trying again"
    assert said()[0] == failed
    assert said()[-1].startswith("Kinesis (eu), stream 'orders': works again, after ")
    assert len(said()) == 4


@pytest.mark.parametrize(("behind_ms", "asks"), [(DAY_MS, False), (DAY_MS + 1, True)])
def test_the_retention_is_asked_for_when_records_may_be_gone(behind_ms: int, asks: bool) -> None:
    client = Kinesis(0)
    shard_reader(client, Time(), behind_ms).read([TIME, 0, 0], 10)
    assert ("describe_stream_summary" in client.asked) is asks
    assert client.asked[-2:] == ["get_shard_iterator", "get_records"]


def test_what_kinesis_deleted_unread() -> None:
    with pytest.raises(ConnectorError, match="49 hours ago, and the stream keeps its records for 48 hours"):
        shard_reader(Kinesis(0), Time(), 49 * DAY_MS // 24).read([TIME, 0, 0], 10)
