"""A keyed function that does what its elements tell it, with all kinds of state and timers: the subject of random tests.

An element is (key, timestamp, operations); an operation is (what, arguments...). Every operation gives one output,
(key, timestamp, what, result), so a lost, repeated or reordered operation shows in the output as well as in the state.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from api.datastream import KeyedProcessFunction
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from support.profiles import PROFILES

Operation = tuple[Any, ...]
Element = tuple[Any, int, tuple[Operation, ...]]
TIMES = st.integers(-5, 30)  # how far timers lie from their element
_STAMPS = st.integers(0, 60)
CHAIN = 5  # a timer at a multiple of it sets another one when it fires
CHAIN_STEP = 3
CANCEL = 7  # a timer at a multiple of it deletes the one a millisecond later


def spoil(value: Any) -> None:
    """Change a value in place, as a careless user does with one that state holds."""
    if isinstance(value, list):
        value.append(value[0] if value else 99)
    elif isinstance(value, dict):
        value.clear()
    elif isinstance(value, tuple):
        for item in value:
            spoil(item)


class Operations(KeyedProcessFunction):
    """Does what its elements say.

    Args:
        profile: name in PROFILES.
        spoils: change values in place before and after they go in, and after they come out.
    """

    def __init__(self, profile: str, spoils: bool = True) -> None:
        self.profile = profile
        self.spoils = spoils

    def open(self, runtime_context: Any) -> None:
        types = PROFILES[self.profile]
        context = runtime_context
        self.value = context.get_state(ValueStateDescriptor("value", types.value_type))
        self.other = context.get_state(ValueStateDescriptor("other", types.value_type))
        self.list = context.get_list_state(ListStateDescriptor("list", types.element_type))
        self.map = context.get_map_state(MapStateDescriptor("map", types.map_key_type, types.map_value_type))
        self.reducing = context.get_reducing_state(
            ReducingStateDescriptor("reducing", types.reduce, types.reduced_type)
        )
        self.aggregating = context.get_aggregating_state(
            AggregatingStateDescriptor("aggregating", types.aggregate, types.accumulator_type)
        )
        self.mark = types.mark

    def process_element(self, value: Element, ctx: Any) -> Iterator[Any]:
        _, timestamp, operations = value
        for what, *arguments in operations:
            result = self.perform(what, arguments, timestamp, ctx)
            yield ctx.get_current_key(), timestamp, what, result
            if self.spoils:
                for argument in arguments:
                    spoil(argument)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.list.add(self.mark(timestamp))
        timers = ctx.timer_service()
        if timestamp % CHAIN == 0:
            timers.register_event_time_timer(timestamp + CHAIN_STEP)
        if timestamp % CANCEL == 0:
            timers.delete_event_time_timer(timestamp + 1)
        yield ctx.get_current_key(), timestamp, "fired", (ctx.timestamp(), ctx.time_domain().name)

    def perform(self, what: str, arguments: list[Any], timestamp: int, ctx: Any) -> Any:
        """One operation; returns what it reads."""
        if what == "register":
            return ctx.timer_service().register_event_time_timer(timestamp + arguments[0])
        if what == "delete":
            return ctx.timer_service().delete_event_time_timer(timestamp + arguments[0])
        if what == "watermark":
            return ctx.timer_service().current_watermark()
        state, _, call = what.partition(".")
        result = getattr(getattr(self, state), call)(*arguments)
        if call in ("items", "keys", "values"):
            result = list(result)
        if self.spoils and isinstance(result, (list, dict)):
            kept = _private(result)
            spoil(result)
            return kept
        return result


def _private(value: Any) -> Any:
    if isinstance(value, list):
        return [_private(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_private(item) for item in value)
    if isinstance(value, dict):
        return {key: _private(item) for key, item in value.items()}
    return value


@functools.cache  # a strategy is validated and labelled when it is first drawn from
def operations(profile: str, times: st.SearchStrategy[int] = TIMES) -> st.SearchStrategy[Operation]:
    """Any operation on any state or timer.

    Args:
        profile: name in PROFILES.
        times: how far timers lie from their element's timestamp, ms.
    """
    types = PROFILES[profile]

    def op(what: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Operation]:
        return st.tuples(st.just(what), *arguments)

    values, elements = types.values, types.elements
    map_keys, map_values = types.map_keys, types.map_values
    pairs = st.lists(st.tuples(map_keys, map_values), max_size=3)
    return st.one_of(
        *(op(f"{state}.update", values) for state in ("value", "value", "other")),
        *(op(f"{state}.value") for state in ("value", "other")),
        op("list.add", elements),
        op("list.add_all", st.lists(elements, max_size=3)),
        op("list.update", st.lists(elements, max_size=3)),
        op("list.get"),
        op("map.put", map_keys, map_values),
        op("map.put_all", pairs),
        *(op(f"map.{call}", map_keys) for call in ("get", "remove", "contains")),
        *(op(f"map.{call}") for call in ("items", "keys", "values", "is_empty")),
        op("reducing.add", types.reduced),
        op("aggregating.add", types.aggregated),
        *(op(f"{state}.get") for state in ("reducing", "aggregating")),
        *(op(f"{state}.clear") for state in ("value", "other", "list", "map", "reducing", "aggregating")),
        op("register", times),
        op("register", times),
        op("delete", times),
        op("watermark"),
    )


@functools.cache
def _keys(profile: str) -> st.SearchStrategy[list[Any]]:
    return st.lists(PROFILES[profile].keys, min_size=1, max_size=4)


@functools.cache
def _operations(profile: str, times: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Operation, ...]]:
    return st.lists(operations(profile, times), min_size=1, max_size=4).map(tuple)


@st.composite
def inputs(
    draw: st.DrawFn,
    profile: str,
    max_elements: int = 25,
    times: st.SearchStrategy[int] = TIMES,
    in_order: bool = False,
) -> list[Element]:
    """A stream of elements.

    Args:
        profile: name in PROFILES.
        max_elements: most of them.
        times: how far timers lie from their element's timestamp, ms.
        in_order: timestamps never go back.
    """
    keys = draw(_keys(profile))
    one = st.tuples(st.sampled_from(keys), _STAMPS, _operations(profile, times))
    drawn = draw(st.lists(one, min_size=1, max_size=max_elements))
    if not in_order:
        return drawn
    stamps = sorted(timestamp for _, timestamp, _ in drawn)
    return [(key, stamp, done) for (key, _, done), stamp in zip(drawn, stamps, strict=True)]
