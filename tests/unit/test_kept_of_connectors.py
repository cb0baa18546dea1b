"""What users' sources and sinks give the engine to keep, and what they give with it, is kept as it is or refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.same import same
from support.script import Failure, Fault, Script

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.connectors import (
    Committable,
    CommittingSink,
    CommittingWriter,
    DiscoveringSource,
    Position,
    Prepared,
    Range,
    SinkContext,
    Source,
    Split,
    SplitReader,
)
from changelog_engine.connectors.kept_values import kept_copy
from changelog_engine.errors import JobExecutionError, NotSerializableError

COUNT = 6


class Numbers(Source):
    """The numbers below COUNT in each split, two at a time, with positions of some form."""

    bounded = True

    def __init__(self, form: Callable[[int], Any], ids: Sequence[Any] = ("a",)) -> None:
        self.form = form
        self.ids = ids

    def splits(self, parallelism: int) -> list[Split]:
        return [Split(name, self.form(0)) for name in self.ids]

    def reader(self, split: Split) -> SplitReader:
        return Reader(self.form)


class Reader(SplitReader):
    def __init__(self, form: Callable[[int], Any]) -> None:
        self.form = form

    def read(self, position: Position, max_records: int) -> Range:
        forms = [kept_copy(self.form(number), "it") for number in range(COUNT + 1)]
        begin = forms.index(kept_copy(position, "it"))
        end = min(begin + 2, COUNT)
        return Range(list(range(begin, end)), self.form(end), end == COUNT)


class Forgetful(Reader):
    """Begins anew where it does not find what it looks for, as one with ``position.get(partition, 0)`` does."""

    def read(self, position: Position, max_records: int) -> Range:
        begin = position.get(0, 0)
        end = min(begin + 2, COUNT)
        return Range(list(range(begin, end)), {0: end}, end == COUNT)


class OfPartitions(Numbers):
    def splits(self, parallelism: int) -> list[Split]:
        return [Split("a", {})]

    def reader(self, split: Split) -> SplitReader:
        return Forgetful(self.form)


class Finds(Numbers, DiscoveringSource):
    discovery_interval_ms = 0

    def discover(self, known: Any) -> list[Split]:
        return [Split("b", 0), Split("a", 0), Split("b", 1)]


class Gives(Numbers):
    """One range that is as it should not be."""

    def __init__(self, found: Range) -> None:
        super().__init__(int)
        self.found = found

    def reader(self, split: Split) -> SplitReader:
        return GivesReader(self.found)


class GivesReader(SplitReader):
    def __init__(self, found: Range) -> None:
        self.found = found

    def read(self, position: Position, max_records: int) -> Range:
        return self.found if position == 0 else Range([], position, True)


def run(path: Path, source: Source, *failures: Failure, sink: Any = None) -> TestJob:
    build = GraphBuilder()
    elements = build.source(source, uid="numbers", name="numbers")
    if sink is None:
        build.collect(elements)
    else:
        build.sink(elements, sink)
    job = TestJob(path, Script((2,), (True,), failures))
    job.run(build.graph(), **({} if failures else {"restart": NO_RESTART}))
    return job


FORMS: list[Callable[[int], Any]] = [int, float, str, lambda n: [n], lambda n: (n, "a"), lambda n: {"at": n}]


@pytest.mark.parametrize("form", FORMS)
def test_a_position_that_json_keeps(tmp_path: Path, form: Callable[[int], Any]) -> None:
    assert run(tmp_path, Numbers(form), Failure(2, Fault.PARTS)).output == list(range(COUNT))


def test_a_position_that_json_would_change(tmp_path: Path) -> None:
    """After a restore the reader found no partition 0, but "0", and read all of it again."""
    with pytest.raises(JobExecutionError) as caught:
        run(tmp_path, OfPartitions(int))
    said = str(caught.value)
    assert (
        "the position is {0: 2}, which a checkpoint cannot keep as it is: the key 0 of a dict is not a str"
        in said
    )
    assert "preparing a checkpoint of split 'a' of operator 'numbers'" in said


@pytest.mark.parametrize("start", [np.int64(0), {1: 0}, {0}, math.nan], ids=repr)
def test_a_start_that_json_would_change(tmp_path: Path, start: Any) -> None:
    with pytest.raises(
        JobExecutionError, match=r"the start of split 'a' of source 'numbers' is .* cannot keep"
    ):
        run(tmp_path, Numbers(lambda number: start))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (("a", "b", "a"), "source 'numbers' has two splits with the id 'a': each needs one of its own"),
        ((1, "1"), "the id of a split must be a str, got 1"),
        ((None,), "the id of a split must be a str, got None"),
    ],
)
def test_splits_that_would_become_one(tmp_path: Path, ids: Sequence[Any], message: str) -> None:
    with pytest.raises(JobExecutionError, match=message):
        run(tmp_path, Numbers(int, ids))


def test_splits_that_are_found_later_and_would_become_one(tmp_path: Path) -> None:
    with pytest.raises(
        JobExecutionError, match=r"(?s) has two splits with the id 'b'.*in looking for new splits of operator"
    ):
        run(tmp_path, Finds(int))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (Range([1, 2, 3], 1, False, [5, 6]), "gave 3 elements and 2 timestamps"),
        (Range([1], 1, False, [5, 6]), "gave 1 elements and 2 timestamps"),
        (Range([1, 2], 1, False, [5, None]), "gave None as a timestamp"),  # type: ignore[list-item]
        (Range([1, 2], 1, False, [5, 2**63]), "gave 9223372036854775808 as a timestamp"),
        (Range("abc", 1, False), "gave 'abc' as the elements of a Range"),
        (Range({"a": 1}, 1, False), "gave {'a': 1} as the elements of a Range"),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_elements_that_are_none(tmp_path: Path, found: Range, message: str) -> None:
    with pytest.raises(JobExecutionError) as caught:
        run(tmp_path, Gives(found))
    assert message in str(caught.value)
    assert "reading split 'a' of operator 'numbers'" in str(caught.value)


class Two(CommittingSink):
    """Its writers give a committable and a state of some form."""

    def __init__(self, committable: Any = None, state: Any = None) -> None:
        self.committable = committable
        self.state = state

    def committing_writer(self, context: SinkContext) -> CommittingWriter:
        return TwoWriter(self.committable, self.state)


class TwoWriter(CommittingWriter):
    def __init__(self, committable: Any, state: Any) -> None:
        self.committable = committable
        self.state = state

    def write(self, values: Sequence[Any]) -> None:
        pass

    def prepare(self, final: bool) -> Prepared:
        return Prepared([] if self.committable is None else [self.committable], self.state)

    def commit(self, committables: Sequence[Committable]) -> None:
        pass


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        (
            Two(committable={1: "file"}),
            r"what is to be committed is \[{1: 'file'}\], which a checkpoint cannot",
        ),
        (
            Two(state={"open": {2: 3}}),
            r"the state of the writer is {'open': {2: 3}}, which a checkpoint cannot",
        ),
        (Two(state=np.int64(1)), r"the state of the writer is np.int64\(1\), which a checkpoint cannot"),
    ],
    ids=["committable", "state", "numpy"],
)
def test_what_a_writer_prepared_that_json_would_change(tmp_path: Path, sink: Two, message: str) -> None:
    with pytest.raises(JobExecutionError, match=message):
        run(tmp_path, Numbers(int), sink=sink)


KEPT = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_lists(item) for key, item in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


@given(KEPT)
def test_what_json_has_is_kept_as_it_is(value: Any) -> None:
    assert same(kept_copy(value, "it"), _with_lists(value))
    checkpoint = Checkpoint(
        id=1, attempt=1, parent=None, lineage=(), time_ms=0, duration_ms=0, rows=0, bytes=0, parts=0, snapshot=None,
        sources={"s": {"a": [value, False]}}, operator_state={}, operators=[], finished=False, stopped=False,
    )  # fmt: skip
    assert same(Checkpoint.from_json(checkpoint.to_json()).sources["s"]["a"][0], _with_lists(value))


@given(
    KEPT,
    st.sampled_from([{1: 2}, {None: 0}, {1.5: 0}, {True: 1}, math.inf, b"a", {1}, np.float32(1)]),
    st.booleans(),
)
def test_what_json_has_not_is_refused_wherever_it_is(value: Any, bad: Any, in_list: bool) -> None:
    with pytest.raises(NotSerializableError, match="which a checkpoint cannot keep as it is"):
        kept_copy([value, {"in": (bad,)}] if in_list else {"a": value, "b": [bad]}, "it")
