"""JDBC sinks on real databases: what arrives, in which portions, and what happens when something is in the way."""

from __future__ import annotations

import datetime
import gc
import logging
import random
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from servers.process import wait_for
from support.cut_connections import CutConnections
from support.databases import KINDS, Database

from api.common import Row, Types
from api.datastream.connectors import JdbcExecutionOptions, JdbcSink
from changelog_engine.connectors.jdbc import dialects
from changelog_engine.connectors.jdbc.rows import Statement
from changelog_engine.connectors.jdbc.session import Session
from changelog_engine.connectors.protocols import Prepared, RestoredSink, SinkContext
from changelog_engine.errors import ConnectorError, RefusedForGoodError, TypeMismatchError
from changelog_engine.testing.conformance import check_committing_sink
from changelog_engine.types.instant import Instant

ROW = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
INSERT = "INSERT INTO t (id, name) VALUES (?, ?)"
TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(50))"
CONTEXT = SinkContext("job", "sink", 0, 1, "run", 1, True, ())
UPSERTS = {
    "sqlite": INSERT + " ON CONFLICT (id) DO UPDATE SET name = excluded.name",
    "postgres": INSERT + " ON CONFLICT (id) DO UPDATE SET name = excluded.name",
    "mariadb": INSERT + " ON DUPLICATE KEY UPDATE name = VALUES(name)",
}
TYPES = {
    "sqlite": "i, d, f, s, b, y, day, clock, stamp, at, n",
    "postgres": "i BIGINT, d NUMERIC(20,5), f DOUBLE PRECISION, s TEXT, b BOOLEAN, y BYTEA, day DATE, clock TIME, "
    "stamp TIMESTAMP, at TIMESTAMPTZ, n REAL",
    "mariadb": "i BIGINT, d DECIMAL(20,5), f DOUBLE, s TEXT, b BOOLEAN, y BLOB, day DATE, clock TIME, "
    "stamp DATETIME(6), at DATETIME(6), n FLOAT",
}


@pytest.fixture(params=KINDS)
def database(request, tmp_path):
    return Database(request.param, tmp_path, request)


@pytest.fixture
def sqlite(request, tmp_path):
    return Database("sqlite", tmp_path, request)


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """No waiting between retries; what the waits would have been."""
    seen: list[float] = []
    session = partial(Session, sleep=seen.append)
    for module in ("sink", "exactly_once"):
        monkeypatch.setattr(f"changelog_engine.connectors.jdbc.{module}.Session", session)
    return seen


def writer_of(jdbc_sink, context=CONTEXT):
    return jdbc_sink._function.committing_writer(context)


def sink(database, sql=INSERT, kind=ROW, size=5000, interval_ms=0, retries=3):
    builder = JdbcExecutionOptions.builder().with_batch_size(size).with_batch_interval_ms(interval_ms)
    return JdbcSink.sink(sql, kind, database.options, builder.with_max_retries(retries).build())


def rows(database, columns="id, name"):
    return sorted(database.execute(f"SELECT {columns} FROM t"))


def test_rows_arrive_at_the_barrier(database):
    database.execute(TABLE)
    writer = writer_of(sink(database))
    writer.write([Row(1, "a"), Row(id=2, name=None), Row(3, "50% ü ' \\ \" ? 雪")])
    writer.end_epoch()
    assert rows(database) == []
    assert writer.prepare(False) == Prepared()
    assert database.execute("SELECT name FROM t WHERE id = 3") == [("50% ü ' \\ \" ? 雪",)]
    assert rows(database, "id") == [(1,), (2,), (3,)]
    assert database.execute("SELECT id FROM t WHERE name IS NULL") == [(2,)]
    writer.close()


def test_upserts_written_twice_are_exact(database):
    database.execute(TABLE)
    for _ in range(2):  # as after a failure
        writer = writer_of(sink(database, UPSERTS[database.kind], size=2))
        writer.write([(1, "a"), (2, "b"), (1, "c"), (3, "50%")])
        writer.prepare(False)
        writer.close()
    assert rows(database) == [(1, "c"), (2, "b"), (3, "50%")]


def test_any_statement(database):
    database.execute(TABLE)
    database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, '?')")
    update = sink(
        database,
        "UPDATE t SET name = ? WHERE id = ? AND name <> '?'",
        Types.ROW([Types.STRING(), Types.INT()]),
    )
    delete = sink(database, "DELETE FROM t WHERE id = ? /* ? */", Types.ROW([Types.INT()]))
    for jdbc_sink, values in ((update, [("x", 1), ("y", 3)]), (delete, [(2,)])):
        writer = writer_of(jdbc_sink)
        writer.write(values)
        writer.prepare(True)
        writer.close()
    assert rows(database) == [(1, "x"), (3, "?")]


def test_values_of_every_type(database):
    database.execute(f"CREATE TABLE t ({TYPES[database.kind]})")
    kind = Types.ROW(
        [
            Types.LONG(),
            Types.BIG_DEC(),
            Types.DOUBLE(),
            Types.STRING(),
            Types.BOOLEAN(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.SQL_DATE(),
            Types.SQL_TIME(),
            Types.SQL_TIMESTAMP(),
            Types.INSTANT(),
            Types.FLOAT(),
        ]
    )
    stamp = datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)
    row = (
        2**63 - 1,
        Decimal("12345.67890"),
        0.1,
        "ü",
        True,
        b"\x00\xff",
        stamp.date(),
        stamp.time().replace(microsecond=0),
        stamp,
        Instant(1, 5000),
        0.5,
    )
    for exact in (False, True):
        make = JdbcSink.exactly_once_sink if exact else JdbcSink.sink
        writer = writer_of(make(f"INSERT INTO t VALUES ({', '.join('?' * 11)})", kind, database.options))
        writer.write([row, (None,) * 11])
        writer.commit(writer.prepare(False).committables)
        writer.close()
        full, empty = sorted(database.execute("SELECT * FROM t"), key=lambda found: found[0] is None)
        assert empty == (None,) * 11
        instant = datetime.datetime(1970, 1, 1, 0, 0, 1, 5)
        expected = {
            "sqlite": (
                *row[:1],
                "12345.67890",
                *row[2:6],
                "2024-02-29",
                "01:02:03",
                str(stamp),
                str(instant),
                0.5,
            ),
            "postgres": (*row[:9], instant.replace(tzinfo=datetime.UTC), 0.5),
            "mariadb": (*row[:7], datetime.timedelta(hours=1, minutes=2, seconds=3), stamp, instant, 0.5),
        }
        assert full == expected[database.kind]
        database.execute("DELETE FROM t")


@pytest.mark.slow
def test_arrays_and_operators_of_postgresql(request, tmp_path):
    database = Database("postgres", tmp_path, request)
    database.execute("CREATE TABLE t (a BIGINT[], b TEXT[], j JSONB)")
    kind = Types.ROW(
        [Types.LIST(Types.LONG()), Types.BASIC_ARRAY(Types.STRING()), Types.STRING(), Types.STRING()]
    )
    writer = writer_of(
        sink(database, "INSERT INTO t SELECT ?, ?, ?::jsonb WHERE '{\"k\": 1}'::jsonb ?? ?", kind)
    )
    writer.write([([1, 2**40], ["a", None], '{"x": "50%"}', "k"), ([], [], "{}", "no")])
    writer.prepare(True)
    writer.close()
    assert database.execute("SELECT * FROM t") == [([1, 2**40], ["a", None], {"x": "50%"})]


