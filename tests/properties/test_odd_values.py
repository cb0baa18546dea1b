"""What goes in comes out, of whatever class: elements, keys, values and map keys, on each state backend, over an exchange,
out of the log, and after a driver that was killed. Reliability 36.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import enum
import fractions
import pathlib
import re
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.backends import backend_settings
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream.functions import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.operators.blocks import Block, column_of, decode, elements, encode_block
from changelog_engine.testing.exact import Exact, exactly
from changelog_engine.types import Instant, Row, RowKind
from materializer.fold import state_at


class Color(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Bits(enum.Flag):
    A = 1
    B = 2


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Point:
    x: int
    more: list[int]


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: int


class Text(str):
    """Not a str to all who ask for the exact class."""


class Whole(int):
    """Likewise."""


class Items(list[Any]):
    """Likewise."""


class Slots:
    __slots__ = ("a",)

    def __init__(self, a: int) -> None:
        self.a = a

    def __eq__(self, other: object) -> bool:
        return type(other) is Slots and self.a == other.a

    def __hash__(self) -> int:
        return hash(self.a)

    def __repr__(self) -> str:
        return f"Slots({self.a})"


def deleted() -> Row:
    row = Row(1, [2])
    row.set_row_kind(RowKind.DELETE)
    return row


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
HOUR = datetime.timedelta(hours=1)
ATOMS: list[Any] = [
    None, True, False, 0, 1, 1.0, 0.0, -0.0, float("nan"), float("inf"), 2**63 - 1, 2**63, -(2**63), 2**70, -(2**9000),
    "", "a", "1", "null", "\0", "\ud800", "\u2028", "\x7f", '"\\', '{"list":[1]}', b"", b"\xff", bytearray(b"x"),
    Decimal("1"), Decimal("1.0"), Decimal("1E+2"), Decimal("-0"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"),
    datetime.datetime(2020, 10, 25, 2, 30), datetime.datetime(2020, 10, 25, 2, 30, fold=1),
    datetime.datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=BERLIN), datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone(HOUR, "X")), datetime.datetime.max, datetime.date(2020, 1, 1),
    datetime.time(1, 2, fold=1), datetime.time(1, tzinfo=datetime.UTC), datetime.timedelta.max, Instant(-1, 999_999_999),
    np.int64(1), np.float32(0.1), np.bool_(True), np.str_("a"), np.datetime64("2020-01-01", "ns"),
    Color.RED, Number.ONE, Bits.A | Bits.B, Text("a"), Whole(1), Frozen(1), Slots(1), uuid.UUID(int=5),
    fractions.Fraction(1, 3), 1 + 2j, range(3), pathlib.PurePosixPath("/a"), re.compile("a"), int, len,
    Ellipsis, slice(1, 2), RowKind.DELETE,
]  # fmt: skip
HOLDERS: list[Callable[[Any], Any]] = [
    lambda x: (x,), lambda x: [x], lambda x: {"a": x}, lambda x: {1: x, "1": x}, lambda x: Pair(x, [x]), lambda x: Row(x, 1),
    lambda x: Row(a=x, b=[x]), lambda x: Items([x]), lambda x: collections.OrderedDict(b=x, a=x),
    lambda x: collections.deque([x], 3), lambda x: {"$exact": x}, lambda x: {"object": [x]}, lambda x: [[{"a": (x,)}]],
]  # fmt: skip
VALUES: list[Any] = [
    *ATOMS, *(hold(1) for hold in HOLDERS), *(hold(float("nan")) for hold in HOLDERS), (), [], {}, set(), {1, "a"},
    frozenset([1]), {None: 1}, {(1, 2): [3]}, {1.5: -0.0}, {Color.RED: 1}, Row(), Row(None), deleted(), Point(1, [2]),
    collections.defaultdict(list, {"a": [1]}), collections.Counter("aab"), array.array("i", [1]), np.array([1, 2]),
]  # fmt: skip
UNDECLARED = Types.PICKLED_BYTE_ARRAY()
WRITE, READ = "write", "read"


class Keeps(KeyedProcessFunction):
    """Puts a value into each kind of state, and gives back later what is there."""

    def open(self, runtime_context: Any) -> None:
        self.one = runtime_context.get_state(ValueStateDescriptor("one", UNDECLARED))
        self.some = runtime_context.get_list_state(ListStateDescriptor("some", UNDECLARED))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", UNDECLARED, UNDECLARED))

    def process_element(self, value: Any, ctx: Any) -> Any:
        number, what, given = value
        if what == WRITE:
            self.one.update(given)
            self.some.add((given,))
            self.map.put(given, given)
        else:
            yield (
                number,
                given,
                self.one.value(),
                self.some.get(),
                list(self.map.items()),
                self.map.get(given),
            )


class Counts(KeyedProcessFunction):
    """Counts what comes with a key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        number, what, _ = value
        self.count.update((self.count.value() or 0) + 1)
        if what == READ:
            yield number, ctx.get_current_key(), self.count.value()


@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "killed"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb", "rocksdb without cache"])
def test_case_36_values_of_every_class(tmp_path: Path, backend: str, killed: bool) -> None:
    count = len(VALUES)
    given = [(number, what, value) for what in (WRITE, READ) for number, value in enumerate(VALUES)]
    failures = (Failure(1, Fault.COMMITTED),) if killed else ()
    runs = {"kept": (Keeps(), lambda each: each[0]), "counted": (Counts(), lambda each: each[2])}
    for name, (function, key) in runs.items():
        job = TestJob(
            tmp_path, Script((count,), (True,), failures), **backend_settings(backend, tmp_path / "local")
        )
        job.run(keyed_job(given, function, key=key, parallelism=2, max_parallelism=8, name=name))
        assert job.drivers == 1 + killed
        found = {number: rest for number, *rest in job.output}
        assert len(job.output) == len(found) == count
        folded = state_at(job.table(name), 1, allow_pickle=True).states
        if name == "counted":
            assert exactly(found[number] for number in range(count)) == exactly(
                [value, 2] for value in VALUES
            )
            keys = collections.Counter(exactly(folded["process", "count"]))
            assert keys == collections.Counter(exactly(VALUES))
            continue
        for number, value in enumerate(VALUES):
            there = [value, value, [(value,)], [(value, value)], value]
            assert exactly(found[number]) == exactly(there), repr(value)
            assert value is None or Exact(folded["process", "one"][number]) == Exact(value)
            assert Exact(folded["process", "some"][number]) == Exact([(value,)])
            assert exactly(folded["process", "map"][number].items()) == exactly([(value, value)])


NESTED = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: (
        st.builds(lambda hold, value: hold(value), st.sampled_from(HOLDERS), inner)
        | st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=5,
)


@given(st.lists(NESTED, min_size=1, max_size=4))
def test_nested_values(values: list[Any]) -> None:
    block = encode_block(Block(0, 0, None, None, column_of(values), 0, False))
    assert exactly(elements(decode(block).values)) == exactly(values)
    codec, keys = codec_for(UNDECLARED), key_codec_for(None)
    assert exactly(codec.decode_many(*codec.encode_many(values))) == exactly(values)
    encoded = [codec.encode(value) for value in values]
    singly = codec.decode_many([each.text for each in encoded], [each.payload for each in encoded])
    assert exactly(singly) == exactly(values)
    identities = keys.identities(values, "key")
    assert exactly(map(keys.key_of, identities)) == exactly(values)
    assert keys.from_texts(keys.texts(identities)) == identities
    for one, identity in zip(values, identities, strict=True):
        assert all(
            (Exact(one) == Exact(two)) == (identity == other)
            for two, other in zip(values, identities, strict=True)
        )
