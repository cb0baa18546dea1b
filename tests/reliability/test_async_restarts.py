"""Async functions in jobs that fail and go on: state and output are as if nothing had happened, whatever was under way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.functions import Count, counted
from support.graphs import GraphBuilder
from support.http_service import Ask, HttpService
from support.jobs import TestJob
from support.script import Failure, Fault, Script

from api.datastream import AsyncFunction
from changelog_engine.errors import JobExecutionError
from changelog_engine.graph.nodes import AsyncSpec, JobGraph, NodeKind, RestartKind, RestartSettings
from changelog_engine.replay.job import replay_graph

RECORDS = 40


class Shaken(AsyncFunction):
    """Gives the element after a while that depends on it, so that results overtake each other."""

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(value[1] % 3 / 1000)
        return [value]


def job(function: Any, elements: list[Any], ordered: bool, parallelism: int) -> JobGraph:
    """source -> async -> (collected) -> key_by -> count -> async -> collected."""
    build = GraphBuilder(parallelism=parallelism)
    spec = AsyncSpec(function, 60_000, 4, None, ordered)
    first = build.add(
        NodeKind.ASYNC, "first", build.source(elements, uid="source"), function=spec, uid="first"
    )
    build.collect(first, uid="asked")
    count = build.process(build.key_by(first, lambda value: value[0]), Count(), uid="count")
    second = AsyncSpec(Shaken(), 60_000, 4, None, ordered)
    build.collect(build.add(NodeKind.ASYNC, "second", count, function=second, uid="second"), uid="counts")
    return build.graph()


FAULTS = (Fault.WORKER, Fault.DRIVER, Fault.PARTS, Fault.COMMIT_FAILS, Fault.COMMIT_LIES)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_killed_in_the_middle(tmp_path: Path, fault: Fault, ordered: bool) -> None:
    elements = [(number % 3, number) for number in range(RECORDS)]
    failures = tuple(Failure(epoch, fault, stage) for epoch, stage in ((2, 0), (4, 1), (5, 0)))
    run = TestJob(tmp_path, Script((7, 3), (True, False, True), failures))
    run.run(job(Shaken(), elements, ordered, 2))
    asked, counts = run.outputs.values()
    assert sorted(asked) == sorted(elements)
    assert sorted(counts) == sorted(counted(elements))
    if ordered:
        assert asked == elements


def test_what_was_asked_after_the_checkpoint_is_asked_again(tmp_path: Path) -> None:
    """The server saw some requests twice, the outputs have each result once."""
    with HttpService(delay_ms=1) as service:
        elements = [(0, f"/ok/{number}") for number in range(RECORDS)]
        run = TestJob(tmp_path, Script((10,), (False, True), (Failure(3, Fault.WORKER),)))
        run.run(job(AskSecond(service.port), elements, True, 1))
        asked, counts = run.outputs.values()
        assert asked == [(0, path, path[4:]) for _, path in elements]
        assert counts == [(0, number + 1) for number in range(RECORDS)]
        assert len(service.asked) == RECORDS
        assert sum(service.asked.values()) == RECORDS + 10  # an epoch without a checkpoint
        assert service.open == 0


class AskSecond(Ask):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [(value[0], *(await super().async_invoke(value[1]))[0])]


class FailsOnce(AsyncFunction):
    """Fails for one element, in the first attempt of the job."""

    def open(self, runtime_context: Any) -> None:
        self.first = runtime_context.get_attempt_number() == 0

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(0.001)
        if self.first and value[1] == 17:
            raise OSError("no answer")
        return [value]


def test_a_failed_call_restarts_the_job_from_its_checkpoint(tmp_path: Path) -> None:
    elements = [(number % 3, number) for number in range(RECORDS)]
    run = TestJob(tmp_path, Script((6,), (True,)))
    run.run(job(FailsOnce(), elements, True, 1))
    asked, counts = run.outputs.values()
    assert asked == elements
    assert sorted(counts) == sorted(counted(elements))
    none = TestJob(tmp_path / "none", Script((6,), (True,)), restart=RestartSettings(RestartKind.NONE))
    with pytest.raises(JobExecutionError) as failed:
        none.run(job(FailsOnce(), elements, True, 1))
    assert "async_invoke of operator 'first', element (2, 17) raised OSError: no answer" in str(
        failed.value.__cause__
    )
    assert none.outputs
    assert all(output[1] < 17 for output in next(iter(none.outputs.values())))


def test_a_replay_asks_again_and_says_so(tmp_path: Path) -> None:
    elements = [(number % 3, number) for number in range(RECORDS)]
    run = TestJob(tmp_path, Script((7,), (True,), (Failure(3, Fault.WORKER),)))
    run.run(job(Shaken(), elements, True, 1))
    replayed = replay_graph(job(Shaken(), elements, True, 1), run.settings, None)
    assert replayed.equal, replayed
    other = replay_graph(job(Other(), elements, True, 1), run.settings, None)
    assert not other.equal
    assert any("async functions ask again ('first', 'second')" in note for note in other.notes)


class Other(AsyncFunction):
    """Gives some elements twice."""

    async def async_invoke(self, value: Any) -> list[Any]:
        return [value] * (1 + value[1] % 2)
