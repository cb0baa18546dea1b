"""Which answers of other systems a restart cannot mend, connector by connector: it ends the job or is waited for."""

from __future__ import annotations

import errno
import sqlite3
import ssl
from types import SimpleNamespace
from typing import Any

import cassandra
import confluent_kafka
import pika
import psycopg
import pymysql
import pytest

from changelog_engine.connectors.cassandra.sink import CassandraWriter, ConnectionOptions
from changelog_engine.connectors.elasticsearch.cluster import Cluster, MayPassError
from changelog_engine.connectors.jdbc.dialects import MySqlDialect, PostgresDialect, SqliteDialect
from changelog_engine.connectors.kafka.clients import Troubles, failure
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.kinesis.clients import Client as KinesisClient
from changelog_engine.connectors.pulsar.clients import Client as PulsarClient
from changelog_engine.connectors.rabbitmq import link
from changelog_engine.driver.mistakes import is_final, is_mistake, origin_of
from changelog_engine.errors import (
    ChangelogEngineError,
    ConnectorError,
    RefusedForGoodError,
    StorageError,
    UserFunctionError,
)
from changelog_engine.spark.task import describe_failure, failure_of
from changelog_engine.storage.retry import storage_error


def kafka(code: int, text: str = "said", seen: int | None = None) -> ConnectorError:
    troubles = Troubles()
    if seen is not None:
        troubles.error(confluent_kafka.KafkaError(seen, text))
    properties = ClientProperties({"bootstrap.servers": "there"}, "KafkaSink")
    error = confluent_kafka.KafkaException(confluent_kafka.KafkaError(code, text))
    return failure(properties, "writing to topic 't'", error, troubles)


def rabbitmq(error: BaseException) -> ConnectorError:
    options = SimpleNamespace(where="RabbitMQ (there)", user="me")
    return link.failure(options, "writing to queue 'q'", error)  # type: ignore[arg-type]


def pulsar(kind: str) -> ConnectorError:
    client: Any = SimpleNamespace(named="Pulsar (there)", _reachability=lambda: "")
    return PulsarClient.failure(client, "writing to 't'", "t", kind, kind)


def written_to_cassandra(error: Exception) -> ConnectorError:
    writer: Any = SimpleNamespace(
        _failed=((1, "a"), error),
        _where=ConnectionOptions(("there",)).where,
        _sink=SimpleNamespace(query="INSERT"),
    )
    with pytest.raises(ConnectorError) as raised:
        CassandraWriter._check(writer)
    return raised.value


def elasticsearch(status: int) -> Exception:
    cluster: Any = object.__new__(Cluster)
    cluster._options = SimpleNamespace(shown="there", user=None)
    answer = SimpleNamespace(status=status, data=b"said")
    with pytest.raises((ConnectorError, MayPassError)) as raised:
        cluster._answer(answer, "POST", "/_bulk")
    return raised.value


def by_broker(code: int, text: str) -> BaseException:
    return pika.exceptions.ChannelClosedByBroker(code, text)


