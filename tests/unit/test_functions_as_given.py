"""A function is what it was when the program gave it, as in PyFlink: what its variables mean later is no matter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.common import Time, Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine.connectors import Source, Split, SplitReader
from changelog_engine.errors import JobExecutionError, NotSerializableError
from changelog_engine.testing import without_spark

LATER = 1000


class Changing:
    """Gives what was added to its amount; the test changes the amount after it was handed over."""

    amount = 0

    def __init__(self) -> None:
        self.amount = 1


class At(Changing, TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value + self.amount


class Stamped(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.timestamp()


class Process(Changing, ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value + self.amount


class Window(Changing, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield from (each + self.amount for each in elements)


class Both(Changing, CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value + self.amount

    def map2(self, value: Any) -> Any:
        return value


def timestamps(stream: Any, function: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(function)
    return stream.assign_timestamps_and_watermarks(strategy).process(Stamped())


def window(stream: Any, function: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    keyed = stream.assign_timestamps_and_watermarks(strategy).key_by(lambda value: 0)
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).process(function)


USES: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any]]] = {
    "process": (Process, lambda stream, function: stream.process(function)),
    "timestamps": (At, timestamps),
    "window": (Window, window),
    "connected": (
        Both,
        lambda stream, function: stream.connect(stream.filter(lambda n: False)).map(function),
    ),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_changed_later_is_no_matter(use: str) -> None:
    make, apply = USES[use]
    env = StreamExecutionEnvironment.get_execution_environment()
    function = make()
    stream = apply(env.from_collection([10], Types.INT()), function)
    function.amount = LATER
    with without_spark(), stream.execute_and_collect() as found:
        assert list(found) == [11]


def test_sinks_of_a_loop_are_each_its_own(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1, 2], Types.INT())
    for name in ("a", "b"):
        numbers.add_sink(lambda value: (tmp_path / f"{name}{value}").touch())  # noqa: B023 - that is the point
    with without_spark():
        env.execute()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a1", "a2", "b1", "b2"]


def test_what_cannot_be_pickled_is_said_when_the_job_starts_by_the_operators_name() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1], Types.INT())
    held = (n for n in range(3))
    numbers.map(lambda n: next(held)).name("my map").print()
    with without_spark(), pytest.raises(NotSerializableError, match="'my map'"):
        env.execute()


class Keeps(ProcessFunction):
    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def test_a_function_that_holds_a_stream_or_the_environment_is_refused_where_it_is_given() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1], Types.INT())
    sink = numbers.print()
    for held in (env, numbers, sink, numbers.key_by(lambda n: n), numbers.broadcast(), [{"a": numbers}]):
        with pytest.raises(
            NotSerializableError, match=r"the function of 'Map' uses held.*, which is or holds a stream"
        ):
            numbers.map(lambda n: (held, n)[1])  # noqa: B023 - that is the point
        with pytest.raises(NotSerializableError, match=r"the function of 'KeyBy' uses held"):
            numbers.key_by(lambda n: (held, n)[1])  # noqa: B023 - that is the point
        with pytest.raises(NotSerializableError, match=r"uses self\.kept"):
            numbers.process(Keeps(held))
    with without_spark():
        env.execute()  # what was refused is not part of it


class Begins(Source):
    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def splits(self, parallelism: int) -> list[Split]:
        return []

    def reader(self, split: Split) -> SplitReader:
        raise NotImplementedError


def test_a_source_that_holds_the_environment_is_refused_when_the_job_starts() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_source(Begins(env), WatermarkStrategy.no_watermarks(), "own").print()
    said = r"^the function of operator 'own' \(source\) uses self\.kept, which is or holds a stream or an environment"
    with without_spark(), pytest.raises(NotSerializableError, match=said):
        env.execute()


def inner(value: int) -> int:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([value])
    return len(numbers.execute_and_collect(limit=1)) if value else env.execute("inner")


class InnerLater(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        return [inner(value)]


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("later", [False, True])
def test_a_function_cannot_execute_another_job(value: int, later: bool) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([value], Types.INT())
    if later:
        AsyncDataStream.unordered_wait(numbers, InnerLater(), Time.seconds(5)).print()
    else:
        numbers.map(inner).print()
    with (
        without_spark(),
        pytest.raises(JobExecutionError, match="a function of a job cannot execute another job"),
    ):
        env.execute()
