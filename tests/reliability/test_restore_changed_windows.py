"""Reliability case 26 for what is not declared in open(): windows, their own state, rolling reductions, broadcast state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.functions import rounds
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.programs import Program
from support.script import DriverKilled, Failure, Fault, Script
from support.window_jobs import graph as window_graph
from support.window_jobs import spec as window_spec

from api.common import Time
from api.common.typeinfo import Types
from api.datastream import KeyedBroadcastProcessFunction
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from api.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from api.datastream.window_functions import ProcessWindowFunction
from changelog_engine.errors import JobExecutionError, RestoreError
from changelog_engine.graph.nodes import (
    BroadcastSpec,
    JobGraph,
    NodeKind,
    Partitioner,
    PartitionSpec,
    StateKind,
)
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.testing.harness import OperatorHarness
from changelog_engine.types import TypeInformation
from changelog_engine.windowing.spec import CONTENTS, Firing, WindowSpec, contents_spec
from materializer.fold import state_at
from materializer.materialize import materialize

ELEMENTS = rounds(3, 60)
CHANGELOG = pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
TUMBLING = TumblingEventTimeWindows.of(Time.seconds(10))
SESSIONS = EventTimeSessionWindows.with_gap(Time.seconds(10))


class Seen(ProcessWindowFunction):
    """Gives what the window's own state and the key's hold, and adds the number of the newest element."""

    def __init__(self, value_type: TypeInformation, make: Any, migration: Any = None) -> None:
        self.type, self.make, self.migration = value_type, make, migration

    def descriptor(self, name: str) -> Any:
        """One of the two states."""
        made = ValueStateDescriptor(name, self.type)
        return made if self.migration is None else made.set_migration(self.migration)

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        own = context.window_state().get_state(self.descriptor("own"))
        all_windows = context.global_state().get_state(self.descriptor("all"))
        yield key, own.value(), all_windows.value()
        number = max(element[1] for element in elements)
        own.update(self.make(number))
        all_windows.update(self.make(number))

    def clear(self, context: Any) -> None:
        """Nothing of it is left."""
        context.window_state().get_state(self.descriptor("own")).clear()


def windows(assigner: Any, contents: Any, function: Any, parallelism: int = 1) -> JobGraph:
    """Windows that fire at each element; with a function, or what they reduced."""
    build = GraphBuilder(parallelism=parallelism, max_parallelism=16)
    stream = build.timestamps(build.source(ELEMENTS, uid="source"), lambda element: element[1])
    keyed = build.key_by(stream, lambda element: element[0], Types.LONG())
    firing = Firing.EMIT if function is None else Firing.PROCESS
    found = WindowSpec(assigner, CountTrigger.of(1), contents, firing, function)
    build.collect(build.add(NodeKind.WINDOW, "windows", keyed, function=found, uid="windows"))
    return build.graph()


def listed(function: Any, parallelism: int = 1) -> JobGraph:
    """Tumbling windows that keep their elements."""
    return windows(TUMBLING, contents_spec(StateKind.LIST, Types.PICKLED_BYTE_ARRAY()), function, parallelism)


def killed(job: TestJob, graph: JobGraph, epochs: int, **settings: Any) -> list[Any]:
    """Run for some epochs of one element a key; returns the output."""
    assert job.progress is not None
    job.progress.waiting.append(Failure(job.progress.epoch + epochs, Fault.HANDED_OUT))
    job.outputs.clear()
    with pytest.raises(DriverKilled):
        job.run_driver(graph, **settings)
    assert job.coordinator.restarts.count == 0
    return sorted(job.output, key=repr)


def refused_by_driver(job: TestJob, graph: JobGraph, words: str, **settings: Any) -> None:
    """No attempt begins."""
    folder = find_job_folder(job.settings.base_path, "job")
    attempts = Lineage(folder.open_changelog()).newest_attempt_id
    with pytest.raises(RestoreError, match=words):
        job.run_driver(graph, **settings)
    assert Lineage(folder.open_changelog()).newest_attempt_id == attempts


@CHANGELOG
def test_case_26_state_of_windows_is_migrated(tmp_path: Path, changelog: bool) -> None:
    """It is declared when a window fires: each subtask converts its own then."""
    job = TestJob(tmp_path, Script(sizes=(3,)), changelog=changelog)
    killed(job, listed(Seen(Types.LONG(), int)), 2)
    texts = listed(Seen(Types.STRING(), lambda n: f"<{n}>", lambda n: f"<{n}>"), 2)
    assert killed(job, texts, 1) == [(key, f"<{3 + key}>", f"<{3 + key}>") for key in range(3)]
    if changelog:
        materialize(find_job_folder(str(tmp_path), "job"))
    texts = listed(Seen(Types.STRING(), lambda n: f"<{n}>", lambda n: f"<{n}>"), 3)
    assert killed(job, texts, 1) == [(key, f"<{6 + key}>", f"<{6 + key}>") for key in range(3)]
    folded = state_at(job.table(), allow_pickle=True).states["windows", "window:own"]
    assert dict(folded) == {(key, "[0,10000]"): f"<{9 + key}>" for key in range(3)}


def test_case_26_a_migration_of_window_state_that_fails_names_the_window(tmp_path: Path) -> None:
    job = TestJob(tmp_path, Script(sizes=(3,)))
    killed(job, listed(Seen(Types.LONG(), int)), 2)
    commits = len(job.commits)
    fails = listed(Seen(Types.STRING(), str, lambda n: 1 / 0))
    with pytest.raises(
        Exception, match=r"'window:own' of operator 'windows', key 0, window \[0,10000\]: .*ZeroDivisionError"
    ):
        job.run_driver(fails)
    assert (len(job.commits), job.coordinator.restarts.count) == (commits, 0)


def summed(assigner: Any, kept: TypeInformation) -> JobGraph:
    """Windows of sums of a type."""

    def add(first: Any, second: Any) -> Any:
        return (*first[:2], first[2] + second[2])

    def one(element: Any) -> Any:
        return (element[0], element[1], float(element[1]))

    build = GraphBuilder(max_parallelism=16)
    stream = build.timestamps(build.source(ELEMENTS, uid="source"), lambda element: element[1])
    mapped = build.add(NodeKind.MAP, "map", stream, function=Mapped(one), output_type=kept)
    keyed = build.key_by(mapped, lambda element: element[0], Types.LONG())
    found = WindowSpec(assigner, CountTrigger.of(1), contents_spec(StateKind.REDUCING, kept, add))
    build.collect(build.add(NodeKind.WINDOW, "windows", keyed, function=found, uid="windows"))
    reduced = build.add(
        NodeKind.REDUCE, "reduce", keyed, function=Reduced(add), uid="rolling", output_type=kept
    )
    build.collect(reduced)
    return build.graph()


class Mapped:
    """A map function round a function."""

    def __init__(self, function: Any) -> None:
        self.map = function


class Reduced:
    """A reduce function round a function."""

    def __init__(self, function: Any) -> None:
        self.reduce = function


INTS = Types.TUPLE([Types.INT(), Types.INT(), Types.DOUBLE()])
LONGS = Types.TUPLE([Types.LONG(), Types.LONG(), Types.DOUBLE()])
TEXTS = Types.TUPLE([Types.LONG(), Types.LONG(), Types.STRING()])


@CHANGELOG
@pytest.mark.parametrize("assigner", [TUMBLING, SESSIONS], ids=["tumbling", "sessions"])
def test_case_26_what_windows_and_reductions_keep_grows_or_is_refused_by_the_driver(
    tmp_path: Path, changelog: bool, assigner: Any
) -> None:
    """Of their types the graph tells: nothing begins that can't work, from a checkpoint or a savepoint."""
    job = TestJob(tmp_path, Script(sizes=(3,)), changelog=changelog)
    killed(job, summed(assigner, INTS), 2)
    words = (
        r"(state 'reduce'|the windows' content) of operator '(rolling|windows)' was written with value type "
        r"TUPLE<INT, INT, DOUBLE> and is declared with value type TUPLE<LONG, LONG, STRING>: "
    )
    refused_by_driver(job, summed(assigner, TEXTS), words)
    folder = find_job_folder(str(tmp_path), "job")
    newest = Lineage(folder.open_changelog()).newest_checkpoint()
    assert newest is not None
    savepoint = create_savepoint(folder, newest, str(tmp_path / "savepoints")).path
    refused_by_driver(job, summed(assigner, TEXTS), words, restore=savepoint)
    sums = sorted((key, key, float(key + key + 3 + key + 6)) for key in range(3))
    assert killed(job, summed(assigner, LONGS), 1) == sorted([*sums, *sums])


