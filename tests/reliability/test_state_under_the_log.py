"""Reliability, state under the log: cases 11, 34 and 35."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob
from support.live import logged_state
from support.model import pictured
from support.profiles import PROFILES
from support.same import exact
from support.script import Script
from support.stores import store_config

from api.common.typeinfo import Types
from api.datastream import AggregateFunction, KeyedProcessFunction
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.codec.values import codec_for
from changelog_engine.errors import ChangelogEngineError, JobExecutionError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.operators.store import KeyedStore
from changelog_engine.state.backend import EVENT_TIMERS
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.factory import HandleFactory
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.ttl import TtlStates
from changelog_engine.types import TypeInformation
from materializer.fold import state_at

PICKLED = Types.PICKLED_BYTE_ARRAY()


class Breaks:
    """Cannot be written: the serializer raises."""

    def __deepcopy__(self, memo: Any) -> Breaks:
        return self

    def __reduce__(self) -> Any:
        raise RuntimeError("this object cannot be serialized")


class Fragile(KeyedProcessFunction):
    """Puts a value that cannot be serialized into a state, when the element says so.

    Args:
        kind: which state.
        catches: go on after the error, as a careless user may.
    """

    def __init__(self, kind: str, catches: bool) -> None:
        self.kind = kind
        self.catches = catches

    def open(self, runtime_context: Any) -> None:
        context = runtime_context
        self.value = context.get_state(ValueStateDescriptor("value", PICKLED))
        self.list = context.get_list_state(ListStateDescriptor("list", PICKLED))
        self.map = context.get_map_state(MapStateDescriptor("map", Types.STRING(), PICKLED))
        self.reducing = context.get_reducing_state(
            ReducingStateDescriptor("reducing", lambda left, right: right, PICKLED)
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, number, breaks = value
        item = Breaks() if breaks else number
        try:
            if self.kind == "value":
                self.value.update(item)
            elif self.kind == "list.add":
                self.list.add(item)
            elif self.kind == "list.add_all":
                self.list.add_all([number, item])
            elif self.kind == "list.update":
                self.list.update([number, item])
            elif self.kind == "map":
                self.map.put("k", item)
            else:
                self.reducing.add(item)
        except ChangelogEngineError:
            if not self.catches:
                raise
        yield key, number, (self.value.value(), self.list.get(), list(self.map.items()), self.reducing.get())


KINDS = ("value", "list.add", "list.add_all", "list.update", "map", "reducing")


@pytest.mark.parametrize("kind", KINDS)
def test_case_11_a_serializer_that_raises_changes_nothing(tmp_path: Path, kind: str) -> None:
    """The user's function goes on: state and log are as if the call had not been made."""
    with_errors = [(number % 2, number, number in (3, 4, 7)) for number in range(10)]
    job = TestJob(tmp_path / "broken", Script(sizes=(6,)), restart=NO_RESTART)
    job.run(keyed_job(with_errors, Fragile(kind, catches=True)))
    clean = TestJob(tmp_path / "clean", Script(sizes=(6,)), restart=NO_RESTART)
    clean.run(keyed_job([element for element in with_errors if not element[2]], Fragile(kind, catches=True)))
    assert pictured(logged_state(str(tmp_path / "broken"))) == pictured(logged_state(str(tmp_path / "clean")))
    broken = {(key, number) for key, number, fails in with_errors if fails}
    assert [exact(out) for out in job.output if out[:2] not in broken] == [exact(out) for out in clean.output]


@pytest.mark.parametrize("kind", KINDS)
def test_case_11_nothing_of_a_failed_epoch_is_logged(tmp_path: Path, kind: str) -> None:
    """The job fails in the middle of its third epoch: the log ends with the second, and the next driver goes on there."""
    elements = [(0, number, number == 10) for number in range(15)]
    job = TestJob(tmp_path, Script(sizes=(4,)), restart=NO_RESTART)
    with pytest.raises(JobExecutionError, match="cannot be written to the changelog") as raised:
        job.run(keyed_job(elements, Fragile(kind, catches=False)))
    assert "this object cannot be serialized" in str(raised.value)
    assert [out[1] for out in job.output] == list(range(8))
    assert job.commits[-1].id == 2
    before = logged_state(str(tmp_path))
    repaired = [(key, number, False) for key, number, _ in elements]
    job.run(keyed_job(repaired, Fragile(kind, catches=False)))
    whole = TestJob(tmp_path / "whole", Script(sizes=(4,)))
    whole.run(keyed_job(repaired, Fragile(kind, catches=False)))
    assert [exact(out) for out in job.output] == [exact(out) for out in whole.output]
    assert pictured(logged_state(str(tmp_path))) == pictured(logged_state(str(tmp_path / "whole")))
    assert pictured(before) != pictured(logged_state(str(tmp_path)))


