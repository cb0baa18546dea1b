"""The quick ways say the same as the slow ones: tests of tuples and rows, rows as columns, JSON, timers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from unittest import mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.same import same

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.changelog.logged_keys import key_columns
from changelog_engine.codec.columns import INTS_REPEAT, array_texts, repeats
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.codec.values import CLEARED, Encoded, codec_for
from changelog_engine.errors import TypeMismatchError
from changelog_engine.graph.key_groups import key_group
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.operators.blocks import Block, column_of, decode, elements, encode_block
from changelog_engine.state import timer_table
from changelog_engine.state.backend import EVENT_TIMERS
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.factory import HandleFactory
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.timer_table import HeapTimers, Timer, TimerTable
from changelog_engine.state.timers import NetTimerQueue, TimerQueue
from changelog_engine.state.ttl import TtlStates
from changelog_engine.types import Row, RowKind, Types
from changelog_engine.types.row import make_row
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
TUPLES += [
    Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]),
    Types.ROW([Types.SHORT(), Types.DOUBLE(), Types.BOOLEAN()]),
    Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.ROW_NAMED(["c"], [Types.TUPLE([Types.LONG()])])]),
    Types.ROW([]),
]
NAMES = st.sampled_from([None, [], ["a"], ["a", "b"], ["b", "a"], ["f0", "f1", "f2"]])
ROWS = st.builds(
    make_row,
    NAMES,
    st.lists(st.one_of(PARTS, st.builds(make_row, st.just(["c"]), st.lists(PARTS, max_size=2))), max_size=3),
    st.sampled_from([RowKind.INSERT, RowKind.INSERT, RowKind.DELETE]),
)
OBJECTS = st.dictionaries(st.text("a}],", max_size=2), PARTS, max_size=2)
FITTING = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))


@given(st.sampled_from(TUPLES), st.lists(st.one_of(VALUES, ROWS, FITTING), max_size=4))
def test_a_quick_test_takes_only_what_fits_as_it_is(kind: Any, values: list[Any]) -> None:
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
    assert test((1, None))  # a field without a value
    assert not test([1, 2])
    assert not longs.fits_all([(1, 2), (1, 2, 3)])
    assert not longs.fits_all([(1, 2), None])
    assert Types.TUPLE([Types.FLOAT()]).quick_test() is None  # its values are rounded


def test_a_quick_test_of_rows_takes_those_with_the_declared_names() -> None:
    inner = Types.ROW_NAMED(["c"], [Types.TUPLE([Types.LONG()])])
    kind = Types.ROW_NAMED(["a", "b"], [Types.STRING(), inner])
    test: Any = kind.quick_test()
    row = Row(a="x", b=Row(c=(1,)))
    assert test(row)
    assert test(Row.of_kind(RowKind.DELETE, a=None, b=None))
    assert kind.fits_all([row, row])
    assert kind.check(row) is row
    for other in (Row(b=row.b, a="x"), Row("x", row.b), Row(a="x"), Row(a=1, b=row.b), ("x", row.b), None):
        assert not test(other)
        assert not kind.fits_all([row, other])
    assert not test(Row(a="x", b=Row(c=(2**63,))))
    assert not test(make_row(["a", "b"], ["x"]))


@given(
    st.lists(st.one_of(ROWS, ROWS, VALUES), max_size=5), NAMES, st.lists(st.tuples(PARTS, PARTS), max_size=5)
)
def test_rows_travel_as_they_are(values: list[Any], names: list[str] | None, alike: list[Any]) -> None:
    """As columns where they are alike, else one by one."""
    made = [make_row(names, list(fields)) for fields in alike]
    for rows in (values, made, made * 32):
        back = decode(encode_block(Block(0, 0, column_of(rows), None, rows, 0, False)))
        assert isinstance(back, Block)
        assert same(elements(back.values), rows)
        assert [getattr(row, "_row_kind", None) for row in elements(back.values)] == [
            getattr(row, "_row_kind", None) for row in rows
        ]
        assert len(back.keys) == len(rows)
        assert same([elements(back.keys, slice(at, at + 1))[0] for at in range(len(rows))], rows)


def test_rows_that_are_alike_travel_as_columns() -> None:
    rows = [Row(a=number, b=f"text {number}", c=None) for number in range(1_000)]
    block = encode_block(Block(0, 0, None, None, rows, 0, False))
    assert b"make_row" not in block
    mixed = [*rows, Row(a=1)]
    assert same(decode(encode_block(Block(0, 0, None, None, mixed, 0, False)))[4], mixed)


@pytest.mark.parametrize(
    "values", [[], [""], ["", ""], ["a", "\0"], ["\ud800", "é"], ["a", None], ["a", "b" * 10]]
)
def test_strings_travel_as_they_are(values: list[Any]) -> None:
    back = decode(encode_block(Block(0, 0, values, None, values, 0, False)))
    assert isinstance(back, Block)
    assert (back.keys, back.values) == (values, values)


def test_equal_strings_arrive_as_one_object() -> None:
    """State that keeps them, such as a list's elements, is an eighth of what it would be."""
    few = [f"place {number % 7}" for number in range(5_000)]
    back = decode(encode_block(Block(0, 0, None, None, few, 0, False)))[4]
    assert back == few
    assert len(set(map(id, back))) == 7
    others = [f"place {number}" for number in range(5_000)]
    assert decode(encode_block(Block(0, 0, None, None, others, 0, False)))[4] == others