class Rules(KeyedBroadcastProcessFunction):
    """Keeps the numbers of the broadcast side in maps, and gives what they hold for each element of the other."""

    def __init__(self, descriptors: list[Any], make: Any) -> None:
        self.descriptors, self.make = descriptors, make

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        held = [dict(ctx.get_broadcast_state(found).items()) for found in self.descriptors]
        yield value[0], value[1], held

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        for found in self.descriptors:
            ctx.get_broadcast_state(found).put(value, self.make(value))


def broadcast(
    descriptors: list[Any], make: Any, rules: int, other: bool = False, uid: str = "broadcasting"
) -> JobGraph:
    """Rules for a keyed stream; there are so many of them in all. With another operator on the stream, or not."""
    build = GraphBuilder(parallelism=2, max_parallelism=16)
    keyed = build.key_by(build.source(ELEMENTS, uid="source"), lambda element: element[0], Types.LONG())
    if other:
        build.process(keyed, Program(list), uid="another")
    numbers = build.source(list(range(rules)), uid="rules")
    spread = build.add(
        NodeKind.PARTITION, "broadcast", numbers, function=PartitionSpec(Partitioner.BROADCAST)
    )
    function = BroadcastSpec(Rules(descriptors, make), tuple(found.to_spec() for found in descriptors))
    node = build.add(NodeKind.BROADCAST_PROCESS, "broadcasting", keyed, spread, function=function, uid=uid)
    build.collect(node)
    return build.graph()


