"""A handle whose calls are in C gives, logs and raises what its class does: both are driven side by side.

The extension in C is built anew of its source.
"""

from __future__ import annotations

import copy
import enum
import gc
import inspect
import random
import sys
import traceback
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.codec.values import codec_for
from changelog_engine.errors import NoCurrentKeyError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.operators.failures import user_traceback
from changelog_engine.state import compiled_handles, factory, timers
from changelog_engine.state.backend import EVENT_TIMERS
from changelog_engine.state.compiled_handles import compiled, general
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.handles import ReducingHandle
from changelog_engine.state.timer_table import HeapTimers
from changelog_engine.types import Row, RowKind, Types

LONGS = Types.TUPLE([Types.LONG(), Types.LONG()])
ROWS = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
TYPES = [
    Types.LONG(),
    Types.INT(),
    Types.STRING(),
    Types.FLOAT(),
    LONGS,
    ROWS,
    Types.LIST(Types.LONG()),
    Types.PICKLED_BYTE_ARRAY(),
]
VALUES = st.sampled_from(
    [
        None,
        0,
        1,
        -5,
        2**31,
        2**63,
        1.5,
        0.1,
        True,
        "x",
        (1, 2),
        (1, "x"),
        [1, 2],
        ["x"],
        Row(a=1, b="x"),
        Row(1, "y"),
        Row(a=1.5, b="x"),
        Row.of_kind(RowKind.DELETE, a=1, b="x"),
    ]
)
MAP_KEYS = st.sampled_from([None, 1, True, "x", 2**70, 1.0])


class Last:
    """Keeps the newest value; of some it gives none, at others it fails, or does something with its own state first."""

    handle: Any = None

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        if value == -5:
            raise ValueError(f"{value} after {accumulator}")
        if value == 1.5:
            self.handle.clear()
        elif value == (1, 2):
            self.handle.add((0, 0))
        return None if value == "x" else value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def reduce(self, before: Any, value: Any) -> Any:
        return self.add(value, before)


CALLS = {
    StateKind.VALUE: [("value",), ("update", VALUES), ("update", VALUES), ("clear",)],
    StateKind.REDUCING: [("get",), ("add", VALUES), ("begins", VALUES), ("clear",)],
    StateKind.AGGREGATING: [("get",), ("add", VALUES), ("begins", VALUES), ("clear",)],
    StateKind.LIST: [
        ("get",),
        ("add", VALUES),
        ("begins", VALUES),
        ("update", st.lists(VALUES, max_size=3)),
        ("clear",),
    ],
    StateKind.MAP: [
        ("get", MAP_KEYS),
        ("put", MAP_KEYS, VALUES),
        ("put", MAP_KEYS, VALUES),
        ("__setitem__", MAP_KEYS, VALUES),
        ("__getitem__", MAP_KEYS),
        ("contains", MAP_KEYS),
        ("__contains__", MAP_KEYS),
        ("remove", MAP_KEYS),
        ("clear",),
    ],
}


class Side:
    """One handle with its own table, log and cursor.

    Args:
        calls: the extension; None for a handle as its class has it.
    """

    def __init__(self, spec: StateSpec, logged: bool, timed: bool, calls: Any) -> None:
        self.cursor, self.table = Cursor(), dict[Any, Any]()
        self.log = ChangelogBuffer(Types.STRING(), timed, 128).log_of("op", spec) if logged else None
        self.handle = factory._handle(factory.OpenState("op", spec, spec, self.table, self.cursor, self.log))
        self.kind = type(self.handle)
        with mock.patch.object(compiled_handles, "CALLS", calls):
            self.handle = compiled(self.handle)
        assert type(self.handle) is not self.kind
        methods = {type(found).__name__ for found in vars(type(self.handle)).values()}
        other_keys = spec.map_key_type == Types.DOUBLE()  # their identities are made in Python
        assert ("Method" in methods) == (calls is not None and not other_keys)
        if isinstance(spec.function, Last):
            spec.function.handle = self.handle

    def call(self, name: str, *arguments: Any, by_name: bool = False) -> Any:
        names = list(inspect.signature(getattr(self.kind, name)).parameters)[1:] if by_name else []
        try:
            if by_name:
                return getattr(self.handle, name)(**dict(zip(names, arguments, strict=True)))
            if name == "__getitem__":
                return self.handle[arguments[0]]
            return getattr(self.handle, name)(*arguments)
        except Exception as error:
            return type(error), str(error)

    def seen(self) -> Any:
        log = self.log
        if log is None:
            return repr(self.table)
        return repr((self.table, log.keys, log.values, log.map_keys, log.operations, log.times))