class Backend:
    """Handles that log by themselves, and how many mutations each call logs."""

    def __init__(self, key_type: TypeInformation | None = None) -> None:
        cursor = Cursor()
        self.buffer = ChangelogBuffer(key_type, False, 128)
        self.handles = HandleFactory(HeapBackend(), cursor, self.buffer, TtlStates(lambda: 0))
        cursor.key = 7

    def state(self, descriptor: Any) -> Any:
        return self.handles.handle(self.handles.opened("op", descriptor.to_spec()))

    def logged(self, call: Any) -> list[str]:
        """The operations that a call logs."""
        call()
        operations: list[str] = []
        for rows, columns in self.buffer.drain():
            column = columns["operation"]
            operations += [column] * rows if isinstance(column, str) else column.to_pylist()
        return operations


@pytest.fixture(params=["immutable", "mutable"])
def value_type(request: pytest.FixtureRequest) -> TypeInformation:
    return {"immutable": Types.LONG(), "mutable": PICKLED}[request.param]


def test_case_34_value_state(value_type: TypeInformation) -> None:
    backend = Backend()
    state = backend.state(ValueStateDescriptor("s", value_type))
    assert backend.logged(state.clear) == []  # there was nothing
    assert backend.logged(lambda: state.update(1)) == ["put"]
    assert backend.logged(state.value) == []
    assert backend.logged(lambda: state.update(None)) == ["clear"]
    assert backend.logged(lambda: state.update(None)) == []
    assert backend.logged(lambda: (state.update(1), state.clear())) == ["put", "clear"]


def test_case_34_list_state(value_type: TypeInformation) -> None:
    backend = Backend()
    state = backend.state(ListStateDescriptor("s", value_type))
    assert backend.logged(state.clear) == []
    assert backend.logged(lambda: state.add(1)) == ["append"]
    assert backend.logged(lambda: state.add_all([1, 2])) == ["append", "append"]
    assert backend.logged(lambda: state.add_all([])) == []
    assert backend.logged(lambda: (state.get(), list(state))) == []
    assert backend.logged(lambda: state.update([4, 5])) == ["replace", "append"]
    assert backend.logged(lambda: state.update([])) == ["clear"]
    assert backend.logged(lambda: state.update([])) == []
    assert state.get() == []


def test_case_34_map_state(value_type: TypeInformation) -> None:
    backend = Backend()
    state = backend.state(MapStateDescriptor("s", Types.STRING(), value_type))
    assert backend.logged(lambda: state.put("a", 1)) == ["put"]
    assert backend.logged(lambda: state.put_all({"b": 2, "c": 3})) == ["put", "put"]
    assert backend.logged(lambda: state.put_all([("d", 4)])) == ["put"]
    assert backend.logged(lambda: state.__setitem__("e", 5)) == ["put"]

    def reads() -> None:
        assert state.get("a") == state["a"] == 1
        assert state.contains("a")
        assert "zz" not in state
        assert dict(state.items()) == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
        assert list(state.keys()) == list(state) == ["a", "b", "c", "d", "e"]
        assert list(state.values()) == [1, 2, 3, 4, 5]
        assert not state.is_empty()

    assert backend.logged(reads) == []
    assert backend.logged(lambda: state.remove("zz")) == []
    assert backend.logged(lambda: state.remove("a")) == ["remove"]
    assert backend.logged(lambda: state.__delitem__("b")) == ["remove"]
    assert backend.logged(lambda: [state.remove(key) for key in state]) == ["remove"] * 3
    assert backend.logged(state.clear) == []
    assert backend.logged(lambda: (state.put("a", 1), state.clear())) == ["put", "clear"]


def test_case_34_reducing_and_aggregating_state() -> None:
    backend = Backend()
    reducing = backend.state(ReducingStateDescriptor("r", lambda left, right: left + right, Types.LONG()))
    assert backend.logged(lambda: (reducing.add(1), reducing.add(2))) == ["put", "put"]
    assert backend.logged(reducing.get) == []
    assert backend.logged(reducing.clear) == ["clear"]
    profile = PROFILES["plain"]
    aggregating = backend.state(AggregatingStateDescriptor("a", profile.aggregate, profile.accumulator_type))
    assert backend.logged(lambda: (aggregating.add(1), aggregating.add(2))) == ["put", "put"]
    assert backend.logged(aggregating.get) == []
    assert backend.logged(aggregating.clear) == ["clear"]