KAFKA = confluent_kafka.KafkaError
LASTING = {
    "kafka: too large": kafka(KAFKA.MSG_SIZE_TOO_LARGE),
    "kafka: no right": kafka(KAFKA.TOPIC_AUTHORIZATION_FAILED),
    "kafka: a bad record": kafka(KAFKA.INVALID_RECORD),
    "kafka: timed out, as the login is refused": kafka(
        KAFKA._MSG_TIMED_OUT, "bad login", KAFKA._AUTHENTICATION
    ),
    "kafka: no broker, as its certificate is not trusted": kafka(
        KAFKA._TRANSPORT, "certificate verify failed", KAFKA._SSL
    ),
    "kafka: the address of a controller": kafka(KAFKA._UNSUPPORTED_FEATURE),
    "rabbitmq: no right": rabbitmq(by_broker(403, "ACCESS_REFUSED - access to queue")),
    "rabbitmq: no queue": rabbitmq(by_broker(404, "NOT_FOUND - no queue 'q'")),
    "rabbitmq: too large": rabbitmq(by_broker(406, "PRECONDITION_FAILED - message size")),
    "rabbitmq: no TLS there": rabbitmq(ssl.SSLError(1, "WRONG_VERSION_NUMBER")),
    "pulsar: no topic": pulsar("TopicNotFound"),
    "pulsar: no right": pulsar("AuthorizationError"),
    "pulsar: too large": pulsar("MessageTooBig"),
    "pulsar: a schema": pulsar("IncompatibleSchema"),
    "cassandra: no table": written_to_cassandra(cassandra.InvalidRequest("unconfigured table")),
    "cassandra: no right": written_to_cassandra(cassandra.Unauthorized("no MODIFY permission")),
    "elasticsearch: no right": elasticsearch(403),
    "elasticsearch: a bad request": elasticsearch(400),
    "kinesis: a record that is too large": KinesisClient.refused(
        SimpleNamespace(failure=lambda what: ConnectorError(what)),
        "too large",  # type: ignore[arg-type]
    ),
    "files: no right": storage_error(PermissionError(errno.EACCES, "Permission denied"), "write", "/a/b", 1),
    "files: a disk that is read-only": storage_error(OSError(errno.EROFS, "Read-only"), "write", "/a/b", 1),
}
PASSING = {
    "kafka: no broker": kafka(KAFKA._TRANSPORT),
    "kafka: too few replicas": kafka(KAFKA.NOT_ENOUGH_REPLICAS),
    "kafka: fenced": kafka(KAFKA._FENCED),
    "kafka: a broker that ended within a login": kafka(KAFKA._AUTHENTICATION, "Broker transport failure"),
    "kafka: a broker that ended within a handshake": kafka(
        KAFKA._TRANSPORT, "SSL handshake failed: Disconnected", KAFKA._SSL
    ),
    "rabbitmq: a queue whose node restarts": rabbitmq(
        by_broker(404, "home node of queue is down or inaccessible")
    ),
    "rabbitmq: a broker that ended within a handshake": rabbitmq(ssl.SSLEOFError(8, "EOF occurred")),
    "rabbitmq: seldom checkpoints": rabbitmq(
        by_broker(406, "delivery acknowledgement on channel 1 timed out")
    ),
    "rabbitmq: forced to close": rabbitmq(pika.exceptions.ConnectionClosedByBroker(320, "CONNECTION_FORCED")),
    "pulsar: a full backlog": pulsar("ProducerBlockedQuotaExceededError"),
    "pulsar: timed out": pulsar("Timeout"),
    "cassandra: timed out": written_to_cassandra(cassandra.WriteTimeout("slow", write_type=0)),
    "cassandra: a busy node": written_to_cassandra(cassandra.OperationTimedOut()),
    "files: a full disk": storage_error(OSError(errno.ENOSPC, "No space left"), "write", "/a/b", 1),
    "files: of a disk": storage_error(OSError(errno.EIO, "I/O"), "write", "/a/b", 1),
}


@pytest.mark.parametrize("what", [*LASTING, *PASSING])
def test_what_lasts_is_counted_and_what_may_pass_is_not(what: str) -> None:
    """Also as the driver has it of a worker; either way it is never final at once."""
    error: Any = {**LASTING, **PASSING}[what]
    assert isinstance(error, RefusedForGoodError | ConnectorError | StorageError)
    for each in (error, failure_of(describe_failure(error))):
        assert is_mistake(each) is (what in LASTING)
        assert not is_final(each)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (KAFKA.MSG_SIZE_TOO_LARGE, "'max.request.size'"),
        (KAFKA._FENCED, "transactional id prefix is the same"),
    ],
)
def test_kafka_s_answers_that_need_a_remedy_have_one(code: int, remedy: str) -> None:
    assert remedy in str(kafka(code))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_cluster_is_asked_again(status: int) -> None:
    assert isinstance(elasticsearch(status), MayPassError)


