"""When a subtask keeps its state over a failure, and when all of it comes from storage (local recovery)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from support.backends import backend_settings
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Failure, Fault, Script
from support.stores import store_config

from api.common import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from changelog_engine.changelog.changed_keys import ChangedKeys
from changelog_engine.changelog.model import CheckpointMark, RestorePoint, Segment
from changelog_engine.changelog.rows import LogColumns
from changelog_engine.changelog.small_state import SmallState
from changelog_engine.errors import DiskFullError, NoCurrentKeyError
from changelog_engine.graph.nodes import JobGraph, StateKind, StateSpec
from changelog_engine.operators import kept_state, part_stream
from changelog_engine.operators.kept_state import RecentChanges
from changelog_engine.operators.messages import EpochKind, EpochOrder
from changelog_engine.operators.store import KeyedStore
from changelog_engine.state.backend import EVENT_TIMERS
from changelog_engine.state.cursor import Cursor, NamespaceScope
from changelog_engine.state.factory import HandleFactory
from changelog_engine.state.rocksdb_store import RocksStore
from changelog_engine.windowing.namespaces import TimeWindows
from materializer.fold import state_at

KEYS = 8
NUMBERS = 96
HANDLES: list[Any] = []  # of each attempt, which a careless program keeps


class Count(KeyedProcessFunction):
    """Counts, and raises once at each of some numbers, after it has changed something.

    Args:
        failures: number -> what to raise there.
        late: a state is declared in the second attempt only.
    """

    def __init__(self, failures: dict[int, BaseException], late: bool = False) -> None:
        self.failures = failures
        self.late = late

    def open(self, runtime_context: Any) -> None:
        self.attempt = runtime_context.get_attempt_number()
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))
        if self.late and self.attempt:
            self.more = runtime_context.get_state(ValueStateDescriptor("more", Types.LONG()))
        HANDLES.append(self.count)

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.put(value % 3, value)
        if self.late and self.attempt:
            self.more.update(value)
        failure = self.failures.get(value)
        if failure is not None and not self.attempt:
            raise failure
        yield value


def graph(failures: dict[int, BaseException], **more: Any) -> JobGraph:
    return keyed_job(
        list(range(NUMBERS)),
        Count(failures, **more),
        key=lambda number: number % KEYS,
        key_type=Types.LONG(),
        parallelism=2,
    )


def run(
    tmp_path: Any, failures: dict[int, BaseException], *faults: Failure, function: Any = None, **settings: Any
) -> list[int]:
    """Run the job; returns how many subtasks kept their state in each attempt after the first.

    The sizes of epochs and barriers are so that a failure has epochs without a barrier before it.
    """
    HANDLES.clear()
    given = {"local_recovery": True, **settings}
    job = TestJob(tmp_path, Script((10,), (False, True), faults), **given)
    job.run(graph(failures, **(function or {})))
    assert sorted(job.output) == list(range(NUMBERS))
    states = state_at(job.table()).states
    assert states["process", "count"] == dict.fromkeys(range(KEYS), NUMBERS // KEYS)
    assert states["process", "seen"] == {
        key: {number % 3: number for number in range(key, NUMBERS, KEYS)} for key in range(KEYS)
    }
    return [
        sum(report.kept for report in reports)
        for reports in job.reports
        if any(report.restored_ms is not None for report in reports)
    ][1:]


@pytest.fixture(params=["hashmap", "rocksdb"])
def backend(request, tmp_path):
    """What is kept is kept in both of the engine's backends."""
    return backend_settings(request.param, tmp_path)


def test_after_an_exception_all_subtasks_keep_their_state(tmp_path, backend):
    assert run(tmp_path, {55: ValueError("no")}, **backend) == [2]


def test_a_lost_subtask_restores_and_the_other_keeps_its_state(tmp_path):
    assert run(tmp_path, {}, Failure(5, Fault.SUBTASK, 1, 1)) == [1]


def test_one_failure_after_the_other(tmp_path, backend):
    faults = (Failure(5, Fault.SUBTASK, 0, 0), Failure(6, Fault.COMMIT_FAILS), Failure(7, Fault.COMMIT_LIES))
    assert run(tmp_path, {}, *faults, **backend) == [2, 2, 2]


def test_before_the_first_checkpoint_there_is_nothing_to_keep(tmp_path):
    assert run(tmp_path, {15: ValueError("no")}) == [0]


