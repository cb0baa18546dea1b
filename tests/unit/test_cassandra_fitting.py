"""Which values go into a Cassandra column as they are; the driver would change the others without a word."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra.cqltypes import DoubleType, UserType, lookup_casstype

from changelog_engine.connectors.cassandra import sink as sink_module
from changelog_engine.connectors.cassandra.fitting import check_of
from changelog_engine.connectors.cassandra.sink import CassandraWriter
from changelog_engine.errors import TypeMismatchError

NOON = datetime.datetime(2024, 2, 29, 12, 0, 0)
FLOATS = "ListType(DoubleType)"
BLOBS = "MapType(UTF8Type, BytesType)"
PAIR = "TupleType(Int32Type, FloatType)"


def why_not(kind: str, value: Any) -> str:
    check = check_of(lookup_casstype(kind))
    return "" if check is None else check(value)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("DoubleType", 2**53 + 1, "does not hold it exactly: make the column varint"),
        ("DoubleType", -(2**53) - 1, "does not hold it exactly"),
        ("DoubleType", 10**400, "does not hold it exactly"),
        ("DoubleType", Decimal("0.12345678901234567890"), "does not hold it exactly"),
        ("DoubleType", True, "a bool is not a number"),
        ("FloatType", 2**24 + 1, "does not hold it exactly: make the column double"),
        ("FloatType", 1e39, "does not hold it exactly"),
        ("Int32Type", 2**31, "make the column bigint"),
        ("Int32Type", True, r"a bool is not a number: write int\(value\)"),
        ("LongType", 2**63, "make the column varint"),
        ("ShortType", -(2**15) - 1, "make the column int"),
        ("ByteType", 128, "make the column smallint"),
        ("CounterColumnType", 2**63, "64 bits"),
        ("IntegerType", False, "a bool is not a number"),
        ("DecimalType", True, "a bool is not a number"),
        ("BooleanType", 2, "it is not a bool"),
        ("BooleanType", "yes", "it is not a bool"),
        ("BytesType", 3, "it is not bytes"),
        ("TimestampType", NOON.replace(microsecond=1), "the column has milliseconds: round it"),
        ("TimestampType", 1.5, "the column has milliseconds"),
        ("SimpleDateType", NOON, r"no time of day: write value.date\(\)"),
        ("SimpleDateType", True, "a bool is not a date"),
        ("TimeType", NOON.time().replace(tzinfo=datetime.UTC), "no time zone"),
        ("TimeType", True, "a bool is not a time"),
        ("InetAddressType", "1.2", "not a whole IP address"),
        ("InetAddressType", 5, "not an IP address as a str"),
        (FLOATS, [1.5, 2**53 + 1], "9007199254740993 inside: .*does not hold it exactly"),
        (FLOATS, [1.5, None], "None cannot be inside"),
        (FLOATS, {1.5: 1}, "it is a map"),
        ("SetType(Int32Type)", [1, 2, 1], "1 is in it twice"),
        ("SetType(ListType(Int32Type))", [[1], [2], [1]], r"\[1\] is in it twice"),
        (BLOBS, {"a": 1}, "1 inside: it is not bytes"),
        (BLOBS, {"a": None}, "None cannot be inside"),
        (PAIR, (1,), "has 1 fields and the type 2"),
        (PAIR, (True, 1.5), "True inside: a bool"),
        (PAIR, {"a": 1, "b": 2}, "it is a map"),
        (f"FrozenType({FLOATS})", [2**53 + 1], "does not hold it exactly"),
        ("ReversedType(DoubleType)", 2**53 + 1, "does not hold it exactly"),
        ("VectorType(FloatType, 2)", [1.5, 2**24 + 1], "does not hold it exactly"),
    ],
)
def test_what_would_be_changed(kind: str, value: Any, said: str) -> None:
    why = why_not(kind, value)
    with pytest.raises(ValueError, match=said):
        raise ValueError(why)


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("DoubleType", 2**53, 2.0**53),
        ("DoubleType", 2**80, 2.0**80),
        ("DoubleType", float("-inf"), float("-inf")),
        ("DoubleType", Decimal("0.1"), 0.1),
        ("FloatType", 2**24, 2.0**24),
        ("FloatType", 0.1, 0.10000000149011612),  # a column of 32 bits rounds, as FLOAT does
        ("Int32Type", -(2**31), -(2**31)),
        ("ByteType", 127, 127),
        ("IntegerType", 2**90, 2**90),
        ("DecimalType", Decimal("1.10"), Decimal("1.10")),
        ("DecimalType", 2**90, Decimal(2**90)),
        ("DecimalType", "1.5", Decimal("1.5")),
        ("BooleanType", True, True),
        ("BooleanType", 0, False),
        ("BytesType", bytearray(b"ab"), b"ab"),
        ("TimestampType", NOON.replace(microsecond=999_000), NOON.replace(microsecond=999_000)),
        ("TimestampType", NOON.date(), NOON.replace(hour=0)),
        ("TimestampType", 86_400_000.0, datetime.datetime(1970, 1, 2)),
        ("InetAddressType", "10.0.0.1", "10.0.0.1"),
        ("InetAddressType", ip_address("10.0.0.1"), "10.0.0.1"),
        (FLOATS, [1, 2.5], [1.0, 2.5]),
        (FLOATS, (1, 2.5), [1.0, 2.5]),
        ("SetType(Int32Type)", {1}, {1}),
        ("SetType(Int32Type)", [2, 1], {1, 2}),
        (BLOBS, {"a": b"x"}, {"a": b"x"}),
        (PAIR, (None, 1.5), (None, 1.5)),
        ("UTF8Type", "ä", "ä"),
    ],
)
def test_what_arrives_as_it_is(kind: str, value: Any, found: Any) -> None:
    assert why_not(kind, value) == ""
    column = lookup_casstype(kind)
    arrived = column.deserialize(column.serialize(value, 4), 4)
    assert (dict(arrived) if kind == BLOBS else set(arrived) if "Set" in kind else arrived) == found


def test_many_values_for_a_set_are_looked_at_once() -> None:
    class Counted(int):
        compared = 0

        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return int.__eq__(self, other)

    assert why_not("SetType(Int32Type)", [Counted(number) for number in range(1_000)]) == ""
    assert Counted.compared < 10_000


def test_a_type_of_the_users() -> None:
    kind = UserType.make_udt_class("k", "point", ("x", "y"), (DoubleType, DoubleType))
    check = check_of(kind)
    assert check is not None
    assert check((1.5, 2)) == check(SimpleNamespace(x=None, y=2)) == ""
    assert "has 1 fields and the type 2" in check((1.5,))
    assert check(SimpleNamespace(x=1.5)) == "it has no 'y'"
    assert "does not hold it exactly" in check(SimpleNamespace(x=2**53 + 1, y=1))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("Int32Type", 1.5),
        ("DoubleType", "1"),
        ("LongType", Decimal(1)),
        ("UTF8Type", 5),
        (FLOATS, 5),
        (BLOBS, [1]),
    ],
)
def test_what_the_driver_refuses_is_left_to_it(kind: str, value: Any) -> None:
    assert why_not(kind, value) == ""
    with pytest.raises((struct.error, TypeError, AttributeError)):
        lookup_casstype(kind).serialize(value, 4)


def test_nothing_of_a_block_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    columns = [
        SimpleNamespace(name=name, type=lookup_casstype(f"{kind}Type"))
        for name, kind in (("k", "UTF8"), ("n", "Double"))
    ]
    statement = SimpleNamespace(column_metadata=columns, protocol_version=4, bind=tuple)
    session = SimpleNamespace(prepared=lambda query: statement, execute_async=sent.append, close=lambda: None)
    monkeypatch.setattr(sink_module, "_connected", lambda options: session)
    writer = CassandraWriter(sink_module.CassandraSink("INSERT", sink_module.ConnectionOptions(("db",))))
    with pytest.raises(
        TypeMismatchError,
        match=r"9007199254740993 does not fit column 'n' of type double \(.*varint.*\); element: \('b', 9007199254740993\)",
    ):
        writer.write([("a", 1.5), ("b", 2**53 + 1)])
    assert sent == []
