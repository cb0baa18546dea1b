"""Schemas of JSON, CSV and Avro: what each type looks like, and what is said of what doesn't fit."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api import common
from api._reexports import ROW_SCHEMAS
from api.common import Row, Types, serialization
from api.common.serialization import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    SerializationSchema,
)
from api.datastream.formats import csv as csv_module
from api.datastream.formats import json as json_module
from changelog_engine.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from changelog_engine.types import Instant, TypeInformation

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


def test_both_paths_give_the_same_classes() -> None:
    assert JsonRowDeserializationSchema is json_module.JsonRowDeserializationSchema
    assert CsvRowSerializationSchema is csv_module.CsvRowSerializationSchema


def test_case_59_the_package_has_the_row_schemas_as_pyflinks_has() -> None:
    for name in " ".join(ROW_SCHEMAS.values()).split():
        assert getattr(common, name) is getattr(serialization, name)


def json_of(type_info: TypeInformation, value: Any) -> str:
    row_type = Types.ROW_NAMED(["a"], [type_info])
    writer = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    reader = JsonRowDeserializationSchema.builder().type_info(row_type).build()
    written = pickle.loads(pickle.dumps(writer)).serialize(Row(value))
    assert pickle.loads(pickle.dumps(reader)).deserialize(written) == Row(a=value)
    return written.decode()[len('{"a":') : -1]


class TestJson:
    @pytest.mark.parametrize(
        ("type_info", "value", "written"),
        [
            (Types.STRING(), "é\n", '"é\\n"'),
            (Types.BYTE(), -128, "-128"),
            (Types.LONG(), 2**63 - 1, "9223372036854775807"),
            (Types.BIG_INT(), 2**70 + 1, str(2**70 + 1)),
            (Types.LIST(Types.BIG_INT()), [2**70 + 1], f"[{2**70 + 1}]"),
            (Types.BIG_DEC(), Decimal("12345678901234567890.123"), "12345678901234567890.123"),
            (Types.INSTANT(), Instant(1, 123_456_789), '"1970-01-01T00:00:01.123456789Z"'),
            (Types.BIG_INT(), 5, "5"),
            (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
            (Types.DOUBLE(), 0.5, "0.5"),
            (Types.DOUBLE(), float("inf"), '"Infinity"'),
            (Types.BOOLEAN(), True, "true"),
            (Types.CHAR(), "x", '"x"'),
            (Types.SQL_DATE(), datetime.date(2020, 1, 2), '"2020-01-02"'),
            (Types.SQL_TIME(), datetime.time(1, 2, 3), '"01:02:03Z"'),
            (
                Types.SQL_TIMESTAMP(),
                datetime.datetime(2020, 1, 2, 3, 4, 5, 600_000),
                '"2020-01-02T03:04:05.6Z"',
            ),
            (Types.INSTANT(), Instant(1, 500_000_000), '"1970-01-01T00:00:01.5Z"'),
            (BYTES, b"\x00\xff", '"AP8="'),
            (Types.LIST(Types.INT()), [1, None], "[1,null]"),
            (Types.OBJECT_ARRAY(Types.STRING()), ["a"], '["a"]'),
            (Types.MAP(Types.STRING(), Types.LONG()), {"k": 1}, '{"k":1}'),
            (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, "a"), '[1,"a"]'),
            (Types.ROW_NAMED(["b"], [Types.LONG()]), Row(b=1), '{"b":1}'),
            (Types.LONG(), None, "null"),
        ],
        ids=str,
    )
    def test_each_type(self, type_info: TypeInformation, value: Any, written: str) -> None:
        assert json_of(type_info, value) == written

    def test_instants_whose_nanoseconds_are_no_fraction_of_a_second(self) -> None:
        row_type = Types.ROW_NAMED(["a", "b"], [Types.INSTANT()] * 2)
        row = Row(Instant(0, 2_000_000_000), Instant(0, -1))
        json_text = JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(row)
        assert json_text == b'{"a":"1970-01-01T00:00:02Z","b":"1969-12-31T23:59:59.999999999Z"}'
        csv_text = CsvRowSerializationSchema.Builder(row_type).build().serialize(row)
        assert csv_text.split() == b'"1970-01-01 00:00:02Z","1969-12-31 23:59:59.999999999Z"'.split()

    def test_what_other_writers_give(self) -> None:
        row_type = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), Types.INT(), Types.BOOLEAN()])
        reader = JsonRowDeserializationSchema.builder().type_info(row_type).build()
        assert reader.deserialize(b'{"a": {"x": 1}, "b": "7", "c": "true"}') == Row(a='{"x":1}', b=7, c=True)
        assert reader.deserialize(b"{}") == Row(a=None, b=None, c=None)

    @pytest.mark.parametrize(
        ("message", "said", "ignored"),
        [
            (b"[1]", "expected a JSON object, got an array", None),
            (b"{", "unexpected end of data", None),
            (
                b'{"a": {"b": 2147483648}, "c": true}',
                "field 'a': field 'b': 2147483648 is too large for INT",
                Row(a=Row(b=None), c=True),
            ),
            (b'{"a": {"b": "x"}}', "field 'a': field 'b': invalid literal", Row(a=Row(b=None), c=None)),
            (
                b'{"a": {"b": true}}',
                "field 'a': field 'b': expected a whole number, got true",
                Row(a=Row(b=None), c=None),
            ),
            (b'{"a": 5}', "field 'a': expected a JSON object, got 5", Row(a=None, c=None)),
            (b'{"c": 1}', "field 'c': expected true or false, got 1", Row(a=None, c=None)),
            (None, "there is no value to parse", None),
        ],
        ids=repr,
    )
    def test_what_cannot_be_parsed(self, message: bytes, said: str, ignored: Any) -> None:
        inner = Types.ROW_NAMED(["b"], [Types.INT()])
        row_type = Types.ROW_NAMED(["a", "c"], [inner, Types.BOOLEAN()])
        with pytest.raises(ValueError, match=said):
            JsonRowDeserializationSchema.builder().type_info(row_type).build().deserialize(message)
        ignoring = JsonRowDeserializationSchema.builder().type_info(row_type).ignore_parse_errors().build()
        assert ignoring.deserialize(message) == ignored
        assert ignoring.deserialize_all([message, b"{}"]) == [ignored, Row(a=None, c=None)]

    def test_numbers_are_not_rounded(self) -> None:
        names = ["a", "b", "c", "d", "e"]
        kinds = [Types.BIG_INT(), Types.BIG_DEC(), Types.DOUBLE(), Types.STRING(), Types.LONG()]
        row_type = Types.ROW_NAMED(names, kinds)
        reader = JsonRowDeserializationSchema.builder().type_info(row_type).build()
        message = b'{"a": 1e2, "b": 0.10, "c": 0.5, "d": {"x": 1.10}, "e": 9007199254740993.0}'
        row = reader.deserialize(message)
        assert (row, str(row.b)) == (
            Row(a=100, b=Decimal("0.10"), c=0.5, d='{"x":1.10}', e=2**53 + 1),
            "0.10",
        )
        for wrong, said in (
            (b'{"c": 1e400}', "1E.400 is too large for 64 bits"),
            (b'{"b": NaN}', "NaN is not JSON"),
            (b'{"a": 1e4300}', "expected a whole number"),
            (b'{"a": 0.5}', "expected a whole number, got 0.5"),
        ):
            with pytest.raises(ValueError, match=said):
                reader.deserialize(wrong)
        bounded = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [Types.LONG()]))
        with pytest.raises(ValueError, match=r"field 'a': 9007199254740992.0 may have been rounded"):
            bounded.build().deserialize(b'{"a": 9007199254740993.0}')

    def test_more_than_nanoseconds_are_refused(self) -> None:
        row_type = Types.ROW_NAMED(["a"], [Types.INSTANT()])
        reader = JsonRowDeserializationSchema.builder().type_info(row_type).build()
        assert reader.deserialize(b'{"a": "1969-12-31T23:59:59.9Z"}') == Row(a=Instant(-1, 900_000_000))
        with pytest.raises(ValueError, match="more than nine digits"):
            reader.deserialize(b'{"a": "1970-01-01T00:00:01.0000000001Z"}')

    def test_missing_fields_may_fail(self) -> None:
        row_type = Types.ROW_NAMED(["a"], [Types.INT()])
        reader = JsonRowDeserializationSchema.builder().type_info(row_type).fail_on_missing_field().build()
        assert reader.deserialize(b'{"a": null}') == Row(a=None)
        with pytest.raises(ValueError, match="field 'a' is missing"):
            reader.deserialize(b"{}")

    def test_json_schema(self) -> None:
        document = {
            "type": "object",
            "definitions": {"when": {"type": "string", "format": "date"}},
            "properties": {
                "text": {"type": ["null", "string"]},
                "number": {"type": "integer"},
                "truth": {"type": "boolean"},
                "when": {"$ref": "#/definitions/when"},
                "bytes": {"type": "string", "contentEncoding": "base64"},
                "list": {"type": "array", "items": {"type": "string"}},
                "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
                "row": {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}},
            },
        }
        reader = JsonRowDeserializationSchema.builder().json_schema(json.dumps(document)).build()
        assert reader.get_produced_type() == Types.ROW_NAMED(
            ["text", "number", "truth", "when", "bytes", "list", "pair", "row"],
            [
                Types.STRING(),
                Types.BIG_DEC(),
                Types.BOOLEAN(),
                Types.SQL_DATE(),
                BYTES,
                Types.OBJECT_ARRAY(Types.STRING()),
                Types.ROW([Types.STRING(), Types.BIG_DEC()]),
                Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()]),
            ],
        )
        recursive = {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}
        with pytest.raises(NotSupportedError, match="refers to itself"):
            JsonRowDeserializationSchema.builder().json_schema(json.dumps(recursive))

    def test_arguments(self) -> None:
        with pytest.raises(ConfigurationError, match=r"Builder.build: call type_info\(\)"):
            JsonRowDeserializationSchema.builder().build()
        with pytest.raises(ConfigurationError, match="must be a type of rows"):
            JsonRowSerializationSchema.builder().with_type_info(Types.STRING())
        with pytest.raises(ConfigurationError, match="no JSON"):
            JsonRowDeserializationSchema.builder().json_schema("{")
        row_type = Types.ROW_NAMED(["a"], [Types.MAP(Types.LONG(), Types.LONG())])
        with pytest.raises(NotSupportedError, match="JSON has no form for"):
            JsonRowSerializationSchema.builder().with_type_info(row_type).build()
        both = JsonRowDeserializationSchema.builder().type_info(Types.ROW([Types.LONG()]))
        with pytest.raises(ConfigurationError, match="exclude each other"):
            both.fail_on_missing_field().ignore_parse_errors().build()

    def test_what_does_not_fit_is_not_written(self) -> None:
        writer = JsonRowSerializationSchema.builder().with_type_info(Types.ROW([Types.LONG()])).build()
        for wrong in (Row(1, 2), Row("a"), 5):
            with pytest.raises(TypeMismatchError, match="JsonRowSerializationSchema writes"):
                writer.serialize(wrong)


@pytest.mark.parametrize(
    ("type_info", "wrong"),
    [
        (Types.LONG(), 3.7),
        (Types.BIG_INT(), 3.7),
        (Types.INT(), Decimal("0.5")),
        (Types.INT(), 2**31),
        (Types.BYTE(), "1"),
        (Types.BOOLEAN(), "no"),
        (Types.DOUBLE(), Decimal("12345678901234567890.123")),
        (Types.FLOAT(), 2**60 + 1),
        (Types.STRING(), 5),
        (BYTES, 5),
        (Types.LIST(Types.LONG()), [3.7]),
    ],
    ids=str,
)
def test_what_would_be_cut_is_not_written(type_info: TypeInformation, wrong: Any) -> None:
    row_type = Types.ROW([type_info])
    for writer in (
        JsonRowSerializationSchema.builder().with_type_info(row_type).build(),
        CsvRowSerializationSchema.Builder(row_type).build(),
    ):
        with pytest.raises(TypeMismatchError, match=r"is declared .* but got"):
            writer.serialize(Row(wrong))


@pytest.mark.parametrize("text", ["20240229", "2024-W09-4", "2024-W09"])
def test_a_date_has_year_month_and_day(text: str) -> None:
    """Python reads other forms, too."""
    schema = (
        JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["d"], [Types.SQL_DATE()])).build()
    )
    with pytest.raises(ValueError, match="is not a date such as"):
        schema.deserialize(json.dumps({"d": text}).encode())


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_a_time_that_utc_has_no_year_for_can_be_ignored(text: str) -> None:
    row_type = Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()])
    rows, lines = JsonRowDeserializationSchema.builder(), CsvRowDeserializationSchema.Builder(row_type)
    made: list[tuple[Any, Any]] = [
        (rows.type_info(row_type).build(), rows.ignore_parse_errors().build()),
        (lines.build(), lines.set_ignore_parse_errors(True).build()),
    ]
    for (strict, ignoring), message in zip(made, [f'{{"at": "{text}"}}', text], strict=True):
        with pytest.raises(ValueError, match="is out of bounds"):
            strict.deserialize(message.encode())
        assert ignoring.deserialize_all([message.encode()]) == [Row(at=None)]


@pytest.mark.parametrize("text", ["1e39", "-3.5e38", '"1e39"'])
def test_a_number_that_32_bits_do_not_hold_can_be_ignored(text: str) -> None:
    row_type = Types.ROW_NAMED(["a"], [Types.FLOAT()])
    rows, lines = JsonRowDeserializationSchema.builder(), CsvRowDeserializationSchema.Builder(row_type)
    for strict, ignoring, form in (
        (rows.type_info(row_type).build(), rows.ignore_parse_errors().build(), '{"a": %s}'),
        (lines.build(), lines.set_ignore_parse_errors(True).build(), "%s"),
    ):
        with pytest.raises(ValueError, match=r"field 'a': .* is too large for FLOAT"):
            strict.deserialize((form % text).encode())
        good = (form % "3.4e38").encode()
        assert ignoring.deserialize_all([good, (form % text).encode()]) == [
            Row(a=3.4e38),
            Row(a=None),
        ]
        assert ignoring.deserialize_all([good]) == [Row(a=3.4e38)]


@pytest.mark.parametrize(
    "field", [Types.INT(), Types.BIG_INT(), Types.BIG_DEC(), Types.FLOAT(), Types.DOUBLE()], ids=str
)
def test_an_underscore_is_not_part_of_a_number(field: Any) -> None:
    """Python's int() and float() would pass over it."""
    row_type = Types.ROW_NAMED(["a"], [field])
    rows, lines = JsonRowDeserializationSchema.builder(), CsvRowDeserializationSchema.Builder(row_type)
    for schema, message in (
        (rows.type_info(row_type).build(), b'{"a": "1_0"}'),
        (lines.build(), b"1_0"),
    ):
        with pytest.raises(ValueError, match="'1_0' is not a number"):
            schema.deserialize(message)
        with pytest.raises(ValueError, match="'1_0' is not a number"):
            schema.deserialize_all([message])


