"""A value with a time to live gives, logs and raises the same in C as in Python, where both are driven side by side."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.backends import rocks_backend

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.clock import wall_ms
from changelog_engine.graph.nodes import StateKind, StateSpec, TtlSpec
from changelog_engine.state import compiled_handles
from changelog_engine.state.backend import StateBackend
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.factory import HandleFactory
from changelog_engine.state.handles import CellHandle
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.ttl import TtlCell, TtlStates
from changelog_engine.types import Row, Types

TTL = 10
LONG = Types.LONG()
PAIRS = Types.TUPLE([Types.LONG(), Types.STRING()])
TYPES = [LONG, Types.INT(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), PAIRS]
VALUES = st.sampled_from([None, 0, 1, -5, 2**31, 2**63, 1.5, True, "x", (1, "x"), (1, 2), [1, "x"], Row(1)])


class Side:
    """One value with its own time, table, log and cursor.

    Args:
        calls: the extension; None for Python.
        ttl: how values expire.
    """

    def __init__(
        self,
        calls: Any,
        value_type: Any = LONG,
        logged: bool = True,
        timed: bool = False,
        backend: StateBackend | None = None,
        **ttl: Any,
    ) -> None:
        self.now: Any = 1_000
        self.cursor, self.buffer = Cursor(), ChangelogBuffer(Types.STRING(), timed, 128)
        self.backend = backend or HeapBackend()
        self.expiring = TtlStates(lambda: self.now)
        factory = HandleFactory(self.backend, self.cursor, self.buffer if logged else None, self.expiring)
        spec = StateSpec("s", StateKind.VALUE, value_type, ttl=TtlSpec(TTL, **ttl))
        with mock.patch.object(compiled_handles, "CALLS", calls):
            self.state = factory.opened("op", spec)
            self.handle = factory.handle(self.state)

    @property
    def in_c(self) -> bool:
        return {"value", "update"} <= vars(type(self.handle)).keys()

    def do(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self.handle, name)(*arguments)
        except Exception as error:
            return type(error), str(error)

    def logged(self) -> Any:
        return repr([(log.keys, log.values, log.times) for log in self.buffer.logs])

    def kept(self) -> Any:
        return repr(sorted(self.state.table.items()))


ACTIONS = st.one_of(
    st.tuples(st.just("value")),
    st.tuples(st.just("update"), VALUES),
    st.tuples(st.just("clear")),
    st.tuples(st.just("pass"), st.integers(-3, TTL + 2)),
    st.tuples(st.just("go"), st.sampled_from([None, "k", "l", "m"])),
    st.tuples(st.just("end")),
    st.tuples(st.sampled_from(["value", "update"]), VALUES, VALUES),
)


@pytest.mark.parametrize("on_disk", [False, True], ids=["heap", "rocksdb"])
@given(data=st.data())
def test_a_value_that_expires_is_the_same_in_c(
    calls: ModuleType, on_disk: bool, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    flags = st.booleans()
    ttl = {"renew_on_read": data.draw(flags), "return_expired": data.draw(flags)}
    ttl["incremental_size"] = data.draw(st.integers(0, 3))
    shape = {"value_type": data.draw(st.sampled_from(TYPES)), "logged": data.draw(flags)}
    shape["timed"] = data.draw(flags)
    stores: list[Any] = [None, None]
    if on_disk:
        cache = data.draw(st.sampled_from([0, 1 << 20]))
        stores = [rocks_backend(tmp_path_factory.mktemp("rocks"), cache) for _ in stores]
    sides = [
        Side(way, backend=store, **shape, **ttl) for way, store in zip((None, calls), stores, strict=True)
    ]
    assert [side.in_c for side in sides] == [False, True]
    for side in sides:
        side.cursor.key, side.cursor.timestamp = "k", 7
    for name, *arguments in data.draw(st.lists(ACTIONS, max_size=40)):
        answers = []
        for side in sides:
            if name == "pass":
                side.now += arguments[0]
            elif name == "go" and arguments[0] is None:
                side.cursor.leave()
            elif name == "go":
                side.cursor.key = arguments[0]
            elif name == "end":
                side.expiring.end_epoch(False)
                side.backend.end_epoch()
                side.backend.begin_epoch()
            else:
                answers.append(side.do(name, *arguments))
        assert repr(answers[:1]) == repr(answers[1:]), (name, arguments)
        assert sides[0].logged() == sides[1].logged(), (name, arguments)
        if name == "end" or not on_disk:  # a database writes what waits when it is looked at
            assert sides[0].kept() == sides[1].kept(), (name, arguments)
    assert sides[0].kept() == sides[1].kept()
    for side in sides:
        side.backend.close()


class _NoReference:
    """Makes calls whose reference fails."""

    def __init__(self, calls: ModuleType) -> None:
        self.wall_ms = calls.wall_ms
        self._calls = calls

    def call_of(self, kind: str, reference: Any, names: Any, test: Any) -> Any:
        def fail(*arguments: Any) -> None:
            raise AssertionError(f"{kind} was left to its reference")

        found = self._calls.call_of(kind, fail if "expiring" in kind else reference, names, test)
        assert found is not fail, f"there is no {kind} in C"
        return found


@pytest.mark.parametrize("renew", [False, True])
@pytest.mark.parametrize(
    ("value_type", "value"), [(Types.LONG(), 2**62), (Types.STRING(), "y"), (PAIRS, (3, "z"))]
)
def test_ordinary_accesses_are_not_left_to_python(
    calls: ModuleType, value_type: Any, value: Any, renew: bool
) -> None:
    side = Side(_NoReference(calls), value_type, renew_on_read=renew)
    side.cursor.key = "k"
    assert side.handle.value() is None
    side.handle.update(value)
    side.now += TTL - 1
    assert side.handle.value() == value
    side.now += TTL - 1
    if renew:
        assert side.handle.value() == value
    else:
        with pytest.raises(AssertionError, match="left to its reference"):
            side.handle.value()  # which removes it
    times = [since for since, _ in side.buffer.logs[0].values]
    assert times == ([1_000, 1_009, 1_018] if renew else [1_000])


def test_the_cleanup_of_an_access_is_pythons_and_rests_while_nothing_can_expire(calls: ModuleType) -> None:
    side = Side(calls, incremental_size=5)
    for number in range(20):
        side.cursor.key = f"k{number}"
        side.handle.update(number)
    for _ in range(20):
        side.handle.value()
    assert side.handle._sweep.due_ms == 1_000 + TTL
    with mock.patch.object(type(side.handle._sweep), "check", side_effect=AssertionError("looked")):
        assert side.handle.value() == 19
    side.now += TTL
    for _ in range(10):
        side.handle.value()
    assert side.state.table == {}


@pytest.mark.parametrize("odd", [1_000.5, "x", None, 2**70])
def test_a_clock_that_gives_no_whole_milliseconds_is_pythons_to_judge(calls: ModuleType, odd: Any) -> None:
    answers = []
    for way in (None, calls):
        side = Side(way)
        side.cursor.key = "k"
        side.now = odd
        answers.append([side.do("update", 1), side.do("value"), repr(side.state.table)])
    assert answers[0] == answers[1]


def test_a_clock_that_fails_changes_nothing(calls: ModuleType) -> None:
    side = Side(calls)
    side.cursor.key = "k"
    side.handle.update(1)
    del side.now
    for name, *given_ in (("value",), ("update", 2)):
        assert side.do(name, *given_)[0] is AttributeError
    assert side.state.table == {"k": (1_000, 1)}
    assert side.buffer.logs[0].values == [(1_000, 1)]


def test_entries_of_a_restore_at_the_ends_of_time(calls: ModuleType) -> None:
    """No number overflows: what was accessed in the far future lives, and what was in the far past has expired."""
    for since, lives in ((2**63 - 1, True), (-(2**63), False)):
        for way in (None, calls):
            side = Side(way)
            side.state.table["k"] = (since, 5)
            side.cursor.key = "k"
            assert side.handle.value() == (5 if lives else None)


def test_mutable_values_and_handles_that_are_looked_at_stay_in_python(calls: ModuleType) -> None:
    assert not Side(calls, Types.ROW([Types.LONG()])).in_c
    plain = Side(None)
    assert type(plain.handle._inner).__mro__[1] is CellHandle
    assert not plain.in_c
    assert isinstance(plain.handle, TtlCell)


def test_a_handle_is_a_value_state_in_pythons_own_errors_whatever_it_is_made_of(calls: ModuleType) -> None:
    for side in (Side(None), Side(calls), Side(calls, Types.ROW([Types.LONG()]))):
        with pytest.raises(AttributeError, match="'ValueState' object has no attribute 'get'"):
            side.handle.get()


def test_calls_hold_nothing_for_good(calls: ModuleType) -> None:
    side = Side(calls, renew_on_read=True)
    key, value = "a key of its own", 10**15
    held = [
        key,
        value,
        side.state.table,
        side.cursor,
        side.handle._sweep,
        *[log.values for log in side.buffer.logs],
    ]

    def used() -> None:
        side.cursor.key = key
        for more in (0, 1, TTL):
            side.now += more
            side.handle.update(value)
            side.handle.value()
            side.do("update", "x")
            side.do("value", 1)
        side.now += TTL
        side.handle.value()
        side.cursor.leave()
        side.do("value")
        side.do("update", value)
        side.buffer.logs[0].clear()

    used()
    gc.collect()
    before = list(map(sys.getrefcount, held))
    for _ in range(50):
        used()
    gc.collect()
    assert list(map(sys.getrefcount, held)) == before


def test_the_machines_clock_is_read_in_c(calls: ModuleType, tmp_path: Path) -> None:
    before = wall_ms()
    assert before <= calls.wall_ms() <= wall_ms()
