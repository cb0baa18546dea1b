"""Reliability, restore: case 33, and changes of the job between two drivers (23, 24, 25, 28 in part)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.functions import Count, by_key, counted, rounds
from support.graphs import Assigner, GraphBuilder, keyed_job
from support.jobs import TestJob
from support.live import logged_state
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.connectors.protocols import Range, Source, Split, SplitReader
from changelog_engine.errors import RestoreError
from changelog_engine.graph.nodes import NodeKind, Partitioner, PartitionSpec, WatermarkSpec
from changelog_engine.spark.runtimes import Runtimes
from materializer.fold import state_at

ELEMENTS = rounds(5, 40)


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_case_33_processes_gone_after_a_checkpoint(tmp_path: Path, changelog: bool, parallelism: int) -> None:
    """The next epoch restores by itself: no failure, no restart."""
    failures = tuple(Failure(epoch, Fault.GONE) for epoch in (2, 3, 6))
    job = TestJob(tmp_path, Script(sizes=(5,), failures=failures), changelog=changelog)
    job.run(keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), parallelism=parallelism))
    assert job.coordinator.restarts.count == 0
    assert by_key(job.output) == by_key(counted(ELEMENTS))
    restored = [[report.restored_ms is not None for report in reports] for reports in job.reports]
    assert [all(epoch) for epoch in restored[:8]] == [True, False, True, True, False, False, True, False]


def test_case_33_processes_gone_between_checkpoints(tmp_path: Path) -> None:
    """State newer than the checkpoint was lost: the job goes back to the checkpoint."""
    script = Script(sizes=(5,), barriers=(True, False), failures=(Failure(2, Fault.GONE),))
    job = TestJob(tmp_path, script)
    job.run(keyed_job(ELEMENTS, Count(), key_type=Types.LONG()))
    assert job.coordinator.restarts.count == 1
    assert by_key(job.output) == by_key(counted(ELEMENTS))


def test_case_56_processes_gone_after_the_first_epoch_of_each_attempt(tmp_path: Path) -> None:
    """As Spark ends idle ones while others restore for more than a minute: the second attempt comes forward."""
    failures = tuple(Failure(epoch, Fault.GONE) for epoch in range(1, 20, 2))
    job = TestJob(tmp_path, Script(sizes=(5,), barriers=(False, True), failures=failures))
    job.run(keyed_job(ELEMENTS, Count(), key_type=Types.LONG()))
    assert job.coordinator.restarts.count == 1
    assert by_key(job.output) == by_key(counted(ELEMENTS))


class TwoStates(KeyedProcessFunction):
    """One state is declared in open, one only when the first odd element comes."""

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context
        self.early = runtime_context.get_state(ValueStateDescriptor("early", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.early.update(value[1])
        if value[1] % 2 and value[1] < 10:
            self.context.get_state(ValueStateDescriptor("late", Types.LONG())).update(value[1])
        yield value


@pytest.mark.parametrize("uid", ["log", "inputs", "sinks", "uid:log"])
def test_an_operator_may_have_a_uid_that_checkpoints_use_for_something_else(tmp_path: Path, uid: str) -> None:
    """Behind the keyed operator, in its stage, timestamps keep how far they have come."""
    build = GraphBuilder("job", 1)
    keyed = build.key_by(build.source(ELEMENTS, uid="source"), lambda element: element[0], Types.LONG())
    counts = build.process(keyed, Count(), uid="process")
    spec = WatermarkSpec(Assigner(lambda element: element[1]), 0)
    timed = build.add(NodeKind.TIMESTAMPS, "timestamps", counts, function=spec, uid=uid)
    build.collect(timed)
    job = TestJob(tmp_path, Script(sizes=(5,), failures=(Failure(2, Fault.GONE), Failure(5, Fault.WORKER))))
    job.run(build.graph())
    assert by_key(job.output) == by_key(counted(ELEMENTS))


def test_a_state_that_is_declared_late_stays_known(tmp_path: Path) -> None:
    """After a restore nobody declares it again, and it is still in the checkpoints."""
    job = TestJob(tmp_path, Script(sizes=(10,), failures=(Failure(2, Fault.WORKER, 1, 0),)))
    job.run(keyed_job(rounds(4, 40), TwoStates(), key_type=Types.LONG(), parallelism=2))
    folded = state_at(job.table())
    assert folded.states["process", "early"] == {0: 36, 1: 37, 2: 38, 3: 39}
    assert folded.states["process", "late"] == {1: 9, 3: 7}


@pytest.mark.parametrize("parallelisms", [(1, 3), (3, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("changelog", [(True, True), (True, False), (False, True), (False, False)])
def test_cases_23_25_rescale(
    tmp_path: Path, parallelisms: tuple[int, int], changelog: tuple[bool, bool]
) -> None:
    job = TestJob(tmp_path, Script(sizes=(5,), failures=(Failure(4, Fault.HANDED_OUT),)))

    def graph(driver: int) -> Any:
        return keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), parallelism=parallelisms[driver])

    job.run(graph, changelog=lambda driver: changelog[driver])
    assert job.drivers == 2
    assert by_key(job.output) == by_key(counted(ELEMENTS))
    assert state_at(job.table()).states["process", "count"] == dict.fromkeys(range(5), 8)


def killed(tmp_path: Path, graph: Any, epoch: int = 3) -> TestJob:
    job = TestJob(tmp_path, Script(sizes=(5,), failures=(Failure(epoch, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    return job


def test_case_24_max_parallelism_changed_is_refused(tmp_path: Path) -> None:
    job = killed(tmp_path, keyed_job(ELEMENTS, Count(), max_parallelism=16))
    with pytest.raises(RestoreError, match=r"max parallelism 32.* made with 16") as raised:
        job.run_driver(keyed_job(ELEMENTS, Count(), max_parallelism=32))
    assert "'process'" in str(raised.value)
    assert "changelog.restore=none" in str(raised.value)
    job.run_driver(keyed_job(ELEMENTS, Count(), max_parallelism=16))
    assert by_key(job.output) == by_key(counted(ELEMENTS))


def test_uid_gone_is_refused(tmp_path: Path) -> None:
    job = killed(tmp_path, keyed_job(ELEMENTS, Count(), uid="old"))
    with pytest.raises(RestoreError, match="uid 'old'"):
        job.run_driver(keyed_job(ELEMENTS, Count(), uid="new"))
    job.run_driver(keyed_job(ELEMENTS, Count(), uid="old"))
    assert by_key(job.output) == by_key(counted(ELEMENTS))


class Alarm(KeyedProcessFunction):
    """Has timers and no state."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1_000 + value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp


def alarms(uid: str = "process", max_parallelism: int | None = None) -> Any:
    return keyed_job(
        [(str(key), number) for key, number in ELEMENTS],
        Alarm(),
        key_type=Types.STRING(),
        uid=uid,
        max_parallelism=max_parallelism,
        timestamp=lambda element: element[1],
    )


def test_case_28_timers_alone_are_state_too(tmp_path: Path) -> None:
    """An operator that keeps nothing but timers is known to the checkpoint, with the type of its keys."""
    job = killed(tmp_path, alarms(max_parallelism=16))
    assert state_at(job.table()).timers == {
        ("process", "event time"): [(1_000 + number, str(key)) for key, number in ELEMENTS[:15]]
    }
    with pytest.raises(RestoreError, match=r"32.*16"):
        job.run_driver(alarms(max_parallelism=32))
    with pytest.raises(RestoreError, match="uid 'process'"):
        job.run_driver(alarms(uid="other", max_parallelism=16))
    job.run_driver(alarms(max_parallelism=16))
    assert sorted(timestamp for _, timestamp in job.output) == [1_000 + number for _, number in ELEMENTS]
    assert logged_state(str(tmp_path)) == {}


class Sparse(Source, SplitReader):
    """A source of a few elements with pauses: some reads give nothing. The position counts reads."""

    bounded = True
    parallel = False
    output_type = None

    def __init__(self, reads: list[list[Any]]) -> None:
        self.reads = reads

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("sparse", 0)]

    def reader(self, split: Split) -> Sparse:
        return self

    def read(self, position: int, max_records: int) -> Range:
        return Range(self.reads[position], position + 1, position + 1 == len(self.reads))

    def close(self) -> None:
        pass


