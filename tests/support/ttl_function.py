"""A keyed function over all kinds of state with a time to live, the clock it moves, and a plain-dict model of it.

An element is (key, ms that pass before it, operations); an operation is (what, arguments...). Each gives one output,
(key, time, what, arguments, result). The model repeats the outputs: they are what was processed
for good, at those times, whatever crashed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from api.common import Time
from api.common.typeinfo import Types
from api.datastream import AggregateFunction, KeyedProcessFunction
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from support.same import exact

TTL = 20
Element = tuple[str, int, tuple[tuple[Any, ...], ...]]


class SharedClock:
    """The wall clock of driver, workers and function; functions are copied, this one is found by import."""

    now = 0

    def read(self) -> int:
        """Milliseconds."""
        return self.now


CLOCK = SharedClock()


class Sum(AggregateFunction):
    """Sums up; the accumulator is a list."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[int]) -> int:
        return sum(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


class Expiring(KeyedProcessFunction):
    """Does what its elements say, when they say it.

    Args:
        config: of all its states but ``kept``, which has no time to live.
    """

    def __init__(self, config: StateTtlConfig) -> None:
        self.config = config

    def open(self, runtime_context: Any) -> None:
        descriptors = {
            "value": (ValueStateDescriptor("value", Types.STRING()), runtime_context.get_state),
            "list": (ListStateDescriptor("list", Types.LONG()), runtime_context.get_list_state),
            "map": (MapStateDescriptor("map", Types.LONG(), Types.LONG()), runtime_context.get_map_state),
            "reducing": (
                ReducingStateDescriptor("reducing", lambda left, right: left - right, Types.LONG()),
                runtime_context.get_reducing_state,
            ),
            "aggregating": (
                AggregatingStateDescriptor("aggregating", Sum(), Types.LIST(Types.LONG())),
                runtime_context.get_aggregating_state,
            ),
        }
        self.states = {}
        for name, (descriptor, declare) in descriptors.items():
            descriptor.enable_time_to_live(self.config)
            self.states[name] = declare(descriptor)
        self.states["kept"] = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value: Element, ctx: Any) -> Iterator[Any]:
        key, wait, operations = value
        CLOCK.now += wait
        for what, *arguments in operations:
            state, _, call = what.partition(".")
            result = getattr(self.states[state], call)(*arguments)
            if call == "items":
                result = list(result)
            yield key, CLOCK.now, what, arguments, result


class ExpiringModel:
    """All states of one key.

    Args:
        renew: reading begins the time anew.
        show: expired values are shown as long as they are there.
    """

    def __init__(self, renew: bool, show: bool) -> None:
        self.renew = renew
        self.show = show
        self.cells: dict[str, tuple[int, Any]] = {}
        self.list: list[tuple[int, int]] = []
        self.map: dict[int, tuple[int, int]] = {}
        self.kept: Any = None

    def check(self, now: int, what: str, arguments: list[Any], result: Any) -> None:
        """One output; raises AssertionError when its result is wrong."""
        state, _, call = what.partition(".")
        if call == "is_empty":  # whether expired entries count depends on the clean-up
            live = any(since + TTL > now for since, _ in self.map.values())
            assert (result is False) if live else (result is True or self.map), (now, what, result)
            return
        perform = {"list": self._on_list, "map": self._on_map, "kept": self._on_kept}.get(state)
        expected = perform(call, arguments, now) if perform else self._on_cell(state, call, arguments, now)
        assert exact(result) == exact(expected), (now, what, arguments, result, expected)

    def _on_kept(self, call: str, arguments: list[Any], now: int) -> Any:
        if call == "value":
            return self.kept
        self.kept = arguments[0]
        return None

    def _on_cell(self, state: str, call: str, arguments: list[Any], now: int) -> Any:
        found = self.cells.get(state)
        expired = found is not None and found[0] + TTL <= now
        if call in ("clear", "update"):
            self.cells.pop(state, None)
            if call == "update" and arguments[0] is not None:
                self.cells[state] = now, arguments[0]
            return None
        value = None if found is None or (expired and not self.show) else found[1]
        if call == "add":
            added = arguments[0]
            if state == "reducing":
                self.cells[state] = now, added if value is None else value - added
            else:
                self.cells[state] = now, [*([0] if value is None else value), added]
            return None
        if expired:
            del self.cells[state]
        elif found is not None and self.renew:
            self.cells[state] = now, value
        return sum(value) if state == "aggregating" and value is not None else value

    def _on_list(self, call: str, arguments: list[Any], now: int) -> Any:
        if call == "get":
            live = [entry for entry in self.list if entry[0] + TTL > now]
            shown = [value for _, value in (self.list if self.show else live)]
            if not live:
                self.list = []
            elif self.renew:
                self.list = [(now, value) for _, value in live]
            return shown
        if call == "add":
            self.list.append((now, arguments[0]))
            return None
        if call != "add_all":
            self.list = []
        if arguments:
            self.list.extend((now, value) for value in arguments[0])
        return None

    def _on_map(self, call: str, arguments: list[Any], now: int) -> Any:
        if call == "items":
            return [(key, value) for key in list(self.map) if (value := self._read(key, now)) is not None]
        if call in ("get", "contains"):
            value = self._read(arguments[0], now)
            return value is not None if call == "contains" else value
        if call == "put":
            self.map[arguments[0]] = now, arguments[1]
        elif call == "put_all":
            self.map.update({key: (now, value) for key, value in arguments[0].items()})
        elif call == "remove":
            self.map.pop(arguments[0], None)
        else:
            self.map.clear()
        return None

    def _read(self, key: int, now: int) -> Any:
        if key not in self.map:
            return None
        since, value = self.map[key]
        if since + TTL <= now:
            del self.map[key]
            return value if self.show else None
        if self.renew:
            self.map[key] = now, value
        return value

    def live(self, now: int) -> dict[str, Any]:
        """What has not expired, with the times of access."""
        states: dict[str, Any] = {name: entry for name, entry in self.cells.items() if entry[0] + TTL > now}
        states["list"] = [entry for entry in self.list if entry[0] + TTL > now]
        states["map"] = sorted((key, entry) for key, entry in self.map.items() if entry[0] + TTL > now)
        states["kept"] = self.kept
        return {name: state for name, state in states.items() if state}


