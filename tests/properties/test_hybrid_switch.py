"""Sources one after the other: whatever fails, and however the job is scaled in between, each element comes once, those of a
source after all of the one before; where a source begins is decided once.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chance import fewer
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Failure, Fault, Script
from support.scripts import EXACT

from api.common import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.connectors import DiscoveringSource, HybridSource, Range, Source, Split, SplitReader
from changelog_engine.errors import RestoreError
from changelog_engine.graph.nodes import JobGraph
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.replay.job import replay_graph
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint

KEYS = 3


@dataclass
class Outside:
    """What sources read, and what was asked of it; the same object in driver and workers of this process.

    Args:
        pieces: elements of each source's splits.
        planned: how often each source was asked where to begin, with the answer.
        read: source, split and position of each read.
    """

    pieces: list[list[list[Any]]]
    planned: list[tuple[int, list[int]]] = field(default_factory=list)
    read: list[tuple[int, str, int]] = field(default_factory=list)


OUTSIDE: dict[str, Outside] = {}


class Piecewise(Source):
    """A source of lists, which begins where they begin, or at a place that moves on each time somebody asks.

    Args:
        name: of the `Outside`.
        number: which of its sources.
        moving: it begins one element later each time.
        by_split, bounded: see Source.
    """

    timed = True
    found = False  # while the job runs: its splits after the first

    def __init__(
        self,
        name: str,
        number: int,
        moving: bool = False,
        by_split: bool = False,
        bounded: bool = True,
    ) -> None:
        self.name, self.number, self.moving, self.bounded = name, number, moving, bounded
        self.watermarks_by_split = by_split

    def splits(self, parallelism: int) -> list[Split]:
        outside = OUTSIDE[self.name]
        asked = sum(number == self.number for number, _ in outside.planned)
        pieces = outside.pieces[self.number][: 1 if self.found else None]
        starts = [min(asked if self.moving else 0, len(piece)) for piece in pieces]
        outside.planned.append((self.number, starts))
        return [Split(str(index), start) for index, start in enumerate(starts)]

    def reader(self, split: Split) -> _Reader:
        return _Reader(OUTSIDE[self.name], self.number, split.id, self.bounded)


class Finding(Piecewise, DiscoveringSource):
    """Finds its splits after the first while the job runs."""

    found = True
    discovery_interval_ms = 0

    def discover(self, known: Any) -> list[Split]:
        assert all(key.isdecimal() for key in known)
        return [
            Split(str(i), 0)
            for i in range(len(OUTSIDE[self.name].pieces[self.number]))
            if str(i) not in known
        ]


class _Reader(SplitReader):
    def __init__(self, outside: Outside, number: int, split: str, bounded: bool) -> None:
        self.outside, self.number, self.split, self.bounded = outside, number, split, bounded
        self.piece = outside.pieces[number][int(split)]

    def read(self, position: int, max_records: int) -> Range:
        self.outside.read.append((self.number, self.split, position))
        values = self.piece[position : position + max_records]
        after = position + len(values)
        return Range(values, after, self.bounded and after >= len(self.piece), [time for _, time in values])


class Latest(KeyedProcessFunction):
    """Gives each element with how many its key had before, and the watermark."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        (source, split, number), time = value
        before = self.count.value() or 0
        self.count.update(before + 1)
        yield (
            ctx.get_current_key(),
            before,
            source,
            split,
            number,
            time,
            ctx.timer_service().current_watermark(),
        )


def job_of(sources: list[Any], parallelism: int, lag_ms: int | None = 0) -> JobGraph:
    build = GraphBuilder("job", parallelism, 8)
    stream = build.timestamps(
        build.source(HybridSource(sources), uid="hybrid"), lambda value: value[1], lag_ms
    )
    keyed = build.key_by(stream, lambda value: value[1] % KEYS, Types.LONG())
    build.collect(build.process(keyed, Latest(), uid="by key"))
    return build.graph()


def elements(number: int, lengths: list[int], begin: int) -> list[list[Any]]:
    """Of each split: ((source, split, number), timestamp), timestamps growing in each split."""
    return [
        [((number, split, i), begin + 2 * i + split) for i in range(length)]
        for split, length in enumerate(lengths)
    ]


LENGTHS = st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=4)
FAULTS = st.lists(
    st.builds(
        Failure, st.integers(1, 12), st.sampled_from(EXACT), st.sampled_from([0, 1]), st.sampled_from([0, 1])
    ),
    max_size=4,
)


