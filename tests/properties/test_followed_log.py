"""Readers of a job's mutations against a model that keeps all of them, through restarts, rewinds, merges and truncation.

A reader is given every mutation of the job's lineage, each once, in the order of checkpoints; or it is told why not, and
what to do, and doing that works.
"""

from __future__ import annotations

import json
import re
import tempfile
from datetime import UTC
from typing import Any

import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.materialized import merging_few
from unit.test_commit_helpers import Driver

from changelog_engine.connectors.state_changes import StateChangesSource
from changelog_engine.errors import NotLoggedError, RestoreError
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.history.mutation_rows import COLUMNS, WantedMutations, mutation_files
from changelog_engine.ledger.follower import CONTINUE, FAIL, LogFollower, Reached
from changelog_engine.types import Types
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

SCHEMA = pa.schema([(column.name, column.arrow) for column in COLUMNS])
KEYS = ["11", "11111"]  # the helper takes the length for the key group
_STATE = DescribedState("n", "value", Types.LONG().spec())
OPERATORS = [DescribedOperator("count", "count", "process", 1, 8, True, Types.LONG().spec(), (_STATE,))]


class Model:
    """A job, and what each of its checkpoints changed."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.driver = Driver.start(base)
        self.driver.operators = OPERATORS
        self.rows: dict[int, list[tuple[int, str, str]]] = {}
        self.line: list[int] = []  # ids of the lineage that the job stands on
        self.parents: dict[int, list[int]] = {}

    @property
    def path(self) -> str:
        return self.driver.folder.storage.root

    def checkpoint(self, keys: list[str]) -> None:
        number = self.driver.committer.next_id
        written = {key: number * 10 + place for place, key in enumerate(keys)}
        if written:
            self.driver.checkpoint(written)
        else:
            row = self.driver.row([])
            self.driver.committer.commit(row, [])
            self.driver.last = row
        self.rows[number] = [(number, key, str(value)) for key, value in written.items()]
        self.line = [*self.line, number]
        self.parents[number] = self.line

    def there(self) -> list[int]:
        return sorted(LogFollower(self.path).ledger.lineage.checkpoints.ids())

    def step(self, what: str, draw: Any) -> None:
        if what == "checkpoint":
            self.checkpoint(draw(st.sampled_from([[], KEYS[:1], KEYS]), "keys"))
        elif what == "restart":
            self.rewind(self.line[-1])
        elif what == "rewind":
            self.rewind(draw(st.sampled_from(self.there()), "to"))
        elif what == "snapshot":
            materialize(self.driver.folder, draw(st.sampled_from(self.there()), "of"))
        else:  # truncate
            with merging_few():
                kept = Retention(draw(st.sampled_from([0, 2_000, 1 << 40]), "history"), 1, 1 << 40)
                now = float(max(self.there()) + 1)
                truncate(self.driver.folder, kept, lambda: now)

    def rewind(self, checkpoint: int) -> None:
        self.driver = Driver.start(self.base, str(checkpoint))
        self.driver.operators = OPERATORS
        self.line = self.parents[checkpoint]

    def expected(self, numbers: list[int]) -> list[tuple[int, str, str]]:
        return [row for number in numbers for row in self.rows[number]]


MOVES = (
    ("checkpoint", "read"),
    ("checkpoint", "restart", "checkpoint"),
    ("checkpoint", "read", "rewind", "read", "checkpoint", "read"),
    ("checkpoint", "rewind", "checkpoint"),
    ("checkpoint", "snapshot", "checkpoint", "truncate", "read"),
    ("snapshot", "truncate"),
)


def shared(one: list[int], other: list[int]) -> int:
    """How many ids two lineages have in common."""
    return next(
        (i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )


class Reader:
    """A reader that keeps nothing but its position, as JSON."""

    def __init__(self, model: Model, policy: str) -> None:
        self.model = model
        self.policy = policy
        self.position = json.dumps(LogFollower(model.path).start("first").to_json())
        self.line: list[int] = []

    def read(self, most: int | None) -> None:
        follower = LogFollower(self.model.path, self.policy)
        reached, there = Reached.from_json(json.loads(self.position)), self.model.line
        fork = shared(self.line, there)
        wanted = there[fork:] if most is None else there[fork : fork + most]
        try:
            end = follower.after(reached, most)
            found = rows_between(follower, reached, end)
        except NotLoggedError as error:
            event("truncated")
            self.begin_anew(follower, error, wanted)
            return
        except RestoreError as error:
            event("rewound")
            assert (self.policy, fork < len(self.line)) == (FAIL, True)
            begin = int(re.findall(r"startingCheckpoint = (\d+)", str(error))[0])
            assert [number for number in there if number >= begin] == there[fork:]
            self.policy = CONTINUE
            self.read(most)
            return
        assert self.policy == CONTINUE or fork == len(self.line)
        assert found == sorted(self.model.expected(wanted))
        if wanted:
            self.line = there[: fork + len(wanted)]
            self.position = json.dumps(end.to_json())
            again = rows_between(LogFollower(self.model.path, self.policy), reached, end)
            assert again == found
        else:
            assert end == reached

    def begin_anew(self, follower: LogFollower, error: NotLoggedError, wanted: list[int]) -> None:
        first, last, begin = map(int, re.findall(r"\d+", str(error).rpartition("mutations of")[2])[:3])
        assert wanted[0] == first <= last < begin
        assert [number for number in self.model.line if last < number < begin] == []
        reached = follower.start(str(begin))
        end = follower.after(reached)
        there = self.model.line
        left = [number for number in there if number >= begin]
        assert rows_between(follower, reached, end) == sorted(self.model.expected(left))
        assert follower.start("oldest").checkpoint < begin
        self.line, self.position = there, json.dumps(end.to_json())


class JobThatReads:
    """A job with a StateChangesSource: it keeps positions in its checkpoints, and may stop in the middle of anything."""

    def __init__(self, model: Model, split: int) -> None:
        self.model = model
        self.split = split
        start = self.source().splits(2)[split]
        self.position = json.dumps(start.start)
        self.line: list[int] = []
        self.row: int | None = None

    def source(self, start: str = "first") -> StateChangesSource:
        return StateChangesSource(self.model.path, "count", "n", start=start, on_rewind=CONTINUE)

    def read(self, sizes: list[int]) -> None:
        """Some reads by a new reader."""
        reader = self.source().reader(self.source().splits(2)[self.split])
        for size in sizes:
            try:
                found = reader.read(json.loads(self.position), size)
            except NotLoggedError as error:
                begin = re.findall(r"start = (\d+)", str(error))[0]
                reader = self.source().reader(self.source().splits(2)[self.split])
                self.position = json.dumps(self.source(begin).splits(2)[self.split].start)
                self.line = [number for number in self.model.line if number < int(begin)]
                self.row = None
                continue
            given = [(row["checkpoint"], str(row["key"]), str(row["value"])) for row in found.values]
            assert given == self.wanted(size)
            assert found.timestamps is None or list(found.timestamps) == [row[0] * 1000 for row in given]
            assert not found.finished
            self.position = json.dumps(found.next)

    def wanted(self, size: int) -> list[tuple[int, str, str]]:
        """What the model gives, checkpoint by checkpoint."""
        there = self.model.line
        if shared(self.line, there) < len(self.line):
            self.row = None  # what is left of a checkpoint that was taken back is not given
        if self.row is not None:
            left = self.of(self.line[-1])[self.row :]
        else:
            left = []
            while not left and self.line != there and shared(self.line, there) < len(there):
                fork = shared(self.line, there)
                self.line, self.row = there[: fork + 1], 0
                left = self.of(there[fork])
        given = left[:size]
        self.row = None if len(given) == len(left) else (self.row or 0) + len(given)
        return given

    def of(self, number: int) -> list[tuple[int, str, str]]:
        return [row for row in self.model.rows[number] if len(row[1]) // 4 == self.split]


def rows_between(follower: LogFollower, reached: Reached, end: Reached) -> list[tuple[int, str, str]]:
    suffix = follower.between(reached, end)
    files = follower.ledger.log_files(suffix, ALL_KEY_GROUPS, None)
    times = follower.times(end.lineage, suffix.after)
    made = mutation_files(
        follower.ledger.storage.root, suffix, files, end.lineage, times, WantedMutations("count", "n")
    )
    found = [row for file in made for batch in file.batches(SCHEMA) for row in batch.to_pylist()]
    assert all(
        row["checkpoint_time"].replace(tzinfo=UTC).timestamp() == row["checkpoint_id"] for row in found
    )
    return sorted((row["checkpoint_id"], row["key"], row["value"]) for row in found)


@settings(max_examples=15)
@given(data=st.data())
def test_a_reader_is_given_each_mutation_once_or_told_why_not(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as base:
        model = Model(base)
        model.checkpoint(KEYS)
        reader = Reader(model, data.draw(st.sampled_from([FAIL, CONTINUE]), "policy"))
        moves = data.draw(st.lists(st.sampled_from(MOVES), min_size=1, max_size=4), "moves")
        job = JobThatReads(model, data.draw(st.integers(0, 1), "split"))
        for what in [*(step for move in moves for step in move), "read"]:
            if what == "read":
                reader.read(data.draw(st.sampled_from([None, 1, 2]), "most"))
                job.read(data.draw(st.lists(st.integers(1, 2), max_size=6), "sizes"))
            else:
                model.step(what, data.draw)