def maps(value_type: TypeInformation, *names: str, migration: Any = None) -> list[Any]:
    """Descriptors of broadcast states."""
    found = [MapStateDescriptor(name, Types.LONG(), value_type) for name in names]
    return found if migration is None else [made.set_migration(migration) for made in found]


def test_case_26_broadcast_state(tmp_path: Path) -> None:
    """New, removed and declared again, grown, migrated, dropped, refused by the driver."""
    job = TestJob(tmp_path, Script(sizes=(3,)))

    def held(descriptors: list[Any], make: Any, **settings: Any) -> list[dict[int, Any]]:
        found = killed(job, broadcast(descriptors, make, 4), 1, **settings)
        return [dict(state) for state in found[-1][2]]

    killed(job, broadcast(maps(Types.INT(), "a", "b"), int, 4), 2)
    numbers = {number: number for number in range(4)}
    assert held(maps(Types.INT(), "a", "c"), int) == [numbers, {}]
    floats = {number: float(number) for number in range(4)}
    assert repr(held(maps(Types.DOUBLE(), "a"), float)) == repr([floats])
    texts = {number: f"<{number}>" for number in range(4)}
    assert held(maps(Types.STRING(), "b", migration=lambda n: f"<{n}>"), str) == [texts]
    words = "state 'a' of operator 'broadcasting' was written with value type DOUBLE and is declared with value type INT"
    refused_by_driver(job, broadcast(maps(Types.INT(), "a"), int, 4), words)
    assert held(maps(Types.STRING(), "b"), str, drop_removed_state=True) == [texts]
    assert held(maps(Types.INT(), "a", "b", migration=lambda text: int(text[1:-1])), int) == [{}, numbers]
    fails = maps(Types.DOUBLE(), "b", migration=lambda n: 1 / (n - 2))
    with pytest.raises(JobExecutionError, match=r"'b' of operator 'broadcasting', map key 2: .*ZeroDivision"):
        job.run_driver(broadcast(fails, int, 4))
    assert job.coordinator.restarts.count == 0


def test_case_26_broadcast_state_stays_with_its_operator(tmp_path: Path) -> None:
    """Another operator comes first in its stage, and goes again; without its own the job is refused."""
    job = TestJob(tmp_path, Script(sizes=(3,)))
    numbers = {number: number for number in range(4)}
    killed(job, broadcast(maps(Types.LONG(), "a"), int, 4), 2)
    for other in (True, False):
        found = killed(job, broadcast(maps(Types.LONG(), "a"), int, 4, other), 1)
        assert [dict(entry[2][0]) for entry in found] == [numbers] * 3
    words = "holds state of operator 'broadcasting' .uid 'broadcasting'., which this job doesn't have"
    gone = broadcast(maps(Types.LONG(), "a"), int, 4, uid="renamed")
    refused_by_driver(job, gone, words)
    folder = find_job_folder(str(tmp_path), "job")
    newest = Lineage(folder.open_changelog()).newest_checkpoint()
    assert newest is not None
    savepoint = create_savepoint(folder, newest, str(tmp_path / "savepoints")).path
    refused_by_driver(job, gone, words, restore=savepoint)
    found = killed(job, gone, 1, restore=savepoint, ignore_unclaimed_state=True)
    assert [dict(entry[2][0]) for entry in found] == [{}] * 3


