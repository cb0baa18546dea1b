"""os.fork() in a user's function: the child ends where it returns to the engine, the parent goes on (case 52)."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script

from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.operators.forked import ends_in_forked_children
from changelog_engine.types import Types


class Forks(KeyedProcessFunction):
    """Counts, and forks at one element; both processes return from the function, or the child raises."""

    def __init__(self, file: str, how: str) -> None:
        self.file = file
        self.how = how

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[int, int]]:
        child = -1
        if value[1] == 5:
            child = os.fork()
            if child == 0 and self.how == "raises":
                raise RuntimeError("in the child")
        with open(self.file, "a") as file:  # what both processes do before they return
            file.write(f"{value[1]} {os.getpid()}\n")
        if child > 0:
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


ELEMENTS = [(n % 2, n) for n in range(12)]


@pytest.mark.parametrize("how", ["returns", "raises"])
def test_case_52_a_forked_child_ends_where_it_returns(tmp_path: Path, how: str) -> None:
    seen = tmp_path / "seen"
    job = TestJob(tmp_path / "log", Script(sizes=(4,)))
    job.run_driver(keyed_job(ELEMENTS, Forks(str(seen), how)))
    assert sorted(job.output) == [(key, n) for key in range(2) for n in range(1, 7)]
    assert job.coordinator.restarts.count == 0
    mine = [line for line in seen.read_text().splitlines() if line.endswith(f" {os.getpid()}")]
    others = [line for line in seen.read_text().splitlines() if line not in mine]
    assert len(mine) == len(ELEMENTS)
    assert len(others) == (1 if how == "returns" else 0), (
        "the child processed elements after the one it was forked at"
    )


class UsesProcesses(KeyedProcessFunction):
    """Computes in processes of its own, forked."""

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[int, int]]:
        if value[1] == 3:
            context = multiprocessing.get_context("fork")
            receive, send = context.Pipe()
            process = context.Process(target=_squared, args=(value[1], send))
            process.start()
            yield value[0], receive.recv()
            process.join()
            assert process.exitcode == 0


def _squared(value: int, send: Any) -> None:
    send.send(value * value)


def test_case_52_processes_of_multiprocessing_work(tmp_path: Path) -> None:
    job = TestJob(tmp_path, Script(sizes=(4,)))
    job.run_driver(keyed_job(ELEMENTS, UsesProcesses()))
    assert job.output == [(1, 9)]


def test_case_52_other_forks_are_left_alone() -> None:
    """In a thread that does no work of the engine, and after it."""
    with ends_in_forked_children():
        pass
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
