"""JDBC sinks without a database: placeholders, URLs, options, rows."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest

from api.common import Row, Types
from api.datastream.connectors import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from changelog_engine.connectors.jdbc import dialects
from changelog_engine.connectors.jdbc.dialects import dialect_of
from changelog_engine.connectors.jdbc.options import ConnectionOptions
from changelog_engine.connectors.jdbc.placeholders import MYSQL, POSTGRESQL, SQLITE, translated
from changelog_engine.connectors.jdbc.rows import Statement
from changelog_engine.connectors.jdbc.session import Session
from changelog_engine.connectors.jdbc.urls import driver_arguments
from changelog_engine.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from changelog_engine.types.instant import Instant

SECRET = "se:cr@t/word"
SQLITE_OPTIONS = ConnectionOptions("jdbc:sqlite:/tmp/x.db")


@pytest.mark.parametrize(
    ("sql", "grammar", "expected", "count"),
    [
        ("INSERT INTO t VALUES (?, ?)", POSTGRESQL, "INSERT INTO t VALUES (%s, %s)", 2),
        ("INSERT INTO t VALUES (?, ?)", SQLITE, "INSERT INTO t VALUES (?, ?)", 2),
        ("SELECT 'it''s ? 5%', ?", POSTGRESQL, "SELECT 'it''s ? 5%%', %s", 1),
        ("SELECT 'it''s ? 5%', ?", SQLITE, "SELECT 'it''s ? 5%', ?", 1),
        ('UPDATE "a?b""c?" SET x = ? % 2', POSTGRESQL, 'UPDATE "a?b""c?" SET x = %s %% 2', 1),
        ("SELECT ? -- why? 5%\n, ?", POSTGRESQL, "SELECT %s -- why? 5%%\n, %s", 2),
        ("SELECT /* ? ' */ ?", POSTGRESQL, "SELECT /* ? ' */ %s", 1),
        ("SELECT /* a /* ? */ ? */ ?", POSTGRESQL, "SELECT /* a /* ? */ ? */ %s", 1),
        ("SELECT /* a /* ? */ ?", SQLITE, "SELECT /* a /* ? */ ?", 1),
        (r"SELECT E'\'?', ?", POSTGRESQL, r"SELECT E'\'?', %s", 1),
        (r"SELECT name'\', ?", POSTGRESQL, r"SELECT name'\', %s", 1),
        ("SELECT $$ ? $$, $q$ $$ ? $q$, ?", POSTGRESQL, "SELECT $$ ? $$, $q$ $$ ? $q$, %s", 1),
        ("SELECT j ?? 'a', j ??| ?", POSTGRESQL, "SELECT j ? 'a', j ?| %s", 1),
        (r"SELECT '\'?', ?", MYSQL, r"SELECT '\'?', %s", 1),
        ("SELECT `a?`, 1--?\n # ?\n -- ?", MYSQL, "SELECT `a?`, 1--%s\n # ?\n -- ?", 1),
        ("SELECT [a?], `b?`, ?", SQLITE, "SELECT [a?], `b?`, ?", 1),
        ("SELECT 1", POSTGRESQL, "SELECT 1", 0),
    ],
)
def test_placeholders(sql, grammar, expected, count):
    assert translated(sql, grammar) == (expected, count)


@pytest.mark.parametrize("sql", ["SELECT 'a, ?", 'SELECT "a, ?', "SELECT /* ?"])
def test_quotes_without_an_end(sql):
    with pytest.raises(ConfigurationError, match="without an end"):
        translated(sql, POSTGRESQL)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "jdbc:postgresql://db:5433/shop?ApplicationName=a%20b&currentSchema=x,y&ssl=true&connectTimeout=3",
            {
                "host": "db",
                "port": "5433",
                "dbname": "shop",
                "application_name": "a b",
                "options": "-c search_path=x,y",
                "sslmode": "verify-full",
                "connect_timeout": 3,
            },
        ),
        (
            "jdbc:postgresql://a,b:6/d?targetServerType=master&reWriteBatchedInserts=true",
            {"host": "a,b", "port": "5432,6", "dbname": "d", "target_session_attrs": "primary"},
        ),
        ("jdbc:postgresql:shop", {"dbname": "shop"}),
        ("jdbc:postgresql://[::1]:5/d", {"host": "::1", "port": "5", "dbname": "d"}),
        (
            "jdbc:postgresql://h/d?user=me&password=p%26w",
            {"host": "h", "port": "5432", "dbname": "d", "user": "me", "password": "p&w"},
        ),
        (
            "jdbc:mysql://h:3307/d?useSSL=false&connectTimeout=5000&socketTimeout=7000&serverTimezone=UTC",
            {
                "host": "h",
                "port": 3307,
                "database": "d",
                "charset": "utf8mb4",
                "ssl_disabled": True,
                "connect_timeout": 5,
                "read_timeout": 7,
                "write_timeout": 7,
            },
        ),
        (
            "jdbc:mariadb://h/d?sslMode=verify-full",
            {
                "host": "h",
                "port": 3306,
                "database": "d",
                "charset": "utf8mb4",
                "ssl_verify_cert": True,
                "ssl_verify_identity": True,
            },
        ),
        (
            "jdbc:sqlite:/data/x.db?journal_mode=WAL",
            {"path": "/data/x.db", "pragmas": {"journal_mode": "WAL"}},
        ),
    ],
)
def test_urls(url, expected):
    """What has no bound in the URL is bounded all the same."""
    bounds = {
        "postgresql": {
            "connect_timeout": 30,
            "answer_s": 300,
            "fallback_application_name": "changelog-engine",
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
        },
        "sqlite": {},
        "mysql": {"connect_timeout": 30, "read_timeout": 300, "write_timeout": 300, "strict": True},
    }
    kind = url.split(":")[1].replace("mariadb", "mysql")
    assert driver_arguments(ConnectionOptions(url)) == bounds[kind] | expected


def test_no_bound_where_none_is_asked_for():
    url = "jdbc:postgresql://h/d?socketTimeout=0"
    assert "answer_s" not in driver_arguments(ConnectionOptions(url))
    arguments = driver_arguments(ConnectionOptions("jdbc:mysql://h/d?socketTimeout=0&connectTimeout=0"))
    assert not {"read_timeout", "write_timeout"} & arguments.keys()
    assert arguments["connect_timeout"] > 86_400


def test_user_and_password_go_before_the_url_s():
    options = ConnectionOptions("jdbc:postgresql://h/d?user=a&password=b", None, "me", SECRET)
    arguments = driver_arguments(options)
    assert (arguments["user"], arguments["password"]) == ("me", SECRET)


@pytest.mark.parametrize(
    ("url", "error", "match"),
    [
        ("postgresql://h/d", ConfigurationError, "not a JDBC URL"),
        ("jdbc:oracle:thin:@h:1:d", NotSupportedError, "oracle"),
        ("jdbc:postgresql://h/d?sslmod=require", ConfigurationError, "unknown parameter 'sslmod'"),
        ("jdbc:postgresql://h/d?user", ConfigurationError, "'user' has no value"),
        ("jdbc:postgresql://u:secret@h/d", ConfigurationError, "with_user_name"),
        ("jdbc:postgresql://h:x/d", ConfigurationError, "not a host and port"),
        ("jdbc:postgresql://h/d?connectTimeout=x", ConfigurationError, "whole number"),
        ("jdbc:mysql://h1,h2/d", NotSupportedError, "one host"),
        ("jdbc:mysql://h/d?sslMode=VERFIY_CA", ConfigurationError, "'VERFIY_CA'; known are .*verify_ca"),
        ("jdbc:mariadb://h/d?useSSL=yes", ConfigurationError, "'useSSL' is 'yes'; known are true, false"),
        ("jdbc:mysql://h/d?requireSSL=1", ConfigurationError, "known are true, false"),
        ("jdbc:mysql://h/d?useSSL=false&sslMode=VERIFY_CA", ConfigurationError, "switches TLS off"),
        ("jdbc:postgresql://h/d?ssl=flase", ConfigurationError, "known are true, false"),
        ("jdbc:sqlite::memory:", NotSupportedError, "name a file"),
        ("jdbc:sqlite:/x?journal_mode=WAL;DROP TABLE t", ConfigurationError, "unknown parameter"),
    ],
)
def test_urls_that_cannot_be_used(url, error, match):
    with pytest.raises(error, match=match) as raised:
        JdbcSink.sink(
            "INSERT INTO t VALUES (?)",
            Types.ROW([Types.INT()]),
            JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build(),
        )
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        f"jdbc:postgresql://h/d?password={SECRET}",
        f"jdbc:postgresql://u:{SECRET}@h/d",
        f"jdbc:mysql://h/d?user=x&sslpassword={SECRET}&a=b",
        f"jdbc:mysql://u:12?{SECRET}@h/d",
        f"jdbc:postgresql://u:12/{SECRET}@h/d",
        f"jdbc:postgresql://u:a={SECRET}@h/d",
        f"jdbc:mysql://address=(host=h)(user=me)(password={SECRET})/d",
    ],
)
def test_no_text_shows_the_password(url):
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_password(SECRET)
    options = builder.build()
    assert options.get_password() == SECRET
    assert options.get_db_url() == url
    assert SECRET not in repr(options) + str(options._options) + options._options.shown_url
    assert "***" in options._options.shown_url
    safe = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:/x").with_password(SECRET)
    )
    sink = JdbcSink.sink("INSERT INTO t VALUES (?)", Types.ROW([Types.INT()]), safe.build())
    assert SECRET not in f"{sink!r} {sink._function!r}"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"me:{SECRET}@h/d", "with_password"),
        (f"me:12?{SECRET}@h/d", "with_password"),
        (f"me:12?a&{SECRET}@h/d", "with_password"),
        (f"me:12/{SECRET}@h/d", "with_password"),
        (f"me:{SECRET}=@h/d", "with_password"),
        (f"address=(host=h)(password={SECRET})/d", "with_password|not a host"),
    ],
)
@pytest.mark.parametrize("kind", ["postgresql", "mysql", "mariadb"])
def test_passwords_in_urls_that_cannot_be_used(kind, address, said):
    with pytest.raises(ConfigurationError, match=said) as raised:
        driver_arguments(ConnectionOptions(f"jdbc:{kind}://{address}"))
    assert SECRET not in str(raised.value)


def test_an_at_sign_in_a_parameter():
    arguments = driver_arguments(ConnectionOptions("jdbc:postgresql://h:1/d?user=me@example.org&password=x"))
    assert (arguments["host"], arguments["user"]) == ("h", "me@example.org")


def test_connection_options():
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    options = (
        builder.with_url("jdbc:sqlite:x")
        .with_driver_name("org.sqlite.JDBC")
        .with_user_name("me")
        .with_password("")
        .build()
    )
    assert options.get_db_url() == "jdbc:sqlite:x"
    assert options.get_driver_name() == "org.sqlite.JDBC"
    assert (options.get_user_name(), options.get_password()) == ("me", "")
    with pytest.raises(ConfigurationError, match="with_url"):
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().build()
    with pytest.raises(ConfigurationError, match="with_password") as raised:
        builder.with_password(b"hidden")
    assert "hidden" not in str(raised.value)


def test_execution_options():
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_size(), defaults.get_batch_interval_ms(), defaults.get_max_retries()) == (
        5000,
        0,
        3,
    )
    built = (
        JdbcExecutionOptions.builder()
        .with_batch_size(7)
        .with_batch_interval_ms(8)
        .with_max_retries(0)
        .build()
    )
    assert (built.get_batch_size(), built.get_batch_interval_ms(), built.get_max_retries()) == (7, 8, 0)
    for method in ("with_batch_size", "with_batch_interval_ms", "with_max_retries"):
        with pytest.raises(ConfigurationError, match=method):
            getattr(JdbcExecutionOptions.builder(), method)(-1)
    once = JdbcExactlyOnceOptions.builder().with_commit_table("ops.done").with_retention_ms(5).build()
    assert (once.get_commit_table(), once.get_retention_ms()) == ("ops.done", 5)
    for name in ("a b", "a;b", "a.b.c", "", None, "ä"):
        with pytest.raises(ConfigurationError, match="with_commit_table"):
            JdbcExactlyOnceOptions.builder().with_commit_table(name)


def test_arguments_of_the_sink():
    connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:/x")
    options, row = connection.build(), Types.ROW([Types.INT()])
    with pytest.raises(ConfigurationError, match=r"2 placeholders .* 1 fields"):
        JdbcSink.sink("INSERT INTO t VALUES (?, ?)", row, options)
    with pytest.raises(ConfigurationError, match="row type"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", Types.INT(), options)
    with pytest.raises(ConfigurationError, match="build"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", row, connection)
    with pytest.raises(ConfigurationError, match="build"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", row, options, JdbcExecutionOptions.builder())
    with pytest.raises(ConfigurationError, match="jdbc_exactly_once_options"):
        JdbcSink.exactly_once_sink("INSERT INTO t VALUES (?)", row, options, None, "commits")
    with pytest.raises(ConfigurationError, match="sql"):
        JdbcSink.sink(" ", row, options)
    for field in (Types.PICKLED_BYTE_ARRAY(), Types.MAP(Types.INT(), Types.INT()), Types.LIST(Types.INT())):
        with pytest.raises(NotSupportedError, match="field 'f0'"):
            JdbcSink.sink("INSERT INTO t VALUES (?)", Types.ROW([field]), options)


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:mysql://h/d")
    with pytest.raises(ConfigurationError, match=r"pymysql: pip install 'changelog-engine\[jdbc\]'"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", Types.ROW([Types.INT()]), builder.build())


class TestRows:
    def statement(self, *fields, names=None):
        kind = Types.ROW_NAMED(names, list(fields)) if names else Types.ROW(list(fields))
        sql = f"INSERT INTO t VALUES ({', '.join('?' * len(fields))})"
        return Statement(sql, kind, dialect_of(SQLITE_OPTIONS))

    def test_rows_of_every_shape(self):
        statement = self.statement(Types.INT(), Types.STRING(), names=["id", "name"])
        values = [
            Row(1, "a"),
            Row(id=2, name="b"),
            Row(name="c", id=3),
            (4, "d"),
            {"id": 5, "name": None},
            [6, "f"],
        ]
        assert statement.fitted(values) == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, None), (6, "f")]

    def test_values_are_coerced_to_the_declared_types(self):
        statement = self.statement(Types.DOUBLE(), Types.INT())
        assert repr(statement.fitted([(1, True), (2.5, None)])) == "[(1.0, 1), (2.5, None)]"

    @pytest.mark.parametrize("value", [("x", "a"), (2**31, "a"), (1, 2), None, Row(1), (1, "a", 2), 5])
    def test_misfits_name_the_statement(self, value):
        with pytest.raises(TypeMismatchError, match="INSERT INTO t"):
            self.statement(Types.INT(), Types.STRING()).fitted([(1, "good"), value])

    def test_a_misfit_names_the_field_and_shows_the_row(self):
        with pytest.raises(TypeMismatchError, match=r"field 'f1' .*row: f0=7, f1=8"):
            self.statement(Types.INT(), Types.STRING()).fitted([(7, 8)])

    def test_values_for_sqlite(self):
        day = datetime.date(2024, 2, 29)
        clock = datetime.time(1, 2, 3)
        statement = self.statement(
            Types.BIG_DEC(),
            Types.SQL_DATE(),
            Types.SQL_TIME(),
            Types.SQL_TIMESTAMP(),
            Types.INSTANT(),
            Types.BIG_INT(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
        )
        row = (
            Decimal("1.50"),
            day,
            clock,
            datetime.datetime.combine(day, clock),
            Instant(-1, 500_000_999),
            2**70,
            b"x",
        )
        fitted = statement.fitted([row, (None,) * 7])
        assert statement.parameters(fitted) == [
            (
                "1.50",
                "2024-02-29",
                "01:02:03",
                "2024-02-29 01:02:03",
                "1969-12-31 23:59:59.500000",
                str(2**70),
                b"x",
            ),
            (None,) * 7,
        ]

    @pytest.mark.parametrize(
        ("url", "kind", "value", "why"),
        [
            ("jdbc:sqlite:/tmp/x.db", Types.DOUBLE(), math.nan, "SQLite would make NULL of NaN"),
            ("jdbc:sqlite:/tmp/x.db", Types.FLOAT(), math.nan, "SQLite would make NULL of NaN"),
            ("jdbc:mysql://h/d", Types.DOUBLE(), -math.inf, "MySQL has no NaN and no infinity"),
            (
                "jdbc:mysql://h/d",
                Types.SQL_TIME(),
                datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
                "another zone than UTC",
            ),
            ("jdbc:sqlite:/tmp/x.db", Types.STRING(), "a\ud800", "half of a surrogate pair"),
            ("jdbc:mysql://h/d", Types.STRING(), "\udfff", "half of a surrogate pair"),
            ("jdbc:mysql://h/d", Types.CHAR(), "\udfff", "half of a surrogate pair"),
            ("jdbc:postgresql://h/d", Types.STRING(), "a\0", "cannot store NUL"),
            ("jdbc:postgresql://h/d", Types.CHAR(), "\0", "cannot store NUL"),
            (
                "jdbc:postgresql://h/d",
                Types.LIST(Types.STRING()),
                ["a", None, "\ud800"],
                "half of a surrogate pair",
            ),
            ("jdbc:postgresql://h/d", Types.INSTANT(), Instant(2**40, 0), "years 1 to 9999"),
        ],
    )
    def test_what_a_database_would_not_keep_is_refused_before_it_is_staged(self, url, kind, value, why):
        """SQLite made NULL of NaN; what MySQL's driver refuses was staged, and its checkpoint could never be committed."""
        dialect = dialect_of(ConnectionOptions(url))
        statement = Statement("INSERT INTO t VALUES (?, ?)", Types.ROW([Types.INT(), kind]), dialect)
        assert statement.fitted([(1, None)]) == [(1, None)]
        with pytest.raises(TypeMismatchError, match=rf"field 'f1' is .*{why}.*INSERT INTO t.*f0=2"):
            statement.fitted([(1, None), (2, value)])