def _mysql(number: int, kind: type[Exception] = pymysql.err.OperationalError) -> Exception:
    return kind(number, "said")


def _untrusted() -> Exception:
    """As PyMySQL has it of a certificate that nobody signed whom it trusts."""
    error: Any = _mysql(2003)
    error.original_exception = ssl.SSLCertVerificationError(1, "certificate verify failed")
    return error  # type: ignore[no-any-return]


def _postgresql(state: str) -> Exception:
    return psycopg.errors.lookup(state)("said")


@pytest.mark.parametrize(
    ("dialect", "error", "passes"),
    [
        (PostgresDialect(), _postgresql("42P01"), False),  # no table
        (PostgresDialect(), _postgresql("42703"), False),  # no column
        (PostgresDialect(), _postgresql("42501"), False),  # no right
        (PostgresDialect(), _postgresql("22P02"), False),  # another type
        (PostgresDialect(), psycopg.OperationalError('FATAL:  password authentication failed for user "a"'), False),
        (PostgresDialect(), psycopg.OperationalError('FATAL:  database "a" does not exist'), False),
        (PostgresDialect(), psycopg.OperationalError("server does not support SSL, but SSL was required"), False),
        (PostgresDialect(), psycopg.OperationalError("received invalid response to SSL negotiation: J"), False),
        (PostgresDialect(), psycopg.OperationalError("SSL error: certificate verify failed"), False),
        (PostgresDialect(), psycopg.OperationalError("fe_sendauth: no password supplied"), False),
        (PostgresDialect(), psycopg.OperationalError("SSL connection has been closed unexpectedly"), True),
        (PostgresDialect(), psycopg.OperationalError("FATAL:  the database system is starting up"), True),
        (PostgresDialect(), psycopg.OperationalError("connection refused"), True),
        (PostgresDialect(), _postgresql("25006"), True),  # a standby now
        (PostgresDialect(), _postgresql("53100"), True),  # a full disk
        (PostgresDialect(), _postgresql("XX000"), True),
        (MySqlDialect(), _mysql(1146, pymysql.err.ProgrammingError), False),
        (MySqlDialect(), _mysql(1054), False),
        (MySqlDialect(), _mysql(1142), False),
        (MySqlDialect(), _mysql(1045), False),
        (MySqlDialect(), _mysql(2026), False),  # no TLS, and it is required
        (MySqlDialect(), _untrusted(), False),
        (MySqlDialect(), _mysql(2003), True),  # nobody there
        (MySqlDialect(), _mysql(1047), True),  # a member of Galera that is not ready
        (MySqlDialect(), _mysql(1114), True),  # a full disk
        (MySqlDialect(), _mysql(1226), True),  # too many connections of a user
    ],
)  # fmt: skip
def test_what_databases_refuse_for_good(dialect: Any, error: Exception, passes: bool) -> None:
    assert dialect.may_pass(error) is passes


def test_sqlite_names_outages_and_mistakes_alike() -> None:
    """A missing table is an OperationalError there, in a sink and in a function of the user's."""
    connection = sqlite3.connect(":memory:")
    with pytest.raises(sqlite3.OperationalError) as raised:
        connection.execute("INSERT INTO nowhere VALUES (1)")
    connection.close()
    assert not SqliteDialect().may_pass(raised.value)
    failure = UserFunctionError("map raised")
    failure.__cause__ = raised.value
    assert is_mistake(failure)
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    failure.__cause__ = full
    assert not is_mistake(failure)


def test_refusals_are_the_same_whichever_row_was_met_first() -> None:
    one, other = RefusedForGoodError("row 'a'", "no table"), RefusedForGoodError("row b, as c", "no table")
    kept: ChangelogEngineError = failure_of(describe_failure(one))
    assert origin_of(kept).message == origin_of(other).message == "no table"


def test_a_schema_that_asks_a_service_in_vain_is_no_refusal() -> None:
    error = RefusedForGoodError("the record cannot be read")
    error.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    assert not is_mistake(error)
