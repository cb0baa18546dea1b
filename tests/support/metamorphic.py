"""One random program, run in every way that must change neither what it gives nor what it holds.

``Model`` is a run in which nothing happens: one element an epoch, a checkpoint after each. It knows what every state
held and what had been given at each place of the input. A ``Way`` is how else the program is run; ``check`` compares
all that the run leaves with the model: what it gave, files that are written exactly once, and the state at each
checkpoint as each reader has it.

Everything comes from two seeds, of the program and of the way, and ``shrunk`` makes a failure small.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from api.common.typeinfo import Types
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
)
from changelog_engine.changelog import logged_keys, part_writer, spilled_rows
from changelog_engine.changelog import snapshot as snapshot_module
from changelog_engine.changelog.bulk_fold import live_rows
from changelog_engine.codec import columns as columns_module
from changelog_engine.codec import values as values_module
from changelog_engine.errors import ChangelogEngineError, JobExecutionError, RestoreError
from changelog_engine.graph import key_groups
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.graph.nodes import JobGraph, StateKind, StateSpec
from changelog_engine.graph.plan import plan_job
from changelog_engine.inspection.key_history import key_history
from changelog_engine.inspection.sql import query
from changelog_engine.inspection.states import entries_at
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.reading import read_parts
from changelog_engine.operators import blocks, exchange, part_stream, windows_merging, windows_sessions
from changelog_engine.operators import source as source_module
from changelog_engine.operators.messages import EpochOrder
from changelog_engine.operators.store import KeyedStore
from changelog_engine.provenance.explain import Replays
from changelog_engine.replay.job import replay_graph
from changelog_engine.replay.log_rows import table_of
from changelog_engine.savepoints import writer as writer_module
from changelog_engine.savepoints.bootstrap import bootstrap
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.state import compiled_handles
from changelog_engine.state import timers as timers_module
from changelog_engine.types import composite, copies, type_from_spec
from changelog_engine.types import row as row_module
from changelog_engine.verification.verify import verify
from changelog_engine.windowing import namespaces
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate
from support import log_by_hand, random_jobs
from support.backends import backend_settings, small_maps
from support.epochs import EpochStats
from support.live import spec_of
from support.log_by_hand import Held, LogByHand
from support.materialized import merging_few
from support.packed import packing
from support.random_jobs import TRAP, Described, Traits, graph_of, last_keyed, random_program, traits
from support.rescaled import RescaledJob
from support.same import exact
from support.script import DriverKilled, Failure, Fault, Script

Place = tuple[int, bool]
"""How many items of the scripts were read, and whether all sources have ended."""

FAULTS = (
    Fault.WORKER, Fault.SUBTASK, Fault.GONE, Fault.DRIVER, Fault.PARTS, Fault.COMMIT_FAILS, Fault.COMMIT_LIES,
    Fault.COMMITTED, Fault.HANDED_OUT,
)  # fmt: skip
_EVERYTHING = Retention(history_ms=1 << 40)
_LITTLE = Retention(history_ms=0, retained=1, grace_ms=0)


@dataclass(frozen=True)
class Way:
    """How a program is run.

    Args:
        sizes: elements of each epoch.
        barriers: which epochs end with a checkpoint.
        failures: (epoch, fault, stage, subtask).
        parallelism: of each driver.
        last: of each driver, that of the last stage with keyed state; none for that of the job.
        most: max parallelism; None for the default.
        rescales: epoch to another parallelism, of that stage where it has its own.
        backend: of the state.
        changelog: of each driver; False: full snapshots.
        local_recovery: state is kept over failures.
        read_ahead: sources read ahead.
        packs: parts of a checkpoint are one file.
        flush_rows: so many mutations wait.
        group_rows: in a row group, and in whatever else is cut by rows.
        part_bytes: of a part.
        small: windows' and maps' own budgets are tiny.
        upkeep: what is done after a checkpoint: "m" materializes, "t" truncates nothing but merges, "l" leaves little.
        piece_bytes: of a snapshot.
        traps: user code raises after so many elements, each time once.
        moves: (epoch, how) of another job that goes on: "fork", "savepoint", "stop".
        rewinds: (thousandth of the checkpoints that are there, how) of what goes on from there when the job has ended: the
            job itself by the checkpoint's "id" or "time", another as a "fork" or from a "savepoint" of it.
        views: what the product's readers make of a checkpoint is compared: "folded", "sql", "keys", "entries", "replay",
            "explained", "bootstrapped".
        drained: another run is stopped with a drain.
        compiled: whether a driver, and what it runs, uses the extensions in C.
    """

    sizes: tuple[int, ...] = (1,)
    barriers: tuple[bool, ...] = (True,)
    failures: tuple[tuple[int, str, int, int], ...] = ()
    parallelism: tuple[int, ...] = (1,)
    last: tuple[int, ...] = ()
    most: int | None = None
    rescales: tuple[tuple[int, int], ...] = ()
    backend: str = "hashmap"
    changelog: tuple[bool, ...] = (True,)
    local_recovery: bool = False
    read_ahead: bool = False
    packs: bool = False
    flush_rows: int | None = None
    group_rows: int | None = None
    part_bytes: int | None = None
    small: bool = False
    upkeep: tuple[str, ...] = ("",)
    piece_bytes: int = 1 << 20
    traps: tuple[int, ...] = ()
    moves: tuple[tuple[int, str], ...] = ()
    rewinds: tuple[tuple[int, str], ...] = ()
    views: tuple[str, ...] = ()
    drained: bool = False
    compiled: tuple[bool, ...] = (True,)

    @property
    def ordered(self) -> bool:
        """Whether results come in the model's order."""
        return {*self.parallelism, *self.last} == {1} and not self.rescales

    def graph(self, described: Described, driver: int, files: str | None = None) -> JobGraph:
        """A program as a driver of some number runs it."""
        last = self.last[driver % len(self.last)] if self.last else None
        parallelism = self.parallelism[driver % len(self.parallelism)]
        return graph_of(described, parallelism, self.most, files, last)


