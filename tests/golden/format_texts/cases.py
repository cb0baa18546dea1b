"""Texts that JSON and CSV schemas read (texts.json), and rows that they write, for whichever package is called ``pyflink``.

Nothing of this project is imported.
"""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyflink.common import Instant, Row, Types
from pyflink.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

_POINT = [Types.INT(), Types.STRING()]


def _row(**fields: Any) -> Any:
    return Types.ROW_NAMED(list(fields), list(fields.values()))


TYPES = {
    "basic": _row(i=Types.INT(), s=Types.STRING(), d=Types.DOUBLE(), b=Types.BOOLEAN()),
    "numbers": _row(
        l=Types.LONG(),
        sh=Types.SHORT(),
        by=Types.BYTE(),
        f=Types.FLOAT(),
        bd=Types.BIG_DEC(),
        bi=Types.BIG_INT(),
    ),
    "times": _row(d=Types.SQL_DATE(), t=Types.SQL_TIME(), ts=Types.SQL_TIMESTAMP()),
    "instants": _row(ins=Types.INSTANT()),
    "nested": _row(
        r=Types.ROW_NAMED(["x", "y"], _POINT),
        a=Types.OBJECT_ARRAY(Types.INT()),
        m=Types.MAP(Types.STRING(), Types.INT()),
        la=Types.OBJECT_ARRAY(Types.ROW_NAMED(["z"], [Types.STRING()])),
    ),
    "arrays": _row(
        p=Types.BASIC_ARRAY(Types.STRING()),
        q=Types.PRIMITIVE_ARRAY(Types.INT()),
        by=Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ),
    "flat": _row(p=Types.BASIC_ARRAY(Types.STRING()), q=Types.ROW_NAMED(["x", "y"], _POINT)),
    "texts": _row(s=Types.STRING(), t=Types.STRING()),
}

_GIVEN = json.loads((Path(__file__).parent / "texts.json").read_text(encoding="utf-8"))
JSON, CSV, SCHEMAS = _GIVEN["json"], _GIVEN["csv"], _GIVEN["json schemas"]

_OF_JSON = {
    "": lambda b: b,
    "failing": lambda b: b.fail_on_missing_field(),
    "ignoring": lambda b: b.ignore_parse_errors(),
}
_OF_CSV = {
    "": lambda b: b,
    "ignoring": lambda b: b.set_ignore_parse_errors(True),
    "bar": lambda b: b.set_field_delimiter("|"),
    "quote": lambda b: b.set_quote_character("'"),
    "escape": lambda b: b.set_escape_character("\\"),
    "null": lambda b: b.set_null_literal("NULL"),
}
_OF_CSV_WRITERS = {
    **{name: _OF_CSV[name] for name in ("", "bar", "quote", "escape", "null")},
    "plain": lambda b: b.disable_quote_character(),
    "line": lambda b: b.set_line_delimiter("\r\n"),
    "array": lambda b: b.set_array_element_delimiter("#"),
}
_ALL_FOR = {"basic", "texts"}  # the others have the first two only

_DAY = datetime.date(2024, 2, 29)
ROWS = {
    "basic": [
        Row(1, "a", 1.5, True),
        Row(None, None, None, None),
        Row(-5, 'ü"\\\n/', 1e10, False),
        Row(0, "", 1e-5, True),
        Row(1, "\x01", 100.0, True),
        Row(1, "</script>", 1e21, True),
        Row(1, "x", 123456789.0, True),
        Row(1, "y", -0.0, True),
    ],
    "numbers": [
        Row(2**62, 1, -1, 0.1, Decimal("1.50"), 10**25),
        Row(1, 2, 3, 1e10, Decimal("1E+3"), -(10**25)),
        Row(1, 2, 3, 0.5, Decimal("1E-7"), 10**20),
        Row(1, 2, 3, 1e-5, Decimal("0E-3"), 10**20),
    ],
    "times": [
        Row(_DAY, datetime.time(1, 2, 3), datetime.datetime(2024, 2, 29, 1, 2, 3)),
        Row(None, None, None),
        Row(
            datetime.date(1969, 12, 31), datetime.time(0, 0), datetime.datetime(2024, 2, 29, 1, 2, 3, 123000)
        ),
    ],
    "instants": [Row(Instant(1709168523, 0)), Row(Instant(1709168523, 123000000))],
    "flat": [Row(["a", "b"], Row(1, "x;y")), Row([], Row(None, "")), Row(["a b", 'c"d'], Row(1, "z"))],
    "texts": [
        Row(text, "z")
        for text in [
            "a b",
            "a,b",
            "a;b",
            "<x>",
            "A",
            "a\\b",
            "\\",
            '"',
            'a"b',
            "_x",
            "~x",
            "[x]",
            "a\tb",
            "x\n",
            "ü",
            "",
            "#x",
            " a",
            "0",
            "é" * 24,
            "e" * 24,
            "e" * 25,
            "a'b",
        ]
    ],
}


def readers() -> dict[str, tuple[Any, list[str]]]:
    """What makes a schema that reads, and the texts that it is given, by the case's name."""
    made: dict[str, tuple[Any, list[str]]] = {}
    for kind, texts in JSON.items():
        for name, option in _OF_JSON.items():
            if name != "failing" or kind == "basic":
                builder = JsonRowDeserializationSchema.builder
                made[f"json {kind} {name}".rstrip()] = (
                    lambda kind=kind, option=option, builder=builder: option(
                        builder().type_info(TYPES[kind])
                    ).build(),
                    texts,
                )
    for name, schema in SCHEMAS.items():
        made[f"json schema {name}"] = (
            lambda schema=schema: JsonRowDeserializationSchema.builder().json_schema(schema).build(),
            _GIVEN["by json schemas"],
        )
    for kind, texts in CSV.items():
        for name, option in list(_OF_CSV.items())[: None if kind in _ALL_FOR else 2]:
            made[f"csv {kind} {name}".rstrip()] = (
                lambda kind=kind, option=option: option(
                    CsvRowDeserializationSchema.Builder(TYPES[kind])
                ).build(),
                texts,
            )
    return made


def writers() -> dict[str, tuple[Any, str]]:
    """What makes a schema that writes, and the kind of its rows, by the case's name."""
    made: dict[str, tuple[Any, str]] = {}
    for kind in ROWS:
        if kind != "flat":
            builder = JsonRowSerializationSchema.builder
            made[f"json of {kind}"] = (
                lambda kind=kind, builder=builder: builder().with_type_info(TYPES[kind]).build(),
                kind,
            )
        for name, option in list(_OF_CSV_WRITERS.items())[: None if kind in {*_ALL_FOR, "flat"} else 1]:
            made[f"csv of {kind} {name}".rstrip()] = (
                lambda kind=kind, option=option: option(
                    CsvRowSerializationSchema.Builder(TYPES[kind])
                ).build(),
                kind,
            )
    return made
