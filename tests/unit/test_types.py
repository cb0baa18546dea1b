"""Declared types: what fits, what does not, how it is shown, and the JSON form that checkpoints keep."""

from __future__ import annotations

import datetime
import inspect
import json
import math
import pickle
from collections import deque
from decimal import Decimal
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

from changelog_engine.errors import TypeMismatchError
from changelog_engine.types import Instant, Row, RowKind, Types, type_from_spec
from changelog_engine.types.typeinfo import shown, shown_bytes

NAMED = Types.ROW_NAMED(
    ["k", "v"],
    [Types.STRING(), Types.ROW_NAMED(["n", "l"], [Types.INT(), Types.LIST(Types.INT())])],
)
ALL = [
    *(Types.STRING(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT(), Types.FLOAT()),
    *(Types.DOUBLE(), Types.BIG_DEC(), Types.BOOLEAN(), Types.CHAR(), Types.SQL_DATE(), Types.SQL_TIME()),
    *(
        Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
        Types.PICKLED_BYTE_ARRAY(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ),
    *(Types.PRIMITIVE_ARRAY(Types.LONG()), Types.BASIC_ARRAY(Types.STRING())),
    *(Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), Types.LIST(Types.INT()), Types.TUPLE([])),
    *(Types.MAP(Types.STRING(), Types.TUPLE([Types.INT(), Types.STRING()])), Types.ROW([]), NAMED),
]


class Entries:
    """Not a Mapping, but it has its entries, as PyFlink asks for them."""

    def __init__(self, entries):
        self.entries = entries

    def items(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


ENTRY = Entries([])


class Day(datetime.date):
    """A date of a class of its own."""


class Clock(datetime.time):
    """Likewise."""


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.STRING(), 1),
        (Types.INT(), "1"),
        (Types.INT(), 1.5),
        (Types.INT(), np.float32(0.5)),
        (Types.INT(), Decimal("1.5")),
        (Types.INT(), math.nan),
        (Types.BIG_INT(), math.inf),
        (Types.INT(), 2**31),
        (Types.INT(), float(2**31)),
        (Types.INT(), np.int64(2**31)),
        (Types.BYTE(), 128),
        (Types.BYTE(), -129),
        (Types.SHORT(), 2**15),
        (Types.LONG(), 2**63),
        (Types.LONG(), -(2**63) - 1),
        (Types.DOUBLE(), 2**53 + 1),
        (Types.DOUBLE(), 10**400),
        (Types.DOUBLE(), Decimal("0.12345678901234567890")),
        (Types.DOUBLE(), "1"),
        (Types.DOUBLE(), np.complex128(1)),
        (Types.FLOAT(), 2**24 + 1),
        (Types.FLOAT(), 1e300),
        *(
            (kind, np.timedelta64(count, "ns"))
            for kind in (
                Types.LONG(),
                Types.BIG_INT(),
                Types.DOUBLE(),
                Types.FLOAT(),
                Types.BIG_DEC(),
                Types.BOOLEAN(),
            )
            for count in (1, "NaT")
        ),
        (Types.LONG(), np.timedelta64(1, "s")),
        (Types.BOOLEAN(), 2),
        (Types.BOOLEAN(), "true"),
        (Types.CHAR(), "ab"),
        (Types.BIG_DEC(), "1_0"),
        (Types.BIG_DEC(), " 1"),
        (Types.BIG_DEC(), math.nan),
        (Types.SQL_DATE(), datetime.datetime(2020, 1, 1, 1)),
        (Types.SQL_DATE(), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        (Types.SQL_DATE(), np.datetime64("2020-01-01T01:00")),
        (Types.SQL_TIMESTAMP(), pd.NaT),
        (Types.SQL_TIMESTAMP(), np.datetime64("NaT", "ns")),
        (Types.SQL_TIMESTAMP(), np.datetime64(1, "ns")),
        (Types.SQL_TIMESTAMP(), np.datetime64("10000-01-01")),
        (
            Types.SQL_TIMESTAMP(),
            np.datetime64(586_574, "Y"),
        ),  # in microseconds it is out of range, and of 2019
        (Types.SQL_TIMESTAMP(), np.datetime64(1_764_255_600_000_000, "s")),
        (Types.SQL_DATE(), np.datetime64(2**63 - 1, "D")),
        (Types.SQL_TIMESTAMP(), pd.Timestamp(1, unit="ns")),
        (Types.SQL_TIMESTAMP(), datetime.date(2020, 1, 1)),
        (Types.INSTANT(), 1),
        (Types.TUPLE([Types.INT()]), (1, 2)),
        (Types.TUPLE([Types.LONG()]), (1.5,)),
        (Types.LIST(Types.STRING()), "ab"),
        (Types.LIST(Types.INT()), b"ab"),
        (Types.LIST(Types.STRING()), {"a": 1}),
        (Types.LIST(Types.INT()), iter([1])),
        (Types.MAP(Types.BOOLEAN(), Types.INT()), MappingProxyType({2: 1})),
        (Types.MAP(Types.STRING(), Types.INT()), Entries([("a", "b")])),
        (Types.MAP(Types.STRING(), Types.INT()), Entries([("a", 1), ("a", 2)])),
        (Types.MAP(Types.STRING(), Types.INT()), Entries),
        (Types.LIST(Types.LONG()), [2**63]),
        (Types.MAP(Types.STRING(), Types.INT()), {1: 1}),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [1, None]),
        (Types.ROW([Types.INT()]), 1),
        (Types.ROW_NAMED(["a"], [Types.INT()]), Row(b=1)),
        (Types.ROW_NAMED(["a"], [Types.INT()]), {"b": 1}),
    ],
)
def test_check_refuses(type_info, value):
    with pytest.raises(TypeMismatchError):
        type_info.check(value)