def _spec(kind: StateKind, value_type: Any, key_type: Any) -> StateSpec:
    function = Last() if kind in (StateKind.REDUCING, StateKind.AGGREGATING) else None
    of_map = kind is StateKind.MAP
    return StateSpec("s", kind, value_type, map_key_type=key_type if of_map else None, function=function)


@pytest.mark.parametrize("kind", list(CALLS))
@pytest.mark.parametrize("logged", [True, False], ids=["log", "no log"])
@given(data=st.data())
def test_a_compiled_handle_does_what_its_class_does(
    calls: ModuleType, kind: StateKind, logged: bool, data: st.DataObject
) -> None:
    key_type = data.draw(st.sampled_from([Types.LONG(), Types.STRING(), Types.DOUBLE()]))
    value_type = data.draw(st.sampled_from(TYPES))
    timed = data.draw(st.booleans())
    sides = [Side(_spec(kind, value_type, key_type), logged, timed, way) for way in (None, calls)]
    for key in data.draw(st.lists(st.sampled_from([None, "k", "l"]), max_size=12)):
        name, *strategies = data.draw(st.sampled_from(CALLS[kind]))
        arguments = [data.draw(strategy) for strategy in strategies]
        by_name = data.draw(st.sampled_from([False, False, True]))
        answers = []
        for side in sides:
            if key is None:
                side.cursor.leave()
            else:
                side.cursor.key, side.cursor.timestamp = key, 7
            answers.append(side.call(name, *arguments, by_name=by_name))
        for side, answer in zip(sides[1:], answers[1:], strict=True):
            assert repr(answers[0]) == repr(answer), (name, arguments)
            assert sides[0].seen() == side.seen(), (name, arguments)


@pytest.mark.parametrize("kind", list(CALLS))
def test_wrong_arguments_are_refused_in_the_same_words(calls: ModuleType, kind: StateKind) -> None:
    sides = [Side(_spec(kind, LONGS, Types.STRING()), True, True, way) for way in (None, calls)]
    for side in sides:
        side.cursor.key = "k"
    for name in {name for name, *_ in CALLS[kind] if not name.startswith("__")}:
        for count in (0, 1, 2, 3, 4):
            if count != len(inspect.signature(getattr(sides[0].kind, name)).parameters) - 1:
                python, c = [side.call(name, *["x"] * count) for side in sides]
                assert python == c
                assert python[0] is TypeError
        assert inspect.signature(getattr(sides[1].handle, name)) == inspect.signature(
            getattr(sides[0].handle, name)
        )
    assert sides[0].seen() == sides[1].seen()


class _NoReference:
    """Makes calls whose reference fails: else the comparisons could be of the reference with itself."""

    def __init__(self, calls: ModuleType) -> None:
        self._calls = calls

    def call_of(self, kind: str, _: Any, names: Any, test: Any) -> Any:
        def fail(*arguments: Any) -> None:
            raise AssertionError(f"{kind} was left to its reference")

        found = self._calls.call_of(kind, fail, names, test)
        assert found is not fail, f"there is no {kind} in C"
        return found


@pytest.mark.parametrize("logged", [True, False], ids=["log", "no log"])
@pytest.mark.parametrize(
    ("value_type", "value"),
    [
        (Types.LONG(), 2**62),
        (Types.SHORT(), -7),
        (Types.STRING(), "y"),
        (Types.DOUBLE(), 0.5),
        (Types.BOOLEAN(), True),
        (LONGS, (3, 4)),
        (ROWS, Row(a=1, b="x")),
    ],
    ids=str,
)
def test_ordinary_calls_are_not_left_to_the_reference(
    calls: ModuleType, logged: bool, value_type: Any, value: Any
) -> None:
    without = _NoReference(calls)
    sides = {kind: Side(_spec(kind, value_type, Types.STRING()), logged, True, without) for kind in CALLS}
    for side in sides.values():
        side.cursor.key = "k"
    cell, of_list, of_map = (sides[kind].handle for kind in (StateKind.VALUE, StateKind.LIST, StateKind.MAP))
    cell.update(value)
    assert cell.value() == value
    cell.clear()
    assert cell.value() is None
    for kind in (StateKind.REDUCING, StateKind.AGGREGATING):
        adding = sides[kind].handle
        assert adding.begins(value)
        assert not adding.begins(value)
        adding.add(value)
        assert adding.get() == value
    assert of_list.begins(value)
    of_list.add(value)
    assert of_list.get() == [value, value]
    of_list.update([value])
    of_list.clear()
    assert of_list.get() == []
    of_map["a"] = value
    of_map.put("b", value)
    assert of_map["a"] == of_map.get("b") == value
    assert "a" in of_map
    assert not of_map.contains("c")
    assert of_map.get("c") is None