@pytest.mark.slow
def test_texts_become_what_the_columns_are(request, tmp_path):
    """As they do with the unspecified string type of PostgreSQL's JDBC driver, in inserts of many rows at once too."""
    database = Database("postgres", tmp_path, request)
    database.execute("CREATE TABLE t (j JSONB, u UUID, d DATE, i INTERVAL, n BIGINT)")
    kind = Types.ROW([Types.STRING()] * 4 + [Types.LONG()])
    unique = "12345678-1234-5678-1234-567812345678"
    writer = writer_of(sink(database, "INSERT INTO t (j, u, d, i, n) VALUES (?, ?, ?, ?, ?)", kind))
    writer.write([('{"x": 1}', unique, "2024-02-29", "1 day", number * 10**8) for number in range(250)])
    writer.write([(None,) * 5])
    writer.prepare(True)
    writer.close()
    day = datetime.date(2024, 2, 29)
    assert database.execute(
        "SELECT j, u::text, d, i, COUNT(*), SUM(n) FROM t GROUP BY 1, 2, 3, 4 ORDER BY 5"
    ) == [
        (None, None, None, None, 1, None),
        ({"x": 1}, unique, day, datetime.timedelta(days=1), 250, Decimal(31125 * 10**8)),
    ]


@pytest.mark.slow
def test_statements_are_not_prepared_where_the_url_says_so(request, tmp_path):
    """A pooler hands them to a server that does not know them."""
    database = Database("postgres", tmp_path, request)
    database.execute(TABLE)
    plain, prepared = database.url, []
    for database.url in (plain, f"{plain}?prepareThreshold=0"):
        writer = writer_of(sink(database, f"{INSERT} ON CONFLICT DO NOTHING", size=1))
        writer.write([(number, "x") for number in range(20)])
        (count,) = writer._session._connection.execute(
            "SELECT COUNT(*) FROM pg_prepared_statements"
        ).fetchone()
        prepared.append(count > 0)
        writer.close()
    assert prepared == [True, False]


def test_full_batches_do_not_wait(sqlite):
    sqlite.execute(TABLE)
    writer = writer_of(sink(sqlite, size=3))
    writer.write([(number, "x") for number in range(8)])
    assert rows(sqlite, "id") == [(number,) for number in range(6)]
    writer.write([(8, "x")])
    assert len(rows(sqlite)) == 9
    writer.close()


def test_the_interval_ends_the_wait(sqlite):
    sqlite.execute(TABLE)
    writer = writer_of(sink(sqlite, interval_ms=500))
    now = [10.0]
    writer._clock = lambda: now[0]
    writer.write([(1, "a")])
    now[0] = 10.4
    writer.write([(2, "b")])
    assert rows(sqlite) == []
    now[0] = 10.5
    writer.end_epoch()
    assert rows(sqlite) == [(1, "a"), (2, "b")]
    writer.write([(3, "c")])
    now[0] = 10.9
    writer.end_epoch()
    assert len(rows(sqlite)) == 2, "the interval counts from the oldest row that waits"
    now[0] = 11.0
    writer.write([(4, "d")])
    assert len(rows(sqlite)) == 4
    writer.close()


@pytest.mark.parametrize("exact", [False, True])
def test_a_refused_row_is_named_and_nothing_is_written(database, exact):
    database.execute(TABLE)
    database.execute("INSERT INTO t VALUES (7, 'old')")
    make = JdbcSink.exactly_once_sink if exact else JdbcSink.sink
    writer = writer_of(make(INSERT, ROW, database.options))
    writer.write([(number, f"name {number}") for number in range(10)])
    with pytest.raises(ConnectorError) as raised:
        writer.commit(writer.prepare(False).committables)
    message = str(raised.value)
    assert "row: id=7, name='name 7'" in message
    assert INSERT in message
    assert database.url in message
    assert raised.value.__cause__ is None
    assert rows(database) == [(7, "old")]
    writer.close()


@pytest.fixture
def lenient(request, tmp_path):
    """A database of a server whose mode cuts what does not fit."""
    database = Database("mariadb", tmp_path, request)
    ((mode,),) = database.execute("SELECT @@GLOBAL.sql_mode")
    database.execute("SET GLOBAL sql_mode = ''")
    yield database
    database.execute(f"SET GLOBAL sql_mode = '{mode}'")


@pytest.mark.slow
def test_nothing_is_cut_where_the_server_would_cut(lenient):
    """As with Java's drivers, unless the URL says otherwise as it does there."""
    lenient.execute("CREATE TABLE t (id TINYINT PRIMARY KEY, name VARCHAR(3))")
    for row, why in (((1, "four"), "Data too long"), ((1000, "abc"), "Out of range")):
        writer = writer_of(sink(lenient))
        writer.write([row])
        with pytest.raises(ConnectorError, match=why):
            writer.prepare(False)
        writer.close()
    assert rows(lenient) == []
    lenient.url += "?jdbcCompliantTruncation=false"
    writer = writer_of(sink(lenient))
    writer.write([(1, "four")])
    writer.prepare(False)
    writer.close()
    assert rows(lenient) == [(1, "fou")]


@pytest.mark.slow
def test_what_the_server_rounds_is_said_once(lenient, caplog):
    lenient.execute("CREATE TABLE t (id INTEGER, price DECIMAL(10, 2))")
    kind = Types.ROW([Types.INT(), Types.BIG_DEC()])
    writer = writer_of(sink(lenient, "INSERT INTO t VALUES (?, ?)", kind, size=1))
    writer.write([(1, Decimal("1.5")), (2, Decimal("1.239")), (3, Decimal("1.239"))])
    writer.prepare(False)
    writer.close()
    assert (
        caplog.text.count("stores other values or rows than it was given: Data truncated for column 'price'")
        == 1
    )


LEAVES_OUT = {
    "sqlite": ["CREATE TRIGGER skip BEFORE INSERT ON t WHEN new.id = 2 BEGIN SELECT RAISE(IGNORE); END"],
    "postgres": [
        "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN IF new.id = 2 THEN RETURN NULL; END IF; RETURN new; END'",
        "CREATE TRIGGER skip BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION skip()",
    ],
}


@pytest.mark.parametrize("database", KINDS[:2], indirect=True)
@pytest.mark.parametrize("values", ["VALUES (?, ?)", "VALUES (?, lower(?))"])
def test_rows_that_the_table_leaves_out_are_said_once(database, values, caplog):
    database.execute(TABLE)
    for sql in LEAVES_OUT[database.kind]:
        database.execute(sql)
    writer = writer_of(sink(database, f"INSERT INTO t {values}", size=3))
    writer.write([(1, "a"), (2, "b"), (3, "c"), (4, "d"), (2, "e")])
    writer.prepare(False)
    writer.close()
    assert rows(database) == [(1, "a"), (3, "c"), (4, "d")]
    assert caplog.text.count("stored 2 of 3 rows, and says nothing of the others") == 1
    assert caplog.text.count("says nothing of the others") == 1


def test_rows_that_the_statement_leaves_out_are_not_said(sqlite, caplog):
    sqlite.execute(TABLE)
    for sql in (INSERT, f"{INSERT} ON CONFLICT DO NOTHING", INSERT.replace("INSERT", "INSERT OR IGNORE")):
        writer = writer_of(sink(sqlite, sql))
        writer.write([(1, "a")])
        writer.prepare(False)
        writer.close()
    assert caplog.text == ""