@pytest.mark.parametrize(
    "settings",
    [
        ({"local_recovery": False}),
        ({"changelog": False}),
    ],
    ids=["switched off", "no changelog"],
)
def test_where_it_is_off_or_impossible_all_is_restored(tmp_path, settings):
    assert run(tmp_path, {55: ValueError("no")}, **settings) == [0]


@pytest.mark.parametrize(
    "failure",
    [MemoryError("no"), RecursionError("no"), SystemExit(1), ExceptionGroup("all", [MemoryError("no")])],
    ids=repr,
)
def test_what_may_come_between_log_and_table_leaves_doubt(tmp_path, failure, backend):
    assert run(tmp_path, {55: failure}, **backend) == [1]


def test_a_state_that_is_declared_later_is_kept_too(tmp_path, backend):
    faults = (Failure(9, Fault.COMMIT_FAILS),)
    assert run(tmp_path, {55: ValueError("no")}, *faults, function={"late": True}, **backend) == [2, 2]


class Lazy(KeyedProcessFunction):
    """Declares a state where it is first used, as window functions do: with the first elements, and with the last ones."""

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if not 2 * KEYS <= value < NUMBERS - KEYS:
            total = self.context.get_state(ValueStateDescriptor("total", Types.LONG()))
            total.update((total.value() or 0) + 1)
            yield value, total.value()


def test_state_that_nobody_has_declared_yet_outlives_two_failures(tmp_path):
    faults = (Failure(5, Fault.GONE), Failure(7, Fault.COMMIT_FAILS), Failure(8, Fault.COMMIT_FAILS))
    job = TestJob(tmp_path, Script((10,), (False, True), faults), local_recovery=True)
    job.run(
        keyed_job(
            list(range(NUMBERS)),
            Lazy(),
            key=lambda number: number % KEYS,
            key_type=Types.LONG(),
            parallelism=2,
        )
    )
    assert sorted(job.output)[-KEYS:] == [(value, 3) for value in range(NUMBERS - KEYS, NUMBERS)]
    assert state_at(job.table()).states["process", "total"] == dict.fromkeys(range(KEYS), 3)


def test_a_database_that_could_not_be_written_is_not_used_again(tmp_path):
    write, left = RocksStore.write, iter(range(14))

    def fails_once(database: RocksStore, batch: Any) -> None:
        write(database, batch)
        if next(left, None) == 13:  # after the first checkpoints
            raise DiskFullError("full", "/nowhere", 0, 0, 0)

    with mock.patch.object(RocksStore, "write", fails_once):
        assert run(tmp_path, {}, **backend_settings("rocksdb", tmp_path)) == [1]


@pytest.mark.parametrize("local_recovery", [True, False])
@pytest.mark.parametrize("half", [True, False], ids=["after it was written", "before"])
def test_a_disk_that_is_full_when_an_epoch_begins_takes_nothing_from_the_checkpoint_before(
    tmp_path, half, local_recovery
):
    """The checkpoint behind the write was acknowledged: the next attempt begins with it, whichever write it was."""
    write, ends = RocksStore.write, list[str]()
    for at in (2, 9, 16):
        left, base = iter(range(at)), tmp_path / str(at)

        def fails_once(database: RocksStore, batch: Any) -> None:
            full = next(left, None) == at - 1  # noqa: B023
            if half or not full:
                write(database, batch)
            if full:
                ends.append("full")
                raise DiskFullError("full", "/nowhere", 0, 0, 0)

        settings = backend_settings("rocksdb", base) | {"local_recovery": local_recovery}
        with mock.patch.object(RocksStore, "write", fails_once):
            kept = run(base, {}, **settings)
        assert sum(kept) <= (1 if local_recovery else 0)  # the one that failed is read from storage
    assert len(ends) == 3


def test_databases_that_nobody_uses_any_more_are_gone(tmp_path, backend):
    run(tmp_path, {55: ValueError("no")}, Failure(9, Fault.COMMIT_FAILS), **backend)
    left = list(tmp_path.glob("changelog-engine-*/*"))
    assert left == []


def test_where_most_keys_changed_all_is_restored(tmp_path):
    with mock.patch.object(kept_state, "_FEW", 0):
        assert run(tmp_path, {55: ValueError("no")}) == [0]


def test_more_changed_keys_than_are_kept_are_restored(tmp_path):
    few_bytes = mock.patch.object(kept_state, "ChangedKeys", partial(ChangedKeys, most_bytes=8))
    with few_bytes, mock.patch.object(part_stream, "FLUSH_ROWS", 2):
        assert run(tmp_path, {55: ValueError("no")}) == [0]