@pytest.mark.parametrize("type_info", ALL, ids=str)
def test_none_passes_and_spec_and_pickle_round_trip(type_info):
    assert type_info.check(None) is None
    assert type_info.check(None) is None
    assert type_info.copy(None) is None
    assert type_info.format(None) == "None"
    for other in (
        type_from_spec(json.loads(json.dumps(type_info.spec()))),
        pickle.loads(pickle.dumps(type_info)),
    ):
        assert other == type_info
        assert hash(other) == hash(type_info)
        assert other.name == type_info.name
        assert repr(other).replace("f0: ", "") == repr(type_info)  # a spec's rows have all names


def test_types_print_as_they_do_in_pyflink():
    printed = {
        Types.INT(): "Integer",
        Types.BIG_DEC(): "BigDecimal",
        Types.SQL_TIMESTAMP(): "TimestampTypeInfo",
        Types.PICKLED_BYTE_ARRAY(): "PickledByteArrayTypeInfo",
        Types.ROW([Types.INT(), Types.STRING()]): "RowTypeInfo(Integer, String)",
        Types.ROW_NAMED(["a"], [Types.LONG()]): "RowTypeInfo(a: Long)",
        Types.TUPLE(
            [Types.INT(), Types.LIST(Types.STRING())]
        ): "TupleTypeInfo(Integer, ListTypeInfo<String>)",
        Types.MAP(Types.INT(), Types.BOOLEAN()): "MapTypeInfo<Integer, Boolean>",
        Types.PRIMITIVE_ARRAY(Types.BYTE()): "PrimitiveArrayTypeInfo<Byte>",
    }
    assert {type_info: str(type_info) for type_info in printed} == printed


def test_types_differ_by_structure():
    assert len({*ALL}) == len(ALL)
    assert Types.ROW([Types.INT()]) == Types.ROW_NAMED(["f0"], [Types.INT()])
    assert Types.LIST(Types.INT()) != Types.OBJECT_ARRAY(Types.INT())


