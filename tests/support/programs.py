"""Versions of a program that declare different states, run one after the other by drivers that are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from changelog_engine.errors import JobExecutionError, RestoreError
from changelog_engine.graph.nodes import JobGraph
from support.functions import rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import DriverKilled, Failure, Fault, Script

KEYS, EPOCHS = 5, 3  # each driver lives for so many epochs, of one element of each key


GETTERS = {
    ValueStateDescriptor: "get_state",
    ListStateDescriptor: "get_list_state",
    MapStateDescriptor: "get_map_state",
    ReducingStateDescriptor: "get_reducing_state",
    AggregatingStateDescriptor: "get_aggregating_state",
}


def state_of(context: Any, descriptor: Any) -> Any:
    """The state that a descriptor describes, of whichever kind."""
    return getattr(context, GETTERS[type(descriptor)])(descriptor)


class Program(KeyedProcessFunction):
    """Gives (key, number, what its states hold) for each element, then adds to each of them.

    Args:
        descriptors: makes the descriptors, anew in each subtask.
        make: number to the value that is written, or such a function by the state's name; None writes nothing.
        late: keys whose elements declare the states, instead of open().
    """

    def __init__(
        self,
        descriptors: Callable[[], list[Any]],
        make: Any = None,
        late: frozenset[int] | None = None,
    ) -> None:
        self.descriptors = descriptors
        self.make = make
        self.late = late

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context
        self.states = self.declared() if self.late is None else []

    def declared(self) -> list[tuple[str, Any]]:
        """Name and handle of each state."""
        return [(made.get_name(), state_of(self.context, made)) for made in self.descriptors()]

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[Any]:
        key, number = value
        if self.late is not None and key in self.late:
            self.states, self.late = self.declared(), None
        yield key, number, {name: held(state) for name, state in self.states}
        if self.make is not None:
            for name, state in self.states:
                make = self.make[name] if isinstance(self.make, dict) else self.make
                added(state, number, make(number))


def held(state: Any) -> Any:
    """What a state holds for the current key."""
    if hasattr(state, "items"):
        return dict(state.items())
    found = state.value() if hasattr(state, "value") else state.get()
    return list(found) if isinstance(found, list) else found


def added(state: Any, number: int, value: Any) -> None:
    """Add a value to a state of any kind."""
    if hasattr(state, "items"):
        state.put(number % 3, value)
    elif hasattr(state, "value"):
        state.update(value)
    else:
        state.add(value)


class Versions:
    """A job whose drivers run one program after the other; each is killed after its epochs.

    Args:
        base: the folder.
        settings: of the job.
    """

    def __init__(self, base: Path, **settings: Any) -> None:
        self.job = TestJob(base, Script(sizes=(KEYS,)), **settings)
        self.elements = rounds(KEYS, 40 * KEYS)

    def graph(self, program: Any, parallelism: int = 1, **more: Any) -> JobGraph:
        """The job with a program."""
        keys = {"key_type": Types.LONG(), "max_parallelism": 16, **more}
        return keyed_job(self.elements, program, parallelism=parallelism, **keys)

    def run(
        self, program: Any, parallelism: int = 1, epochs: int = EPOCHS, more: Any = None, **settings: Any
    ) -> dict[int, Any]:
        """Run a program for some epochs.

        Args:
            program: which.
            parallelism: of the job.
            epochs: after how many it is killed.
            more: what else keyed_job is to be told.
            settings: of this driver.

        Returns:
            What its states held when the first element of each key came.
        """
        job = self.job
        assert job.progress is not None
        job.progress.waiting.append(Failure(job.progress.epoch + epochs, Fault.HANDED_OUT))
        before = len(job.output)
        with pytest.raises(DriverKilled):
            job.run_driver(self.graph(program, parallelism, **(more or {})), **settings)
        assert job.coordinator.restarts.count == 0
        first: dict[int, Any] = {}
        for key, _, states in job.output[before:]:
            first.setdefault(key, states)
        return dict(sorted(first.items()))

    def refused(self, program: Any, parallelism: int = 1, more: Any = None, **settings: Any) -> RestoreError:
        """Run a program that the checkpoint doesn't fit; returns the error. Nothing is retried, nothing committed."""
        commits = len(self.job.commits)
        with pytest.raises((JobExecutionError, RestoreError)) as raised:
            self.job.run_driver(self.graph(program, parallelism, **(more or {})), **settings)
        assert len(self.job.commits) == commits
        found = raised.value
        if isinstance(found, RestoreError):
            return found
        assert self.job.coordinator.restarts.count == 0
        assert isinstance(found.__cause__, RestoreError)
        return found.__cause__