def test_tables_of_another_size_than_at_the_checkpoint_are_not_used(tmp_path, caplog):
    put_back = kept_state.KeptState._put_back

    def forget(kept: Any, name: Any, identities: set[Any], rows: Any) -> None:
        put_back(kept, name, identities, rows)
        kept.tables[name].table.popitem()

    with mock.patch.object(kept_state.KeptState, "_put_back", forget), caplog.at_level(logging.WARNING):
        assert run(tmp_path, {55: ValueError("no")}) == [0]
    assert "Please report it" in caplog.text


def test_a_handle_of_the_attempt_before_changes_nothing(tmp_path):
    failing = {55: ValueError("no")}
    assert run(tmp_path, failing) == [2]
    assert len(HANDLES) == 4
    for handle in HANDLES[:2]:
        with pytest.raises(NoCurrentKeyError):
            handle.update(99)


LONGS = StateSpec("s", StateKind.VALUE, Types.LONG())


def one_store(local_recovery: bool = True) -> KeyedStore:
    """A store that nothing was restored into."""
    return KeyedStore(store_config("/nowhere", "o", 16, key_type=Types.LONG(), local_recovery=local_recovery))


def test_a_handle_that_stands_at_a_key_when_its_attempt_ends_changes_nothing_either():
    keyed, scope = one_store(), NamespaceScope(Cursor(), TimeWindows())
    handles = keyed.state("o", LONGS), keyed.state("o", replace(LONGS, name="w"), scope)
    keyed.cursor.key, scope.cursor.key = 1, (1, (0, 10))
    for handle in handles:
        handle.update(5)
    keyed.leave().seal()
    for handle in handles:
        with pytest.raises(NoCurrentKeyError):
            handle.update(99)


@pytest.mark.parametrize("leaves", [True, False])
def test_state_that_no_attempt_uses_any_more_is_not_in_memory_beside_the_next_ones(leaves):
    keyed = one_store(leaves)
    handle = keyed.state("o", LONGS)
    keyed.cursor.key = 1
    handle.update(5)
    table = keyed.tables["o", "s"]
    kept = keyed.leave()
    keyed.close()
    assert table == ({1: 5} if leaves else {})
    assert not one_store(leaves).load(None, [], kept=kept)  # an empty start: it is of no use
    assert table == {}  # although a function has the handle


def test_a_state_whose_declaration_failed_leaves_nothing_behind():
    keyed = one_store()
    assert keyed.leave() is not None
    failing = mock.patch.object(HandleFactory, "handle", side_effect=ValueError("no"))
    with failing, pytest.raises(ValueError, match="no"):
        keyed.state("o", LONGS)
    assert keyed.leave() is None


POINT = RestorePoint("t", 1, (Segment(1, 1, 1),), None)
TEXTS = StateSpec("s", StateKind.VALUE, Types.STRING())


def with_state() -> KeyedStore:
    """A store with an entry and a timer."""
    keyed = one_store()
    state, timers = keyed.state("o", LONGS), keyed.timers("o", EVENT_TIMERS)
    keyed.cursor.key = 1
    state.update(5)
    timers.register(10)
    return keyed


@pytest.fixture
def rolled_back():
    """All that changed is put back without storage; a whole restore finds nothing there."""
    with (
        mock.patch.object(kept_state.KeptState, "roll_back", return_value=True) as done,
        mock.patch.object(KeyedStore, "_rows", return_value={}),
    ):
        yield done


def test_states_and_timers_that_an_attempt_does_not_declare_are_left_to_the_one_after_it(rolled_back):
    kept = with_state().leave()
    for _ in range(2):
        between = one_store()
        assert between.load(POINT, [], kept=kept)
        kept = between.leave()
    last = one_store()
    assert last.load(POINT, [], kept=kept)
    last.state("o", LONGS)
    last.timers("o", EVENT_TIMERS)
    assert last.tables["o", "s"] == {1: 5}
    assert list(last.timer_tables["o", EVENT_TIMERS]) == [(10, 1)]


def test_what_another_subtask_left_is_not_taken(rolled_back):
    kept = with_state().leave()
    other = KeyedStore(
        store_config("/nowhere", "o", 16, key_type=Types.LONG(), local_recovery=True, key_groups=range(8))
    )
    assert not other.load(POINT, [], kept=kept)
    rolled_back.assert_not_called()
    other.state("o", LONGS)
    assert other.tables["o", "s"] == {}


