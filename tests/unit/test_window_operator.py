"""The window operator in whole jobs in this process: triggers, state, merging, time domains, restores, failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.jobs import NO_RESTART, TestJob
from support.script import Script
from support.window_jobs import UID, Texts, a, graph, outputs, spec
from support.window_model import JoinTexts

from api.common import Types
from api.datastream import AggregateFunction, OutputTag, ProcessWindowFunction
from api.datastream.functions import KeyedStateStore
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from api.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from changelog_engine.errors import JobExecutionError
from changelog_engine.graph.nodes import NodeKind, StateKind
from changelog_engine.testing.harness import OperatorHarness
from changelog_engine.windowing.spec import CONTENTS, WindowSpec, contents_spec
from materializer.fold import state_at


class Asked(Trigger):
    """Does what the element's text says, and remembers how often it was asked, in state of the window."""

    def __init__(self) -> None:
        self.asked = ReducingStateDescriptor("asked", lambda x, y: x + y, Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        state = ctx.get_partitioned_state(self.asked)
        state.add(1)
        return (
            TriggerResult[element[2]] if element[2] in TriggerResult.__members__ else TriggerResult.CONTINUE
        )

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.asked)

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.asked).clear()


def test_a_custom_trigger_fires_and_purges(tmp_path: Path) -> None:
    elements = a((1, "x"), (2, "FIRE"), (3, "y"), (4, "FIRE_AND_PURGE"), (5, "z"), (6, "PURGE"), (7, "FIRE"))
    (seen,) = outputs(tmp_path, graph(elements, spec(TumblingEventTimeWindows(10), Asked())))
    assert seen == [("a", 0, "xFIRE"), ("a", 0, "xFIREyFIRE_AND_PURGE"), ("a", 0, "FIRE")]


def test_trigger_state_belongs_to_the_window_and_goes_with_it(tmp_path: Path) -> None:
    elements = [*a((1, "x"), (2, "y")), ("b", 3, "w"), ("a", 11, "z"), ("b", 30, "v"), ("b", 31, "u")]
    job_graph = graph(elements, spec(TumblingEventTimeWindows(10), Asked()), key_type=Types.STRING())
    job = TestJob(tmp_path, Script((3, 1)))
    job.run(job_graph)
    states = [
        state_at(job.table(), checkpoint, allow_pickle=True) for checkpoint in sorted(job.epochs_at)[:3]
    ]
    assert [dict(state.states[UID, "window:asked"].items()) for state in states] == [
        {("a", "[0,10]"): 2, ("b", "[0,10]"): 1},
        {("a", "[10,20]"): 1},
        {},
    ]
    assert [dict(state.states[UID, CONTENTS].items()).keys() for state in states] == [
        {("a", "[0,10]"), ("b", "[0,10]")},
        {("a", "[10,20]")},
        set(),
    ]
    assert [state.timers[UID, "event time"] for state in states[:2]] == [
        [(9, ("a", "[0,10]")), (9, ("b", "[0,10]"))],
        [(19, ("a", "[10,20]"))],
    ]


def test_trigger_state_merges_with_the_windows(tmp_path: Path) -> None:
    elements = [*a((1, "p"), (2, "q"), (20, "r"), (11, "s")), ("b", 21, "t")]
    job = TestJob(tmp_path, Script((2, 1, 1, 1)))
    build = graph(elements, spec(EventTimeSessionWindows(10), Asked(), allowed_lateness_ms=100))
    job.run(build)
    states = [
        state_at(job.table(), checkpoint, allow_pickle=True) for checkpoint in sorted(job.epochs_at)[:3]
    ]
    assert [dict(state.states[UID, "window:asked"].items()) for state in states] == [
        {("a", "[1,12]"): 2},
        {("a", "[1,12]"): 2, ("a", "[20,30]"): 1},
        {("a", "[1,30]"): 4},
    ]
    assert [dict(state.states[UID, "__merging_windows"]["a"].items()) for state in states] == [
        {"[1,12]": "[1,11]"},
        {"[1,12]": "[1,11]", "[20,30]": "[20,30]"},
        {"[1,30]": "[1,11]"},
    ]


