"""Keyed process functions that are measured, one for each kind of state; written against the package that runs them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from keyed_count import MULTIPLIER

KEYS = 10_000
RULES = 1_000
ENTRIES = 100


def pair_of(number: int) -> tuple[int, int]:
    """A key, in no order, and 1."""
    return number * MULTIPLIER % 2**32 * KEYS >> 32, 1


class KeyedJob(NamedTuple):
    """A keyed process function and its keys.

    Args:
        function: the function.
        key: gives an element's key.
        key_type: of the keys.
    """

    function: Any
    key: Callable[[Any], Any]
    key_type: Any


class StateFunctions:
    """Each method makes a function; its elements are numbers unless it says otherwise.

    Args:
        package: "api" or "pyflink".
        order_type: type of the Rows that ``rows`` keeps.
    """

    def __init__(self, package: str, order_type: Any) -> None:
        self.common = importlib.import_module(f"{package}.common")
        self.datastream = importlib.import_module(f"{package}.datastream")
        self.state = importlib.import_module(f"{package}.datastream.state")
        self.types = self.common.Types
        self.order_type = order_type

    def count(self) -> Any:
        """Counts in a value."""
        descriptor = self.state.ValueStateDescriptor("count", self.types.LONG())

        class Count(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts; gives every thousandth count."""

            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(descriptor)

            def process_element(self, value: int, ctx: Any) -> Any:
                count = (self.count.value() or 0) + 1
                self.count.update(count)
                if count % 1_000 == 0:
                    yield value, count

        return Count()

    string_keys = union = count

    def each_count(self) -> Any:
        """Counts in a value; gives each count."""
        descriptor = self.state.ValueStateDescriptor("count", self.types.LONG())

        class EachCount(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts."""

            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(descriptor)

            def process_element(self, value: int, ctx: Any) -> Any:
                count = (self.count.value() or 0) + 1
                self.count.update(count)
                yield value, count

        return EachCount()

    def timer(self) -> Any:
        """A timer for each element, about a second later."""

        class Later(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Sets a timer; gives one of a thousand that fire."""

            def process_element(self, value: int, ctx: Any) -> None:
                jitter = value * MULTIPLIER >> 20 & 255
                ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1_000 + jitter)

            def on_timer(self, timestamp: int, ctx: Any) -> Any:
                if timestamp % 1_000 == 0:
                    yield timestamp, timestamp

        return Later()

    def expiring(self) -> Any:
        """Counts in a value that lives for an hour after its last change."""
        common, descriptor = self.common, self.state.ValueStateDescriptor("count", self.types.LONG())
        descriptor.enable_time_to_live(self.state.StateTtlConfig.new_builder(common.Time.hours(1)).build())

        class CountForAnHour(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts; gives every thousandth count."""

            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(descriptor)

            def process_element(self, value: int, ctx: Any) -> Any:
                count = (self.count.value() or 0) + 1
                self.count.update(count)
                if count % 1_000 == 0:
                    yield value, count

        return CountForAnHour()

    def list_append(self) -> Any:
        """Appends to a list."""
        descriptor = self.state.ListStateDescriptor("numbers", self.types.LONG())

        class Append(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Collects; gives how many there are, seldom."""

            def open(self, runtime_context: Any) -> None:
                self.numbers = runtime_context.get_list_state(descriptor)

            def process_element(self, value: int, ctx: Any) -> Any:
                self.numbers.add(value)
                if value % 1_000_000 == 0:
                    yield value, sum(1 for _ in self.numbers.get())

        return Append()

    def map_state(self) -> Any:
        """Counts in a map of a hundred entries for each key."""
        types = self.types
        descriptor = self.state.MapStateDescriptor("counts", types.LONG(), types.LONG())

        class CountInMap(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts by map key."""

            def open(self, runtime_context: Any) -> None:
                self.counts = runtime_context.get_map_state(descriptor)

            def process_element(self, value: int, ctx: Any) -> Any:
                entry = value // KEYS % ENTRIES
                count = (self.counts.get(entry) or 0) + 1
                self.counts.put(entry, count)
                if count % 1_000 == 0:
                    yield entry, count

        return CountInMap()

    def reducing(self) -> Any:
        """Adds up in a ReducingState."""
        descriptor = self.state.ReducingStateDescriptor("sum", lambda a, b: a + b, self.types.LONG())

        class Reduce(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Adds up; gives the sum, seldom."""

            def open(self, runtime_context: Any) -> None:
                self.sum = runtime_context.get_reducing_state(descriptor)

            def process_element(self, value: int, ctx: Any) -> Any:
                self.sum.add(value)
                if value % 1_000_000 == 0:
                    yield value, self.sum.get()

        return Reduce()

    def aggregating(self) -> Any:
        """Means in an AggregatingState."""
        types = self.types

        class Mean(self.datastream.AggregateFunction):  # type: ignore[name-defined, misc]
            """The mean of numbers, out of their count and sum."""

            def create_accumulator(self) -> tuple[int, int]:
                return 0, 0

            def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
                return accumulator[0] + 1, accumulator[1] + value

            def get_result(self, accumulator: tuple[int, int]) -> int:
                return accumulator[1] // accumulator[0]

            def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
                return a[0] + b[0], a[1] + b[1]

        pairs = types.TUPLE([types.LONG(), types.LONG()])
        descriptor = self.state.AggregatingStateDescriptor("mean", Mean(), pairs)

        class Aggregate(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Aggregates; gives the mean, seldom."""

            def open(self, runtime_context: Any) -> None:
                self.mean = runtime_context.get_aggregating_state(descriptor)

            def process_element(self, value: int, ctx: Any) -> Any:
                self.mean.add(value)
                if value % 1_000_000 == 0:
                    yield value, self.mean.get()

        return Aggregate()

    def rows(self) -> Any:
        """Keeps the last of an account's orders, which are Rows of five fields."""
        descriptor = self.state.ValueStateDescriptor("order", self.order_type)

        class LastOrder(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Keeps an order; gives an account and its order's number, seldom."""

            def open(self, runtime_context: Any) -> None:
                self.order = runtime_context.get_state(descriptor)

            def process_element(self, value: Any, ctx: Any) -> Any:
                before = self.order.value()
                self.order.update(value)
                if before is not None and value.id % 100_000 == 0:
                    yield value.account, before.id

        return LastOrder()


KEYED_JOBS = (
    "string_keys",
    "rows",
    "list_append",
    "map_state",
    "reducing",
    "aggregating",
    "timer",
    "expiring",
)
