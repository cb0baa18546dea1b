"""Replays: unchanged deterministic code gives the recorded mutations and state; changed code is found out (cases 37, 38)."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chance import fewer
from support.functions import Keep, rounds
from support.graphs import GraphBuilder, keyed_job
from support.jobs import TestJob
from support.rescaled import RescaledJob
from support.script import Failure, Fault, Script
from support.scripts import EXACT, scripts
from support.window_model import Case, window_job

from api.common import Duration, Time, Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine.errors import CorruptChangelogError, RestoreError
from changelog_engine.graph.nodes import JobGraph, NodeKind, StateKind
from changelog_engine.operators import standing_still
from changelog_engine.operators.windows_sessions import SessionWindowOperator
from changelog_engine.provenance.explain import Replays
from changelog_engine.replay.job import ReplayReport, replay_graph
from changelog_engine.testing import At, Checkpoint, Crash, Pause, ScriptedSource, Watermark
from changelog_engine.windowing.spec import Firing


class Sessions(KeyedProcessFunction):
    """Values, lists, maps and timers that depend on the order of elements and watermarks."""

    factor = 1
    fails_at: Any = None

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY()))
        self.late = runtime_context.get_map_state(MapStateDescriptor("late", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        key, number = value
        if number == self.fails_at:
            raise ValueError("not this one")
        factor = self.factor if key == 1 else 1
        self.total.update((self.total.value() or 0) + number * factor)
        self.seen.add({number, number + 1})
        watermark = ctx.timer_service().current_watermark()
        if number <= watermark:
            self.late.put(number, watermark)
        ctx.timer_service().register_event_time_timer(number + 3)
        yield key, self.total.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp, len(list(self.seen.get()))
        self.seen.clear()


def graph(
    function: KeyedProcessFunction | None = None, parallelism: int = 2, records: int = 40, keys: int = 5
) -> JobGraph:
    return keyed_job(
        rounds(keys, records),
        function or Sessions(),
        timestamp=lambda element: element[1] - element[1] % 3,
        parallelism=parallelism,
        key_type=Types.LONG(),
        max_parallelism=8,
    )


def changed(**attributes: Any) -> Sessions:
    function = Sessions()
    for name, value in attributes.items():
        setattr(function, name, value)
    return function


def recorded(base: Path, script: Script | None = None, **settings: Any) -> TestJob:
    job = TestJob(base, script or Script((3, 5), (False, True, True)), **settings)
    job.run(graph())
    return job


def test_a_slow_replay_asks_nobody_whether_the_job_was_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no driver; on a busy machine, or with much to restore, a subtask of it does nothing for long."""
    job = recorded(tmp_path)
    minutes = itertools.count()
    monkeypatch.setattr(standing_still, "monotonic_s", lambda: 60.0 * next(minutes))
    assert replay_graph(graph(), job.settings, 0).equal


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def replay(
    job: TestJob, now: JobGraph, start: int | None, end: int | None = None, leave_out: Sequence[str] = ()
) -> ReplayReport:
    return replay_graph(now, job.settings, start, end, leave_out)


@fewer(2)
@given(scripts(EXACT, parallelism=2), st.data())
def test_unchanged_code_is_equal_whatever_happened(
    tmp_path_factory: pytest.TempPathFactory, script: Script, data: st.DataObject
) -> None:
    """Epochs of any size, several to a checkpoint, crashes and restarts in between, failed checkpoints left out."""
    tolerable = data.draw(st.integers(0, 2))
    job = recorded(tmp_path_factory.mktemp("job"), script, tolerable_failures=tolerable)
    last = job.commits[-1]
    ids = [n for segment in last.lineage for n in range(segment.first, segment.last + 1)]
    start = data.draw(st.sampled_from([None, *ids[:-1]]))
    report = replay(job, graph(parallelism=data.draw(st.integers(1, 3))), start, last.id)
    assert report.equal, report.text()
    later = [n for n in ids if start is None or n > start]
    assert report.checkpoints == len(later)
    counted = {row.id: row.rows for row in job.commits}
    assert report.recorded == report.replayed == sum(counted[n] for n in later)