class Kinds(Asked):
    """Merges list and aggregating state too."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = ListStateDescriptor("texts", Types.STRING())
        self.joined = AggregatingStateDescriptor("joined", JoinTexts(), Types.STRING())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.get_partitioned_state(self.texts).add(element[2])
        ctx.get_partitioned_state(self.joined).add(element)
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.texts)
        ctx.merge_partitioned_state(self.joined)


def test_list_and_aggregating_trigger_state_merge(tmp_path: Path) -> None:
    job = TestJob(tmp_path, Script((3,)))
    job.run(
        graph(
            a((1, "p"), (20, "q"), (11, "r")),
            spec(EventTimeSessionWindows(10), Kinds(), allowed_lateness_ms=99),
        )
    )
    state = state_at(job.table(), min(job.epochs_at), allow_pickle=True)
    assert dict(state.states[UID, "window:texts"].items()) == {("a", "[1,30]"): ["p", "q", "r"]}
    assert dict(state.states[UID, "window:joined"].items()) == {("a", "[1,30]"): "pqr"}


class MergesValue(Asked):
    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(ValueStateDescriptor("v", Types.LONG()))


class SaysNothing(Asked):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        return None


class Fails(Texts):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        raise ArithmeticError("my mistake")


class WindowStateOfSessions(ProcessWindowFunction):
    def process(self, key: Any, content: Any, elements: Any) -> Any:
        content.window_state().get_state(ValueStateDescriptor("mine", Types.LONG()))


class MovesBack(MergingWindowAssigner):
    """Merges into a window that ended long ago."""

    def __init__(self) -> None:
        self.inner = EventTimeSessionWindows(10)

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return self.inner.assign_windows(element, timestamp, context)

    def merge_windows(self, windows: Any, callback: Any) -> None:
        every = list(windows)
        callback.merge(every, type(every[0])(-100, -50))

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return self.inner.get_window_serializer()

    def is_event_time(self) -> bool:
        return True


class Forgets(AggregateFunction):
    """Gathers texts in a list, and forgets to return it."""

    def __init__(self, call: str) -> None:
        self.call = call

    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: Any, accumulator: list[str]) -> Any:
        accumulator.append(value[2])
        return None if self.call == "add" else accumulator

    def merge(self, acc_a: list[str], acc_b: list[str]) -> Any:
        acc_a.extend(acc_b)

    def get_result(self, accumulator: list[str]) -> str:
        return "".join(accumulator)


def aggregated(call: str) -> WindowSpec:
    """Sessions of an aggregate function that forgets to return what one of its calls made."""
    contents = contents_spec(StateKind.AGGREGATING, Types.PICKLED_BYTE_ARRAY(), Forgets(call))
    return WindowSpec(EventTimeSessionWindows(10), EventTimeTrigger(), contents, allowed_lateness_ms=99)


@pytest.mark.parametrize(
    ("windows", "timed", "message"),
    [
        (
            spec(EventTimeSessionWindows(10), MergesValue()),
            True,
            "'v', a value state, which cannot be merged",
        ),
        (
            spec(TumblingEventTimeWindows(10), SaysNothing()),
            True,
            "SaysNothing of operator 'window' returned None",
        ),
        (
            spec(TumblingEventTimeWindows(10), None, Fails()),
            True,
            "apply of operator 'window', key 'a' raised Arith",
        ),
        (spec(TumblingEventTimeWindows(10)), False, "needs timestamps, and an element has none"),
        (
            spec(EventTimeSessionWindows(10), None, WindowStateOfSessions()),
            True,
            "'mine', but these windows merge",
        ),
        (spec(MovesBack()), True, "merging must not move the end of a window back"),
        (
            aggregated("add"),
            True,
            r"key .* Forgets\.add\(\) returned None, and it must return the accumulator",
        ),
        (aggregated("merge"), True, r"key .* Forgets\.merge\(\) returned None"),
    ],
    ids=["merge", "result", "function", "timestamps", "window state", "back", "add", "merged"],
)
def test_mistakes_are_named(tmp_path: Path, windows: WindowSpec, timed: bool, message: str) -> None:
    elements = a((1, "x"), (15, "y"), (14, "z"), (5, "w"))
    with pytest.raises(JobExecutionError, match=message):
        outputs(tmp_path, graph(elements, windows, timed=timed), (2,), restart=NO_RESTART)


class Firings(ProcessWindowFunction):
    """Counts its firings by window and by key, under one name."""

    def open(self, runtime_context: Any) -> None:
        self.count = ValueStateDescriptor("count", Types.LONG())

    def process(self, key: Any, content: Any, elements: Any) -> Iterator[Any]:
        assert isinstance(content, ProcessWindowFunction.Context)
        assert isinstance(content.window_state(), KeyedStateStore)
        counts = []
        for store in (content.window_state(), content.global_state()):
            state = store.get_state(self.count)
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield content.window().start, *counts
        yield ASIDE, (content.current_watermark(), content.current_processing_time())

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.count).clear()


ASIDE = OutputTag("aside")


def test_state_of_the_window_and_of_the_key(tmp_path: Path) -> None:
    elements = a((1, ""), (2, ""), (11, ""), (3, ""), (4, ""), (12, ""))
    windows = spec(TumblingEventTimeWindows(10), CountTrigger.of(2), Firings())
    job = TestJob(tmp_path, Script((100,)), clock=lambda: 77)
    job_graph = graph(elements, windows, aside="aside", key_type=Types.STRING())
    job.run(job_graph)
    main, aside = (job.outputs[node.id] for node in job_graph.nodes if node.kind is NodeKind.SINK)
    assert main == [(0, 1, 1), (0, 2, 2), (10, 1, 3)]
    assert aside == [(-(2**63), 77)] * 3
    end = state_at(job.table())
    assert dict(end.states[UID, "count"].items()) == {"a": 3}  # of the key: stays
    assert not end.states[UID, "window:count"]  # of windows: gone with them


def test_late_elements_fire_again_and_then_go_aside(tmp_path: Path) -> None:
    elements = a((1, "a"), (12, "b"), (2, "c"), (17, "d"), (3, "e"), (13, "f"))
    windows = spec(TumblingEventTimeWindows(10), allowed_lateness_ms=5, late_tag_id="late")
    main, late = outputs(tmp_path, graph(elements, windows, aside="late"), (1,))
    assert main == [("a", 0, "a"), ("a", 0, "ac"), ("a", 10, "bdf")]
    assert late == [("a", 3, "e")]


class OtherTrigger(EventTimeTrigger):
    """Windows with a trigger of the program's own go the general way."""