@pytest.mark.parametrize("field", [Types.STRING(), Types.BIG_DEC()], ids=str)
def test_json_that_is_nested_too_deeply_can_be_ignored(field: Any) -> None:
    made = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [field]))
    message = b'{"b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(ValueError, match=r"deeply|depth"):
        made.build().deserialize(message)
    assert made.ignore_parse_errors().build().deserialize_all([message, b"{}"]) == [None, Row(a=None)]


@pytest.mark.parametrize("text", ["NaN", "sNaN", "-Infinity"])
def test_a_decimal_is_a_number(text: str) -> None:
    """Java's decimals have neither NaN nor infinity, and a sum with one would be lost."""
    row_type = Types.ROW_NAMED(["a"], [Types.BIG_DEC()])
    rows, lines = JsonRowDeserializationSchema.builder(), CsvRowDeserializationSchema.Builder(row_type)
    for strict, ignoring, message in (
        (rows.type_info(row_type).build(), rows.ignore_parse_errors().build(), f'{{"a": "{text}"}}'),
        (lines.build(), lines.set_ignore_parse_errors(True).build(), text),
    ):
        with pytest.raises(ValueError, match=f"'{text}' is not a number"):
            strict.deserialize(message.encode())
        assert ignoring.deserialize_all([message.encode()]) == [Row(a=None)]


