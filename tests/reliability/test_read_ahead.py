"""Stages that run the next epoch while those behind them run this one: no checkpoint shows it.

Property tests draw the setting; here is what they can't see: that something runs ahead, and when it does not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from support.functions import Count, rounds
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.live import logged_state
from support.script import Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import MapFunction
from changelog_engine.connectors import NumberSequenceSource
from changelog_engine.connectors.collection import CollectionSource
from changelog_engine.connectors.hybrid import HybridSource
from changelog_engine.connectors.protocols import Range, Split, SplitReader
from changelog_engine.connectors.scripted import Checkpoint, ScriptedSource
from changelog_engine.connectors.sinks import CollectSink
from changelog_engine.driver.pace import Pace
from changelog_engine.driver.plan_traits import stages_ahead
from changelog_engine.driver.source_progress import SourceProgress
from changelog_engine.errors import JobExecutionError
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind
from changelog_engine.graph.plan import JobPlan, plan_job
from changelog_engine.graph.rescaling import rescaled
from changelog_engine.in_process.runner import InProcessRunner
from changelog_engine.replay.job import replay_graph
from changelog_engine.savepoints.requests import SavepointRequests
from changelog_engine.spark.read_ahead import ReadAhead
from changelog_engine.spark.shipping import ship

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "connectors"))
from folder_sink import FolderSink

ELEMENTS = rounds(5, 200)
BROKEN = 150


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of the epochs that were read ahead."""
    epochs: list[int] = []
    run_ahead = InProcessRunner._run_ahead

    def noted(self: InProcessRunner, stages: Any, orders: Any) -> Any:
        epochs.append(orders(0, 0).epoch)
        return run_ahead(self, stages, orders)

    monkeypatch.setattr(InProcessRunner, "_run_ahead", noted)
    return epochs


class FailsAt(MapFunction):
    """Passes elements on, up to one."""

    def __init__(self, number: int | None) -> None:
        self.number = number

    def map(self, value: Any) -> Any:
        if value[1] == self.number:
            raise ValueError("broken")
        return value


def two_sources(broken: int | None = None) -> JobGraph:
    """Timestamps, two sources of which one ends sooner, two keyed stages."""
    build = GraphBuilder(parallelism=2, max_parallelism=16)
    some = build.add(NodeKind.MAP, "map", build.source(ELEMENTS, uid="some"), function=FailsAt(broken))
    some = build.timestamps(some, lambda element: element[1], 3)
    others = build.timestamps(build.source(ELEMENTS[:60], uid="others"), lambda element: element[1], 3)
    stream = build.add(NodeKind.UNION, "union", some, others)
    counts = build.process(
        build.key_by(stream, lambda element: element[0], Types.LONG()), Count(), uid="first"
    )
    build.collect(build.process(build.key_by(counts, lambda element: element[0]), Count(), uid="second"))
    return build.graph()


def shown(job: TestJob) -> list[tuple[Any, ...]]:
    """All that checkpoints keep of a run."""
    found = []
    for each in job.commits:
        kept = replace(
            each, time_ms=0, duration_ms=0, parent_acknowledged_ms=None, restored_ms=None, figures=None
        )
        found.append(
            (
                kept.id,
                kept.sources,
                kept.operator_state,
                kept.rows,
                logged_state(job.settings.base_path, checkpoint=each.id),
            )
        )
    return found


def run(folder: Path, read_ahead: bool, graph: JobGraph, script: Script, **more: Any) -> TestJob:
    job = TestJob(folder, script, read_ahead=read_ahead, **more)
    job.run(graph)
    return job


def test_each_checkpoint_is_what_it_is_without(tmp_path: Path, begun: list[int]) -> None:
    """Positions, watermarks, states and output; epochs with and without a barrier."""
    script = Script((7,), (True, False, True))
    with_, without = (run(tmp_path / str(ahead), ahead, two_sources(), script) for ahead in (True, False))
    assert begun == list(range(3, 3 + len(begun)))
    assert len(begun) > 10
    assert with_.output == without.output
    assert shown(with_)[:-1] == shown(without)[: len(with_.commits) - 1]
    assert shown(with_)[-1][1:3] == shown(without)[-1][1:3]


