"""What differs between the databases: how to connect, which failures may pass, how values are given."""

from __future__ import annotations

import abc
import contextlib
import datetime
import functools
import importlib
import itertools
import logging
import math
import re
import sqlite3
import ssl
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from changelog_engine.clock import Deadline, monotonic_s
from changelog_engine.connectors import packages
from changelog_engine.connectors.jdbc.options import ConnectionOptions
from changelog_engine.connectors.jdbc.placeholders import MYSQL, POSTGRESQL, SQLITE, Grammar
from changelog_engine.connectors.jdbc.replaced import (
    UTC_ZONES,
    Replaced,
    by_mysql,
    by_postgresql,
    by_sqlite,
)
from changelog_engine.connectors.jdbc.urls import database_of, driver_arguments
from changelog_engine.connectors.packages import Package
from changelog_engine.errors import ChangelogEngineError, ConfigurationError
from changelog_engine.formats.texts import time_of_utc, without_zone

log = logging.getLogger("changelog_engine")

T = TypeVar("T")
Converter = Callable[[Any], Any]
Check = Callable[[Any], str]
_SQLITE_PASSING = frozenset({5, 6, 7, 10, 13})  # busy, locked, no memory, of the disk
_SQLITE_WAIT_S = 10
# A server that became a standby, a transaction that was idle or lasted too long.
_POSTGRESQL_PASSING = frozenset({"25006", "25P03", "25P04"})
# What libpq tells of a refused connection is text alone, after FATAL in the server's language.
_POSTGRESQL_NO_LOGIN = re.compile(
    r"FATAL: .*(authentication failed|no pg_hba\.conf entry|does not exist|permission denied|not permitted to log in)"
    r"|no password supplied|does not support SSL|invalid response to SSL negotiation|certificate verify failed"
    r"|server certificate .*does not match|certificate file .*does not exist"
)
_MYSQL_PASSING = frozenset(
    {1040, 1042, 1043, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1205, 1213, 1290, 1927, 4031}
    | {1021, 1037, 1038, 1041, 1114, 1135, 1203, 1206, 1226, 1637}  # no room, or too many connections
    | {1047, 1180, 1836, 3100, 3101}  # of a cluster's member, or read-only
    | {1317, 1792, 1969, 3024}  # interrupted, in a read-only transaction, took too long
    | (set(range(2000, 2100)) - {2026, 2059, 2061})  # of the client, but for TLS and ways to log in
)
# As Java's drivers have it: in another mode a server cuts long texts in silence, and stores 0 for a text without a number.
_STRICT = (
    "sql_mode = IF(@@SESSION.sql_mode REGEXP 'STRICT_(TRANS|ALL)_TABLES', @@SESSION.sql_mode, "
    "CONCAT_WS(',', NULLIF(@@SESSION.sql_mode, ''), 'STRICT_TRANS_TABLES'))"
)
# Of MySQL's notes and warnings: a value was not stored as it was given, or a row was left out (not: as its key is there).
_CHANGED = frozenset({1048, 1264, 1265, 1292, 1364, 1366, 1406, 1452, 1526, 1748, 3819, 4025})
_AT_ROW = re.compile(r" (?:at|for) row \d+$")
LOOK_AGAIN_S = 60.0  # at what becomes of values: somebody may change columns while the sink runs
# INSERT INTO a.b (c, d) VALUES (%s, %s)
_PLAIN_INSERT = re.compile(
    r"(?P<insert>\s*INSERT\s+INTO\s+[\w.\"]+\s*(?:\([\w\s,\"]+\))?\s*VALUES\s*)"
    r"(?P<values>\(\s*%s(?:\s*,\s*%s){0,99}\s*\))\s*;?\s*",
    re.IGNORECASE,
)
_ROWS_AT_ONCE = 100  # of up to 100 values: the protocol has room for 65,535
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_S, _LAST_S = (
    (end - _EPOCH) // datetime.timedelta(seconds=1) for end in (datetime.datetime.min, datetime.datetime.max)
)
# A process that was stopped, or a machine that lost its power, within a transaction keeps its locks from its successor until
# the server ends the transaction; our own wait for nothing but the server.
ABANDONED_S = 20
_LONGEST_LOCK_S = 30
# Kind of a field to the types of PostgreSQL that round or cut its values; the server says nothing of it.
_WHOLE = ("smallint", "integer", "bigint")
_ROUNDED_POSTGRESQL = {
    "INT": ("real",),
    "LONG": ("real", "double precision"),
    "BIG_INT": ("real", "double precision"),
    "FLOAT": _WHOLE,
    "DOUBLE": (*_WHOLE, "real"),
    "BIG_DEC": (*_WHOLE, "real", "double precision", "money"),
    "STRING": ('"char"', "name"),
    "CHAR": ('"char"',),
    "SQL_TIMESTAMP": ("date", "time without time zone"),
    "INSTANT": ("date", "timestamp without time zone"),
}
_WITHOUT_ZONE = "timestamp without time zone"  # takes an INSTANT in the session's zone
# What the digits that a column declares do to its type's values. Decimals are left out: a scale is what their column is for.
_DIGITS_POSTGRESQL = {
    "FLOAT": re.compile(r"numeric\("),
    "DOUBLE": re.compile(r"numeric\("),
    **dict.fromkeys(("SQL_TIME", "SQL_TIMESTAMP", "INSTANT"), re.compile(r"time(stamp)?\([0-5]\)")),
}
# The same of MySQL and MariaDB; of decimals and dates they tell. A time without digits in parentheses has whole seconds.
_WHOLE_MYSQL = ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit")
_ROUNDED_MYSQL = {
    "INT": ("float",),
    "LONG": ("float", "double"),
    "BIG_INT": ("float", "double"),
    "FLOAT": _WHOLE_MYSQL,
    "DOUBLE": (*_WHOLE_MYSQL, "float"),
    "BIG_DEC": (*_WHOLE_MYSQL, "float", "double"),
    "STRING": (*(name for name in _WHOLE_MYSQL if name != "year"), "binary"),  # which is filled up
    "BYTE": ("binary",),
    "SQL_TIME": ("time",),
    "SQL_TIMESTAMP": ("datetime", "timestamp"),
    "INSTANT": ("datetime", "timestamp"),
}
_EXACT_MYSQL = ("time(6)", "datetime(6)", "timestamp(6)")
_DIGITS_MYSQL = {"DOUBLE": "double(", "FLOAT": "float("}
# INSERT INTO a.b (c, d) VALUES (%s, %s) and whatever follows
_COLUMNS = re.compile(
    r"\s*(?:INSERT|REPLACE)\b[\w\s]*?\bINTO\s+(?P<table>(?:`[^`]+`|\"[^\"]+\"|[\w$.])+)\s*\((?P<columns>[^()]*)\)\s*"
    r"VALUES?\s*\(\s*(?:%s|\?)(?:\s*,\s*(?:%s|\?))*\s*\)",
    re.IGNORECASE,
)
_INTO_MYSQL = re.compile(
    r"\s*(?:INSERT|REPLACE)\b[\w\s]*?\bINTO\s+(?P<table>(?:`[^`]+`|[\w$.])+)[\s(]", re.IGNORECASE
)
_BOUNDS_POSTGRESQL = "SELECT " + ", ".join(
    f"CASE current_setting('{name}') WHEN '0' THEN set_config('{name}', '{bound_s}s', true) END"
    for name, bound_s in [
        ("idle_in_transaction_session_timeout", ABANDONED_S),
        ("lock_timeout", _LONGEST_LOCK_S),
    ]
)
# It bounds no client that is silent between the statements of a pipeline (executemany) or right after it (what ends the
# pipeline disarms the server's timer), or that takes no more of an answer: such sessions of ours are ended by the next one.
# A COPY's has other reasons to wait for its client.
_END_ABANDONED = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
    AND application_name = current_setting('application_name') AND state IN ('active', 'idle in transaction')
    AND wait_event IN ('ClientRead', 'ClientWrite') AND query !~* '^\\s*copy\\M'
    AND query_start < clock_timestamp() - interval '{abandoned_s} s'
