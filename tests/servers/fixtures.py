"""The fixtures of `FIXTURES`: one server each for the whole run (Pulsar: for a file), started by the first test to ask.
Those of `_COSTLY` end with the files that `tests/conftest.py` runs together, and start anew should a later test ask.

A test may stop or kill a server: the next one finds it running again. Where a server is not installed, tests that need it
are skipped and say why; they fail where `is_required` says so. Tests that use one are marked ``slow``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest

from servers.process import Server, ServerMissing, is_required

if TYPE_CHECKING:
    from servers.azurite import AzuriteServer
    from servers.cassandra_node import CassandraServer
    from servers.gcs import GcsServer
    from servers.kafka import KafkaServer
    from servers.kinesis import KinesisServer
    from servers.mariadb import MariaDBServer
    from servers.postgres import PostgresServer
    from servers.pulsar import PulsarServer
    from servers.rabbitmq import RabbitMQServer
    from servers.s3 import S3Server
    from servers.search import ElasticsearchServer, OpenSearchServer

FIXTURES = frozenset(
    {
        "kafka",
        "postgres",
        "s3",
        "azurite",
        "gcs",
        "mariadb",
        "opensearch",
        "elasticsearch",
        "kinesis",
        "rabbitmq",
        "cassandra",
        "pulsar",
    }
)
_COSTLY = frozenset({"kafka", "opensearch", "elasticsearch", "cassandra"})  # up to 1.5 % of a core when idle
_started: list[Server] = []
_resting: list[Server] = []
AnyServer = TypeVar("AnyServer", bound=Server)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test-fast` starts no server."""
    for item in items:
        if FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test has stopped runs for the next one."""
    for server in _resting.copy():
        if server.name in getattr(item, "fixturenames", ()):
            _resting.remove(server)
    for server in _started:
        if not server.running and server not in _resting:
            server.start()


def let_rest() -> None:
    """End what takes much of the processor until a test asks for it by name."""
    for server in _started:
        if server.name in _COSTLY and server not in _resting:
            server.kill()
            _resting.append(server)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """A Kafka broker."""
    from servers.kafka import KafkaServer

    yield from _run(KafkaServer)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server."""
    from servers.postgres import PostgresServer

    yield from _run(PostgresServer)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3-compatible store."""
    from servers.s3 import S3Server

    yield from _run(S3Server)


@pytest.fixture(scope="session")
def azurite() -> Iterator[AzuriteServer]:
    """An emulator of Azure's blobs."""
    from servers.azurite import AzuriteServer

    yield from _run(AzuriteServer)


@pytest.fixture(scope="session")
def gcs() -> Iterator[GcsServer]:
    """An emulator of Google's store."""
    from servers.gcs import GcsServer

    yield from _run(GcsServer)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDBServer]:
    """A MariaDB server."""
    from servers.mariadb import MariaDBServer

    yield from _run(MariaDBServer)


@pytest.fixture(scope="session")
def opensearch() -> Iterator[OpenSearchServer]:
    """A cluster of OpenSearch."""
    from servers.search import OpenSearchServer

    yield from _run(OpenSearchServer)


@pytest.fixture(scope="session")
def elasticsearch() -> Iterator[ElasticsearchServer]:
    """A cluster of Elasticsearch."""
    from servers.search import ElasticsearchServer

    yield from _run(ElasticsearchServer)


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQServer]:
    """A RabbitMQ broker."""
    from servers.rabbitmq import RabbitMQServer

    yield from _run(RabbitMQServer)


@pytest.fixture(scope="session")
def cassandra() -> Iterator[CassandraServer]:
    """A Cassandra node."""
    from servers.cassandra_node import CassandraServer

    yield from _run(CassandraServer)


@pytest.fixture(scope="module")
def pulsar() -> Iterator[PulsarServer]:
    """A Pulsar broker. It takes most of a core, whether it has something to do or not: it ends with the file that asks."""
    from servers.pulsar import PulsarServer

    yield from _run(PulsarServer)


@pytest.fixture(scope="session")
def kinesis() -> Iterator[KinesisServer]:
    """A simulation of Kinesis."""
    from servers.kinesis import KinesisServer

    yield from _run(KinesisServer)


def require(kind: type[Server]) -> None:
    """Skip or fail the test when a server is not installed."""
    try:
        kind.check_installed()
    except ServerMissing as reason:
        if is_required(kind.name):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


def _run(kind: type[AnyServer]) -> Iterator[AnyServer]:
    require(kind)
    with kind() as server:
        _started.append(server)
        yield server
        _started.remove(server)
        if server in _resting:
            _resting.remove(server)