def _everything(side: Side, kind: StateKind, values: list[Any]) -> None:
    """Each call with each value, and the errors."""
    for side.cursor.key in ("k", "l"):
        for name, *strategies in CALLS[kind]:
            for value in values:
                if name == "update" and kind is StateKind.LIST:
                    value = [value, value]
                side.call(name, *["x", value][-len(strategies) :] if strategies else [])
    side.cursor.leave()
    for name, *strategies in CALLS[kind]:
        side.call(name, *[7, 7][: len(strategies)])
    if side.log is not None:
        side.log.clear()
    side.table.clear()


@pytest.mark.usefixtures("little_to_collect")
@pytest.mark.parametrize("kind", list(CALLS))
@pytest.mark.parametrize("value_type", [Types.LONG(), LONGS, ROWS, Types.LIST(Types.LONG())], ids=str)
def test_calls_in_c_hold_nothing_for_good(calls: ModuleType, kind: StateKind, value_type: Any) -> None:
    values = [10**15, (10**15, 2), Row(a=10**15, b="x"), [10**15], None, "x", -5, 1.5, (1, 2)]
    side = Side(_spec(kind, value_type, Types.STRING()), True, True, calls)
    assert side.log is not None
    held: list[Any] = [
        *values[:4],
        side.table,
        side.cursor,
        int,
        side.log.keys,
        side.log.values,
    ]

    def counted() -> tuple[list[int], int]:
        gc.collect()
        return list(map(sys.getrefcount, held)), sys.getallocatedblocks()

    for _ in range(3):
        _everything(side, kind, values)
    counts, blocks = counted()
    for _ in range(40):
        _everything(side, kind, values)
    again, more = counted()
    assert again == counts
    assert more - blocks < 40, "something is left of each round"


@pytest.mark.usefixtures("little_to_collect")
@pytest.mark.parametrize("kind", list(CALLS))
def test_handles_in_c_go_with_their_last_user(calls: ModuleType, kind: StateKind) -> None:
    side = Side(_spec(kind, LONGS, Types.STRING()), True, True, calls)
    side.cursor.key = "k"
    gone = weakref.ref(side.handle), weakref.ref(type(side.handle))
    name = CALLS[kind][1][0]
    method = getattr(side.handle, name)
    assert method.__name__ == name
    del side
    gc.collect()
    assert gone[0]() is not None  # a bound method has its handle
    del method
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


@pytest.mark.parametrize(
    "type_info", [*TYPES, Types.BYTE(), Types.SHORT(), Types.BIG_INT(), Types.BOOLEAN()], ids=str
)
@given(value=VALUES | st.sampled_from([127, 128, -129, 2**15, 2**63 - 1, -(2**63), b"x"]))
def test_class_or_bounds_are_all_of_the_quick_test(type_info: Any, value: Any) -> None:
    test, quick = type_info.class_or_bounds(), type_info.quick_test()
    if isinstance(test, tuple):
        assert quick(value) == (type(value) is int and test[0] <= value <= test[1])
    elif test is not None:
        assert quick(value) == (type(value) is test)


def _timers_driven(calls: Any, seed: int, logged: bool, timed: bool) -> list[Any]:
    """What timers do that are set, removed and fired at random, some of them while others fire."""
    chance, cursor = random.Random(seed), Cursor()
    log = ChangelogBuffer(Types.LONG(), timed, 128).timer_log("op", EVENT_TIMERS) if logged else None
    with mock.patch.object(timers, "CALLS", calls):
        queue = timers.TimerQueue(HeapTimers(), cursor, log)
        set_timer = queue.setter(int)
    found: list[Any] = []
    for _ in range(chance.randrange(50)):
        cursor.key, cursor.timestamp = chance.randrange(3), chance.randrange(100)
        if chance.randrange(8) == 0:
            cursor.leave()
        timestamp: Any = chance.choice([*range(8), 2.0, True, -(2**63), "x", None])
        act = chance.choice([set_timer, set_timer, set_timer, queue.delete, None])
        try:
            if act is not None:
                found.append(act(timestamp))
                continue
            for timer in queue.firing(chance.randrange(8)):
                found.append((timer, cursor.placed, cursor.timestamp, cursor.key))
                cursor.key = chance.randrange(3)
                chance.choice([set_timer, queue.delete])(chance.randrange(9))
                if chance.randrange(6) == 0:
                    cursor.leave()
                if chance.randrange(20) == 0:
                    break
        except Exception as error:
            found.append((type(error), str(error)))
        found += [queue.next_timestamp(), sorted(queue.table.items(), key=repr)]  # type: ignore[attr-defined]
    return [found, None if log is None else [log.keys, log.values, log.operations, log.times]]


