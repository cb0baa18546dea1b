"""Servers that take connections and say nothing, as one that was stopped: who asks them ends, and says who is silent."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from servers.cassandra_node import CassandraServer
from servers.process import Server
from servers.pulsar import TOKENS, PulsarServer
from servers.rabbitmq import RabbitMQServer
from servers.search import SearchServer
from support.databases import Database

from api.common import Types
from api.common.serialization import SimpleStringSchema
from api.datastream.connectors import (
    DeliveryGuarantee,
    JdbcExecutionOptions,
    JdbcSink,
    RMQConnectionConfig,
    RMQSink,
    RMQSource,
)
from api.datastream.connectors.elasticsearch import Elasticsearch7SinkBuilder, ElasticsearchEmitter
from api.datastream.connectors.jdbc import JdbcConnectionOptions
from api.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from api.datastream.connectors.kinesis import FlinkKinesisConsumer, KinesisStreamsSink, PartitionKeyGenerator
from api.datastream.connectors.pulsar import PulsarSink, PulsarSource
from changelog_engine.connectors import reconnecting
from changelog_engine.connectors.cassandra import CassandraSink, ConnectionOptions
from changelog_engine.connectors.cassandra import sink as cassandra_sink
from changelog_engine.connectors.jdbc import session
from changelog_engine.connectors.kafka import clients, exactly_once, offsets, producing, transactions
from changelog_engine.connectors.kafka import reader as kafka_reader
from changelog_engine.connectors.kinesis import clients as kinesis_clients
from changelog_engine.connectors.kinesis import sink as kinesis_sink
from changelog_engine.connectors.protocols import SinkContext, Split
from changelog_engine.connectors.pulsar import clients as pulsar_clients
from changelog_engine.connectors.rabbitmq import link
from changelog_engine.connectors.rabbitmq import sink as rabbitmq_sink
from changelog_engine.errors import ChangelogEngineError, ConnectorError
from changelog_engine.storage import obstore_client
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.storage.object_store import ObjectStore
from changelog_engine.storage.retry import Retry

LONGEST_S = 60.0  # on a machine that is busy; each takes a few seconds
ROW = Types.ROW([Types.INT(), Types.STRING()])
CONTEXT = SinkContext("job", "sink", 0, 1, "run", 1, True, [])


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        yield listening.getsockname()[1]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bound is a second or so."""
    for module, names in {
        reconnecting: ["PATIENCE_S"],
        clients: ["REQUEST_TIMEOUT_S", "CONTACT_TIMEOUT_S"],
        exactly_once: ["_STEP_TIMEOUT_S"],
        transactions: ["REQUEST_TIMEOUT_S", "_CONNECT_S", "_ENDED_TIMEOUT_S"],
        link: ["ANSWER_TIMEOUT_S"],
        cassandra_sink: ["_CONNECT_TIMEOUT_S", "_REQUEST_TIMEOUT_S"],
        kinesis_clients: ["_CONNECT_TIMEOUT_S", "_READ_TIMEOUT_S"],
        pulsar_clients: ["_HTTP_TIMEOUT_S"],
        obstore_client: ["SILENCE_S", "REQUEST_S"],
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, 1)
    monkeypatch.setattr(obstore_client, "_RETRIES", {"max_retries": 0})
    monkeypatch.setattr(producing, "topics_of", partial(clients.topics_of, timeout_s=1.0))
    cluster = partial(offsets.Cluster, timeout_s=1.0)
    monkeypatch.setattr("changelog_engine.connectors.kafka.source.Cluster", cluster)
    monkeypatch.setattr(exactly_once, "Transactions", partial(transactions.Transactions, timeout_s=1.0))
    connected = partial(reconnecting.connected, patience_s=1.0)
    for module in ("reconnecting", "pulsar.sink", "pulsar.source", "pulsar.reader"):
        monkeypatch.setattr(f"changelog_engine.connectors.{module}.connected", connected)
    monkeypatch.setattr(session, "_FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(kinesis_sink, "_MOST_TRIES", 2)


def jdbc(kind: str, exactly_once: bool, port: int) -> None:
    milliseconds = "" if kind == "postgresql" else "000"
    bounds = f"connectTimeout=1{milliseconds}&socketTimeout=1{milliseconds}"
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_user_name("u").with_password("secret")
    options = builder.with_url(f"jdbc:{kind}://127.0.0.1:{port}/d?{bounds}").build()
    make = JdbcSink.exactly_once_sink if exactly_once else JdbcSink.sink
    retries = JdbcExecutionOptions.builder().with_max_retries(1).build()
    made: Any = make("INSERT INTO t VALUES (?, ?)", ROW, options, retries)
    writer = made._function.committing_writer(CONTEXT)
    writer.write([(1, "a")])
    writer.prepare(False)


def kafka_source(port: int) -> Any:
    builder = KafkaSource.builder().set_bootstrap_servers(f"127.0.0.1:{port}").set_topics("t")
    builder.set_group_id("g")
    return builder.set_value_only_deserializer(SimpleStringSchema()).build()._source


def kafka_sink(port: int, guarantee: DeliveryGuarantee, timeout_ms: int = 1_000) -> None:
    schema = KafkaRecordSerializationSchema.builder().set_topic("t")
    schema.set_value_serialization_schema(SimpleStringSchema())
    builder = KafkaSink.builder().set_bootstrap_servers(f"127.0.0.1:{port}")
    builder.set_record_serializer(schema.build()).set_delivery_guarantee(guarantee)
    builder.set_transactional_id_prefix("p").set_property("delivery.timeout.ms", str(timeout_ms))
    sink: Any = builder.build()._sink
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        sink.committing_writer(CONTEXT)
        return
    writer = sink.writer(0, 1)
    writer.write(["a"])
    writer.flush()


def pulsar_source(port: int) -> Any:
    builder = PulsarSource.builder().set_service_url(f"pulsar://127.0.0.1:{port}").set_topics("t")
    builder.set_admin_url(f"http://127.0.0.1:{port}").set_config("pulsar.client.operationTimeoutMs", "1000")
    builder.set_config("pulsar.client.connectionTimeoutMs", "1000")
    builder.set_subscription_name("s").set_deserialization_schema(SimpleStringSchema())
    return builder.build()._source


def pulsar_pattern(port: int) -> Any:
    builder = PulsarSource.builder().set_service_url(f"pulsar://127.0.0.1:{port}").set_topic_pattern("t.*")
    builder.set_admin_url(f"http://127.0.0.1:{port}").set_config("pulsar.client.operationTimeoutMs", "1000")
    builder.set_config("pulsar.client.connectionTimeoutMs", "1000")
    builder.set_subscription_name("s").set_deserialization_schema(SimpleStringSchema())
    return builder.build()._source


def pulsar_sink(port: int) -> Any:
    builder = PulsarSink.builder().set_service_url(f"pulsar://127.0.0.1:{port}").set_topics("t")
    builder.set_config("pulsar.client.operationTimeoutMs", "1000")
    builder.set_config("pulsar.client.connectionTimeoutMs", "1000")
    return builder.set_serialization_schema(SimpleStringSchema()).build()._sink


def rabbitmq(port: int) -> RMQConnectionConfig:
    builder = RMQConnectionConfig.Builder().set_host("127.0.0.1").set_port(port).set_virtual_host("/")
    return builder.set_user_name("u").set_password("p").set_connection_timeout(1_000).build()


def queue_source(port: int) -> Any:
    return RMQSource(rabbitmq(port), "q", False, SimpleStringSchema())._function


def queue_sink(port: int) -> Any:
    return RMQSink(rabbitmq(port), "q", SimpleStringSchema())._function


def cassandra(port: int) -> CassandraSink:
    return CassandraSink("INSERT INTO a.b (c) VALUES (?)", ConnectionOptions(("127.0.0.1",), port))


def elasticsearch(port: int) -> Any:
    builder = Elasticsearch7SinkBuilder().set_hosts([f"127.0.0.1:{port}"])
    builder.set_emitter(ElasticsearchEmitter.static_index("i")).set_socket_timeout(1_000)
    return builder.build()._sink


def of_kinesis(port: int) -> dict[str, str]:
    login = {f"aws.credentials.provider.basic.{name}": "x" for name in ("accesskeyid", "secretkey")}
    return {"aws.region": "eu-west-1", "aws.endpoint": f"http://127.0.0.1:{port}", **login}


def kinesis_source(port: int) -> Any:
    return FlinkKinesisConsumer("s", SimpleStringSchema(), of_kinesis(port))._function


def kinesis_read(port: int) -> None:
    position = ["oldest", None, 0]
    reader = kinesis_source(port).reader(Split("s/shard-0", position))
    while True:
        assert not reader.read(position, 10).values


def kinesis_write(port: int) -> None:
    builder = (
        KinesisStreamsSink.builder().set_kinesis_client_properties(of_kinesis(port)).set_stream_name("s")
    )
    builder.set_serialization_schema(SimpleStringSchema())
    sink: Any = builder.set_partition_key_generator(PartitionKeyGenerator.fixed()).build()._sink
    writer = sink.committing_writer(CONTEXT)
    writer.write(["a"])
    writer.prepare(False)


def s3(port: int) -> ObjectStore:
    options = {"s3.endpoint": f"http://127.0.0.1:{port}", "s3.region": "eu-west-1"}
    options |= {"s3.access-key": "x", "s3.secret-key": "x"}
    return ObjectStore("s3://bucket/a", Retry(tries=1), FileSystems(options))


def azure(port: int) -> ObjectStore:
    host = "account.dfs.core.windows.net"
    options = {f"fs.azure.account.key.{host}": "eHh4", "fs.azure.abfs.endpoint": f"http://127.0.0.1:{port}"}
    return ObjectStore(f"abfs://container@{host}/a", Retry(tries=1), FileSystems(options))


ASKING: dict[str, Callable[[int], object]] = {
    "PostgreSQL, sink": lambda port: jdbc("postgresql", False, port),
    "PostgreSQL, exactly once": lambda port: jdbc("postgresql", True, port),
    "MariaDB, sink": lambda port: jdbc("mariadb", False, port),
    "MySQL, exactly once": lambda port: jdbc("mysql", True, port),
    "Kafka, splits": lambda port: kafka_source(port).splits(1),
    "Kafka, sink": lambda port: kafka_sink(port, DeliveryGuarantee.AT_LEAST_ONCE),
    "Kafka, exactly once": lambda port: kafka_sink(port, DeliveryGuarantee.EXACTLY_ONCE),
    "Pulsar, before the start": lambda port: pulsar_source(port).check_before_start(),
    "Pulsar, a pattern": lambda port: pulsar_pattern(port).check_before_start(),
    "Pulsar, splits": lambda port: pulsar_source(port).splits(1),
    "Pulsar, reading": lambda port: (
        pulsar_source(port)
        .reader(Split("persistent://public/default/t", ["earliest", None, None]))
        .read(["earliest", None, None], 10)
    ),
    "Pulsar, before writing": lambda port: pulsar_sink(port).check_before_start(),
    "Pulsar, sink": lambda port: pulsar_sink(port).writer(0, 1),
    "RabbitMQ, before the start": lambda port: queue_source(port).check_before_start(),
    "RabbitMQ, reading": lambda port: queue_source(port).reader(Split("queue", {})).read({}, 10),
    "RabbitMQ, sink": lambda port: queue_sink(port).writer(0, 1),
    "Cassandra, before the start": lambda port: cassandra(port).check_before_start(),
    "Cassandra, sink": lambda port: cassandra(port).writer(0, 1),
    "Elasticsearch, before the start": lambda port: elasticsearch(port).check_before_start(),
    "Elasticsearch, sink": lambda port: elasticsearch(port).committing_writer(CONTEXT),
    "Kinesis, before the start": lambda port: kinesis_source(port).check_before_start(),
    "Kinesis, reading": kinesis_read,
    "Kinesis, sink": kinesis_write,
    "S3, reading": lambda port: s3(port).read("b", 5),
    "S3, listing": lambda port: s3(port).list(),
    "S3, writing": lambda port: s3(port).write_durable("b", b"1"),
    "S3, a commit": lambda port: s3(port).put_if_absent("b", b"1"),
    "Azure, reading": lambda port: azure(port).read("b"),
    "Azure, a part": lambda port: azure(port).read_range("b", 0, 1 << 30),
    "Azure, a footer": lambda port: azure(port).read_footer("b"),
    "Azure, opening": lambda port: azure(port).open("b"),
    "Azure, looking": lambda port: azure(port).size("b"),
    "Azure, listing": lambda port: azure(port).list(),
    "Azure, moving": lambda port: azure(port).move("b", "c"),
    "Azure, deleting": lambda port: azure(port).delete_tree("b"),
    "Azure, writing": lambda port: azure(port).write_durable("b", b"1"),
    "Azure, a commit": lambda port: azure(port).put_if_absent("b", b"1"),
}


LONG = {
    "Kafka, exactly once",
    "Kinesis, before the start",
    "S3, reading",
    "S3, listing",
    "S3, writing",
}  # for 10 s


@pytest.mark.parametrize(
    "who", [pytest.param(who, marks=pytest.mark.slow) if who in LONG else who for who in ASKING]
)
def test_who_asks_a_silent_server_ends_and_names_it(who: str, port: int) -> None:
    error = asked(ASKING[who], port)
    named = f"(127.0.0.1|localhost)(:|', |, port ){port}"
    named = {"S3": "s3://bucket", "Azure": "abfs://container"}.get(who.partition(",")[0], named)
    assert isinstance(error, ChangelogEngineError)
    assert re.search(named, str(error)), error
    if who.startswith("Pulsar") and "admin" not in str(error):
        assert "pulsar.client.connectionTimeoutMs says how long" in str(error)
    if who.startswith(("PostgreSQL", "M")):
        assert re.search(r"give the URL a longer (connect|socket)Timeout", str(error))


def asked(ask: Callable[[int], object], port: int) -> BaseException | None:
    """What asking ends with; in a thread, because what waits for ever cannot be interrupted."""
    ended: Future[BaseException | None] = Future()

    def run() -> None:
        try:
            ask(port)
        except BaseException as error:
            ended.set_result(error)
        else:
            ended.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    with contextlib.suppress(TimeoutError):
        return ended.result(LONGEST_S)
    pytest.fail(f"it still waits after {LONGEST_S:.0f} s")


@pytest.mark.parametrize(
    ("query", "limit_s"), [("", 60), ("?retry_limit_seconds=7", 7), ("?project_id=p", 60)]
)
def test_google_s_store_is_not_asked_again_for_a_quarter_of_an_hour(query: str, limit_s: int) -> None:
    opened = FileSystems().open(f"gs://anonymous@bucket/a{query}")
    assert (opened.path, opened.shown) == ("bucket/a", "gs://bucket/a")
    _, (options,) = opened.file_system.__reduce__()
    assert options["retry_time_limit"] == timedelta(seconds=limit_s)


class Tunnel:
    """A way to a server that can fall silent: it takes what is sent, and gives nothing any more.

    Args:
        port: of the server.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._speaks = threading.Event()
        self._speaks.set()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def fall_silent(self) -> None:
        """From now on nothing comes back."""
        self._speaks.clear()

    def close(self) -> None:
        """Let those go that are held."""
        self._listening.close()
        self._speaks.set()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(65_536):
                self._speaks.wait()
                target.sendall(data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_database_that_falls_silent(
    kind: str, exactly_once: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Between two statements, in one of many rows, and in the commit; nothing is lost when it speaks again."""
    database = Database(kind, tmp_path, request)
    database.execute("CREATE TABLE t (n INTEGER, s VARCHAR(40))")
    found = re.fullmatch(r"(jdbc:\w+://)[^/]*:(\d+)(/[^?]*)(?:\?(.*))?", database.url)
    assert found is not None, database.url
    tunnel = Tunnel(int(found[2]))
    second = "1" if kind == "postgres" else "1000"
    more = f"&{found[4]}" if found[4] else ""
    url = f"{found[1]}127.0.0.1:{tunnel.port}{found[3]}?socketTimeout={second}&connectTimeout={second}{more}"
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    options = builder.with_user_name(database.server.user).with_password(database.server.password).build()
    retries = JdbcExecutionOptions.builder().with_max_retries(1).build()
    make = JdbcSink.exactly_once_sink if exactly_once else JdbcSink.sink
    made: Any = make("INSERT INTO t VALUES (?, ?)", ROW, options, retries)
    writer = made._function.committing_writer(CONTEXT)
    writer.write([(1, "a")])
    writer.commit(writer.prepare(False).committables)
    tunnel.fall_silent()

    def write(_: int) -> None:
        writer.write([(number, "a" * 40) for number in range(2, 3_000)])
        writer.prepare(False)

    error = asked(write, 0)
    assert isinstance(error, ConnectorError)
    assert f"127.0.0.1:{tunnel.port}" in str(error)
    assert "give the URL a longer socketTimeout" in str(error) or "timeout ex" in str(error)
    tunnel.close()
    assert database.execute("SELECT n FROM t WHERE n = 1") == [(1,)]


def into_rabbitmq(server: RabbitMQServer) -> Callable[[], None]:
    config = RMQConnectionConfig.Builder().set_uri(server.uri()).build()
    sink: Any = RMQSink(config, f"queue-{uuid.uuid4().hex}", SimpleStringSchema())._function
    sink.check_before_start()
    return flushing(sink.writer(0, 1), "a")


def into_pulsar(server: PulsarServer) -> Callable[[], None]:
    builder = PulsarSink.builder().set_service_url(server.url).set_topics(server.create_topic())
    builder.set_authentication(TOKENS, f"token:{server.token('admin')}")
    builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    builder.set_config("pulsar.producer.sendTimeoutMs", "5000")
    sink: Any = builder.set_serialization_schema(SimpleStringSchema()).build()._sink
    return flushing(sink.writer(0, 1), "a")


def into_cassandra(server: CassandraServer) -> Callable[[], None]:
    table = server.create_table("k int PRIMARY KEY, v text")
    options = ConnectionOptions(("127.0.0.1",), server.port, server.user, server.password)
    return flushing(
        CassandraSink(f"INSERT INTO {table} (k, v) VALUES (?, ?)", options).writer(0, 1), (1, "a")
    )


def into_opensearch(server: SearchServer) -> Callable[[], None]:
    builder = Elasticsearch7SinkBuilder().set_hosts(server.address).set_socket_timeout(5_000)
    builder.set_connection_username(server.user).set_connection_password(server.password)
    builder.set_emitter(ElasticsearchEmitter.static_index(server.create_index()))
    sink: Any = builder.build()._sink
    writer = sink.committing_writer(CONTEXT)

    def write() -> None:
        writer.write([{"a": 1}])
        writer.prepare(False)

    return write


def flushing(writer: Any, value: object) -> Callable[[], None]:
    def write() -> None:
        writer.write([value])
        writer.flush()

    return write


WRITING: dict[str, Callable[[Any], Callable[[], None]]] = {
    "rabbitmq": into_rabbitmq,
    "pulsar": into_pulsar,
    "cassandra": into_cassandra,
    "opensearch": into_opensearch,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRITING)
def test_a_server_that_is_stopped_between_two_writes(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (link, rabbitmq_sink):
        monkeypatch.setattr(module, "ANSWER_TIMEOUT_S", 5)
    for name in ("_CONNECT_TIMEOUT_S", "_REQUEST_TIMEOUT_S"):
        monkeypatch.setattr(cassandra_sink, name, 5)
    server: Server = request.getfixturevalue(kind)
    write = WRITING[kind](server)
    write()
    with server.stopped():
        error = asked(lambda _: write(), 0)
    assert isinstance(error, ConnectorError)
    assert str(server.port) in str(error)


@pytest.mark.slow
def test_a_source_says_that_kafka_is_silent(port: int, caplog: pytest.LogCaptureFixture) -> None:
    source = kafka_source(port)
    reader = source.reader(Split("t-0", 0))
    deadline = time.monotonic() + LONGEST_S
    while "reading" not in caplog.text and time.monotonic() < deadline:
        assert not reader.read(0, 10).values
        time.sleep(0.01)
    assert re.search(f"Kafka .127.0.0.1:{port}.*reading.*; trying again", caplog.text), caplog.text
    reader.close()


def test_a_source_is_closed_although_kafka_is_silent(
    port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for three quarters of a minute, or for as long as the broker stood still, before a restart began."""
    monkeypatch.setattr(kafka_reader, "_CLOSE_TIMEOUT_S", 0.1)
    reader = kafka_source(port).reader(Split("t-0", 0))
    reader.acknowledged(7)
    assert asked(lambda _: reader.close(), port) is None
    assert f"Kafka (127.0.0.1:{port}) does not answer, so the end of the client" in caplog.text


def test_a_sink_says_that_kafka_is_silent(
    port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producing, "_SILENT_S", 0.0)
    error = asked(lambda at: kafka_sink(at, DeliveryGuarantee.AT_LEAST_ONCE, 4_000), port)
    assert isinstance(error, ConnectorError)
    said = f"Kafka .127.0.0.1:{port}.*writing to topic 't'.*1 records are not delivered yet.*; trying again"
    assert re.search(said, caplog.text)