@pytest.mark.slow
def test_rows_that_insert_ignore_leaves_out_for_no_key_are_said(request, tmp_path, caplog):
    database = Database("mariadb", tmp_path, request)
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(9) NOT NULL, CHECK (id < 3))")
    writer = writer_of(sink(database, INSERT.replace("INSERT", "INSERT IGNORE"), size=2))
    writer.write([(1, "a"), (1, "b")])
    assert caplog.text == ""
    writer.write([(2, "c"), (3, "d")])
    writer.close()
    assert rows(database) == [(1, "a"), (2, "c")]
    assert "stores other values or rows than it was given: CONSTRAINT" in caplog.text


def test_an_update_that_finds_no_row_is_said_once(database, caplog):
    """A row that has the values already is found, in MySQL too."""
    database.execute(TABLE)
    database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    kind = Types.ROW([Types.STRING(), Types.INT()])
    writer = writer_of(sink(database, "UPDATE t SET name = ? WHERE id = ?", kind, size=2))
    writer.write([("a", 1), ("c", 2)])
    assert caplog.text == ""
    writer.write([("d", 1), ("lost", 3), ("lost", 4), ("lost", 5)])
    writer.close()
    assert rows(database) == [(1, "d"), (2, "c")]
    assert caplog.text.count("found 1 of 2 rows, and says nothing of the others") == 1


POSITIONAL = "INSERT INTO t VALUES (?, ?, ?)"
THREE = Types.ROW_NAMED(["id", "b", "c"], [Types.LONG(), Types.STRING(), Types.STRING()])


def positional(database, exact, sql=POSITIONAL):
    """A sink of a program that was started when the table had the columns id, b, c."""
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, b VARCHAR(50), c VARCHAR(50))")
    make = JdbcSink.exactly_once_sink if exact else JdbcSink.sink
    jdbc_sink = make(sql, THREE, database.options)
    jdbc_sink._function.check_before_start()
    return jdbc_sink


def flushed(writer, *elements):
    writer.write(elements)
    writer.commit(writer.prepare(False).committables)


@pytest.mark.parametrize("exact", [False, True])
def test_values_by_position_go_into_the_columns_of_the_start(database, exact):
    """A column that was dropped and added again is the last one; one more column is nobody's."""
    jdbc_sink = positional(database, exact)
    writer = writer_of(jdbc_sink)
    flushed(writer, (1, "b", "c"))
    database.execute("ALTER TABLE t DROP COLUMN b")
    database.execute("ALTER TABLE t ADD COLUMN b VARCHAR(50)")
    flushed(writer, (2, "b", "c"))
    database.execute("ALTER TABLE t ADD COLUMN d VARCHAR(50)")
    flushed(writer, (3, "b", "c"))
    writer.close()
    writer = writer_of(jdbc_sink)  # as after a failure
    flushed(writer, (4, "b", "c"))
    writer.close()
    assert rows(database, "id, b, c") == [(1, None, "c"), *((number, "b", "c") for number in (2, 3, 4))]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("changed", ["renamed", "dropped and another one added"])
def test_values_by_position_whose_column_is_gone_are_an_error(database, exact, changed):
    jdbc_sink = positional(database, exact)
    for number in (1, 2):
        writer = writer_of(jdbc_sink)
        if number == 1:
            flushed(writer, (1, "b", "c"))
            if changed == "renamed":
                database.execute("ALTER TABLE t RENAME COLUMN b TO d")
            else:
                database.execute("ALTER TABLE t DROP COLUMN b")
                database.execute("ALTER TABLE t ADD COLUMN d VARCHAR(50)")
        told = r"INSERT INTO t \(.id., .b., .c.\) VALUES \(\?, \?, \?\) \(the columns that the table had when"
        with pytest.raises(ConnectorError, match=told):
            flushed(writer, (2, "b", "c"))
        writer.close()
    assert rows(database, "id") == [(1,)]


def test_rows_that_were_staged_for_other_columns_are_an_error(database):
    """A run was killed before its commit, and the table was changed before the next one."""
    first = writer_of(positional(database, True))
    first.write([(1, "b", "c")])
    prepared = first.prepare(False)
    first.close()
    database.execute("ALTER TABLE t DROP COLUMN b")
    database.execute("ALTER TABLE t ADD COLUMN b VARCHAR(50)")
    context = CONTEXT._replace(attempt=2, restored=[RestoredSink(0, prepared)])
    second = JdbcSink.exactly_once_sink(POSITIONAL, THREE, database.options)
    second._function.check_before_start()
    with pytest.raises(
        ConnectorError, match=r"columns id, b, c, .* into id, c, b\. Name the columns in the SQL"
    ):
        writer_of(second, context)
    named = POSITIONAL.replace("t V", "t (id, b, c) V")
    writer_of(JdbcSink.exactly_once_sink(named, THREE, database.options), context).close()
    assert rows(database, "id, b, c") == [(1, "b", "c")]


def test_columns_that_cannot_be_looked_at_are_said(sqlite, caplog):
    sink(sqlite, "INSERT INTO t VALUES (?, ?)")._function.check_before_start()
    assert "could not be looked at (there is no table t yet)" in caplog.text


@pytest.mark.slow
def test_names_of_columns_are_quoted(request, tmp_path):
    """And one that positions do not reach is none of them."""
    for kind, hidden in (("postgres", ""), ("mariadb", " INVISIBLE")):
        database = Database(kind, tmp_path, request)
        quote = {"postgres": '"', "mariadb": "`"}[kind]
        table, names = f"{quote}My t{quote}", [f"{quote}{name}{quote}" for name in ("a?%s", f"b{quote * 2}B")]
        database.execute(f"CREATE TABLE {table} ({names[0]} INT, {names[1]} VARCHAR(9), more INT{hidden})")
        jdbc_sink = sink(database, f"INSERT INTO {table} VALUES (?, COALESCE(?, LOWER(NULL)))")
        jdbc_sink._function.check_before_start()
        assert jdbc_sink._function.columns == ("a?%s", f"b{quote}B")
        writer = writer_of(jdbc_sink)
        flushed(writer, (1, "a"), (2, "b"))
        writer.close()
        assert sorted(database.execute(f"SELECT * FROM {table}")) in (
            [(1, "a", None), (2, "b", None)],
            [(1, "a"), (2, "b")],
        )


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_what_postgresql_rounds_in_silence_is_said_once(exact, request, tmp_path, caplog):
    database = Database("postgres", tmp_path, request)
    database.execute("CREATE TABLE t (n INTEGER, x NUMERIC, d DATE, at TIME)")
    kind = Types.ROW_NAMED(
        ["n", "x", "d", "at"], [Types.DOUBLE(), Types.DOUBLE(), Types.SQL_TIMESTAMP(), Types.SQL_TIME()]
    )
    make = JdbcSink.exactly_once_sink if exact else JdbcSink.sink
    writer = writer_of(make("INSERT INTO t VALUES (?, ?, ?, ?)", kind, database.options))
    for _ in range(2):
        writer.write([(2.5, 0.5, datetime.datetime(2024, 1, 2, 3), datetime.time(4))])
        writer.commit(writer.prepare(False).committables)
    writer.close()
    assert database.execute("SELECT n, d FROM t") == [(2, datetime.date(2024, 1, 2))] * 2
    said = "field 'n' is DOUBLE, and becomes integer, field 'd' is SQL_TIMESTAMP, and becomes date"
    assert caplog.text.count(said) == caplog.text.count("may round or cut") == 1