def test_json_has_no_decimal_that_is_not_a_number() -> None:
    writer = JsonRowSerializationSchema.builder().with_type_info(Types.ROW([Types.BIG_DEC()])).build()
    with pytest.raises(TypeMismatchError, match="JSON has no form for NaN"):
        writer.serialize(Row(Decimal("NaN")))


CSV_TYPE = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), Types.LONG(), Types.LIST(Types.INT())])


class TestCsv:
    @pytest.mark.parametrize(
        ("row", "line"),
        [
            (Row("x", 1, [1, 2]), b"x,1,1;2\n"),
            (Row("x,y", -1, []), b'"x,y",-1,""\n'),
            (Row('say "x"', 1, [1]), b'"say ""x""",1,1\n'),
            (Row(None, None, None), b",,\n"),
            (Row("a" * 25, 1, [1]), b'"' + b"a" * 25 + b'",1,1\n'),
        ],
        ids=repr,
    )
    def test_lines(self, row: Row, line: bytes) -> None:
        writer = pickle.loads(pickle.dumps(CsvRowSerializationSchema.Builder(CSV_TYPE).build()))
        written = writer.serialize(row).replace(b',""\n', b",\n") if row[2] == [] else writer.serialize(row)
        assert written == line.replace(b',""\n', b",\n")
        builder = CsvRowDeserializationSchema.Builder(CSV_TYPE)
        if row[0] is None:
            builder.set_null_literal("")
        reader = pickle.loads(pickle.dumps(builder.build()))
        assert list(reader.deserialize(line)) == list(row)

    def test_each_option(self) -> None:
        builder = CsvRowDeserializationSchema.Builder(CSV_TYPE).set_field_delimiter("|")
        builder.set_array_element_delimiter("-").set_quote_character("'").set_escape_character("\\")
        reader = builder.set_null_literal("null").set_allow_comments(True).build()
        assert reader.deserialize(b"'a|\\'b'|null|1-2") == Row(a="a|'b", b=None, c=[1, 2])
        assert reader.deserialize(b"# a comment") is None
        writer = (
            CsvRowSerializationSchema.Builder(CSV_TYPE).set_field_delimiter("|").set_line_delimiter("\r\n")
        )
        writer.set_array_element_delimiter("-").set_quote_character("'").set_escape_character("\\")
        assert writer.set_null_literal("null").build().serialize(Row("a|'b", None, [1, 2])) == (
            b"'a|''b'|null|'1-2'\r\n"
        )
        plain = CsvRowSerializationSchema.Builder(CSV_TYPE).disable_quote_character().build()
        assert plain.serialize(Row("a,b", 1, [1])) == b"a,b,1,1\n"

    @pytest.mark.parametrize(
        ("line", "said", "ignored"),
        [
            (b"a,1", "2 fields where 3 are declared", Row(a="a", b=1, c=None)),
            (b"a,x,1", "field 'b': invalid literal", Row(a="a", b=None, c=[1])),
            (b"a,1,1,1", "4 fields where 3 are declared", None),
            (b'"a,1,1', "a quote is not closed", None),
            (b'"a"b,1,1', "'b' stands between a closing quote and ','", None),
            (b"a,1,1\nb,2,2", "more than one line", None),
            (b"\xff,1,1", "can't decode", None),
        ],
        ids=repr,
    )
    def test_what_cannot_be_parsed(self, line: bytes, said: str, ignored: Any) -> None:
        with pytest.raises(ValueError, match=said):
            CsvRowDeserializationSchema.Builder(CSV_TYPE).build().deserialize(line)
        ignoring = CsvRowDeserializationSchema.Builder(CSV_TYPE).set_ignore_parse_errors(True).build()
        assert ignoring.deserialize(line) == ignored
        assert ignoring.deserialize_all([line, b"z,1,1"]) == [ignored, Row(a="z", b=1, c=[1])]

    def test_arguments(self) -> None:
        with pytest.raises(ConfigurationError, match="must be one character"):
            CsvRowDeserializationSchema.Builder(CSV_TYPE).set_field_delimiter("ab")
        with pytest.raises(ConfigurationError, match="delimiter must be"):
            CsvRowSerializationSchema.Builder(CSV_TYPE).set_line_delimiter(";")
        with pytest.raises(ConfigurationError, match="must be a type of rows"):
            CsvRowSerializationSchema.Builder(Types.LONG())
        nested = Types.ROW([Types.LIST(Types.LIST(Types.INT()))])
        with pytest.raises(NotSupportedError, match="CSV has no form"):
            CsvRowSerializationSchema.Builder(nested).build()