def test_strings_of_a_class_of_their_own_travel_as_such() -> None:
    assert type(decode(encode_block(Block(0, 0, None, None, [Loud("a")] * 2, 0, False)))[4][1]) is Loud


class Loud(str):
    """A string of the user's."""


def test_a_row_that_holds_itself_travels() -> None:
    row = Row(a=1, b=None)
    row["b"] = [row]
    row["a"] = row
    back = decode(encode_block(Block(0, 0, None, None, [row], 0, False)))
    assert isinstance(back, Block)
    assert back.values[0].a.b[0].a.get_row_kind() is RowKind.INSERT


@pytest.mark.parametrize("kind", [StateKind.VALUE, StateKind.LIST, StateKind.MAP])
@pytest.mark.parametrize("declared", [True, False])
def test_what_waits_in_the_log_never_changes(kind: StateKind, declared: bool) -> None:
    """Neither does it when the value that was given, or one that was read, does; undeclared parts are encoded at once."""
    spec = StateSpec(
        "s", kind, Types.LIST(Types.LONG()) if declared else Types.PICKLED_BYTE_ARRAY(), Types.STRING()
    )
    cursor, buffer = Cursor(), ChangelogBuffer(Types.LONG(), False, 128)
    handle = HandleFactory(HeapBackend(), cursor, buffer, TtlStates(lambda: 0))
    state = handle.handle(handle.opened("op", spec))
    cursor.key = 1
    write, read = {
        StateKind.VALUE: (lambda value: state.update(value), lambda: state.value()),
        StateKind.LIST: (lambda value: state.add(value), lambda: state.get()[0]),
        StateKind.MAP: (lambda value: state.put("k", value), lambda: state.get("k")),
    }[kind]
    value = [1]
    write(value)
    value.append(2)
    read().append(3)
    (waiting,) = buffer.logs[0].values
    assert isinstance(waiting, Encoded) is not declared
    ((rows, columns),) = buffer.drain()
    assert (rows, columns["value"].to_pylist()) == (1, ["[1]"])
    assert read() == [1]


@given(st.lists(st.one_of(st.lists(PARTS, max_size=3), st.tuples(PARTS, PARTS), OBJECTS, PARTS), max_size=5))
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


@mock.patch("changelog_engine.codec.columns.LOOPS", None)
def test_arrays_with_brackets_inside_are_left_to_be_written_one_by_one() -> None:
    simple = array_texts([(1, "a,b"), (), (None, "é")])
    assert simple is not None
    assert simple.to_pylist() == ['[1,"a,b"]', "[]", '[null,"é"]']
    assert array_texts([(1, "]"), (2, "x")]) is None
    assert array_texts([None, ((1,), 2)]) is None
    objects = array_texts([{"a": 1, "b": [2]}, {}, {"c": "d,"}])
    assert objects is not None
    assert objects.to_pylist() == ['{"a":1,"b":[2]}', "{}", '{"c":"d,"}']
    assert array_texts([{"a": {}}]) is None
    assert array_texts([{"a": "}"}, {"b": 1}]) is None
    assert array_texts([{}, []]) is None
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