class KeepsNewest(KeyedProcessFunction):
    """The newest value, of which None is one: the aggregate's accumulators begin as None.

    Args:
        type_info: of the accumulator.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info

    def open(self, runtime_context: Any) -> None:
        self.newest = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("newest", Newest(), self.type_info)
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.newest.add(value)
        yield self.newest.get()


class Newest(AggregateFunction):
    """The newest value."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_b


@pytest.mark.parametrize("type_info", [Types.LONG(), PICKLED], ids=["long", "pickled"])
def test_an_accumulator_that_begins_as_none_may_be_none_again(
    tmp_path: Path, type_info: TypeInformation
) -> None:
    """As in PyFlink: None clears the state, in the log as well."""
    job = TestJob(tmp_path, Script(sizes=(2,)))
    elements = [("a", 1), ("a", None), ("a", 3), ("b", None), ("a", None)]
    job.run(keyed_job(elements, KeepsNewest(type_info), key_type=Types.STRING()))
    assert job.output == [1, None, 3, None, None]
    assert state_at(job.table()).states.get(("process", "newest"), {}) == {}


def test_case_34_timers() -> None:
    backend = Backend()
    timers = backend.handles.timers("op", EVENT_TIMERS)
    assert backend.logged(lambda: (timers.register(5), timers.register(5))) == ["register_timer"]
    assert backend.logged(lambda: timers.delete(6)) == []
    assert backend.logged(lambda: timers.delete(5)) == ["delete_timer"]
    assert backend.logged(lambda: timers.register(3)) == ["register_timer"]
    assert backend.logged(lambda: timers.next_timestamp()) == []
    assert backend.logged(lambda: timers.pop_due(3)) == ["delete_timer"]


class Careless(KeyedProcessFunction):
    """Keeps on changing values that it has given to state, or got from it."""

    def open(self, runtime_context: Any) -> None:
        context = runtime_context
        self.states = [
            context.get_state(ValueStateDescriptor("declared", Types.LIST(Types.LONG()))),
            context.get_state(ValueStateDescriptor("undeclared", PICKLED)),
        ]
        self.list = context.get_list_state(ListStateDescriptor("list", PICKLED))
        self.map = context.get_map_state(MapStateDescriptor("map", PICKLED, PICKLED))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for state in self.states:
            mine = [1, 2]
            state.update(mine)
            mine.append(99)
            state.value().append(98)
        mine = {"a": [1]}
        self.list.update([mine])
        self.map.put("k", mine)
        mine["a"].append(99)
        self.list.get()[0]["a"].append(98)
        self.map.get("k")["a"].append(97)
        for _, inside in self.map.items():
            inside.clear()
        yield [state.value() for state in self.states], self.list.get(), list(self.map.items())


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
def test_case_35_changing_a_value_in_place_changes_neither_log_nor_snapshot(
    tmp_path: Path, changelog: bool
) -> None:
    job = TestJob(tmp_path, Script(sizes=(1,)), changelog=changelog)
    job.run(keyed_job([(0, 0), (0, 1)], Careless()))
    assert job.output == [([[1, 2], [1, 2]], [{"a": [1]}], [("k", {"a": [1]})])] * 2
    held = logged_state(str(tmp_path))
    key = exact(0)
    assert held == {
        ("process", "declared"): {key: [1, 2]},
        ("process", "undeclared"): {key: [1, 2]},
        ("process", "list"): {key: [{"a": [1]}]},
        ("process", "map"): {key: [("k", {"a": [1]})]},
    }


class Shares:
    """Its copies have its list."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    def __deepcopy__(self, memo: Any) -> Shares:
        return Shares(self.numbers)

    def __copy__(self) -> Shares:
        return Shares(self.numbers)


def test_case_35_what_copies_share_is_in_the_log_as_it_was_when_it_was_set() -> None:
    kind = Types.PICKLED_BYTE_ARRAY()
    store = KeyedStore(store_config("/nowhere"))
    state, elements = (
        store.state("op", StateSpec("s", StateKind.VALUE, kind)),
        store.state("op", StateSpec("l", StateKind.LIST, kind)),
    )
    store.cursor.key = "k"
    value = Shares([1])
    state.update(value)
    elements.add(value)
    value.numbers.append(2)
    for log in store.buffer.logs:
        (logged,) = codec_for(kind).decode_many(*codec_for(kind).encode_many(log.values))
        assert logged.numbers == [1], log.state


def test_a_map_without_entries_is_not_in_the_table() -> None:
    store = KeyedStore(store_config("/nowhere"))
    state = store.state("op", StateSpec("s", StateKind.MAP, Types.LONG(), map_key_type=Types.LONG()))
    store.cursor.key = "k"
    for key in (1, 2):
        state.put(key, 3)
    state.remove(1)
    assert store.tables["op", "s"] == {"k": {2: 3}}
    state.remove(2)
    assert store.tables["op", "s"] == {}