@pytest.mark.parametrize("trigger", [None, OtherTrigger()], ids=["short way", "general way"])
@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(10),
        SlidingEventTimeWindows(10, 5),
        SlidingEventTimeWindows(7, 3),
        EventTimeSessionWindows(10),
    ],
    ids=["tumbling", "sliding", "uneven", "sessions"],
)
def test_an_element_is_late_when_the_last_of_its_windows_has_gone(
    assigner: Any, lateness: int, trigger: Any
) -> None:
    """A window goes when the watermark is at its last ms, or, with lateness, so much later."""
    windows = spec(assigner, trigger, allowed_lateness_ms=lateness, late_tag_id="late")
    last = max(window.max_timestamp() for window in assigner.assign_windows(("a", 4, "x"), 4, None))
    goes = last + lateness
    for watermark, late in ((goes - 1, False), (goes, True), (goes + 1, True)):
        with OperatorHarness(graph([], windows, aside="late"), UID) as operator:
            operator.process_watermark(watermark)
            operator.process_element(("a", 4, "x"), 4)
            assert operator.side_output("late") == ([("a", 4, "x")] if late else [])
            assert bool(operator.state(CONTENTS)) is not late
            fired = [start for _, start, _ in operator.output]
            assert bool(fired) is (not late and last <= watermark)
            operator.process_watermark(goes)
            assert operator.state(CONTENTS) == {}


@pytest.mark.parametrize("trigger", [None, OtherTrigger()], ids=["short way", "general way"])
@pytest.mark.parametrize("lateness", [0, 5])
def test_an_element_in_no_window_is_late_by_its_own_time(lateness: int, trigger: Any) -> None:
    """Windows of 3 ms each 5 ms leave times out."""
    windows = spec(SlidingEventTimeWindows(3, 5), trigger, allowed_lateness_ms=lateness, late_tag_id="late")
    for watermark, late in ((4 + lateness - 1, []), (4 + lateness, [("a", 4, "x")])):
        with OperatorHarness(graph([], windows, aside="late"), UID) as operator:
            operator.process_watermark(watermark)
            operator.process_element(("a", 4, "x"), 4)
            assert operator.side_output("late") == late
            assert operator.state(CONTENTS) == {}


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(10), EventTimeSessionWindows(10)])
def test_windows_that_would_go_behind_the_end_of_time_have_no_timer_for_it(assigner: Any) -> None:
    time = (2**63 - 1) // 10 * 10 - 9
    windows = spec(assigner, allowed_lateness_ms=50)
    with OperatorHarness(graph([], windows), UID) as operator:
        operator.process_element(("a", time, "x"), time)
        (window,) = assigner.assign_windows(("a", time, "x"), time, None)
        assert [at for at, _ in operator.event_time_timers] == [window.max_timestamp()]