def test_message_names_type_value_and_path():
    with pytest.raises(
        TypeMismatchError, match=r"field 'v\.n' of element is declared INT but got 'a' of type str"
    ):
        NAMED.check(Row(k="x", v=Row(n="a", l=[])), "element")
    with pytest.raises(TypeMismatchError, match=r"field 'v\.l\[1\]' .*outside -2147483648 to 2147483647"):
        NAMED.check(Row(k="x", v=Row(n=1, l=[1, 2**40])))
    for other in (Row(k="x", w=1), {"k": "x", "w": 1}):
        with pytest.raises(TypeMismatchError, match=r"of type \w+ \(without v, with undeclared w\)"):
            NAMED.check(other)
    with pytest.raises(TypeMismatchError, match=r"of type dict \(without v\)"):
        NAMED.check({"k": "x"})
    twice = Row("x", (1, []), "y")
    twice.set_field_names(["k", "v", "k"])
    with pytest.raises(TypeMismatchError, match=r"of type Row \(with k more than once\)"):
        NAMED.check(twice)
    with pytest.raises(TypeMismatchError, match=r"field 'f1\.f0' "):
        Types.TUPLE([Types.INT(), Types.TUPLE([Types.INT()])]).check((1, ("a",)))
    with pytest.raises(TypeMismatchError, match=r"field \"\['k'\]\" "):
        Types.MAP(Types.STRING(), Types.INT()).check({"k": "v"})
    with pytest.raises(TypeMismatchError) as caught:
        Types.INT().check("x" * 1000)
    assert len(str(caught.value)) < 200


def test_rows_come_back_named():
    unnamed = Types.ROW([Types.DOUBLE(), Types.BOOLEAN()])
    assert [repr(unnamed.check(v)) for v in (Row(1.5, True), (2.5, False))] == [
        "Row(f0=1.5, f1=True)",
        "Row(f0=2.5, f1=False)",
    ]
    checked = NAMED.check(("x", {"n": 1, "l": (1, 2)}))
    assert repr(checked) == "Row(k='x', v=Row(n=1, l=[1, 2]))"
    assert NAMED.check(checked) is checked
    swapped = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]).check(Row(b="x", a=1))
    assert repr(swapped) == "Row(a=1, b='x')"
    assert unnamed.check(Row.of_kind(RowKind.DELETE, 1.0, None)).get_row_kind() is RowKind.DELETE


class Person:
    """Something with attributes."""

    def __init__(self, name, age):
        self.name = name
        self.age = age


def test_objects_become_rows_by_their_attributes():
    named = Types.ROW_NAMED(field_names=["age", "name"], field_types=[Types.INT(), Types.STRING()])
    assert named.check(Person("Alice", 11)) == Row(age=11, name="Alice")
    assert Types.TUPLE(field_types=[Types.INT()]).check(Row(1)) == (1,)
    for wrong in (Person("Alice", "11"), Person, object()):
        with pytest.raises(TypeMismatchError):
            named.check(wrong)
    with pytest.raises(TypeMismatchError):
        Types.ROW(field_types=[Types.INT()]).check(Person("Alice", 11))


def test_values_that_fit_are_the_same_object():
    for type_info, value in [
        (Types.LIST(Types.STRING()), ["a", None]),
        (Types.TUPLE([Types.INT(), Types.STRING()]), (1, "a")),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}),
        (Types.PICKLED_BYTE_ARRAY(), object()),
        (Types.INT(), 7),
        (Types.FLOAT(), 0.5),
    ]:
        assert type_info.check(value) is value
        assert type_info.check(value) is value