class PlainTimers(TimerTable):
    """The contract of timer tables, word by word."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def __contains__(self, timer: object) -> bool:
        return timer in self.timers

    def __iter__(self) -> Iterator[Timer]:
        return iter(list(self.timers))

    def add(self, timer: Timer) -> None:
        assert timer not in self.timers
        self.timers.append(timer)

    def remove(self, timer: Timer) -> None:
        self.timers.remove(timer)

    def first(self) -> Timer | None:
        return min(self.timers, key=lambda timer: timer[0], default=None)


def _fired(table: TimerTable, seed: int) -> list[Any]:
    """What a queue does, in which timers are set and removed while others fire; now and then not all of them fire."""
    chance, cursor = random.Random(seed), Cursor()
    buffer = ChangelogBuffer(Types.LONG(), True, 128)
    queue = TimerQueue(table, cursor, buffer.timer_log("op", EVENT_TIMERS))
    ways = {"set": queue.setter(int)}
    found: list[Any] = []
    for _ in range(chance.randrange(60)):
        call = chance.choice(["register", "set", "set", "delete", "pop_due", "take_due", "firing"])
        cursor.key, cursor.timestamp, timestamp = (
            chance.randrange(4),
            chance.randrange(100),
            chance.randrange(12),
        )
        if call != "firing":
            found.append((ways.get(call) or getattr(queue, call))(timestamp))
            continue
        most = chance.choice([3, 40])
        for timer in queue.firing(timestamp):
            found.append((timer, cursor.timestamp, cursor.key))
            most -= 1
            if not most:
                break
            for _ in range(chance.randrange(3)):
                cursor.key = chance.randrange(4)
                chance.choice([queue.register, ways["set"], queue.delete])(chance.randrange(16))
        found += [queue.next_timestamp(), list(queue.table)]
    (log,) = buffer.logs
    return [found, log.keys, log.values, log.operations, log.times]


def test_firing_that_was_left_open_ends_none_that_began_after_it() -> None:
    cursor = Cursor()
    queue = TimerQueue(HeapTimers(), cursor)
    for cursor.key in "abcd":
        queue.register(1)
    left = queue.firing(1)
    assert next(left) == (1, "a")
    assert queue.next_timestamp() == 1  # others are put back
    firing = queue.firing(1)
    assert next(firing) == (1, "b")
    left.close()  # type: ignore[attr-defined]
    cursor.key = "e"
    queue.register(1)
    assert [*firing] == [(1, "c"), (1, "d"), (1, "e")]


@pytest.mark.parametrize("most_gone", [2, 4096])
def test_timers_fire_as_the_contract_says(most_gone: int) -> None:
    with mock.patch.object(timer_table, "_MOST_GONE", most_gone):
        for seed in range(1500):
            assert _fired(HeapTimers(), seed) == _fired(PlainTimers(), seed), f"seed {seed}"


def test_lists_are_not_made_anew_while_timers_fire() -> None:
    """Those that fire are on no list; on a new one they would stay when they are gone."""
    cursor, table = Cursor(), HeapTimers()
    queue = TimerQueue(table, cursor)
    cursor.key = "a"
    for timestamp in range(12):
        queue.register(timestamp)
    fired = []
    with mock.patch.object(timer_table, "_MOST_GONE", 0):
        for timestamp, _ in queue.firing(3):
            fired.append(timestamp)
            for later in range(4, 12):
                queue.delete(later)
    assert fired == [0, 1, 2, 3]
    assert (queue.next_timestamp(), queue.take_due(20)) == (None, [])


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


@pytest.mark.parametrize("at_once", [True, False])
def test_a_timer_that_was_logged_leaves_the_log_of_net_changes_and_a_fresh_one_was_never_there(
    at_once: bool,
) -> None:
    cursor, buffer = Cursor(), ChangelogBuffer(Types.LONG(), True, 128)
    log = buffer.timer_log("op", EVENT_TIMERS, net=True)
    queue = NetTimerQueue(HeapTimers(), cursor, log)
    for cursor.key, timestamp in [(1, 5), (2, 3)]:
        queue.register(timestamp)
    assert [each.rows for each in buffer.drain()] == [2]
    cursor.key = 3
    queue.register(4)
    fired = queue.take_due(9) if at_once else [*queue.firing(9)]
    assert fired == [(3, 2), (4, 3), (5, 1)]
    assert (log.operations, log.values, log.keys) == (["delete_timer"] * 2, [3, 5], [2, 1])
    assert not log.fresh


@given(st.lists(st.tuples(st.integers(-(2**64), 2**64), st.integers(0, 9)), max_size=8))
def test_texts_of_windows_come_back(identities: list[tuple[int, int]]) -> None:
    codec: NamespaceCodec = TimeWindows()
    texts = codec.texts(identities)
    assert texts.to_pylist() == [f"[{start},{end}]" for start, end in identities]
    assert codec.from_texts(texts) == identities


@given(st.sampled_from(TUPLES), st.lists(VALUES, max_size=6), st.randoms(use_true_random=False))
def test_what_a_type_admitted_is_written_as_one_by_one(
    type_info: Any, values: list[Any], random: Any
) -> None:
    codec = codec_for(type_info)
    admitted: list[Any] = [CLEARED]
    for value in values:
        with suppress(TypeMismatchError):
            admitted.append(type_info.check(value))
    for row in admitted[1:2]:
        if type(row) is Row:
            admitted.append(make_row(row._fields, row._values, RowKind.DELETE))
    wanted = [tuple(codec.encode(value)) for value in admitted]
    for chosen in (admitted, admitted[1:]):
        texts, payloads = codec.encode_many(chosen, admitted=True)
        found = [None] * len(chosen) if payloads is None else payloads.to_pylist()
        assert list(zip(texts.to_pylist(), found, strict=True)) == wanted[len(wanted) - len(chosen) :]
    # Lists that are replaced have many elements again.
    at = [random.randrange(len(admitted)) for _ in range(2_000)]
    texts, payloads = codec.encode_again([admitted[index] for index in at])
    found = [None] * len(at) if payloads is None else payloads.to_pylist()
    assert list(zip(texts.to_pylist(), found, strict=True)) == [wanted[index] for index in at]


def test_what_needs_a_payload_has_its_own_where_objects_come_again() -> None:
    codec = codec_for(Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()]))
    values = [("a", {1}), ("b", 2), ("c", {3})] * 1_000
    assert codec.decode_many(*codec.encode_again(values)) == values


PLAIN_ROWS = Types.ROW_NAMED(["a", 'b"'], [Types.DOUBLE(), Types.STRING()])


@pytest.mark.parametrize(
    "odd",
    [
        PLAIN_ROWS.copy(PLAIN_ROWS.check((number, text)))
        for number in (1.5, -0.0, 1e300, None, float("nan"), float("-inf"))
        for text in ("", "null", "}", '{"}', "\u20ac", "\ud800", None)
    ]
    + [make_row(["a", 'b"'], [1.5, "x"], RowKind.DELETE), Row(**{"a": 1.5, 'b"': "x"})],
    ids=repr,
)
def test_rows_as_state_keeps_them_are_written_as_one_by_one(odd: Row) -> None:
    codec = codec_for(PLAIN_ROWS)
    rows = [*[PLAIN_ROWS.check((float(number), f"{number}")) for number in range(3)], odd]
    texts, payloads = codec.encode_many(rows, admitted=True)
    found = [None] * len(rows) if payloads is None else payloads.to_pylist()
    assert list(zip(texts.to_pylist(), found, strict=True)) == [tuple(codec.encode(row)) for row in rows]


KEY_LISTS = {
    "ints": [list(range(-9, 9)), [-(2**63), 2**63 - 1, 5]],
    "large ints": [[1, 2**70, -(2**63)], [3]],
    "text": [["a", "b", '"', ""], ["\u20ac", "a"]],
    "any": [[1, "a", b"1.0", b"true"], ["1", b'["x"]']],
}


@pytest.mark.parametrize("kind", KEY_LISTS)
@pytest.mark.parametrize("times", [1, 2_000], ids=["once", "often"])
def test_columns_of_keys_are_what_each_key_gives(kind: str, times: int) -> None:
    codec = key_codec_for(Types.BIG_INT() if kind == "large ints" else None)
    lists = [some * times for some in KEY_LISTS[kind]]
    assert (times > 1) is repeats(lists, INTS_REPEAT)
    for some, (texts, groups) in zip(lists, key_columns(lists, codec, 128), strict=True):
        assert texts.to_pylist() == [codec.text(identity) for identity in some]
        assert groups.to_pylist() == [key_group(identity, 128) for identity in some]


@pytest.mark.parametrize("total", [4_096, 131_072])
@pytest.mark.parametrize(("values", "wanted"), [(1 / 16, True), (1 / 2, False), (1, False)])
def test_values_repeat_by_how_often_each_comes_and_not_by_how_many_a_sample_has(
    total: int, values: float, wanted: bool
) -> None:
    rng = random.Random(total)
    drawn = [rng.randrange(int(values * total)) for _ in range(total)]
    few_and_all_others_differ = [
        rng.randrange(8) if rng.random() < 0.1 else rng.random() for _ in range(total)
    ]
    assert repeats([drawn], 4) is wanted
    assert repeats([drawn[: total // 2], drawn[total // 2 :]], 4) is wanted
    assert not repeats([few_and_all_others_differ], 4)


def test_times_that_microseconds_do_not_hold_are_left_out() -> None:
    limit = (2**63 - 1) // 1000
    for times, wanted in (
        ([0, -1, limit], [0, -1000, limit * 1000]),
        ([-(2**63), 7], [None, 7000]),
        ([limit + 1, 2**53, -(2**53), 2**53 - 1, -(2**63)], [None, None, None, (2**53 - 1) * 1000, None]),
    ):
        buffer = ChangelogBuffer(Types.LONG(), True, 128)
        log = buffer.log_of("op", StateSpec("s", StateKind.VALUE, Types.LONG()))
        for each in times:
            log.keys.append(1)
            log.values.append(1)
            assert log.times is not None
            log.times.append(each)
        assert buffer.drain()[0][1]["event_time"].cast("int64").to_pylist() == wanted