@pytest.mark.slow
def test_what_postgresql_rounds_in_arrays_and_cuts_of_texts_is_said(request, tmp_path, caplog):
    database = Database("postgres", tmp_path, request)
    database.execute('CREATE TABLE t (n INTEGER[], c "char", price MONEY, x NUMERIC[], at TIMESTAMP)')
    list_type = Types.LIST(Types.DOUBLE())
    kind = Types.ROW_NAMED(
        ["n", "c", "price", "x", "at"],
        [list_type, Types.STRING(), Types.BIG_DEC(), list_type, Types.INSTANT()],
    )
    for zone, hour in ("UTC", 0), ("Asia/Tokyo", 9):
        database.execute(f"ALTER ROLE CURRENT_USER SET timezone = '{zone}'")
        writer = writer_of(sink(database, "INSERT INTO t VALUES (?, ?, ?, ?, ?)", kind))
        flushed(writer, ([1.5], "abc", Decimal("1.005"), [1.5], Instant(0, 0)))
        writer.close()
        assert database.execute("SELECT n, c, at FROM t") == [([2], "a", datetime.datetime(1970, 1, 1, hour))]
        database.execute("DELETE FROM t")
    database.execute("ALTER ROLE CURRENT_USER RESET timezone")
    assert "field 'n' is LIST<DOUBLE>, and becomes integer[], field 'c' is STRING, and becomes" in caplog.text
    assert caplog.text.count("field 'price' is BIG_DEC, and becomes money. SQL") == 1
    said = "money, field 'at' is INSTANT, and becomes timestamp without time zone in the zone Asia/Tokyo. SQL"
    assert caplog.text.count(said) == 1


@pytest.mark.slow
def test_what_the_digits_of_a_column_of_postgresql_round_is_said(request, tmp_path, caplog):
    """But for decimals: nearly every column of theirs has a scale, the one that they have."""
    database = Database("postgres", tmp_path, request)
    database.execute(
        'CREATE TABLE t (d NUMERIC(9, 1), "N" NUMERIC(9, 1), n NUMERIC, at TIMESTAMP(3), to_ TIME(6))'
    )
    fields = [Types.DOUBLE(), Types.BIG_DEC(), Types.DOUBLE(), Types.SQL_TIMESTAMP(), Types.SQL_TIME()]
    kind = Types.ROW_NAMED(["d", "N", "n", "at", "to"], fields)
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 600)
    writer = writer_of(sink(database, 'INSERT INTO t (d, "N", n, at, to_) VALUES (?, ?, ?, ?, ?)', kind))
    flushed(writer, (2.55, Decimal("0.5"), 0.55, moment, moment.time()))
    writer.close()
    assert database.execute('SELECT d, "N", n, at, to_ FROM t') == [
        (Decimal("2.6"), Decimal("0.5"), Decimal("0.55"), moment.replace(microsecond=1000), moment.time())
    ]
    said = "field 'd' is DOUBLE, and becomes numeric(9,1), field 'at' is SQL_TIMESTAMP, and becomes timestamp(3) without"
    assert caplog.text.count(said) == caplog.text.count("and becomes numeric") == 1
    assert "time zone. SQL" in caplog.text


@pytest.mark.slow
def test_what_mariadb_rounds_to_digits_and_fills_up_is_said(request, tmp_path, caplog):
    database = Database("mariadb", tmp_path, request)
    database.execute(
        "CREATE TABLE t (d DOUBLE(5, 2), f FLOAT(5, 1), x DOUBLE, b BINARY(4), v VARBINARY(4), s BINARY(3))"
    )
    data = Types.PRIMITIVE_ARRAY(Types.BYTE())
    fields = [Types.DOUBLE(), Types.FLOAT(), Types.DOUBLE(), data, data, Types.STRING()]
    kind = Types.ROW_NAMED(["d", "f", "x", "b", "v", "s"], fields)
    writer = writer_of(sink(database, "INSERT INTO t (d, f, x, b, v, s) VALUES (?, ?, ?, ?, ?, ?)", kind))
    flushed(writer, (1.239, 1.25, 1.239, b"a", b"a", "s"))
    writer.close()
    assert database.execute("SELECT d, x, b, v, s FROM t") == [(1.24, 1.239, b"a\0\0\0", b"a", b"s\0\0")]
    said = "field 'd' is DOUBLE, and becomes double(5,2), field 'f' is FLOAT, and becomes float(5,1), field 'b' is"
    assert caplog.text.count(said) == caplog.text.count("field 'f'") == 1
    assert "becomes binary(4), field 's' is STRING, and becomes binary(3). SQL" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    ["INSERT INTO t VALUES (?, ?, ?, ?, ?)", "REPLACE INTO `t` (`N`, x, d, at, s) VALUES (?, ?, ?, ?, ?)"],
)
def test_what_mysql_rounds_in_silence_is_said_once(sql, request, tmp_path, caplog):
    """It tells of decimals and dates only."""
    database = Database("mariadb", tmp_path, request)
    database.execute("CREATE TABLE t (n INT(6), x FLOAT, d DATETIME, at TIME(6), s INT)")
    fields = [Types.DOUBLE(), Types.DOUBLE(), Types.SQL_TIMESTAMP(), Types.SQL_TIME(), Types.STRING()]
    jdbc_sink = sink(database, sql, Types.ROW_NAMED(["n", "x", "d", "at", "s"], fields))
    jdbc_sink._function.check_before_start()
    writer = writer_of(jdbc_sink)
    for _ in range(2):
        writer.write([(2.7, 0.5, datetime.datetime(2024, 1, 2, 3, 4, 5, 600_000), datetime.time(4), "1.5")])
        writer.prepare(False)
    writer.close()
    assert database.execute("SELECT n, d, s FROM t") == [(3, datetime.datetime(2024, 1, 2, 3, 4, 5), 2)] * 2
    said = "field 'n' is DOUBLE, and becomes int(6), field 'x' is DOUBLE, and becomes float, field 'd' is SQL_TIMESTAMP, and"
    assert caplog.text.count(said) == caplog.text.count("may round or cut") == 1
    assert "becomes datetime, field 's' is STRING, and becomes int(11). SQL" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_values_of_which_mariadb_makes_others_are_said_once(exact, request, tmp_path, caplog):
    """And only where there are such values."""
    database = Database("mariadb", tmp_path, request)
    database.execute(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, at TIMESTAMP(6) NOT NULL, d INT, n TIMESTAMP NULL)"
    )
    kind = Types.ROW_NAMED(
        ["id", "at", "d", "n"], [Types.INT(), Types.SQL_TIMESTAMP(), Types.INT(), Types.SQL_TIMESTAMP()]
    )
    make = JdbcSink.exactly_once_sink if exact else JdbcSink.sink
    writer = writer_of(make("INSERT INTO t (id, at, d, n) VALUES (?, ?, ?, ?)", kind, database.options))
    noon = datetime.datetime(2024, 1, 2, 12)
    flushed(writer, (5, noon, 0, None), (None, noon, None, None))
    assert "makes another value" not in caplog.text
    for _ in range(2):
        flushed(writer, (0, None, 0, None))
    writer.close()
    assert database.execute("SELECT id, at, n FROM t WHERE id < 7") == [(5, noon, None), (6, noon, None)]
    assert database.execute("SELECT COUNT(*) FROM t WHERE id > 6 AND at > '2026-01-01'") == [(2,)]
    assert caplog.text.count("makes another value of 0 in field 'id' without a word: the next number") == 1
    assert (
        caplog.text.count("makes another value of None in field 'at' without a word: the time at which") == 1
    )
    assert caplog.text.count("makes another value") == 2
    caplog.clear()
    database.execute("SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',NO_AUTO_VALUE_ON_ZERO')")
    try:
        writer = writer_of(make("INSERT INTO t (id, at, d, n) VALUES (?, ?, ?, ?)", kind, database.options))
        flushed(writer, (0, noon, 0, None))
        writer.close()
    finally:
        database.execute("SET GLOBAL sql_mode = DEFAULT")
    assert database.execute("SELECT at FROM t WHERE id = 0") == [(noon,)]
    assert "makes another value" not in caplog.text


