"""The servers do what tests rely on: they are the real ones, keep their data over kill -9, and end with us."""

from __future__ import annotations

import importlib
import io
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pyarrow as pa
import pymysql
import pytest
from confluent_kafka import KafkaException
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from servers.fixtures import require
from servers.kafka import KafkaServer
from servers.mariadb import MariaDBServer
from servers.postgres import PostgresServer
from servers.process import accepts_connections, wait_for
from servers.rabbitmq import RabbitMQServer
from servers.s3 import S3Server

TESTS = Path(__file__).resolve().parents[1]


def test_kafka_transactions(kafka: KafkaServer) -> None:
    topic = kafka.create_topic(partitions=2)
    old, new = (kafka.producer(transactional_id=f"writer of {topic}") for _ in range(2))
    old.init_transactions(60)
    for value, finish in (("committed", old.commit_transaction), ("aborted", old.abort_transaction)):
        old.begin_transaction()
        old.produce(topic, value, partition=0)
        old.flush(60)
        finish(60)
    old.begin_transaction()
    old.produce(topic, "open", partition=0)
    old.flush(60)
    assert kafka.end_offsets(topic, committed=True)[0] < kafka.end_offsets(topic)[0]

    new.init_transactions(60)  # fences the old one and aborts what it left open
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(60)
    assert fenced.value.args[0].fatal()
    new.begin_transaction()
    new.produce(topic, "new", partition=1, timestamp=7)
    new.commit_transaction(60)

    uncommitted = [record.value for record in kafka.consume_uncommitted(topic)]
    assert uncommitted == [b"committed", b"aborted", b"open", b"new"]
    committed = kafka.consume_committed(topic)
    assert [(record.partition, record.value) for record in committed] == [(0, b"committed"), (1, b"new")]
    assert committed[1].timestamp_ms == 7

    kafka.kill()
    kafka.start()
    assert kafka.consume_committed(topic) == committed
    kafka.produce(topic, ["later", None], key="k", partition=1)
    assert [record.value for record in kafka.consume_committed(topic)][2:] == [b"later", None]


def test_kafka_topics_and_groups(kafka: KafkaServer) -> None:
    topic = kafka.create_topic(partitions=1, max_message_bytes="2000")
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, ["a", "b"], partition=2)
    assert kafka.end_offsets(topic) == {0: 0, 1: 0, 2: 2}
    with pytest.raises(KafkaException):
        kafka.produce(topic, ["x" * 5_000])

    consumer = kafka.consumer(group_id=f"group of {topic}")
    consumer.subscribe([topic])
    message = consumer.poll(60)
    consumer.commit(message, asynchronous=False)
    consumer.close()
    assert kafka.group_offsets(f"group of {topic}", topic) == {2: 1}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_sql(kind: str, request: pytest.FixtureRequest) -> None:
    server: PostgresServer | MariaDBServer = request.getfixturevalue(kind)
    database = server.create_database()
    server.execute("CREATE TABLE visits (name varchar(20) PRIMARY KEY, times int)", database=database)
    for name in ("ann", "böb"):
        server.execute("INSERT INTO visits VALUES (%s, 1)", (name,), database=database)
    with pytest.raises((psycopg.IntegrityError, pymysql.IntegrityError)):
        server.execute("INSERT INTO visits VALUES ('ann', 2)", database=database)

    open_connection = server.connect(database)
    open_connection.cursor().execute("INSERT INTO visits VALUES ('not committed', 1)")
    server.kill()
    assert not accepts_connections(server.port)
    server.start()
    assert server.execute("SELECT name FROM visits ORDER BY name", database=database) == [("ann",), ("böb",)]
    open_connection.close()

    server.stop()
    server.start()
    assert server.execute("SELECT count(*) FROM visits", database=database) == [(2,)]


def test_sql_needs_the_password(postgres: PostgresServer, mariadb: MariaDBServer) -> None:
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres.url().replace(":se", ":other"))
    with pytest.raises(pymysql.err.OperationalError):
        pymysql.connect(host="127.0.0.1", port=mariadb.port, user=mariadb.user, password="other")