class Reminder(KeyedProcessFunction):
    """A processing-time timer that clears the key and gives an element."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.update(value[1])
        ctx.timer_service().register_processing_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        seen = self.seen.value()
        self.seen.clear()
        yield ctx.get_current_key(), timestamp, seen, ctx.time_domain().name


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
def test_case_28_processing_timers_that_fire_without_input(tmp_path: Path, changelog: bool) -> None:
    """They leave no state at all behind, and fire once."""
    source = Sparse([[("a", 350)], [], [], [], [], [], [("b", 10**9)]])
    script = Script(sizes=(5,), failures=(Failure(4, Fault.GONE), Failure(5, Fault.HANDED_OUT)))
    job = TestJob(tmp_path, script, changelog=changelog, clock=lambda: job.progress.epoch * 100)
    job.run(keyed_job(source, Reminder(), key_type=Types.STRING()))
    assert job.output == [("a", 350, 350, "PROCESSING_TIME")]


def test_watermarks_of_idle_and_ended_inputs_survive(tmp_path: Path) -> None:
    """One input ends without a last element; processes are gone then. Its watermark must not be waited for again."""
    first = Sparse([[("a", 5)], [], []])
    second = Sparse([[("b", 1)], [], [], [], [], [("b", 50)], [("b", 90)]])
    job = TestJob(tmp_path, Script(sizes=(5,), failures=(Failure(3, Fault.GONE),)))
    run_without_receivers(job, two_inputs(first, second))
    assert sorted(job.output) == [("a", 5), ("b", 1), ("b", 50), ("b", 90)]


def test_idleness_survives(tmp_path: Path) -> None:
    """One input goes idle while nothing is read, and the process that was told so is gone then."""
    first = Sparse([[("a", 5)], *[[]] * 9, [("a", 70)]])
    second = Sparse([[("b", 20)], *[[]] * 7, [("b", 50)], [], [], [("b", 90)]])
    script = Script(sizes=(5,), failures=(Failure(6, Fault.GONE),))
    job = TestJob(tmp_path, script, clock=lambda: job.progress.epoch * 100)
    run_without_receivers(job, two_inputs(first, second, idle_timeout_ms=300))
    assert sorted(job.output) == [("a", 5), ("a", 70), ("b", 20), ("b", 50), ("b", 90)]
    undisturbed = TestJob(
        tmp_path / "undisturbed", Script(sizes=(5,)), clock=lambda: undisturbed.progress.epoch * 100
    )
    undisturbed.run(two_inputs(first, second, idle_timeout_ms=300))
    assert job.output == undisturbed.output
    assert [stats.mutations for stats in job.stats] == [stats.mutations for stats in undisturbed.stats]


def test_idleness_passes_through_a_stage(tmp_path: Path) -> None:
    """The first input is silent for ever; what waits on the second must not wait for it, two exchanges away."""
    first, second = Sparse([[] for _ in range(40)]), Sparse([[("b", 20)], *[[]] * 7, [("b", 50)], *[[]] * 20])
    job = TestJob(tmp_path, Script(sizes=(5,)), clock=lambda: job.progress.epoch * 100)
    fired: list[int] = []
    job.collected = lambda node, elements: fired.append(job.progress.epoch)  # type: ignore[method-assign]
    job.run(two_inputs(first, second, idle_timeout_ms=300, moved=True))
    assert fired[0] < 20, "the timer at 20 fired at the end of the input only"


def two_inputs(first: Any, second: Any, idle_timeout_ms: int | None = None, moved: bool = False) -> Any:
    """Two sources, each with timestamps, united and keyed; or moved to other subtasks first."""
    build = GraphBuilder()
    streams = [
        build.timestamps(
            build.source(source, uid=uid), lambda element: element[1], 0, idle_timeout_ms=idle_timeout_ms
        )
        for uid, source in (("first", first), ("second", second))
    ]
    if moved:
        spec = PartitionSpec(Partitioner.REBALANCE)
        spread = [build.add(NodeKind.PARTITION, "rebalance", stream, function=spec) for stream in streams]
        streams = [build.add(NodeKind.FILTER, "all", stream, function=Everything()) for stream in spread]
    union = build.add(NodeKind.UNION, "union", *streams)
    keyed = build.key_by(union, lambda element: element[0], Types.STRING())
    build.collect(build.process(keyed, AtOwnTime(), uid="process"))
    return build.graph()


def run_without_receivers(job: TestJob, graph: Any) -> None:
    """GONE loses only the keyed stage's processes: the senders still hold that they told it everything."""

    def clear(runtimes: Runtimes) -> None:
        last = max(runtimes.held, default=(0, 0))[0]
        for name in [name for name in runtimes.held if name[0] == last]:
            runtimes._drop(name)

    with mock.patch.object(Runtimes, "clear", clear):
        job.run(graph)


class Everything:
    """A filter that keeps all."""

    def filter(self, value: Any) -> bool:
        return True


class AtOwnTime(KeyedProcessFunction):
    """Gives each element when the watermark passes it."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp
