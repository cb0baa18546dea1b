"""A PostgreSQL server with one user, whose password is needed."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from servers.process import HOST, Server, accepts_connections, require_program

_PACKAGED = [
    str(folder)
    for folder in sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda f: int(f.parent.name), reverse=True
    )
]
_CONFIGURATION = """
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
fsync = off
shared_buffers = 32MB
max_connections = 100
max_prepared_transactions = 100
log_min_messages = warning
"""


class PostgresServer(Server):
    """A server.

    Attributes:
        user: Its superuser.
        password: Of that user.
        database: The database that is there from the start.
    """

    name = "postgres"
    users = ("postgres", "nobody")
    stop_signal = signal.SIGINT
    user = "tester"
    password = "se:cr@t/word"
    database = "postgres"

    @classmethod
    def check_installed(cls) -> None:
        for program in ("initdb", "postgres"):
            require_program(program, _PACKAGED, package="postgresql")

    def prepare(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)  # the folder is closed to others
        arguments = [
            "--auth=scram-sha-256",
            f"--username={self.user}",
            f"--pwfile={secret}",
            "--encoding=UTF8",
        ]
        initdb = require_program("initdb", _PACKAGED, package="postgresql")
        self.run_tool([initdb, *arguments, "--locale=C", "--no-sync", f"--pgdata={self._data}"])
        secret.unlink()
        with (self._data / "postgresql.conf").open("a") as configuration:
            configuration.write(_CONFIGURATION.format(host=HOST, port=self.port))

    def command(self) -> list[str]:
        return [require_program("postgres", _PACKAGED, package="postgresql"), "-D", str(self._data)]

    def is_ready(self) -> bool:
        if not accepts_connections(self.port):
            return False
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str | None = None) -> str:
        """``postgresql://user:password@host:port/database``."""
        return f"postgresql://{self.user}:{quote(self.password, safe='')}@{self.address(database)}"

    def jdbc_url(self, database: str | None = None) -> str:
        """``jdbc:postgresql://host:port/database``, without user and password."""
        return f"jdbc:postgresql://{self.address(database)}"

    def address(self, database: str | None = None) -> str:
        """``host:port/database``."""
        return f"{HOST}:{self.port}/{database or self.database}"

    def connect(self, database: str | None = None, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection; options are those of `psycopg.connect`."""
        return psycopg.connect(self.url(database), **options)

    def execute(
        self, statement: str, parameters: tuple[Any, ...] = (), *, database: str | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own; its rows, if it has any."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def create_database(self) -> str:
        """Make an empty database; its name."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with self.connect(autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return name