@pytest.mark.parametrize(
    ("type_info", "value", "wanted"),
    [
        (Types.DOUBLE(), 10, 10.0),
        (Types.DOUBLE(), True, 1.0),
        (Types.DOUBLE(), np.float32(0.5), 0.5),
        (Types.DOUBLE(), np.float64(0.5), 0.5),
        (Types.DOUBLE(), Decimal("0.1"), 0.1),
        (Types.FLOAT(), 10, 10.0),
        (Types.FLOAT(), Decimal("0.5"), 0.5),
        (Types.FLOAT(), np.int8(3), 3.0),
        (Types.LONG(), True, 1),
        (Types.LONG(), 3.0, 3),
        (Types.LONG(), np.int32(5), 5),
        (Types.LONG(), np.float64(5), 5),
        (Types.LONG(), Decimal("5.00"), 5),
        (Types.SHORT(), np.uint8(255), 255),
        (Types.BIG_INT(), 1e30, int(1e30)),
        (Types.BOOLEAN(), 0, False),
        (Types.BOOLEAN(), 1, True),
        (Types.BOOLEAN(), np.True_, True),
        (Types.BOOLEAN(), np.int64(0), False),
        (Types.STRING(), np.str_("a"), "a"),
        (Types.BIG_DEC(), 3, Decimal(3)),
        (Types.BIG_DEC(), 1.1, Decimal("1.1")),
        (Types.BIG_DEC(), "-1.50", Decimal("-1.50")),
        (Types.SQL_DATE(), datetime.datetime(2020, 1, 1), datetime.date(2020, 1, 1)),
        (Types.SQL_DATE(), Day(2020, 1, 1), datetime.date(2020, 1, 1)),
        (
            Types.SQL_TIME(),
            Clock(1, fold=1, tzinfo=datetime.UTC),
            datetime.time(1, fold=1, tzinfo=datetime.UTC),
        ),
        (Types.SQL_TIMESTAMP(), pd.Timestamp("2020-01-01T01:00"), datetime.datetime(2020, 1, 1, 1)),
        (Types.SQL_TIMESTAMP(), np.datetime64("2020-01-01T01:00"), datetime.datetime(2020, 1, 1, 1)),
        (Types.SQL_DATE(), np.datetime64("2020-01-01"), datetime.date(2020, 1, 1)),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), memoryview(b"ab"), b"ab"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), np.arange(3), [0, 1, 2]),
        (Types.LIST(Types.INT()), {"a": 1, "b": 2}.values(), [1, 2]),
        (Types.LIST(Types.INT()), deque([1]), [1]),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), MappingProxyType({"a": 1}), {"a": 1.0}),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), Entries([("a", 1)]), {"a": 1.0}),
        (Types.MAP(Types.STRING(), Types.PICKLED_BYTE_ARRAY()), Entries([("a", ENTRY)]), {"a": ENTRY}),
        (Types.LIST(Types.TUPLE([Types.DOUBLE(), Types.LONG()])), [(1, True)], [(1.0, 1)]),
        (Types.ROW_NAMED(["amount"], [Types.DOUBLE()]), Row(amount=10), Row(amount=10.0)),
    ],
)
def test_conversions_that_lose_nothing(type_info, value, wanted):
    converted = type_info.check(value)
    assert repr(converted) == repr(wanted)
    assert type_info.check(converted) is converted


@pytest.mark.parametrize(
    ("type_info", "value", "why"),
    [
        (Types.LONG(), Decimal("sNaN"), "not a whole number"),
        (Types.DOUBLE(), Decimal("sNaN"), "a float cannot be a signaling NaN"),
        (Types.FLOAT(), Decimal("sNaN"), "a float cannot be a signaling NaN"),
        (Types.LIST(Types.INT()), np.array(1), "an array without dimensions has no elements"),
        (Types.MAP(Types.LIST(Types.INT()), Types.INT()), {(1,): 1}, "a LIST<INT> cannot be a key of a dict"),
    ],
    ids=str,
)
def test_what_fails_while_it_is_looked_at_is_refused_as_all_else(type_info, value, why):
    with pytest.raises(TypeMismatchError, match=rf"value is declared .* but got .*\({why}"):
        type_info.check(value)
    named = Types.ROW_NAMED(["x"], [type_info])
    with pytest.raises(TypeMismatchError, match="field 'x' of value is declared"):
        named.check(Row(x=value))


def test_a_map_whose_keys_become_one_is_refused():
    class Twice(dict):
        def __len__(self):
            return 2

        def items(self):
            return [(1, "a"), (True, "b")]

    with pytest.raises(TypeMismatchError, match="two of its keys are the same LONG"):
        Types.MAP(Types.LONG(), Types.STRING()).check(Twice())


def test_float_has_32_bits():
    assert Types.FLOAT().check(0.1) == float(np.float32(0.1))
    assert Types.FLOAT().format(Types.FLOAT().check(0.1)) == "0.1"