"""


class Dialect(abc.ABC):
    """One kind of database.

    Attributes:
        package: the Python driver; None where it comes with Python.
        grammar: of its SQL.
        binary: its type of bytes.
        converters: kind of a field's type to what makes the driver's value of a field's value.
        checks: kind of a field's type to why the database would not keep a value of it; "" where it does.
        refused: kinds of types it has no values for.
        closes_idle: whether the server ends connections that were not used for `ABANDONED_S`.
        takes_fewer: whether an INSERT that names no columns may give fewer values than there are.
    """

    name: ClassVar[str]
    package: ClassVar[Package | None]
    grammar: ClassVar[Grammar]
    binary: ClassVar[str]
    converters: ClassVar[dict[str, Converter]]
    checks: ClassVar[dict[str, Check]]
    refused: ClassVar[frozenset[str]]
    closes_idle: ClassVar[bool] = False
    takes_fewer: ClassVar[bool] = False

    def driver(self) -> Any:
        """The Python driver's module."""
        return sqlite3 if self.package is None else self.package.load()

    def check_installed(self) -> None:
        """Say what to install.

        Raises:
            ConfigurationError: the driver is not installed.
        """
        if self.package is not None and not self.package.is_here():
            raise ConfigurationError(f"{self.package.advice}, here and where the workers run")

    def connect(self, options: ConnectionOptions) -> Any:
        """A connection that begins transactions by itself."""
        return self.driver().connect(**driver_arguments(options))

    def rounded(self, connection: Any, sql: str, kinds: Sequence[str]) -> Sequence[tuple[int, str]]:
        """The fields of a statement that ran which the server may round or cut without a word, and what its type is.

        Args:
            kinds: of the fields; of lists those of their elements.
        """
        return ()

    def replaced(self, connection: Any, sql: str, kinds: Sequence[str]) -> Mapping[int, Replaced]:
        """The fields of an INSERT with names of some of whose values the database makes other ones without a word."""
        return {}

    def without_transactions(self, connection: Any, sql: str) -> str:
        """The table that an INSERT writes into and its engine, where that has no transactions; else ""."""
        return ""

    def quoted(self, name: str) -> str:
        """A name as it is, whatever is in it."""
        return '"' + name.replace('"', '""') + '"'

    @abc.abstractmethod
    def columns(self, connection: Any, table: str) -> Sequence[str]:
        """The columns that an INSERT without column names fills, of a table as SQL names it; empty if it is not there."""

    def begin(self, connection: Any) -> None:
        """Begin a transaction that the server ends when it is abandoned, and that waits for no lock without a bound."""

    @abc.abstractmethod
    def write(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement once for each row; returns how many rows of the table it changed, as the database says."""

    @abc.abstractmethod
    def may_pass(self, error: BaseException) -> bool:
        """Whether the same may succeed a little later, on a new connection."""

    def bound_of(self, error: BaseException) -> str:
        """The URL's parameter whose time was over, where the error is that and does not say so; else ""."""
        return ""


def _by_position(found: Iterable[Replaced | None]) -> dict[int, Replaced]:
    return {position: replaced for position, replaced in enumerate(found) if replaced is not None}


@contextlib.contextmanager
def _closed_if_it_fails(connection: Any) -> Iterator[None]:
    """What is asked of a connection right after it was made."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _why_no_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it has half of a surrogate pair, which is not a character"
    return ""


def _why_no_datetime(instant: Any) -> str:
    return "" if _FIRST_S <= instant.seconds <= _LAST_S else "it is not of the years 1 to 9999"


_CHECKS: dict[str, Check] = {"STRING": _why_no_text, "CHAR": _why_no_text, "INSTANT": _why_no_datetime}


class PostgresDialect(Dialect):
    """PostgreSQL by psycopg."""

    name = "postgresql"
    package = packages.POSTGRESQL
    grammar = POSTGRESQL
    binary = "BYTEA"
    converters: ClassVar[dict[str, Converter]] = {
        "INSTANT": lambda instant: _utc(instant).replace(tzinfo=datetime.UTC)
    }
    checks: ClassVar[dict[str, Check]] = {
        **_CHECKS,
        **dict.fromkeys(
            ("STRING", "CHAR"),
            lambda text: "PostgreSQL cannot store NUL in text" if "\0" in text else _why_no_text(text),
        ),
    }
    refused = frozenset({"MAP", "TUPLE", "ROW", "PICKLED_BYTE_ARRAY"})
    takes_fewer = True

    def connect(self, options: ConnectionOptions) -> Any:
        arguments = driver_arguments(options)
        answer_s = arguments.pop("answer_s", None)
        threshold = arguments.pop("prepare_threshold", None)
        connection = _bounded_connection().connect(**arguments)
        connection.answer_s = answer_s
        if threshold is not None:
            connection.prepare_threshold = threshold or None
        with _closed_if_it_fails(connection):
            self._end_abandoned(connection, options)
        return connection

    def _end_abandoned(self, connection: Any, options: ConnectionOptions) -> None:
        """End the sessions of writers that were stopped where no bound of the server's ends them."""
        try:
            (ended,) = connection.execute(_END_ABANDONED.format(abandoned_s=ABANDONED_S)).fetchone()
            connection.commit()
        except self.driver().OperationalError:
            raise
        except self.driver().DatabaseError as error:  # a server that only speaks like PostgreSQL
            log.debug("no look for abandoned sessions at %s: %s", options.shown_url, error)
            connection.rollback()
            return
        if ended:
            log.warning(
                "the database at %s: %d sessions were ended whose process said nothing for %d s within a statement",
                options.shown_url,
                ended,
                ABANDONED_S,
            )

    def rounded(self, connection: Any, sql: str, kinds: Sequence[str]) -> Sequence[tuple[int, str]]:
        numbers = itertools.count(1)
        numbered = re.sub("%[s%]", lambda found: "%" if found[0] == "%%" else f"${next(numbers)}", sql)
        name = f"changelog_engine_{uuid.uuid4().hex}"
        try:
            connection.execute(f"PREPARE {name} AS {numbered}")
            asked = "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = %s"
            (types,) = connection.execute(asked, [name]).fetchone()
            connection.execute(f"DEALLOCATE {name}")
            declared = self._declared(connection, sql)
            connection.commit()
        except self.driver().OperationalError:
            raise
        except self.driver().DatabaseError as error:
            log.debug("no look at the types of %s: %s", sql, error)
            connection.rollback()
            return ()
        zone = connection.info.parameter_status("TimeZone")
        rounded = {
            position: f"{found} in the zone {zone}" if found == _WITHOUT_ZONE else found
            for position, (kind, found) in enumerate(zip(kinds, types, strict=True))
            if found.removesuffix("[]") in _ROUNDED_POSTGRESQL.get(kind, ())
            and (found != _WITHOUT_ZONE or zone not in UTC_ZONES)
        }
        for position, (kind, found) in enumerate(zip(kinds, declared, strict=False)):
            digits = _DIGITS_POSTGRESQL.get(kind)
            if digits is not None and digits.match(found):
                rounded.setdefault(position, found)
        return sorted(rounded.items())

    def replaced(self, connection: Any, sql: str, kinds: Sequence[str]) -> Mapping[int, Replaced]:
        with connection.transaction():  # what fails here leaves the rows' transaction as it is
            declared = self._declared(connection, sql)
        zone = connection.info.parameter_status("TimeZone")
        return _by_position(
            by_postgresql(kind, type_, zone) for kind, type_ in zip(kinds, declared, strict=False)
        )

    def _declared(self, connection: Any, sql: str) -> list[str]:
        """The types of the columns that an INSERT with names fills, with the digits that these declare."""
        into = _COLUMNS.match(sql)
        if into is None:
            return []
        asked = (
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(%s) "
            "AND attnum > 0"
        )
        there = dict(connection.execute(asked, [into["table"].replace("%%", "%")]).fetchall())
        columns = [column.strip() for column in into["columns"].split(",")]
        return [
            there.get(column.strip('"') if column.startswith('"') else column.lower(), "")
            for column in columns
        ]

    def columns(self, connection: Any, table: str) -> Sequence[str]:
        asked = (
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped "
            "ORDER BY attnum"
        )
        return [name for (name,) in connection.execute(asked, [table])]

    def begin(self, connection: Any) -> None:
        # Of this transaction alone, as a pooler gives the connection to others; bounds that are set already stay.
        connection.execute(_BOUNDS_POSTGRESQL)

    def write(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        # A plain INSERT of many rows at once: half the work of one statement a row. With ON CONFLICT DO UPDATE it would not
        # be the same, as one statement must not touch a row twice.
        found = _PLAIN_INSERT.fullmatch(sql)
        with connection.cursor() as cursor:
            if found is None or len(rows) == 1:
                cursor.executemany(sql, rows)
                return int(cursor.rowcount)
            changed = 0
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                some = rows[start : start + _ROWS_AT_ONCE]
                cursor.execute(
                    f"{found['insert']}{', '.join([found['values']] * len(some))}",
                    list(itertools.chain.from_iterable(some)),
                )
                changed += cursor.rowcount
            return changed

    def may_pass(self, error: BaseException) -> bool:
        driver = self.driver()
        if isinstance(error, (driver.OperationalError, driver.InterfaceError)):
            return error.sqlstate is not None or not _POSTGRESQL_NO_LOGIN.search(str(error))
        state = error.sqlstate if isinstance(error, driver.Error) else None
        internal = state is not None and state.startswith("XX")  # to the server
        return internal or state in _POSTGRESQL_PASSING

    def bound_of(self, error: BaseException) -> str:
        return "connectTimeout" if isinstance(error, self.driver().errors.ConnectionTimeout) else ""


class MySqlDialect(Dialect):
    """MySQL and MariaDB by PyMySQL."""

    name = "mysql"
    package = packages.MYSQL
    grammar = MYSQL
    binary = "LONGBLOB"
    converters: ClassVar[dict[str, Converter]] = {
        "INSTANT": lambda instant: _utc(instant),
        "SQL_TIMESTAMP": without_zone,
    }
    checks: ClassVar[dict[str, Check]] = {
        **_CHECKS,
        "FLOAT": lambda value: "" if math.isfinite(value) else "MySQL has no NaN and no infinity",
        "DOUBLE": lambda value: "" if math.isfinite(value) else "MySQL has no NaN and no infinity",
        "SQL_TIME": lambda value: _why_no_time_of_utc(value),
    }
    refused = frozenset({"MAP", "TUPLE", "ROW", "PICKLED_BYTE_ARRAY", "LIST", "BASIC_ARRAY", "OBJECT_ARRAY"})
    closes_idle = True

    def __init__(self) -> None:
        # Of a statement in a database: when the server last said that it changes values, and what
        self._changed: dict[tuple[Any, ...], tuple[float, set[str]]] = {}

    def connect(self, options: ConnectionOptions) -> Any:
        arguments = driver_arguments(options)
        strict = arguments.pop("strict")
        # An UPDATE is answered with the rows that it found, as by Java's drivers, not with those that it changed.
        flags = importlib.import_module("pymysql.constants.CLIENT").FOUND_ROWS
        connection = _sized_connection()(client_flag=flags, **arguments)
        # MySQL has no bound of idle transactions alone. It has one of waits for rows, 50 s, and for tables, a day or a year.
        bounds = {"wait_timeout": ABANDONED_S, "lock_wait_timeout": _LONGEST_LOCK_S}
        least = [f"{name} = LEAST(@@SESSION.{name}, {bound_s})" for name, bound_s in bounds.items()]
        with _closed_if_it_fails(connection), connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {', '.join([*least, *([_STRICT] if strict else [])])}")
            cursor.execute("SELECT @@SESSION.max_allowed_packet")
            (connection.most_bytes,) = cursor.fetchone()
        return connection

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def columns(self, connection: Any, table: str) -> Sequence[str]:
        with connection.cursor() as cursor:
            cursor.execute(f"SHOW COLUMNS FROM {table}")
            return [name for name, *_, extra in cursor.fetchall() if "INVISIBLE" not in extra.upper()]

    def rounded(self, connection: Any, sql: str, kinds: Sequence[str]) -> Sequence[tuple[int, str]]:
        columns = self._filled(connection, sql)
        connection.commit()
        return [
            (position, type_)
            for position, (kind, (type_, *_)) in enumerate(zip(kinds, columns, strict=False))
            if (re.split("[( ]", type_)[0] in _ROUNDED_MYSQL.get(kind, ()) and type_ not in _EXACT_MYSQL)
            or type_.startswith(_DIGITS_MYSQL.get(kind, "("))
        ]

    def replaced(self, connection: Any, sql: str, kinds: Sequence[str]) -> Mapping[int, Replaced]:
        columns = self._filled(connection, sql)
        keeps_zero = any("auto_increment" in extra for _, _, extra in columns) and self._keeps_zero(
            connection
        )
        return _by_position(
            by_mysql(kind, type_, null, extra, keeps_zero)
            for kind, (type_, null, extra) in zip(kinds, columns, strict=False)
        )

    def without_transactions(self, connection: Any, sql: str) -> str:
        into = _INTO_MYSQL.match(sql)
        if into is None:
            return ""
        table = into["table"].replace("%%", "%")
        with connection.cursor() as cursor:
            cursor.execute(f"SHOW CREATE TABLE {table}")
            engine = re.search(r"^\).* ENGINE=(\w+)", cursor.fetchone()[1], re.MULTILINE)
            if engine is None:  # a view
                return ""
            cursor.execute(
                "SELECT transactions FROM information_schema.engines WHERE engine = %s", [engine[1]]
            )
            (has,) = cursor.fetchone() or ("",)
        return f"{table} has the engine {engine[1]}" if has == "NO" else ""

    def _keeps_zero(self, connection: Any) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@SESSION.sql_mode")
            return "NO_AUTO_VALUE_ON_ZERO" in cursor.fetchone()[0]

    def _filled(self, connection: Any, sql: str) -> list[tuple[str, str, str]]:
        """Of each column that an INSERT with names fills: its type, whether it takes NULL, and what else there is."""
        into = _COLUMNS.match(sql)
        if into is None:
            return []
        with connection.cursor() as cursor:
            cursor.execute(f"SHOW COLUMNS FROM {into['table'].replace('%%', '%')}")
            there = {name.lower(): (type_, null, extra) for name, type_, null, *_, extra in cursor.fetchall()}
        names = [column.strip().strip("`").lower() for column in into["columns"].split(",")]
        return [there.get(name, ("", "", "")) for name in names]

    def write(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        # The driver makes one statement of many rows, when all placeholders are in VALUES (...).
        pattern = importlib.import_module("pymysql.cursors").RE_INSERT_VALUES
        found = pattern.match(sql)
        with connection.cursor() as cursor:
            if found is not None and "%s" not in found[1] + (found[3] or ""):
                changed = cursor.executemany(sql, rows)
                self._say_changed(cursor, sql)
                return int(changed or 0)
            changed = 0
            for row in rows:
                changed += int(cursor.execute(sql, row))
                self._say_changed(cursor, sql)
            return changed

    def _say_changed(self, cursor: Any, sql: str) -> None:
        """Say once of a column that the server does not store what it was given, such as rounded decimals."""
        if not cursor.warning_count:
            return
        connection, now_s = cursor.connection, monotonic_s()
        key = (connection.host, connection.port, connection.db, sql)
        asked_s, said = self._changed.get(key, (-LOOK_AGAIN_S, set()))
        if now_s - asked_s < LOOK_AGAIN_S:
            return
        cursor.execute("SHOW WARNINGS")
        found = {_AT_ROW.sub("", text): text for _, number, text in cursor.fetchall() if number in _CHANGED}
        if found:
            self._changed[key] = now_s, said | set(found)
        new = [text for column, text in found.items() if column not in said]
        if new:
            log.warning(
                "the database stores other values or rows than it was given: %s. SQL: %s", "; ".join(new), sql
            )

    def may_pass(self, error: BaseException) -> bool:
        driver = self.driver()
        if isinstance(error, driver.InterfaceError):
            return True
        if isinstance(getattr(error, "original_exception", None), ssl.SSLCertVerificationError):
            return False
        number = error.args[0] if isinstance(error, driver.Error) and error.args else None
        return number in _MYSQL_PASSING

    def bound_of(self, error: BaseException) -> str:
        if not error.args or "timed out" not in str(error):
            return ""
        return {2003: "connectTimeout", 2013: "socketTimeout"}.get(error.args[0], "")


class SqliteDialect(Dialect):
    """SQLite, which comes with Python."""

    name = "sqlite"
    package = None
    grammar = SQLITE
    binary = "BLOB"
    converters: ClassVar[dict[str, Converter]] = {
        "BIG_DEC": str,
        "BIG_INT": lambda value: value if -(2**63) <= value < 2**63 else str(value),
        "SQL_DATE": lambda value: value.isoformat(),
        "SQL_TIME": lambda value: value.isoformat(),
        "SQL_TIMESTAMP": lambda value: value.isoformat(" "),
        "INSTANT": lambda instant: _utc(instant).isoformat(" "),
    }
    checks: ClassVar[dict[str, Check]] = {
        **_CHECKS,
        "FLOAT": lambda value: "SQLite would make NULL of NaN" if math.isnan(value) else "",
        "DOUBLE": lambda value: "SQLite would make NULL of NaN" if math.isnan(value) else "",
    }
    refused = MySqlDialect.refused

    def connect(self, options: ConnectionOptions) -> Any:
        arguments = driver_arguments(options)
        connection = sqlite3.connect(
            arguments["path"], timeout=_SQLITE_WAIT_S, isolation_level="IMMEDIATE", check_same_thread=False
        )
        for name, value in arguments["pragmas"].items():
            connection.execute(f"PRAGMA {name} = {value}")
        return connection

    def columns(self, connection: Any, table: str) -> Sequence[str]:
        return [name for name, _ in self._types(connection, table)]

    def _types(self, connection: Any, table: str) -> list[tuple[str, str]]:
        schema, dot, name = table.rpartition(".")
        return [row[1:3] for row in connection.execute(f"PRAGMA {schema}{dot}table_info({name})")]

    def replaced(self, connection: Any, sql: str, kinds: Sequence[str]) -> Mapping[int, Replaced]:
        into = _COLUMNS.match(sql)
        if into is None:
            return {}
        there = {name.lower(): type_ for name, type_ in self._types(connection, into["table"])}
        columns = [column.strip().strip('"`[]').lower() for column in into["columns"].split(",")]
        return _by_position(
            by_sqlite(kind, there.get(column, "")) for kind, column in zip(kinds, columns, strict=False)
        )

    def write(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        return int(connection.executemany(sql, rows).rowcount)

    def may_pass(self, error: BaseException) -> bool:
        code = getattr(error, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in _SQLITE_PASSING


_DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (PostgresDialect(), MySqlDialect(), SqliteDialect())
}


def dialect_of(options: ConnectionOptions) -> Dialect:
    """The dialect that a URL means.

    Raises:
        ConfigurationError: no JDBC URL.
        NotSupportedError: another database.
    """
    return _DIALECTS[database_of(options)]


def package_of(url: str) -> Package | None:
    """The package that a URL's database needs; None where it needs none, or the URL is not one."""
    try:
        return dialect_of(ConnectionOptions(url)).package
    except ChangelogEngineError:
        return None


@functools.cache
def _sized_connection() -> Any:
    """PyMySQL's class of connections, which sends no statement that is too large: servers cut the connection over one."""
    driver = packages.MYSQL.load()

    class Connection(driver.connections.Connection):  # type: ignore[misc,name-defined]
        most_bytes: int | None = None

        def query(self, sql: str | bytes, unbuffered: bool = False) -> Any:
            data = sql.encode(self.encoding, "surrogateescape") if isinstance(sql, str) else sql
            if self.most_bytes is not None and len(data) >= self.most_bytes:
                raise driver.err.DataError(
                    1153,
                    f"a statement of {len(data)} bytes is more than the server's max_allowed_packet, {self.most_bytes}: let "
                    "the server have a larger one, or the elements be smaller",
                )
            return super().query(data, unbuffered)

    return Connection


@functools.cache
def _bounded_connection() -> Any:
    """Psycopg's class of connections, with a bound of the time for which a server says nothing: libpq waits for ever."""
    driver = packages.POSTGRESQL.load()

    class Connection(driver.Connection):  # type: ignore[misc,name-defined]
        answer_s: float | None = None

        def wait(self, generator: Any, *arguments: Any, **named: Any) -> Any:
            if self.answer_s is None:
                return super().wait(generator, *arguments, **named)
            try:
                return super().wait(_answered(generator, self.answer_s), *arguments, **named)
            except TimeoutError as error:
                self.close()  # else whatever follows would wait as long
                raise driver.OperationalError(str(error)) from None

    return Connection


def _answered(generator: Generator[Any, Any, T], longest_s: float) -> Generator[Any, Any, T]:
    """One of psycopg's generators, ended when its socket was not ready for this long.

    Raises:
        TimeoutError: it was not.
    """
    silent: Deadline | None = None  # since psycopg first looked in vain
    try:
        wanted = next(generator)
        while True:
            ready = yield wanted
            if ready:
                silent = None
            elif silent is None:
                silent = Deadline(longest_s)
            elif silent.passed:
                raise TimeoutError(
                    f"the server has not answered for {longest_s:g} s; where statements take longer, give the URL a longer "
                    "socketTimeout"
                )
            wanted = generator.send(ready)
    except StopIteration as end:
        found: T = end.value
        return found
    finally:
        generator.close()


def _why_no_time_of_utc(value: datetime.time) -> str:
    try:
        time_of_utc(value)
    except ValueError as error:
        return str(error)
    return ""


def _utc(instant: Any) -> datetime.datetime:
    """An instant in UTC, rounded down to microseconds, as databases keep them."""
    return _EPOCH + datetime.timedelta(seconds=instant.seconds, microseconds=instant.nanos // 1000)