def test_a_failure_ahead_is_the_next_epochs(tmp_path: Path, begun: list[int]) -> None:
    """The epoch that runs meanwhile is committed."""
    script = Script((7,))
    found = []
    for ahead in (True, False):
        job = TestJob(tmp_path / str(ahead), script, read_ahead=ahead, restart=NO_RESTART)
        with pytest.raises(JobExecutionError, match="broken"):
            job.run(two_sources(BROKEN))
        found.append(shown(job))
    assert begun
    assert found[0] == found[1]
    assert len(found[0]) > 5


@pytest.mark.parametrize(
    "fault", [Fault.SUBTASK, Fault.WORKER, Fault.GONE, Fault.COMMIT_FAILS, Fault.COMMIT_LIES]
)
def test_what_ran_ahead_of_a_failure_runs_again(tmp_path: Path, begun: list[int], fault: Fault) -> None:
    """Also what fails there: in a source's stage, a keyed one that runs ahead, and the last one."""
    failures = tuple(Failure(epoch, fault, stage) for epoch in (4, 9, 14) for stage in (0, 2, 3))
    job = run(tmp_path, True, two_sources(), Script((7,), (True, False), failures))
    undisturbed = run(tmp_path / "undisturbed", False, two_sources(), Script((7,), (True, False)))
    assert begun
    assert sorted(job.output) == sorted(undisturbed.output)
    assert logged_state(job.settings.base_path) == logged_state(undisturbed.settings.base_path)


def test_an_epoch_that_changes_nothing_keeps_its_checkpoint(tmp_path: Path, begun: list[int]) -> None:
    """The parts of the next one count on it: they have the number behind its own."""
    script, rests = Script((7, 0)), {"epoch_target_ms": 1}
    with_, without = (
        run(tmp_path / str(ahead), ahead, two_sources(), script, **rests) for ahead in (True, False)
    )
    assert len(begun) > 10
    assert len(with_.commits) > len(without.commits)
    # How many elements of each source an epoch takes goes by the clock; the order within a key does not.
    assert sorted(with_.output, key=itemgetter(0)) == sorted(without.output, key=itemgetter(0))
    assert logged_state(with_.settings.base_path) == logged_state(without.settings.base_path)


