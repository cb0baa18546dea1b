"""A function that catches what a table of its state raised: the log has what the table has, or the epoch fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sqlite_backend import SQLiteTable, SQLiteTimers
from support.backends import backend_settings, small_maps
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob
from support.script import Script
from support.stores import store_config

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.errors import JobExecutionError, StorageError, UserFunctionError
from changelog_engine.operators.store import KeyedStore
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.rocksdb_store import RocksStore
from materializer.fold import state_at

ELEMENTS = [(f"k{number % 5}", number) for number in range(120)]


class Catches(KeyedProcessFunction):
    """Keeps elements in a list, a map and a value, sets a timer, and takes no failure of these for its own."""

    def open(self, runtime_context: Any) -> None:
        text, number = Types.STRING(), Types.LONG()
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", number))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", number, text))
        self.value = runtime_context.get_state(ValueStateDescriptor("value", text))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        caught = 0
        actions = (
            lambda: self.list.add(value[1]),
            lambda: self.map.put(value[1], "x"),
            lambda: self.value.update(f"{value[1]}"),
            lambda: ctx.timer_service().register_event_time_timer(10**9 + value[1]),
            lambda: self.map.remove(value[1] - 5),
            lambda: self.value.clear() if value[1] % 7 == 0 else None,
        )
        for action in actions:
            try:
                action()
            except Exception:
                caught += 1
        yield caught, len(self.list.get())

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        return None


class Fails:
    """A method that raises at one of its calls."""

    def __init__(self, method: Any, at: int) -> None:
        self.method, self.left = method, at

    def __call__(self, *arguments: Any) -> Any:
        self.left -= 1
        if not self.left:
            raise StorageError("the disk does not answer")
        return self.method(*arguments)


def run(base: Path, backend: str, **settings: Any) -> TestJob:
    job = TestJob(base, Script((10,)), **backend_settings(backend, base / "local"), **settings)
    with small_maps():
        job.run(keyed_job(ELEMENTS, Catches(), timestamp=lambda element: element[1]))
    return job


def final(job: TestJob) -> tuple[list[Any], Any]:
    """What the job gave, and its states at the end."""
    return job.output, state_at(job.table(), job.commits[-1].id).states


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], Any]:
    """The same of a job whose tables never fail."""
    return final(run(tmp_path_factory.mktemp("plain"), "hashmap"))


FAILING = {
    "rocksdb: read": ("rocksdb without cache", RocksStore, "get"),
    "rocksdb: write": ("rocksdb without cache", RocksStore, "write"),
    "custom: get": ("custom", SQLiteTable, "get"),
    "custom: set": ("custom", SQLiteTable, "__setitem__"),
    "custom: pop": ("custom", SQLiteTable, "pop"),
    "custom: add a timer": ("custom", SQLiteTimers, "add"),
}


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("at", [1, 13])
def test_case_12_what_a_table_raised_ends_the_epoch_whoever_caught_it(
    tmp_path: Path, undisturbed: Any, failing: str, at: int
) -> None:
    """The mutation was logged before the table failed: the restored list had an element that the live one never had."""
    backend, owner, name = FAILING[failing]
    raising = Fails(getattr(owner, name), at)
    with mock.patch.object(owner, name, lambda *arguments: raising(*arguments)):
        with pytest.raises(JobExecutionError, match="the disk does not answer"):
            run(tmp_path / "failed", backend, restart=NO_RESTART)
        assert raising.left <= 0
        raising.left = at
        job = run(tmp_path / "again", backend)
    assert job.drivers == 1
    assert final(job) == undisturbed


class Sick(HeapBackend):
    """Finds at the end of an epoch that something is wrong."""

    def end_epoch(self) -> None:
        raise OSError("the disk does not answer")


def test_case_12_an_epoch_does_not_end_when_the_backend_finds_something_wrong() -> None:
    """Its tables may have told nobody: RocksDB's tell here what somebody caught."""
    with pytest.raises(UserFunctionError, match=r"(?s)Sick.*end_epoch.*the disk does not answer"):
        KeyedStore(store_config(None), backend=Sick()).end_epoch(mock.Mock())
