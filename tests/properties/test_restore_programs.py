"""Random histories of a job whose states change from run to run: types, kinds, who declares them and when.

The model keeps, for each state and key, the numbers that were written. Whatever types, parallelisms, backends, snapshots and
lost processes lie between, a state that is declared holds them in the form of its type.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs import KEYS, Program, Versions
from support.script import Failure, Fault

from api.common.typeinfo import Types
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.graph.key_groups import key_group, key_group_range
from changelog_engine.ledger.job_folder import find_job_folder
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

# Name of the type -> the type, and how it shows a number. Any may follow any other.
FORMS: dict[str, tuple[Any, Any]] = {
    "int": (Types.INT(), int),
    "long": (Types.LONG(), int),
    "double": (Types.DOUBLE(), float),
    "text": (Types.STRING(), str),
    "list": (Types.LIST(Types.LONG()), lambda number: [number]),
    "tuple": (Types.TUPLE([Types.STRING(), Types.LONG()]), lambda number: ("n", number)),
    "any": (Types.PICKLED_BYTE_ARRAY(), lambda number: {number}),
}
KINDS = ("value", "list", "map")


def number_of(value: Any) -> int:
    """The number that any of the forms shows."""
    if isinstance(value, (list, set)):
        return next(iter(value))
    return int(value[1] if isinstance(value, tuple) else value)


@dataclass(frozen=True)
class Run:
    """One run of the job.

    Args:
        form: of its states.
        states: which it declares.
        late: keys whose elements declare them; None for in open().
        drops: what is not declared is dropped.
        parallelism: of the job.
        changelog: on or off.
        backend: of the state.
        epochs: how many.
        gone: all processes are lost after so many epochs; None for never.
        compacts: a snapshot is made afterwards, and the log truncated.
    """

    form: str
    states: tuple[str, ...]
    late: frozenset[int] | None
    drops: bool
    parallelism: int
    changelog: bool
    backend: str
    epochs: int
    gone: int | None
    compacts: bool


RUNS = st.builds(
    Run,
    form=st.sampled_from(sorted(FORMS)),
    states=st.lists(st.sampled_from(KINDS), unique=True).map(tuple),
    late=st.none() | st.none() | st.frozensets(st.integers(0, KEYS - 1), min_size=1, max_size=2),
    drops=st.sampled_from([False, False, False, True]),
    parallelism=st.integers(1, 4),
    changelog=st.sampled_from([True, True, False]),
    backend=st.sampled_from(["hashmap", "hashmap", "rocksdb"]),
    epochs=st.integers(1, 3),
    gone=st.none() | st.integers(1, 2),
    compacts=st.booleans(),
)


class Model:
    """What was written: state -> key -> numbers."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[int, list[int]]] = {name: {} for name in KINDS}
        self.number = 0

    def run(self, run: Run) -> list[Any]:
        """The output of a run."""
        if run.drops:
            for name in KINDS:
                if run.late is not None or name not in run.states:
                    self.kept[name].clear()
        output: list[Any] = []
        declared = self._declared(run)
        for epoch in range(1, run.epochs + 1):
            for _ in range(KEYS):
                key, number = self.number % KEYS, self.number
                self.number += 1
                subtask = subtask_of(key, run.parallelism)
                if run.late is not None and key in run.late:
                    declared[subtask] = True
                names = run.states if declared[subtask] else ()
                output.append((key, number, {name: self.shown(name, key, run.form) for name in names}))
                for name in names:
                    self.kept[name].setdefault(key, []).append(number)
            if epoch == run.gone and run.gone < run.epochs:
                declared = self._declared(run)
        return output

    def _declared(self, run: Run) -> list[bool]:
        return [run.late is None] * run.parallelism

    def shown(self, name: str, key: int, form: str) -> Any:
        """What a state holds for a key, in the form of a type."""
        make, numbers = FORMS[form][1], self.kept[name].get(key, [])
        if name == "list":
            return [make(number) for number in numbers]
        if name == "map":
            return {number % 3: make(number) for number in numbers}
        return make(numbers[-1]) if numbers else None


def subtask_of(key: int, parallelism: int) -> int:
    group = key_group(key, 16)
    return next(number for number in range(parallelism) if group in key_group_range(number, 16, parallelism))


def program(run: Run) -> Program:
    kept, make = FORMS[run.form]
    made = {
        "value": lambda: ValueStateDescriptor("value", kept),
        "list": lambda: ListStateDescriptor("list", kept),
        "map": lambda: MapStateDescriptor("map", Types.LONG(), kept),
    }

    def descriptors() -> list[Any]:
        return [made[name]().set_migration(lambda value: make(number_of(value))) for name in run.states]

    return Program(descriptors, make, run.late)


@settings(max_examples=10, deadline=None)
@given(st.lists(RUNS, min_size=2, max_size=6))
def test_declared_states_hold_what_was_written_in_the_form_of_their_type(runs: list[Run]) -> None:
    with tempfile.TemporaryDirectory() as base:
        versions, model = Versions(Path(base)), Model()
        job = versions.job
        assert job.progress is not None
        for run in runs:
            before = len(job.output)
            if run.gone is not None and run.gone < run.epochs:
                job.progress.waiting.append(Failure(job.progress.epoch + run.gone, Fault.GONE))
            versions.run(
                program(run),
                run.parallelism,
                run.epochs,
                changelog=run.changelog,
                state_backend=run.backend,
                drop_removed_state=run.drops,
            )
            expected = model.run(run)
            found = sorted(job.output[before:], key=lambda entry: entry[1])
            assert [(key, number, repr(states)) for key, number, states in found] == [
                (key, number, repr(states)) for key, number, states in expected
            ]
            if run.compacts and run.changelog:
                folder = find_job_folder(base, "job")
                materialize(folder)
                truncate(folder, Retention(history_ms=0, grace_ms=0))
