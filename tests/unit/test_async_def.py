"""``async def`` where nothing awaits, ``yield`` where nothing goes through it: a filter took all, a sink wrote nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from api.common import Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import (
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessWindowFunction,
    SinkFunction,
    StreamExecutionEnvironment,
)
from changelog_engine.errors import ArgumentTypeError


async def function(*arguments: Any) -> Any:
    return True


async def generator(*arguments: Any) -> Any:
    yield True


class Call:
    async def __call__(self, value: Any) -> Any:
        return value


def own(base: Any, name: str) -> Any:
    """An object of a class in which one method is a coroutine."""

    def plain(self: Any, *arguments: Any) -> Any:
        return arguments[0]

    async def method(self: Any, *arguments: Any) -> Any:
        return arguments[0]

    methods = dict.fromkeys(getattr(base, "__abstractmethods__", ()), plain)
    return type("Own", (base,), {**methods, name: method})()


def stream() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection(["a"], Types.STRING())


def keyed() -> Any:
    return stream().key_by(lambda value: value)


CALLS: dict[str, Callable[[], Any]] = {
    "DataStream.map: the function": lambda: stream().map(function),
    "DataStream.flat_map: the function": lambda: stream().flat_map(generator),
    "DataStream.filter: the function": lambda: stream().filter(functools.partial(function, 1)),
    "DataStream.key_by: the function": lambda: stream().key_by(Call()),
    "DataStream.key_by: get_key of Own": lambda: stream().key_by(own(KeySelector, "get_key")),
    "DataStream.partition_custom: partitioner: the function": lambda: stream().partition_custom(
        function, lambda v: v
    ),
    "KeyedStream.reduce: the function": lambda: keyed().reduce(function),
    "DataStream.map: open of Own": lambda: stream().map(own(MapFunction, "open")),
    "DataStream.map: close of Own": lambda: stream().map(own(MapFunction, "close")),
    "KeyedStream.process: process_element of Own": lambda: keyed().process(
        own(KeyedProcessFunction, "process_element")
    ),
    "KeyedStream.process: on_timer of Own": lambda: keyed().process(own(KeyedProcessFunction, "on_timer")),
    "DataStream.process: process_element of Own": lambda: stream().process(own(object, "process_element")),
    "WindowedStream.process: process of Own": lambda: (
        keyed().count_window(2).process(own(ProcessWindowFunction, "process"))
    ),
    "DataStream.add_sink: the sink function": lambda: stream().add_sink(function),
    "DataStream.add_sink: invoke of Own": lambda: stream().add_sink(SinkFunction(own(object, "invoke"))),
    "StreamExecutionEnvironment.add_source: the source function": lambda: (
        stream().get_execution_environment().add_source(generator)
    ),
    "WatermarkStrategy.with_timestamp_assigner: extract_timestamp of Own": lambda: (
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
            own(TimestampAssigner, "extract_timestamp")
        )
    ),
}


@pytest.mark.parametrize("given", CALLS)
def test_it_is_refused_where_it_is_given(given: str) -> None:
    with pytest.raises(
        ArgumentTypeError, match="is declared 'async def', and nothing awaits it here"
    ) as refused:
        CALLS[given]()
    assert str(refused.value).startswith(given)


def yields(*arguments: Any) -> Any:
    yield True


class Yields:
    def __call__(self, value: Any) -> Any:
        yield value


def yielding(base: Any, name: str) -> Any:
    """An object of a class in which one method is a generator."""
    methods = dict.fromkeys(getattr(base, "__abstractmethods__", ()), lambda self, *arguments: arguments[0])
    return type("Own", (base,), {**methods, name: yields})()


GENERATORS: dict[str, Callable[[], Any]] = {
    "DataStream.map: the function": lambda: stream().map(functools.partial(yields, 1)),
    "DataStream.map: map of Own": lambda: stream().map(yielding(MapFunction, "map")),
    "DataStream.filter: the function": lambda: stream().filter(yields),
    "DataStream.key_by: the function": lambda: stream().key_by(Yields()),
    "DataStream.key_by: get_key of Own": lambda: stream().key_by(yielding(KeySelector, "get_key")),
    "DataStream.partition_custom: partitioner: the function": lambda: stream().partition_custom(yields, len),
    "KeyedStream.reduce: the function": lambda: keyed().reduce(yields),
    "KeyedStream.process: open of Own": lambda: keyed().process(yielding(KeyedProcessFunction, "open")),
    "KeyedStream.process: close of Own": lambda: keyed().process(yielding(KeyedProcessFunction, "close")),
    "WindowedStream.process: clear of Own": lambda: (
        keyed().count_window(2).process(yielding(ProcessWindowFunction, "clear"))
    ),
    "DataStream.add_sink: the sink function": lambda: stream().add_sink(yields),
    "DataStream.add_sink: invoke of Own": lambda: stream().add_sink(SinkFunction(yielding(object, "invoke"))),
    "WatermarkStrategy.with_timestamp_assigner: extract_timestamp of Own": lambda: (
        stream().assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
                yielding(TimestampAssigner, "extract_timestamp")
            )
        )
    ),
}


@pytest.mark.parametrize("given", GENERATORS)
def test_a_generator_in_place_of_one_result_is_refused(given: str) -> None:
    """A filter took everything, a map gave generators, and nothing of them ran."""
    with pytest.raises(ArgumentTypeError, match="has a 'yield', so that a call makes a generator") as refused:
        GENERATORS[given]()
    assert str(refused.value).startswith(given)


def test_functions_that_give_several_results_may_yield() -> None:
    stream().flat_map(yields)
    stream().flat_map(yielding(FlatMapFunction, "flat_map"))
    for name in ("process_element", "on_timer"):
        keyed().process(yielding(KeyedProcessFunction, name))
    keyed().count_window(2).process(yielding(ProcessWindowFunction, "process"))