@pytest.mark.parametrize(
    ("type_info", "value", "shown"),
    [
        (Types.ROW([Types.INT(), Types.STRING(), Types.DOUBLE()]), (1, "one", 1.0), "+I[1,one,1.0]"),
        (Types.ROW([Types.INT(), Types.STRING()]), (1, None), "+I[1,None]"),
        (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1), "(a,1)"),
        (
            Types.TUPLE([Types.DOUBLE(), Types.BOOLEAN(), Types.INT()]),
            (1e20, True, None),
            "(1.0E20,true,null)",
        ),
        (Types.TUPLE([Types.ROW([Types.INT(), Types.STRING()])]), ((1, "a"),), "(+I[1, a])"),
        (Types.LIST(Types.INT()), [1, 2], "[1, 2]"),
        (Types.MAP(Types.STRING(), Types.INT()), {"k": 7}, "{k=7}"),
        (Types.BOOLEAN(), True, "true"),
        (Types.PICKLED_BYTE_ARRAY(), Row("r", 1), "<Row('r', 1)>"),
        (Types.PICKLED_BYTE_ARRAY(), True, "True"),
        (Types.STRING(), "a", "a"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff", "[0, -1]"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 1), "2020-01-01 00:00:00.0"),
        (Types.SQL_DATE(), datetime.date(2020, 1, 2), "2020-01-02"),
        (Types.SQL_TIME(), datetime.time(1, 2, 3), "01:02:03"),
        (Types.INSTANT(), Instant(1, 500_000_000), "1970-01-01T00:00:01.500Z"),
        (Types.INSTANT(), Instant(-1, 0), "1969-12-31T23:59:59Z"),
    ],
)
def test_format(type_info, value, shown):
    assert type_info.format(type_info.check(value)) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-123456789.125, "-1.23456789125E8"),
        (1.5e-300, "1.5E-300"),
        (5e-324, "4.9E-324"),
        (1e-323, "9.9E-324"),  # Java from 19 on; the JVM before printed 1.0E-323
        (100.0, "100.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_double_prints_as_java(value, text):
    assert Types.DOUBLE().format(value) == text


def test_copy_is_private():
    value = NAMED.check(("x", (1, [1, 2])))
    other = NAMED.copy(value)
    other.v.l.append(3)
    assert value.v.l == [1, 2]
    undeclared = {"a": [1], "b": (1, [2])}
    other = Types.PICKLED_BYTE_ARRAY().copy(undeclared)
    other["b"][1].append(3)
    assert undeclared == {"a": [1], "b": (1, [2])}
    immutable = (1, "a")
    assert Types.TUPLE([Types.INT(), Types.STRING()]).immutable
    assert Types.TUPLE([Types.INT(), Types.STRING()]).copy(immutable) is immutable
    assert not Types.TUPLE([Types.LIST(Types.INT())]).immutable


def test_wrong_declarations():
    with pytest.raises(TypeMismatchError):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])
    with pytest.raises(TypeMismatchError):
        Types.ROW_NAMED(["a"], [])
    with pytest.raises(TypeMismatchError):
        Types.PRIMITIVE_ARRAY(Types.STRING())
    with pytest.raises(TypeMismatchError, match="newer version"):
        type_from_spec({"type": "HOLOGRAM"})


def test_factory_is_documented():
    for name, method in inspect.getmembers(Types, inspect.isfunction):
        assert "Example:" in method.__doc__, name


def test_values_in_messages():
    class Unshowable:
        def __repr__(self):
            raise RuntimeError("no")

    assert shown([1, "a"]) == "[1, 'a']"
    assert shown("x" * 500) == "'" + "x" * 96 + "..."
    assert len(shown("x" * 500, 300)) == 300
    assert shown(Unshowable()) == "<Unshowable whose repr failed: RuntimeError>"
    assert shown_bytes(b"ab\0") == r"b'ab\x00'"
    assert shown_bytes(bytearray(b"a" * 200)) == "b'" + "a" * 100 + "'... (200 bytes)"
