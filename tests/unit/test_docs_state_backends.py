"""The example of docs/state-backends.md is the file it names and keeps the contract; what breaks it is found out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.backends import SQLiteBackend, rocks_backend, small_maps
from support.functions import Count
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob

from api.common import Types
from api.datastream import CustomStateBackend, KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.errors import ConfigurationError, JobExecutionError, UserFunctionError
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.state import StateBackend, StateKind, TimerTable
from changelog_engine.state.backends import CUSTOM, open_backend, pickled_class
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.timer_table import HeapTimers
from changelog_engine.testing.state_conformance import check_state_backend

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_shows_the_file() -> None:
    example = (DOCS / "examples" / "state_backends" / "sqlite_backend.py").read_text()
    page = (DOCS / "state-backends.md").read_text()
    assert f"<!-- sqlite_backend.py -->\n```python\n{example}```\n" in page


def test_all_backends_keep_the_contract(tmp_path: Path) -> None:
    check_state_backend(HeapBackend)
    check_state_backend(SQLiteBackend, 300)
    for cache_bytes in (0, 1 << 20):
        with small_maps():
            check_state_backend(lambda size=cache_bytes: rocks_backend(tmp_path, size), 1_000)  # type: ignore[misc]


class OneTable(HeapBackend):
    def __init__(self) -> None:
        self.only: dict[Any, Any] = {}

    def table(self, operator: str, state: str, kind: StateKind) -> Any:
        return self.only


class TimersByKey(HeapTimers):
    """Gives timers of one time in the order of their keys."""

    def first(self) -> Any:
        return min(self, key=lambda timer: (timer[0], repr(timer[1])), default=None)


class LastTimers(HeapBackend):
    def timer_table(self, operator: str, domain: str) -> TimerTable:
        return TimersByKey()


@pytest.mark.parametrize(("backend", "words"), [(OneTable, "expected"), (LastTimers, "first, got")])
def test_a_backend_that_breaks_the_contract_is_found_out(
    backend: Callable[[], StateBackend], words: str
) -> None:
    with pytest.raises(AssertionError, match=words):
        check_state_backend(backend)


class Older:
    """A backend as they were before they gave tables only."""

    def __init__(self) -> None:
        self.queues: dict[Any, Any] = {}

    def table(self, operator: str, state: str, kind: Any = None) -> dict[Any, Any]:
        return {}

    def state(self, operator: str, spec: Any, key_type: Any, scope: Any = None) -> Any: ...

    def timers(self, operator: str, domain: str, key_type: Any, scope: Any = None) -> Any: ...

    def end_epoch(self) -> None: ...

    def close(self) -> None: ...


class OlderOnTheHeap(HeapBackend):
    def state(self, operator: str, spec: Any, key_type: Any, scope: Any = None) -> Any: ...


@pytest.mark.parametrize("older", [Older, OlderOnTheHeap])
def test_an_older_backend_is_told_what_changed(older: type) -> None:
    words = r"has state\(\).* which state backends no longer have.*keep table\(operator, state, kind\).*state-backends.md"
    with pytest.raises(ConfigurationError, match=words):
        CustomStateBackend(older)
    for factory in (older, lambda: older()):
        settings = JobSettings(state_backend=CUSTOM, state_class=pickled_class(factory, "the backend"))
        with pytest.raises(ConfigurationError, match=words):
            open_backend(settings, "job", 0, 0)


def test_a_factory_that_makes_no_backend() -> None:
    for factory, words in (
        (lambda: 1 / 0, "cannot be made: ZeroDivision"),
        (dict, "dict does not derive from changelog_engine"),
    ):
        settings = JobSettings(state_backend=CUSTOM, state_class=pickled_class(factory, "the backend"))
        with pytest.raises(ConfigurationError, match=words):
            open_backend(settings, "job", 0, 0)


class Remembers(HeapBackend):
    """As the example of the older docstring: it keeps its tables by name, in an attribute that went."""

    def table(self, operator: str, state: str, kind: Any = None) -> Any:
        return self.tables.setdefault((operator, state), {})  # type: ignore[attr-defined]


class NotATable(HeapBackend):
    def table(self, operator: str, state: str, kind: StateKind) -> Any:
        return []


class NotEmpty(HeapBackend):
    def table(self, operator: str, state: str, kind: StateKind) -> Any:
        return {1: 5}


class NoTimers(HeapBackend):
    def timer_table(self, operator: str, domain: str) -> Any:
        return {}


class SameTimers(HeapBackend):
    def __init__(self) -> None:
        self.timers_of_all = HeapTimers()

    def timer_table(self, operator: str, domain: str) -> TimerTable:
        return self.timers_of_all


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        (Remembers, "failed to make a table for state 'count' of operator 'process': AttributeError"),
        (NotATable, r"gave \[\] as a table for state 'count'"),
        (NotEmpty, "gave a table for state 'count' of operator 'process' that is not empty"),
        (NoTimers, "does not derive from TimerTable"),
        (SameTimers, "gave another table of timers"),
    ],
)
def test_tables_that_are_not_right_are_refused(tmp_path: Path, backend: type, words: str) -> None:
    chosen = {"state_backend": CUSTOM, "state_class": pickled_class(backend, "the backend")}
    job = TestJob(tmp_path, restart=NO_RESTART, **chosen)
    with pytest.raises((ConfigurationError, JobExecutionError), match=words) as caught:
        job.run_driver(keyed_job([(1, 1)], Count()))
    assert "state-backends.md" in str(caught.value)


class Falls(HeapBackend):
    """One of whose methods raises."""

    method = ""

    def _fall(self, method: str) -> None:
        if method == self.method:
            raise ValueError("no room")

    def begin_epoch(self) -> None:
        self._fall("begin_epoch")

    def end_epoch(self) -> None:
        self._fall("end_epoch")


class FallingTable(dict[Any, Any]):
    def __setitem__(self, key: Any, entry: Any) -> None:
        raise ValueError("no room")


class FallingTables(HeapBackend):
    def table(self, operator: str, state: str, kind: StateKind) -> Any:
        return FallingTable()


class CatchesAll(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        with contextlib.suppress(ValueError):
            self.count.update(1)


@pytest.mark.parametrize(
    ("method", "of_table"),
    [
        ("begin_epoch", ""),
        ("end_epoch", ""),
        ("__setitem__", " of the table of state 'count' of operator 'process'"),
    ],
)
def test_a_backend_that_fails_is_named_with_its_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, of_table: str
) -> None:
    backend = FallingTables if of_table else Falls
    monkeypatch.setattr(Falls, "method", method)
    chosen = {"state_backend": CUSTOM, "state_class": pickled_class(backend, "the backend")}
    job = TestJob(tmp_path, restart=NO_RESTART, **chosen)
    said = rf"the state backend {backend.__name__} failed in {method}\(\){of_table}: ValueError: no room\nTraceback"
    with pytest.raises(JobExecutionError, match=said) as failed:
        job.run_driver(keyed_job([(1, 1)], CatchesAll()))
    assert isinstance(failed.value.__cause__, UserFunctionError)
    assert failed.value.__cause__.call == method
