"""BATCH mode: two keyed inputs of an operator are one by time for each key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.common import Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import (
    CoMapFunction,
    KeyedCoProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from changelog_engine.operators.batch import _runs
from changelog_engine.testing import without_spark

TIMES = st.lists(st.integers(0, 6), max_size=12).map(sorted)


def merged(first: list[int], second: list[int]) -> list[tuple[int, int]]:
    """What `_runs` says, element by element: (time, input)."""
    times = (first, second)
    return [(times[turn][i], turn) for turn, start, end in _runs(first, second) for i in range(start, end)]


@given(TIMES, TIMES)
def test_two_inputs_are_one_by_time_and_take_turns(first: list[int], second: list[int]) -> None:
    found, last = merged(first, second), 1
    assert [time for time, turn in found if turn == 0] == first
    assert [time for time, turn in found if turn == 1] == second
    assert [time for time, _ in found] == sorted([*first, *second])
    left = [len(first), len(second)]
    for time, turn in found:
        other = (second, first)[turn]
        waits = left[1 - turn] and other[len(other) - left[1 - turn]] == time
        assert not (waits and turn == last), (
            "an input had two turns in a row, and the other one an equal time"
        )
        left[turn] -= 1
        last = turn


class At(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


class Both(KeyedCoProcessFunction):
    """Says which input an element came from; a timer after each of the first one's."""

    def process_element1(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value[1] + 1)
        yield 1, *value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield 2, *value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield 0, ctx.get_current_key(), timestamp


class Mapped(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return 1, *value

    def map2(self, value: Any) -> Any:
        return 2, *value


@pytest.mark.parametrize("timed", [True, False], ids=["with times", "without times"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_programs_with_two_keyed_inputs(timed: bool, parallelism: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(parallelism)

    def keyed(*numbers: int) -> Any:
        elements = [(key, number) for number in numbers for key in ("a", "b")]
        stream = env.from_collection(elements, Types.TUPLE([Types.STRING(), Types.LONG()]))
        if timed:
            strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
            stream = stream.assign_timestamps_and_watermarks(strategy)
        return stream.key_by(lambda value: value[0], Types.STRING())

    connected = keyed(1, 3, 5).connect(keyed(2, 4))
    for stream, timers in ((connected.process(Both()), [2, 4, 6]), (connected.map(Mapped()), [])):
        with without_spark(), stream.execute_and_collect("job") as results:
            found = list(results)
        for key in ("a", "b"):
            mine = [(turn, number) for turn, name, number in found if name == key]
            assert mine == [(1, 1), (2, 2), (1, 3), (2, 4), (1, 5), *((0, at) for at in timers)]