AVRO = {
    "type": "record",
    "name": "Item",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
        {"name": "raw", "type": "bytes"},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {
            "name": "inner",
            "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]},
        },
        {"name": "again", "type": ["null", "Inner"]},
    ],
}


def outcome(call: Callable[[], Any]) -> str:
    """What a call gives or says; as text, since NaN is not equal to itself."""
    try:
        return repr(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


ONE_OF_EACH = Types.ROW_NAMED(
    ["s", "l", "b", "d", "f", "t", "big", "list"],
    [
        Types.STRING(),
        Types.LONG(),
        Types.BYTE(),
        Types.DOUBLE(),
        Types.FLOAT(),
        Types.BOOLEAN(),
        Types.SQL_DATE(),
        Types.LIST(Types.INT()),
    ],
)
ODD = st.sampled_from(
    [
        None,
        True,
        1,
        -128,
        128,
        2**63,
        1.0,
        1.5,
        1e300,
        "1",
        "x",
        "",
        "true",
        "NaN",
        "2020-01-02",
        [1],
        [2**31],
        {},
    ]
)
LIKELY = {
    "s": st.text(max_size=3),
    "l": st.integers(-(2**63), 2**63 - 1),
    "b": st.integers(-128, 127),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "f": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "t": st.booleans(),
    "big": st.dates().map(datetime.date.isoformat),
    "list": st.lists(st.integers(0, 9), max_size=2),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("exact", [False, True])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_many_messages_of_json_are_as_one_after_the_other(fails: bool, exact: bool, data: Any) -> None:
    row_type = ONE_OF_EACH
    if exact:  # then numbers are parsed otherwise
        names, types = row_type.get_field_names(), row_type.get_field_types()
        row_type = Types.ROW_NAMED([*names, "dec"], [*types, Types.BIG_DEC()])
    made = JsonRowDeserializationSchema.builder().type_info(row_type)
    schema = (made.fail_on_missing_field() if fails else made.ignore_parse_errors()).build()
    strict = made.build() if fails else JsonRowDeserializationSchema.builder().type_info(row_type).build()
    good = st.fixed_dictionaries({}, optional=LIKELY) if not fails else st.fixed_dictionaries(LIKELY)
    odd = st.fixed_dictionaries({}, optional=dict.fromkeys(LIKELY, ODD))
    rows = data.draw(st.lists(good, max_size=4)) + data.draw(st.lists(good | odd, max_size=2))
    messages: list[Any] = [json.dumps(row).encode() for row in rows]
    messages += data.draw(
        st.lists(st.sampled_from([b"", b"{", b"null", b"[]", b'{"l":1e2}', None]), max_size=1)
    )
    for each in (schema, strict):
        assert outcome(lambda each=each: each.deserialize_all(messages)) == outcome(
            lambda each=each: [each.deserialize(message) for message in messages]
        )


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_many_messages_of_csv_are_as_one_after_the_other(data: Any) -> None:
    made = CsvRowDeserializationSchema.Builder(ONE_OF_EACH)
    made.set_allow_comments(data.draw(st.booleans()))
    if data.draw(st.booleans()):
        made.set_null_literal(data.draw(st.sampled_from(["", "-", "1"])))
    if data.draw(st.booleans()):
        made.set_escape_character("\\")
    if data.draw(st.booleans()):
        made.set_ignore_parse_errors(True)
    schema = made.build()
    text = st.text(st.sampled_from('ab"\\#; \r\n-1é,'), max_size=3).map(lambda value: f'"{value}"')
    cells = [
        text | st.sampled_from(["a", "é", "", "#x", "\u2028"]),
        *(each.map(str) for name, each in LIKELY.items() if name not in ("s", "list")),
        st.sampled_from(["", "1", "1;2", "-"]),
    ]
    good = st.tuples(*cells).map(",".join)
    odd = st.lists(st.sampled_from(["1", "x", "", '"', "nan", "1_0", " 1", "2020-01-02"]), max_size=9).map(
        ",".join
    )
    lines = data.draw(st.lists(good, max_size=4)) + data.draw(st.lists(good | odd, max_size=2))
    ends = data.draw(st.sampled_from(["", "\n", "\r\n"]))
    messages: list[Any] = [f"{line}{ends}".encode() for line in lines]
    messages += data.draw(st.lists(st.sampled_from([b"", b"\xff", b"# no", None]), max_size=1))
    assert outcome(lambda: schema.deserialize_all(messages)) == outcome(
        lambda: [schema.deserialize(message) for message in messages]
    )


FULL_NAME = Types.ROW_NAMED(["first", "last"], [Types.STRING(), Types.STRING()])
_NAMES_IN_AVRO = json.dumps(
    {
        "type": "record",
        "name": "name",
        "fields": [{"name": "first", "type": "string"}, {"name": "last", "type": "string"}],
    }
)
NAME_WRITERS: dict[str, tuple[SerializationSchema, Callable[[bytes], Any]]] = {
    "json": (
        JsonRowSerializationSchema.builder().with_type_info(FULL_NAME).build(),
        JsonRowDeserializationSchema.builder().type_info(FULL_NAME).build().deserialize,
    ),
    "csv": (
        CsvRowSerializationSchema.Builder(FULL_NAME).build(),
        CsvRowDeserializationSchema.Builder(FULL_NAME).build().deserialize,
    ),
    "avro": (
        AvroRowSerializationSchema(avro_schema_string=_NAMES_IN_AVRO),
        AvroRowDeserializationSchema(avro_schema_string=_NAMES_IN_AVRO).deserialize,
    ),
}


@pytest.mark.parametrize("form", NAME_WRITERS)
def test_fields_are_written_by_their_names(form: str) -> None:
    """Ada Lovelace was written as Lovelace Ada, and of a dict CSV wrote the keys."""
    writer, read = NAME_WRITERS[form]
    ada = Row(first="Ada", last="Lovelace")
    same: list[Any] = [ada, Row(last="Lovelace", first="Ada"), Row("Ada", "Lovelace"), ("Ada", "Lovelace")]
    same += [["Ada", "Lovelace"], {"last": "Lovelace", "first": "Ada"}, Row(f0="Ada", f1="Lovelace")]
    for element in same:
        assert read(writer.serialize(element)) == ada
    for wrong in ("ab", {"first": "Ada", "lst": "x"}, {"first": "Ada"}, {**ada.as_dict(), "x": 1}, 5, {1, 2}):
        with pytest.raises(TypeMismatchError, match="RowSerializationSchema writes"):
            writer.serialize(wrong)


def test_rows_in_rows_are_written_by_their_names() -> None:
    nested = Types.ROW_NAMED(["name"], [FULL_NAME])
    ada = Row(name=Row(last="Lovelace", first="Ada"))
    json_writer = JsonRowSerializationSchema.builder().with_type_info(nested).build()
    assert json_writer.serialize(ada) == b'{"name":{"first":"Ada","last":"Lovelace"}}'
    assert CsvRowSerializationSchema.Builder(nested).build().serialize(ada) == b"Ada;Lovelace\n"


@pytest.mark.parametrize("ignoring", [False, True])
def test_texts_of_long_numbers_have_all_digits(ignoring: bool) -> None:
    """They became the text of a float."""
    names, types = (
        ["s", "d", "m"],
        [Types.STRING(), Types.DOUBLE(), Types.MAP(Types.STRING(), Types.STRING())],
    )
    builder = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(names, types))
    schema = (builder.ignore_parse_errors() if ignoring else builder).build()
    wei = 123456789012345678901
    for message, expected in (
        ({"s": wei, "d": 0.1, "m": {"x": 0.5}}, Row(s=str(wei), d=0.1, m={"x": "0.5"})),
        ({"s": -(2**63) - 1, "d": wei}, Row(s=str(-(2**63) - 1), d=float(wei), m=None)),
        ({"m": {"a": [wei, "ä"]}}, Row(s=None, d=None, m={"a": f'[{wei},"ä"]'})),
        ({"s": 2**64 - 1}, Row(s=str(2**64 - 1), d=None, m=None)),
    ):
        text = json.dumps(message).encode()
        assert schema.deserialize(text) == expected
        assert schema.deserialize_all([text, b"{}"]) == [expected, Row(s=None, d=None, m=None)]
    assert float(schema.deserialize(b'{"s": 1e30}').s) == 1e30


class TestAvro:
    def test_a_record(self) -> None:
        text = json.dumps(AVRO)
        writer = pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=text)))
        reader = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=text)))
        when = datetime.datetime(2020, 1, 2, 3, 4, 5, 6000)
        inner = Row(x=0.5)
        row = Row(
            id=1,
            name=None,
            when=when,
            tags=["a"],
            sizes={"k": 1},
            raw=b"\x00",
            color="RED",
            inner=inner,
            again=Row(x=1.5),
        )
        assert isinstance(writer, SerializationSchema)
        assert reader.deserialize(writer.serialize(row)) == row
        assert reader.get_produced_type() == Types.ROW_NAMED(
            ["id", "name", "when", "tags", "sizes", "raw", "color", "inner", "again"],
            [
                Types.LONG(),
                Types.STRING(),
                Types.SQL_TIMESTAMP(),
                Types.OBJECT_ARRAY(Types.STRING()),
                Types.MAP(Types.STRING(), Types.INT()),
                BYTES,
                Types.STRING(),
                Types.ROW_NAMED(["x"], [Types.DOUBLE()]),
                Types.ROW_NAMED(["x"], [Types.DOUBLE()]),
            ],
        )

    def test_what_does_not_fit(self) -> None:
        simple = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]})
        with pytest.raises(TypeMismatchError, match="AvroRowSerializationSchema writes"):
            AvroRowSerializationSchema(avro_schema_string=simple).serialize(Row("text"))
        reader = AvroRowDeserializationSchema(avro_schema_string=simple)
        for message, said in ((b"", "no record of this schema"), (b"\x02\x02", "1 bytes are left over")):
            with pytest.raises(ValueError, match=said):
                reader.deserialize(message)

    def test_arguments(self) -> None:
        with pytest.raises(NotSupportedError, match="Java classes"):
            AvroRowDeserializationSchema(record_class="org.example.Item")
        with pytest.raises(ConfigurationError, match="avro_schema_string must be a non-empty str"):
            AvroRowSerializationSchema()
        with pytest.raises(ConfigurationError, match="is not an Avro schema"):
            AvroRowSerializationSchema(avro_schema_string="{")
        with pytest.raises(ConfigurationError, match="must be of a record"):
            AvroRowSerializationSchema(avro_schema_string='"string"')


