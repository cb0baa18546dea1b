"""state/changed_in_place.py: a value of state that was changed in place and not set again is told, and nothing else is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from api.common import Row, Time, Types
from api.datastream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.clock import wall_ms
from changelog_engine.in_process.capture import without_spark
from changelog_engine.state import changed_in_place
from changelog_engine.state.changed_in_place import ChangesInPlace
from changelog_engine.state.compiled_handles import general
from changelog_engine.state.cursor import Cursor, key_words
from changelog_engine.state.factory import HandleFactory
from changelog_engine.state.handles import CopyingCell
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.ttl import TtlStates

OBJECTS = ValueStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY())
LISTS = ValueStateDescriptor("seen", Types.LIST(Types.INT()))
ROWS = ValueStateDescriptor("seen", Types.ROW_NAMED(["n"], [Types.INT()]))
SUMS = ReducingStateDescriptor("seen", lambda a, b: a + b, Types.PICKLED_BYTE_ARRAY())
LIST = ListStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY())
MAP = MapStateDescriptor("seen", Types.STRING(), Types.MAP(Types.INT(), Types.INT()))
EXPIRING = ValueStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY())
EXPIRING.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())


class Plain:
    """An object that is equal to itself alone."""


class State:
    """One state at key 'a', and what is watched of it."""

    def __init__(self, descriptor: Any) -> None:
        cursor = Cursor()
        cursor.words = key_words
        cursor.key = "a"
        factory = HandleFactory(HeapBackend(), cursor, None, TtlStates(wall_ms))
        opened = factory.opened("count", descriptor.to_spec())
        self.handle = factory.handle(opened)
        self.methods = dict(vars(type(self.handle)))
        self.changes = ChangesInPlace()
        self.changes.watch(opened, self.handle)

    def unwatched(self) -> bool:
        return dict(vars(type(self.handle))) == self.methods


def of_a_value(state: Any) -> None:
    state.update([1])
    state.value().append(2)


def behind_an_update(state: Any) -> None:
    held = state.value() or []
    state.update(held)
    held.append(2)


def of_a_row(state: Any) -> None:
    state.update(Row(n=1))
    state.value()["n"] = 2


def of_a_map(state: Any) -> None:
    state.put("k", {})
    state.get("k").update({1: 2})


def of_a_map_by_item(state: Any) -> None:
    state["k"] = {1: 1}
    state["k"][1] += 1


def of_an_element(state: Any) -> None:
    state.add({"n": 1})
    for each in state.get():
        each["n"] += 1


def of_an_added_element(state: Any) -> None:
    element = {"n": 1}
    state.add(element)
    element["n"] = 2


def while_iterating(state: Any) -> None:
    state.put("k", {1: 1})
    for _, each in state.items():
        each[1] += 1


def among_the_values(state: Any) -> None:
    state.put("k", {1: 1})
    for each in state.values():
        each[1] += 1


def of_a_sum(state: Any) -> None:
    state.add([1])
    state.get().append(2)


def to_what_it_cannot_have(state: Any) -> None:
    state.update([1])
    state.value().append("text")


@pytest.mark.parametrize(
    ("descriptor", "change", "remedy"),
    [
        (OBJECTS, of_a_value, "update(value)"),
        (LISTS, of_a_value, "update(value)"),
        (EXPIRING, of_a_value, "update(value)"),
        (LISTS, behind_an_update, "update(value)"),
        (LISTS, to_what_it_cannot_have, "update(value)"),
        (ROWS, of_a_row, "update(value)"),
        (MAP, of_a_map, "put(key, value)"),
        (MAP, of_a_map_by_item, "put(key, value)"),
        (MAP, while_iterating, "put(key, value)"),
        (MAP, among_the_values, "put(key, value)"),
        (SUMS, of_a_sum, "add(value)"),
        (LIST, of_an_element, "update(values)"),
        (LIST, of_an_added_element, "update(values)"),
    ],
)
def test_a_change_that_is_lost_is_told_once(
    descriptor: Any, change: Callable[[Any], None], remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    state = State(descriptor)
    for _ in range(3):
        change(state.handle)
        state.changes.end_epoch()
    (said,) = [record.getMessage() for record in caplog.records]
    assert "operator 'count', key 'a': a value of state 'seen' was changed in place" in said
    assert f"Call {remedy} with" in said
    assert state.unwatched()


def set_again(state: Any) -> None:
    held = state.value() or []
    held.append(1)
    state.update(held)


def set_to_another(state: Any) -> None:
    held = state.value() or []
    held.append(1)
    state.update(held[-2:])


def cleared(state: Any) -> None:
    state.update([1])
    state.value().append(2)
    state.clear()


def only_read(state: Any) -> None:
    if state.value() is None:
        state.update([Plain(), float("nan"), {1, 2}])
    assert len(state.value()) == 3


def put_again(state: Any) -> None:
    held = state.get("k") or {}
    held[1] = held.get(1, 0) + 1
    state.put("k", held)


def removed(state: Any) -> None:
    state.put("k", {})
    state.get("k")[1] = 2
    state.remove("k")


def put_while_iterating(state: Any) -> None:
    state.put("k", {1: 1})
    state.put("l", {1: 1})
    for key, each in state.items():
        each[1] += 1
        state.put(key, each)
    assert [each[1] for each in state.values()] == [2, 2]


def removed_while_iterating(state: Any) -> None:
    state.put("k", {1: 1})
    state.put("l", {1: 1})
    for _, each in state.items():
        state.clear()
        each[1] += 1


def added(state: Any) -> None:
    state.add([1])
    assert state.get()[0] == 1


def replaced(state: Any) -> None:
    state.add({"n": 1})
    elements = state.get()
    elements[0]["n"] += 1
    state.update(elements)


def taken_as_another_class(state: Any) -> None:
    state.update((1, 2))


@pytest.mark.parametrize(
    ("descriptor", "use"),
    [
        (OBJECTS, set_again),
        (LISTS, set_to_another),
        (EXPIRING, set_again),
        (OBJECTS, cleared),
        (OBJECTS, only_read),
        (LISTS, taken_as_another_class),
        (MAP, put_again),
        (MAP, removed),
        (MAP, put_while_iterating),
        (MAP, removed_while_iterating),
        (SUMS, added),
        (LIST, replaced),
    ],
)
def test_nothing_is_said_of_others(
    descriptor: Any, use: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    state = State(descriptor)
    for _ in range(3):
        use(state.handle)
        use(state.handle)
        state.changes.end_epoch()
    assert caplog.records == []


def test_a_change_between_two_calls_of_one_element_is_not_one_yet(caplog: pytest.LogCaptureFixture) -> None:
    state = State(OBJECTS)
    state.handle.update([1])
    held = state.handle.value()
    held.append(2)
    assert state.handle.value() == [1]
    state.handle.update(held)
    state.changes.end_epoch()
    assert state.handle.value() == [1, 2]
    assert caplog.records == []


def test_few_values_are_looked_at_and_then_the_methods_are_their_own_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changed_in_place, "_VALUES", 4)
    state = State(OBJECTS)
    assert not state.unwatched()
    state.handle.update(value=[1])
    state.handle.update([1])
    state.changes.end_epoch()
    assert not state.unwatched()
    early = state.handle.value
    for _ in range(3):
        assert state.handle.value() == [1]
    assert state.unwatched()
    assert early() == state.handle.value() == [1]


def test_large_values_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_in_place, "_BYTES", 1_000)
    state = State(OBJECTS)
    state.handle.update(["x" * 2_000])
    state.changes.end_epoch()
    assert state.unwatched()


def test_a_handle_that_was_made_general_leaves_its_general_class_alone() -> None:
    state = State(OBJECTS)
    before = dict(vars(CopyingCell))
    general(state.handle)
    of_a_value(state.handle)
    state.changes.end_epoch()
    assert dict(vars(CopyingCell)) == before


@pytest.mark.parametrize(
    "descriptor",
    [
        ValueStateDescriptor("seen", Types.LONG()),
        ValueStateDescriptor("seen", Types.TUPLE([Types.STRING(), Types.LONG()])),
        ListStateDescriptor("seen", Types.STRING()),
        MapStateDescriptor("seen", Types.STRING(), Types.LONG()),
    ],
)
def test_what_cannot_change_is_not_watched(descriptor: Any) -> None:
    assert State(descriptor).unwatched()


class Forgets(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(OBJECTS)

    def process_element(self, value, ctx):
        if self.seen.value() is None:
            self.seen.update([])
        self.seen.value().append(value)
        yield len(self.seen.value())


def test_a_job_tells(caplog: pytest.LogCaptureFixture) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([1, 2, 3], Types.INT()).key_by(lambda value: "k", Types.STRING())
    with without_spark(), caplog.at_level(logging.WARNING):
        counts = list(keyed.process(Forgets(), Types.INT()).uid("forgets").execute_and_collect())
    assert counts == [0, 0, 0]
    said = [record.getMessage() for record in caplog.records if "changed in place" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("operator 'forgets', key 'k': a value of state 'seen'")


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LIST(Types.INT()))


def forgets(value: int, ctx: Any) -> list[int]:
    rules = ctx.get_broadcast_state(RULES)
    if rules.get("r") is None:
        rules.put("r", [])
    rules.get("r").append(value)
    return [len(rules["r"])]


def puts(value: int, ctx: Any) -> list[int]:
    rules = ctx.get_broadcast_state(RULES)
    held = rules.get("r") or []
    held.append(value)
    rules["r"] = held
    return [len(rules.get("r"))]


class Rules(BroadcastProcessFunction):
    def __init__(self, use):
        self.use = use

    def process_element(self, value, ctx):
        return []

    def process_broadcast_element(self, value, ctx):
        return self.use(value, ctx)


class KeyedRules(KeyedBroadcastProcessFunction):
    def __init__(self, use):
        self.use = use

    def process_element(self, value, ctx):
        return []

    def process_broadcast_element(self, value, ctx):
        return self.use(value, ctx)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(("use", "counts", "told"), [(forgets, [0, 0], 1), (puts, [1, 2], 0)])
def test_broadcast_state_tells_too(
    keyed: bool, use: Any, counts: list[int], told: int, caplog: pytest.LogCaptureFixture
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    values = env.from_collection([1, 2], Types.INT())
    side = values.broadcast(RULES)
    if keyed:
        given = (
            values.key_by(lambda value: value, Types.INT())
            .connect(side)
            .process(KeyedRules(use), Types.INT())
        )
    else:
        given = values.connect(side).process(Rules(use), Types.INT())
    with without_spark(), caplog.at_level(logging.WARNING):
        assert list(given.name("applies").execute_and_collect()) == counts
    said = [record.getMessage() for record in caplog.records if "changed in place" in record.getMessage()]
    assert len(said) == told
    assert all(
        each.startswith("operator 'applies', map key 'r': a value of broadcast state 'rules'")
        for each in said
    )