@pytest.mark.parametrize("read_ahead", [False, True])
@pytest.mark.parametrize("failing", [(2,), (1, 2), (2, 3, 5)])
def test_epochs_before_a_checkpoint_that_failed_and_is_tolerated_are_cut_as_they_were(
    tmp_path: Path, failing: tuple[int, ...], read_ahead: bool
) -> None:
    """The checkpoint behind it has the epochs of both."""
    failures = tuple(Failure(epoch, Fault.COMMIT_FAILS) for epoch in failing)
    script = Script((3, 5), (False, True, True), failures)
    job = recorded(tmp_path, script, tolerable_failures=len(failing), read_ahead=read_ahead)
    assert job.coordinator.restarts.count == 0
    report = replay(job, graph(), None)
    assert report.equal, report.text()
    assert report.recorded == report.replayed > 0


def test_nothing_is_written_and_no_sink_is_called(tmp_path: Path) -> None:
    job = recorded(tmp_path / "jobs")
    before = contents(tmp_path)
    handed_out = len(job.output)
    assert replay(job, graph(), 2).equal
    assert not replay(job, graph(changed(factor=2)), 2).equal
    assert contents(tmp_path) == before
    assert len(job.output) == handed_out


def test_a_change_is_found_at_its_first_mutation(tmp_path: Path) -> None:
    job = recorded(tmp_path)
    report = replay(job, graph(changed(factor=3)), None)
    assert not report.equal
    assert {(each.operator, each.state, each.key) for each in (*report.mutations, *report.state)} == {
        ("process", "total", 1)
    }
    first = report.mutations[0]
    numbers = [number for key, number in rounds(5, 40) if key == 1]
    assert [mutation.value for mutation in first.recorded] == [1, 1 + 6]
    assert [mutation.value for mutation in first.replayed] == [3, 3 + 18]
    (final,) = report.state
    assert [mutation.value for mutation in final.recorded] == [sum(numbers)]
    assert [mutation.value for mutation in final.replayed] == [3 * sum(numbers)]
    assert report.counts() == {("process", "total"): (1, 1)}
    text = report.text(limit=1)
    assert "'total' of 'process': mutations of 1 key differ, final state of 1" in text
    assert "checkpoint 1: 'total' of 'process', key 1: mutation 1 of 2 recorded and 2 replayed\n" in text
    assert "  recorded: put 1\n  replayed: put 3\n" in text
    assert f"  recorded: {sum(numbers)}\n  replayed: {3 * sum(numbers)}\n" in text
    assert "more differences of mutations" in text