def test_sources_wait_for_what_comes_between(
    tmp_path: Path, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A savepoint that is asked for, a look for new splits; nor is there anything to win where nothing waits."""
    asked = property(lambda self: True)
    between = [
        (SavepointRequests, "waiting", asked),
        (SourceProgress, "discovery_due", lambda self, now_ms: True),
        (Pace, "reads_ahead", lambda self, slots: False),
    ]
    for number, (owner, name, there) in enumerate(between):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, there)
            job = run(tmp_path / str(number), True, two_sources(), Script((20,)))
        assert len(job.commits) > 5
        assert begun == []


class InPlace(CollectionSource):
    """A source whose reader has a list for its position, and changes it: the one that it is given, or one of its own."""

    def __init__(self, elements: Any, own: bool) -> None:
        super().__init__(elements)
        self._own = own

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("collection", [0])]

    def reader(self, split: Split) -> SplitReader:
        inner, own, stands = super().reader(split), self._own, [0]

        class Reader(SplitReader):
            def read(self, position: Any, max_records: int) -> Range:
                found = inner.read(position[0], max_records)
                changed = stands if own else position
                changed[0] = found.next
                return found._replace(next=changed)

        return Reader()


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_positions_that_a_reader_changes_are_kept_as_they_were(
    tmp_path: Path, ahead: bool, own: bool
) -> None:
    """Where each epoch ended is in the checkpoint, so a replay cuts the epochs as the run did."""

    def kept(source: Any, name: str) -> tuple[list[Any], str]:
        build = GraphBuilder(max_parallelism=8)
        stream = build.add(NodeKind.SOURCE, "source", function=source, uid="source")
        build.collect(build.process(build.key_by(stream, lambda element: element[0], Types.LONG()), Count()))
        graph = build.graph()
        job = run(tmp_path / name, ahead, graph, Script((7,), (False, False, True)))
        assert replay_graph(graph, job.settings, None).equal
        return job.output, repr([(each.sources, each.operator_state) for each in job.commits])

    output, notes = kept(InPlace(ELEMENTS, own), "in_place")
    assert "position=[7], finished=False" in notes
    plain = re.sub(r"position=\[(\d+)\]", r"position=\1", notes)
    assert (output, plain) == kept(CollectionSource(ELEMENTS), "plain")


class Acknowledged(CollectionSource):
    """A source that is told what is durable."""

    acknowledges = True


class Queue(CollectionSource):
    """A source that gives nothing twice."""

    replayable = False


def plan_of(source: Any, keyed: bool = True, sink: Any = None) -> JobPlan:
    build = GraphBuilder()
    stream = build.source(source)
    if sink is not None:
        build.add(NodeKind.SINK, "sink", stream, function=sink)
    build.collect(
        build.process(build.key_by(stream, lambda element: element[0]), Count()) if keyed else stream
    )
    return plan_job(build.graph())


def test_stages_that_run_ahead() -> None:
    settings = JobSettings(read_ahead=True)
    numbers = NumberSequenceSource(1, 9)
    assert stages_ahead(plan_of(ELEMENTS), settings)
    assert stages_ahead(plan_of(ELEMENTS, sink=CollectSink()), settings)
    assert not stages_ahead(plan_of(ELEMENTS), replace(settings, read_ahead=False))
    assert not stages_ahead(plan_of(ELEMENTS), replace(settings, batch=True))
    assert not stages_ahead(plan_of(ELEMENTS, keyed=False), settings)
    assert not stages_ahead(plan_of(ELEMENTS, sink=FolderSink("out")), settings)
    assert not stages_ahead(plan_of(Acknowledged(ELEMENTS)), settings)
    assert not stages_ahead(plan_of(Queue(ELEMENTS)), settings)
    assert not stages_ahead(plan_of(HybridSource([numbers, numbers])), settings)
    assert not stages_ahead(plan_of(ScriptedSource([(1, 1), Checkpoint(), (1, 2)])), settings)
    plan = plan_job(two_sources())
    last = len(plan.stages) - 1
    assert stages_ahead(plan, settings) == frozenset(range(last))
    sources = frozenset(stage.id for stage in plan.stages if not stage.inputs)
    assert len(sources) == last - 1
    assert stages_ahead(plan, replace(settings, tolerable_failures=1)) == sources
    shipped = ship("run", plan, settings, None)
    assert shipped.ahead == shipped.with_plan(rescaled(plan, 2)).ahead == frozenset(range(last))
    build = GraphBuilder()
    counts = build.process(build.key_by(build.source(ELEMENTS), lambda element: element[0]), Count())
    build.add(NodeKind.SINK, "sink", counts, function=FolderSink("out"))
    again = build.process(build.key_by(counts, lambda element: element[0]), Count())
    build.collect(build.process(build.key_by(again, lambda element: element[0]), Count()))
    assert stages_ahead(plan_job(build.graph()), settings) == {0}


def test_what_an_epoch_had_submitted_is_cancelled_with_it() -> None:
    """Also where the next job could not be: nobody forgets what a stage sends while the stage runs."""
    job = Mock()
    ahead = ReadAhead(MagicMock(), Mock(), Mock())
    ahead.take(lambda stage, subtask: Mock(of_epoch=("run", 1, 7))).jobs[0] = job
    assert ahead.cancel()
    job.cancel.assert_called_once_with()