NOON = datetime.datetime(2024, 1, 2, 12)
# column, type, what it keeps, what it makes another value of
REPLACED = {
    "postgres": [
        ("numeric(5,2)", Types.BIG_DEC(), Decimal("1.010"), Decimal("1.005")),
        (
            "numeric(9,3)[]",
            Types.LIST(Types.BIG_DEC()),
            [Decimal("1.5"), None],
            [Decimal("1"), Decimal("1e-5")],
        ),
        ("numeric(5,2)", Types.STRING(), "1.01", " 1.005 "),
        ("varchar(3)", Types.STRING(), "a  ", "ab     "),
        ("char(3)", Types.CHAR(), "a", " "),
        ("date", Types.STRING(), "2024-01-02T00:00:00", "2024-01-02 00:01"),
        ("timestamp", Types.STRING(), "2024-01-02 03:04:05.123456Z", "2024-01-02T03:04:05-05"),
        ("time(1)", Types.STRING(), "03:04:05.10", "03:04:05.16"),
        ("timestamptz", Types.SQL_TIMESTAMP(), NOON.replace(tzinfo=datetime.UTC), NOON),
    ],
    "mariadb": [
        ("enum('a','it''s')", Types.STRING(), "it's", "1"),
        ("enum('0','1')", Types.INT(), None, 1),
        ("set('a','b')", Types.STRING(), "b,a", "3"),
        ("year", Types.INT(), 1970, 70),
        ("year", Types.STRING(), "2024", "24"),
        ("char(3)", Types.STRING(), "a", "a "),
        ("date", Types.STRING(), "2024-1-2", "24-01-02"),
        ("datetime", Types.STRING(), "2024-01-02 03:04:05.0", "2024-01-02 03:04:05.7"),
        ("time(1)", Types.STRING(), "03:04:05.10", "03:04:05.16"),
    ],
    "sqlite": [
        ("STRING", Types.STRING(), "x7", "007"),
        ("INTEGER", Types.STRING(), "7", "12345678901234567890"),
        ("DECIMAL(30,20)", Types.BIG_DEC(), Decimal("0.1"), Decimal("0.1234567890123456789")),
        ("BIGINT", Types.BIG_INT(), 2**63 - 1, 2**70 + 1),
        ("REAL", Types.LONG(), 2**53, 2**53 + 1),
        ("TEXT", Types.DOUBLE(), 0.1, 0.1 + 0.2),
        ("", Types.STRING(), "007", None),
    ],
}


def test_values_of_which_a_column_makes_others_are_said_once(database, caplog):
    """With the column and what to do, and only where such a value comes."""
    cases = REPLACED[database.kind]
    columns = [f"c{number}" for number in range(len(cases))]
    declared = ", ".join(f"{name} {case[0]}" for name, case in zip(columns, cases, strict=True))
    database.execute(f"CREATE TABLE t ({declared})")
    kind = Types.ROW_NAMED(columns, [case[1] for case in cases])
    sql = f"INSERT INTO t ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    if database.kind == "postgres":
        database.execute("ALTER ROLE CURRENT_USER SET timezone = 'Asia/Tokyo'")
    writer = writer_of(sink(database, sql, kind))
    flushed(writer, tuple(case[2] for case in cases), (None,) * len(cases))
    assert "makes another value" not in caplog.text
    flushed(writer, *[tuple(case[3] for case in cases)] * 2)
    writer.close()
    if database.kind == "postgres":
        database.execute("ALTER ROLE CURRENT_USER RESET timezone")
    expected = [name for name, case in zip(columns, cases, strict=True) if case[3] is not None]
    assert [name for name in columns if f"in field '{name}' without a word: " in caplog.text] == expected
    assert caplog.text.count("makes another value") == len(expected)


@given(
    st.sampled_from(["INTEGER", "NUMERIC", "REAL", "TEXT", "STRING", "BLOB", ""]),
    st.one_of(
        st.tuples(
            st.just(Types.STRING()),
            st.from_regex(r"[ +-]?[0-9]{0,20}\.?[0-9]{0,5}(e[0-9]{1,2})? ?", fullmatch=True),
        ),
        st.tuples(st.just(Types.STRING()), st.floats(-1e6, 1e6).map(lambda value: f"{value:.6f}")),
        st.tuples(st.just(Types.BIG_DEC()), st.decimals(-(10**6), 10**6)),
        st.tuples(st.just(Types.BIG_INT()), st.integers(-(2**80), 2**80)),
        st.tuples(st.just(Types.LONG()), st.integers(-(2**63), 2**63 - 1)),
    ),
)
@example("NUMERIC", (Types.STRING(), "1e999"))
def test_what_sqlite_stores_is_told_exactly_where_it_is_another_value(column, typed):
    kind, value = typed
    dialect = dialects.SqliteDialect()
    statement = Statement("INSERT INTO t (x) VALUES (?)", Types.ROW([kind]), dialect)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t (x {column})")
        replaced = dialect.replaced(connection, statement.sql, statement.kinds)
        dialect.write(connection, statement.sql, statement.parameters([(value,)]))
        (stored,) = connection.execute("SELECT x FROM t").fetchone()
    if kind == Types.STRING():
        number = str(stored) if isinstance(stored, str) else repr(float(stored))
        kept = value in (str(stored), number, number.removesuffix(".0"))
    else:
        kept = Decimal(str(stored)) == value
    told = 0 in replaced and replaced[0].of(value)
    assert told is not kept, f"{value!r} became {stored!r}"


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_a_row_that_is_too_large_for_mariadb_is_refused_for_good(exact, request, tmp_path, waits):
    """The server cuts the connection over it, which looked like a failure that may pass."""
    database = Database("mariadb", tmp_path, request)
    database.execute("CREATE TABLE t (id INT, s LONGTEXT)")
    ((most,),) = database.execute("SELECT @@max_allowed_packet")
    make = JdbcSink.exactly_once_sink if exact else JdbcSink.sink
    row = Types.ROW([Types.INT(), Types.STRING()])
    writer = writer_of(make("INSERT INTO t (id, s) VALUES (?, ?)", row, database.options))
    large = random.Random(1).randbytes(most * 3 // 4).hex()  # which takes half as much where it is compressed
    said = f"is more than the server's max_allowed_packet, {most}: let the server"
    with pytest.raises(RefusedForGoodError, match=said) as told:
        flushed(writer, (1, "a"), (2, large), (3, "c"))
    assert waits == []
    if not exact:
        assert "row: f0=2, " in str(told.value)
    writer.close()
    assert database.execute("SELECT id FROM t") == []


@pytest.mark.slow
@pytest.mark.parametrize("sql", ["INSERT INTO t VALUES (?, ?)", "REPLACE INTO `t`(id, name) VALUES (?, ?)"])
@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "InnoDB"])
def test_a_table_without_transactions_is_refused_where_rows_are_to_be_there_once(
    sql, engine, request, tmp_path
):
    database = Database("mariadb", tmp_path, request)
    database.execute(f"CREATE TABLE t (id INT, name VARCHAR(50)) ENGINE={engine}")
    exactly_once = JdbcSink.exactly_once_sink(sql, ROW, database.options)
    if engine == "InnoDB":
        writer = writer_of(exactly_once)
    else:
        with pytest.raises(
            RefusedForGoodError, match=f"t`? has the engine {engine}, which has no transactions"
        ):
            writer_of(exactly_once)
        writer = writer_of(sink(database, sql))
    flushed(writer, (1, "a"))
    writer.close()
    assert rows(database) == [(1, "a")]


