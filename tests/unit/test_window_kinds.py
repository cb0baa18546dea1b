"""Windows of every kind in whole jobs in this process: counted, global, of processing time, and of a program's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.script import Failure, Fault, Script
from support.window_jobs import ANY, UID, Texts, a, graph, outputs, spec
from support.window_model import JoinTexts, Show

from api.common import Types
from api.common.serializer import TypeSerializer
from api.datastream import ProcessAllWindowFunction
from api.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)
from api.datastream.window_functions import WindowFunction
from changelog_engine.errors import JobExecutionError
from changelog_engine.graph.nodes import NodeKind, StateKind
from changelog_engine.windowing.spec import CONTENTS, Firing, WindowSpec, contents_spec
from materializer.fold import state_at


@pytest.mark.parametrize(
    ("assigner", "expected"),
    [
        (CountTumblingWindowAssigner(2), [("a", 0, "12"), ("a", 1, "34")]),
        (CountSlidingWindowAssigner(4, 2), [("a", 0, "1234")]),
        (CountSlidingWindowAssigner(2, 1), [("a", 0, "12"), ("a", 1, "23"), ("a", 2, "34"), ("a", 3, "45")]),
        (CountSlidingWindowAssigner(1, 2), [("a", 0, "1"), ("a", 1, "3"), ("a", 2, "5")]),
    ],
    ids=["tumbling", "sliding", "by one", "gaps"],
)
def test_count_windows_fire_when_full_and_keep_nothing_then(
    tmp_path: Path, assigner: WindowAssigner, expected: list[Any]
) -> None:
    elements = [("a", 0, str(number)) for number in range(1, 6)]
    failures = (Failure(2, Fault.WORKER, 1, 0), Failure(4, Fault.DRIVER, 1, 0))
    job = TestJob(tmp_path, Script((2,), failures=failures))
    job.run(graph(elements, spec(assigner), timed=False, key_type=Types.STRING()))
    assert job.output == expected
    state = state_at(job.table(), allow_pickle=True)
    assert dict(state.states[UID, "__assigned"].items()) == {"a": 5}
    fired = {str(window) for _, window, _ in expected}
    assert not fired & {namespace for _, namespace in state.states[UID, CONTENTS]}


def test_global_windows(tmp_path: Path) -> None:
    elements = [("a", 0, str(number)) for number in range(1, 6)]
    never = spec(GlobalWindows())
    assert outputs(tmp_path / "never", graph(elements, never, timed=False)) == [[]]
    kept = spec(GlobalWindows(), CountTrigger(2))
    assert outputs(tmp_path / "kept", graph(elements, kept, timed=False)) == [
        [("a", None, "12"), ("a", None, "1234")]
    ]
    purged = spec(GlobalWindows(), PurgingTrigger.of(CountTrigger(2)))
    assert outputs(tmp_path / "purged", graph(elements, purged, timed=False)) == [
        [("a", None, "12"), ("a", None, "34")]
    ]


def test_a_continuous_trigger_fires_at_each_interval_and_at_the_end(tmp_path: Path) -> None:
    elements = a((1, "a"), (4, "b"), (12, "c"), (14, "d"), (31, "e"))
    windows = spec(TumblingEventTimeWindows(20), ContinuousEventTimeTrigger(5))
    (seen,) = outputs(tmp_path, graph(elements, windows), (1,))
    assert seen == [("a", 0, "abc")] * 2 + [("a", 0, "abcd")] * 2 + [("a", 20, "e")] * 2


def test_a_continuous_trigger_of_a_window_without_an_end_fires_once_more_when_the_input_has_ended(
    tmp_path: Path,
) -> None:
    elements = a((1, "a"), (4, "b"), (12, "c"), (14, "d"))
    windows = spec(GlobalWindows(), ContinuousEventTimeTrigger(5))
    (seen,) = outputs(tmp_path, graph(elements, windows), (1,))
    assert seen == [("a", None, "abc")] * 2 + [("a", None, "abcd")] * 2  # at 5, 10 and 15, and at the end


class Ticks:
    """A clock that goes on by a step each time it is read."""

    def __init__(self, step: int) -> None:
        self.times = itertools.count(1_000_000, step)

    def __call__(self) -> int:
        return next(self.times)


@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [
        (TumblingProcessingTimeWindows(50), None),
        (SlidingProcessingTimeWindows(100, 50), None),
        (ProcessingTimeSessionWindows(5), None),
        (TumblingProcessingTimeWindows(100_000), ContinuousProcessingTimeTrigger(50)),
        (GlobalWindows(), ProcessingTimeoutTrigger(NeverTrigger(), 30)),
    ],
    ids=["tumbling", "sliding", "session", "continuous", "timeout"],
)
def test_processing_time(tmp_path: Path, assigner: WindowAssigner, trigger: Any) -> None:
    """Each element is in windows that hold it, and those that the clock has passed have fired."""
    elements = [("a", 0, chr(ord("a") + number)) for number in range(20)]
    job = TestJob(tmp_path, Script((1,)), clock=Ticks(7))
    job.run(graph(elements, spec(assigner, trigger), timed=False, key_type=Types.STRING()))
    texts = [text for _, _, text in job.output]
    assert texts
    whole = "".join(text for _, _, text in elements)
    assert all(text in whole for text in texts)  # in order, none repeated within a window
    if (
        isinstance(assigner, (TumblingProcessingTimeWindows, ProcessingTimeSessionWindows))
        and trigger is None
    ):
        assert whole.startswith("".join(texts))  # each element once
        left = state_at(job.table(), allow_pickle=True).states[UID, CONTENTS].values()
        kept = "".join(element[2] for entry in left for element in entry)
        assert "".join(texts) + kept == whole  # windows that have fired are gone; open ones are not given


class Named(Window):
    """Elements with the same first letter."""

    def __init__(self, name: str) -> None:
        self.name = name

    def max_timestamp(self) -> int:
        return 1000 + ord(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class NamedSerializer(TypeSerializer):
    def serialize(self, element: Any, stream: BytesIO) -> None:
        stream.write(element.name.encode())

    def deserialize(self, stream: BytesIO) -> Named:
        return Named(stream.read().decode())


class ByLetter(WindowAssigner):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        assert context.get_runtime_context().get_task_name() == "windows"
        return [Named(letter) for letter in sorted(set(element[2]))]

    def get_default_trigger(self, env: Any) -> Trigger:
        return EventTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer:
        return NamedSerializer()

    def is_event_time(self) -> bool:
        return True


class Names(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Iterator[Any]:
        yield window.name, [value[2] for value in inputs]


def test_windows_of_a_programs_own_survive_restores(tmp_path: Path) -> None:
    elements = a((1, "ab"), (2, "b"), (3, "cba"), (4, "a"))
    failures = (Failure(2, Fault.GONE, 1, 0), Failure(3, Fault.DRIVER, 1, 0))
    (seen,) = outputs(tmp_path, graph(elements, spec(ByLetter(), None, Names())), (1,), failures=failures)
    assert seen == [("a", ["ab", "cba", "a"]), ("b", ["ab", "b", "cba"]), ("c", ["cba"])]


class Everything(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Iterator[Any]:
        assert isinstance(context, ProcessAllWindowFunction.Context)
        yield context.window().start, [value[2] for value in elements]


def test_results_have_the_timestamp_of_what_made_the_window_fire(tmp_path: Path) -> None:
    """The window's last ms, or a late element's time: so windows of windows work."""
    build = GraphBuilder()
    stream = build.timestamps(
        build.source([("a", 1, "x"), ("a", 21, "y"), ("a", 3, "z")]), lambda element: element[1]
    )
    keyed = build.key_by(stream, lambda element: element[0])
    first = spec(TumblingEventTimeWindows(10), None, Texts(), allowed_lateness_ms=50)
    windows = build.add(NodeKind.WINDOW, "first", keyed, function=first)
    again = build.key_by(windows, lambda result: b"\0")
    second = spec(
        TumblingEventTimeWindows(20), None, Everything(), firing=Firing.PROCESS_ALL, allowed_lateness_ms=50
    )
    build.collect(
        build.add(NodeKind.WINDOW, "second", again, function=second, parallelism=1, max_parallelism=1)
    )
    (seen,) = outputs(tmp_path, build.graph(), (1,))
    assert seen == [(0, ["x"]), (0, ["x", "xz"]), (20, ["y"])]


def test_a_reduction_to_none_is_refused(tmp_path: Path) -> None:
    class Nothing:
        def reduce(self, value1: Any, value2: Any) -> None:
            return None

    windows = WindowSpec(
        TumblingEventTimeWindows(10), EventTimeTrigger(), contents_spec(StateKind.REDUCING, ANY, Nothing())
    )
    with pytest.raises(JobExecutionError, match="None cannot be added"):
        outputs(tmp_path, graph(a((1, "x"), (2, "y")), windows), restart=NO_RESTART)


def test_functions_are_opened_and_closed(tmp_path: Path) -> None:
    calls: list[str] = []
    Opened.record = staticmethod(calls.append)
    windows = WindowSpec(
        TumblingEventTimeWindows(10),
        EventTimeTrigger(),
        contents_spec(StateKind.AGGREGATING, Types.STRING(), Opened()),
        Firing.APPLY,
        Show(),
    )
    (seen,) = outputs(tmp_path, graph(a((1, "x")), windows))
    assert seen == [("a", (0, 10), ["<x>"])]
    assert calls == ["open", "close"]


class Opened(JoinTexts):
    record: Callable[[str], None] = staticmethod(print)

    def open(self, runtime_context: Any) -> None:
        type(self).record("open")

    def close(self) -> None:
        type(self).record("close")