def test_s3_objects(s3: S3Server) -> None:
    bucket, files = s3.create_bucket(), s3.filesystem()
    for name, content in (("a/one", b"1"), ("a/two", b"22"), ("three", b"")):
        with files.open_output_stream(f"{bucket}/{name}") as stream:
            stream.write(content)
    assert files.open_input_file(f"{bucket}/a/two").read() == b"22"
    by_uri, path = pa.fs.FileSystem.from_uri(s3.uri(bucket, "a"))
    assert sorted(info.base_name for info in by_uri.get_file_info(pa.fs.FileSelector(path))) == ["one", "two"]
    files.delete_file(f"{bucket}/a/one")
    left = files.get_file_info(pa.fs.FileSelector(bucket, recursive=True))
    assert sorted(info.path for info in left if info.is_file) == [f"{bucket}/a/two", f"{bucket}/three"]


def test_s3_conditional_puts_have_one_winner(s3: S3Server) -> None:
    location = f"s3://{s3.create_bucket()}/table"
    rows = pa.table({"writer": [0]})
    write_deltalake(location, rows, storage_options=s3.storage_options())
    writers = [DeltaTable(location, storage_options=s3.storage_options()) for _ in range(2)]

    def commits(writer: int) -> bool:
        table = writers[writer]
        try:
            # What a second commit of the same version finds is not to be passed over.
            write_deltalake(
                table,
                pa.table({"writer": [writer]}),
                mode="append",
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except CommitFailedError:
            return False
        finally:
            table.update_incremental()
        return True

    with ThreadPoolExecutor(2) as threads:
        for version in range(1, 21):
            won = list(threads.map(commits, range(2)))
            assert sum(won) == 1, f"version {version}"
    assert len(DeltaTable(location, storage_options=s3.storage_options()).history()) == 21
    if s3.keeps_objects:
        s3.kill()
        s3.start()
        assert DeltaTable(location, storage_options=s3.storage_options()).version() == 20


START_ALL = """
import sys, threading
from servers.postgres import PostgresServer
from servers.rabbitmq import RabbitMQServer
from servers.s3 import S3Server

servers = [kind() for kind in (PostgresServer, RabbitMQServer, S3Server)]
threads = [threading.Thread(target=server.start) for server in servers]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*(f"{server.pid}:{server.port}:{server.folder}" for server in servers), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_servers_end_with_the_process_that_started_them() -> None:
    """One whose workers lead groups of their own, one with a shell and a port mapper, one of a single process, as others."""
    for kind in (PostgresServer, RabbitMQServer, S3Server):
        require(kind)
    process = subprocess.Popen(
        [sys.executable, "-c", START_ALL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    with process:
        assert process.stdout is not None
        started = [line.split(":") for line in process.stdout.readline().decode().split()]
        assert all(accepts_connections(int(port)) for _, port, _ in started)
        process.send_signal(signal.SIGKILL)
    assert len(started) == 3
    for pid, port, folder in started:
        wait_for(lambda port=port: not accepts_connections(int(port)), f"the end of process {pid}", 60)
        wait_for(lambda folder=folder: not Path(folder).exists(), f"{folder} to go", 60)


def test_of_two_installations_the_second_waits_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend("taken away by the module, as its own folder")
    install = importlib.import_module("servers.install")
    monkeypatch.setattr(install, "CACHE", tmp_path)
    first = install._alone()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(install._alone)
        said = io.StringIO()
        wait_for(lambda: bool(said.write(capsys.readouterr().out)), "a word", 30)
        assert f"(process {os.getpid()}) fills {tmp_path}; waiting" in said.getvalue()
        assert not second.done()
        first.release()
        second.result(30).release()


@pytest.mark.parametrize(
    ("variable", "value", "fails"),
    [
        ("CI", "", False),
        ("CI", "true", True),
        ("SERVERS_REQUIRED", "1", True),
        ("SERVERS_REQUIRED", "s3 kafka", True),
        ("SERVERS_REQUIRED", "s3", False),
    ],
)
def test_what_is_missing_is_said(
    variable: str, value: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.kafka.LIBRARIES", Path("nowhere"))
    for name in ("CI", "SERVERS_REQUIRED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    outcome = pytest.fail.Exception if fails else pytest.skip.Exception
    with pytest.raises(outcome, match=r"Kafka .* is not here \(nowhere\): make servers"):
        require(KafkaServer)