@pytest.mark.slow
def test_a_view_of_a_table_may_be_written_once(request, tmp_path):
    database = Database("mariadb", tmp_path, request)
    database.execute("CREATE TABLE t (id INT, name VARCHAR(50))")
    database.execute("CREATE VIEW v AS SELECT * FROM t")
    writer = writer_of(JdbcSink.exactly_once_sink("INSERT INTO v VALUES (?, ?)", ROW, database.options))
    flushed(writer, (1, "a"))
    writer.close()
    assert rows(database) == [(1, "a")]


def test_a_statement_that_is_wrong(database, waits):
    writer = writer_of(sink(database, "INSERT INTO nowhere VALUES (?, ?)"))
    writer.write([(1, "a")])
    with pytest.raises(ConnectorError, match="nowhere"):
        writer.prepare(False)
    assert waits == [], "trying again mends nothing"
    writer.close()


def test_a_misfit_is_refused_before_the_database_sees_it(sqlite):
    sqlite.execute(TABLE)
    writer = writer_of(sink(sqlite))
    with pytest.raises(TypeMismatchError, match="field 'id'"):
        writer.write([("one", "a")])
    writer.close()


def test_a_locked_database_is_tried_again(sqlite, waits, monkeypatch):
    monkeypatch.setattr("changelog_engine.connectors.jdbc.dialects._SQLITE_WAIT_S", 0)
    sqlite.execute(TABLE)
    other = sqlite3.connect(sqlite._path, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    writer = writer_of(sink(sqlite, retries=2))
    writer.write([(1, "a")])
    with pytest.raises(ConnectorError, match=r"writing rows failed \(3 times\) .*locked"):
        writer.prepare(False)
    assert waits == [1, 2]
    monkeypatch.setattr(writer._session, "_sleep", lambda seconds: other.rollback())
    writer.prepare(False)
    assert rows(sqlite) == [(1, "a")]
    writer.close()
    other.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_server_that_is_killed_and_comes_back(kind, request, tmp_path, waits, monkeypatch, caplog):
    database = Database(kind, tmp_path, request)
    database.execute(TABLE)
    batching, exact = writer_of(sink(database)), None
    batching.write([(1, "a")])
    batching.prepare(False)
    exact = writer_of(JdbcSink.exactly_once_sink(INSERT, ROW, database.options))
    exact.write([(10, "x")])
    portion = exact.prepare(False).committables
    database.server.kill()
    batching.write([(2, "b")])
    with caplog.at_level(logging.WARNING), pytest.raises(ConnectorError) as raised:
        batching.prepare(False)
    assert waits == [1, 2, 3]
    assert database.server.password not in str(raised.value) + caplog.text
    for writer in (batching, exact):
        restarted = threading.Event()

        def restart(seconds, restarted=restarted):
            if not restarted.is_set() and not database.server.running:
                database.server.start()
            restarted.set()

        monkeypatch.setattr(writer._session, "_sleep", restart)
    batching.prepare(False)
    database.server.kill()
    exact.commit(portion)
    exact.commit(portion)
    assert rows(database) == [(1, "a"), (2, "b"), (10, "x")]
    batching.close()
    exact.close()


@pytest.fixture
def impatient(monkeypatch):
    """The server ends what is abandoned, and waits for locks, after two seconds."""
    sooner = dialects._BOUNDS_POSTGRESQL.replace("'20s'", "'2s'").replace("'30s'", "'2s'")
    monkeypatch.setattr(dialects, "_BOUNDS_POSTGRESQL", sooner)
    monkeypatch.setattr(dialects, "ABANDONED_S", 2)
    monkeypatch.setattr(dialects, "_LONGEST_LOCK_S", 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.usefixtures("impatient")
def test_a_writer_that_was_stopped_within_a_commit_holds_nobody_up(kind, request, tmp_path, monkeypatch):
    """As SIGSTOP or a power cut leaves it: a transaction open, with locks of the commit table and of the user's."""
    database = Database(kind, tmp_path, request)
    database.execute(TABLE)
    exactly_once = JdbcSink.exactly_once_sink(INSERT, ROW, database.options)
    first = writer_of(exactly_once)
    first.write([(1, "a"), (2, "b")])
    prepared = first.prepare(False)
    stopped, goes_on = threading.Event(), threading.Event()
    forget = first._table.forget

    def stop(*arguments):
        stopped.set()
        goes_on.wait(60)
        forget(*arguments)

    monkeypatch.setattr(first._table, "forget", stop)
    with ThreadPoolExecutor() as threads:
        committed = threads.submit(first.commit, prepared.committables)
        try:
            assert stopped.wait(60)
            context = CONTEXT._replace(attempt=2, restored=[RestoredSink(0, prepared)])
            second = writer_of(exactly_once, context)
            assert rows(database) == [(1, "a"), (2, "b")]
        finally:
            goes_on.set()
        committed.result()
    assert rows(database) == [(1, "a"), (2, "b")]
    first.close()
    second.close()


@pytest.mark.slow
@pytest.mark.parametrize("within", ["a pipeline", "an answer", "a transaction, after a pipeline"])
@pytest.mark.usefixtures("impatient")
def test_a_writer_that_was_stopped_where_the_server_has_no_bound(within, request, tmp_path, caplog):
    """Between two statements of `executemany`, before the commit after it, or with an answer that it did not read: the next
    one ends its session."""
    database = Database("postgres", tmp_path, request)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40))")
    database.execute("INSERT INTO t VALUES (1, 'a')")
    writer = writer_of(sink(database, f"{INSERT} ON CONFLICT (id) DO UPDATE SET name = 'b'", retries=9))
    dialect = writer._session.dialect
    stopped = dialect.connect(writer._session._options)
    request.addfinalizer(stopped.close)
    request.addfinalizer(writer.close)
    dialect.begin(stopped)
    update = b"UPDATE t SET name = 'c' WHERE id = 1"
    if within == "a pipeline":
        stopped.pgconn.enter_pipeline_mode()
        stopped.pgconn.send_query_params(update, [])
    elif within != "an answer":
        dialect.write(stopped, "UPDATE t SET name = %s WHERE id = %s", [("c", 1)])
    else:
        stopped.execute(update)
        stopped.pgconn.send_query(b"SELECT repeat('x', 100000000)")
    stopped.pgconn.flush()
    has_begun = "SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND database IS NULL AND pid <> pg_backend_pid()"
    wait_for(lambda: bool(database.execute(has_begun)), "the lock of the row", 30)
    writer.write([(1, "a")])
    writer.prepare(False)
    assert rows(database) == [(1, "b")]
    # The server's timer of idle transactions may have been armed again, and be the one that ended it.
    assert "1 sessions were ended" in caplog.text or within == "a transaction, after a pipeline"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.usefixtures("impatient")