def live_entries(state: dict[tuple[str, str], Any], now: int) -> dict[Any, dict[str, Any]]:
    """What the log (``support.live.logged_state``) holds that has not expired, by key, as ``ExpiringModel.live``."""
    found: dict[Any, dict[str, Any]] = {}
    for (_, name), entries in state.items():
        for key, entry in entries.items():
            if name == "list":
                entry = [element for element in entry if element[0] + TTL > now]
            elif name == "map":
                entry = sorted((map_key, each) for map_key, each in entry if each[0] + TTL > now)
            elif name != "kept" and entry[0] + TTL <= now:
                entry = None
            if entry:
                found.setdefault(key, {})[name] = entry
    return found


def configs(show: bool) -> st.SearchStrategy[StateTtlConfig]:
    """Any settings; those that show expired values have no clean-up, which would decide what is shown."""

    def make(renew: bool, snapshot: bool, incremental: int, every: bool, background: bool) -> StateTtlConfig:
        builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
        if renew:
            builder.update_ttl_on_read_and_write()
        if show:
            return builder.return_expired_if_not_cleaned_up().disable_cleanup_in_background().build()
        if snapshot:
            builder.cleanup_full_snapshot()
        if incremental:
            builder.cleanup_incrementally(incremental, every)
        return builder.build() if background else builder.disable_cleanup_in_background().build()

    return st.builds(make, st.booleans(), st.booleans(), st.integers(0, 3), st.booleans(), st.booleans())


def elements() -> st.SearchStrategy[list[Element]]:
    """A stream of elements of a few keys."""
    numbers = st.integers(0, 9)
    small = st.integers(0, 2)
    several = st.lists(numbers, max_size=3)

    def op(what: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
        return st.tuples(st.just(what), *arguments)

    operation = st.one_of(
        *(
            op(f"{name}.update", st.none() | st.text("ab", min_size=1, max_size=2))
            for name in ("value", "kept")
        ),
        *(op(f"{name}.value") for name in ("value", "value", "kept")),
        op("list.add", numbers),
        *(op(f"list.{call}", several) for call in ("add_all", "update")),
        *(op(f"{name}.get") for name in ("list", "reducing", "aggregating")),
        op("map.put", small, numbers),
        op("map.put_all", st.dictionaries(small, numbers, max_size=2)),
        *(op(f"map.{call}", small) for call in ("get", "remove", "contains")),
        *(op(f"map.{call}") for call in ("items", "is_empty")),
        *(op(f"{name}.add", numbers) for name in ("reducing", "aggregating")),
        *(op(f"{name}.clear") for name in ("value", "list", "map", "reducing", "aggregating")),
    )
    waits = st.sampled_from([0, 0, 1, 5, 10, TTL - 1, TTL, TTL + 1])
    operations = st.lists(operation, min_size=1, max_size=4).map(tuple)
    return st.lists(st.tuples(st.sampled_from("abc"), waits, operations), min_size=1, max_size=25)