def random_way(seed: int, of: Traits, items: int) -> Way:
    """A way that suits a program; the same for the same seed."""
    chance = random.Random(f"way {seed}")

    def maybe(share: float, value: Callable[[], Any], default: Any) -> Any:
        return value() if chance.random() < share else default

    parallel = chance.choice([1, 2, 3, 5]) if of.any_parallelism else 1
    drivers = tuple(chance.choice([1, 2, 3, 5]) for _ in range(3)) if of.any_parallelism else (parallel,)
    last: tuple[int, ...] = ()
    if of.any_last and not of.any_parallelism and chance.random() < 0.7:
        last = tuple(chance.choice([1, 2, 3, 5]) for _ in range(2))
    sizes = maybe(0.7, lambda: tuple(chance.randint(1, 9) for _ in range(chance.randint(1, 4))), (1,))
    if not of.any_epochs:
        sizes = (1,)
    epochs = max(2, items * len(sizes) // sum(sizes))
    failures = [
        (chance.randint(1, epochs), chance.choice(FAULTS).name, chance.randint(0, 2), chance.randint(0, 2))
        for _ in range(chance.choice([0, 1, 2, 4]))
    ]
    moves = [
        (chance.randint(1, epochs), chance.choice(["fork", "savepoint", "stop"]))
        for _ in range(chance.choice([0, 0, 0, 1, 2]))
    ]
    return Way(
        sizes=sizes,
        barriers=maybe(
            0.7, lambda: (*[chance.random() < 0.5 for _ in range(chance.randint(1, 4))], True), (True,)
        ),
        failures=tuple(sorted(failures)),
        parallelism=maybe(0.6, lambda: drivers, (parallel,)),
        last=last,
        most=chance.choice([None, 5, 8, 128, 32_768]),
        rescales=tuple(
            (chance.randint(1, epochs), chance.choice([1, 2, 3, 5]))
            for _ in range(chance.choice([0, 0, 1, 3]) if of.any_parallelism or last else 0)
        ),
        backend=chance.choice(["hashmap", "hashmap", "rocksdb", "rocksdb without cache", "custom"]),
        changelog=maybe(0.2, lambda: chance.choice([(False,), (True, False), (False, True)]), (True,)),
        local_recovery=chance.random() < 0.3,
        read_ahead=chance.random() < 0.3,
        packs=chance.random() < 0.3,
        flush_rows=chance.choice([None, None, 1, 2, 7]),
        group_rows=chance.choice([None, None, 1, 3]),
        part_bytes=chance.choice([None, None, 1]),
        small=chance.random() < 0.4,
        upkeep=maybe(
            0.5,
            lambda: ("", chance.choice(["m", "t", "mt", "ml", "l"]), chance.choice(["", "", "m", "t"])),
            ("",),
        ),
        piece_bytes=chance.choice([64, 1 << 20]),
        traps=tuple(chance.randint(0, 3 * items) for _ in range(chance.choice([0, 0, 1, 2]))),
        moves=tuple(sorted(moves)),
        rewinds=maybe(
            0.4,
            lambda: tuple(
                (
                    chance.randrange(1000),
                    chance.choice(["id", "id" if of.timed else "time", "fork", "savepoint"]),
                )
                for _ in range(chance.choice([1, 1, 2]))
            ),
            (),
        ),
        views=tuple(
            chance.sample(
                ["folded", "sql", "keys", "entries", "replay", "explained", "bootstrapped"],
                chance.choice([0, 0, 1]),
            )
        ),
        drained=chance.random() < 0.15,
        compiled=maybe(0.4, lambda: chance.choice([(False,), (True, False), (False, True)]), (True,)),
    )


# --- the model -----------------------------------------------------------------------------------------------------------


class _Barriers:
    """What all subtasks held at each barrier."""

    def __init__(self) -> None:
        self.at: dict[int, list[pa.Table]] = {}
        self._epochs: dict[int, int] = {}

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        inner = KeyedStore.end_epoch

        def end_epoch(store: KeyedStore, order: EpochOrder, *more: Any) -> Any:
            found = inner(store, order, *more)
            if order.kind.barrier:
                tables = [table_of(*live) for live in store.live_columns()]
                if (
                    self._epochs.get(order.checkpoint_id) != order.epoch
                ):  # nothing had changed: the id was not used
                    self._epochs[order.checkpoint_id], self.at[order.checkpoint_id] = order.epoch, []
                self.at[order.checkpoint_id].extend(tables)
            return found

        with mock.patch.object(KeyedStore, "end_epoch", end_epoch):
            yield


def rows_of(tables: list[pa.Table]) -> Held:
    """What tables of live rows, or of the log, hold."""
    return log_by_hand.held([row for table in tables for row in table.to_pylist()])


def place_of(checkpoint: Any) -> Place:
    """Where the sources of a checkpoint stand: where there are two, each epoch reads an item of both."""
    ends = [splits["script"] for splits in checkpoint.sources.values()]
    return sum(position for position, _ in ends), all(finished for _, finished in ends)


class Model:
    """A program, run so that nothing happens.

    Args:
        described: the program.
        base: a folder for its log, which stays.

    Raises:
        JobExecutionError: it fails by itself.
    """

    def __init__(self, described: Described, base: str) -> None:
        self.described = described
        self.traits = traits(described)
        self.base = base
        self.items = len(random_jobs.script(described))
        if "second" in described:
            self.items += len(random_jobs.script(described, second=True))
        barriers = _Barriers()
        job = _Job(f"{base}/log", Way(), self.traits)
        self.given: dict[Place, int] = {(0, False): 0}  # a job that is stopped at once has a checkpoint there
        job.after_epoch = lambda: self.given.__setitem__(place_of(job.commits[-1]), len(job.output))
        with barriers.watched():
            job.run_driver(graph_of(described, 1, None, f"{base}/out"))
        self.output: list[str] = job.output
        self.states: dict[Place, Held] = {(0, False): {}}
        self.states |= {place_of(row): rows_of(barriers.at[row.id]) for row in job.commits}
        self.checkpoints = {place_of(row): row.id for row in job.commits}
        # An epoch that only read a watermark which an assigner drops changes nothing, and no checkpoint is made; another
        # run makes one there, as its first or after a failure.
        for at in range(1, self.items + 1):
            self.given.setdefault((at, False), self.given.get((at - 1, False), 0))
            self.states.setdefault((at, False), self.states.get((at - 1, False), {}))
        self.log = LogByHand(f"{base}/log/job")
        for place, checkpoint in self.checkpoints.items():
            assert self.log.held(checkpoint) == self.states[place], f"the model's log at {place}"

    def mutations(self, checkpoint: int) -> Any:
        """All changes of each key up to a checkpoint, in order."""
        return changes_of(self.log.mutations(checkpoint))


def changes_of(rows: list[dict[str, Any]]) -> dict[Any, list[Any]]:
    """The changes of each key in each state, but for the engine's own account, of which the log has net changes."""
    found: dict[Any, list[Any]] = {}
    for row in rows:
        own = row["state"] == "__merging_windows" or (row["state"] in log_by_hand.TIMERS and row["namespace"])
        if not own:
            change = (row["map_key"], row["operation"], log_by_hand.pictured(row), row["event_time"])
            found.setdefault((row["operator"], row["state"], row["key"], row["namespace"]), []).append(change)
    return found


# --- a run ---------------------------------------------------------------------------------------------------------------


class _Job(RescaledJob):
    """A job that is run in some way."""

    def __init__(self, base: str, way: Way, of: Traits, **settings: Any) -> None:
        failures = tuple(
            Failure(epoch, Fault[name], stage, subtask) for epoch, name, stage, subtask in way.failures
        )
        settings = {"local_recovery": way.local_recovery, "read_ahead": way.read_ahead, **settings}
        settings |= backend_settings(way.backend, f"{base}-local")
        if way.part_bytes is not None:
            settings["part_max_bytes"] = way.part_bytes
        super().__init__(
            base,
            Script(way.sizes, way.barriers, failures),
            (lambda: 1_000) if of.timed else self._now,
            wanted=dict(way.rescales),
            same_failure_limit=0,
            **settings,
        )
        self.way = way
        self.after_epoch: Callable[[], Any] = lambda: None
        self.lost_output = False

    def _now(self) -> int:
        assert self.progress is not None
        return 1_000 + 10 * self.progress.epoch

    def on_commit(self, checkpoint: Any) -> None:
        """See TestJob."""
        what = self.way.upkeep[checkpoint.id % len(self.way.upkeep)]
        folder = find_job_folder(self.settings.base_path, "job")
        try:
            with merging_few():
                if "m" in what:
                    materialize(folder, piece_bytes=self.way.piece_bytes)
                if "t" in what:
                    truncate(folder, _EVERYTHING, lambda: checkpoint.time_ms / 1000)
                if "l" in what:
                    truncate(folder, _LITTLE, lambda: checkpoint.time_ms / 1000)
        except ChangelogEngineError as error:  # the job would take it for a failure of its own
            raise AssertionError(f"upkeep {what!r} after checkpoint {checkpoint.id}: {error}") from error

    def strike(self, *faults: Fault, stage: int | None = None, subtask: int | None = None) -> Fault | None:
        """See TestJob."""
        try:
            return super().strike(*faults, stage=stage, subtask=subtask)
        except DriverKilled:
            self.lost_output |= Fault.COMMITTED in faults
            raise

    def _observe(self, stats: EpochStats) -> None:
        self.after_epoch()
        super()._observe(stats)


# What decides by numbers that a program of a few elements never reaches how columns travel and are written.
_SMALL = [
    (blocks, "_FEW", 1),
    (blocks, "_SAMPLE", 2),
    (exchange, "_FEW", 1),
    (columns_module, "_SAMPLE", 2),
    (columns_module, "SAMPLED", 2),
    (namespaces, "SAMPLED", 2),
    (columns_module, "CHUNK_ROWS", 2),
    (values_module, "_WORTH_A_LOOK", 1),
    (values_module, "_OBJECTS", 2),
    (part_writer, "_LEAST_ROWS", 1),
]


@contextlib.contextmanager
def _budgets(way: Way) -> Iterator[None]:
    with contextlib.ExitStack() as stack:

        def put(module: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(module, name, value))

        if way.packs:
            stack.enter_context(packing())
        if way.flush_rows is not None:
            put(part_stream, "FLUSH_ROWS", way.flush_rows)
        if way.group_rows is not None:
            put(part_writer, "ROW_GROUP_ROWS", way.group_rows)
            put(writer_module, "ROW_GROUP_ROWS", way.group_rows)
            put(spilled_rows, "_CHUNK_ROWS", way.group_rows)
            put(snapshot_module, "_CHUNK", way.group_rows)
            put(source_module, "_FIRST_STEP", way.group_rows)
            put(source_module, "_LARGEST_STEP", way.group_rows)
        if way.small:
            stack.enter_context(small_maps())
            put(windows_sessions, "_MOST_KEYS", 1)
            put(windows_sessions, "_MOST_CHANGED", 1)
            put(windows_merging, "_MAX_READ", 1)
            for module, name, value in _SMALL:
                put(module, name, value)
        yield


# Modules that know the extensions, by the name that they have there.
_COMPILED = {
    "CALLS": (timers_module, compiled_handles),
    "LOOPS": (copies, row_module, composite, columns_module, key_groups, blocks, logged_keys),
}


@contextlib.contextmanager
def extensions(way: Way, driver: int) -> Iterator[None]:
    """What a driver of some number runs uses the extensions in C, or does not."""
    with contextlib.ExitStack() as stack:
        compiled = way.compiled[driver % len(way.compiled)]
        for name, modules in () if compiled else _COMPILED.items():
            for module in modules:
                stack.enter_context(mock.patch.object(module, name, None))
        yield


class Run:
    """A program, run in some way to its end.

    Args:
        model: the program.
        way: how.
        base: a folder.
    """

    def __init__(self, model: Model, way: Way, base: str) -> None:
        self.model, self.way, self.base = model, way, base
        self.jobs: list[_Job] = []
        self.traps = list(way.traps)
        self.moves = list(way.moves)
        self.restore = "auto"
        self._begin_job()
        with _budgets(way):
            TRAP.left = self._next_trap()
            TRAP.after = self._next_trap
            try:
                while not self._drive():
                    pass
            finally:
                TRAP.left, TRAP.after = None, None

    def _next_trap(self) -> int | None:
        return self.traps.pop() if self.traps else None

    def _begin_job(self) -> None:
        job = self.new_job(f"{self.base}/log-{len(self.jobs)}")
        if self.jobs:
            job.progress = self.jobs[-1].progress
            job.wanted = self.jobs[-1].wanted
        self.jobs.append(job)

    def new_job(self, base: str) -> _Job:
        """A job under another base path, to be run in the same way."""
        job = _Job(base, self.way, self.model.traits)
        if self.way.last:
            graph = self.graph(0)
            uid = plan_job(graph).uids[last_keyed(graph)]
            job.wanted = {epoch: {uid: wanted} for epoch, wanted in self.way.rescales}
        return job

    @property
    def job(self) -> _Job:
        """The one that runs now, or ran last."""
        return self.jobs[-1]

    def graph(self, number: int) -> JobGraph:
        """The program as a driver of some number runs it."""
        return self.way.graph(self.model.described, number, f"{self.base}/out")

    def _drive(self) -> bool:
        """Run a driver; whether the job has ended."""
        job = self.job
        number = sum(each.drivers for each in self.jobs)
        changelog = self.way.changelog[number % len(self.way.changelog)]
        due = self.moves[0] if self.moves else None
        if due is not None:
            epoch, how = due
            if how == "stop":

                def stop() -> None:
                    if job.progress.epoch >= epoch:  # type: ignore[union-attr]
                        job.coordinator.control.stop()

                job.after_epoch = stop
            else:
                job.progress.waiting.append(Failure(epoch, Fault.HANDED_OUT))  # type: ignore[union-attr]
        try:
            with extensions(self.way, number):
                outcome = job.run_driver(self.graph(number), changelog=changelog, restore=self.restore)
        except JobExecutionError:
            if not job.coordinator.control.stopping:
                raise
            job.after_epoch = lambda: None
            if job.commits and job.commits[-1].finished:
                return self._finish()
            return False  # what fails while the job stops is not repeated
        except DriverKilled:
            job.after_epoch = lambda: None
            moved = due is not None and due[1] != "stop" and not _waits(job, due[0])
            if job.commits and job.commits[-1].finished:
                return self._finish()
            self.restore = "auto" if len(self.jobs) == 1 or job.commits else self.restore
            if moved:
                assert due is not None
                self.moves.pop(0)
                self._move(due[1])
            return False
        finally:
            job.after_epoch = lambda: None
        self.restore = "latest"
        if job.commits[-1].finished:
            return True
        assert due is not None, outcome
        self.moves.pop(0)
        return False

    def _finish(self) -> bool:
        """The driver died behind the last commit: another one shows what the sinks have."""
        while True:
            try:
                self.job.run_driver(self.graph(0), changelog=self.way.changelog[0])
                return True
            except DriverKilled:
                continue

    def _move(self, how: str) -> None:
        """Another job goes on, from the newest checkpoint."""
        old = self.job
        if not old.commits:
            return
        folder = find_job_folder(old.settings.base_path, "job")
        row = Ledger(folder.open_changelog()).lineage.newest_checkpoint()
        assert row is not None
        self._begin_job()
        if how == "fork":
            fork_job(folder, row, f"{self.job.settings.base_path}/job")
            self.restore = "latest"
        else:
            self.restore = create_savepoint(folder, row, f"{self.base}/savepoints").path

    @property
    def output(self) -> list[str]:
        """What all jobs gave."""
        return [line for job in self.jobs for line in job.output]


def _waits(job: _Job, epoch: int) -> bool:
    """Whether the kill of a move has not come yet."""
    failure = Failure(epoch, Fault.HANDED_OUT)
    assert job.progress is not None
    return failure in job.progress.waiting


# --- the comparison ------------------------------------------------------------------------------------------------------


def compare(what: str, found: Any, expected: Any) -> None:
    """Raise where two differ, and say in what."""
    if found == expected:
        return
    if isinstance(found, list):
        missing, more = (
            Counter(map(repr, expected)) - Counter(map(repr, found)),
            Counter(map(repr, found)) - Counter(map(repr, expected)),
        )
        raise AssertionError(
            f"{what}: missing {dict(missing)}, too many {dict(more)}"
            + ("" if missing or more else ", in another order")
        )
    if isinstance(found, dict):
        differing = {
            name: (found.get(name), expected.get(name))
            for name in {*found, *expected}
            if found.get(name) != expected.get(name)
        }
        raise AssertionError(f"{what} (found, expected): {differing}")
    raise AssertionError(f"{what}: found {found!r}, expected {expected!r}")


def check(run: Run) -> None:
    """Compare what a run left with the model."""
    model, way = run.model, run.way
    shaped: Any = list if way.ordered else sorted
    if not any(job.lost_output for job in run.jobs):
        compare("output", shaped(run.output), shaped(model.output))
    compare("files", shaped(files_of(f"{run.base}/out")), shaped(files_of(f"{model.base}/out")))
    whole = "l" not in "".join(way.upkeep) and all(way.changelog)
    for number, job in enumerate(run.jobs):
        check_log(model, job.settings.base_path, f"job {number}", whole)
    check_views(run)
    for number, (share, how) in enumerate(way.rewinds):
        base = rewind(run, share, how, f"{run.base}/again-{number}")
        check_log(model, base, f"going on by {how}", whole)


def check_drained(model: Model, way: Way, base: str) -> None:
    """A job that is stopped with a drain gives what one gives whose input ends there, and holds the same."""
    way = replace(way, failures=(), traps=(), moves=(), rescales=())
    job = _Job(f"{base}/log", way, model.traits)
    after = way.sizes[0] + len(way.barriers)

    def drain() -> None:
        if job.progress.epoch >= after:  # type: ignore[union-attr]
            job.coordinator.control.stop_for_savepoint(True)

    job.after_epoch = drain
    with _budgets(way):
        job.run_driver(way.graph(model.described, 0, f"{base}/out"), changelog=way.changelog[0])
    last = job.commits[-1]
    cut = Model({**model.described, "cut": place_of(last)[0]}, f"{base}/cut")
    shaped: Any = list if way.ordered else sorted
    compare("output of a drained job", shaped(job.output), shaped(cut.output))
    compare("files of a drained job", shaped(files_of(f"{base}/out")), shaped(files_of(f"{base}/cut/out")))
    found = LogByHand(f"{base}/log/job").held(last.id)
    compare("state of a drained job", found, cut.states[cut.items, True])


def given_in_batch(described: Described, way: Way, base: str) -> list[str]:
    """What a program gives in BATCH mode."""
    way = replace(way, failures=(), traps=(), moves=(), rescales=(), packs=False)
    job = _Job(base, way, traits(described), batch=True, checkpoint_interval_ms=None, changelog=False)
    with _budgets(way):
        job.run_driver(way.graph(described, 0))
    return job.output


def rewind(run: Run, share: int, how: str, base: str) -> str:
    """Go on from a checkpoint once more, whose attempt it is; the rest of what is given is that of the model.

    Returns:
        The base path of the job that went on.
    """
    model, job = run.model, run.job
    if how == "time" and "l" in "".join(run.way.upkeep):
        how = "id"  # what was truncated may have been the newest at the time
    folder = find_job_folder(job.settings.base_path, "job")
    lineage = Ledger(folder.open_changelog()).lineage
    newest = lineage.newest_checkpoint()
    assert newest is not None
    line = log_by_hand.Lineage([list(each) for each in newest.lineage])
    there = []
    for number in lineage.checkpoints:
        row = lineage.checkpoint(number)
        with contextlib.suppress(RestoreError):
            Ledger(folder.open_changelog()).restore_point(row)
            if how != "time" or line.has({"attempt": row.attempt, "checkpoint_id": row.id}):
                there.append(row)
    row = there[share * len(there) // 1000]
    restore = str(row.id)
    if how == "time":
        moment = datetime.datetime.fromtimestamp(row.time_ms / 1000, datetime.UTC)
        restore = moment.strftime("%Y-%m-%dT%H:%M:%S.%f")
        row = max((each for each in there if each.time_ms <= row.time_ms), key=lambda each: each.id)
    elif how == "fork":
        fork_job(folder, row, f"{base}/log/job")
    elif how == "savepoint":
        restore = create_savepoint(folder, row, f"{base}/savepoints").path
    if how in ("fork", "savepoint"):
        job, newest = run.new_job(f"{base}/log"), None
    job.lost_output = False
    before, commits = len(job.output), len(job.commits)
    with _budgets(run.way):
        while True:
            try:
                job.run_driver(run.graph(share), restore=restore, changelog=run.way.changelog[0])
                break
            except DriverKilled:
                if len(job.commits) > commits:
                    restore = "latest"
    if not job.lost_output:
        expected = model.output[model.given[place_of(row)] :]
        compare(f"output behind checkpoint {row.id}", sorted(job.output[before:]), sorted(expected))
    return job.settings.base_path


def check_views(run: Run) -> None:
    """What the product says of a checkpoint is what it says of the model's at the same place."""
    job, model = run.job, run.model
    ledger = Ledger(find_job_folder(job.settings.base_path, "job").open_changelog())
    row = ledger.lineage.newest_checkpoint()
    assert row is not None
    whole = len(run.jobs) == 1 and all(run.way.changelog) and "l" not in "".join(run.way.upkeep)
    line = [
        n for each in row.lineage for n in range(each.first, each.last + 1) if n in ledger.lineage.checkpoints
    ]
    chosen = [row.id] if not whole else sorted({row.id, line[len(line) // 2]})
    for number in chosen:
        place = place_of(ledger.lineage.checkpoint(number))
        for what in run.way.views:
            if what == "bootstrapped":
                check_bootstrapped(job, ledger.lineage.checkpoint(number), run.base)
            if what not in VIEWS or place not in model.checkpoints:
                continue
            if what in ("sql", "keys") and not whole:
                continue
            found = VIEWS[what](f"{job.settings.base_path}/job", number)
            expected = VIEWS[what](f"{model.base}/log/job", model.checkpoints[place])
            compare(f"{what} of checkpoint {number} at {place}", found, expected)
    if whole and not model.traits.timed:
        graph = run.graph(0)
        starts = [start for start in (0, line[len(line) // 2]) if start < row.id]
        for start in starts if "replay" in run.way.views else ():
            report = replay_graph(graph, job.settings, start, row.id)
            assert report.equal, f"replay from {start}: {report.text()}"
        if "explained" in run.way.views and "asked" not in model.described:
            check_explained(job, graph, row)


_NO_KEY = "null"  # None as a key of the log; bootstrap() refuses it, by its message


def check_bootstrapped(job: _Job, row: Any, base: str) -> None:
    """A savepoint out of what ``state_at`` has is that state, but for windows, times to live and (map) keys None."""
    folded = state_at(job.table(), row.id, allow_pickle=True)
    expected = LogByHand(f"{job.settings.base_path}/job").held(row.id)
    tables: dict[str, dict[str, Any]] = {}
    types: dict[str, dict[str, Any]] = {}
    key_types, timers, most = {}, {}, {}
    for operator in row.operators:
        uid, described = operator.uid, operator.states
        entries = [each for name in expected if name[0] == uid for each in expected[name].items()]
        if (
            not described
            or any(namespace is not None for (_, namespace), _ in entries)
            or any(_NO_KEY in (key, *[row[0] for row in rows]) for (key, _), rows in entries)
            or operator.kind == "window"
            or any(each.ttl_ms is not None for each in described)
        ):
            expected = {name: held for name, held in expected.items() if name[0] != uid}
            continue
        key_type = operator.key_type
        key_types[uid] = Types.PICKLED_BYTE_ARRAY() if key_type is None else type_from_spec(key_type)
        most[uid] = operator.max_parallelism
        tables[uid], types[uid], timers[uid] = {}, {}, {}
        for each in described:
            spec = spec_of(each)
            types[uid][spec.name] = _descriptor(spec)
            tables[uid][spec.name] = _table(spec, folded.states.get((uid, spec.name), {}))
        for domain in ("event time", "processing time"):
            waiting = folded.timers.get((uid, domain), [])
            columns = {"key": [key for _, key in waiting], "timestamp": [at for at, _ in waiting]}
            timers[uid][domain] = columns
    if tables:
        made = bootstrap(
            f"{base}/bootstrapped-{row.id}",
            tables,
            key_types=key_types,
            types=types,
            timers=timers,
            max_parallelism=most,
        )
        checkpoint = Ledger(
            find_job_folder(*os.path.split(made.path)).open_changelog()
        ).lineage.newest_checkpoint()
        assert checkpoint is not None
        compare("bootstrapped", LogByHand(made.path).held(checkpoint.id), expected)


def _descriptor(spec: StateSpec) -> Any:
    made = {
        StateKind.VALUE: lambda: spec.value_type,
        StateKind.LIST: lambda: ListStateDescriptor(spec.name, spec.value_type),
        StateKind.MAP: lambda: MapStateDescriptor(spec.name, spec.map_key_type, spec.value_type),
        StateKind.REDUCING: lambda: ReducingStateDescriptor(spec.name, max, spec.value_type),
        StateKind.AGGREGATING: lambda: AggregatingStateDescriptor(
            spec.name, random_jobs.pipelines._Mean(), spec.value_type
        ),
    }
    return made[spec.kind]()


def _table(spec: StateSpec, entries: Any) -> Any:
    columns: dict[str, list[Any]] = {"key": [], "value": []}
    if spec.kind is StateKind.MAP:
        columns["map_key"] = []
    for key, held in entries.items():
        assert key is not None
        rows = [(None, held)]
        if spec.kind is StateKind.LIST:
            rows = [(None, each) for each in held]
        elif spec.kind is StateKind.MAP:
            rows = list(held.items())
        for map_key, value in rows:
            columns["key"].append(key)
            columns["value"].append(value)
            if spec.kind is StateKind.MAP:
                columns["map_key"].append(map_key)
    return columns


def check_explained(job: _Job, graph: JobGraph, row: Any) -> None:
    """Each mutation of a key is explained."""
    folded = state_at(job.table(), row.id, allow_pickle=True)
    held = LogByHand(f"{job.settings.base_path}/job").held(row.id)
    for (operator, state), entries in list(folded.states.items())[:2]:
        windowed = any(namespace is not None for _, namespace in held.get((operator, state), ()))
        for key in list(entries)[:1]:
            wanted = key[0] if windowed else key
            found = Replays(graph, job.settings, row.id, 0).key(wanted, operator, depth=2)
            assert found.equal, found.text()
            assert found.mutations, f"no mutation of {wanted!r} of {operator!r} was explained"


def _folded(path: str, checkpoint: int) -> Any:
    found = state_at(f"{path}/changelog", checkpoint, allow_pickle=True)
    states = {name: {repr(k): exact(v) for k, v in entries.items()} for name, entries in found.states.items()}
    timers = {name: sorted(map(repr, each)) for name, each in found.timers.items()}
    return {name: each for name, each in (states | timers).items() if each}


def _sql(path: str, checkpoint: int) -> Any:
    found = {}
    for name in query(path, "SELECT view, history_view FROM states WHERE kind IS NOT NULL", checkpoint).rows:
        for view in name:
            if view.endswith("__merging_windows_history"):
                continue
            result = query(path, f"SELECT * FROM {view}", checkpoint)
            kept = [n for n, column in enumerate(result.columns) if column not in _PLACES]
            found[view] = sorted(repr([each[n] for n in kept]) for each in result.rows)
    return found


_PLACES = {
    "valid_from_checkpoint", "valid_to_checkpoint", "valid_from", "valid_to", "checkpoint", "attempt", "sequence", "time",
    "checkpoint_id", "checkpoint_time", "stage", "subtask", "key_group", "pickled_bytes",
}  # fmt: skip


def _entries(path: str, checkpoint: int) -> Any:
    found = entries_at(path, checkpoint, allow_pickle=True).entries
    return sorted(repr((each.operator, each.state, each.key, exact(each.value))) for each in found)


def _keys(path: str, checkpoint: int) -> Any:
    log = LogByHand(path)
    found = {}
    for key in sorted({row["key"] for row in log.rows if row["key"] is not None})[:4]:
        try:
            changes = key_history(path, key, at=checkpoint, allow_pickle=True).changes
        except ChangelogEngineError as error:
            found[key] = [f"{type(error).__name__}"]
            continue
        found[key] = sorted(
            repr(
                (
                    c.operator,
                    c.state,
                    c.namespace,
                    c.map_key,
                    c.operation,
                    exact(c.before),
                    exact(c.after),
                    c.event_time_ms,
                )
            )
            for c in changes
            if c.state != "__merging_windows" and not (c.kind == "timer" and c.namespace)
        )
    return found


VIEWS = {"folded": _folded, "sql": _sql, "entries": _entries, "keys": _keys}


def files_of(folder: str) -> list[str]:
    """The lines of all finished files, those of each writer in order."""

    def place(path: Path) -> tuple[int, ...]:
        return tuple(int(part) for part in path.stem.split("-")[1:])

    return [
        line
        for path in sorted(Path(folder).glob("p-*.txt"), key=place)
        for line in path.read_text().splitlines()
    ]


def check_log(model: Model, base: str, where: str, whole: bool) -> None:
    """Each checkpoint that is there, as each reader has it."""
    folder = find_job_folder(base, "job")
    ledger = Ledger(folder.open_changelog())
    by_hand = LogByHand(f"{base}/job")
    known = sorted(ledger.lineage.checkpoints)
    chosen = {known[0], known[-1], *random.Random(len(known)).sample(known, min(3, len(known)))}
    for number in sorted(chosen):
        row = ledger.lineage.checkpoint(number)
        place = place_of(row)
        expected = model.states[place]
        told = f"{where}, checkpoint {number} at {place}"
        try:
            point = ledger.restore_point(row)
        except RestoreError:
            if whole or number == known[-1]:
                raise
            continue
        tables = list(live_rows(list(read_parts(point, ALL_KEY_GROUPS))).values())
        compare(f"{told}: restored", rows_of(tables), expected)
        compare(f"{told}: by hand", by_hand.held(number), expected)
        if whole and row.lineage[0].first == 1 and where == "job 0" and place in model.checkpoints:
            compare(
                f"{told}: mutations",
                changes_of(by_hand.mutations(number)),
                model.mutations(model.checkpoints[place]),
            )
    faults = verify(folder).faults
    compare(f"{where}: faults", [str(fault) for fault in faults], [])


# --- shrinking -----------------------------------------------------------------------------------------------------------


def failure_of(described: Described, way: Way) -> str | None:
    """What is wrong when a program is run in a way; None when all is right, or the program fails by itself."""
    with tempfile.TemporaryDirectory() as base:
        try:
            model = Model(described, f"{base}/model")
        except ChangelogEngineError:
            return None
        return failure_of_run(model, way, f"{base}/run")


def failure_of_run(model: Model, way: Way, base: str) -> str | None:
    """What is wrong when a program is run in a way."""
    try:
        check(Run(model, way, base))
        if way.drained and "second" not in model.described:
            check_drained(model, way, f"{base}/drained")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def failure_in_batch(seed: int, base: str) -> str | None:
    """What is wrong when a program of a seed is run in BATCH mode in a way; None when it fails by itself."""
    described = random_program(seed, batch=True)
    way = random_way(seed, traits(described), len(described["elements"]))
    try:
        expected = given_in_batch(described, Way(), f"{base}/model")
    except ChangelogEngineError:
        return None
    shaped: Any = list if replace(way, rescales=()).ordered else sorted
    try:
        compare("output", shaped(given_in_batch(described, way, f"{base}/way")), shaped(expected))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def shrunk(
    described: Described,
    way: Way,
    tries: int = 150,
    fails: Callable[[Described, Way], str | None] = failure_of,
) -> tuple[Described, Way, str]:
    """A smaller program and way that fail as these do, as small as some tries find them."""
    said = fails(described, way)
    assert said is not None
    again, left = True, tries
    while again:
        again = False
        for less, other in _smaller(described, way):
            if not left:
                break
            left -= 1
            found = fails(less, other)
            if found is not None and found.split(":")[0] == said.split(":")[0]:
                described, way, said, again = less, other, found, True
                break
    return described, way, said


def _smaller(described: Described, way: Way) -> Iterator[tuple[Described, Way]]:
    plain = Way()
    for field in dataclasses.fields(way):
        if getattr(way, field.name) != getattr(plain, field.name):
            yield described, replace(way, **{field.name: getattr(plain, field.name)})
    for name in ("failures", "traps", "moves", "rescales", "upkeep", "parallelism", "sizes", "barriers"):
        values = getattr(way, name)
        for left in range(len(values) if len(values) > 1 else 0):
            yield described, replace(way, **{name: values[:left] + values[left + 1 :]})
    steps = described["steps"]
    for left in range(len(steps) if len(steps) > 1 else 0):
        fewer = {**described, "steps": steps[:left] + steps[left + 1 :]}
        if traits(fewer).keyed:
            yield fewer, way
    elements = described["elements"]
    for size in (len(elements) // 2, len(elements) // 4, 1):
        for left in range(0, len(elements), size) if size else ():
            yield {**described, "elements": elements[:left] + elements[left + size :]}, way
    for number, step in enumerate(steps):
        for name in ("element", "timer", "other"):
            for left in range(len(step.get(name, ()))):
                less = {**step, name: step[name][:left] + step[name][left + 1 :]}
                yield {**described, "steps": [*steps[:number], less, *steps[number + 1 :]]}, way
