"""Which subtask reads which split: every n-th of all that there ever were, however many of them have ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.functions import Count
from support.graphs import keyed_job

from changelog_engine.changelog.split_ends import SplitEnd
from changelog_engine.clock import MonotonicMs
from changelog_engine.connectors import DiscoveringSource, Split, SplitReader
from changelog_engine.driver.source_progress import SourceProgress
from changelog_engine.graph.plan import plan_job


class Files(DiscoveringSource):
    """Has the splits that the test lists."""

    discovery_interval_ms = 0
    bounded = True

    def __init__(self) -> None:
        self.names = ["0"]

    def splits(self, parallelism: int) -> list[Split]:
        return [Split(name, 0) for name in self.names]

    def reader(self, split: Split) -> SplitReader:
        raise NotImplementedError

    def discover(self, known: Mapping[str, tuple[Any, bool]]) -> list[Split]:
        return [Split(name, 0) for name in [*self.names, *self.names]]  # some twice


STEPS = st.lists(
    st.one_of(
        st.integers(1, 4),  # so many more splits
        st.tuples(st.integers(0, 99), st.integers(1, 9), st.booleans()),  # one of them is read
        st.just("restored"),
    ),
    max_size=30,
)


@given(STEPS, st.integers(1, 5))
def test_splits_are_dealt_by_their_numbers(steps: list[Any], parallelism: int) -> None:
    source = Files()
    plan = plan_job(keyed_job(source, Count(), parallelism=parallelism))
    stage = plan.stages[0]
    uid, progress = "source", SourceProgress(plan, {})
    for step in steps:
        positions = progress.positions[uid]
        if isinstance(step, int):
            source.names += [str(len(source.names) + more) for more in range(step)]
            before = len(positions)
            assert progress.discover(MonotonicMs(0)) == (len(source.names) > before)
        elif step == "restored":
            progress = SourceProgress(plan, progress.reached())
        else:
            split = str(step[0] % len(positions))
            if not positions[split].finished:
                progress.advance({uid: {split: SplitEnd(step[1], step[2])}})
                assert progress.positions[uid][split] == (step[1], step[2])
        positions = progress.positions[uid]
        assert list(positions) == source.names[: len(positions)]
        dealt = [progress.for_subtask(stage, subtask)[uid] for subtask in range(parallelism)]
        every = list(positions.items())
        assert dealt == [
            {split: at for split, (at, finished) in every[subtask::parallelism] if not finished}
            for subtask in range(parallelism)
        ]
        assert progress.finished == all(finished for _, finished in positions.values())
