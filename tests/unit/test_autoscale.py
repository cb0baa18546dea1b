"""A parallelism that follows what waits and the executors: the rule on made figures, and a job with a made backlog."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.functions import CountAlone
from support.graphs import GraphBuilder

from api.common import Duration, Types, WatermarkStrategy
from api.common.configuration import Configuration
from api.datastream import StreamExecutionEnvironment
from changelog_engine.connectors import NumberSequenceSource
from changelog_engine.connectors.protocols import DiscoveringSource, Range, Source, Split, SplitReader
from changelog_engine.driver.autoscale import Autoscaler, Judge, Scaling, ScalingBounds, bounds_of
from changelog_engine.driver.figures import JobFigures, SourceFigures
from changelog_engine.driver.rescaling import RescaleRequests
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import JobSettings, NodeKind
from changelog_engine.graph.plan import plan_job
from changelog_engine.graph.rescaling import rescaled
from changelog_engine.in_process.capture import without_spark
from changelog_engine.inspection.timeline import Timeline
from materializer.fold import state_at

CALM_MS = 10_000
BOUNDS = ScalingBounds(1, 8, CALM_MS, frozenset({"counts", "source"}))


def judged(
    parallelism: int,
    slots: int | None = None,
    behind: tuple[int | None, int | None] = (0, 0),
    busy: float = 0.5,
    rests: float = 0.0,
    rate: int = 100,
    attempt: int = 1,
    splits: int | None = None,
) -> Scaling | None:
    """What comes of a calm period and a look more, in which an epoch ends each second.

    Args:
        behind: what waits at its beginning and its end, even between.
        busy: of the time, and
        rests: likewise.
        rate: records in a second.
    """
    judge = Judge(BOUNDS, 0)
    for second in range(CALM_MS // 1000 + 2):
        first, last = behind
        waits = None if first is None or last is None else first + (last - first) * second * 1000 // CALM_MS
        figures = JobFigures(
            job="job", status="RUNNING", attempt=attempt, epoch=second, records_in=rate * second,
            times_ms={"process": 1000 * busy * second, "wait": 1000 * (1 - busy - rests) * second},
            sources={"one": SourceFigures("one", 0, waits, None), "two": SourceFigures("two", 0, waits and 0, None)},
        )  # fmt: skip
        found = judge.look(1000 * second, figures, parallelism, slots, splits)
        if found is not None:
            assert 1000 * second >= CALM_MS, "before the calm period was over"
            return found
    return None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"parallelism": 2, "behind": (2000, 4000)}, "4: .* elements wait, 100 are read in a second"),
        ({"parallelism": 6, "behind": (4000, 4000)}, "8: 4,000 elements wait"),
        ({"parallelism": 2, "behind": (4000, 4000), "slots": 3}, "3: "),
        ({"parallelism": 2, "behind": (4000, 4000), "rate": 0}, "4: "),
        ({"parallelism": 2, "behind": (4000, 500)}, None),  # it catches up by itself
        ({"parallelism": 2, "behind": (400, 400)}, None),  # less than 5 s of work
        ({"parallelism": 8, "behind": (4000, 4000)}, None),
        ({"parallelism": 2, "behind": (None, None), "busy": 0.95}, "4: its subtasks work 95% of the time"),
        ({"parallelism": 2, "behind": (None, None), "busy": 0.5}, None),
        ({"parallelism": 5, "busy": 0.1}, "3: nothing waits, and its subtasks work 10% of the time"),
        (
            {"parallelism": 4, "behind": (None, None), "busy": 0.1},
            None,
        ),  # epochs that cost much may have enough to do
        (
            {"parallelism": 4, "behind": (None, None), "busy": 0.1, "rests": 0.8},
            "2: it rests 80% of the time",
        ),
        ({"parallelism": 4, "behind": (200, 200), "busy": 0.1}, None),
        ({"parallelism": 1, "busy": 0.0, "rate": 0}, None),
        ({"parallelism": 4, "slots": 2}, "2: the executors run 2 tasks at a time"),
        ({"parallelism": 9, "slots": 20}, "8: it is more than the bound"),
        ({"parallelism": 1, "slots": 0}, None),
        ({"parallelism": 2, "behind": (4000, 4000), "splits": 3}, "3: "),
        ({"parallelism": 4, "behind": (4000, 4000), "splits": 3}, None),
        ({"parallelism": 4, "busy": 0.1, "splits": 3}, "2: nothing waits"),
    ],
)
def test_the_rule(given: dict[str, Any], expected: str | None) -> None:
    found = judged(**given)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert re.match(expected, f"{found.parallelism}: {found.why}")


def test_a_calm_period_begins_anew() -> None:
    """After a restart, a rescale by somebody else, and while the job restores."""
    judge = Judge(BOUNDS, 0)
    idle = JobFigures(job="job", status="RUNNING", attempt=1)

    def looks(from_s: int, to_s: int, parallelism: int = 4, **facts: Any) -> list[int]:
        return [
            second
            for second in range(from_s, to_s)
            if judge.look(
                1000 * second,
                JobFigures(**{**idle.__dict__, "epoch": second, **facts}),
                parallelism,
                None,
            )
        ]

    assert looks(0, 8) == []
    assert looks(8, 16, attempt=2) == []
    assert looks(16, 24, 3, attempt=2) == []
    assert looks(24, 32, 3, attempt=2, status="RESTORING") == []
    assert looks(32, 50, 3, attempt=2, epoch=7) == [], "no epoch ended, so nothing is known"
    assert looks(50, 52, 3, attempt=2)[:1] == [50]


def test_before_the_first_epoch_nothing_is_known() -> None:
    """What waits is not told then, whatever the source; so how busy subtasks are does not count."""
    judge, none = Judge(BOUNDS, 0), {}
    told = {"one": SourceFigures("one", 0, 0, None)}
    for second in range(30):
        figures = JobFigures(
            job="job", status="RUNNING", attempt=1, epoch=second // 3, records_in=100 * second,
            times_ms={"process": 900.0 * second}, sources=told if second >= 3 else none,
        )  # fmt: skip
        assert judge.look(1000 * second, figures, 2, None) is None


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("works", [0.5, 0.7, 0.95])
def test_it_comes_to_rest(known: bool, works: float) -> None:
    """A steady load, somewhat more than two subtasks take: four are not too many for it.

    Args:
        works: so much of its time a subtask works that has enough to do.
    """
    if works < 0.6 and not known:
        return  # nothing tells that there is enough to do
    judge, parallelism, attempt = Judge(BOUNDS, 0), 2, 1
    waits = records = busy_ms = 0.0
    made = []
    for second in range(1_000):
        read = min(waits + 205, 100 * parallelism)
        waits, records = waits + 205 - read, records + read
        busy_ms += 1000 * works * read / (100 * parallelism)
        figures = JobFigures(
            job="job", status="RUNNING", attempt=attempt, epoch=second, records_in=int(records),
            times_ms={"process": busy_ms},
            sources={"one": SourceFigures("one", 0, int(waits) if known else None, None)},
        )  # fmt: skip
        found = judge.look(1000 * second, figures, parallelism, None)
        if found is not None:
            parallelism, attempt = found.parallelism, attempt + 1
            made.append(parallelism)
    assert made == [4]


def test_what_somebody_else_asked_for_stays() -> None:
    """A change that was decided on before, and waited for its turn, is not made after it."""
    plan = keyed_plan()
    requests = RescaleRequests(
        rescaled(plan, 8), True, lambda plan, over: pytest.fail("there is nothing to do")
    )
    assert requests.take(4, "4,000 elements wait", plan).checkpoint is None
    assert requests.waiting is None


def keyed_plan(**more: Any) -> Any:
    build = GraphBuilder(parallelism=2, max_parallelism=8)
    source = build.source(Backlog(""), uid="source")
    build.collect(build.add(NodeKind.MAP, "map", source, function=str, uid="map", **more), uid="end")
    return plan_job(build.graph())


def test_bounds() -> None:
    def bounds(plan: Any = None, **more: Any) -> ScalingBounds | None:
        settings = {"checkpoint_interval_ms": 1000, "autoscale": True, **more}
        return bounds_of(plan or keyed_plan(), JobSettings(**settings))

    assert bounds(autoscale=False, checkpoint_interval_ms=None) is None
    found = bounds()
    assert found is not None
    assert (found.least, found.most) == (1, 8)
    plan = keyed_plan(parallelism=3)
    alone = bounds(plan)
    assert alone is not None
    assert "map" not in alone.follows
    assert alone.parallelism(rescaled(plan, 5)) == 5
    kept = rescaled(keyed_plan(), 1)
    kept = replace(kept, stages=tuple(replace(stage, max_parallelism=3) for stage in kept.stages))
    assert found.within(kept) == replace(found, most=3)
    for wrong, message in (
        ({"checkpoint_interval_ms": None}, "this job makes none"),
        ({"autoscale_min_parallelism": 4, "autoscale_max_parallelism": 3}, "= 3 is less than .* = 4"),
        ({"autoscale_max_parallelism": 9}, "'source' has max parallelism 8, so it cannot have parallelism 9"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            bounds(**wrong)
    build = GraphBuilder(parallelism=1)
    build.collect(build.source([1, 2], uid="source"))
    with pytest.raises(ConfigurationError, match=r"changelog\.autoscale: no operator of job 'job' can have"):
        bounds(plan_job(build.graph()))


SPLITS, EACH = 4, 1_000


class Backlog(Source):
    """Of each split some elements an epoch, and much that waits, while there is a file ``backlog``; then no elements, and
    nothing that waits, until there is a file ``end``.
    """

    output_type = Types.LONG()

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def splits(self, parallelism: int) -> list[Split]:
        return [Split(str(number), 0) for number in range(SPLITS)]

    def reader(self, split: Split) -> SplitReader:
        return BacklogReader(Path(self.folder))


class BacklogReader(SplitReader):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, position: Any, max_records: int) -> Range:
        waits, ends = (self.folder / "backlog").exists(), (self.folder / "end").exists()
        self.behind = 10**12 if waits else 0
        many = min(max_records, EACH - position) if ends else int(waits and position < EACH // 2)
        return Range(range(position, position + many), position + many, ends and position + many == EACH)


def environment(folder: Path, parallelism: int, **options: str) -> StreamExecutionEnvironment:
    """A job's that is rescaled by itself.

    Args:
        folder: where it keeps its checkpoints.
        parallelism: it begins with.
        options: more of the configuration, without the common beginning of its keys.
    """
    configuration = Configuration()
    configuration.set_string("state.changelog.dstl.dfs.base-path", str(folder))
    configuration.set_string("state.changelog.enabled", "true")
    configuration.set_string("changelog.autoscale", "true")
    for key, value in options.items():
        configuration.set_string(f"changelog.{key.replace('__', '.').replace('_', '-')}", value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.set_parallelism(parallelism)


def test_a_job_follows_its_backlog(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "backlog").touch()
    bounds = {"autoscale__max_parallelism": "4", "autoscale__calm_period": "200 ms"}
    env = environment(tmp_path, 1, progress__show="never", **bounds).enable_checkpointing(100)
    numbers = env.from_source(
        Backlog(str(tmp_path)), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    counts = numbers.key_by(lambda number: number % 10, Types.LONG()).process(CountAlone(), Types.LONG())
    counts.uid("counts").filter(lambda count: count < 0).print()
    job = f"{tmp_path}/job"

    def changes() -> list[str]:
        return [each.rescaled for each in Timeline(job).attempts if each.rescaled is not None]

    def wait_for(expected: list[str]) -> None:
        deadline = time.monotonic() + 120
        while changes() != expected:
            assert time.monotonic() < deadline, changes()
            time.sleep(0.02)

    with without_spark(), caplog.at_level(logging.INFO, "changelog_engine"):
        client = env.execute_async("job")
        wait_for(["1 -> 2", "2 -> 4"])
        (tmp_path / "backlog").unlink()
        wait_for(["1 -> 2", "2 -> 4", "4 -> 2", "2 -> 1"])
        (tmp_path / "end").touch()
        client.get_job_execution_result().result()
    assert "changelog.autoscale 1 -> 2: 4,000,000,000,000 elements wait" in caplog.text
    assert re.search(r"rescaled 4 -> 2 at checkpoint \d+ \(nothing waits, and its subtasks work", caplog.text)
    assert not [record for record in caplog.records if "changelog.autoscale:" in record.message]
    found = state_at(f"{job}/changelog")
    assert sum(found.states["counts", "count"].values()) == SPLITS * EACH


def test_a_job_that_goes_on_keeps_within_the_max_parallelism_of_its_checkpoint(tmp_path: Path) -> None:
    """The default follows the parallelism: another number of key groups than the job was started with."""

    def bounds(parallelism: int) -> ScalingBounds:
        env = environment(tmp_path, parallelism, restore="latest")
        numbers = env.from_source(
            NumberSequenceSource(0, 9), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
        )
        counts = numbers.key_by(lambda number: number, Types.LONG()).process(CountAlone(), Types.LONG())
        counts.uid("counts").print()
        made: list[ScalingBounds] = []

        class Noted(Autoscaler):
            def __init__(self, bounds: ScalingBounds, *rest: Any) -> None:
                made.append(bounds)
                super().__init__(bounds, *rest)

        with without_spark(), mock.patch("changelog_engine.launch.Autoscaler", Noted):
            env.execute("job")
        return made[0]

    assert bounds(1).most == 128
    assert bounds(100).most == 128


class Growing(Backlog, DiscoveringSource):
    """A source that may get more splits."""

    def discover(self, known: Any) -> list[Split]:
        return []


@pytest.mark.parametrize(
    ("strategy", "most"),
    [
        (WatermarkStrategy.for_monotonous_timestamps(), SPLITS),
        (WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(10)), SPLITS + 2),
        (WatermarkStrategy.no_watermarks(), SPLITS + 2),
    ],
)
def test_event_time_goes_on(tmp_path: Path, strategy: WatermarkStrategy, most: int) -> None:
    """A subtask without a split would hold it back, so there are none of these."""
    (tmp_path / "backlog").touch()
    bounds = {"autoscale__max_parallelism": str(SPLITS + 2), "autoscale__calm_period": "100 ms"}
    env = environment(tmp_path, 2, **bounds).enable_checkpointing(100)
    numbers = env.from_source(Growing(str(tmp_path)), strategy, "numbers", Types.LONG())
    numbers.key_by(lambda number: number % 10, Types.LONG()).process(CountAlone(), Types.LONG()).print()
    found = []

    class Noted(Judge):
        def look(self, *seen: Any) -> Scaling | None:
            wanted = super().look(*seen)
            found.append(seen[2])
            return wanted

    with without_spark(), mock.patch("changelog_engine.driver.autoscale.Judge", Noted):
        client = env.execute_async("job")
        deadline = time.monotonic() + 120
        while most not in found or found.count(most) < 20:
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        client.cancel().result()
    assert max(found) == most
