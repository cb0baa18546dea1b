"""SQL without Spark: the typed views of small jobs, in DuckDB, with the cases of the Spark views."""

from __future__ import annotations

import csv
import datetime
import io
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pytest
from support.sql_cases import HOSTILE, KEYS, VALUES
from test_cli import cli, refused, run
from test_console import Expiring

from api.common import Configuration, Types
from api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from api.datastream.state import ListStateDescriptor, ValueStateDescriptor
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.history.sql_types import SqlType, key_sql_type, parsed, sql_type
from changelog_engine.inspection.points import open_point
from changelog_engine.inspection.sql import Views, query
from changelog_engine.testing import without_spark


def shown(found: SqlType, text: str) -> Any:
    """A text as a query of DuckDB gives it."""
    table = pa.table({"v": pa.array([found.of_json(orjson.loads(text))], found.arrow)})
    with duckdb.connect() as connection:
        connection.register("t", table)
        return plain(connection.execute("SELECT v FROM t").fetchall()[0][0])


def plain(value: Any) -> Any:
    """Structs as tuples, as the cases have them; of maps, the dicts that they are."""
    if isinstance(value, dict):
        return tuple(plain(item) for item in value.values())
    return [plain(item) for item in value] if isinstance(value, list) else value


def expected_of(expected: Any, name: str) -> Any:
    if isinstance(expected, dict):
        return tuple(plain(item) for item in expected.values())
    if name == "TIMESTAMP":
        return expected.astimezone(datetime.UTC).replace(tzinfo=None)
    return expected


def test_values_of_every_type_are_those_of_the_spark_views() -> None:
    for type_info, value, name, expected in VALUES:
        text = codec_for(type_info).encode(value).text
        assert text is not None
        assert shown(sql_type(type_info), text) == expected_of(expected, name), f"{type_info} {value!r}"
    for key_type, key, name, expected in KEYS:
        codec = key_codec_for(key_type)
        assert shown(key_sql_type(key_type), codec.text(codec.identity(key))) == expected_of(expected, name)


def test_a_map_has_its_keys() -> None:
    for type_info, value, name, expected in VALUES:
        if name.startswith("MAP") and expected is not None:
            text = codec_for(type_info).encode(value).text
            found = sql_type(type_info).of_json(orjson.loads(text or "null"))
            assert [key for key, _ in found] == list(expected)


def test_text_that_does_not_fit_is_null_and_no_error() -> None:
    for type_info in dict.fromkeys(type_info for type_info, *_ in VALUES):
        found = sql_type(type_info)
        for text in HOSTILE:
            try:
                value = orjson.loads(text)
            except ValueError:
                value = text
            made = pa.array([found.of_json(value)], found.arrow)
            if found.name in ("BIGINT", "DATE", "TIMESTAMP", "DECIMAL(38,18)"):
                assert made.null_count == 1, (found.name, text)


def test_the_types_of_both_dialects_are_the_same() -> None:
    """What DuckDB says of a column is what Spark's DDL says, in its words."""
    same = {
        "STRING": "VARCHAR",
        "DECIMAL": "DECIMAL",
        "BINARY": "BLOB",
        "INT": "INTEGER",
        "TIMESTAMP_NTZ": "TIMESTAMP",
    }
    for type_info in dict.fromkeys(type_info for type_info, *_ in VALUES):
        found = sql_type(type_info)
        if "<" in found.name:
            continue
        with duckdb.connect() as connection:
            connection.register("t", pa.table({"v": pa.array([], found.arrow)}))
            (said,) = connection.execute("DESCRIBE t").fetchall()
        assert said[1] == same.get(found.name, found.name)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("base")
    run(base)
    return run(base, "to be is to do", restore="1")


def test_views_of_states(job: Path) -> None:
    counts = query(str(job), "SELECT key, value FROM count_count ORDER BY key")
    assert counts.rows == [("be", 1), ("do", 1), ("is", 1), ("to", 2)]
    places = query(
        str(job), "SELECT value, value_json, checkpoint_id FROM count_places WHERE key = 'to'", at="3"
    )
    assert places.rows == [([0, 4], "[0,4]", 3)]
    (timers,) = query(str(job), "SELECT count(*), min(domain), max(time_ms) FROM Count_Timers").rows
    assert timers == (4, "processing time", 2**62)
    rows = query(str(job), "SELECT id, parent, on_lineage FROM checkpoints").rows
    assert rows == [(1, None, True), (2, 1, False), (3, 2, False), (4, 1, True), (5, 4, True)]
    views = query(str(job), "SELECT view, key_type, value_type FROM states").rows
    assert views == [
        ("count_count", "STRING", "BIGINT"),
        ("count_places", "STRING", "ARRAY<BIGINT>"),
        ("count_timers", None, None),
    ]
    assert query(str(job), "show tables;") == query(str(job), "SELECT * FROM states")