@fewer(2)
@given(
    lengths=LENGTHS,
    flags=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=4, max_size=4),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    barriers=st.lists(st.booleans(), min_size=1, max_size=4).filter(any),
    failures=FAULTS,
    parallelisms=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    changelog=st.booleans(),
)
def test_each_element_once_and_source_by_source(
    lengths: list[list[int]],
    flags: list[tuple[bool, bool]],
    sizes: list[int],
    barriers: list[bool],
    failures: list[Failure],
    parallelisms: list[int],
    changelog: bool,
) -> None:
    pieces = [elements(number, each, number * 20) for number, each in enumerate(lengths)]
    OUTSIDE["random"] = Outside(pieces)
    sources = [
        Piecewise("random", number, by_split=flag[0]) for number, flag in enumerate(flags[: len(pieces)])
    ]
    with tempfile.TemporaryDirectory() as base:
        script = Script(tuple(sizes), tuple(barriers), tuple(failures))
        job = TestJob(base, script, changelog=changelog)
        job.run(lambda driver: job_of(sources, parallelisms[driver % len(parallelisms)]))
        given = [row[2:6] for row in job.output]
        assert Counter(given) == Counter(
            (*name, time) for part in pieces for piece in part for name, time in piece
        )
        _check_order(job.output)
        final = job.commits[-1]
        assert final.finished
        assert [int(split.partition(":")[0]) for split in final.sources["hybrid"]] == sorted(
            number for number, each in enumerate(lengths) for _ in each or [None]
        )
        if changelog and len(set(parallelisms)) == 1:
            report = replay_graph(job_of(sources, parallelisms[0]), job.settings, None)
            assert report.equal, report.text()


def _check_order(output: list[Any]) -> None:
    counts: Counter[Any] = Counter()
    newest: dict[Any, int] = {}
    last: dict[Any, int] = {}
    for key, before, source, split, number, _, _ in output:
        assert before == counts[key], "state is exact"
        counts[key] += 1
        assert source >= newest.get(key, 0), "a source after the one before"
        newest[key] = source
        assert number > last.get((key, source, split), -1), "the order of a split"
        last[key, source, split] = number


# Where a run of `TestWhereASourceBegins` can fail. Without a failure it has eight epochs, three of which end with a commit.
# A fault of a commit that is due in another epoch strikes in the next of these: it would be the same run again.
LAST, COMMITS = 8, (3, 4, 8)
OF_COMMITS = {Fault.COMMIT_FAILS, Fault.COMMIT_LIES, Fault.COMMITTED}
STEPS = [
    *(
        (fault, epoch)
        for fault in Fault
        for epoch in (COMMITS if fault in OF_COMMITS else range(1, LAST + 1))
    ),
    (Fault.WORKER, LAST + 1),  # never
]


def struck(job: TestJob) -> bool:
    """Whether all failures of a job's script have happened."""
    assert job.progress is not None
    return not job.progress.waiting


class TestWhereASourceBegins:
    """A source that begins at another place each time it is asked, as at the end of a topic."""

    @pytest.mark.parametrize(("fault", "epoch"), STEPS)
    def test_is_decided_once_before_anything_is_read(self, tmp_path: Path, fault: Fault, epoch: int) -> None:
        name = f"{fault.name} {epoch}"
        pieces = [elements(0, [4, 2], 0), elements(1, [9, 9], 100)]
        OUTSIDE[name] = outside = Outside(pieces)
        sources = [Piecewise(name, 0), Piecewise(name, 1, moving=True, by_split=True)]
        job = TestJob(tmp_path, Script((2,), (False, False, False, True), (Failure(epoch, fault),)))
        job.run(lambda driver: job_of(sources, 2))
        assert struck(job) == (epoch <= LAST), "the run has other epochs than STEPS says"
        number, decided = outside.planned[-1]
        assert number == 1
        begun = [c.sources["hybrid"]["1:0"] for c in job.commits if "1:0" in c.sources["hybrid"]]
        assert begun[0] == (decided[0], False), "the first checkpoint with it has nothing read"
        assert min(at for number, _, at in outside.read if number == 1) == decided[0], "nor has anybody else"
        expected = [*pieces[0], *(piece[decided[0] :] for piece in pieces[1])]
        given = Counter(row[2:6] for row in job.output)
        wanted = Counter((*key, time) for piece in expected for key, time in piece)
        if fault is Fault.COMMITTED:  # what is collected dies with the driver
            assert given <= wanted
        else:
            assert given == wanted

    def test_a_commit_that_fails_is_made_again_before_anything_is_read(self, tmp_path: Path) -> None:
        """And not in each epoch, but when the next checkpoint is due."""
        OUTSIDE["again"] = Outside([elements(0, [2], 0), elements(1, [5], 10)])
        job = TestJob(
            tmp_path,
            Script((2,), (*[False] * 4, True), tuple(Failure(1, Fault.COMMIT_FAILS) for _ in range(3))),
            tolerable_failures=5,
        )
        job.run(job_of([Piecewise("again", 0), Piecewise("again", 1, moving=True)], 1))
        assert job.commits[0].sources["hybrid"]["1:0"] == (0, False)
        assert [row[4] for row in job.output] == [0, 1, 0, 1, 2, 3, 4]
        assert OUTSIDE["again"].planned == [(0, [0]), (1, [0])]
        assert job.coordinator.restarts.count == 0
        assert job.progress is not None
        assert job.progress.barriers_used >= 10, "a checkpoint that failed was not waited behind"


