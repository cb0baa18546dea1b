"""What processes keep over a failure is what a restore from storage gives: in every kind of state, wherever it failed.

Each time a subtask keeps its state, all of it is compared with the whole state of the checkpoint as storage has it; and the
log with the live state at each checkpoint that follows.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import window_jobs
from support.backends import backend_settings, small_maps
from support.chance import fewer
from support.functions import Count
from support.graphs import GraphBuilder, keyed_job
from support.jobs import TestJob
from support.live import LiveStates, logged_state
from support.model import pictured
from support.operations import Operations, inputs
from support.profiles import PROFILES
from support.same import exact
from support.script import Fault, Script
from support.scripts import scripts
from support.ttl_function import CLOCK, Expiring, configs
from support.ttl_function import elements as ttl_elements

from api.common import Time, Types
from api.datastream.window import (
    CountSlidingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.fold import fill_state, group_by_state, timers_of
from changelog_engine.errors import EpochFailedError
from changelog_engine.ledger.reading import read_parts
from changelog_engine.operators import part_stream
from changelog_engine.operators.kept_state import KeptState
from changelog_engine.state.rocksdb_maps import SpreadMap

# Nobody's process is lost with them, so there is state to keep; of SUBTASK, the others'.
FAULTS = (Fault.COMMIT_FAILS, Fault.COMMIT_FAILS, Fault.COMMIT_LIES, Fault.SUBTASK, Fault.GONE)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("changelog_engine").setLevel(logging.CRITICAL)


class Traps:
    """Makes calls of users' functions raise: ``due`` has how many calls lie between one failure and the next."""

    def __init__(self) -> None:
        self.due: list[int] = []

    def __call__(self) -> None:
        if self.due:
            self.due[0] -= 1
            if self.due[0] < 0:
                self.due.pop(0)
                raise ValueError("trapped")


TRAPS = Traps()
OPENING = Traps()
READING = Traps()


class Failing(Operations):
    """Operations that fail now and then: when opened, and between the mutations of an element or a timer."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        OPENING()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        try:
            for result in super().process_element(value, ctx):
                TRAPS()
                yield result
        finally:  # a mutation of one who is being given up
            self.value.clear()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        for result in super().on_timer(timestamp, ctx):
            TRAPS()
            yield result

    def close(self) -> None:
        try:
            self.list.clear()
        except Exception:
            return


class FailingExpiring(Expiring):
    """State with a time to live, under a function that fails now and then."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for result in super().process_element(value, ctx):
            TRAPS()
            yield result


class FailingTexts(window_jobs.Texts):
    """A window function that fails now and then."""

    def apply(self, key: Any, window: Any, inputs: list[Any]) -> Iterator[Any]:
        for result in super().apply(key, window, inputs):
            TRAPS()
            yield result


class Kept:
    """Looks whether the state that is kept is what storage has.

    Within the job a wrong one would only be a failure more, after which it restarts: it is raised at the end.
    """

    def __init__(self) -> None:
        self.wrong: list[AssertionError] = []

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        inner, as_large = KeptState.roll_back, KeptState._as_large

        def roll_back(kept: KeptState, point: Any, described: Any, tell: Any) -> bool:
            try:
                READING()
            except ValueError:
                raise EpochFailedError("the storage could not be read") from None
            done = inner(kept, point, described, tell)
            if done:
                self.noted(self.compare, kept, point)
            return done

        def surely_as_large(kept: KeptState, *given: Any) -> bool:
            self.noted(self.large, as_large(kept, *given))  # a wrong table would not be used
            return True

        with (
            mock.patch.object(KeptState, "roll_back", roll_back),
            mock.patch.object(KeptState, "_as_large", surely_as_large),
        ):
            yield
        if self.wrong:
            raise self.wrong[0]

    def noted(self, check: Any, *given: Any) -> None:
        try:
            check(*given)
        except AssertionError as error:
            self.wrong.append(error)

    @staticmethod
    def large(found: bool) -> None:
        assert found, "a table is not as large as it was"

    @staticmethod
    def compare(kept: KeptState, point: Any) -> None:
        rows = group_by_state(read_parts(point, kept.key_groups, kept.owner.operators))
        for name, table in kept.tables.items():
            whole: dict[Any, Any] = {}
            if name in rows:
                fill_state(rows[name], table.stored, kept.key_type, whole, table.namespaces)
            for key, entry in whole.items():  # before all is read, which lets a table on disk write
                found = table.table.get(key)
                assert exact(as_items(found)) == exact(as_items(entry)), name
            assert exact(sorted_by_key(table.table)) == exact(sorted_by_key(whole)), name
        for name, timers in kept.timers.items():
            namespaces = kept.timer_namespaces.get(name)
            stored = timers_of(rows.get(name, []), kept.key_type, namespaces)
            assert sorted(timers, key=_time) == sorted(stored, key=_time), name  # of one time, in their order
        waiting = rows.keys() - kept.tables.keys() - kept.timers.keys()
        assert waiting == kept.rows.keys() - kept.tables.keys() - kept.timers.keys()
        for name in waiting:  # rows of states that nobody has declared yet
            assert folded(kept.rows[name]) == folded(rows[name]), name


