"""Windowed streams: what becomes of their settings and functions, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from api.common import Time, Types
from api.datastream import (
    AggregateFunction,
    AllWindowFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from api.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    NeverTrigger,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import NodeKind, StateKind
from changelog_engine.windowing.spec import Firing


class Pass(WindowFunction):
    def apply(self, key, window, inputs):
        return inputs


class PassAll(AllWindowFunction):
    def apply(self, window, inputs):
        return inputs


class Process(ProcessWindowFunction):
    def process(self, key, context, elements):
        return elements


class ProcessAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        return elements


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class NoMerging(NeverTrigger):
    pass


@pytest.fixture
def keyed() -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([1, 2], Types.LONG()).key_by(lambda n: n, Types.LONG())


def made(stream: Any) -> Any:
    return stream._transformation


def test_the_operator_of_a_windowed_stream(keyed: Any) -> None:
    late = OutputTag("late", Types.LONG())
    windowed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    assert windowed.get_input_type() == Types.LONG()
    assert windowed.get_execution_environment() is keyed.get_execution_environment()
    assert windowed.allowed_lateness(5).side_output_late_data(late).trigger(CountTrigger.of(2)) is windowed
    node = made(windowed.reduce(lambda a, b: a + b))
    assert (node.kind, node.output_type, node.inputs[0].kind) == (
        NodeKind.WINDOW,
        Types.LONG(),
        NodeKind.KEY_BY,
    )
    spec = node.function
    assert (spec.allowed_lateness_ms, spec.late_tag_id, type(spec.trigger)) == (5, "late", CountTrigger)
    assert (spec.contents.kind, spec.contents.value_type, spec.firing) == (
        StateKind.REDUCING,
        Types.LONG(),
        Firing.EMIT,
    )


def test_firings_and_types(keyed: Any) -> None:
    window = TumblingEventTimeWindows.of(Time.seconds(1))
    text = Types.STRING()
    found = {
        "apply": keyed.window(window).apply(Pass(), text),
        "process": keyed.window(window).process(Process(), output_type=text),
        "reduce": keyed.window(window).reduce(max, Pass(), result_type=text),
        "aggregate": keyed.window(window).aggregate(Count(), Process(), [Types.LONG()], text),
        "apply_all": keyed.window_all(window).apply(PassAll(), text),
        "process_all": keyed.window_all(window).process(ProcessAll(), result_type=text),
    }
    assert {
        name: (made(stream).function.firing, made(stream).function.contents.kind)
        for name, stream in found.items()
    } == {
        "apply": (Firing.APPLY, StateKind.LIST),
        "process": (Firing.PROCESS, StateKind.LIST),
        "reduce": (Firing.APPLY, StateKind.REDUCING),
        "aggregate": (Firing.PROCESS, StateKind.AGGREGATING),
        "apply_all": (Firing.APPLY_ALL, StateKind.LIST),
        "process_all": (Firing.PROCESS_ALL, StateKind.LIST),
    }
    assert {stream.get_type() for stream in found.values()} == {text}
    assert made(found["aggregate"]).function.contents.value_type == Types.ROW([Types.LONG()])
    assert (made(found["apply_all"]).parallelism, made(found["apply_all"]).max_parallelism) == (1, 1)
    assert made(keyed.window(window).reduce(max, Pass())).output_type is None


def test_count_windows(keyed: Any) -> None:
    assert type(made(keyed.count_window(3).reduce(max)).function.assigner) is CountTumblingWindowAssigner
    sliding = made(keyed.count_window(4, 2).reduce(max)).function.assigner
    assert (type(sliding), sliding.size, sliding.slide) == (CountSlidingWindowAssigner, 4, 2)
    assert made(keyed.count_window_all(4, 2).reduce(max)).function.assigner.slide == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k, w: k.window(5), "KeyedStream.window: window_assigner must be a WindowAssigner, got 5"),
        (lambda k, w: k.count_window(0), "KeyedStream.count_window: size must be at least 1"),
        (lambda k, w: k.window(w).trigger(EventTimeTrigger), "the trigger must be a Trigger"),
        (
            lambda k, w: k.window_all(EventTimeSessionWindows(1)).trigger(NoMerging()),
            "AllWindowedStream.trigger: windows of EventTimeSessionWindows merge, and NoMerging does not support that",
        ),
        (lambda k, w: k.window(w).allowed_lateness(-1), "the time in ms must be at least 0"),
        (lambda k, w: k.window(w).side_output_late_data("late"), "output_tag must be an OutputTag"),
        (lambda k, w: k.window(w).apply(Process()), "WindowedStream.apply needs a WindowFunction"),
        (
            lambda k, w: k.window(w).process(Pass()),
            "WindowedStream.process needs a ProcessWindowFunction, got Pass: it is a WindowFunction, which window",
        ),
        (
            lambda k, w: k.window(w).reduce(max, PassAll()),
            "must be a WindowFunction or a ProcessWindowFunction",
        ),
        (lambda k, w: k.window(w).aggregate(max), "WindowedStream.aggregate needs an AggregateFunction"),
        (lambda k, w: k.window(w).apply(Pass(), Types.STRING), "output_type must be a TypeInformation"),
        (
            lambda k, w: k.window(w).apply(Pass(), Types.STRING(), output_type=Types.STRING()),
            "result_type and output_type are the same thing",
        ),
        (lambda k, w: k.window_all(w).apply(Pass()), "AllWindowedStream.apply needs an AllWindowFunction"),
    ],
)
def test_what_the_api_refuses(keyed: Any, call: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call(keyed, TumblingEventTimeWindows(1))


def test_windows_of_keys_that_merge_take_any_trigger_as_in_pyflink(
    keyed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    keyed.window(EventTimeSessionWindows(1)).trigger(CountTrigger.of(2))
    keyed.window(TumblingEventTimeWindows(1)).trigger(NoMerging())
    assert caplog.messages == []
    windowed = keyed.window(EventTimeSessionWindows(1)).trigger(NoMerging())
    assert type(made(windowed.reduce(max)).function.trigger) is NoMerging
    (said,) = caplog.messages
    assert "can_merge() of NoMerging does not return True" in said


def test_an_assigner_without_a_serializer_is_refused_when_the_program_is_built(keyed: Any) -> None:
    class Odd(TumblingEventTimeWindows):
        def get_window_serializer(self) -> Any:
            return "none"

    assert issubclass(Odd, WindowAssigner)
    with pytest.raises(ConfigurationError, match="get_window_serializer"):
        keyed.window(Odd(5)).reduce(max)