def test_a_state_that_is_declared_otherwise_is_read_from_storage(rolled_back):
    keyed = one_store()
    assert keyed.load(POINT, [], kept=with_state().leave())
    keyed.state("o", TEXTS)
    assert keyed.tables["o", "s"] == {}


def drained(*keys: int) -> list[LogColumns]:
    """What a buffer gives for mutations of some keys."""
    texts = pa.array([str(key) for key in keys])
    return [LogColumns(len(keys), {"operator": "o", "state": "s", "key": texts, "namespace": None})]


def order(epoch: int, committed: int, checkpoint: int, attempt: int = 1, ahead: bool = False) -> EpochOrder:
    """An order of an attempt whose newest checkpoint is the one before ``checkpoint``, or of an epoch ahead two before."""
    newest = checkpoint - 2 if ahead else checkpoint - 1
    line = (Segment(attempt, 1, newest),)
    return EpochOrder(
        run="r",
        attempt=attempt,
        restarts=0,
        epoch=epoch,
        kind=EpochKind.CHECKPOINT,
        committed_epoch=committed,
        restore=RestorePoint("t", newest, line, None),
        restored_operators=[],
        operator_state=SmallState(),
        shared_state={},
        checkpoint_id=checkpoint,
        positions={},
        max_records=0,
        budget_ms=0,
        goes_on=ahead,
    )


def test_what_changed_since_which_checkpoint():
    recent = RecentChanges()

    def since(checkpoint: int, attempt: int = 1) -> set[str] | None:
        found = recent.since(CheckpointMark(checkpoint, attempt))
        return (
            None
            if found is None
            else {
                text
                for each in found[0]
                for rows in each.tables().values()
                for text in rows["key"].to_pylist()
            }
        )

    recent.begin(order(1, 0, 4))
    recent.taken(lambda: drained(1, 2))
    assert since(3) == {"1", "2"}
    assert since(3, attempt=2) is None
    recent.barrier(order(1, 0, 4), {})
    assert (since(3), since(4)) == ({"1", "2"}, set())
    recent.next_epoch(order(2, 1, 5))  # checkpoint 4 is durable
    recent.taken(lambda: drained(3))
    assert (since(3), since(4)) == (None, {"3"})
    recent.barrier(order(2, 1, 5), {})
    recent.taken(lambda: drained(4))
    recent.next_epoch(order(3, 1, 5))  # checkpoint 5 failed and is left out
    recent.taken(lambda: drained(5))
    recent.barrier(order(3, 1, 5), {})
    assert (since(4), since(5)) == (
        {"3", "4", "5"},
        None,
    )  # nobody knows of which epoch a checkpoint 5 would be
    recent.next_epoch(order(4, 3, 6))
    assert since(5) == set()
    recent.taken(lambda: drained(6))
    recent.barrier(order(4, 3, 6), {})
    recent.next_epoch(order(5, 3, 7, ahead=True))  # before it is known whether checkpoint 6 is durable
    recent.taken(lambda: drained(7))
    assert (since(5), since(6), since(7)) == ({"6", "7"}, {"7"}, None)
    recent.barrier(order(5, 3, 7), {})
    assert (since(5), since(6), since(7)) == ({"6", "7"}, {"7"}, set())
    recent.next_epoch(order(6, 4, 8, ahead=True))  # checkpoint 6 is
    recent.taken(lambda: drained(8))
    assert (since(5), since(6), since(7)) == (None, {"7", "8"}, {"8"})
    recent.next_epoch(order(7, 5, 8))
    assert (since(6), since(7)) == (None, {"8"})

    def fail() -> Any:
        raise ValueError("cannot be encoded")

    with pytest.raises(ValueError, match="encoded"):
        recent.taken(fail)
    assert since(7) == {"8"}  # all of it still waits in the logs

    def interrupted() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recent.taken(interrupted)
    assert since(7) is None


def test_timers_of_what_changed_are_looked_for_in_all_key_groups():
    """Their rows are found by their times: those of one time may be of any key."""
    keyed = one_store()
    keyed.begin(order(1, 0, 2))
    state, timers = keyed.state("o", LONGS), keyed.timers("o", EVENT_TIMERS)
    keyed.cursor.key = 1
    state.update(5)
    timers.register(10)
    kept = keyed.leave()
    with mock.patch.object(kept_state, "read_parts", return_value=[]) as read:
        assert kept.roll_back(POINT, [], None)
    assert all(read.call_args.kwargs["wanted"].may_hold(group, group) for group in range(16))
    assert kept.tables["o", "s"].table == {}
    assert kept.timers["o", EVENT_TIMERS] == []
