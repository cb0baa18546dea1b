"""When an epoch of a source ends, and how its splits share it, by a clock that the test moves."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import GraphBuilder
from support.jobs import TestJob

from api.datastream.functions import KeyedProcessFunction
from changelog_engine.changelog.split_ends import ends_of, with_ends
from changelog_engine.connectors import IterableSource, Range, Source, Split, SplitReader
from changelog_engine.connectors.iterable import READ_BUDGET_S, IterableReader
from changelog_engine.errors import UserFunctionError
from changelog_engine.event_time import MAX_WATERMARK, MIN_WATERMARK
from changelog_engine.operators.source import SourceHead, SourceStart


class Slow(Source, SplitReader):
    """An endless supply of numbers; each read takes a while of the clock."""

    def __init__(self, read_s: float, bounded: bool) -> None:
        self.read_s, self.bounded = read_s, bounded
        self.now_s = 0.0
        self.asked: list[int] = []

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("a", 0), Split("b", 0), Split("c", 0)]

    def reader(self, split: Split) -> Slow:
        return self

    def read(self, position: Any, max_records: int) -> Range:
        self.now_s += self.read_s
        self.asked.append(max_records)
        return Range(range(max_records), position + 1, False)  # the position counts reads


def epoch(source: Slow, budget_ms: int, most: int = 10**9) -> dict[str, int]:
    """How often each split is read in an epoch."""
    head = SourceHead("uid", "slow", source, SourceStart("slow", None), lambda: source.now_s)
    reached = head.read({split.id: split.start for split in source.splits(1)}, most, budget_ms)
    return {split: position for split, (position, _) in reached.items()}


@pytest.mark.parametrize(
    ("bounded", "reads"),
    [(True, {"a": 10, "b": 0, "c": 0}), (False, {"a": 4, "b": 3, "c": 3})],
)
def test_an_epoch_ends_with_its_time(bounded: bool, reads: dict[str, int]) -> None:
    """The splits of a bounded source come one after the other; those of another one share the time."""
    assert epoch(Slow(0.03, bounded), 300) == reads


class Trickle(Slow):
    """Each read takes 10 ms and gives three numbers; what waits behind them is scripted."""

    def __init__(self, behind: list[Any], bounded: bool = False) -> None:
        super().__init__(0.01, bounded)
        self._behind = behind

    def read(self, position: Any, max_records: int) -> Range:
        return super().read(position, min(max_records, 3))

    @property
    def behind(self) -> Any:  # type: ignore[override]
        known = self._behind.pop(0) if self._behind else None
        if isinstance(known, Exception):
            raise known
        return known


@pytest.mark.parametrize(
    ("behind", "bounded", "reads"),
    [
        ([0, 0, 0], False, {"a": 1, "b": 1, "c": 1}),  # nothing waits: what comes next is the next epoch's
        ([5, 2, 0, 0, 1, 0], False, {"a": 3, "b": 1, "c": 2}),  # until nothing waits
        ([], False, {"a": 10, "b": 10, "c": 10}),  # not known: its share of the time
        ([False, "0", ValueError("broken")] * 20, False, {"a": 10, "b": 10, "c": 10}),  # nor is this
        ([0] * 60, True, {"a": 30, "b": 0, "c": 0}),  # more of a bounded source is there, whatever it says
    ],
)
def test_a_split_in_which_nothing_waits_is_left(
    behind: list[Any], bounded: bool, reads: dict[str, int]
) -> None:
    assert epoch(Trickle(behind, bounded), 295) == reads


def test_a_full_read_does_not_ask_what_waits() -> None:
    source = Trickle([0] * 9)
    assert epoch(source, 300, most=9) == {"a": 1, "b": 1, "c": 1}
    assert len(source._behind) == 9


def test_no_split_waits_for_ever() -> None:
    """A split that takes all the time is left after one read, and the others are read once too."""
    assert epoch(Slow(5.0, False), 300) == {"a": 1, "b": 1, "c": 1}


def test_steps_grow_while_they_are_fast_and_shrink_when_they_are_slow() -> None:
    source = Slow(0.001, True)
    epoch(source, 5)
    assert source.asked == [64, 256, 1024, 4096, 16384]
    source = Slow(0.05, True)
    epoch(source, 200)
    assert source.asked == [64, 16, 4, 1]
    source = Slow(5.0, True)
    epoch(source, 6_000)
    assert source.asked == [64, 1], "no step longer than need be"


@pytest.mark.parametrize(("read_s", "asked"), [(2.0, [1]), (0.001, [1, 4, 16, 64, 256])])
def test_a_slow_function_gets_its_first_elements_one_by_one(read_s: float, asked: list[int]) -> None:
    """Where that is seen by nobody: the stage has one way."""
    source = Slow(read_s, True)
    head = SourceHead("uid", "slow", source, SourceStart("slow", None), lambda: source.now_s, one_first=True)
    head.read({"a": 0}, 10**9, 5)
    assert source.asked == asked


class Passed(KeyedProcessFunction):
    """Gives what it gets."""

    def process_element(self, value: int, ctx: Any) -> Any:
        yield value


@pytest.mark.parametrize("branches", [False, True])
def test_elements_behind_a_slow_function_come_in_epochs_of_their_own(tmp_path: Path, branches: bool) -> None:
    """So that processing-time windows and timers fire meanwhile; not where the stage branches."""

    def slow(number: int) -> int:
        time.sleep(0.03)
        return number

    build = GraphBuilder()
    source = build.source(range(6), uid="source")
    build.collect(build.process(build.key_by(source, slow), Passed(), uid="passed"))
    if branches:
        build.collect(source)
        build.collect(source)
    job = TestJob(tmp_path, epoch_target_ms=10)
    job.run(build.graph())
    read = [sum(each.records_in for each in reports if each.sources) for reports in job.reports]
    assert [count for count in read if count] == ([6] if branches else [1] * 6)


def test_records_bound_an_epoch_too() -> None:
    source = Slow(0.0, True)
    assert sum(source.asked) == 0
    epoch(source, 10**6, most=1000)
    assert sum(source.asked) == 1000


@pytest.mark.parametrize(
    ("call", "doing"),
    [
        ("begin_epoch", "beginning an epoch of split 'a'"),
        ("read", "reading split 'a'"),
        ("at_barrier", "preparing a checkpoint of split 'a'"),
        ("acknowledged", "acknowledging split 'a'"),
    ],
)
def test_what_a_reader_raises_is_told_with_its_source(
    monkeypatch: pytest.MonkeyPatch, call: str, doing: str
) -> None:
    def broken(*given: Any) -> Any:
        raise ValueError("broken")

    monkeypatch.setattr(Slow, call, broken)
    monkeypatch.setattr(Slow, "acknowledges", True)
    source = Slow(1.0, True)
    head = SourceHead("uid", "slow", source, SourceStart("slow", None), lambda: source.now_s)

    def epoch_with_a_barrier() -> None:
        head.at_barrier(head.read({"a": 0}, 10, 100))
        head.acknowledge()

    with pytest.raises(UserFunctionError, match=doing) as caught:
        epoch_with_a_barrier()
    assert caught.value.operator == "slow"


def test_elements_may_come_in_any_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of some cannot be taken; what is none fails as reading does."""
    source = Slow(1.0, True)
    head = SourceHead("uid", "slow", source, SourceStart("slow", None), lambda: source.now_s)
    given: list[Any] = [deque((1, 2)), np.array((3, 4)), None]
    taken: list[Any] = []
    monkeypatch.setattr(Slow, "read", lambda self, position, most: Range(given.pop(0), position + 1, False))
    monkeypatch.setattr(head.head, "process", lambda values, times: taken.append(values))
    for _ in range(2):
        head.read({"a": 0}, 2, 1)
    with pytest.raises(UserFunctionError, match="reading split 'a' of operator 'slow' raised TypeError"):
        head.read({"a": 0}, 2, 1)
    assert taken == [[1, 2], [3, 4]]