def test_a_connection_that_was_idle_for_long_is_made_anew(kind, request, tmp_path, caplog):
    database = Database(kind, tmp_path, request)
    database.execute(TABLE)
    writer = writer_of(sink(database))
    for number in (1, 2):
        writer.write([(number, "a")])
        writer.prepare(False)
        time.sleep(3)
    assert rows(database) == [(1, "a"), (2, "a")]
    assert not caplog.messages
    writer.close()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_lock_of_a_whole_table_that_stays_ends_in_an_error(request, tmp_path):
    """For which MariaDB waits a day, and MySQL a year."""
    database = Database("mariadb", tmp_path, request)
    database.execute(TABLE)
    writer = writer_of(sink(database, retries=1))
    writer.write([(1, "a")])
    with closing(database.server.connect(database.name)) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        with pytest.raises(ConnectorError, match=r"writing rows failed \(2 times\) .*Lock wait timeout"):
            writer.prepare(False)
    writer.prepare(False)
    assert rows(database) == [(1, "a")]
    writer.close()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_lock_that_stays_ends_in_an_error_and_bounds_of_the_user_stay(request, tmp_path):
    database = Database("postgres", tmp_path, request)
    database.execute(TABLE)
    writer = writer_of(sink(database, retries=1))
    writer.write([(1, "a")])
    with database.server.connect(database.name) as other:
        other.execute("LOCK TABLE t")
        with pytest.raises(ConnectorError, match=r"writing rows failed \(2 times\) .*lock timeout"):
            writer.prepare(False)
    writer.prepare(False)
    assert rows(database) == [(1, "a")]
    database.execute(f"ALTER DATABASE {database.name} SET lock_timeout = '7s'")
    writer.close()
    shown = writer._session.run(
        lambda connection: connection.execute("SHOW lock_timeout").fetchone(), "looking"
    )
    assert shown == ("7s",)
    writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_wrong_password_is_not_told(kind, request, tmp_path, caplog):
    database = Database(kind, tmp_path, request)
    builder = type(database.options).JdbcConnectionOptionsBuilder().with_url(database.url)
    wrong = builder.with_user_name("tester").with_password("not the pässword").build()
    writer = writer_of(JdbcSink.sink(INSERT, ROW, wrong))
    writer.write([(1, "a")])
    with caplog.at_level(logging.DEBUG), pytest.raises(ConnectorError, match="tester") as raised:
        writer.prepare(False)
    assert "not the p" not in str(raised.value) + caplog.text
    writer.close()


