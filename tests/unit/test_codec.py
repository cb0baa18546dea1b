"""The codec is exact: whatever goes in comes out, with the same classes inside."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import json
import math
import struct
import sys
import zoneinfo
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changelog_engine.codec.values import CLEARED, Encoded, codec_for
from changelog_engine.errors import NotSerializableError, TypeMismatchError
from changelog_engine.types import Instant, Row, RowKind, Types


@dataclasses.dataclass
class Point:
    x: int
    y: object


Pair = collections.namedtuple("Pair", "a b")


def same(a, b):
    """Equal with the same classes all the way down; NaN equals NaN, 0.0 does not equal -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, Decimal):
        return str(a) == str(b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if isinstance(a, Row):
        return (
            getattr(a, "_fields", None) == getattr(b, "_fields", None)
            and a.get_row_kind() is b.get_row_kind()
            and same(a._values, b._values)
        )
    if isinstance(a, (datetime.datetime, datetime.time)):
        return (a.replace(tzinfo=None), a.fold, str(a.tzinfo)) == (
            b.replace(tzinfo=None),
            b.fold,
            str(b.tzinfo),
        )
    if isinstance(a, Point):
        return same(a.x, b.x) and same(a.y, b.y)
    return a == b


zones = st.one_of(
    st.none(),
    st.just(datetime.UTC),
    st.sampled_from([zoneinfo.ZoneInfo("Europe/Berlin"), zoneinfo.ZoneInfo("UTC")]),
    st.integers(-86_000, 86_000).map(lambda s: datetime.timezone(datetime.timedelta(seconds=s))),
    st.just(datetime.timezone(datetime.timedelta(0), "mine")),
)
datetimes = st.builds(
    lambda d, zone, fold: d.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, st.sampled_from([0, 0, 1])
)
times = st.builds(lambda t, zone: t.replace(tzinfo=zone), st.times(), zones)
texts = st.text(st.characters(exclude_categories=()), max_size=8)
instants = st.builds(Instant, st.integers(-(2**40), 2**40), st.integers(0, 999_999_999))
decimals = st.decimals().filter(lambda d: not d.is_snan())  # those cannot be hashed

hashable = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.binary(max_size=8), decimals),
        *(st.dates(), times, datetimes, st.complex_numbers(), instants, st.integers(2**62, 2**65)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.frozensets(st.one_of(st.integers(), texts), max_size=3),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=6,
)
anything = st.recursive(
    hashable,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(hashable, inner, max_size=3),
        st.dictionaries(texts, inner, max_size=3),
        st.dictionaries(texts, inner, max_size=2).map(collections.OrderedDict),
        st.sets(st.one_of(st.integers(), texts), max_size=3),
        st.lists(inner, max_size=3).map(lambda v: Row(*v)),
        st.builds(lambda a, b: Row(a=a, b=b), inner, inner),
        st.builds(Point, st.integers(), inner),
        st.binary(max_size=5).map(bytearray),
    ),
    max_leaves=10,
)


def of_type(depth=2):
    """Pairs of a type and a strategy of its values."""
    scalars = [
        *(
            (Types.STRING(), texts),
            (Types.LONG(), st.integers(-(2**63), 2**63 - 1)),
            (Types.BIG_INT(), st.integers()),
        ),
        *(
            (Types.INT(), st.integers(-(2**31), 2**31 - 1)),
            (Types.DOUBLE(), st.floats()),
            (Types.BIG_DEC(), decimals),
        ),
        *((Types.BOOLEAN(), st.booleans()), (Types.CHAR(), st.characters(exclude_categories=()))),
        *((Types.SQL_DATE(), st.dates()), (Types.SQL_TIME(), times), (Types.SQL_TIMESTAMP(), datetimes)),
        *(
            (Types.INSTANT(), instants),
            (Types.PICKLED_BYTE_ARRAY(), anything),
            (Types.FLOAT(), st.floats(width=32)),
        ),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=8)),
    ]
    scalar = st.sampled_from(scalars).map(lambda pair: (pair[0], st.one_of(st.none(), pair[1])))
    if not depth:
        return scalar
    inner = of_type(depth - 1)
    key = st.sampled_from([pair for pair in scalars if pair[0] != Types.PICKLED_BYTE_ARRAY()])

    def tuple_of(parts):
        return Types.TUPLE([t for t, _ in parts]), st.tuples(*(v for _, v in parts))

    def row_of(parts):
        made = Types.ROW_NAMED([f"n{i}" for i in range(len(parts))], [t for t, _ in parts])
        kinds = st.sampled_from([RowKind.INSERT] * 3 + [RowKind.DELETE])

        def build(values, kind):
            row = made.check(values)
            row.set_row_kind(kind)
            return row

        return made, st.builds(build, st.tuples(*(v for _, v in parts)), kinds)

    return st.one_of(
        scalar,
        inner.map(lambda pair: (Types.LIST(pair[0]), st.lists(pair[1], max_size=3))),
        st.lists(inner, max_size=3).map(tuple_of),
        st.lists(inner, max_size=3).map(row_of),
        st.tuples(key, inner).map(
            lambda p: (Types.MAP(p[0][0], p[1][0]), st.dictionaries(p[0][1], p[1][1], max_size=3))
        ),
    )