@pytest.mark.parametrize("slide", [10, 5])
def test_windows_that_another_trigger_kept_fire_at_their_end(tmp_path: Path, slide: int) -> None:
    """Nothing but their lateness had set a timer for them."""
    elements = [("a", 1, "x"), ("a", 8, "y"), ("a", 40, "z")]
    assigner = SlidingEventTimeWindows(10, slide)

    def job_graph(trigger: Any, lateness: int) -> JobGraph:
        return window_graph(elements, window_spec(assigner, trigger, allowed_lateness_ms=lateness))

    job = TestJob(tmp_path, Script((1,)))
    assert killed(job, job_graph(CountTrigger.of(9), 5), 1) == []
    job.outputs.clear()
    job.run(job_graph(None, 0))
    fired = [(start, texts) for _, start, texts in job.output]
    assert (0, "xy") in fired


@pytest.mark.parametrize("lateness", [0, 5])
def test_sessions_that_another_trigger_kept_fire_at_their_end(tmp_path: Path, lateness: int) -> None:
    """An element that made none of them longer set no timer."""
    elements = [("a", 1, "x"), ("a", 1, "y"), ("a", 40, "z")]

    def job_graph(trigger: Any, lateness: int) -> JobGraph:
        return window_graph(
            elements, window_spec(EventTimeSessionWindows(10), trigger, allowed_lateness_ms=lateness)
        )

    job = TestJob(tmp_path, Script((1,)))
    assert killed(job, job_graph(CountTrigger.of(9), 5), 1) == []
    job.outputs.clear()
    job.run(job_graph(None, lateness))
    assert [(start, texts) for _, start, texts in job.output] == [(1, "xy"), (40, "z")]
    assert not state_at(job.table()).states.get(("window", CONTENTS))


def test_windows_that_were_kept_longer_go_when_an_element_comes() -> None:
    """Their timers had fired before a second restore, and nothing removed them any more."""

    def harness(lateness: int) -> OperatorHarness:
        spec = window_spec(TumblingEventTimeWindows(10), allowed_lateness_ms=lateness)
        return OperatorHarness(window_graph([], spec), "window")

    with harness(0) as first, harness(25) as windows:
        first.process_element(("a", 1, "x"), 1)
        windows.restore(first.snapshot())
        windows.process_watermark(20)
        windows.restore(windows.snapshot())
        windows.process_element(("a", 2, "y"), 2)
        windows.process_watermark(40)
        assert windows.output == [("a", 0, "x"), ("a", 0, "xy")]
        assert windows.state(CONTENTS) == {}


def test_an_element_joins_sessions_that_more_lateness_kept() -> None:
    """With less of it they are late, and so is what they merge into; the job failed, in each attempt anew."""

    def harness(lateness: int) -> OperatorHarness:
        spec = window_spec(EventTimeSessionWindows(10), CountTrigger.of(2), allowed_lateness_ms=lateness)
        return OperatorHarness(window_graph([], spec), "window")

    with harness(30) as first, harness(0) as sessions:
        first.process_element(("a", 1, "x"), 1)
        first.process_watermark(20)
        sessions.restore(first.snapshot())
        sessions.process_watermark(20)
        sessions.process_element(("a", 5, "y"), 5)
        assert sessions.output == [("a", 1, "xy")]
        sessions.process_watermark(21)
        assert sessions.state(CONTENTS) == {}


@pytest.mark.parametrize("uid", ["log", "inputs", "sinks", "0"])
def test_broadcast_state_may_be_of_a_uid_that_checkpoints_use_for_something_else(
    tmp_path: Path, uid: str
) -> None:
    job, numbers = TestJob(tmp_path, Script(sizes=(3,))), {number: number for number in range(4)}
    killed(job, broadcast(maps(Types.LONG(), "a"), int, 4, other=True, uid=uid), 2)
    found = killed(job, broadcast(maps(Types.LONG(), "a"), int, 4, other=True, uid=uid), 1)
    assert [dict(entry[2][0]) for entry in found] == [numbers] * 3
