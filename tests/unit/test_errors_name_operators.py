"""What the engine refuses outside of a function of the user's names the operator, as far as it is known key and element."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from api.common import Time, Types, WatermarkStrategy
from api.datastream import (
    BroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from api.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from changelog_engine.connectors import IterableSource
from changelog_engine.errors import InvalidJobError, JobExecutionError, UserFunctionError
from changelog_engine.operators.failures import user_failure
from changelog_engine.testing import without_spark

LATE = OutputTag("late", Types.STRING())


class Raises(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Any:
        raise ValueError("all")


class Aside(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield LATE, 5


class Returns(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return value + 1


class KeyedReturns(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return value + 1


class TimerReturns(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return ctx.get_current_key() + 1


class ReturnsMistake(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return (each for each in mistaken(value))


def mistaken(value: Any) -> Any:
    yield from value


def windowed(windows: Any) -> Callable[[Any], Any]:
    return lambda stream: stream.key_by(lambda value: value, Types.LONG()).window(windows).reduce(max)


def aside(stream: Any) -> Any:
    result = stream.process(Aside(), Types.LONG())
    result.get_side_output(LATE).print()
    return result


class Remember(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update("x")


class GivesWhatItIsGiven(KeyedProcessFunction):
    """Gives a state or a context itself, not what is in it.

    Args:
        which: of them.
    """

    def __init__(self, which: str) -> None:
        self.which = which

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield {"ctx": ctx, "timers": ctx.timer_service()}.get(self.which) or getattr(self, self.which)


class GivesBroadcastState(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.get_broadcast_state(RULES)


RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


def given_on(which: str) -> Callable[[Any], Any]:
    return lambda stream: (
        stream.key_by(lambda value: value).process(GivesWhatItIsGiven(which)).rebalance().map(str)
    )


def of_pairs(stream: Any) -> Any:
    return stream.key_by(lambda value: (value, "a"), Types.TUPLE([Types.LONG(), Types.STRING()]))


HERE = r"\(.*/test_errors_name_operators\.py, line \d+\)"
UNTIMED = rf"needs timestamps.*\n  in assign_windows of operator 'step' {HERE}, key 3, element 3$"
A_STATE = (
    r"cannot be moved to another task: TypeError: a state was given in place of what it holds: "
    r"give that, as by value\(\) or list\(state\.get\(\)\)\."
)
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "tumbling": (windowed(TumblingEventTimeWindows.of(Time.seconds(1))), UNTIMED),
    "sliding": (windowed(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))), UNTIMED),
    "sessions": (windowed(EventTimeSessionWindows.with_gap(Time.seconds(1))), UNTIMED),
    "not picklable": (
        lambda stream: stream.map(lambda _: threading.Lock()).name("locks").rebalance().map(str),
        rf"an element from 'locks' to 'step' {HERE} cannot be moved to another task",
    ),
    "a state in place of its value": (given_on("count"), A_STATE),
    "a map's state in place of what it holds": (given_on("counts"), A_STATE),
    "a broadcast state": (
        lambda stream: (
            stream.connect(stream.broadcast(RULES)).process(GivesBroadcastState()).rebalance().map(str)
        ),
        A_STATE,
    ),
    "a context": (given_on("ctx"), r"TypeError: a context was given in place of what it knows: give that"),
    "a timer service": (
        given_on("timers"),
        r"TypeError: a timer service was given in place of what it knows: give",
    ),
    "key": (
        lambda stream: stream.key_by(lambda value: [value], Types.STRING()).map(str),
        rf"key of 'KeyBy' from 'numbers' to 'step' {HERE} is declared STRING but got \[3\] of type list\. "
        "Declare the type that the keys have in key_by's key_type, or convert them",
    ),
    "another type than the declared one": (
        lambda stream: stream.map(str, Types.LONG()),
        rf"output of operator 'step' {HERE}: value is declared LONG but got '3' of type str",
    ),
    "a number for results": (
        lambda stream: stream.process(Returns(), Types.LONG()),
        rf"process_element of operator 'step' {HERE}, element 3 returned 4, which is not iterable: return a list",
    ),
    "a keyed number for results": (
        lambda stream: stream.key_by(lambda value: value).process(KeyedReturns(), Types.LONG()),
        rf"process_element of operator 'step' {HERE}, key 3, element 3 returned 4, which is not iterable: return a list",
    ),
    "a timer's number": (
        lambda stream: stream.key_by(lambda value: value).process(TimerReturns(), Types.LONG()),
        rf"on_timer of operator 'step' {HERE}, key 3 returned 4, which is not iterable: return a list",
    ),
    "a mistake in what is returned": (
        lambda stream: stream.process(ReturnsMistake(), Types.LONG()),
        r"(?s)process_element of operator 'step', element 3 raised TypeError: 'int' object is not iterable\n.*in mistaken",
    ),
    "partition": (
        lambda stream: stream.partition_custom(lambda key, count: count, lambda value: value).map(str),
        rf"partitioner of 'PartitionCustom' from 'numbers' to 'step' {HERE} gave 1",
    ),
    "window_all": (
        lambda stream: stream.count_window_all(1).process(Raises()),
        "process of operator 'step', element 3 raised ValueError: all",
    ),
    "window_all, type": (
        lambda stream: stream.union(stream).count_window_all(2).reduce(lambda a, b: "x"),
        r"the windows' content of operator 'window-[0-9a-f]+', window 0: value is declared LONG but got 'x' of type str\. "
        "Declare the type that the values have in the stream that goes into the windows",
    ),
    "key of a state": (
        lambda stream: of_pairs(stream).process(Remember(), Types.LONG()),
        r"state 'count' of operator .*, key \(3, 'a'\): value is declared LONG but got 'x'",
    ),
    "key of a window's state": (
        lambda stream: of_pairs(stream.union(stream)).count_window(2).reduce(lambda a, b: "x"),
        r"operator .*, key \(3, 'a'\), window 0: value is declared LONG but got 'x'",
    ),
    "no results": (
        lambda stream: stream.flat_map(lambda value: None).map(str),
        rf"flat_map of operator 'FlatMap' {HERE}, element 3 returned None, which is not iterable: return a list",
    ),
    "side output": (
        aside,
        rf"side output 'late' of operator 'step' {HERE}: value is declared STRING but got 5",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_operator_is_named(name: str) -> None:
    build, says = REFUSED[name]
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    build(env.from_collection([3], Types.LONG()).name("numbers")).name("step").print()
    with without_spark(), pytest.raises(JobExecutionError, match=says):
        env.execute("refused")


@pytest.mark.parametrize("compiled", [len, sum])
def test_what_compiled_code_raises_is_not_laid_to_the_result_before(compiled: Callable[[Any], Any]) -> None:
    """Its errors come from a frame of ours, which still has that result."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection([[1], 5]).map(compiled).print()
    with (
        without_spark(),
        pytest.raises(JobExecutionError, match=rf"map of operator 'Map' {HERE}, element 5 raised TypeError"),
    ):
        env.execute("compiled")


def test_a_batch_job_s_endless_sources_are_named() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    unending = IterableSource(list)
    unending.bounded = False
    endless = env.from_source(unending, WatermarkStrategy.no_watermarks(), "orders")
    endless.union(env.from_collection([1])).print()
    with pytest.raises(InvalidJobError, match="and of this job 'orders' does not: use STREAMING"):
        env.execute("endless")


def test_what_failed_downstream_is_not_laid_to_the_operator_before() -> None:
    """An operator that gives much while its timers fire gives it from within its own call."""
    try:
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError as error:
            raise user_failure(error, "behind", "map", element=1) from error
    except UserFunctionError as failure:
        said = str(failure)
        with pytest.raises(UserFunctionError) as passed:
            user_failure(failure, "before", "on_timer")
    assert str(passed.value) == said
    assert "'before'" not in said
    assert (passed.value.operator, passed.value.call) == ("behind", "map")
