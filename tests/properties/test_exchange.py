"""Blocks, exchanges, watermarks over channels, and the order of timers."""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.same import same

from api.common.typeinfo import Types
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import TypeMismatchError
from changelog_engine.event_time import MAX_WATERMARK, MIN_WATERMARK
from changelog_engine.graph.key_groups import key_group, key_group_range
from changelog_engine.graph.nodes import Node, NodeKind, Partitioner
from changelog_engine.graph.plan import Edge
from changelog_engine.operators import blocks
from changelog_engine.operators.blocks import (
    Block,
    RowColumns,
    column_of,
    decode,
    elements,
    encode_block,
    encode_report,
    join,
)
from changelog_engine.operators.exchange import Exchange
from changelog_engine.operators.inputs import Inputs
from changelog_engine.operators.messages import EpochReport
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.timer_table import HeapTimers
from changelog_engine.state.timers import TimerQueue
from changelog_engine.types import Row, RowKind


class _Text(str):
    pass


ANYTHING = st.one_of(
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.none(),
    st.tuples(st.integers()),
)
COLUMNS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20),
    st.lists(st.integers(), max_size=20),
    st.lists(st.floats(allow_nan=False), max_size=20),
    st.lists(ANYTHING, max_size=20),
)


@given(COLUMNS, st.integers(MIN_WATERMARK, MAX_WATERMARK), st.booleans())
def test_blocks_round_trip_exactly(values: list[Any], watermark: int, idle: bool) -> None:
    block = Block(
        1, 2, column_of(values), column_of(list(range(len(values)))), column_of(values), watermark, idle
    )
    back = decode(encode_block(block))
    assert isinstance(back, Block)
    assert len(back.values) == len(values)
    assert same(elements(back.values), values)
    middle = len(values) // 2
    assert same(elements(back.keys, slice(middle)) + elements(back.keys, slice(middle, None)), values)
    assert same(elements(back.times), list(range(len(values))))
    assert back[0:2] + back[5:] == (1, 2, watermark, idle)


@given(st.lists(COLUMNS, min_size=1, max_size=4))
def test_columns_join_as_lists_do(columns: list[list[Any]]) -> None:
    pieces = [column_of(column) for column in columns]
    joined = decode(encode_block(Block(0, 0, None, None, join(pieces), 0, False)))
    assert same(elements(joined.values), [value for column in columns for value in column])


@pytest.mark.parametrize("different", [1, 2, 256, 257, 2000, 5000])
@pytest.mark.parametrize(
    "more", [[], *([x] for x in ("x", "a\0", "\ud800", _Text("1"), None, 1, [1]))], ids=repr
)
def test_strings_that_repeat_round_trip_exactly(different: int, more: list[Any]) -> None:
    values = [*(f"{number * 7 % different}" for number in range(9000)), *more]
    coded = encode_block(Block(0, 0, None, None, column_of(values), 0, False))
    back = elements(decode(coded).values)
    assert same(back, values)
    rows = decode(encode_block(Block(0, 0, None, None, [Row(a=each) for each in values], 0, False)))
    assert same([row.a for row in elements(rows.values)], values)
    with mock.patch.object(blocks, "LOOPS", None):
        assert same(elements(decode(encode_block(Block(0, 0, None, None, values, 0, False))).values), values)
        assert same(elements(decode(coded).values), values), "it reads what another process sent"
    if not more:
        assert (different > 2000) or (len(coded) < 20_000 + 8 * different)
        assert len(set(map(id, back))) == different or different > 2000


def test_reports_round_trip() -> None:
    report = EpochReport(1, 2, records_in=3, driver_output={4: ["x"]})
    assert decode(encode_report(report)) == report