class TestExactlyOnce:
    def sink(self, database, sql=INSERT):
        return JdbcSink.exactly_once_sink(sql, ROW, database.options)

    @pytest.mark.filterwarnings("ignore:.*was deleted while still open:ResourceWarning")
    def test_conformance(self, database):
        database.execute("CREATE TABLE t (id INTEGER, name VARCHAR(50))")
        check_committing_sink(
            self.sink(database)._function,
            lambda: rows(database),
            lambda number: (number, f"element {number}"),
            runs=8 if database.kind == "sqlite" else 3,
        )
        gc.collect()  # connections of writers that crashed

    def test_rows_are_seen_when_they_are_committed(self, database):
        database.execute(TABLE)
        writer = writer_of(self.sink(database))
        writer.write([(1, "a")])
        first = writer.prepare(False).committables
        writer.write([(2, "b")])
        second = writer.prepare(False).committables
        assert writer.prepare(False) == Prepared()
        assert rows(database) == []
        assert [portion["rows"] for portion in (*first, *second)] == [1, 1]
        writer.commit([*first, *second])
        assert rows(database) == [(1, "a"), (2, "b")]
        assert database.execute("SELECT job, sink, subtask, committed FROM changelog_engine_commits") == [
            ("job", "sink", 0, 2)
        ]
        assert database.execute("SELECT COUNT(*) FROM changelog_engine_commits_staged") == [(0,)]
        writer.close()

    def test_two_commit_the_same_at_once(self, database):
        """A writer that is thought dead, and the one that took its place."""
        database.execute("CREATE TABLE t (id INTEGER, name VARCHAR(50))")
        writer = writer_of(self.sink(database))
        for number in range(10):
            writer.write([(number, "x")])
            portion = writer.prepare(False).committables
            others = [writer_of(self.sink(database)) for _ in range(2)]
            start = threading.Barrier(3)
            failed = []

            def commit(one, portion=portion, start=start, failed=failed):
                start.wait()
                try:
                    one.commit(portion)
                except Exception as error:
                    failed.append(error)

            threads = [threading.Thread(target=commit, args=(one,)) for one in (writer, *others)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failed == []
            for one in others:
                one.close()
        writer.close()
        assert rows(database, "id") == [(number,) for number in range(10)]

    def test_large_portions_are_staged_in_chunks(self, sqlite, monkeypatch):
        monkeypatch.setattr("changelog_engine.connectors.jdbc.exactly_once._CHUNK_ROWS", 100)
        monkeypatch.setattr("changelog_engine.connectors.jdbc.exactly_once._CHUNK_BYTES", 1000)
        sqlite.execute(TABLE)
        writer = writer_of(self.sink(sqlite))
        expected = [(number, str(number * 7919)) for number in range(450)]
        for start in range(0, 450, 45):
            writer.write(expected[start : start + 45])
        assert sqlite.execute("SELECT COUNT(*) >= 4 FROM changelog_engine_commits_staged") == [(1,)]
        portion = writer.prepare(False).committables
        assert portion[0]["rows"] == 450
        assert sqlite.execute("SELECT MAX(LENGTH(payload)) <= 1000 FROM changelog_engine_commits_staged") == [
            (1,)
        ]
        writer.commit(portion)
        assert rows(sqlite) == expected
        writer.close()

    def test_closing_takes_back_what_was_not_prepared(self, sqlite, monkeypatch):
        monkeypatch.setattr("changelog_engine.connectors.jdbc.exactly_once._CHUNK_ROWS", 2)
        sqlite.execute(TABLE)
        writer = writer_of(self.sink(sqlite))
        writer.write([(1, "a")])
        prepared = writer.prepare(False)
        writer.write([(2, "b"), (3, "c"), (4, "d")])
        assert sqlite.execute("SELECT portion_number FROM changelog_engine_commits_staged") == [(1,), (2,)]
        writer.close()
        assert sqlite.execute("SELECT portion_number FROM changelog_engine_commits_staged") == [(1,)]
        restored = CONTEXT._replace(attempt=2, restored=[RestoredSink(0, prepared)])
        writer_of(self.sink(sqlite), restored).close()
        assert rows(sqlite) == [(1, "a")]

    def test_closing_tries_once_to_take_rows_back(self, sqlite, monkeypatch, waits):
        """A restart waits for it: of a server that did not answer four connections were awaited, two minutes in all."""
        monkeypatch.setattr("changelog_engine.connectors.jdbc.exactly_once._CHUNK_ROWS", 2)
        sqlite.execute(TABLE)
        sqlite.url += "?busy_timeout=0"
        writer = writer_of(self.sink(sqlite))
        writer.write([(1, "a"), (2, "b")])
        with closing(sqlite3.connect(sqlite._path)) as other:
            other.execute("BEGIN EXCLUSIVE")
            writer.close()
        assert waits == []
        assert sqlite.execute("SELECT portion_number FROM changelog_engine_commits_staged") == [(1,)]

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["postgres", "mariadb"])
    def test_connections_that_are_cut_anywhere(self, kind, request, tmp_path, waits):
        """Within what is sent, or with the answer on its way: each row is there once."""
        database = Database(kind, tmp_path, request)
        database.execute(TABLE)
        with CutConnections(database.server.port) as cut:
            database.url = database.url.replace(f":{database.server.port}", f":{cut.port}")
            writer = writer_of(self.sink(database))
            for number in range(12):
                writer.write([(2 * number, "x" * 50), (2 * number + 1, "y")])
                if number % 3:
                    cut.cut_after(number * 190)
                else:
                    cut.lose_an_answer()
                portion = writer.prepare(False).committables
                if number % 2:
                    cut.lose_an_answer()
                writer.commit(portion)
            writer.close()
            assert cut.cuts >= 10
        assert rows(database, "id") == [(number,) for number in range(24)]

    def test_rows_that_were_staged_as_another_type_are_refused(self, sqlite):
        """The program was changed after it was killed between a checkpoint and its commit."""
        sqlite.execute("CREATE TABLE t (id, name)")
        staged = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.INT()])
        writer = writer_of(JdbcSink.exactly_once_sink("INSERT INTO t VALUES (?, ?)", staged, sqlite.options))
        writer.write([(1, 2)])
        restored = CONTEXT._replace(attempt=2, restored=[RestoredSink(0, writer.prepare(False))])
        writer.close()
        swapped = Types.ROW_NAMED(["name", "id"], [Types.INT(), Types.INT()])
        for changed, insert in (
            (swapped, "INSERT INTO t (name, id) VALUES (?, ?)"),
            (Types.ROW_NAMED(["id", "name"], [Types.STRING(), Types.STRING()]), INSERT),
        ):
            with pytest.raises(
                ConnectorError, match=r"staged rows as ROW<id INT, name INT>, .* Start the program as it was"
            ):
                writer_of(JdbcSink.exactly_once_sink(insert, changed, sqlite.options), restored)
        assert sqlite.execute("SELECT * FROM t") == []
        mended = JdbcSink.exactly_once_sink("INSERT OR IGNORE INTO t VALUES (?, ?)", staged, sqlite.options)
        writer_of(mended, restored).close()
        assert sqlite.execute("SELECT * FROM t") == [(1, 2)]

    def test_what_is_missing_is_an_error(self, sqlite):
        sqlite.execute(TABLE)
        writer = writer_of(self.sink(sqlite))
        writer.write([(1, "a"), (2, "b")])
        portion = writer.prepare(False).committables
        sqlite.execute("DELETE FROM changelog_engine_commits_staged")
        with pytest.raises(ConnectorError, match=r"2 rows were staged as portion 1 .* and 0 are in"):
            writer.commit(portion)
        assert sqlite.execute("SELECT committed FROM changelog_engine_commits") == [(0,)]
        sqlite.execute("DELETE FROM changelog_engine_commits")
        with pytest.raises(ConnectorError, match="does not know the writer"):
            writer.commit(portion)
        assert rows(sqlite) == []
        writer.close()

    def test_a_database_that_was_put_back_is_an_error(self, sqlite):
        """As after a fail-over to a replica that was behind: commits that were acknowledged are gone."""
        sqlite.execute(TABLE)
        writer = writer_of(self.sink(sqlite))
        writer.write([(1, "a")])
        writer.commit(writer.prepare(False).committables)
        backup = "CREATE TABLE {0}_old AS SELECT * FROM {0}"
        for name in ("t", "changelog_engine_commits"):
            sqlite.execute(backup.format(name))
        for number in (2, 3):
            writer.write([(number, "b")])
            writer.commit(writer.prepare(False).committables)
        writer.write([(4, "c")])
        portion = writer.prepare(False)
        for name in ("t", "changelog_engine_commits"):
            sqlite.execute(f"DELETE FROM {name}")
            sqlite.execute(f"INSERT INTO {name} SELECT * FROM {name}_old")
        restored = CONTEXT._replace(attempt=2, restored=[RestoredSink(0, portion)])
        for commit in (
            lambda: writer.commit(portion.committables),
            lambda: writer_of(self.sink(sqlite), restored),
        ):
            with pytest.raises(ConnectorError, match=r"has portion 1 of .* and portion 3 was committed"):
                commit()
        assert rows(sqlite) == [(1, "a")]
        writer.close()

    def test_old_rows_of_dead_writers_go(self, sqlite):
        sqlite.execute(TABLE)
        options = self.sink(sqlite)._function
        dead = options.committing_writer(CONTEXT)
        dead.write([(1, "dead")])
        dead.prepare(False)
        other = options.committing_writer(CONTEXT._replace(uid="another sink"))
        other.write([(2, "other")])
        other.prepare(False)
        sqlite.execute(
            "UPDATE changelog_engine_commits_staged SET staged_ms = staged_ms - 8 * 24 * 3600 * 1000"
        )
        writer = options.committing_writer(CONTEXT)
        writer.write([(3, "c")])
        writer.commit(writer.prepare(False).committables)
        kept = "SELECT sink FROM changelog_engine_commits c JOIN changelog_engine_commits_staged s ON c.writer = s.writer"
        assert sqlite.execute(kept) == [("another sink",)]
        assert rows(sqlite) == [(3, "c")]
        for one in (dead, other, writer):
            one.close()

    def test_many_writers_make_the_tables_at_once(self, database):
        failed = []

        def make(subtask):
            try:
                writer_of(self.sink(database), CONTEXT._replace(subtask=subtask)).close()
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=make, args=(subtask,)) for subtask in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert database.execute("SELECT COUNT(*) FROM changelog_engine_commits") == [(0,)]


def test_nothing_is_logged_that_is_secret(tmp_path, request, caplog):
    """The folder of a job that wrote with a password does not have it."""
    from support.graphs import GraphBuilder
    from support.jobs import TestJob

    from changelog_engine.graph.nodes import NodeKind

    database = Database("sqlite", tmp_path, request)
    database.execute(TABLE)
    builder = type(database.options).JdbcConnectionOptionsBuilder().with_url(database.url)
    jdbc_sink = JdbcSink.exactly_once_sink(INSERT, ROW, builder.with_password("hush-hush").build())
    build = GraphBuilder()
    build.add(NodeKind.SINK, "sink", build.source([(1, "a"), (2, "b")]), function=jdbc_sink._function)
    with caplog.at_level(logging.DEBUG):
        TestJob(tmp_path / "log").run(build.graph())
    assert rows(database) == [(1, "a"), (2, "b")]
    assert "hush-hush" not in caplog.text
    found = subprocess.run(
        ["grep", "-r", "-l", "hush", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert found.stdout == ""