def _time(timer: Any) -> int:
    return timer[0]


def sorted_by_key(table: Any) -> list[Any]:
    """The entries of a table; those of maps stay in their order."""
    entries = [(key, as_items(entry)) for key, entry in table.items()]
    return sorted(entries, key=lambda pair: repr(exact(pair[0])))


def as_items(entry: Any) -> Any:
    """An entry; of a map, its pairs in their order."""
    return list(entry.items()) if isinstance(entry, dict | SpreadMap) else entry


def folded(tables: list[Any]) -> list[Any]:
    """What rows leave, without where they lie."""
    return fold_state(tables).drop(["checkpoint_id", "attempt", "sequence"]).to_pylist()


class Checked(TestJob):
    """Compares log and live state at each commit."""

    def __init__(self, base: str, script: Script, live: LiveStates, **settings: Any) -> None:
        super().__init__(base, script, **settings)
        self.live = live

    def on_commit(self, checkpoint: Any) -> None:
        held = self.live.of(checkpoint.attempt, checkpoint.id)
        assert pictured(logged_state(self.settings.base_path, checkpoint=checkpoint.id)) == pictured(held)


def set_traps(data: st.DataObject, longest: int = 20) -> None:
    """Draw when calls fail: after so many calls at the most."""
    calls = st.lists(st.integers(0, longest), min_size=2, max_size=5)
    TRAPS.due = data.draw(calls, "calls between failures")
    OPENING.due = data.draw(st.lists(st.integers(1, 6), max_size=1), "openings before one fails")
    READING.due = data.draw(st.lists(st.integers(0, 3), max_size=1), "readings before one fails")


def dense(data: st.DataObject, parallelism: int = 1) -> Script:
    """A script with a barrier every second epoch or more often, so that there is a checkpoint to go back to."""
    script = data.draw(scripts(FAULTS, parallelism=parallelism), "script")
    barriers = data.draw(st.sampled_from([(True,), (True, False), (True, True, False)]), "barriers")
    return replace(script, barriers=barriers)


SETTINGS = {"local_recovery": True, "same_failure_limit": 0}
BACKENDS = ("hashmap", "rocksdb", "rocksdb without cache")


@contextlib.contextmanager
def prepared(data: st.DataObject) -> Iterator[dict[str, Any]]:
    """The settings of a job with local recovery in a drawn backend, with maps that are soon spread; its folder."""
    backend = data.draw(st.sampled_from(BACKENDS), "backend")
    with tempfile.TemporaryDirectory() as base, small_maps():
        yield {"base": base, **SETTINGS, **backend_settings(backend, base)}


