"""Every declared type as a SQL type: values come out as they went in, and what does not fit is null with its text beside."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.jobs import TestJob
from support.script import Script
from support.small_queries import INTERPRETED, ONE_PARTITION, told
from support.sql_cases import HOSTILE, KEYS, VALUES, D, plain
from support.visits import UID, visited
from support.window_jobs import graph, spec

from api.common import Types
from api.common.time import Time
from api.datastream import KeyedProcessFunction
from api.datastream.state import StateTtlConfig, ValueStateDescriptor
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine import history
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.history.pickles import pickled_type, pickled_type_of, untimed, untimed_sql
from changelog_engine.history.sql_types import key_sql_type, sql_type, value_of, window_sql_type

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def interpreted(spark: SparkSession) -> Iterator[None]:
    """No compiled code: one large query a test, over one row."""
    with told(spark, INTERPRETED | ONE_PARTITION):
        yield


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


def test_bytes_that_are_no_pickle_have_the_type_that_is_told_without_sql(spark: SparkSession) -> None:
    whole = [pickle.dumps(value, protocol) for value in [*PICKLED, D("1.5")] for protocol in (3, 5)]
    damaged = [
        pickled[:cut] + more + pickled[cut + gone :]
        for pickled in whole
        for cut, more, gone in ((-1, b"", 1), (-1, b"\x94", 0), (2, b".", 0), (2, b"", 9), (11, b"\x89", 0))
    ]
    payloads = [
        *whole,
        *damaged,
        *(payload + b"\n" for payload in whole),
        b"\x80\x05C",
        b"\x80\x05\x95ab",
        b"\x89.",
    ]
    rows = [(number, bytearray(payload)) for number, payload in enumerate(payloads)]
    spark.createDataFrame(rows, "n INT, payload BINARY").createOrReplaceTempView("payloads")
    found = spark.sql(f"SELECT {pickled_type('payload')} FROM payloads ORDER BY n").collect()
    assert [row[0] for row in found] == [pickled_type_of(payload) for payload in payloads]


def test_pickles_without_the_time_of_the_last_access(spark: SparkSession) -> None:
    """As without Spark, of pairs and of what is none, and the same for all times."""
    values = [{1, 2}, D("1.5"), "x" * 100_000, b"\xff\x8a", [], None, 7, (1, (2, {3}))]
    times = [0, 255, 256, 65_536, 2**31, 2**39, 1_790_000_000_000, 2**47, 2**55, 2**63 - 1, -1]
    pairs = [[pickle.dumps((time, value), 5) for time in times] for value in values]
    others = [b"no pickle", b"", None, *(pickle.dumps(value, 5) for value in values)]
    payloads = [*(each for some in pairs for each in some), *others]
    rows = [(number, payload and bytearray(payload)) for number, payload in enumerate(payloads)]
    spark.createDataFrame(rows, "n INT, payload BINARY").createOrReplaceTempView("payloads")
    found = spark.sql(f"SELECT {untimed_sql('payload')} FROM payloads ORDER BY n").collect()
    assert [row[0] and bytes(row[0]) for row in found] == [
        payload and untimed(payload) for payload in payloads
    ]
    assert [len({untimed(each) for each in some}) for some in pairs] == [1] * len(values)
    assert len({untimed(some[0]) for some in pairs}) == len(values)


def test_the_time_of_the_last_access_is_no_difference(tmp_path: Path, spark: SparkSession) -> None:
    class Renews(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            config = StateTtlConfig.new_builder(Time.days(1)).build()
            descriptor = ValueStateDescriptor("sets", Types.PICKLED_BYTE_ARRAY())
            descriptor.enable_time_to_live(config)
            self.sets = runtime_context.get_state(descriptor)

        def process_element(self, value: Any, ctx: Any) -> None:
            self.sets.update({value[1]})

    elements = [("a", 1), ("b", 1), ("a", 1), ("b", 2), ("c", 1), ("a", 1)]
    visited(tmp_path, "renews", elements, function=Renews())
    opened = history.open(spark, f"{tmp_path}/renews")
    found = opened.difference(UID, "sets", 1, 3).orderBy("key").collect()
    assert [(row.key, row.change) for row in found] == [("b", "changed"), ("c", "added")]
    times = [row.accessed for row in opened.changes(UID, "sets").where("key = 'a'").collect()]
    assert len(times) == 3
    opened.close()


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