class Recorder:
    """What the receivers of an exchange got, epoch by epoch."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.got: dict[int, list[tuple[Any, Any, Any]]] = {}

    def send(self, batches: list[tuple[list[Any], list[int] | None]]) -> None:
        for values, times in batches:
            self.exchange.process(values, times)
        for target, encoded in self.exchange.blocks():
            block = decode(encoded)
            values = elements(block.values)
            keys = elements(block.keys) if block.keys is not None else [None] * len(values)
            times = elements(block.times) if block.times is not None else [None] * len(values)
            self.got.setdefault(target, []).extend(zip(keys, times, values, strict=True))


BATCHES = st.lists(st.lists(st.integers(-50, 50), min_size=1, max_size=20), max_size=4)


KEYS: list[tuple[Any, Any]] = [
    (Types.LONG(), lambda value: value % 7),
    (Types.STRING(), lambda value: f"k{value % 7}"),
    (Types.LONG(), lambda value: value % 2 == 0),  # become whole numbers
    (Types.LONG(), lambda value: value),  # each is its own
    (Types.LONG(), abs),  # of some batches each is
    (None, lambda value: value),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), lambda value: (value % 7, "x")),
    (None, lambda value: [value % 7, 0.5][value % 2]),
]


@pytest.mark.parametrize(
    ("key_type", "last"), [(Types.BYTE(), 128), (Types.LONG(), 2**63), (Types.INT(), -(2**31) - 1)]
)
def test_an_int_that_its_declared_type_does_not_hold_is_no_key(key_type: Any, last: int) -> None:
    key_by = Node(1, NodeKind.KEY_BY, "key", (0,), key_type=key_type)
    exchange = Exchange(Edge(0, 0, 0, 1, (2,), Partitioner.HASH, key_by), 0, 2, 16, lambda value: value)
    exchange.process([0, 1, -128, 127], None)
    with pytest.raises(TypeMismatchError, match=rf"key of 'key'.*{last}"):
        exchange.process([0, 1, last], None)


@pytest.mark.parametrize("partitioner", [Partitioner.FORWARD, Partitioner.GLOBAL, Partitioner.BROADCAST])
@pytest.mark.parametrize(
    "values",
    [
        ("a", "b"),
        ("q", b"8 bytes."),
        ("strings", "a\0b"),
        ("coded", ["a"], "B", b"\0"),
        ("rows", ["a"], [[]]),
        (2**63, 1),
    ],
)
def test_a_source_may_give_tuples_of_elements(partitioner: Partitioner, values: tuple[Any, ...]) -> None:
    recorder = Recorder(Exchange(Edge(0, 0, 0, 1, (2,), partitioner), 0, 1, 128))
    recorder.send([(values, None)])  # type: ignore[list-item]
    assert recorder.got == {0: [(None, None, value) for value in values]}


def _text(row: Any) -> Any:
    return row.a


def _copied_text(row: Any) -> Any:
    return "".join([*row.a])


def _number(row: Any) -> Any:
    return row.n


def _other(row: Any) -> Any:
    return row.n % 5


def _at_times(row: Any) -> Any:
    return row.a if row.n < 90 else f"{row.n}"


def _rows_sent(selector: Any, key_type: Any, sizes: list[int], parallelism: int, of: Any) -> int:
    """Send rows by key, and compare what comes with them; gives the bytes of all blocks."""
    key_by = Node(1, NodeKind.KEY_BY, "key", (0,), key_type=key_type)
    edge = Edge(0, 0, 0, 1, (2,), Partitioner.HASH, key_by)
    exchange = Exchange(edge, 0, parallelism, 16, selector)
    sent: dict[int, list[Any]] = {}
    for size in sizes:
        rows = [of(number) for number in range(size)]
        exchange.process(rows, None)
        for row in rows:
            key = selector(row)
            owner = key_group(key, 16) * parallelism // 16
            sent.setdefault(owner, []).append((key, row))
    blocks_sent = exchange.blocks()
    for target, encoded in blocks_sent:
        block = decode(encoded)
        rows, keys = elements(block.values), elements(block.keys)
        assert same(list(zip(keys, rows, strict=True)), sent.pop(target))
    assert not sent
    return sum(len(encoded) for _, encoded in blocks_sent)


@given(
    st.sampled_from([(_text, Types.STRING()), (_copied_text, Types.STRING()), (_at_times, Types.STRING())])
    | st.sampled_from([(_number, Types.LONG()), (_other, Types.LONG())]),
    st.lists(st.sampled_from([1, 5, 40, 100]), min_size=1, max_size=4),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(
        [
            lambda number: Row(a=f"key {number % 7}", n=number, m=number),
            lambda number: Row(n=number, b=None, a=f"key {number % 7}"),
            lambda number: Row(a="x" * (number % 3), n=number, c=[number]),  # which are no columns
        ]
    ),
)
def test_rows_that_have_their_keys_arrive_with_them(
    kind: tuple[Any, Any], sizes: list[int], parallelism: int, of: Any
) -> None:
    _rows_sent(*kind, sizes, parallelism, of)


@pytest.mark.parametrize("loops", [blocks.LOOPS, None], ids=["as installed", "Python"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_key_that_is_a_field_travels_once(loops: Any, parallelism: int) -> None:
    def of(number: int) -> Row:
        return Row(a=f"{number * 2654435761 % 2**32}", n=number)

    with mock.patch.object(blocks, "LOOPS", loops):
        once = _rows_sent(_text, Types.STRING(), [1000, 500], parallelism, of)
        twice = _rows_sent(_copied_text, Types.STRING(), [1000, 500], parallelism, of)
        assert twice - once > 1500 * 9
        once = _rows_sent(_number, Types.LONG(), [1000, 500], parallelism, of)
        twice = _rows_sent(lambda row: row.n + 1, Types.LONG(), [1000, 500], parallelism, of)
        assert twice - once > 1500 * 7


@given(st.lists(BATCHES, max_size=3), st.sampled_from([1, 2, 4, 13]), st.booleans(), st.sampled_from(KEYS))
def test_hash_exchange_sends_each_key_to_its_owner_in_order(
    epochs: list[list[list[int]]], parallelism: int, timed: bool, kind: tuple[Any, Any]
) -> None:
    maximum = 16
    key_type, selector = kind
    codec = key_codec_for(key_type)

    def key_of(value: int) -> Any:
        return codec.identity(selector(value))

    key_by = Node(1, NodeKind.KEY_BY, "key", (0,), key_type=key_type)
    exchange = Exchange(Edge(0, 0, 0, 1, (2,), Partitioner.HASH, key_by), 0, parallelism, maximum, selector)
    recorder = Recorder(exchange)
    for batches in epochs:
        recorder.send([(batch, [value + 100 for value in batch] if timed else None) for batch in batches])
    sent = [value for batches in epochs for batch in batches for value in batch]
    for target, got in recorder.got.items():
        for key, time, value in got:
            assert same(key, key_of(value))
            assert time == (value + 100 if timed else None)
            assert key_group(key, maximum) * parallelism // maximum == target  # Flink's formula
            assert key_group(key, maximum) in key_group_range(target, maximum, parallelism)
    for key in {key_of(value) for value in sent}:
        arrived = [value for got in recorder.got.values() for k, _, value in got if k == key]
        assert arrived == [value for value in sent if key_of(value) == key]


@pytest.mark.parametrize("values", [[f"word {number}" for number in range(1000)], list(range(1000))])
def test_elements_that_are_their_own_keys_travel_once(values: list[Any]) -> None:
    key_by = Node(1, NodeKind.KEY_BY, "key", (0,))

    def sent(selector: Any) -> bytes:
        exchange = Exchange(Edge(0, 0, 0, 1, (2,), Partitioner.HASH, key_by), 0, 2, 16, selector)
        exchange.process(values[:600], None)
        exchange.process(values[600:], None)
        return exchange.blocks()[0][1]

    own, others = (
        sent(lambda value: value),
        sent(lambda value: 1000 + value if value in range(1000) else value + "!"),
    )
    assert len(own) < 0.6 * len(others)
    block = decode(own)
    assert isinstance(block, Block)
    assert block.keys is block.values
    assert elements(block.values) == [value for value in values if key_group(value, 16) < 8]


@given(st.lists(BATCHES, max_size=3), st.sampled_from([1, 3, 4, 11]), st.integers(0, 3))
def test_rebalance_is_even_and_keeps_order(
    epochs: list[list[list[int]]], parallelism: int, channel: int
) -> None:
    exchange = Exchange(Edge(0, 0, 0, 1, (2,), Partitioner.REBALANCE), channel, parallelism, 128)
    recorder = Recorder(exchange)
    for batches in epochs:
        recorder.send([(batch, None) for batch in batches])
    sent = [value for batches in epochs for batch in batches for value in batch]
    for target in range(parallelism):
        turn = (target - channel) % parallelism
        assert [value for _, _, value in recorder.got.get(target, [])] == sent[turn::parallelism]


ODD_ROWS = st.sampled_from(
    [
        Row(a=1, b="y"),
        Row(a=None, b="y"),
        Row(b=1),
        Row(a=[1], b="y"),
        Row.of_kind(RowKind.DELETE, a=1, b=2),
        5,
    ]
)
ROW_BATCHES = st.lists(st.tuples(st.integers(1, 150), st.lists(ODD_ROWS, max_size=2)), max_size=4)


@given(ROW_BATCHES, st.sampled_from([1, 2, 3]))
def test_rows_arrive_as_they_were_sent(batches: list[tuple[int, list[Any]]], parallelism: int) -> None:
    """In batches of few and of many, which become columns where nothing else is among them."""
    exchange = Exchange(Edge(0, 0, 0, 1, (2,), Partitioner.REBALANCE), 0, parallelism, 128)
    recorder = Recorder(exchange)
    alike = [[Row(a=size * number, b=f"{number}") for number in range(size)] for size, _ in batches]
    made = [[*rows, *odd] for rows, (_, odd) in zip(alike, batches, strict=True)]
    recorder.send([(batch, None) for batch in made])
    sent = [value for batch in made for value in batch]
    for target in range(parallelism):
        got = [value for _, _, value in recorder.got.get(target, [])]
        assert same(got, sent[target::parallelism])
        assert [kind_of(value) for value in got] == [kind_of(value) for value in sent[target::parallelism]]


def kind_of(value: Any) -> Any:
    return value.get_row_kind() if isinstance(value, Row) else None


def test_a_few_rows_stay_rows_until_there_are_many() -> None:
    """Columns of one row take ten times as long as the row."""
    rows = [Row(a=number, b=f"{number}") for number in range(400)]
    assert column_of(rows[:1]) == rows[:1]
    assert column_of(rows, 16) == rows
    pieces = [column_of(piece) for piece in (rows[:1], rows[1:2], rows[2:399], rows[399:])]
    joined = join(pieces)
    assert (type(pieces[2]), type(joined)) == (RowColumns, RowColumns)
    assert same(elements(joined), rows)
    assert same(join([*pieces, [Row(a=1)]]), [*rows, Row(a=1)])
    assert same(join([*pieces, column_of([Row(b="x", a=1)] * 400)])[399:401], [rows[399], Row(b="x", a=1)])


@given(st.lists(BATCHES, max_size=3), st.integers(0, 2))
def test_forward_goes_to_the_same_subtask(epochs: list[list[list[int]]], channel: int) -> None:
    recorder = Recorder(Exchange(Edge(0, 0, 0, 1, (2,), Partitioner.FORWARD), channel, 3, 128))
    for batches in epochs:
        recorder.send([(batch, None) for batch in batches])
    sent = [value for batches in epochs for batch in batches for value in batch]
    assert [value for _, _, value in recorder.got.get(channel, [])] == sent
    assert set(recorder.got) <= {channel}


def test_a_watermark_is_sent_to_all_receivers_once() -> None:
    exchange = Exchange(Edge(0, 0, 0, 1, (2,), Partitioner.REBALANCE), 0, 3, 128)
    assert exchange.blocks() == []
    exchange.watermark(5)
    assert [(target, decode(data).watermark) for target, data in exchange.blocks()] == [
        (0, 5),
        (1, 5),
        (2, 5),
    ]
    assert exchange.blocks() == []
    exchange.idle = True
    assert [decode(data).idle for _, data in exchange.blocks()] == [True] * 3


def block(channel: int, watermark: int, idle: bool = False) -> Block:
    return Block(0, channel, None, None, [], watermark, idle)


def test_watermark_is_the_smallest_of_the_active_channels() -> None:
    inputs = Inputs([(0, 0), (0, 1)])
    assert inputs.advance(block(0, 10)) is None
    assert inputs.advance(block(1, 7)) == 7
    assert inputs.advance(block(1, 9, idle=True)) == 10
    assert inputs.advance(block(0, 12)) == 12
    assert inputs.advance(block(1, 9)) is None  # active again, and late: the watermark never goes back
    assert inputs.current == 12
    assert inputs.advance(block(1, MAX_WATERMARK)) is None
    assert inputs.advance(block(0, MAX_WATERMARK)) == MAX_WATERMARK


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=40), st.integers(0, 40)
)
def test_watermark_is_what_a_look_at_all_channels_gives(
    blocks: list[tuple[int, int, bool]], restored: int
) -> None:
    channels = [(0, number) for number in range(4)]
    inputs = Inputs(channels)
    watermarks, idle, current = dict.fromkeys(range(4), MIN_WATERMARK), set[int](), MIN_WATERMARK
    for place, (channel, watermark, is_idle) in enumerate(blocks):
        if place == restored:
            state, inputs = inputs.snapshot(), Inputs(channels)
            inputs.restore(state)
        watermarks[channel] = max(watermarks[channel], watermark)
        (idle.add if is_idle else idle.discard)(channel)
        lowest = min((watermarks[each] for each in watermarks if each not in idle), default=current)
        assert inputs.advance(block(channel, watermark, is_idle)) == (lowest if lowest > current else None)
        current = max(current, lowest)
        assert (inputs.current, inputs.all_idle) == (current, len(idle) == 4)


def test_all_idle_keeps_the_watermark() -> None:
    inputs = Inputs([(0, 0)])
    assert inputs.advance(block(0, 5)) == 5
    assert inputs.advance(block(0, 8, idle=True)) is None


MESSAGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.booleans()), max_size=40)


@given(MESSAGES, st.integers(0, 40))
def test_watermarks_never_go_back_and_survive_a_snapshot(
    messages: list[tuple[int, int, bool]], at: int
) -> None:
    channels = [(0, 0), (0, 1), (0, 2)]
    straight, restored = Inputs(channels), Inputs(channels)
    highest = MIN_WATERMARK
    for number, (channel, watermark, idle) in enumerate(messages):
        if number == at:
            saved = restored.snapshot()
            restored = Inputs(channels)
            restored.restore(saved)
        advanced = straight.advance(block(channel, watermark, idle))
        assert restored.advance(block(channel, watermark, idle)) == advanced
        assert restored.current == straight.current
        if advanced is not None:
            assert advanced > highest
            highest = advanced


def test_time_goes_on_with_other_channels_and_starts_anew_with_other_edges() -> None:
    inputs = Inputs([(0, 0)])
    inputs.advance(block(0, 5))
    wider = Inputs([(0, 0), (0, 1)])
    wider.restore(inputs.snapshot())
    assert wider.current == 5
    assert wider.advance(block(0, 9)) is None  # of the other channel nothing is known yet
    other = Inputs([(1, 0)])
    other.restore(inputs.snapshot())
    assert other.current == MIN_WATERMARK
    Inputs([]).restore({})


TIMER_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["register", "delete", "pop"]), st.integers(0, 6), st.sampled_from(["a", "b", 1])
    ),
    max_size=60,
)


@given(TIMER_CALLS, st.integers(0, 60))
def test_timers_come_by_time_then_by_registration(calls: list[tuple[str, int, Any]], at: int) -> None:
    """A restored queue goes on as the one before would have."""
    cursor = Cursor()
    queue = TimerQueue(HeapTimers(), cursor)
    model: list[tuple[int, Any]] = []  # in order of registration
    for number, (call, timestamp, key) in enumerate(calls):
        if number == at:
            saved = list(queue.table)
            queue = TimerQueue(HeapTimers(), cursor)
            queue.table.fill(saved)
        cursor.key = key
        if call == "register":
            queue.register(timestamp)
            if (timestamp, key) not in model:
                model.append((timestamp, key))
        elif call == "delete":
            queue.delete(timestamp)
            if (timestamp, key) in model:
                model.remove((timestamp, key))
        else:
            due = sorted((timer for timer in model if timer[0] <= timestamp), key=lambda timer: timer[0])
            expected = due[0] if due else None
            if expected is not None:
                model.remove(expected)
            assert queue.pop_due(timestamp) == expected
            if expected is not None:
                assert (cursor.timestamp, cursor.key) == expected
        assert queue.next_timestamp() == min((timer[0] for timer in model), default=None)


def test_only_a_shuffle_needs_numpy_s_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports the standard library's ``secrets``, in whose place a program's own ``secrets.py`` may be."""
    monkeypatch.delattr(np, "random", raising=False)
    monkeypatch.setitem(sys.modules, "numpy.random", None)
    for partitioner in set(Partitioner) - {Partitioner.SHUFFLE, Partitioner.CUSTOM, Partitioner.HASH}:
        Exchange(Edge(0, 0, 0, 1, (2,), partitioner), 0, 3, 128)
    with pytest.raises(ImportError):
        Exchange(Edge(0, 0, 0, 1, (2,), Partitioner.SHUFFLE), 0, 3, 128)
