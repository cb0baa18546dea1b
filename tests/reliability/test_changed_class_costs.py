"""Reliability case 39: what a changed state class costs while many keys are live, in rows, bytes and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.changelog.model import Checkpoint

MANY, FEW, LATER = 100_000, 1_000, 50


class Writes(KeyedProcessFunction):
    """Writes the element's number to all of its states.

    Args:
        states: name to type.
    """

    def __init__(self, **states: Any) -> None:
        self.states = states

    def open(self, runtime_context: Any) -> None:
        self.handles = [
            runtime_context.get_state(ValueStateDescriptor(name, kept)) for name, kept in self.states.items()
        ]

    def process_element(self, value: int, ctx: Any) -> Any:
        for handle, kept in zip(self.handles, self.states.values(), strict=True):
            handle.update(float(value) if kept == Types.DOUBLE() else value)
        return ()


class Changed:
    """A job of two classes: one makes so many keys, the other comes when they are live and writes a few of them."""

    def __init__(self, base: Path, keys: int, before: Writes, after: Writes, **settings: Any) -> None:
        self.base = base
        elements = [*range(keys), *range(LATER)]
        script = Script(sizes=(keys, LATER), failures=(Failure(1, Fault.HANDED_OUT),))
        job = TestJob(base, script)

        def graph(function: Writes) -> Any:
            return keyed_job(elements, function, key=lambda element: element, key_type=Types.LONG())

        with pytest.raises(DriverKilled):
            job.run_driver(graph(before))
        assert job.commits[0].rows == keys * len(before.states)
        self.first = self.files()
        job.run_driver(graph(after), **settings)
        self.commits = job.commits[1:]

    @property
    def next(self) -> Checkpoint:
        """The first checkpoint of the changed class."""
        return self.commits[0]

    def files(self) -> dict[str, tuple[int, int]]:
        """Size and time of every file of mutations or live entries."""
        return {
            str(path): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in self.base.rglob("*part-*.parquet")
        }

    def added(self) -> list[str]:
        """Files with mutations that came with the changed class; those before it are as they were."""
        now = self.files()
        assert {path: now.get(path) for path in self.first} == self.first, (
            "a file was written anew or removed"
        )
        return [path for path in now if path not in self.first]


LONG = Types.LONG()
CHANGES = {
    "nothing": (Writes(kept=LONG), Writes(kept=LONG), 1),
    "a new state": (Writes(kept=LONG), Writes(kept=LONG, new=LONG), 2),
    "a removed state": (Writes(kept=LONG, gone=LONG), Writes(kept=LONG), 1),
    "a wider type with the same text": (Writes(kept=Types.INT()), Writes(kept=LONG), 1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_case_39_a_change_that_alters_no_value_costs_nothing(tmp_path: Path, change: str) -> None:
    """The checkpoint after it has the rows that its elements made, and as many bytes with 1,000 keys as with 100,000."""
    before, after, rows = CHANGES[change]
    many, few = (Changed(tmp_path / f"{keys}", keys, before, after) for keys in (MANY, FEW))
    for changed in (many, few):
        assert [row.rows for row in changed.commits if row.rows] == [rows * LATER]
        assert len(changed.added()) == 1
    assert abs(many.next.bytes - few.next.bytes) < 300
    assert many.next.bytes < 8_192


def test_case_39_values_that_change_cost_one_mutation_each_and_only_once(tmp_path: Path) -> None:
    """Whole numbers become floats: their text changes, so each live value is one row, once."""
    before = Writes(kept=Types.INT(), other=LONG)
    changed = Changed(tmp_path, MANY, before, Writes(kept=Types.DOUBLE(), other=LONG))
    assert [row.rows for row in changed.commits if row.rows] == [MANY + 2 * LATER]
    assert changed.next.bytes <= 12 * changed.next.rows
    assert len(changed.added()) == 1


def test_case_39_dropping_a_state_costs_one_mutation_a_key_that_has_it(tmp_path: Path) -> None:
    """Dropped when asked: each value's end is in the log, and nothing is written of the state that stays."""
    before = Writes(kept=LONG, gone=LONG)
    changed = Changed(tmp_path, MANY, before, Writes(kept=LONG), drop_removed_state=True)
    assert [row.rows for row in changed.commits if row.rows] == [MANY + LATER]
    assert changed.next.bytes <= 12 * changed.next.rows
    assert len(changed.added()) == 1
