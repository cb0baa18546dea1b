"""Windows against plain lists, and the short way of the operator against the general one, whatever crashes."""

from __future__ import annotations

import logging
import tempfile
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.backends import BackendCase
from support.chance import fewer
from support.jobs import TestJob
from support.script import Script
from support.scripts import EXACT, scripts
from support.window_model import UID, AnyTrigger, Case, Element, WindowModel, window_job

from api.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from changelog_engine.graph.nodes import JobGraph, StateKind
from changelog_engine.operators import windows_sessions
from changelog_engine.operators.windows_aligned import is_aligned
from changelog_engine.operators.windows_sessions import is_session
from changelog_engine.windowing.spec import CONTENTS, Firing
from materializer.fold import FoldedState, state_at


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """Restarts are what these tests are about: hundreds of warnings say nothing new."""
    logging.getLogger("changelog_engine").setLevel(logging.ERROR)


COMBINED = [StateKind.REDUCING, StateKind.AGGREGATING]


@st.composite
def inputs(draw: st.DrawFn, spread: int) -> list[Element]:
    """Elements of three keys, out of order by up to ``spread`` ms; their texts tell them apart."""
    drawn = draw(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.integers(-spread, 0)),
            min_size=1,
            max_size=30,
        )
    )
    now, elements = 0, []
    for number, (key, step, back) in enumerate(drawn):
        now += step
        elements.append((key, now + back, f"{key}{number},"))
    return elements


@st.composite
def cases(draw: st.DrawFn, sessions: bool) -> Case:
    """Windows of any size and lateness, with anything done to their elements."""
    kind = draw(st.sampled_from([StateKind.LIST, *COMBINED]))
    firing = draw(st.sampled_from([Firing.APPLY, Firing.PROCESS] + [Firing.EMIT] * (kind in COMBINED)))
    lateness = draw(st.sampled_from([0, 0, 3, 25]))
    if sessions:
        return Case(kind, firing, draw(st.integers(1, 12)), lateness=lateness)
    size = draw(st.integers(1, 20))
    slide = draw(st.one_of(st.just(size), st.integers(1, 25)))
    return Case(kind, firing, size, slide, draw(st.integers(1 - slide, slide - 1)), lateness)


def folded(state: FoldedState) -> dict[str, Any]:
    """State in the model's form."""
    homes = state.states.get((UID, "__merging_windows"), {})
    return {
        "contents": dict(state.states[UID, CONTENTS].items()) if (UID, CONTENTS) in state.states else {},
        "timers": sorted(state.timers.get((UID, "event time"), [])),
        "homes": {key: dict(entry.items()) for key, entry in homes.items()},
    }


def by_key(output: list[Any], case: Case) -> dict[str, list[Any]]:
    """Results by key, in order."""
    found: dict[str, list[Any]] = {}
    for result in output:
        key = result[1] if case.kind is StateKind.AGGREGATING and case.firing is Firing.EMIT else result[0]
        found.setdefault(key, []).append(result)
    return found


def sinks(graph: JobGraph) -> list[int]:
    """The sink of results, and that of late elements."""
    return [node.id for node in graph.nodes if node.name == "collect"]


@pytest.mark.parametrize("sessions", [False, True], ids=["aligned", "sessions"])
@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
@fewer(2)
@given(data=st.data())
def test_any_run_equals_the_model(sessions: bool, changelog: bool, data: st.DataObject) -> None:
    check_against_model(sessions, BackendCase("hashmap", changelog), data)


@given(data=st.data())
@fewer(4)
def test_any_run_equals_the_model_on_every_backend(every_backend: BackendCase, data: st.DataObject) -> None:
    check_against_model(data.draw(st.booleans(), "sessions"), every_backend, data)


def check_against_model(sessions: bool, backend: BackendCase, data: st.DataObject) -> None:
    case = data.draw(cases(sessions), "case")
    elements = data.draw(inputs(data.draw(st.sampled_from([0, 10, 60]))), "elements")
    lag_ms = data.draw(st.sampled_from([None, 0, 5, 40]), "lag_ms")
    parallelism = data.draw(st.integers(1, 3), "parallelism")
    script = data.draw(scripts(EXACT, parallelism=parallelism), "script")
    spec = case.spec()
    if case.slide == case.size and data.draw(st.booleans(), "tumbling"):
        spec = case.spec(TumblingEventTimeWindows(case.size, case.offset))
    assert is_aligned(spec) is not sessions
    graph = window_job(elements, spec, lag_ms, parallelism)
    with tempfile.TemporaryDirectory() as base:
        job = TestJob(base, script, **backend.settings(base))
        job.run(graph)
        model = WindowModel(case, lag_ms)
        states = model.run(elements, job.committed_epochs)
        results, late = sinks(graph)
        assert by_key(job.outputs.get(results, []), case) == model.output
        assert sorted(job.outputs.get(late, [])) == sorted(model.late)
        if backend.changelog:  # older full snapshots are retired
            for checkpoint, epochs in job.epochs_at.items():
                expected = states[epochs - 1] if epochs else {"contents": {}, "timers": [], "homes": {}}
                assert folded(state_at(job.table(), checkpoint)) == expected


@pytest.mark.parametrize("sessions", [False, True], ids=["aligned", "sessions"])
@fewer(2)
@given(data=st.data())
def test_the_short_way_equals_the_general_one(sessions: bool, data: st.DataObject) -> None:
    """Results, order, state at each checkpoint, mutations of contents; of the operator's account only net changes."""
    case = data.draw(cases(sessions), "case")
    elements = data.draw(inputs(data.draw(st.sampled_from([0, 10, 60]))), "elements")
    lag_ms = data.draw(st.sampled_from([None, 0, 5, 40]), "lag_ms")
    sizes = tuple(data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=4), "sizes"))
    most_changed = data.draw(st.sampled_from([1, windows_sessions._MOST_CHANGED]), "most_changed")
    seen, logged = [], []
    for spec in (case.spec(), case.spec(trigger=AnyTrigger())):
        graph = window_job(elements, spec, lag_ms)
        with (
            tempfile.TemporaryDirectory() as base,
            patch.object(windows_sessions, "_MOST_CHANGED", most_changed),
        ):
            job = TestJob(base, Script(sizes))
            job.run(graph)
            states = [folded(state_at(job.table(), checkpoint)) for checkpoint in job.epochs_at]
            counts = [report.logged.get(UID, {}) for reports in job.reports for report in reports]
            contents = [count.get(CONTENTS, 0) for count in counts]
            seen.append(([job.outputs.get(sink, []) for sink in sinks(graph)], states, contents))
            logged.append([sum(count.values()) for count in counts])
    assert (is_aligned(case.spec()), is_session(case.spec())) == (not sessions, sessions)
    general = case.spec(trigger=AnyTrigger())
    assert not is_aligned(general)
    assert not is_session(general)
    assert seen[0] == seen[1]
    assert all(net <= each for net, each in zip(*logged, strict=True))


@given(data=st.data())
def test_sliding_windows_are_tumbling_ones_when_the_slide_is_the_size(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 20), "size")
    offset = data.draw(st.integers(1 - size, size - 1), "offset")
    time = data.draw(st.integers(-(2**40), 2**40), "time")
    (window,) = SlidingEventTimeWindows(size, size, offset).windows_at(time)
    assert [window] == TumblingEventTimeWindows(size, offset).windows_at(time)
    assert window.start <= time < window.end == window.start + size
    assert (window.start - offset) % size == 0