INNER = Types.ROW_NAMED(["x", "y"], [Types.STRING(), Types.STRING()])


JSON, CSV = JsonRowSerializationSchema, CsvRowSerializationSchema


@pytest.mark.parametrize(
    ("form", "kind", "value"),
    [
        *(
            (form, kind, value)
            for form in (JSON, CSV)
            for kind, value in (
                (Types.LIST(Types.STRING()), "ab"),
                (Types.LIST(Types.INT()), {1: 2}),
                (Types.LIST(Types.INT()), b"ab"),
                (Types.LIST(Types.INT()), Row(x=1)),
                (Types.LIST(Types.INT()), iter([1])),
                (Types.INT(), "1"),
                (INNER, Row(x="a", y=5)),
            )
        ),
        (JSON, Types.TUPLE([Types.STRING(), Types.STRING()]), "ab"),
        (JSON, Types.TUPLE([Types.INT(), Types.INT()]), {1: 2, 3: 4}),
    ],
)
def test_what_is_not_of_a_field_s_type_is_refused_and_the_field_named(
    form: Any, kind: Any, value: Any
) -> None:
    """The characters of a str and the keys of a dict were written as elements, and no error said of which field."""
    row_type = Types.ROW_NAMED(["good", "bad"], [kind, kind])
    builder = CSV.Builder(row_type) if form is CSV else JSON.builder().with_type_info(row_type)
    with pytest.raises(TypeMismatchError, match=rf"{form.__name__} writes .*: field .bad"):
        builder.build().serialize(Row(None, value))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Types.LIST(Types.STRING()), [["a", "b,"], [], ["", ""]], [["a;b"], [""], [None]]),
        (Types.LIST(Types.CHAR()), [["a"]], [[";"]]),
        (INNER, [Row(x="a", y=""), Row(x="", y="")], [Row(x="a;b", y="c")]),
        (Types.BIG_DEC(), [Decimal("1E+3")], [Decimal("NaN"), Decimal("-Infinity")]),
    ],
    ids=str,
)
def test_no_line_of_csv_is_read_as_other_values(kind: Any, good: Any, bad: Any) -> None:
    """An element that holds the delimiter became two."""
    row_type = Types.ROW_NAMED(["a"], [kind])
    writer = CsvRowSerializationSchema.Builder(row_type).build()
    reader = CsvRowDeserializationSchema.Builder(row_type).build()
    for value in good:
        assert reader.deserialize(writer.serialize(Row(a=value))) == Row(a=value)
    for value in bad:
        with pytest.raises(TypeMismatchError, match=r"field 'a': .*(would be read as|CSV has no form for)"):
            writer.serialize(Row(a=value))


