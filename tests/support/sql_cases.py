"""Values and keys of every declared type, and what the typed views show of them: in Spark and in DuckDB."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

from api.common import Types
from changelog_engine.types import Instant, TypeInformation

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
    (Types.FLOAT(), 0.1, "DOUBLE", 0.1),
    (Types.LIST(Types.FLOAT()), [0.1], "ARRAY<DOUBLE>", [0.1]),
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


def plain(value: Any) -> Any:
    """What Spark collects as Python has it: rows, which are tuples, without their names."""
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
