"""The quick ways say the same as the slow ones: tests of tuples, JSON of arrays in one call, timers taken at once."""

from __future__ import annotations

from typing import Any
from unittest import mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.codec.columns import array_texts
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.errors import TypeMismatchError
from changelog_engine.state.backend import EVENT_TIMERS
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.timer_table import HeapTimers
from changelog_engine.state.timers import TimerQueue
from changelog_engine.types import Types
from changelog_engine.windowing.namespaces import TimeWindows


class _Int(int):
    """A whole number of another class."""


PARTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 127, 128, -128, -129, _Int(1)]),
    st.floats(),
    st.text(max_size=2),
    st.tuples(st.integers(0, 3)),
)
VALUES = st.one_of(
    st.tuples(PARTS, PARTS, PARTS), st.tuples(PARTS, PARTS), st.lists(PARTS, max_size=3), PARTS
)
TUPLES = [
    Types.TUPLE([Types.LONG(), Types.LONG()]),
    Types.TUPLE([Types.BYTE(), Types.BIG_INT(), Types.STRING()]),
    Types.TUPLE([Types.BOOLEAN(), Types.DOUBLE()]),
    Types.TUPLE([Types.LONG(), Types.TUPLE([Types.LONG()])]),
    Types.TUPLE([Types.FLOAT(), Types.CHAR()]),
]
FITTING = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))


@given(st.sampled_from(TUPLES), st.lists(st.one_of(VALUES, FITTING), max_size=4))
def test_a_quick_test_of_tuples_takes_only_what_fits_as_it_is(kind: Any, values: list[Any]) -> None:
    quick = kind.quick_test()

    def fits(value: Any) -> bool:
        try:
            return value is not None and kind.check(value) is value
        except TypeMismatchError:
            return False

    for value in values:
        if quick is not None and quick(value):
            assert fits(value)
    if kind.fits_all(values):
        assert all(map(fits, values))


def test_a_quick_test_of_tuples_takes_plain_ones() -> None:
    longs = Types.TUPLE([Types.LONG(), Types.LONG()])
    test: Any = longs.quick_test()
    assert test((1, -(2**63)))
    assert longs.fits_all([(1, 2), (2**63 - 1, 0)])
    assert not test((1, 2**63))
    assert not test((1, True))
    assert not test((1, None))
    assert not test([1, 2])
    assert not longs.fits_all([(1, 2), (1, 2, 3)])
    assert not longs.fits_all([(1, 2), None])
    assert Types.TUPLE([Types.FLOAT()]).quick_test() is None  # its values are rounded


@given(st.lists(st.one_of(st.lists(PARTS, max_size=3), st.tuples(PARTS, PARTS), PARTS), max_size=5))
def test_arrays_written_in_one_call_are_those_written_one_by_one(values: list[Any]) -> None:
    try:
        texts = array_texts(values)
    except TypeError:  # what the JSON writer refuses one by one as well
        with pytest.raises(TypeError):
            list(map(orjson.dumps, values))
        return
    if texts is not None:
        texts.validate(full=True)
        assert texts.to_pylist() == [orjson.dumps(value).decode() for value in values]


def test_arrays_with_brackets_inside_are_left_to_be_written_one_by_one() -> None:
    simple = array_texts([(1, "a,b"), (), (None, "é")])
    assert simple is not None
    assert simple.to_pylist() == ['[1,"a,b"]', "[]", '[null,"é"]']
    assert array_texts([(1, "]"), (2, "x")]) is None
    assert array_texts([None, ((1,), 2)]) is None
    assert array_texts([]) is None


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["register", "register", "register", "delete", "due"]),
        st.integers(0, 9),
        st.integers(0, 3),
    ),
    max_size=80,
)


@given(CALLS)
def test_timers_taken_at_once_are_those_taken_one_by_one(calls: list[tuple[str, int, int]]) -> None:
    cursor = Cursor()
    one, many = TimerQueue(HeapTimers(), cursor), TimerQueue(HeapTimers(), cursor)
    for call, timestamp, key in [*calls, ("due", 10, 0)]:
        cursor.key = key
        if call == "due":
            expected = []
            while (timer := one.pop_due(timestamp)) is not None:
                expected.append(timer)
            assert many.take_due(timestamp) == expected
        else:
            for queue in (one, many):
                getattr(queue, call)(timestamp)
        assert sorted(one.table.items()) == sorted(many.table.items())  # type: ignore[attr-defined]
        assert one.next_timestamp() == many.next_timestamp()


def _logged(at_once: bool) -> list[Any]:
    cursor = Cursor()
    buffer = ChangelogBuffer(Types.LONG(), True, 128)
    queue = TimerQueue(HeapTimers(), cursor, buffer.timer_log("op", EVENT_TIMERS))
    for cursor.key, timestamp in [(1, 5), (2, 3), (1, 3), (3, 9)]:
        queue.register(timestamp)
    if at_once:
        queue.take_due(5)
    else:
        while queue.pop_due(5) is not None:
            pass
    (log,) = buffer.logs
    return [log.keys, log.values, log.operations, log.times]


@pytest.mark.parametrize("until", [3, 5, 20])
def test_timers_that_cannot_be_logged_stay(until: int) -> None:
    """The log comes first: when it fails, the queue is as it was, and fires them all later."""
    cursor = Cursor()
    buffer = ChangelogBuffer(Types.LONG(), True, 128)
    table = HeapTimers()
    queue = TimerQueue(table, cursor, buffer.timer_log("op", EVENT_TIMERS))
    timers = [(1, 5), (2, 3), (1, 3), (3, 9)]
    for cursor.key, timestamp in timers:
        queue.register(timestamp)
    cursor.key = 3
    queue.delete(9)
    queue.register(9)
    live = dict(table)
    with (
        mock.patch.object(
            queue, "_log", mock.Mock(keys=mock.Mock(extend=mock.Mock(side_effect=MemoryError)))
        ),
        pytest.raises(MemoryError),
    ):
        queue.take_due(until)
    assert list(table.items()) == list(live.items())
    assert queue.next_timestamp() == 3
    assert queue.take_due(20) == [(3, 2), (3, 1), (5, 1), (9, 3)]


def test_timers_taken_at_once_are_logged_as_those_taken_one_by_one() -> None:
    assert _logged(at_once=True) == _logged(at_once=False)
    assert _logged(at_once=True)[2] == ["register_timer"] * 4 + ["delete_timer"] * 3


@given(st.lists(st.tuples(st.integers(-(2**64), 2**64), st.integers(0, 9)), max_size=8))
def test_texts_of_windows_come_back(identities: list[tuple[int, int]]) -> None:
    codec: NamespaceCodec = TimeWindows()
    texts = codec.texts(identities)
    assert texts.to_pylist() == [f"[{start},{end}]" for start, end in identities]
    assert codec.from_texts(texts) == identities