def test_every_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    """By a restore with another parallelism, a fork, a job on a savepoint, and a replay."""
    pieces = [elements(0, [6, 3], 0), elements(1, [], 20), elements(2, [5, 4, 6], 30)]
    OUTSIDE["points"] = Outside(pieces)
    sources = [Piecewise("points", number, by_split=number == 2) for number in range(3)]
    script = Script((4,), (True,))
    job = TestJob(tmp_path / "base", script)
    job.run(job_of(sources, 2))
    everything, commits = list(job.output), list(job.commits)
    newest = [max(commit.sources["hybrid"])[0] for commit in commits]
    assert newest == sorted(newest)
    assert set(newest) == {"0", "1", "2"}
    folder = find_job_folder(str(tmp_path / "base"), "job")
    for commit in commits[:-1]:
        replayed = replay_graph(job_of(sources, 2), job.settings, commit.id)
        assert replayed.equal, replayed.text()
        savepoint = create_savepoint(folder, commit, str(tmp_path / "savepoints"))
        fork_job(folder, commit, str(tmp_path / f"fork{commit.id}" / "job"))
        for name, settings in (
            (f"fork{commit.id}", {}),
            (f"savepoint{commit.id}", {"restore": savepoint.path}),
        ):
            other = TestJob(tmp_path / name, script, **settings)
            other.run(job_of(sources, 3))
            _check_rest(pieces, commit, everything, other.output)
    for commit in commits[-2::-1]:
        again = TestJob(tmp_path / "base", script, restore=str(commit.id))
        again.run(job_of(sources, 1))
        _check_rest(pieces, commit, everything, again.output)


def _check_rest(
    pieces: list[list[list[Any]]], commit: Checkpoint, everything: list[Any], output: list[Any]
) -> None:
    """What comes after a checkpoint is what its positions do not cover, on the state that it has."""
    at = {split: state[0] for split, state in commit.sources["hybrid"].items()}
    rest = [
        (*name, time)
        for number, part in enumerate(pieces)
        for split, piece in enumerate(part)
        for name, time in piece[at.get(f"{number}:{split}", 0) :]
    ]
    assert Counter(row[2:6] for row in output) == Counter(rest)
    given = {row[2:6] for row in output}
    before = [row for row in everything if row[2:6] not in given]
    _check_order(before + output)


class TestTime:
    def test_watermarks_never_fall_behind_those_of_the_source_before(self, tmp_path: Path) -> None:
        pieces = [elements(0, [20], 100), elements(1, [20, 20], 50), elements(2, [3], 10)]
        OUTSIDE["time"] = Outside(pieces)
        sources = [Piecewise("time", 0), Piecewise("time", 1, by_split=True), Piecewise("time", 2)]
        for failures in ((), tuple(Failure(epoch, Fault.GONE) for epoch in range(2, 40, 3))):
            job = TestJob(tmp_path / str(len(failures)), Script((5,), (True,), failures))
            job.run(job_of(sources, 1))
            marks = [row[6] for row in job.output]
            assert marks == sorted(marks)
            assert [mark for row, mark in zip(job.output, marks, strict=True) if row[2] == 1] == [137] * 40
            assert marks[-1] == 137

    def test_a_subtask_without_splits_waits_with_its_time(self, tmp_path: Path) -> None:
        """It may get some of the next source, so the watermark is not up to the others alone; nor is it at the end."""
        OUTSIDE["waits"] = Outside([elements(0, [8], 100), elements(1, [4, 4], 50)])
        job = TestJob(tmp_path, Script((2,), (True,)))
        job.run(job_of([Piecewise("waits", 0), Piecewise("waits", 1)], 2))
        assert all(row[6] < 0 for row in job.output if row[2] == 0)
        assert all(row[6] <= row[5] for row in job.output if row[2] == 1 and row[3] == 1), "nothing is late"


class TestTheLastSource:
    def test_may_find_splits_and_never_end(self, tmp_path: Path) -> None:
        pieces = [elements(0, [3], 0), elements(1, [4, 5], 100)]
        OUTSIDE["endless"] = Outside(pieces)
        sources = [Piecewise("endless", 0), Finding("endless", 1, bounded=False)]
        assert not HybridSource(sources).bounded
        job = TestJob(tmp_path, Script((2,), (True,)))

        def stop(checkpoint: Any) -> None:
            known = checkpoint.sources["hybrid"]
            if [position for position, _ in known.values()] == [3, 4, 5]:
                job.coordinator.control.stop()

        job.on_commit = stop  # type: ignore[method-assign]
        job.run(job_of(sources, 2))
        assert len(job.output) == 12
        assert not job.commits[-1].finished

    def test_is_one_of_the_list(self, tmp_path: Path) -> None:
        """Whoever goes on from a checkpoint with another list is told so; one that grew at its end is read on."""
        OUTSIDE["list"] = Outside([elements(n, [3], n * 10) for n in range(3)])
        sources = [Piecewise("list", number) for number in range(3)]
        job = TestJob(tmp_path, Script((2,), (True,)), restore="latest")
        job.run(job_of(sources[:2], 1))
        assert len(job.output) == 6
        with pytest.raises(
            RestoreError, match=r"'1:0' of the checkpoint is not of this HybridSource, which has 1"
        ):
            job.run_driver(job_of(sources[:1], 1))
        job.run(job_of(sources, 1))
        assert [row[2:5] for row in job.output] == [(number, 0, i) for number in range(3) for i in range(3)]
