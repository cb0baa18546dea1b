"""Reliability cases 23, 24, 25, 27 and 28: one program restored in other shapes.

From the log, snapshots and savepoints; with other parallelisms and state backends, the changelog on and off.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.functions import rounds
from support.graphs import GraphBuilder
from support.jobs import OneClock, TestJob
from support.programs import EPOCHS, KEYS, Program, Versions
from support.script import DriverKilled, Failure, Fault, Script
from support.window_jobs import Texts, spec

from api.common import Time
from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine.graph.nodes import JobGraph, NodeKind
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.savepoints.writer import create_savepoint
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

ELEMENTS = [(key, number, f"<{number}>") for key, number in rounds(7, 84)]


class Everything(KeyedProcessFunction):
    """Value, list and map, and timers of both kinds: one of each for every third element."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.last = runtime_context.get_map_state(MapStateDescriptor("last", Types.STRING(), Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, number, text = value
        self.sum.update((self.sum.value() or 0) + number)
        self.all.add(number)
        self.last.put("odd" if number % 2 else "even", text)
        if number % 3 == 0:
            ctx.timer_service().register_event_time_timer(number + 30)
            ctx.timer_service().register_processing_time_timer(number)
        yield key, "element", number, self.sum.value(), list(self.all.get()), sorted(self.last.items())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp, self.sum.value()
        if ctx.time_domain().name == "EVENT_TIME":
            self.last.clear()


def everything(parallelism: int) -> JobGraph:
    """One source; states and timers on one side, windows on the other."""
    build = GraphBuilder(parallelism=parallelism, max_parallelism=32)
    stream = build.timestamps(build.source(ELEMENTS, uid="source"), lambda element: element[1])
    build.collect(
        build.process(
            build.key_by(stream, lambda element: element[0], Types.LONG()), Everything(), uid="process"
        )
    )
    windows = spec(TumblingEventTimeWindows.of(Time.milliseconds(20)), function=Texts())
    keyed = build.key_by(stream, lambda element: element[0], Types.LONG())
    build.collect(build.add(NodeKind.WINDOW, "windows", keyed, function=windows, uid="windows"))
    return build.graph()


def by_key(job: TestJob) -> list[dict[int, list[Any]]]:
    """What each sink got, by key: elements and windows in order; processing-time timers depend on the clock's pace."""
    found = []
    for node in sorted(job.outputs):
        keys: dict[int, list[Any]] = {}
        for element in job.outputs[node]:
            keys.setdefault(element[0], []).append(element[1:])
        found.append(dict(sorted(keys.items())))
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[int, list[Any]]]:
    """The output of a job that nothing happens to."""
    base = tmp_path_factory.mktemp("undisturbed")
    job = TestJob(base, Script(sizes=(7,)), lambda: 7 * job.progress.epoch)  # type: ignore[union-attr]
    job.run_driver(everything(1))
    timers = [entry for entries in by_key(job)[0].values() for entry in entries if entry[0].endswith("TIME")]
    assert len(timers) == len(set(timers)) > 40
    assert {entry[0] for entry in timers} == {"EVENT_TIME", "PROCESSING_TIME"}
    return by_key(job)


SHAPES = {
    "up": [(1, True, "hashmap"), (3, True, "hashmap"), (7, True, "hashmap")],
    "down": [(5, True, "hashmap"), (2, True, "hashmap"), (1, True, "hashmap")],
    "up without changelog": [(1, False, "hashmap"), (4, False, "hashmap"), (2, False, "hashmap")],
    "switched off and on": [(2, True, "hashmap"), (3, False, "hashmap"), (1, True, "hashmap")],
    "switched on and off": [(2, False, "hashmap"), (1, True, "hashmap"), (3, False, "hashmap")],
    "backends": [(2, True, "hashmap"), (3, True, "rocksdb"), (1, True, "hashmap")],
    "all at once": [(1, False, "rocksdb"), (3, True, "hashmap"), (2, False, "rocksdb")],
}


@pytest.mark.parametrize(
    ("shape", "compacts"),
    [*((shape, False) for shape in SHAPES), ("up", True), ("down", True), ("all at once", True)],
)
def test_cases_23_25_28_output_of_every_shape_is_that_of_an_undisturbed_run(
    tmp_path: Path, shape: str, compacts: bool, undisturbed: list[Any]
) -> None:
    """Reliability cases 23, 25 and 28. Two crashes, then another shape each: keyed state, timers, windows."""
    shapes = SHAPES[shape]
    crashes = (Failure(4, Fault.HANDED_OUT), Failure(8, Fault.HANDED_OUT))
    job = TestJob(tmp_path, Script(sizes=(7,), failures=crashes), lambda: 7 * job.progress.epoch)  # type: ignore[union-attr]
    for parallelism, changelog, backend in shapes[:2]:
        with pytest.raises(DriverKilled):
            job.run_driver(everything(parallelism), changelog=changelog, state_backend=backend)
        if compacts and changelog:
            folder = find_job_folder(str(tmp_path), "job")
            materialize(folder, job.commits[-2].id)
            truncate(folder, Retention(history_ms=0, grace_ms=0))
    parallelism, changelog, backend = shapes[2]
    job.run_driver(everything(parallelism), changelog=changelog, state_backend=backend)
    assert job.coordinator.restarts.count == 0
    assert [commit.id for commit in job.commits[:8]] == list(range(1, 9))
    assert by_key(job) == undisturbed


