"""The fixtures `kafka`, `postgres`, `s3` and `mariadb`: one server each for the whole run, started by the first test to ask.

A test may stop or kill a server: the next one finds it running again. Where a server is not installed, tests that need it
are skipped and say why; with ``CI`` or ``SERVERS_REQUIRED`` set they fail. Tests that use one are marked ``slow``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest

from servers.process import Server, ServerMissing

if TYPE_CHECKING:
    from servers.kafka import KafkaServer
    from servers.mariadb import MariaDBServer
    from servers.postgres import PostgresServer
    from servers.s3 import S3Server

FIXTURES = frozenset({"kafka", "postgres", "s3", "mariadb"})
_started: list[Server] = []
AnyServer = TypeVar("AnyServer", bound=Server)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test-fast` starts no server."""
    for item in items:
        if FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What a test has stopped runs for the next one."""
    for server in _started:
        if not server.running:
            server.start()


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
def mariadb() -> Iterator[MariaDBServer]:
    """A MariaDB server."""
    from servers.mariadb import MariaDBServer

    yield from _run(MariaDBServer)


def require(kind: type[Server]) -> None:
    """Skip or fail the test when a server is not installed."""
    try:
        kind.check_installed()
    except ServerMissing as reason:
        if os.environ.get("CI") or os.environ.get("SERVERS_REQUIRED"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


def _run(kind: type[AnyServer]) -> Iterator[AnyServer]:
    require(kind)
    with kind() as server:
        _started.append(server)
        yield server
        _started.remove(server)