@pytest.mark.parametrize("logged", [True, False], ids=["log", "no log"])
@given(seed=st.integers(0, 2**32), timed=st.booleans())
def test_timers_in_c_do_what_those_in_python_do(
    calls: ModuleType, logged: bool, seed: int, timed: bool
) -> None:
    assert _timers_driven(calls, seed, logged, timed) == _timers_driven(None, seed, logged, timed)


def test_ordinary_timers_are_not_left_to_the_reference_and_nothing_is_held(calls: ModuleType) -> None:
    cursor, log = Cursor(), ChangelogBuffer(Types.LONG(), True, 128).timer_log("op", EVENT_TIMERS)
    with mock.patch.object(timers, "CALLS", _NoReference(calls)):
        queue = timers.TimerQueue(HeapTimers(), cursor, log)
        set_timer = queue.setter(int)
    times, key = [10**15 + number for number in range(5)], "a key of its own"
    before = list(map(sys.getrefcount, [*times, key]))
    for _ in range(30):
        cursor.key, cursor.timestamp = key, 5
        list(map(set_timer, [*times, *times]))
        assert [time for time, _ in queue.firing(10**16)] == times
        log.clear()
        cursor.key, cursor.timestamp = 7, 5
    assert list(map(sys.getrefcount, [*times, key])) == before
    gone = weakref.ref(queue)
    del queue
    assert gone() is None  # at once: its table may be large


def test_a_call_is_made_of_what_it_needs_alone(calls: ModuleType) -> None:
    def reference(*arguments: Any) -> Any:
        return arguments

    whole: dict[str, Any] = {"table": {}, "cursor": Cursor(), "log_keys": [], "log_values": [], "CLEARED": 0}

    def made(**changed: Any) -> Callable[..., Any]:
        found: Callable[..., Any] = calls.call_of("clear_entry", reference, {**whole, **changed}, None)
        return found

    assert made() is not reference
    assert made()(1, 2, 3) == (1, 2, 3)
    for changed in (
        {"table": HeapTimers()},
        {"table": None},
        {"cursor": None},
        {"CLEARED": None},
        {"log_keys": None},
        {"log_keys": ()},
        {"log_values": None},
        {"log_operations": []},
    ):
        assert made(**changed) is reference, changed
    with pytest.raises(ValueError, match="no call is named odd"):
        calls.call_of("odd", reference, whole, None)
    with pytest.raises(TypeError, match="a class or a pair of bounds"):
        calls.call_of("clear_entry", reference, whole, "x")
    with pytest.raises(TypeError, match="not one of the __slots__"):
        calls.bind(type("Odd", (), {"key": 1}), HeapTimers)


@pytest.mark.parametrize("in_c", [False, True])
def test_what_a_compiled_handle_gives_is_the_callers_own(calls: ModuleType, in_c: bool) -> None:
    side = Side(StateSpec("s", StateKind.VALUE, ROWS), True, False, calls if in_c else None)
    side.cursor.key = "k"
    row = Row(a=1, b="x")
    side.handle.update(row)
    row["a"] = 2
    side.handle.value()["a"] = 3
    assert side.handle.value() == side.log.values[0] == Row(a=1, b="x")


@pytest.mark.parametrize(
    "row",
    [
        Row(a=1, b="x"),
        Row(a=None, b=None),
        copy.copy(Row(a=1, b="x")),
        Row.of_kind(RowKind.DELETE, a=1, b="x"),
        Row(1, "x"),
        Row(a=1),
        Row(a=1, b=2),
        Row(a=2**63, b="x"),
        (1, "x"),
        None,
    ],
)
def test_a_quick_copy_is_the_copy_of_what_fits(row: Any) -> None:
    quick_copy, fits = ROWS.quick_copy(), ROWS.quick_test()
    assert quick_copy is not None
    assert fits is not None
    found = quick_copy(row)
    assert found == (ROWS.copy(row) if fits(row) else None)  # rows of other kinds differ
    if found is not None:
        found["a"] = 7
        assert row["a"] != 7
        assert quick_copy(Row(a=1, b="x"))["a"] == 1


