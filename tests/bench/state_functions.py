"""Keyed process functions that are measured, one for each kind of state; written against the package that runs them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from keyed_count import MULTIPLIER

KEYS = 10_000
RULES = 1_000
ENTRIES = 100


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
    """

    def __init__(self, package: str) -> None:
        self.common = importlib.import_module(f"{package}.common")
        self.datastream = importlib.import_module(f"{package}.datastream")
        self.state = importlib.import_module(f"{package}.datastream.state")
        self.types = self.common.Types

    @property
    def order_type(self) -> Callable[[], Any]:
        """Makes the type of Rows of five fields."""
        types = self.types
        return lambda: types.ROW_NAMED(
            ["id", "account", "amount", "currency", "large"],
            [types.LONG(), types.LONG(), types.DOUBLE(), types.STRING(), types.BOOLEAN()],
        )

    def count(self) -> Any:
        """Counts in a value."""
        types, descriptor = self.types, self.state.ValueStateDescriptor

        class Count(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts; gives every thousandth count."""

            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(descriptor("count", types.LONG()))

            def process_element(self, value: int, ctx: Any) -> Any:
                count = (self.count.value() or 0) + 1
                self.count.update(count)
                if count % 1_000 == 0:
                    yield value, count

        return Count()

    string_keys = union = count

    def each_count(self) -> Any:
        """Counts in a value; gives each count."""
        types, descriptor = self.types, self.state.ValueStateDescriptor

        class EachCount(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts."""

            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(descriptor("count", types.LONG()))

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
        types, descriptor = self.types, self.state.ValueStateDescriptor
        lifetime, config = self.common.Time.hours, self.state.StateTtlConfig

        class CountForAnHour(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts; gives every thousandth count."""

            def open(self, runtime_context: Any) -> None:
                count = descriptor("count", types.LONG())
                count.enable_time_to_live(config.new_builder(lifetime(1)).build())
                self.count = runtime_context.get_state(count)

            def process_element(self, value: int, ctx: Any) -> Any:
                count = (self.count.value() or 0) + 1
                self.count.update(count)
                if count % 1_000 == 0:
                    yield value, count

        return CountForAnHour()

    def list_append(self) -> Any:
        """Appends to a list."""
        types, descriptor = self.types, self.state.ListStateDescriptor

        class Append(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Collects; gives how many there are, seldom."""

            def open(self, runtime_context: Any) -> None:
                self.numbers = runtime_context.get_list_state(descriptor("numbers", types.LONG()))

            def process_element(self, value: int, ctx: Any) -> Any:
                self.numbers.add(value)
                if value % 1_000_000 == 0:
                    yield value, sum(1 for _ in self.numbers.get())

        return Append()

    def map_state(self) -> Any:
        """Counts in a map of a hundred entries for each key."""
        types, descriptor = self.types, self.state.MapStateDescriptor

        class CountInMap(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts by map key."""

            def open(self, runtime_context: Any) -> None:
                self.counts = runtime_context.get_map_state(descriptor("counts", types.LONG(), types.LONG()))

            def process_element(self, value: int, ctx: Any) -> Any:
                entry = value // KEYS % ENTRIES
                count = (self.counts.get(entry) or 0) + 1
                self.counts.put(entry, count)
                if count % 1_000 == 0:
                    yield entry, count

        return CountInMap()

    def reducing(self) -> Any:
        """Adds up in a ReducingState."""
        types, descriptor = self.types, self.state.ReducingStateDescriptor

        class Reduce(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Adds up; gives the sum, seldom."""

            def open(self, runtime_context: Any) -> None:
                sums = descriptor("sum", lambda a, b: a + b, types.LONG())
                self.sum = runtime_context.get_reducing_state(sums)

            def process_element(self, value: int, ctx: Any) -> Any:
                self.sum.add(value)
                if value % 1_000_000 == 0:
                    yield value, self.sum.get()

        return Reduce()

    def aggregating(self) -> Any:
        """Means in an AggregatingState."""
        types, descriptor = self.types, self.state.AggregatingStateDescriptor

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

        class Aggregate(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Aggregates; gives the mean, seldom."""

            def open(self, runtime_context: Any) -> None:
                pairs = types.TUPLE([types.LONG(), types.LONG()])
                self.mean = runtime_context.get_aggregating_state(descriptor("mean", Mean(), pairs))

            def process_element(self, value: int, ctx: Any) -> Any:
                self.mean.add(value)
                if value % 1_000_000 == 0:
                    yield value, self.mean.get()

        return Aggregate()

    def rows(self) -> Any:
        """Keeps the last of an account's orders, which are Rows of five fields."""
        descriptor, order_type = self.state.ValueStateDescriptor, self.order_type

        class LastOrder(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Keeps an order; gives an account and its order's number, seldom."""

            def open(self, runtime_context: Any) -> None:
                self.order = runtime_context.get_state(descriptor("order", order_type()))

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
