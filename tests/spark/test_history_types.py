"""Every declared type as a SQL type: values come out as they went in, and what does not fit is null with its text beside."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from support.jobs import TestJob
from support.script import Script
from support.window_jobs import graph, spec

from api.common import Types
from api.common.time import Time
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine import history
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.history.pickles import pickled_type
from changelog_engine.history.sql_types import key_sql_type, sql_type, value_of, window_sql_type
from changelog_engine.types import Instant, TypeInformation

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def interpreted(spark: SparkSession) -> Iterator[None]:
    """No compiled code: one large query a test, over one row."""
    before = {name: spark.conf.get(name) for name in FAST}
    for name, value in FAST.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


FAST = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
D = decimal.Decimal
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PERSON = Types.ROW_NAMED(["name", "it's `odd`"], [Types.STRING(), PAIR])
VALUES: list[tuple[TypeInformation, Any, str, Any]] = [
    (Types.BYTE(), -128, "TINYINT", -128),
    (Types.SHORT(), 32_767, "SMALLINT", 32_767),
    (Types.INT(), -(2**31), "INT", -(2**31)),
    (Types.LONG(), 2**63 - 1, "BIGINT", 2**63 - 1),
    (Types.LONG(), None, "BIGINT", None),
    (Types.BIG_INT(), 2**63, "DECIMAL(38,0)", D(2**63)),
    (Types.BIG_INT(), 10**37, "DECIMAL(38,0)", D(10**37)),
    (Types.BIG_INT(), 10**40, "DECIMAL(38,0)", None),
    (Types.FLOAT(), 1.5, "FLOAT", 1.5),
    (Types.DOUBLE(), 1e300, "DOUBLE", 1e300),
    (Types.DOUBLE(), 0.1, "DOUBLE", 0.1),
    (Types.DOUBLE(), math.inf, "DOUBLE", math.inf),
    (Types.DOUBLE(), -math.inf, "DOUBLE", -math.inf),
    (Types.BOOLEAN(), True, "BOOLEAN", True),
    (Types.STRING(), 'a"\\\n\u00e9\U0001f600\u2028', "STRING", 'a"\\\n\u00e9\U0001f600\u2028'),
    (Types.STRING(), "null", "STRING", "null"),
    (Types.STRING(), "", "STRING", ""),
    (Types.STRING(), None, "STRING", None),
    (Types.CHAR(), "]", "STRING", "]"),
    (Types.BIG_DEC(), D("-12.34500"), "DECIMAL(38,18)", D("-12.345")),
    (Types.BIG_DEC(), D("1E+5"), "DECIMAL(38,18)", D(100_000)),
    (Types.BIG_DEC(), D("1.25E-7"), "DECIMAL(38,18)", D("1.25E-7")),
    (Types.BIG_DEC(), D("1E-19"), "DECIMAL(38,18)", None),
    (Types.BIG_DEC(), D("0." + "1" * 19), "DECIMAL(38,18)", None),
    (Types.BIG_DEC(), D(10**25), "DECIMAL(38,18)", None),
    (Types.BIG_DEC(), D("NaN"), "DECIMAL(38,18)", None),
    (Types.SQL_DATE(), datetime.date(2024, 2, 29), "DATE", datetime.date(2024, 2, 29)),
    (Types.SQL_TIME(), datetime.time(1, 2, 3, 4), "STRING", "01:02:03.000004"),
    (
        Types.SQL_TIMESTAMP(),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
        "TIMESTAMP_NTZ",
        datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
    ),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), "TIMESTAMP_NTZ", None),
    (
        Types.INSTANT(),
        Instant(1_700_000_000, 123_456_789),
        "TIMESTAMP",
        datetime.datetime.fromtimestamp(1_700_000_000).replace(microsecond=123_456),
    ),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff", "BINARY", bytearray(b"\x00\xff")),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], "ARRAY<INT>", [1, 2]),
    (Types.LIST(Types.STRING()), ["a", None, "null", "[1]"], "ARRAY<STRING>", ["a", None, "null", "[1]"]),
    (Types.LIST(Types.STRING()), [], "ARRAY<STRING>", []),
    (Types.LIST(Types.LIST(Types.LONG())), [[1], [], None], "ARRAY<ARRAY<BIGINT>>", [[1], [], None]),
    (Types.LIST(Types.DOUBLE()), [math.inf, 1.0], "ARRAY<DOUBLE>", [math.inf, 1.0]),
    (PAIR, ("a", 1), "STRUCT<`f0`: STRING, `f1`: BIGINT>", ("a", 1)),
    (PAIR, (None, None), "STRUCT<`f0`: STRING, `f1`: BIGINT>", (None, None)),
    (PAIR, None, "STRUCT<`f0`: STRING, `f1`: BIGINT>", None),
    (
        Types.TUPLE([PAIR, Types.LIST(PAIR)]),
        (("a", 1), [("b", 2), None]),
        "STRUCT<`f0`: STRUCT<`f0`: STRING, `f1`: BIGINT>, `f1`: ARRAY<STRUCT<`f0`: STRING, `f1`: BIGINT>>>",
        (("a", 1), [("b", 2), None]),
    ),
    (
        PERSON,
        PERSON.check(("ann", ("x", 1))),
        "STRUCT<`name`: STRING, `it's ``odd```: STRUCT<`f0`: STRING, `f1`: BIGINT>>",
        ("ann", ("x", 1)),
    ),
    (
        Types.ROW_NAMED(["a", "A"], [Types.LONG(), Types.LONG()]),
        Types.ROW_NAMED(["a", "A"], [Types.LONG(), Types.LONG()]).check((1, 2)),
        "STRING",
        '{"a":1,"A":2}',
    ),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1, "": None}, "MAP<STRING, BIGINT>", {"a": 1, "": None}),
    (
        Types.MAP(Types.LONG(), PAIR),
        {-1: ("a", 1)},
        "MAP<BIGINT, STRUCT<`f0`: STRING, `f1`: BIGINT>>",
        {-1: ("a", 1)},
    ),
    (Types.MAP(Types.DOUBLE(), Types.STRING()), {1.5: "x"}, "MAP<DOUBLE, STRING>", {1.5: "x"}),
    (Types.MAP(Types.BIG_INT(), Types.STRING()), {10**40: "x"}, "MAP<DECIMAL(38,0), STRING>", None),
    (
        Types.MAP(PAIR, Types.LONG()),
        {("a", 1): 2},
        "ARRAY<STRUCT<key: STRUCT<`f0`: STRING, `f1`: BIGINT>, value: BIGINT>>",
        [(("a", 1), 2)],
    ),
    (Types.PICKLED_BYTE_ARRAY(), "text", "STRING", "text"),
    (Types.PICKLED_BYTE_ARRAY(), {"a": [1, 2.5, None]}, "STRING", '{"a":[1,2.5,null]}'),
]


def plain(value: Any) -> Any:
    if isinstance(value, Row):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def evaluated(spark: SparkSession, expressions: list[str], texts: list[str]) -> tuple[list[Any], list[str]]:
    """Each expression over its text, column ``t``; values and SQL types."""
    frame = spark.createDataFrame([tuple(texts)], ", ".join(f"t{i} STRING" for i in range(len(texts))))
    frame.createOrReplaceTempView("texts")
    columns = ", ".join(f"{expression} AS v{i}" for i, expression in enumerate(expressions))
    found = spark.sql(f"SELECT {columns} FROM texts")
    return [plain(value) for value in found.collect()[0]], [field.dataType for field in found.schema]


def test_values_of_every_type(spark: SparkSession) -> None:
    types = [sql_type(type_info) for type_info, *_ in VALUES]
    texts = [codec_for(type_info).encode(value).text for type_info, value, *_ in VALUES]
    found, kinds = evaluated(spark, [value_of(t, f"t{i}") for i, t in enumerate(types)], texts)
    assert [t.name for t in types] == [name for _, _, name, _ in VALUES]
    for (type_info, value, _, expected), shown in zip(VALUES, found, strict=True):
        assert shown == expected, f"{type_info} {value!r}"
    declared = spark.createDataFrame([], ", ".join(f"v{i} {t.name}" for i, t in enumerate(types))).schema
    assert [k.simpleString() for k in kinds] == [field.dataType.simpleString() for field in declared]


HOSTILE = [
    "",
    "x",
    "{",
    "[",
    "[1",
    "null",
    "1e400",
    '"',
    '{"a":{}}',
    "[[]]",
    '[null,"x"]',
    '{"$exact":[1]}',
    "NaN",
]


def test_text_that_does_not_fit_is_null(spark: SparkSession) -> None:
    """No text makes a query fail, whatever type it is read as; most give null."""
    types = list(dict.fromkeys(type_info for type_info, *_ in VALUES))
    cases = [(sql_type(t), text) for t in types for text in HOSTILE]
    for start in range(0, len(cases), 100):
        part = cases[start : start + 100]
        found, _ = evaluated(
            spark, [value_of(t, f"t{i}") for i, (t, _) in enumerate(part)], [x for _, x in part]
        )
        for (kind, text), value in zip(part, found, strict=True):
            if kind.name in ("BIGINT", "DATE", "BINARY", "TIMESTAMP", "DECIMAL(38,18)") and text:
                assert value is None or value == bytearray(), (kind, text)


KEYS: list[tuple[TypeInformation | None, Any, str, Any]] = [
    (Types.LONG(), -5, "BIGINT", -5),
    (Types.STRING(), "a", "STRING", "a"),
    (PAIR, ("a", 1), "STRUCT<`f0`: STRING, `f1`: BIGINT>", ("a", 1)),
    (Types.BIG_DEC(), D("1.50"), "DECIMAL(38,18)", D("1.50")),
    (Types.LIST(Types.PICKLED_BYTE_ARRAY()), [1], "STRING", '{"list":[1]}'),
    (None, "a", "STRING", "a"),
    (None, 1, "STRING", "1"),
    (None, (1, "x"), "STRING", '[1,"x"]'),
    (None, 1.0, "STRING", "1.0"),
]


def test_keys(spark: SparkSession) -> None:
    types = [key_sql_type(type_info) for type_info, *_ in KEYS]
    codecs = [key_codec_for(type_info) for type_info, *_ in KEYS]
    texts = [codec.text(codec.identity(key)) for codec, (_, key, *_) in zip(codecs, KEYS, strict=True)]
    found, _ = evaluated(spark, [value_of(t, f"t{i}") for i, t in enumerate(types)], texts)
    assert [(t.name, value) for t, value in zip(types, found, strict=True)] == [
        (name, expected) for *_, name, expected in KEYS
    ]


def test_windows_far_away_are_null(spark: SparkSession) -> None:
    window = window_sql_type("time_window")
    texts = [f"[0,{2**63 - 1}]", f"[{-(2**63)},1000]", "[]", "x"]
    found, _ = evaluated(spark, [value_of(window, f"t{i}") for i in range(4)], texts)
    epoch = datetime.datetime.fromtimestamp(0)
    assert found[:3] == [(epoch, None), (None, epoch + datetime.timedelta(seconds=1)), (None, None)]


class Thing:
    """A class of a test module."""


PICKLED = [
    b"cat", b"", b"x" * 300, "t", "cat\ud800", "x" * 300, 101, 2**70, -5, 1.5, (), (1,), (1, 2), ("a", 1, 2),
    tuple(range(9)), [1], [1, 2], [], {1: 2}, {1: 2, 3: 4}, {}, set(), {1}, {1, 2}, frozenset([1]), bytearray(b"abc"),
    True, (b"x" * 300, "t"), [D(1), 2], (1, D(1)),
]  # fmt: skip


def test_types_of_pickles_without_loading_them(spark: SparkSession) -> None:
    named = [(value, type(value).__name__) for value in PICKLED]
    named += [
        (D("1.5"), "decimal.Decimal"),
        (datetime.datetime(2020, 1, 1), "datetime.datetime"),
        (complex(1, 2), "builtins.complex"),
        (Thing(), f"{__name__}.Thing"),
    ]
    rows = [(number, bytearray(pickle.dumps(value, 5))) for number, (value, _) in enumerate(named)]
    rows += [(len(rows), bytearray(b"no pickle")), (len(rows) + 1, None), (len(rows) + 2, bytearray())]
    spark.createDataFrame(rows, "n INT, payload BINARY").createOrReplaceTempView("payloads")
    found = spark.sql(f"SELECT {pickled_type('payload')} FROM payloads ORDER BY n").collect()
    assert [row[0] for row in found] == [name for _, name in named] + ["object", None, "object"]


def test_windows_are_structs_of_times(tmp_path: Path, spark: SparkSession) -> None:
    elements = [("a", 1000, "x"), ("a", 1500, "y"), ("b", 2500, "z")]
    windows = spec(TumblingEventTimeWindows.of(Time.seconds(1)))
    job = TestJob(tmp_path, Script((2,)))  # the first checkpoint finds the window of a open
    job.run(graph(elements, windows, key_type=Types.STRING()))
    opened = history.open(spark, f"{tmp_path}/job", at=1)
    (contents,) = [views for views in opened.states if views.kind == "list"]
    (row,) = spark.table(f"{opened.database}.{contents.view}").collect()
    start = datetime.datetime.fromtimestamp(1)
    assert tuple(row.window) == (start, start + datetime.timedelta(seconds=1))
    assert (row.key, row.window_json, row.pickled_type) == ("a", "[1000,2000]", "tuple")
    assert row.value == [None, None]
    assert [element[2] for element in json.loads(row.value_json)] == ["x", "y"]
    (timer,) = opened.timers_of(contents.operator).collect()
    end = datetime.timedelta(milliseconds=999)
    assert (timer.key, tuple(timer.window), timer.time, timer.domain) == (
        "a", tuple(row.window), start + end, "event time"
    )  # fmt: skip
    assert opened.state(contents.operator, contents.state, job.commits[-1].id).count() == 0
    changes = opened.changes(contents.operator, contents.state, job.commits[-1].id)
    ended = changes.where("operation = 'clear'").orderBy("key").collect()
    assert [(r.key, r.window_json) for r in ended] == [("a", "[1000,2000]"), ("b", "[2000,3000]")]
    opened.close()
