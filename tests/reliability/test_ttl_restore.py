"""Reliability, case 27: state with a time to live over a restore."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.backends import BackendCase
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import logged_state
from support.same import exact
from support.script import Failure, Fault, Script

from api.common import Time
from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.corrections import repair
from changelog_engine.errors import JobExecutionError
from changelog_engine.graph.nodes import JobGraph
from changelog_engine.inspection.live import state_samples
from changelog_engine.ledger.ledger import Ledger
from materializer.fold import state_at


class Clock:
    """The wall clock, found by import: the function's copy moves it."""

    now = 0


class Fill(KeyedProcessFunction):
    """Keeps what it gets in states with a time to live (0: without), and tells what a value state holds."""

    def __init__(self, ttl_ms: int, **more: bool) -> None:
        self.ttl_ms = ttl_ms
        self.more = more

    def open(self, runtime_context: Any) -> None:
        value = ValueStateDescriptor("value", Types.LONG())
        elements = ListStateDescriptor("list", Types.LONG())
        entries = MapStateDescriptor("map", Types.STRING(), Types.LONG())
        if self.ttl_ms:
            builder = StateTtlConfig.new_builder(
                Time.milliseconds(self.ttl_ms)
            ).disable_cleanup_in_background()
            if self.more.get("show"):
                builder.return_expired_if_not_cleaned_up()
            for descriptor in (value, elements, entries):
                descriptor.enable_time_to_live(builder.build())
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(elements)
        self.map = runtime_context.get_map_state(entries)

    def process_element(self, value: tuple[str, int, int], ctx: Any) -> Iterator[Any]:
        key, at, number = value
        Clock.now = at
        yield key, self.value.value()
        self.value.update(number)
        self.list.add(number)
        self.map.put(str(number), number)


FIRST = [("old", 1_000, 1), ("both", 1_000, 2), ("both", 1_080, 3), ("new", 1_080, 4)]


def run(job: TestJob, elements: list[Any], ttl_ms: int, restore: str = "auto", **more: bool) -> None:
    graph: JobGraph = keyed_job(elements, Fill(ttl_ms, **more), key_type=Types.STRING())
    job.run_driver(graph, restore=restore)


def started(base: Path, **settings: Any) -> TestJob:
    Clock.now = 0
    job = TestJob(base, None, lambda: Clock.now, **settings)
    run(job, FIRST, 100)
    return job


@pytest.mark.parametrize("show", [False, True])
def test_case_27_a_restore_drops_what_expired(tmp_path: Path, every_backend: BackendCase, show: bool) -> None:
    """Before any element comes, and whether or not expired values may be shown. The removals are in the log."""
    job = started(tmp_path, **every_backend.settings(tmp_path))
    Clock.now = 1_120
    run(job, FIRST, 100, "latest", show=show)
    assert logged_state(str(tmp_path)) == {
        ("process", "value"): {exact("both"): (1_080, 3), exact("new"): (1_080, 4)},
        ("process", "list"): {exact("both"): [(1_080, 3)], exact("new"): [(1_080, 4)]},
        ("process", "map"): {exact("both"): [("3", (1_080, 3))], exact("new"): [("4", (1_080, 4))]},
    }


@pytest.mark.parametrize(
    ("ttl_ms", "seen"), [(50, [None, None, None]), (110, [None, 3, 4]), (1_000, [1, 3, 4])]
)
def test_case_27_the_length_may_change(
    tmp_path: Path, every_backend: BackendCase, ttl_ms: int, seen: list[int | None]
) -> None:
    """What was accessed before counts by the new length."""
    Clock.now = 0
    script = Script(sizes=(len(FIRST),), failures=(Failure(1, Fault.HANDED_OUT),))
    job = TestJob(tmp_path, script, lambda: Clock.now, **every_backend.settings(tmp_path))
    keys = ("old", "both", "new")
    elements = [*FIRST, *((key, 1_150, 9) for key in keys)]
    job.run(lambda driver: keyed_job(elements, Fill(ttl_ms if driver else 100), key_type=Types.STRING()))
    assert job.drivers == 2
    assert job.output[len(FIRST) :] == list(zip(keys, seen, strict=True))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (100, 0, "with a time to live and is declared without one"),
        (0, 100, "without a time to live .* with one"),
    ],
)
def test_case_27_it_cannot_be_switched_on_or_off(tmp_path: Path, before: int, after: int, words: str) -> None:
    """As Flink documents it; nothing is changed by the attempt to."""
    Clock.now = 0
    job = TestJob(tmp_path, None, lambda: Clock.now)
    run(job, FIRST, before)
    state = logged_state(str(tmp_path))
    with pytest.raises(JobExecutionError, match=f"state 'value' of operator 'process' was written {words}"):
        run(job, FIRST, after, "latest")
    assert logged_state(str(tmp_path)) == state
    run(job, FIRST, before, "latest")


def test_case_27_what_the_job_sees_after_the_clock_was_set_back_is_seen_by_readers(tmp_path: Path) -> None:
    """Checkpoints keep their parent's later time; by that, what the job has just written had expired."""
    Clock.now = 0
    elements = [("a", 10_000, 1), ("b", 1_000, 2), ("b", 1_050, 3), ("c", 1_060, 4)]
    job = TestJob(tmp_path, Script(sizes=(1, 1, 2)), lambda: Clock.now)
    job.run(keyed_job(elements, Fill(100), key_type=Types.STRING()))
    assert job.output == [("a", None), ("b", None), ("b", 2), ("c", None)]
    assert [row.time_ms for row in job.commits] == [10_000] * len(job.commits)
    state = state_at(job.table())
    assert dict(state.states["process", "value"]) == {"a": 1, "b": 3, "c": 4}
    assert state.states["process", "list"]["b"] == [2, 3]
    assert state.accessed["process", "value"]["b"] == 1_050
    ledger = Ledger.at(job.table())
    for sample in state_samples(ledger, job.commits[-1], 10):
        assert {entry.key for entry in sample.entries} == {"a", "b", "c"}
    fixed = repair(
        str(tmp_path / "job"),
        None,
        lambda entry: entry.value + 1,
        who="a",
        why="b",
        state="value",
        dry_run=True,
    )
    assert {each.key: each.after for each in fixed.corrections} == {"a": 2, "b": 4, "c": 5}
