"""A MariaDB server with one user, whose password is needed."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql

from servers.process import HOST, Server, accepts_connections, require_program

_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
_PACKAGE = "mariadb-server-core mariadb-client-core"
_ACCOUNT = """
CREATE DATABASE IF NOT EXISTS {database};
CREATE USER IF NOT EXISTS '{user}'@'{host}' IDENTIFIED BY '{password}';
GRANT ALL ON *.* TO '{user}'@'{host}' WITH GRANT OPTION;
"""


class MariaDBServer(Server):
    """A server.

    Attributes:
        user: Its user, who may do everything.
        password: Of that user.
        database: The database that is there from the start.
    """

    name = "mariadb"
    users = ("nobody",)
    user = "tester"
    password = "se:cr@t/word"
    database = "tests"

    @classmethod
    def check_installed(cls) -> None:
        for program in ("mariadbd", "mariadb-install-db", "my_print_defaults"):
            require_program(program, _FOLDERS, package=_PACKAGE)

    def prepare(self) -> None:
        install = require_program("mariadb-install-db", _FOLDERS, package=_PACKAGE)
        self.run_tool(
            [
                install,
                "--no-defaults",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
                f"--datadir={self._data}",
            ]
        )
        account = {"database": self.database, "user": self.user, "password": self.password, "host": HOST}
        self._first_statements.write_text(_ACCOUNT.format(**account))
        self._first_statements.chmod(0o644)  # the folder is closed to others

    def command(self) -> list[str]:
        return [
            require_program("mariadbd", _FOLDERS, package=_PACKAGE),
            "--no-defaults",
            f"--datadir={self._data}",
            f"--init-file={self._first_statements}",
            f"--bind-address={HOST}",
            f"--port={self.port}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            "--character-set-server=utf8mb4",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=8M",
            "--innodb-flush-log-at-trx-commit=2",  # outlives the process, not the machine
        ]

    def is_ready(self) -> bool:
        if not accepts_connections(self.port):
            return False
        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _first_statements(self) -> Path:
        return self.folder / "account.sql"

    def url(self, database: str | None = None, scheme: str = "mysql") -> str:
        """``mysql://user:password@host:port/database``."""
        return f"{scheme}://{self.user}:{quote(self.password, safe='')}@{self.address(database)}"

    def jdbc_url(self, database: str | None = None) -> str:
        """``jdbc:mysql://host:port/database``, without user and password."""
        return f"jdbc:mysql://{self.address(database)}"

    def address(self, database: str | None = None) -> str:
        """``host:port/database``."""
        return f"{HOST}:{self.port}/{database or self.database}"

    def connect(self, database: str | None = None, **options: Any) -> pymysql.Connection:
        """A connection; options are those of `pymysql.connect`."""
        return pymysql.connect(
            host=HOST,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database or self.database,
            charset="utf8mb4",
            **options,
        )

    def execute(
        self, statement: str, parameters: tuple[Any, ...] = (), *, database: str | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own; its rows, if it has any."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            connection.commit()
            return list(cursor.fetchall())

    def create_database(self) -> str:
        """Make an empty database; its name."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name}")
        return name