EAST = datetime.timezone(datetime.timedelta(hours=2))


class TestZones:
    """A datetime with a zone became a JSON text that nobody reads, and in CSV another time."""

    def test_a_timestamp_with_a_zone_is_written_in_utc(self) -> None:
        row_type = Types.ROW_NAMED(["a"], [Types.SQL_TIMESTAMP()])
        noon = datetime.datetime(2024, 5, 6, 12, tzinfo=EAST)
        expected = Row(a=datetime.datetime(2024, 5, 6, 10))
        written = JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(Row(noon))
        assert written == b'{"a":"2024-05-06T10:00:00Z"}'
        assert (
            JsonRowDeserializationSchema.builder().type_info(row_type).build().deserialize(written)
            == expected
        )
        line = CsvRowSerializationSchema.Builder(row_type).build().serialize(Row(noon))
        assert CsvRowDeserializationSchema.Builder(row_type).build().deserialize(line) == expected

    def test_a_local_timestamp_of_avro_with_a_zone_is_written_in_utc(self) -> None:
        """Its zone was dropped."""
        noon = datetime.datetime(2024, 5, 6, 12)
        for kind in ("local-timestamp-millis", "local-timestamp-micros", "timestamp-micros"):
            field = {"name": "a", "type": ["null", {"type": "long", "logicalType": kind}]}
            text = json.dumps({"type": "record", "name": "r", "fields": [field]})
            writer, reader = (
                made(avro_schema_string=text)
                for made in (AvroRowSerializationSchema, AvroRowDeserializationSchema)
            )
            for moment in (noon, noon.replace(tzinfo=datetime.UTC), noon.replace(hour=14, tzinfo=EAST)):
                assert reader.deserialize(writer.serialize(Row(a=moment))) == Row(a=noon)

    def test_a_time_of_another_zone_is_refused(self) -> None:
        value: Callable[[Any], Any]
        for kind, value in (
            (Types.SQL_TIME(), lambda one: one),
            (Types.LIST(Types.SQL_TIME()), lambda one: [one]),
        ):
            row_type = Types.ROW_NAMED(["a"], [kind])
            for writer in (
                JsonRowSerializationSchema.builder().with_type_info(row_type).build(),
                CsvRowSerializationSchema.Builder(row_type).build(),
            ):
                naive = writer.serialize(Row(value(datetime.time(1, 2, 3))))
                assert writer.serialize(Row(value(datetime.time(1, 2, 3, tzinfo=datetime.UTC)))) == naive
                with pytest.raises(TypeMismatchError, match="another zone than UTC"):
                    writer.serialize(Row(value(datetime.time(1, 2, 3, tzinfo=EAST))))
