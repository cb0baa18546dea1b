"""Databases for tests of JDBC sinks: a PostgreSQL and a MariaDB server, and SQLite files, behind one face."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from api.datastream.connectors.jdbc import JdbcConnectionOptions

KINDS = [
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.slow),
    pytest.param("mariadb", marks=pytest.mark.slow),
]


class Database:
    """An empty database.

    Args:
        kind: ``sqlite``, or the name of a server's fixture.
        folder: for files.
        request: gives the server.
    """

    def __init__(self, kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
        self.kind = kind
        self.server: Any = None
        if kind == "sqlite":
            self.url = f"jdbc:sqlite:{folder / 'rows.db'}"
            self._path = folder / "rows.db"
        else:
            self.server = request.getfixturevalue(kind)
            self.name = self.server.create_database()
            self.url = self.server.jdbc_url(self.name)

    @property
    def options(self) -> JdbcConnectionOptions:
        """As users give them."""
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(self.url)
        if self.server is not None:
            builder.with_user_name(self.server.user).with_password(self.server.password)
        return builder.build()

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own; its rows."""
        if self.server is not None:
            return self.server.execute(sql, database=self.name)
        with contextlib.closing(sqlite3.connect(self._path, timeout=60)) as connection, connection:
            return connection.execute(sql).fetchall()
