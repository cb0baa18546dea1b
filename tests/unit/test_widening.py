"""Types that grow: what a wider type takes, exactly, and what it does not."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.same import exact

from api.common import Row
from api.common.typeinfo import Types
from changelog_engine.codec.values import codec_for
from changelog_engine.types import TypeInformation
from changelog_engine.types.widening import widening

INTEGERS = [Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT()]
SCALARS = [
    *INTEGERS,
    Types.FLOAT(),
    Types.DOUBLE(),
    Types.BIG_DEC(),
    Types.STRING(),
    Types.CHAR(),
    Types.BOOLEAN(),
]
ANY = Types.PICKLED_BYTE_ARRAY()


def names(pairs: set[tuple[str, str]]) -> set[str]:
    return {f"{old} to {new}" for old, new in pairs}


def test_the_table_of_scalars() -> None:
    """The one in docs/operations.md, all of it."""
    found = {
        (old.name, new.name)
        for old in SCALARS
        for new in SCALARS
        if old != new and widening(old, new) is not None
    }
    integers = [one.name for one in INTEGERS]
    wider = {(old, new) for at, old in enumerate(integers) for new in integers[at + 1 :]}
    floats = {("BYTE", "FLOAT"), ("SHORT", "FLOAT"), ("FLOAT", "DOUBLE")}
    floats |= {(old, "DOUBLE") for old in ("BYTE", "SHORT", "INT")}
    assert names(found) == names(
        wider | floats | {(one, "BIG_DEC") for one in integers} | {("CHAR", "STRING")}
    )


VALUES: dict[str, Any] = {
    "BYTE": st.integers(-(2**7), 2**7 - 1),
    "SHORT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "LONG": st.integers(-(2**63), 2**63 - 1),
    "BIG_INT": st.integers(-(2**100), 2**100),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "BIG_DEC": st.decimals(allow_nan=False),
    "STRING": st.text(max_size=5),
    "CHAR": st.characters(codec="utf-8"),
    "BOOLEAN": st.booleans(),
}


@st.composite
def grown(draw: st.DrawFn, depth: int = 2) -> tuple[TypeInformation, TypeInformation, Any]:
    """An old type, a wider or equal new one, and a value of the old type."""
    kind = draw(
        st.sampled_from(["scalar", "scalar", "list", "map", "tuple", "row", "any"] if depth else ["scalar"])
    )
    if kind == "scalar":
        old = draw(st.sampled_from(SCALARS))
        new = draw(st.sampled_from([one for one in SCALARS if widening(old, one) is not None]))
        return old, new, draw(VALUES[old.kind] | (st.none() if depth < 2 else st.nothing()))
    if kind == "any":
        old, _, value = draw(grown(depth - 1))
        return old, ANY, value
    if kind == "list":
        old, new, value = draw(grown(depth - 1))
        return Types.LIST(old), Types.LIST(new), [value] * draw(st.integers(0, 2))
    if kind == "map":
        old, new, value = draw(grown(depth - 1))
        keys = draw(
            st.sampled_from([(Types.STRING(), Types.STRING(), "k"), (Types.INT(), Types.BIG_INT(), 1)])
        )
        return Types.MAP(keys[0], old), Types.MAP(keys[1], new), {keys[2]: value}
    fields = draw(st.lists(grown(depth - 1), min_size=1, max_size=3))
    olds, news = [field[0] for field in fields], [field[1] for field in fields]
    news += draw(st.lists(st.sampled_from(SCALARS), max_size=2))
    values = [field[2] for field in fields]
    if kind == "tuple":
        return Types.TUPLE(olds), Types.TUPLE(news), tuple(values)
    named = [f"n{index}" for index in range(len(news))]
    row = Row(*named[: len(olds)])(*values)
    return Types.ROW_NAMED(named[: len(olds)], olds), Types.ROW_NAMED(named, news), row


@settings(max_examples=300, deadline=None)
@given(grown())
def test_a_value_that_grew_is_of_the_new_type_and_stands_for_the_same(found: tuple[Any, Any, Any]) -> None:
    old, new, value = found
    value = old.check(value)
    how = widening(old, new)
    assert how is not None
    wide = how.apply(value)
    assert exact(new.check(wide)) == exact(wide)
    assert same_meaning(value, wide)
    encoded = codec_for(old).encode(value)
    if how.readable:
        assert encoded == codec_for(new).encode(wide)
    back = codec_for(new).decode_many(*map(list, zip(codec_for(new).encode(wide), strict=True)))
    assert exact(back) == exact([wide])


def same_meaning(old: Any, new: Any) -> bool:
    """Whether the new value is the old one, with more fields that are None."""
    if isinstance(old, Row):
        return same_meaning(tuple(old._values), tuple(new._values))
    if isinstance(old, (tuple, list)):
        more = new[len(old) :]
        return (
            all(same_meaning(*pair) for pair in zip(old, new, strict=False))
            and all(item is None for item in more)
            and (not more or isinstance(old, tuple))
        )
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(same_meaning(old[key], new[key]) for key in old)
    if isinstance(old, float) and math.isnan(old):
        return math.isnan(new)
    return bool(old == new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Types.LIST(Types.INT()), Types.BASIC_ARRAY(Types.INT())),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(Types.SHORT())),
        (Types.MAP(Types.STRING(), Types.INT()), Types.MAP(Types.CHAR(), Types.INT())),
        (Types.MAP(Types.CHAR(), Types.INT()), Types.MAP(Types.STRING(), Types.INT())),
        (Types.TUPLE([Types.INT()]), Types.ROW([Types.INT()])),
        (Types.ROW_NAMED(["a", "b"], [Types.INT()] * 2), Types.ROW_NAMED(["b", "a"], [Types.INT()] * 2)),
        (Types.ROW_NAMED(["a"], [Types.INT()]), Types.ROW_NAMED(["b", "a"], [Types.INT()] * 2)),
        (Types.SQL_DATE(), Types.SQL_TIMESTAMP()),
        (ANY, Types.STRING()),
        (Types.LIST(ANY), Types.LIST(Types.INT())),
    ],
    ids=lambda one: one.name,
)
def test_what_does_not_grow(old: TypeInformation, new: TypeInformation) -> None:
    assert widening(old, new) is None


def test_numbers_become_decimals_and_objects_stay() -> None:
    to_decimal = widening(Types.LONG(), Types.BIG_DEC())
    assert to_decimal is not None
    assert exact(to_decimal.apply(7)) == exact(Decimal(7))
    to_any = widening(Types.SQL_DATE(), ANY)
    assert to_any is not None
    day = datetime.date(2020, 2, 29)
    assert (to_any.apply(day), to_any.readable) == (day, False)
