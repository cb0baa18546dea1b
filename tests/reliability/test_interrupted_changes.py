"""A change of state that is interrupted between its line in the log and the table: the guard knows, whoever catches it.

A signal handler that raises may do so between any two instructions of Python; here a tracer does, at each of them in turn.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.backends import backend_settings, rocks_backend
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob
from support.script import Script
from support.stores import store_config

import changelog_engine
from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.codec.values import CLEARED
from changelog_engine.errors import JobExecutionError, StorageError
from changelog_engine.graph.nodes import StateKind, StateSpec, TtlSpec
from changelog_engine.operators.store import KeyedStore
from changelog_engine.operators.windows_context import merge_entries
from changelog_engine.state import compiled_handles, timers
from changelog_engine.state.backend import EVENT_TIMERS
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.factory import HandleFactory
from changelog_engine.state.handles_in_c import CALLS
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.ttl import TtlStates
from materializer.fold import state_at

ENGINE = os.path.dirname(changelog_engine.__file__) + os.sep
PAIRS = Types.TUPLE([Types.LONG(), Types.LONG()])


class Late(Exception):
    """As the handler of a program's alarm raises it."""


def cut(action: Callable[[], Any], at: int) -> bool:
    """Call something, and raise ``Late`` before one of the engine's instructions; whether it had so many."""
    left = at

    def traced(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(ENGINE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if not left:
                sys.settrace(None)
                raise Late
        return traced

    before = sys.gettrace()
    gc.disable()  # else what earlier tests left could be finalized here, and Python drops what a finalizer raises
    sys.settrace(traced)
    try:
        action()
    except Late:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
    return False


KINDS: dict[str, tuple[StateKind, Any, list[Callable[[Any], Any]]]] = {
    "expiring": (
        StateKind.VALUE,
        Types.LONG(),
        [lambda h: h.update(1), lambda h: h.value(), lambda h: h.update(value=2), lambda h: h.clear()],
    ),
    "value": (
        StateKind.VALUE,
        Types.LONG(),
        [lambda h: h.update(1), lambda h: h.update(value=2), lambda h: h.clear()],
    ),
    "pair": (
        StateKind.VALUE,
        PAIRS,
        [lambda h: h.update((1, 2)), lambda h: h.update(value=(3, 4)), lambda h: h.clear()],
    ),
    "list": (
        StateKind.LIST,
        Types.LONG(),
        [lambda h: h.add(1), lambda h: h.add_all([2, 3]), lambda h: h.update([4, 5]), lambda h: h.clear()],
    ),
    "list of pairs": (
        StateKind.LIST,
        PAIRS,
        [
            lambda h: h.add((1, 2)),
            lambda h: h.add_all([(2, 3)]),
            lambda h: h.update([(4, 5)]),
            lambda h: h.clear(),
        ],
    ),
    "list that is set first": (
        StateKind.LIST,
        Types.LONG(),
        [lambda h: h.update([1, 2]), lambda h: h.clear()],
    ),
    "map": (
        StateKind.MAP,
        Types.LONG(),
        [
            lambda h: h.put(1, 2),
            lambda h: h.put(2, value=3),
            lambda h: h.remove(1),
            lambda h: h.remove(2),
            lambda h: h.put(3, 4),
            lambda h: h.clear(),
        ],
    ),
    "reducing": (
        StateKind.REDUCING,
        Types.LONG(),
        [lambda h: h.add(1), lambda h: h.add(2), lambda h: h.clear()],
    ),
}


def replayed(log: Any, kind: StateKind) -> Any:
    """What the log makes of an empty table; None where its columns do not fit each other."""
    columns = [log.keys, log.values, log.map_keys, log.operations, log.times]
    if len({len(column) for column in columns if column is not None}) > 1:
        return None
    table: dict[Any, Any] = {}
    for number, (key, value) in enumerate(zip(log.keys, log.values, strict=True)):
        operation = None if log.operations is None else log.operations[number]
        if operation == "clear" or (operation is None and value is CLEARED):
            table.pop(key, None)
        elif kind is StateKind.LIST:
            table[key] = [*(table.get(key, []) if operation == "append" else []), value]
        elif kind is StateKind.MAP and operation == "remove":
            del table[key][log.map_keys[number]]
            table = {key: entry for key, entry in table.items() if entry}
        elif kind is StateKind.MAP:
            table.setdefault(key, {})[log.map_keys[number]] = value
        else:
            table[key] = value
    return table


@pytest.mark.parametrize("in_c", [False, True], ids=["Python", "C"])
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("name", KINDS)
def test_log_and_table_agree_or_the_guard_knows(tmp_path: Path, name: str, backend: str, in_c: bool) -> None:
    if in_c and CALLS is None:
        pytest.skip("the extension is not built")
    kind, value_type, actions = KINDS[name]
    of_map = kind is StateKind.MAP
    reduce = (lambda a, b: a + b) if kind is StateKind.REDUCING else None
    apart, names = [], itertools.count()
    tables = HeapBackend() if backend == "heap" else rocks_backend(tmp_path)
    with mock.patch.object(compiled_handles, "CALLS", CALLS if in_c else None):
        for number in range(len(actions)):
            for at in range(1, 1000):
                cursor, buffer = Cursor(), ChangelogBuffer(Types.STRING(), True, 128)
                map_key_type = Types.LONG() if of_map else None
                ttl = TtlSpec(10**9, renew_on_read=True) if name == "expiring" else None
                spec = StateSpec(
                    f"s{next(names)}", kind, value_type, map_key_type=map_key_type, function=reduce, ttl=ttl
                )
                made = HandleFactory(tables, cursor, buffer, TtlStates(itertools.count().__next__))
                state = made.opened("op", spec)
                handle = made.handle(state)
                cursor.key, cursor.timestamp = "k", 7
                for action in actions[:number]:
                    action(handle)
                was_cut = cut(lambda: actions[number](handle), at)  # noqa: B023
                unfinished = made.unfinished()
                logged = replayed(state.log, kind)
                agree = logged is not None and logged.get("k") == state.table.get("k")
                if not agree:
                    apart.append((number, at))
                    assert unfinished is not None, f"instruction {at} of action {number}"
                    assert (unfinished[:2], type(unfinished[2])) == (("op", spec.name), Late)
                if not was_cut:
                    assert agree
                    assert unfinished is None
                    break
    tables.close()
    if not in_c:
        assert apart  # or nothing was seen


@pytest.mark.parametrize("in_c", [False, True], ids=["Python", "C"])
@pytest.mark.parametrize("logged", [True, False], ids=["log", "no log"])
def test_timers_are_what_the_log_has_or_the_guard_knows(logged: bool, in_c: bool) -> None:
    if in_c and CALLS is None:
        pytest.skip("the extension is not built")
    apart = []
    with mock.patch.object(timers, "CALLS", CALLS if in_c else None):
        for number in range(4):
            for at in range(1, 1000):
                cursor, buffer = Cursor(), ChangelogBuffer(Types.STRING(), False, 128)
                made = HandleFactory(HeapBackend(), cursor, buffer if logged else None, TtlStates(lambda: 0))
                queue = made.timers("op", EVENT_TIMERS)
                cursor.key, cursor.timestamp = "k", 7
                actions = [
                    lambda: queue.setter(int)(10),  # noqa: B023
                    lambda: queue.register(20),  # noqa: B023
                    lambda: queue.delete(10),  # noqa: B023
                    lambda: queue.delete(20),  # noqa: B023
                ]
                for action in actions[:number]:
                    action()
                was_cut = cut(actions[number], at)
                table: Any = queue.table
                there = sorted(table)
                if logged:
                    log = buffer.logs[0]
                    assert log.operations is not None
                    same = len(log.keys) == len(log.values) == len(log.operations)
                    set_here = set()
                    for value, operation in zip(log.values, log.operations, strict=False):
                        (set_here.add if operation == "register_timer" else set_here.discard)(value)
                    agree = same and sorted(set_here) == [timestamp for timestamp, _ in there]
                else:
                    agree = True
                agree = agree and table.due(100) == there
                if not agree:
                    apart.append((number, at))
                    assert made.unfinished() is not None, f"instruction {at} of action {number}"
                if not was_cut:
                    assert agree
                    assert made.unfinished() is None
                    break
    assert apart


@pytest.mark.parametrize("in_c", [False, True], ids=["Python", "C"])
def test_a_timer_that_is_set_while_others_fire_is_in_the_log_and_fires_or_the_guard_knows(in_c: bool) -> None:
    if in_c and CALLS is None:
        pytest.skip("the extension is not built")
    apart = []
    with mock.patch.object(timers, "CALLS", CALLS if in_c else None):
        for at in range(1, 1000):
            cursor, buffer = Cursor(), ChangelogBuffer(Types.STRING(), False, 128)
            made = HandleFactory(HeapBackend(), cursor, buffer, TtlStates(lambda: 0))
            queue = made.timers("op", EVENT_TIMERS)
            cursor.key, cursor.timestamp = "k", 7
            table: Any = queue.table
            table.firing_until = 50
            was_cut = cut(lambda: queue.setter(int)(10), at)  # noqa: B023
            logged = buffer.logs[0].keys == ["k"]
            fires = [timer for _, _, timer in table.soon]
            if not logged == ((10, "k") in table) == (fires == [(10, "k")]):
                apart.append(at)
                assert made.unfinished() is not None, f"instruction {at}"
            if not was_cut:
                assert logged
                assert made.unfinished() is None
                break
    assert apart


class StaysFull(dict[Any, Any]):
    """It is interrupted before it is emptied."""

    def clear(self) -> None:
        raise Late


@pytest.mark.parametrize("full", ["changed", "_cached"])
def test_what_was_set_last_is_read_where_the_emptying_of_a_cache_was_interrupted(
    tmp_path: Path, full: str
) -> None:
    backend = rocks_backend(tmp_path)
    table: Any = backend.table("op", "s", StateKind.VALUE)
    table["k"] = "old"
    table.begin_epoch()  # the cache has it, too
    table["k"] = "new"
    held = StaysFull(getattr(table, full))
    setattr(table, full, held)
    setattr(table, f"_{full.strip('_')}_get", held.get)
    with pytest.raises(Late):
        table.spill()
    assert table.get("k") == "new"
    backend.close()


class Hurries(KeyedProcessFunction):
    """Counts, and removes a map key, which is interrupted before one instruction after the other, until it is half done."""

    def __init__(self, calm: bool) -> None:
        self.calm = calm

    def open(self, runtime_context: Any) -> None:
        text, number = Types.STRING(), Types.LONG()
        self.calm = self.calm or runtime_context.get_attempt_number() > 0
        self.cuts = 0
        self.count = runtime_context.get_state(ValueStateDescriptor("count", number))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", number, text))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.map.put(value[1], "x")
        self.cuts += 1
        if self.calm or not cut(lambda: self.map.remove(value[1]), self.cuts):
            self.map.remove(value[1])
        yield value


def run(base: Path, calm: bool = False, **settings: Any) -> TestJob:
    job = TestJob(base, Script((10,)), **settings)
    job.run(keyed_job([("k", number) for number in range(120)], Hurries(calm)))
    return job


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb", "custom"])
def test_a_change_that_was_half_done_ends_the_epoch(tmp_path: Path, backend: str) -> None:
    settings = backend_settings(backend, tmp_path / "local")
    said = r"Late" if backend == "custom" else r"caught Late in the middle of a change of state 'map'"
    with pytest.raises(JobExecutionError, match=said):
        run(tmp_path / "failed", restart=NO_RESTART, **settings)
    again, plain = run(tmp_path / "again", **settings), run(tmp_path / "plain", calm=True)
    assert state_at(again.table()).states["process", "count"] == {"k": 120}
    assert state_at(plain.table()).states["process", "count"] == {"k": 120}
    assert again.output == plain.output


def test_a_subtask_with_a_change_that_was_half_done_leaves_no_state(tmp_path: Path) -> None:
    config = store_config(tmp_path, local_recovery=True)
    for at in range(1, 1000):
        store = KeyedStore(config)
        handle = store.state("op", StateSpec("s", StateKind.MAP, Types.LONG(), map_key_type=Types.LONG()))
        store.cursor.key = "k"
        handle.put(1, 2)
        was_cut = cut(lambda: handle.remove(1), at)  # noqa: B023
        unfinished = store._handles.unfinished() is not None
        assert (store.leave() is None) == unfinished
        if unfinished:
            return
        assert was_cut, "it was never half done"


class FailsOnce(dict[Any, Any]):
    """A user's table that is a dict, and fails at its first entry."""

    failed = False

    def __setitem__(self, key: Any, entry: Any) -> None:
        if not self.failed:
            self.failed = True
            raise StorageError("no answer")
        super().__setitem__(key, entry)


def test_a_table_that_derives_from_dict_is_guarded_too() -> None:
    class Backend(HeapBackend):
        def table(self, operator: str, state: str, kind: StateKind) -> Any:
            return FailsOnce()

    made = HandleFactory(Backend(), Cursor(), None, TtlStates(lambda: 0))
    handle = made.handle(made.opened("op", StateSpec("s", StateKind.VALUE, Types.LONG())))
    made._cursor.key = "k"
    with pytest.raises(StorageError):
        handle.update(1)
    failed = made.failed()
    assert failed is not None
    assert (*failed[:2], str(failed[2])) == ("op", "s", "no answer")


def test_where_merging_states_fails_the_cursor_is_at_the_window_that_they_become() -> None:
    class Fails:
        def get(self) -> Any:
            raise Late

    cursor = Cursor()
    cursor.key = ("k", "all")
    with pytest.raises(Late):
        merge_entries(
            Fails(), StateSpec("s", StateKind.LIST, Types.LONG()), cursor, ("k", "all"), [("k", "part")]
        )
    assert cursor.key == ("k", "all")