def test_columns_that_are_changed_while_a_sink_runs_are_looked_at_again(monkeypatch, caplog, tmp_path):
    """The types were asked for once: what the server rounds since was not told."""
    options, now_s = ConnectionOptions(f"jdbc:sqlite:{tmp_path / 'rows.db'}"), [0.0]
    session = Session(options, 0, clock=lambda: now_s[0])
    types = {"": [], "integer": [(0, "integer")]}
    column, looks = [""], []
    monkeypatch.setattr(
        type(session.dialect), "rounded", lambda *arguments: looks.append(now_s[0]) or types[column[0]]
    )
    statement = Statement("INSERT INTO t VALUES (?)", Types.ROW([Types.DOUBLE()]), session.dialect)
    session.run(lambda connection: connection.execute("CREATE TABLE t (x)"), "making a table")

    def written(at_s: float) -> int:
        now_s[0] = at_s
        session.run(lambda connection: session.write(connection, statement, [(1.5,)]), "writing rows")
        return caplog.text.count("may round or cut values without a word")

    assert [written(0), written(1)] == [0, 0]
    column[0] = "integer"
    assert [written(59), written(61), written(62), written(122)] == [0, 1, 1, 1], "and said once"
    assert looks == [0, 61, 122]
    session.close()


class Warned:
    """A cursor of PyMySQL, and its connection, after the server has changed values of columns."""

    host, port = "db", 3306
    warning_count = 1

    def __init__(self, database, *columns):
        self.connection, self.db, self._columns = self, database, columns

    def execute(self, sql):
        assert sql == "SHOW WARNINGS"

    def fetchall(self):
        return [
            ("Note", 1265, f"Data truncated for column '{name}' at row {row}") for row, name in self._columns
        ]


def test_what_mysql_stores_otherwise_is_said_of_each_column_and_database(monkeypatch, caplog):
    """A minute later, as somebody may have changed a column."""
    now = [0.0]
    monkeypatch.setattr(dialects, "monotonic_s", lambda: now[0])
    dialect = dialects.MySqlDialect()
    for cursor in (Warned("a", (1, "b")), Warned("a", (1, "c")), Warned("other", (1, "b"))):
        dialect._say_changed(cursor, "INSERT")
    assert caplog.text.count("column 'b'") == 2
    now[0] += dialects.LOOK_AGAIN_S
    dialect._say_changed(Warned("a", (7, "b"), (7, "c")), "INSERT")
    assert caplog.text.count("column 'b'") == 2
    assert caplog.text.count("column 'c'") == 1