@fewer(2)
@given(data=st.data())
def test_kept_state_is_what_storage_has(data: st.DataObject) -> None:
    profile = data.draw(st.sampled_from(sorted(PROFILES)), "profile")
    parallelism = data.draw(st.integers(1, 3), "parallelism")
    elements = data.draw(inputs(profile, max_elements=30), "elements")
    script = dense(data, parallelism)
    flush_rows = data.draw(st.sampled_from([2, 5, 1000]), "mutations that wait at the most")
    part_bytes = data.draw(st.sampled_from([1, 64 * 1024 * 1024]), "part.max-bytes")
    set_traps(data)
    graph = keyed_job(
        elements,
        Failing(profile),
        key_type=PROFILES[profile].key_type,
        parallelism=parallelism,
        timestamp=lambda element: element[1],
    )
    live, kept = LiveStates(), Kept()
    with (
        prepared(data) as settings,
        live.watched(),
        kept.watched(),
        mock.patch.object(part_stream, "FLUSH_ROWS", flush_rows),
    ):
        tolerable = data.draw(st.sampled_from([0, 0, 3]), "tolerable failures")
        settings |= {"part_max_bytes": part_bytes, "tolerable_failures": tolerable}
        Checked(script=script, live=live, **settings).run(graph)


@fewer(2)
@given(data=st.data())
def test_state_of_a_stage_that_runs_ahead_is_kept(data: st.DataObject) -> None:
    """It is behind the checkpoint that comes next, or behind the one after it."""
    profile = data.draw(st.sampled_from(sorted(PROFILES)), "profile")
    build = GraphBuilder(parallelism=data.draw(st.integers(1, 2), "parallelism"))
    source = build.source(data.draw(inputs(profile, max_elements=40), "elements"))
    timed = build.timestamps(source, lambda element: element[1])
    keyed = build.key_by(timed, lambda element: element[0], PROFILES[profile].key_type)
    first = build.process(keyed, Failing(profile), uid="first")
    build.collect(build.process(build.key_by(first, repr, Types.STRING()), Count(), uid="second"))
    live, kept, script = LiveStates(), Kept(), dense(data, 2)
    set_traps(data)
    with prepared(data) as settings, live.watched(), kept.watched():
        settings |= {"packs": data.draw(st.booleans(), "packs")}
        Checked(script=script, live=live, read_ahead=True, **settings).run(build.graph())


@fewer(2)
@given(data=st.data())
def test_state_with_a_time_to_live_is_kept(data: st.DataObject) -> None:
    CLOCK.now = 1_000
    stream, config = data.draw(ttl_elements(), "elements"), data.draw(configs(show=False), "config")
    script = dense(data)
    set_traps(data, 4)
    graph = keyed_job(stream, FailingExpiring(config), key_type=Types.STRING())
    live, kept = LiveStates(), Kept()
    with prepared(data) as settings, live.watched(), kept.watched():
        job: TestJob
        if settings["state_backend"] == "hashmap":
            job = Checked(script=script, live=live, clock=CLOCK.read, **settings)
        else:  # what expires in a table on disk is removed at the end of the epoch, when live states are noted already
            job = TestJob(script=script, clock=CLOCK.read, **settings)
        job.run(graph)


ASSIGNERS = (
    lambda: EventTimeSessionWindows.with_gap(Time.milliseconds(4)),
    lambda: SlidingEventTimeWindows.of(Time.milliseconds(6), Time.milliseconds(3)),
    lambda: TumblingEventTimeWindows.of(Time.milliseconds(5)),
    lambda: CountSlidingWindowAssigner.of(3, 2),
)


@fewer(2)
@given(data=st.data())
def test_windows_are_kept(data: st.DataObject) -> None:
    assigner = data.draw(st.sampled_from(ASSIGNERS), "assigner")()
    one = st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.sampled_from("xyz"))
    drawn = data.draw(st.lists(one, min_size=15, max_size=40), "elements and the time between them")
    times = accumulate(step for _, step, _ in drawn)
    elements = [(key, time, text) for (key, _, text), time in zip(drawn, times, strict=True)]
    script = dense(data)
    set_traps(data, 3)
    windows = window_jobs.spec(assigner, function=FailingTexts())
    kept = Kept()
    with prepared(data) as settings, kept.watched():
        TestJob(script=script, **settings).run(window_jobs.graph(elements, windows, key_type=Types.STRING()))
