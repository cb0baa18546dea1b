"""Random lives of jobs, with all that people and clocks do to them, and a model of plain Python that keeps every state.

What a life may hold: runs from any checkpoint (by id, from the end, by attempt or by time) with another parallelism, asked
for before or while they run, other types of states, states that are dropped, lost processes and drivers, a wall clock that
is set forwards and backwards; snapshots, truncations, forks, savepoints, corrections and bootstraps, each of which may be
killed before any of its changes of the disk.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import changelog_engine
from api.common import Time
from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.corrections import DELETE, UNCHANGED, FixedEntry
from changelog_engine.errors import ConfigurationError, RestoreError
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.readable import iso
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.verification.verify import verify
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate
from support import programs
from support.functions import rounds
from support.graphs import keyed_job
from support.materialized import merging_few, perhaps_killed
from support.programs import added, state_of
from support.rescaled import RescaledJob
from support.script import DriverKilled, Failure, Fault, Script

KEYS = 5
TTL = 20
NAMES = ("value", "list", "map")
FAULTS = (Fault.WORKER, Fault.SUBTASK, Fault.GONE, Fault.COMMIT_FAILS, Fault.COMMIT_LIES)
# Name of the type -> the type, and how it shows a number. Any may follow any other.
FORMS: dict[str, tuple[Any, Any]] = {
    "int": (Types.INT(), int),
    "long": (Types.LONG(), int),
    "double": (Types.DOUBLE(), float),
    "text": (Types.STRING(), str),
    "tuple": (Types.TUPLE([Types.STRING(), Types.LONG()]), lambda number: ("n", number)),
}


class _Wall:
    """The wall clock of all."""

    now = highest = 1_000_000

    def read(self) -> int:
        """Milliseconds."""
        return self.now

    def go(self, ms: int) -> None:
        """Forwards or backwards."""
        self.now += ms
        self.highest = max(self.highest, self.now)


WALL = _Wall()


def number_of(value: Any) -> int:
    """The number that any of the forms shows."""
    return int(value[1] if isinstance(value, (tuple, list)) else value)


class Lived(KeyedProcessFunction):
    """Gives (key, number, time, what its states hold), then adds to each of them.

    Args:
        form: of its states.
        names: which of them it declares.
    """

    def __init__(self, form: str, names: tuple[str, ...]) -> None:
        self.form = form
        self.names = names

    def open(self, runtime_context: Any) -> None:
        kept, make = FORMS[self.form]

        def read(value: Any) -> Any:
            return make(number_of(value))

        made = {
            "value": ValueStateDescriptor("value", kept),
            "list": ListStateDescriptor("list", kept),
            "map": MapStateDescriptor("map", Types.LONG(), kept),
        }
        self.states = {name: state_of(runtime_context, made[name].set_migration(read)) for name in self.names}
        short = ValueStateDescriptor("short", Types.LONG())
        short.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL)).build())
        self.short = runtime_context.get_state(short)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, number = value
        now, make = WALL.now, FORMS[self.form][1]
        found: dict[str, Any] = {"short": self.short.value()}
        for name, state in self.states.items():
            found[name] = programs.held(state)
        yield key, number, now, found
        for state in self.states.values():
            added(state, number, make(number))
        if number % 3:
            self.short.update(number)


@dataclass
class Held:
    """What a job holds, in plain Python, and how many elements it has read."""

    read: int = 0
    value: dict[int, int] = field(default_factory=dict)
    list: dict[int, list[int]] = field(default_factory=dict)
    map: dict[int, dict[int, int]] = field(default_factory=dict)
    short: dict[int, tuple[int, int]] = field(default_factory=dict)  # key -> time, number

    def take(self, output: Any, form: str, names: tuple[str, ...]) -> None:
        """One element went through; raises AssertionError when it saw something else."""
        key, number, now, found = output
        assert number == self.read, f"element {number} came after {self.read - 1}"
        make = FORMS[form][1]
        since, short = self.short.get(key, (0, None))
        seen: dict[str, Any] = {"short": short if since + TTL > now else None}
        if found["short"] is None and since + TTL <= WALL.highest:  # it expired, then the clock was set back
            seen["short"] = None
        if "value" in names:
            seen["value"] = make(self.value[key]) if key in self.value else None
        if "list" in names:
            seen["list"] = [make(each) for each in self.list.get(key, [])]
        if "map" in names:
            seen["map"] = {k: make(each) for k, each in self.map.get(key, {}).items()}
        assert repr(sorted(found.items())) == repr(sorted(seen.items())), (key, number, now, found, seen)
        self.read += 1
        if "value" in names:
            self.value[key] = number
        if "list" in names:
            self.list.setdefault(key, []).append(number)
        if "map" in names:
            self.map.setdefault(key, {})[number % 3] = number
        if number % 3:
            self.short[key] = now, number

    def shown(self, now: int) -> dict[str, Any]:
        """As ``folded`` shows it."""
        return {
            "value": self.value,
            "list": {key: some for key, some in self.list.items() if some},
            "map": {key: some for key, some in self.map.items() if some},
            "short": {key: number for key, (since, number) in self.short.items() if since + TTL > now},
        }


def folded(table: str, checkpoint: int) -> dict[str, Any]:
    """The state that the log has at a checkpoint, in numbers."""
    found = state_at(table, checkpoint).states

    def of(name: str) -> Any:
        return found.get(("process", name), {})

    return {
        "value": {key: number_of(each) for key, each in of("value").items()},
        "list": {key: [number_of(each) for each in some] for key, some in of("list").items()},
        "map": {key: {k: number_of(each) for k, each in some.items()} for key, some in of("map").items()},
        "short": dict(of("short").items()),
    }


class _Job(RescaledJob):
    """With a wall clock that goes on after each commit, and upkeep beside it."""

    def __init__(self, life: Life, name: str, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.life = life
        self.name = name

    def on_commit(self, checkpoint: Checkpoint) -> None:
        """See TestJob."""
        WALL.go(self.life.tick)
        self.life.beside(self.name)


class Life:
    """All jobs below one folder, and what each held at each of its checkpoints.

    Attributes:
        held: job -> checkpoint -> state; its times are those of the wall clock at the barrier.
    """

    def __init__(self, base: str, draw: Any) -> None:
        self.base = base
        self.draw = draw
        self.held: dict[str, dict[int, Held]] = {}
        self.start: dict[str, str] = {"job": "auto"}  # of jobs that have not run yet: what they begin with
        self.opening: dict[str, Held] = {"job": Held()}
        self.forms: dict[str, dict[str, str]] = {}
        self.tick = 0
        self.upkeep: list[str] = []
        logging.getLogger("changelog_engine").setLevel(logging.ERROR)

    # What happens

    def step(self, what: str) -> None:
        """Do something to one of the jobs."""
        name = self.draw(st.sampled_from(sorted({*self.held, *self.start})), "job")
        if what == "clock":
            WALL.go(self.draw(st.sampled_from([5, 30, 86_400_000, -5, -30, -86_400_000]), "clock"))
        elif what == "run" or not self.rows(name):
            self.run(name)
        else:
            getattr(self, what)(name, self.pick(name))

    def run(self, name: str) -> None:
        """One driver, which is killed after some epochs."""
        begins, restore = self.point(name)
        form = self.draw(st.sampled_from(sorted(FORMS)), "form")
        names = tuple(self.draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1), "states"))
        drops = self.draw(st.sampled_from([False, False, True]), "drops")
        epochs = self.draw(st.integers(1, 4), "epochs")
        faults = st.builds(Failure, st.integers(1, 4), st.sampled_from(FAULTS), st.just(1), st.integers(0, 2))
        failures = self.draw(st.lists(faults, max_size=2), "failures")
        wanted = self.draw(st.dictionaries(st.integers(1, 4), st.integers(1, 4), max_size=1), "rescaled")
        self.tick = self.draw(st.sampled_from([0, 7, 25, -7]), "tick")
        self.upkeep = self.draw(
            st.lists(st.sampled_from(["materialize", "truncate", ""]), max_size=3), "beside"
        )
        script = Script(
            (self.draw(st.integers(1, 7), "records"),),
            (*self.draw(st.lists(st.booleans(), max_size=2), "barriers"), True),
            (*failures, Failure(epochs, Fault.HANDED_OUT)),
        )
        job = _Job(
            self, name, self.base, script, WALL.read, wanted=wanted,
            state_backend=self.draw(st.sampled_from(["hashmap", "hashmap", "rocksdb"]), "backend"),
        )  # fmt: skip
        graph = keyed_job(
            rounds(KEYS, 40 * KEYS), Lived(form, names), key_type=Types.LONG(), name=name, max_parallelism=16,
            parallelism=self.draw(st.integers(1, 4), "parallelism"),
        )  # fmt: skip
        with contextlib.suppress(DriverKilled):
            job.run_driver(graph, restore=restore, drop_removed_state=drops)
        job.answered()
        state = copy.deepcopy(begins)
        if drops:
            for other in {*NAMES} - {*names}:
                getattr(state, other).clear()
        if name in self.start and job.commits:
            self.held[name] = {each: begins for each in self.rows_of(name) if each < job.commits[0].id}
        outputs = iter(sorted(job.output, key=lambda output: output[1]))  # of several subtasks
        for row in job.commits:
            position = _position(row)
            while state.read < position:
                state.take(next(outputs), form, names)
            self.held.setdefault(name, {})[row.id] = copy.deepcopy(state)
        assert next(outputs, None) is None, "output that no checkpoint covers"
        if job.commits:
            self.start.pop(name, None)

    def point(self, name: str) -> tuple[Held, str]:
        """Where a run begins, and how it is told so."""
        if name in self.start:
            return self.opening[name], self.start[name]
        rows = self.rows(name)
        chosen = self.pick(name)
        newest = max(rows)
        ways = [str(chosen.id)]
        if chosen.id == newest:
            ways += ["latest", "-1"]
        if chosen.id == max(each.id for each in rows.values() if each.attempt == chosen.attempt):
            ways.append(f"attempt:{chosen.attempt}")
        if self.meant(rows, chosen.time_ms) == chosen.id:
            ways.append(iso(chosen.time_ms).replace(" ", "T"))
        return self.held[name][chosen.id], self.draw(st.sampled_from(ways), "restore")

    @staticmethod
    def meant(rows: dict[int, Checkpoint], time_ms: int) -> int | None:
        """The checkpoint that a time means: the newest at or before it, unless one that is not there may be."""
        ids = sorted(rows)
        for place in range(len(ids) - 1, -1, -1):
            if rows[ids[place]].time_ms <= time_ms:
                return ids[place] if place + 1 == len(ids) or ids[place + 1] == ids[place] + 1 else None
        return None

    def beside(self, name: str) -> None:
        """Upkeep while a driver runs, after its commit."""
        what = self.upkeep.pop() if self.upkeep else ""
        if what == "materialize":
            with self.killed():
                materialize(self.folder(name), piece_bytes=64)
        elif what == "truncate":
            self.truncate(name, None)

    def materialize(self, name: str, row: Checkpoint) -> None:
        """A snapshot of any checkpoint."""
        with self.killed():
            materialize(self.folder(name), row.id, piece_bytes=self.draw(st.sampled_from([64, 1 << 20])))

    def truncate(self, name: str, _: Checkpoint | None) -> None:
        """By the wall clock, or by one that is ahead."""
        retention = Retention(
            history_ms=self.draw(st.sampled_from([0, 10, 1 << 40]), "history"),
            retained=self.draw(st.integers(1, 3), "retained"),
            grace_ms=self.draw(st.sampled_from([0, 60_000]), "grace"),
        )
        ahead_ms = self.draw(st.sampled_from([0, 100_000]), "ahead")
        with self.killed(), merging_few():
            truncate(self.folder(name), retention, lambda: (WALL.now + ahead_ms) / 1000)

    def fork(self, name: str, row: Checkpoint) -> None:
        """A new job out of any checkpoint."""
        new = self.new("fork")
        with self.killed() as died:
            fork_job(self.folder(name), row, f"{self.base}/{new}")
        if not died:
            self.inherit(name, new)

    def correct(self, name: str, row: Checkpoint) -> None:
        """A fork with other values, and without some entries."""
        new = self.new("corrected")
        state = copy.deepcopy(self.held[name][row.id])
        chosen = {
            (each, key): self.draw(st.sampled_from([0, 77]), f"correct {each} of {key}")
            for each in ("value", "list", "map")
            for key in self.draw(st.lists(st.sampled_from(sorted(getattr(state, each)) or [0]), max_size=2, unique=True))
            if key in getattr(state, each)
        }  # fmt: skip

        def fix(entry: FixedEntry) -> Any:
            value = chosen.get((entry.state, entry.key))
            if value is None:
                return UNCHANGED
            if not value:
                return DELETE
            return _made_like([*entry.value, entry.value[0]] if entry.kind == "list" else entry.value, value)

        for (each, key), value in chosen.items():
            some = getattr(state, each)
            if not value:
                del some[key]
            elif each == "value":
                some[key] = value
            elif each == "list":
                some[key] = [value] * (len(some[key]) + 1)
            else:
                some[key] = dict.fromkeys(some[key], value)
        said = {"who": "ann", "why": "a test", "clock": lambda: WALL.now / 1000}
        try:
            with self.killed() as died:
                made = changelog_engine.repair(
                    f"{self.base}/{name}", row.id, fix, target=f"{self.base}/{new}", **said
                )
        except ConfigurationError:
            assert not any(key in getattr(self.held[name][row.id], each) for each, key in chosen)
            return
        if not died:
            self.inherit(name, new)
            assert made.checkpoint is not None
            self.held[new][made.checkpoint.id] = state

    def savepoint(self, name: str, row: Checkpoint) -> None:
        """A savepoint of any checkpoint, with which a new job begins."""
        new = self.new("restored")
        with self.killed() as died:
            made = create_savepoint(self.folder(name), row, f"{self.base}-savepoints")
        if not died:
            self.opening[new] = self.held[name][row.id]
            self.start[new] = made.path

    def bootstrap(self, name: str, row: Checkpoint) -> None:
        """A savepoint of tables that say what a job held at a checkpoint; the input begins anew."""
        new = self.new("made")
        state = copy.deepcopy(self.held[name][row.id])
        state.read, state.short = 0, {key: (WALL.now, number) for key, (_, number) in state.short.items()}
        kept, make = FORMS[self.draw(st.sampled_from(sorted(FORMS)), "form")]
        lists = [(key, make(each)) for key, some in state.list.items() for each in some]
        maps = [(key, k, make(each)) for key, some in state.map.items() for k, each in some.items()]
        tables = {
            "value": {"key": [*state.value], "value": [make(each) for each in state.value.values()]},
            "list": {"key": [key for key, _ in lists], "value": [each for _, each in lists]},
            "map": {
                "key": [key for key, _, _ in maps],
                "map_key": [k for _, k, _ in maps],
                "value": [each for *_, each in maps],
            },
            "short": {"key": [*state.short], "value": [number for _, number in state.short.values()]},
        }
        short = ValueStateDescriptor("short", Types.LONG())
        short.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL)).build())
        types = {
            "value": ValueStateDescriptor("value", kept),
            "list": ListStateDescriptor("list", kept),
            "map": MapStateDescriptor("map", Types.LONG(), kept),
            "short": short,
        }
        with self.killed() as died:
            made = changelog_engine.bootstrap(
                f"{self.base}-savepoints/{new}",
                {"process": tables},
                key_types={"process": Types.LONG()},
                types={"process": types},
                max_parallelism=16,
                clock=WALL.read,
            )
        if not died:
            self.opening[new], self.start[new] = state, made.path

    # What is there

    def new(self, kind: str) -> str:
        """A name for another job."""
        return f"{kind}-{len(self.held) + len(self.start)}-{len(list(Path(self.base).parent.rglob('*')))}"

    def inherit(self, name: str, new: str) -> None:
        """A job has the history of another one."""
        self.held[new] = {
            each: copy.deepcopy(self.held[name][each]) for each in self.rows(new) if each in self.held[name]
        }

    def pick(self, name: str) -> Checkpoint:
        """One of the checkpoints of a job."""
        rows = self.rows(name)
        return rows[self.draw(st.sampled_from(sorted(rows)), "checkpoint")]

    def folder(self, name: str) -> JobFolder:
        """A job's folder."""
        return find_job_folder(self.base, name)

    def rows(self, name: str) -> dict[int, Checkpoint]:
        """A job's checkpoints."""
        return {} if name in self.start else self.rows_of(name)

    def rows_of(self, name: str) -> dict[int, Checkpoint]:
        """Also of one that made none of its own yet."""
        lineage = Lineage(self.folder(name).open_changelog())
        return {each: lineage.checkpoint(each) for each in sorted(lineage.checkpoints)}

    def killed(self) -> AbstractContextManager[list[bool]]:
        """Die before one of the next changes of the disk, or not; gives a list that isn't empty then."""
        steps = self.draw(st.none() | st.none() | st.integers(0, 15), "killed after")
        return perhaps_killed(steps)

    def check(self) -> None:
        """Compare every checkpoint of every job with the model."""
        for name, held in self.held.items():
            rows = self.rows(name)
            for number, row in rows.items():
                if number in held:
                    found = folded(f"{self.base}/{name}/changelog", number)
                    shown = held[number].shown(row.wall_clock_ms)
                    expired = {
                        key for key, (since, _) in held[number].short.items() if since + TTL <= WALL.highest
                    }
                    there, short = found.pop("short"), shown.pop("short")
                    assert there.items() <= short.items(), f"{name}, checkpoint {number}"
                    assert short.keys() - there.keys() <= expired, f"{name}, checkpoint {number}"
                    assert found == shown, f"{name}, checkpoint {number}"
            if rows:
                self.check_times(name, rows)
            faults = verify(self.folder(name))
            assert faults.faults == [], name
            assert set(faults.restorable) == set(rows), name

    def check_times(self, name: str, rows: dict[int, Checkpoint]) -> None:
        """A time means the checkpoint that the model says, or is refused."""
        lineage = Lineage(self.folder(name).open_changelog())
        for time_ms in {row.time_ms + more for row in rows.values() for more in (-1, 0, 1)}:
            meant = self.meant(rows, time_ms)
            try:
                found = checkpoint_at(lineage, iso(time_ms).replace(" ", "T")).id
            except RestoreError:
                assert meant is None, (name, time_ms)
            else:
                assert found == meant, (name, time_ms)


def _position(row: Checkpoint) -> int:
    ((position, _),) = row.sources["source"].values()
    return int(position)


def _made_like(value: Any, number: int) -> Any:
    """A number in the form of a value."""
    if isinstance(value, list):
        return [_made_like(each, number) for each in value]
    if isinstance(value, tuple):
        return (value[0], number)
    return type(value)(number)