def kept() -> list[Any]:
    """The states of Program here."""
    return [
        ValueStateDescriptor("value", Types.LONG()),
        ListStateDescriptor("list", Types.LONG()),
        MapStateDescriptor("map", Types.LONG(), Types.LONG()),
    ]


@pytest.mark.parametrize("start", ["latest", "2", "as-of", "savepoint"])
@pytest.mark.parametrize(
    ("before", "after", "changelog"),
    [
        ((1, "hashmap"), (3, "rocksdb"), (True, True)),
        ((4, "rocksdb"), (1, "hashmap"), (True, False)),
        ((2, "hashmap"), (3, "hashmap"), (False, True)),
    ],
    ids=["up to rocksdb", "down to 1 and changelog off", "up and changelog on"],
)
def test_cases_23_25_every_start_in_another_shape(
    tmp_path: Path,
    start: str,
    before: tuple[int, str],
    after: tuple[int, str],
    changelog: tuple[bool, bool],
) -> None:
    """Reliability cases 23 and 25. Newest, by id, by time, savepoint."""
    versions = Versions(tmp_path / "job", retained_checkpoints=5)
    versions.run(Program(kept, int), before[0], state_backend=before[1], changelog=changelog[0])
    chosen = 2 if start in ("2", "as-of") else EPOCHS
    folder = find_job_folder(str(tmp_path / "job"), "job")
    restore = start
    if start == "as-of":
        rows = Lineage(folder.open_changelog())
        time_ms = rows.checkpoint(2).time_ms
        chosen = max(number for number in (1, 2, 3) if rows.checkpoint(number).time_ms <= time_ms)
        restore = f"as-of:{datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()}"
    if start == "savepoint":
        newest = Lineage(folder.open_changelog()).newest_checkpoint()
        assert newest is not None
        restore = create_savepoint(folder, newest, str(tmp_path / "savepoints")).path
        shutil.rmtree(tmp_path / "job")
    found = versions.run(
        Program(kept, int), after[0], state_backend=after[1], changelog=changelog[1], restore=restore
    )
    for key in range(KEYS):
        numbers = [key + KEYS * epoch for epoch in range(chosen)]
        last = {number % 3: number for number in numbers}
        assert found[key] == {"value": numbers[-1], "list": numbers, "map": last}


@pytest.mark.parametrize("changelog", [True, False])
@pytest.mark.parametrize("start", ["auto", "2", "savepoint"])
def test_case_24_max_parallelism_changed_is_refused_with_both_numbers(
    tmp_path: Path, start: str, changelog: bool
) -> None:
    """Reliability case 24. Before anything is made: no attempt, no checkpoint, whatever the start."""
    versions = Versions(tmp_path / "job", changelog=changelog, retained_checkpoints=5)
    versions.run(Program(kept, int))
    folder = find_job_folder(str(tmp_path / "job"), "job")
    if start == "savepoint":
        newest = Lineage(folder.open_changelog()).newest_checkpoint()
        assert newest is not None
        start = create_savepoint(folder, newest, str(tmp_path / "savepoints")).path
    before = Lineage(folder.open_changelog())
    words = str(versions.refused(Program(kept, int), more={"max_parallelism": 64}, restore=start))
    assert words.startswith("operator 'process' (uid 'process') has max parallelism 64, but checkpoint ")
    assert "was made with 16;" in words
    assert "Call set_max_parallelism(16)" in words
    after = Lineage(folder.open_changelog())
    assert after.newest_attempt_id == before.newest_attempt_id
    assert after.newest_checkpoint_id == before.newest_checkpoint_id


class Clock:
    """The wall clock of the workers, in ms."""

    now = 0


def expiring(ttl_ms: int) -> Any:
    """A value state that lives for so long."""

    def make() -> list[Any]:
        descriptor = ValueStateDescriptor("value", Types.LONG())
        config = StateTtlConfig.new_builder(Time.milliseconds(ttl_ms)).disable_cleanup_in_background()
        descriptor.enable_time_to_live(config.build())
        return [descriptor]

    return make


@pytest.mark.parametrize("switch", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_case_27_what_expired_stays_so_in_every_shape(
    tmp_path: Path, switch: tuple[bool, bool], backend: str
) -> None:
    """Reliability case 27. A longer life brings nothing back that was removed; what lives goes on living."""
    Clock.now = 1_000
    versions = Versions(tmp_path)
    versions.job.clock = OneClock(lambda: Clock.now)
    versions.run(Program(expiring(100), int), 2, changelog=switch[0])
    Clock.now = 1_200
    assert versions.run(Program(expiring(100)), 3, changelog=switch[1], state_backend=backend) == {
        key: {"value": None} for key in range(KEYS)
    }
    found = versions.run(Program(expiring(10_000), int), 1, changelog=switch[0])
    assert found == {key: {"value": None} for key in range(KEYS)}
    Clock.now = 1_300
    found = versions.run(Program(expiring(500)), 2, changelog=switch[1], state_backend=backend)
    assert found == {key: {"value": 40 + key} for key in range(KEYS)}