def test_a_quick_copy_has_its_fields_in_the_types_order() -> None:
    row, unnamed = Row(b="x", a=1), Types.ROW([Types.LONG(), Types.LONG()])
    assert ROWS.quick_copy()(row) == ROWS.check(row) == Row(a=1, b="x")
    assert unnamed.quick_copy()(Row(f1=1, f0=2)) is None  # such a type goes by places
    assert unnamed.quick_copy()(Row(f0=2, f1=1)) == unnamed.check(Row(f1=2, f0=1)) == Row(f0=2, f1=1)


class Field(enum.StrEnum):
    """Names as an enum has them, which Python shows as ``<Field.A: 'a'>``."""

    A = "a"
    B = "b"


def test_names_of_fields_may_be_of_a_class_derived_from_text() -> None:
    rows, other = Types.ROW_NAMED([*Field], [Types.LONG(), Types.STRING()]), Row(a=1, b="x")
    assert rows.quick_copy()(other) == rows.copy_out()(rows.copy(other)) == other
    assert list(map(type, rows.get_field_names())) == [str, str]
    texts, _ = codec_for(rows).encode_many([rows.copy(other)] * 2, admitted=True)
    assert texts.to_pylist() == ['{"a":1,"b":"x"}'] * 2


@pytest.mark.parametrize("names", [["a", "b"], ["keys", "b"], ["__dict__", "_list"]])
def test_what_is_copied_out_of_state_is_another_row_of_the_same_fields(names: list[str]) -> None:
    rows = Types.ROW_NAMED(names, [Types.LONG(), Types.STRING()])
    read = rows.copy_out()
    assert read(None) is None
    for kind in RowKind:
        given = Row(1, "x")
        given.set_field_names(names)
        given.set_row_kind(kind)
        kept = rows.copy(given)
        found = read(kept)
        assert found == given == read(found)
        assert found.get_row_kind() is kind
        found[names[0]], found[1] = 2, None
        assert kept == given != found
        assert [found[name] for name in names] == [2, None]


def test_types_whose_copies_share_something_have_no_quick_copy() -> None:
    assert Types.ROW([Types.PICKLED_BYTE_ARRAY()]).quick_copy() is None
    assert Types.ROW([Types.LIST(Types.LONG())]).quick_copy() is None
    assert Types.LIST(Types.LONG()).quick_copy() is None


def test_tracebacks_leave_the_handles_code_out() -> None:
    side = Side(StateSpec("s", StateKind.REDUCING, Types.LONG(), function=Last()), True, False, None)
    side.cursor.key = "k"
    side.handle.add(1)
    with pytest.raises(ValueError, match="-5 after 1") as failed:
        side.handle.add(-5)
    assert "reduce" in user_traceback(failed.value)
    assert "self._reduce(before, value)" not in user_traceback(failed.value)
    assert isinstance(side.handle, ReducingHandle)


@pytest.mark.parametrize("in_c", [False, True])
def test_a_compiled_handle_can_be_made_a_general_one_again(calls: ModuleType, in_c: bool) -> None:
    spec = StateSpec("s", StateKind.REDUCING, Types.LONG(), function=Last())
    side = Side(spec, True, False, calls if in_c else None)
    general(side.handle)
    assert type(side.handle) is ReducingHandle
    side.cursor.leave()
    with pytest.raises(NoCurrentKeyError):
        side.handle.add(1)


def test_tracebacks_have_nothing_between_a_call_in_c_and_the_users_function(calls: ModuleType) -> None:
    side = Side(StateSpec("s", StateKind.REDUCING, Types.LONG(), function=Last()), True, False, calls)
    side.cursor.key = "k"
    side.handle.add(1)
    with pytest.raises(ValueError, match="-5 after 1") as failed:
        side.handle.add(-5)
    named = [frame.name for frame in traceback.extract_tb(failed.tb)]
    assert named == [
        "test_tracebacks_have_nothing_between_a_call_in_c_and_the_users_function",
        "reduce",
        "add",
    ]
