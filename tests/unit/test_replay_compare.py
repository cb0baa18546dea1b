"""Values of two logs, recorded and replayed: which are the same."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest

from changelog_engine.replay.compare import Mutation, _same
from changelog_engine.types import Row

NOON = datetime.datetime(2024, 5, 6, 12, tzinfo=datetime.UTC)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Point:
    x: Any
    looked_at: Any = field(default=0, compare=False)


class Cached:
    """Equal as it says itself, whatever it remembers."""

    def __init__(self, value: Any, remembered: Any) -> None:
        self.value, self.remembered = value, remembered

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cached) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


class Plain:
    """Without an equality of its own."""

    def __init__(self, value: Any) -> None:
        self.value = value


def same(one: Any, other: Any) -> bool:
    return _same(Mutation("s", "k", "put", one), Mutation("s", "k", "put", other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (1, True), (0.0, -0.0), ([1], [1.0]), ([True], [1]), ((1, [2]), (1, [2.0])), ({"a": 1}, {"a": True}),
        (Row(a=1), Row(a=1.0)), (Row(a=1), Row(b=1)), ({1}, {1.0}), ({1: "a"}, {1.0: "a"}), ([1], [1, 2]),
        (Pair(1, 2), Pair(1.0, 2)), (Point(1), Point(True)), (Decimal("1.0"), Decimal("1.00")),
        (NOON, NOON.astimezone(datetime.timezone(datetime.timedelta(hours=2)))), ([Cached(1, 0)], [Cached(2, 0)]),
        (np.array([1]), np.array([1.0])), (Plain(1), Plain(1.0)),
    ],
)  # fmt: skip
def test_what_differs(one: Any, other: Any) -> None:
    """[1] passed for [1.0] and [True]: code that changes the class of what it keeps was said to do what it did before."""
    assert not same(one, other)
    assert not same(other, one)
    assert same(one, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (float("nan"), float("nan")), ([float("nan")], [float("nan")]), ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Cached(1, 0), Cached(1, 5)), ([Cached(1, 0)], [Cached(1, 5)]), ({"a": (Cached(1, 0),)}, {"a": (Cached(1, 5),)}),
        (Row(a=Cached(1, 0)), Row(a=Cached(1, 5))), (Point(1, 2), Point(1, 3)), (Plain([1]), Plain([1])),
        (np.array([1, 2]), np.array([1, 2])),
    ],
)  # fmt: skip
def test_what_is_the_same(one: Any, other: Any) -> None:
    assert same(one, other)
