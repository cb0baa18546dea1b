"""The handles of state with a time to live, and the log they leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.profiles import Mean
from support.same import exact
from support.ttl_bench import TTL, TtlBench

from api.common.typeinfo import Types
from api.datastream.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from changelog_engine.codec.values import codec_for
from changelog_engine.errors import TypeMismatchError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.operators.state_types import describe
from changelog_engine.state.handles import CellHandle
from changelog_engine.state.ttl import TimedType


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., TtlBench]:
    return lambda *args, **more: TtlBench(tmp_path, *args, **more)


def test_a_value_expires_after_its_time_to_the_millisecond(bench):
    b = bench()
    b.state.update(7)
    b.now += TTL - 1
    assert b.state.value() == 7
    assert b.logged() == [("put", "a", (1_000, 7))]
    b.now += 1
    assert b.state.value() is None
    assert b.logged() == [("clear", "a")]
    assert b.state.value() is None
    assert b.logged() == []
    assert b.table == {}


def test_writing_begins_the_time_anew_and_reading_does_not(bench):
    b = bench()
    b.state.update(1)
    b.now += 60
    b.state.value()
    b.state.update(2)
    b.now += 60
    assert b.state.value() == 2
    b.now += 40
    assert b.state.value() is None


def test_reading_begins_the_time_anew_where_it_shall(bench):
    b = bench(renew_on_read=True)
    b.state.update(1)
    b.state.value()  # in the same millisecond: nothing to log
    assert b.logged() == [("put", "a", (1_000, 1))]
    for _ in range(3):
        b.now += 60
        assert b.state.value() == 1
    assert b.logged() == [("put", "a", (at, 1)) for at in (1_060, 1_120, 1_180)]
    b.now += TTL
    assert b.state.value() is None


def test_an_expired_value_is_shown_once_where_it_may(bench):
    b = bench(return_expired=True)
    b.state.update(1)
    b.logged()
    b.now += 5 * TTL
    assert b.state.value() == 1
    assert b.logged() == [("clear", "a")]
    assert b.state.value() is None


def test_the_cleanup_of_an_access_comes_before_the_access(bench):
    """As in Flink: what the clean-up finds is gone, even where expired values may be shown."""
    b = bench(return_expired=True, incremental_size=5)
    b.state.update(1)
    b.now += TTL
    assert b.state.value() is None


def test_clear_and_none(bench):
    b = bench()
    b.state.update(1)
    b.state.update(None)
    assert b.state.value() is None
    b.state.update(2)
    b.state.clear()
    assert b.logged() == [("put", "a", (1_000, 1)), ("clear", "a"), ("put", "a", (1_000, 2)), ("clear", "a")]


def test_elements_expire_one_by_one(bench):
    b = bench(StateKind.LIST)
    b.state.add(1)
    b.now += 50
    b.state.add_all([2, 3])
    b.logged()
    b.now += 50
    assert b.state.get() == [2, 3]
    assert list(b.state) == [2, 3]
    assert b.logged() == []  # as in Flink: the first element waits for the clean-up
    b.now += 50
    assert b.state.get() == []
    assert b.logged() == [("clear", "a")]
    b.state.update([4])
    assert b.logged() == [("replace", "a", (1_150, 4))]
    b.state.update([])
    assert b.logged() == [("clear", "a")]


def test_reading_renews_the_elements_that_live(bench):
    b = bench(StateKind.LIST, renew_on_read=True)
    b.state.add(1)
    b.now += 50
    b.state.add(2)
    b.logged()
    b.now += 60
    assert b.state.get() == [2]
    assert b.logged() == [("replace", "a", (1_110, 2))]
    assert b.state.get() == [2]
    assert b.logged() == []


def test_expired_elements_are_shown_where_they_may(bench):
    b = bench(StateKind.LIST, return_expired=True)
    b.state.add(1)
    b.now += 50
    b.state.add(2)
    b.now += 50
    assert b.state.get() == [1, 2]
    b.now += 50
    assert b.state.get() == [1, 2]
    assert b.state.get() == []


def test_map_entries_expire_one_by_one(bench):
    b = bench(StateKind.MAP)
    b.state["x"] = 1
    b.now += 50
    b.state.put_all({"y": 2, "z": None})
    assert b.logged() == [
        ("put", "a", "x", (1_000, 1)),
        ("put", "a", "y", (1_050, 2)),
        ("put", "a", "z", (1_050, None)),
    ]
    assert "x" in b.state
    b.now += 50
    assert not b.state.is_empty()
    assert b.state.get("x") is None
    assert not b.state.contains("x")
    assert b.logged() == [("remove", "a", "x")]
    assert list(b.state.items()) == [("y", 2), ("z", None)]
    assert (list(b.state.keys()), list(b.state.values())) == (["y", "z"], [2, None])
    assert b.state.contains("z")
    del b.state["z"]
    b.logged()
    b.now += 50
    assert not b.state.is_empty()  # as in Flink: not removed yet
    assert list(b.state) == []
    assert b.logged() == [("clear", "a")]
    assert b.state.is_empty()


def test_reading_all_of_a_map_removes_what_expired(bench):
    b = bench(StateKind.MAP)
    b.state.put("x", 1)
    b.now += 50
    b.state.put("y", 2)
    b.logged()
    b.now += 50
    assert list(b.state.values()) == [2]
    assert b.logged() == [("remove", "a", "x")]


def test_reading_renews_map_entries(bench):
    b = bench(StateKind.MAP, renew_on_read=True)
    b.state.put("x", 1)
    b.state.put("y", 2)
    b.logged()
    b.now += 60
    assert b.state["x"] == 1
    assert b.logged() == [("put", "a", "x", (1_060, 1))]
    b.now += 60
    assert list(b.state.items()) == [("x", 1)]
    assert b.logged() == [("remove", "a", "y"), ("put", "a", "x", (1_120, 1))]
    b.now += 90
    assert "x" in b.state
    b.now += 90
    assert "x" in b.state


def test_expired_map_entries_are_shown_once_where_they_may(bench):
    b = bench(StateKind.MAP, return_expired=True)
    b.state.put_all([("x", 1), ("y", 2)])
    b.now += TTL
    assert b.state.get("x") == 1
    assert b.state.get("x") is None
    assert list(b.state.items()) == [("y", 2)]
    assert b.state.is_empty()


@pytest.mark.parametrize(("show", "expected"), [(False, 5), (True, 9)])
def test_adding_to_an_expired_reduction(bench, show, expected):
    """It begins anew; where expired values may be used it goes on, as in Flink."""
    b = bench(StateKind.REDUCING, function=lambda left, right: left + right, return_expired=show)
    b.state.add(1)
    b.now += 50
    b.state.add(3)
    assert b.state.get() == 4
    b.now += TTL
    b.logged()
    b.state.add(5)
    assert b.logged() == [("put", "a", (1_150, expected))]
    assert b.state.get() == expected
    b.state.clear()
    assert b.state.get() is None


@pytest.mark.parametrize(("show", "expected"), [(False, 8.0), (True, 4.0)])
def test_adding_to_an_expired_aggregate(bench, show, expected):
    b = bench(StateKind.AGGREGATING, Types.TUPLE([Types.LONG(), Types.LONG()]), Mean(), return_expired=show)
    b.state.add(1)
    b.now += 50
    b.state.add(3)
    assert b.state.get() == 2.0
    b.now += TTL
    b.state.add(8)
    assert b.state.get() == expected
    b.now += TTL
    assert b.state.get() == (expected if show else None)
    assert b.state.get() is None


def test_handles_are_states_of_the_api(bench):
    for kind, abstract in (
        (StateKind.VALUE, ValueState),
        (StateKind.LIST, ListState),
        (StateKind.MAP, MapState),
        (StateKind.REDUCING, ReducingState),
        (StateKind.AGGREGATING, AggregatingState),
    ):
        assert isinstance(bench(kind).state, abstract)


def test_a_state_without_time_to_live_is_untouched(bench):
    b = bench()
    plain = StateSpec("plain", StateKind.VALUE, Types.LONG())
    assert isinstance(b.store.state("op", plain), CellHandle)
    assert describe(plain).to_json() == {
        "name": "plain",
        "kind": "value",
        "value_type": Types.LONG().spec(),
    }


def test_the_description_tells_readers_what_the_value_is(bench):
    described = describe(bench(StateKind.REDUCING, function=max).spec)
    assert described.kind == "reducing"
    assert described.value_type == Types.TUPLE([Types.LONG(), Types.LONG()]).spec()
    assert described.ttl == {"ttl_ms": TTL}


@pytest.mark.parametrize("kind", [StateKind.VALUE, StateKind.LIST, StateKind.MAP])
def test_mutable_values_are_copied(bench, kind):
    b = bench(kind, Types.LIST(Types.LONG()))
    value = [1]
    write, read = {
        StateKind.VALUE: (lambda: b.state.update(value), lambda: b.state.value()),
        StateKind.LIST: (lambda: b.state.add(value), lambda: b.state.get()[0]),
        StateKind.MAP: (lambda: b.state.put("x", value), lambda: b.state.get("x")),
    }[kind]
    write()
    value.append(2)
    read().append(3)
    assert read() == [1]
    assert b.logged()[0][-1] == (1000, [1])


def test_a_value_that_does_not_fit_is_refused_as_the_users(bench):
    b = bench()
    with pytest.raises(TypeMismatchError, match=r"state 's' of operator 'op', key 'a'") as refused:
        b.state.update("text")
    assert "TUPLE" not in str(refused.value)
    with pytest.raises(TypeMismatchError, match="LONG"):
        b.state.update(2**63)
    with pytest.raises(TypeMismatchError, match="None cannot be added"):
        bench(StateKind.LIST).state.add(None)
    assert b.logged() == []


def test_the_stored_type_is_not_the_users_tuple_type():
    """It takes every tuple unchecked, so it must share neither codec nor anything else with one that checks."""
    timed, users = TimedType(Types.STRING()), Types.TUPLE([Types.LONG(), Types.STRING()])
    assert timed != users
    assert timed == TimedType(Types.STRING())
    assert timed.spec() == users.spec()
    assert codec_for(timed) is not codec_for(users)
    assert codec_for(timed).decode_many(*codec_for(timed).encode_many([(5, "a"), (6, None)])) == [
        (5, "a"),
        (6, None),
    ]


@pytest.mark.parametrize("value", [{1, 2}, (1, [2.5, None]), float("nan"), 2**70, b"x", {"a": (1,)}])
def test_undeclared_values_come_back_as_they_were(bench, value):
    """Live, and out of the log."""
    b = bench(value_type=Types.PICKLED_BYTE_ARRAY())
    b.state.update(value)
    assert exact(b.state.value()) == exact(value)
    ((_, columns),) = b.store.buffer.drain()
    (found,) = codec_for(Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()])).decode_many(
        columns["value"], columns["payload"]
    )
    assert exact(found) == exact((1_000, value))