def test_a_change_that_the_range_does_not_meet_is_equal(tmp_path: Path) -> None:
    job = recorded(tmp_path)
    half = job.commits[len(job.commits) // 2].id
    assert replay(job, graph(changed(fails_at=0)), half).equal
    failing = replay(job, graph(changed(fails_at=39)), half)
    assert not failing.equal
    assert "not this one" in str(failing)
    assert replay(job, graph(changed(fails_at=39)), 1, half).equal


class Wakes(Sessions):
    """Also sets a timer an hour later by the clock, which stands elsewhere in a replay."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 3_600_000)
        yield from super().process_element(value, ctx) or ()


def test_timers_of_processing_time_can_be_left_out(tmp_path: Path) -> None:
    job = TestJob(tmp_path, Script(sizes=(10,)))
    job.run_driver(graph(Wakes()))
    names = {each.state for each in replay(job, graph(Wakes()), None).mutations}
    assert names == {"(processing time timers)"}
    for name in ("(processing time timers)", "process.(processing time timers)"):
        assert replay(job, graph(Wakes()), None, leave_out=[name]).equal
    assert not replay(job, graph(Wakes()), None, leave_out=["total"]).equal


class Forgets(Sessions):
    """Declares one state less."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        yield value


def test_mutations_that_do_not_come_any_more_are_missing(tmp_path: Path) -> None:
    job = recorded(tmp_path)
    report = replay(job, graph(Forgets()), 2)
    found = {(each.state, bool(each.recorded), bool(each.replayed)) for each in report.mutations}
    gone = {("seen", True, False), ("(event time timers)", True, False)}
    assert gone <= found <= {*gone, ("(event time timers)", True, True)}  # a key may also fire one of before
    assert "total" not in {each.state for each in report.mutations}
    assert "  replayed: nothing\n" in report.text(limit=1000)


def test_branches_are_replayed_apart(tmp_path: Path) -> None:
    job = TestJob(tmp_path, Script((4,), (True,)))
    job.run(graph())
    first_branch = job.commits[-1].id
    job.run_driver(graph(changed(factor=2)), restore="3")
    second_branch = job.commits[-1].id
    assert replay(job, graph(), 2, first_branch).equal
    assert replay(job, graph(changed(factor=2)), 3, second_branch).equal
    assert not replay(job, graph(), 3, second_branch).equal
    assert not replay(job, graph(changed(factor=2)), 3, first_branch).equal
    with pytest.raises(RestoreError, match=f"{second_branch} does not come after checkpoint 5 on one branch"):
        replay(job, graph(), 5, second_branch)


def test_what_cannot_be_replayed_says_why(tmp_path: Path) -> None:
    job = recorded(tmp_path)
    last = job.commits[-1].id
    with pytest.raises(RestoreError, match="no changelog in"):
        replay_graph(replace(graph(), name="other"), job.settings, None)
    assert not (tmp_path / "other").exists()
    with pytest.raises(RestoreError, match=f"no checkpoint {last + 1}"):
        replay(job, graph(), 1, last + 1)
    with pytest.raises(RestoreError, match="nothing to replay between"):
        replay(job, graph(), last, last)
    with pytest.raises(RestoreError, match=r"'total'.*'process'.*was written with"):
        replay(job, graph(Keep2()), 2)
    with pytest.raises(RestoreError, match=r"(?s)source 'source' does not come to the position"):
        replay(job, graph(records=20), 2)
    off = TestJob(tmp_path / "off", Script((5,), (True,)), changelog=False, retained_checkpoints=9)
    off.run(graph())
    with pytest.raises(RestoreError, match="made without the changelog"):
        replay(off, graph(), 1)
    part = next(
        p for p in sorted((tmp_path / "job" / "changelog").glob("part-*")) if not p.name.startswith("part-1-")
    )
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(CorruptChangelogError, match=part.name):
        replay(job, graph(), 1)


class Keep2(Keep):
    """A state of another type under a known name."""

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_list_state(ListStateDescriptor("total", Types.STRING()))


@pytest.mark.parametrize("records", [1, 9], ids=["ended in the first epoch", "ended later"])
def test_several_epochs_in_one_checkpoint_with_several_sources(tmp_path: Path, records: int) -> None:
    """Watermarks move at the end of each epoch, not of each checkpoint; sources end in different epochs."""
    build = GraphBuilder("job", 2, 8)
    one = build.timestamps(build.source(rounds(3, records), uid="one"), lambda element: element[1])
    other = build.timestamps(build.source(rounds(4, 30), uid="other"), lambda element: element[1] // 2)
    both = build.add(NodeKind.UNION, "union", one, other)
    build.collect(build.process(build.key_by(both, lambda element: element[0]), Sessions(), uid="process"))
    job = TestJob(tmp_path, Script((2,), (False, False, False, True), (Failure(6, Fault.WORKER),)))
    job.run(build.graph())
    assert len(job.commits) < len(job.committed_epochs)
    for start in (None, *(row.id for row in job.commits[:-1])):
        report = replay(job, build.graph(), start)
        assert report.equal, report.text()
    marks = [
        state.operators[uid]
        for row in job.commits
        for _, _, state in row.small_states()
        for uid in ("one", "other")
        if uid in state.operators
    ]
    assert marks


def test_epochs_as_the_engine_cuts_them(tmp_path: Path) -> None:
    """Many epochs to a checkpoint, at sizes and times of the engine's own choice."""
    job = TestJob(tmp_path, None, checkpoint_interval_ms=40, epoch_target_ms=5, epoch_max_records=150)
    job.run(graph(records=3_000, keys=50))
    for start in (None, *(row.id for row in job.commits[:-1][-2:])):
        report = replay(job, graph(records=3_000, keys=50), start)
        assert report.equal, report.text()


def test_watermarks_of_a_source_come_where_they_came(tmp_path: Path) -> None:
    items: list[Any] = []
    for key, number in rounds(3, 30):
        items.append(At((key, number), number))
        if number % 4 == 3:
            items += [Watermark(number - 1), *([Crash()] if number % 8 == 3 else [Checkpoint(), Pause(1)])]
    job_graph = keyed_job(
        ScriptedSource(items), Sessions(), key_type=Types.LONG(), parallelism=2, max_parallelism=8
    )
    job = TestJob(tmp_path, Script((3,), (False, True, True)))
    job.run(job_graph)
    for start in (None, *(row.id for row in job.commits[:-1])):
        report = replay(job, job_graph, start)
        assert report.equal, report.text()
    left = [item for item in items if item != Watermark(14)]
    other = keyed_job(
        ScriptedSource(left), Sessions(), key_type=Types.LONG(), parallelism=2, max_parallelism=8
    )
    with pytest.raises(RestoreError, match="does not come to the position"):
        replay(job, other, None)


class Times(KeyedProcessFunction):
    """When each element came, in event time."""

    def open(self, runtime_context: Any) -> None:
        self.came = runtime_context.get_list_state(ListStateDescriptor("came", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.came.add(ctx.timer_service().current_watermark())
        yield value


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2)])
def test_time_goes_on_where_a_job_went_on_with_another_parallelism(
    tmp_path: Path, before: int, after: int
) -> None:
    job = TestJob(tmp_path, Script((5,), (True,), (Failure(4, Fault.HANDED_OUT),)))
    job.run(lambda driver: graph(Times(), parallelism=after if driver else before))
    there = [row.id for row in job.commits if row.operators[-1].parallelism == before]
    report = replay(job, graph(Times()), there[-1])
    assert report.equal, report.text()
    assert len(report.notes) == 1
    whole = replay(job, graph(Times()), None)
    assert whole.equal, whole.text()
    assert f"last with checkpoint {there[-1] + 1}: each piece is replayed with its own" in whole.notes[0]


class LaterTimes(Times):
    def process_element(self, value: Any, ctx: Any) -> Any:
        self.came.add(ctx.timer_service().current_watermark() + (value[1] < 8))
        yield value


def test_each_piece_of_a_rescaled_job_is_replayed_with_its_own_parallelism(tmp_path: Path) -> None:
    """The order of a key's elements depends on it; what other code did in an early piece is not forgotten."""
    job = RescaledJob(tmp_path, Script((3,), (True, False)), wanted={2: 4, 4: 1, 6: 3})
    job.run(graph(Times(), parallelism=2))
    assert [made.changes[-1].after for made in job.answered()] == [4, 1, 3]
    for start in (None, *(row.id for row in job.commits[:-1])):
        report = replay(job, graph(Times()), start)
        assert report.equal, report.text()
    other = replay(job, graph(LaterTimes()), None)
    assert not other.equal
    assert {each.checkpoint or 0 for each in other.mutations} <= {row.id for row in job.commits[:4]}
    assert other.state == [], "the last piece began with what was recorded"


class Fleeting(KeyedProcessFunction):
    """The number of the last element, for a while."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("last", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.last.value()
        self.last.update(value[1])


def test_times_of_a_time_to_live_do_not_count(tmp_path: Path) -> None:
    job = TestJob(tmp_path, Script((4,), (True, False)))
    job.run(graph(Fleeting()))
    for start in (None, 2):
        report = replay(job, graph(Fleeting()), start)
        assert report.equal, report.text()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_on_every_backend(tmp_path: Path, backend: str) -> None:
    def job_graph(size_ms: int) -> JobGraph:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        kind = Types.TUPLE([Types.LONG(), Types.LONG()])
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(
            Duration.of_millis(3)
        ).with_timestamp_assigner(ByNumber())
        stream = env.from_collection(rounds(3, 40), kind).assign_timestamps_and_watermarks(strategy)
        windows = stream.key_by(lambda element: element[0], Types.LONG()).window(
            TumblingEventTimeWindows.of(Time.milliseconds(size_ms))
        )
        windows.reduce(lambda one, two: (one[0], one[1] + two[1])).uid("windows").print()
        return env.generate_stream_graph(job_name="job")

    job = TestJob(tmp_path, Script((3, 4), (False, True)), state_backend=backend)
    job.run(job_graph(10))
    assert replay(job, job_graph(10), 2).equal
    assert replay(job, job_graph(10), None).equal
    different = replay(job, job_graph(20), 2)
    assert any(each.namespace is not None for each in different.mutations)


def test_what_windows_keep_account_of_is_compared_by_net_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs of older engines have each timer and each longer session, new ones what is left of them at the checkpoint."""
    steps = random.Random(7)
    elements = [(steps.choice("abc"), place * 2 + steps.randrange(9), f"{place},") for place in range(60)]

    def sessions(gap_ms: int) -> JobGraph:
        case = Case(StateKind.REDUCING, Firing.EMIT, gap_ms, lateness=4)
        return window_job(elements, case.spec(), 3, 2)

    counts = []
    for net in (False, True):
        monkeypatch.setattr(SessionWindowOperator, "net", net)
        job = TestJob(tmp_path / str(net), Script((3, 4, 9), (False, True, True)))
        job.run(sessions(5))
        counts.append(sum(row.rows for row in job.commits))
        monkeypatch.setattr(SessionWindowOperator, "net", not net)
        for start in (None, 2):
            report = replay(job, sessions(5), start)
            assert report.equal, report.text()
        states = {each.state for each in replay(job, sessions(6), 2).mutations}
        assert states >= {"(event time timers)", "__merging_windows"}
    assert counts[1] < 0.8 * counts[0]


def test_sessions_that_grow_in_turns_are_explained(tmp_path: Path) -> None:
    """The operator takes their old selves out of its account in one order, the replay that explains in another."""
    times = [0, 100, 3, 103, 6, 500]
    elements = [("a", time, f"{place},") for place, time in enumerate(times)]

    def sessions() -> JobGraph:
        return window_job(elements, Case(StateKind.LIST, Firing.APPLY, 5).spec(), 1_000)

    job = TestJob(tmp_path, Script((2, 3, 1), (True,)))
    job.run(sessions())
    found = Replays(sessions(), job.settings, 2, None, str(tmp_path / "job")).key("a", None, None, 1)
    assert found.equal, found.text()
    assert replay(job, sessions(), 1).equal


class ByNumber(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


# Does in a process of its own what replays, explanations and SQL do, and is killed meanwhile.
KILLED = """
import os, pathlib, signal
from changelog_engine.state.local_folder import temporary_folder
with temporary_folder("replay") as folder:
    pathlib.Path(folder, "part").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_replay_left_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = recorded(tmp_path / "base")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    died = subprocess.run([sys.executable, "-c", KILLED], env={**os.environ, "TMPDIR": str(temporary)})
    assert died.returncode == -signal.SIGKILL
    assert [path.name for path in temporary.rglob("part")] == ["part"]
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert replay(job, graph(), None).equal
    assert [path for path in temporary.rglob("*") if path.is_file()] == []