typed = of_type().flatmap(
    lambda pair: st.tuples(st.just(pair[0]), st.lists(st.one_of(st.none(), pair[1]), max_size=6))
)


def round_trip(codec, values):
    text, payload = codec.encode_many(values)
    for one in text.to_pylist():
        if one is not None:
            json.loads(one)
    return codec.decode_many(text, payload)


@settings(deadline=None)
@given(typed)
def test_typed_values_round_trip(case):
    type_info, values = case
    codec = codec_for(type_info)
    assert same(round_trip(codec, values), values)
    one_by_one = [codec.encode(value) for value in values]
    assert same(round_trip(codec, one_by_one), values)
    mixed = [CLEARED, *one_by_one, *values, CLEARED]
    assert same(round_trip(codec, mixed), [CLEARED, *values, *values, CLEARED])


@settings(deadline=None)
@given(st.lists(anything, max_size=6))
def test_undeclared_values_round_trip(values):
    codec = codec_for(None)
    assert same(round_trip(codec, values), values)
    assert same(round_trip(codec, list(map(codec.encode, values))), values)


@settings(deadline=None)
@given(
    st.one_of(
        *(st.lists(st.one_of(st.none(), s)) for s in (st.floats(), st.integers(), texts, st.booleans()))
    )
)
def test_undeclared_columns_of_one_class_round_trip(values):
    codec = codec_for(None)
    assert same(round_trip(codec, values), values)
    assert codec.encode_many(values)[0].to_pylist() == [codec.encode(value).text for value in values]


@settings(deadline=None)
@given(anything)
def test_later_changes_do_not_reach_what_was_encoded(value):
    codec = codec_for(None)
    holder = [value, [1], {"a": [2]}]
    encoded = codec.encode(holder)
    before = codec.decode_many([encoded.text], [encoded.payload])[0]
    holder[1].append("changed")
    holder[2]["a"].append("changed")
    assert same(codec.decode_many([encoded.text], [encoded.payload])[0], before)
    assert before[1] == [1]


@settings(deadline=None)
@given(typed)
def test_copies_are_equal_and_private(case):
    type_info, values = case
    for value in values:
        copied = type_info.copy(value)
        assert same(copied, value)
        if type_info.immutable:
            assert copied is value


@pytest.mark.parametrize(
    ("type_info", "value", "text"),
    [
        (Types.LONG(), 5, "5"),
        (Types.STRING(), "a", '"a"'),
        (Types.STRING(), 'a,"b', '"a,\\"b"'),
        (Types.DOUBLE(), 1.0, "1.0"),
        (Types.DOUBLE(), float("nan"), '"NaN"'),
        (Types.DOUBLE(), -0.0, "-0.0"),
        (Types.BOOLEAN(), True, "true"),
        (Types.BIG_INT(), 2**70, '"1180591620717411303424"'),
        (Types.BIG_DEC(), Decimal("7.50"), '"7.50"'),
        (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1), '["a",1]'),
        (Types.ROW_NAMED(["id"], [Types.INT()]), Row(id=1), '{"id":1}'),
        (Types.ROW([Types.INT()]), Row(f0=1), '{"f0":1}'),
        (Types.MAP(Types.LONG(), Types.STRING()), {5: "x"}, '{"5":"x"}'),
        (Types.MAP(Types.TUPLE([Types.INT()]), Types.INT()), {(1,): 2}, "[[[1],2]]"),
        (Types.SQL_DATE(), datetime.date(2020, 1, 2), '"2020-01-02"'),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2), '"2020-01-02T00:00:00"'),
        (Types.INSTANT(), Instant(0, 0), '"1970-01-01T00:00:00Z"'),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff", '"AP8="'),
        (Types.LIST(Types.DOUBLE()), [1.0, None], "[1.0,null]"),
        (None, None, "null"),
        (None, {"a": [1, "b", None, True, 2.5]}, '{"a":[1,"b",null,true,2.5]}'),
    ],
)
def test_text_is_natural_json_without_payload(type_info, value, text):
    codec = codec_for(type_info)
    assert codec.encode(value) == Encoded(text, None)
    texts_column, payloads = codec.encode_many([value, None])
    assert (texts_column.to_pylist(), payloads) == ([text, "null"], None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), '"NaN"'),
        ((1, "a"), '[1,"a"]'),
        (2**70, str(2**70)),
        ({1: "a"}, '{"1":"a"}'),
        ("\ud800", '"\\ud800"'),
        (Row(id=1), '{"id":1}'),
        (b"ab", '"YWI="'),
    ],
)
def test_text_beside_a_payload_is_readable(value, text):
    encoded = codec_for(None).encode(value)
    assert encoded.text == text
    assert encoded.payload is not None


def test_text_beside_a_payload_leaves_out_no_entry() -> None:
    """Keys that look alike as text are told apart."""
    value = {1: "int", "1": "text", "1 (2)": "another", b"1": {2: "a", "2": "b"}}
    text = codec_for(None).encode(value).text
    assert text is not None
    assert json.loads(text) == {
        "1": "int",
        "1 (2)": "text",
        "1 (2) (2)": "another",
        "b'1'": {"2": "a", "2 (2)": "b"},
    }


def test_objects_are_shown_by_type_and_repr():
    text = codec_for(None).encode(Point(1, 2)).text
    assert json.loads(text) == {"type": f"{__name__}.Point", "repr": "Point(x=1, y=2)"}
    assert len(codec_for(None).encode((*range(100_000), 2**70)).text) < 10_000


def test_long_columns():
    codec = codec_for(Types.LONG())
    values = [i % 300 for i in range(10_000)]
    column, payloads = codec.encode_many(values)
    assert pa.types.is_dictionary(column.type)
    assert (codec.decode_many(column, payloads), column.to_pylist()) == (values, list(map(str, values)))
    values = [*range(70_000), None]
    assert round_trip(codec, values) == values
    table = pa.chunked_array([codec.encode_many([1, 2])[0], codec.encode_many([3])[0]])
    assert codec.decode_many(table) == [1, 2, 3]
    texts_column = codec_for(Types.STRING()).encode_many([str(i) for i in range(10)])[0]
    assert codec_for(Types.STRING()).decode_many(texts_column.slice(3, 2)) == ["3", "4"]
    assert codec.decode_many(codec.encode_many(list(range(9)))[0].slice(3, 2)) == [3, 4]
    assert codec.decode_many(pa.array([], pa.string()), None) == []


@pytest.mark.parametrize(
    ("type_info", "values", "message"),
    [
        (Types.LONG(), [1, 2**63], "LONG but got 9223372036854775808 of type int"),
        (Types.INT(), [1, 2**31], "INT but got 2147483648 of type int"),
        (Types.INT(), [1, None, -(2**40)], "INT but got -1099511627776"),
        (Types.LONG(), [1, 1.5], "LONG but got 1.5 of type float"),
        (Types.LONG(), [1, "a"], "LONG but got 'a' of type str"),
        (Types.DOUBLE(), [1.0, "1"], "DOUBLE but got '1' of type str"),
        (Types.LIST(Types.INT()), [[1], [2**31]], r"\[0\].*INT but got 2147483648"),
        (Types.TUPLE([Types.INT()]), [(1,), (1, 2)], "2 fields where 1 are declared"),
    ],
)
def test_misfits_are_named(type_info, values, message):
    with pytest.raises(TypeMismatchError, match=message):
        codec_for(type_info).encode_many(values)


def test_what_cannot_be_pickled_is_an_error():
    with pytest.raises(NotSerializableError, match="cannot be written"):
        codec_for(None).encode(i for i in range(3))
    with pytest.raises(NotSerializableError, match="read back"):
        codec_for(None).decode_many(["1"], [b"nonsense"])


def test_cycles_and_depth():
    codec = codec_for(None)
    cycle = [1]
    cycle.append(cycle)
    text, payload = codec.encode(cycle)
    (back,) = codec.decode_many([text], [payload])
    assert back[1] is back
    deep = []
    for _ in range(400):
        deep = [deep]
    assert round_trip(codec, [deep, 1]) == [deep, 1]


def test_subclasses_keep_their_class_when_undeclared():
    values = [
        Decimal("sNaN12"),
        Pair(1, 2),
        collections.Counter("aab"),
        collections.defaultdict(list, a=[1]),
        True,
    ]
    assert same(round_trip(codec_for(None), values), values)


@pytest.mark.parametrize("key_type", [Types.LONG(), Types.STRING(), Types.DOUBLE()])
def test_a_map_with_no_key_comes_back(key_type):
    codec = codec_for(Types.MAP(key_type, Types.STRING()))
    value = codec.type.check({None: "a"})
    assert codec.decode_many(*codec.encode_many([value])) == [{None: "a"}]


def test_fields_of_a_row_stay_under_their_names_whatever_their_order():
    codec = codec_for(Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()]))
    rows = [Row(b=2, a=1), Row(a=3, b=4)]
    for each in (codec.encode_many(rows), codec.encode_many(rows[:1])):
        found = codec.decode_many(*each)
        assert [(row.a, row.b) for row in found] == [(1, 2), (3, 4)][: len(found)]


def test_values_of_the_main_modules_classes_are_read_where_it_is_another_one(monkeypatch):
    kind = type("Here", (), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Here", kind, raising=False)
    value = kind()
    value.x = 5
    encoded = codec_for(None).encode_many([value])
    monkeypatch.undo()
    assert [each.x for each in codec_for(None).decode_many(*encoded)] == [5]


def test_a_float_that_is_no_number_comes_back_undeclared_too():
    values = [1.5, math.nan, math.inf, None]
    assert same(codec_for(None).decode_many(*codec_for(None).encode_many(values)), values)
