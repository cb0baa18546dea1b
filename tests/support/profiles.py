"""Declared types, and values that fit them, for random jobs: plain scalars, mutable containers, and no types at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from api.common.typeinfo import Types
from api.datastream.functions import AggregateFunction, ReduceFunction
from changelog_engine.types import TypeInformation

_TEXTS = st.text(alphabet='ab\u00e9"\\\n\U0001f600', max_size=3)
_SMALL = st.integers(-1000, 1000)


class Sum(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


class ExtendInPlace(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        value1.extend(value2)
        return value1


class Nest(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return [type(value1).__name__, value2]


class Mean(AggregateFunction):
    """Accumulator (sum, count)."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class CountsInPlace(AggregateFunction):
    """Accumulator: a dict that add() changes."""

    def create_accumulator(self) -> Any:
        return {}

    def add(self, value: Any, accumulator: Any) -> Any:
        word = str(value)
        accumulator[word] = accumulator.get(word, 0) + 1
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return sorted(accumulator.items())

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return {**acc_a, **acc_b}


class KeepInPlace(AggregateFunction):
    """Accumulator: a list that add() changes and the result gives away."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        del accumulator[:-3]
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


@dataclass(frozen=True)
class Profile:
    """Types of a random job's states, and strategies for what goes into them."""

    key_type: TypeInformation | None
    keys: st.SearchStrategy[Any]
    value_type: TypeInformation
    values: st.SearchStrategy[Any]
    element_type: TypeInformation
    elements: st.SearchStrategy[Any]
    map_key_type: TypeInformation
    map_keys: st.SearchStrategy[Any]
    map_value_type: TypeInformation
    map_values: st.SearchStrategy[Any]
    reduced_type: TypeInformation
    reduced: st.SearchStrategy[Any]
    reduce: ReduceFunction
    accumulator_type: TypeInformation
    aggregated: st.SearchStrategy[Any]
    aggregate: AggregateFunction
    mark: Callable[[int], Any]  # the list element that a firing timer leaves


_ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    _SMALL,
    st.floats(allow_nan=False),
    _TEXTS,
    st.binary(max_size=3),
    st.just(2**70),
)
_ANYTHING = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(_TEXTS, _SMALL), inner, max_size=2),
    ),
    max_leaves=4,
)
_SOMETHING = _ANYTHING.filter(lambda value: value is not None)
_PICKLED = Types.PICKLED_BYTE_ARRAY()

PROFILES = {
    "plain": Profile(
        key_type=Types.STRING(),
        keys=st.sampled_from(["a", "b", "", "\u00e9\n", "key", "1"]),
        value_type=Types.LONG(),
        values=st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        element_type=Types.STRING(),
        elements=_TEXTS,
        map_key_type=Types.LONG(),
        map_keys=st.integers(-2, 2),
        map_value_type=Types.DOUBLE(),
        map_values=st.one_of(st.none(), st.floats(allow_nan=False)),
        reduced_type=Types.LONG(),
        reduced=_SMALL,
        reduce=Sum(),
        accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]),
        aggregated=_SMALL,
        aggregate=Mean(),
        mark=lambda timestamp: f"t{timestamp}",
    ),
    "mutable": Profile(
        key_type=Types.LONG(),
        keys=st.sampled_from([0, 1, 2, -1, 2**63 - 1, -(2**63)]),
        value_type=Types.LIST(Types.LONG()),
        values=st.one_of(st.none(), st.lists(_SMALL, max_size=3)),
        element_type=Types.MAP(Types.STRING(), Types.LONG()),
        elements=st.dictionaries(_TEXTS, _SMALL, max_size=2),
        map_key_type=Types.STRING(),
        map_keys=st.sampled_from(["x", "y", "", "\u00e9"]),
        map_value_type=Types.LIST(Types.STRING()),
        map_values=st.one_of(st.none(), st.lists(_TEXTS, max_size=2)),
        reduced_type=Types.LIST(Types.LONG()),
        reduced=st.lists(_SMALL, min_size=1, max_size=2),
        reduce=ExtendInPlace(),
        accumulator_type=Types.MAP(Types.STRING(), Types.LONG()),
        aggregated=_SMALL,
        aggregate=CountsInPlace(),
        mark=lambda timestamp: {"t": timestamp},
    ),
    "undeclared": Profile(
        key_type=None,
        keys=st.sampled_from([1, 1.0, True, "1", (1,), (1.0, "x"), b"1", 2**70, "", None]),
        value_type=_PICKLED,
        values=_ANYTHING,
        element_type=_PICKLED,
        elements=_SOMETHING,
        map_key_type=_PICKLED,
        map_keys=st.sampled_from([1, 1.0, True, "1", (1, "x"), b"", -0.0, 0.0]),
        map_value_type=_PICKLED,
        map_values=_ANYTHING,
        reduced_type=_PICKLED,
        reduced=_SOMETHING,
        reduce=Nest(),
        accumulator_type=_PICKLED,
        aggregated=_SOMETHING,
        aggregate=KeepInPlace(),
        mark=lambda timestamp: ["t", timestamp],
    ),
}
