"""Plain functions that many tests use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from api.common.typeinfo import Types
from api.datastream import AggregateFunction, KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, ValueStateDescriptor


class Count(KeyedProcessFunction):
    """Counts elements by key: gives (key, count). Elements are (key, ...)."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class CountAlone(Count):
    """Counts elements by key: gives the count alone. Elements are anything."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for _, count in super().process_element((None,), ctx):
            yield count


class Keep(KeyedProcessFunction):
    """Keeps all elements of a key in a list of undeclared type, and gives its length."""

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_list_state(ListStateDescriptor("kept", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.kept.add(value)
        yield value[0], len(self.kept.get())


class Last(AggregateFunction):
    """The accumulator is the newest value."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_b


def counted(elements: list[Any]) -> list[tuple[Any, int]]:
    """What Count gives."""
    counts: dict[Any, int] = {}
    found = []
    for element in elements:
        counts[element[0]] = counts.get(element[0], 0) + 1
        found.append((element[0], counts[element[0]]))
    return found


def rounds(keys: int, records: int) -> list[tuple[int, int]]:
    """Elements of some keys in turn."""
    return [(number % keys, number) for number in range(records)]


def by_key(output: list[Any]) -> dict[Any, list[Any]]:
    """The values of (key, value) pairs by key, in order."""
    found: dict[Any, list[Any]] = {}
    for key, value in output:
        found.setdefault(key, []).append(value)
    return found