def test_a_slow_iterable_is_cut_off() -> None:
    now = [0.0]

    def slow() -> Any:
        for number in range(100):
            now[0] += READ_BUDGET_S / 4
            yield number

    reader = IterableReader(slow, lambda: now[0])
    found = reader.read(0, 1000)
    assert list(found.values) == [0, 1, 2, 3]
    assert reader.read(found.next, 1000).values[0] == 4
    assert isinstance(IterableSource(slow).reader(Split("iterable", 0)), IterableReader)


def test_what_a_source_keeps_of_its_time() -> None:
    """Where epochs ended belongs to the log that was written; the watermark to whoever goes on."""
    head = SourceStart("slow", None)
    head.note(1, 0, {"a": 0}, {"a": (5, False)})
    head.note(2, 0, {"a": 5}, {"a": (9, False)})
    # Until a checkpoint is known to have it
    assert head.snapshot() == head.snapshot() == [(1, {"a": (5, False)})]
    head.note(3, 2, {"a": 9}, {"a": (12, False)})
    assert head.snapshot() is None
    head.note(4, 2, {"a": 12}, {"a": (12, False)})
    head.watermark(70)
    kept = head.snapshot()
    assert ends_of(kept) == [(3, {"a": (12, False)})] == ends_of(ends_of(kept))
    assert ends_of(with_ends(kept, [])) == ends_of(None) == []
    assert with_ends(ends_of(kept), []) is None  # what an older engine wrote
    for state, expected in [(kept, 70), (with_ends(kept, []), 70), (ends_of(kept), MIN_WATERMARK)]:
        again, receiver = SourceStart("slow", None), SourceStart("receiver", None)
        again.link(receiver)
        again.restore(state)
        assert (again.current_watermark, receiver.current_watermark) == (expected, expected)
    head.note(5, 4, {}, {})
    head.watermark(MAX_WATERMARK)
    assert head.snapshot() is None