def test_views_of_changes(job: Path) -> None:
    """Of a log with two branches: only the shown lineage's changes are in a history."""
    history = query(
        str(job),
        "SELECT valid_from_checkpoint, operation, value_before, value_after, valid_to_checkpoint, "
        "valid_from < valid_to FROM count_count_history WHERE key = 'to' ORDER BY sequence",
    )
    assert [row[:4] for row in history.rows] == [(1, "put", None, 1), (4, "put", 1, 2)]
    assert [row[4:] for row in history.rows] == [(4, True), (None, None)]
    places = query(
        str(job),
        "SELECT value_before, value_after, value_after_json FROM count_places_history WHERE key_json = '\"to\"' "
        "ORDER BY sequence",
    )
    assert places.rows == [(None, [0], "[0]"), ([0], [0, 3], "[0,3]")]
    timers = query(
        str(job), "SELECT operation, domain, time_ms FROM count_timers_history WHERE key = 'is'"
    ).rows
    assert timers[0] == ("register_timer", "processing time", 2**62)
    both = query(
        str(job),
        "SELECT on_lineage, count(*), min(value) FROM mutations WHERE state = 'count' GROUP BY 1 ORDER BY 1",
    )
    assert [row[0] for row in both.rows] == [False, True]
    joined = query(
        str(job), "SELECT count(*) FROM mutations a JOIN mutations b USING (attempt, operator, sequence)"
    )
    assert joined.rows[0][0] >= sum(row[1] for row in both.rows)


def test_time_to_live_and_pickles_are_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(run(tmp_path, function=Expiring()))
    monkeypatch.setattr("pickle.loads", lambda data: pytest.fail("unpickled"))
    (seen,) = query(
        folder, "SELECT value, value_json, accessed IS NULL FROM count_seen WHERE key = 'to'"
    ).rows
    assert seen == (4, "4", False)
    (kept,) = query(
        folder, "SELECT map_key, value, value_json, pickled_bytes > 0 FROM count_kept WHERE key = 'to'"
    ).rows
    assert kept == ("all", None, "[4]", True)
    (changed,) = query(
        folder,
        "SELECT operation, value_after, value_after_json, accessed IS NULL FROM count_seen_history WHERE key = 'to' "
        "ORDER BY sequence DESC LIMIT 1",
    ).rows
    assert changed == ("put", 4, "4", False)
    (kept,) = query(
        folder,
        "SELECT value_after, value_after_json, pickled_type FROM count_kept_history WHERE key = 'to' AND map_key = 'all' "
        "ORDER BY sequence DESC LIMIT 1",
    ).rows
    assert kept[:2] == (None, "[4]")
    assert kept[2]
    views = Views(*open_point(folder))
    assert views.table("count_seen").column_names[:4] == [
        "key",
        "key_json",
        "value",
        "value_json",
    ]


def test_the_command(job: Path) -> None:
    question = "SELECT key, value FROM count_count ORDER BY key LIMIT 1"
    assert json.loads(cli("sql", job, question, "--json").output) == [{"key": "be", "value": 1}]
    assert list(csv.reader(io.StringIO(cli("sql", job, question, "--csv").output))) == [
        ["key", "value"],
        ["be", "1"],
    ]
    for text in ("7", "acc-3", '"be"'):
        said = refused(cli("sql", job, f"SELECT * FROM count_count WHERE key = {text}"))
        assert "Text stands in single quotes, numbers alone in none: WHERE key = 'ann'" in said
    assert "quotes" not in refused(cli("sql", job, "SELECT count(* FROM count_count"))
    assert "there is no view 'count_cuont'; the nearest of 9: count_count" in refused(
        cli("sql", job, "SELECT * FROM count_cuont")
    )
    assert "syntax error" in refused(cli("sql", job, "SELEC"))


def test_a_query_sees_nothing_else_of_the_machine(job: Path, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a\n1\n")
    for question in (
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        f"COPY (SELECT 1) TO '{tmp_path}/made.csv'",
    ):
        assert "disabled" in refused(cli("sql", job, question))
    assert not (tmp_path / "made.csv").exists()


def test_without_duckdb_it_says_what_to_install(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install 'changelog-engine[sql]'" in refused(cli("sql", job, "SELECT 1"))


def test_whole_numbers_over_64_bits_keep_all_their_digits() -> None:
    assert parsed(f"[{2**70 + 1}]") == [2**70 + 1]
    assert parsed("[1.5, 1234567890123456789]") == [1.5, 1234567890123456789]
    assert key_sql_type(Types.BIG_INT()).of_json(parsed(str(2**70 + 1))) == 2**70 + 1


def test_values_without_a_place_in_their_column_are_null_in_the_history_too(tmp_path: Path) -> None:
    """As in the view of the state; their text says what they are."""
    large = Decimal("1e30")  # more digits than DECIMAL(38,18) has

    class Keep(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.one = runtime_context.get_state(ValueStateDescriptor("one", Types.BIG_DEC()))
            self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.BIG_DEC()))

        def process_element(self, value: Any, ctx: Any) -> None:
            self.one.update(value)
            self.all.add(value)

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(10).enable_changelog_state_backend(True)
    env.configure(Configuration().set_string("state.changelog.dstl.dfs.base-path", str(tmp_path)))
    values = env.from_collection([large, Decimal("1.5")], Types.BIG_DEC())
    values.key_by(lambda value: value, Types.BIG_DEC()).process(Keep()).uid("keep").print()
    with without_spark():
        env.execute("decimals")
    columns = "key, key_json, value_after"
    for state, some in (("one", Decimal("1.5")), ("all", [Decimal("1.5")])):
        found = query(
            str(tmp_path / "decimals"), f"SELECT {columns} FROM keep_{state}_history ORDER BY sequence"
        ).rows
        assert [row[1] for row in found] == [f'"{large}"', '"1.5"']
        assert found[0][0] is None
        assert found[0][2] in (None, [None])
        assert found[1][0] == Decimal("1.5")
        assert found[1][2] == some


def test_a_name_that_a_query_gives_twice_loses_no_column(tmp_path: Path) -> None:
    folder = run(tmp_path)
    (row,) = json.loads(cli("sql", folder, "SELECT 1 AS a, 2 AS a", "--json").output)
    assert row == {"a": 1, "a_2": 2}
