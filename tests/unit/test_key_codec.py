"""Keys: identities tell keys apart, and text alone brings them back."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
import pickle
import struct
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_codec import anything, of_type, same, texts

from changelog_engine.codec import composites
from changelog_engine.codec.canonical import canonical_text
from changelog_engine.codec.composites import check_spelling
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import EnvironmentNotReadyError, NotSerializableError, TypeMismatchError
from changelog_engine.types import Row, RowKind, Types


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    tags: frozenset


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a

    def __eq__(self, other):
        return type(other) is Slotted and self.a == other.a

    __hash__ = None


class Color(enum.Enum):
    RED = 1


class Number(int):
    pass


Pair = collections.namedtuple("Pair", "a b")


def there_and_back(codec, keys):
    """The keys after text and back; checks identities on the way."""
    identities = codec.identities(keys, "key")
    assert [codec.identity(key) for key in keys] == identities
    column = codec.texts(identities)
    for text in column.to_pylist():
        json.loads(text)
    assert column.to_pylist() == [codec.text(identity) for identity in identities]
    found = codec.from_texts(column)
    assert same(found, identities)
    assert codec.from_texts(column.to_pylist()) == identities
    return [codec.key_of(identity) for identity in found]


@settings(deadline=None)
@given(st.lists(anything, max_size=5))
def test_undeclared_keys_round_trip(keys):
    found = there_and_back(key_codec_for(None), keys)
    for key, back in zip(keys, found, strict=True):
        if isinstance(key, dict) or "{" in repr(key):  # sets and dicts may come back in another order
            assert canonical_text(back) == canonical_text(key)
        else:
            assert same(back, key)


@settings(deadline=None)
@given(of_type().flatmap(lambda pair: st.tuples(st.just(pair[0]), st.lists(pair[1], max_size=5))))
def test_declared_keys_round_trip(case):
    type_info, keys = case
    found = there_and_back(key_codec_for(type_info), keys)
    for key, back in zip(keys, found, strict=True):
        assert canonical_text(back) == canonical_text(key)


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(), texts, st.floats(), st.booleans(), st.none()), max_size=8))
def test_mixtures(keys):
    assert same(there_and_back(key_codec_for(None), keys), keys)


@settings(deadline=None)
@given(st.lists(anything, min_size=2, max_size=2))
def test_different_keys_have_different_identities(keys):
    codec = key_codec_for(None)
    first, second = codec.identities(keys, "key")
    assert (first == second) == (canonical_text(keys[0]) == canonical_text(keys[1]))


def test_one_is_not_one_point_zero_nor_true():
    keys = [
        1,
        1.0,
        True,
        "1",
        b"1",
        Decimal(1),
        None,
        (1,),
        [1],
        0.0,
        -0.0,
        0,
        False,
        2**64,
        float(2**64),
        1 + 0j,
    ]
    identities = key_codec_for(None).identities(keys, "key")
    assert len(set(identities)) == len(keys)
    assert identities[:4] == [1, b"1.0", b"true", "1"]
    assert same(there_and_back(key_codec_for(None), keys), keys)


def test_lists_of_one_class_stay_the_same_list():
    for type_info, keys in [
        (None, [1, -(2**63)]),
        (None, ["a", "é"]),
        (Types.LONG(), [1, 2**63 - 1]),
        (Types.INT(), [1, 2]),
        (Types.STRING(), ["a", "\ud800"]),
        (Types.BIG_INT(), [1, 2**100]),
    ]:
        codec = key_codec_for(type_info)
        assert codec.identities(keys, "key") is keys
        assert same(there_and_back(codec, keys), keys)


def test_special_floats_are_stable():
    codec = key_codec_for(Types.DOUBLE())
    nan = float("nan")
    identities = codec.identities([1.0, 0.0, -0.0, nan, -nan, 1e20, float("inf"), 3], "key")
    assert identities == [b"1.0", b"0.0", b"-0.0", b'"NaN"', b'"NaN"', b"1e+20", b'"Infinity"', b"3.0"]
    assert key_codec_for(None).identity(nan) == b'{"float":"nan"}'


@pytest.mark.parametrize(
    ("type_info", "key", "text"),
    [
        (Types.LONG(), 5, "5"),
        (Types.STRING(), "a", '"a"'),
        (Types.DOUBLE(), 1.0, "1.0"),
        (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1), '["a",1]'),
        (Types.ROW_NAMED(["id"], [Types.INT()]), Row(id=1), '{"id":1}'),
        (Types.SQL_DATE(), datetime.date(2020, 1, 1), '"2020-01-01"'),
        (None, ("a", 1), '["a",1]'),
        (None, None, "null"),
    ],
)
def test_text_is_natural_json(type_info, key, text):
    codec = key_codec_for(type_info)
    assert codec.texts(codec.identities([key], "key")).to_pylist() == [text]


def test_keys_are_converted_or_refused():
    assert key_codec_for(Types.LONG()).identities([1, True, np.int64(3), 4.0], "key") == [1, 1, 3, 4]
    assert key_codec_for(Types.FLOAT()).identity(0.1) == key_codec_for(Types.FLOAT()).identity(
        float(np.float32(0.1))
    )
    for type_info, keys in [
        (Types.LONG(), [1, "a"]),
        (Types.LONG(), [1.5]),
        (Types.LONG(), [2**63]),
        (Types.INT(), [2**31]),
        (Types.STRING(), ["a", 1]),
        (Types.DOUBLE(), ["a"]),
        (Types.CHAR(), ["ab"]),
        (Types.TUPLE([Types.INT()]), [("a",)]),
        (Types.TUPLE([Types.CHAR()]), [("ab",)]),
    ]:
        with pytest.raises(TypeMismatchError, match=r"key of .by user. is declared"):
            key_codec_for(type_info).identities(keys, "key of 'by user'")


def test_rows_that_json_cannot_carry():
    codec = key_codec_for(Types.ROW_NAMED(["$exact"], [Types.STRING()]))
    keys = [Row(**{"$exact": "a"}), Row.of_kind(RowKind.DELETE, **{"$exact": "\ud800"})]
    for some in (keys, keys[:1]):
        assert same(there_and_back(codec, some), some)
    assert len(set(codec.identities(keys, "key"))) == 2


def test_order_of_dicts_and_sets_does_not_matter():
    codec = key_codec_for(None)
    assert codec.identity({"a": 1, "b": 2}) == codec.identity({"b": 2, "a": 1})
    typed = key_codec_for(Types.MAP(Types.STRING(), Types.INT()))
    assert typed.identity({"a": 1, "b": 2}) == typed.identity({"b": 2, "a": 1})
    program = (
        "from changelog_engine.codec.canonical import canonical_text as t;"
        "print(t(frozenset(map(str, range(20)))), t({'x': {'b', 'a'}}))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


@pytest.mark.parametrize(
    "key",
    [
        Place("x", frozenset({"a", "b"})),
        Slotted([1]),
        Color.RED,
        Number(5),
        Pair(1, "a"),
        uuid.UUID(int=5),
        np.float64(1.5),
        np.int32(7),
        int,
        Ellipsis,
        collections.OrderedDict(b=1, a=2),
        datetime.timedelta(1, 2, 3),
        datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1), "x"), fold=1),
        range(3),
        pytest.param(1 << 20_000, id="huge"),
    ],
)
def test_objects(key):
    codec = key_codec_for(None)
    (found,) = there_and_back(codec, [key])
    assert type(found) is type(key)
    assert found == key
    assert codec.identity(pickle.loads(pickle.dumps(key))) == codec.identity(key)


def test_objects_that_cannot_be_keys():
    cycle = []
    cycle.append(cycle)
    for key in (cycle, (i for i in ()), lambda: 1):
        with pytest.raises(NotSerializableError):
            key_codec_for(None).identities([key], "key")
    with pytest.raises(NotSerializableError, match="not found"):
        key_codec_for(None).key_of(b'{"global":"tests.unit.test_key_codec:Gone"}')


def test_classes_without_a_module_are_found_once_seen():
    hidden = type("Hidden", (), {"__module__": "__main__", "__eq__": lambda a, b: type(a) is type(b)})
    codec = key_codec_for(None)
    assert type(codec.key_of(codec.identity(hidden()))) is hidden


def test_large_columns():
    for type_info, keys in [
        (None, list(range(70_000))),
        (None, [i % 9 for i in range(70_000)]),
        (None, [f"k{i}" for i in range(70_000)]),
        (None, [(i, "a") for i in range(70_000)]),
        (Types.DOUBLE(), [i / 2 for i in range(70_000)]),
    ]:
        codec = key_codec_for(type_info)
        identities = codec.identities(keys, "key")
        assert codec.from_texts(codec.texts(identities)) == identities
    assert key_codec_for(None).from_texts([]) == []


def test_an_orjson_that_spells_numbers_in_another_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def older(value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":")).replace("e+", "e").encode()

    check_spelling()
    monkeypatch.setattr(composites.orjson, "dumps", older)
    with pytest.raises(EnvironmentNotReadyError, match=r"1e20.*written as \[1e\+20.*orjson>=3.13"):
        check_spelling()


@pytest.mark.parametrize(
    ("type_info", "keys"),
    [
        (Types.FLOAT(), [0.1, struct.unpack("f", struct.pack("f", 0.1))[0]]),
        (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
    ],
)
def test_keys_that_a_type_makes_equal_are_one_key_among_many_too(type_info, keys):
    codec = key_codec_for(type_info)
    assert codec.identities(keys, "key") == [codec.identity(keys[0])] * 2
