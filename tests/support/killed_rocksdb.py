"""A job whose entries wait in RocksDB's cache, killed with SIGKILL in user code or round a write of the database.

Each driver has another parallelism than the one before. They are forked from a process that has imported everything and run
nothing; so are the undisturbed run on the heap and a fork of the job, which are compared with it.

    python -m support.killed_rocksdb FOLDER KILLS SEED
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api.common.time import Time
from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.graph.nodes import JobGraph, NodeKind
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.state.rocksdb_store import RocksStore
from materializer.fold import state_at
from support.forked import forked, import_the_rest
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.killed_drivers import Numbers
from support.script import Script

sys.path.append(str(Path(__file__).parents[2] / "docs" / "examples" / "connectors"))
from folder_sink import FolderSink

COUNT, KEYS = 1_500, 211
CACHE = (
    "40kb"  # some of the entries of a fixed size wait, others were written to make room, and few are cached
)
STATES = ("count", "mean", "text", "list", "map", "sum")


class _Trap:
    """Kills this process at one of the moments that it is told of."""

    def __init__(self) -> None:
        self.elements = self.writes = -1

    def element(self) -> None:
        """User code is at work."""
        self.elements = self._sprung(self.elements)

    def write(self) -> None:
        """The database is about to be written, or just was."""
        self.writes = self._sprung(self.writes)

    @staticmethod
    def _sprung(left: int) -> int:
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return left - 1


TRAP = _Trap()


class Many(KeyedProcessFunction):
    """Every kind of state, with values of a fixed size and others; tells what it finds before it changes it."""

    def open(self, runtime_context: Any) -> None:
        long = Types.LONG()
        lasting = ValueStateDescriptor("lasting", long)
        lasting.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
        self.lasting = runtime_context.get_state(lasting)
        self.count = runtime_context.get_state(ValueStateDescriptor("count", long))
        self.mean = runtime_context.get_state(ValueStateDescriptor("mean", Types.DOUBLE()))
        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", long))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", long, long))
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda one, other: one + other, long)
        )

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[str]:
        TRAP.element()
        key, number = value
        found = [
            self.lasting.value(),
            self.count.value(),
            self.mean.value(),
            self.text.value(),
            self.sum.get(),
        ]
        yield f"{number} {found} {self.list.get()} {sorted(self.map.items())}"
        self.lasting.update(number)
        self.count.update((self.count.value() or 0) + 1)
        self.mean.update(((self.mean.value() or 0.0) + number) / 2)
        self.sum.add(number)
        self.list.add(number)
        self.map.put(number % 7, number)
        if number % 3:
            self.text.update(f"{number} " * (number % 40))
        else:
            self.text.clear()
        if number % 5 == 0:
            self.count.clear()
            self.list.update([number, key])
        ctx.timer_service().register_event_time_timer(number + 300)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"timer {timestamp} {ctx.get_current_key()} {self.count.value()} {self.sum.get()}"
        self.map.remove(timestamp % 7)
        self.mean.clear()


class Pair:
    """A number with its key."""

    def map(self, value: int) -> tuple[int, int]:
        """See MapFunction."""
        return value * 7 % KEYS, value


def graph(folder: Path, parallelism: int, out: str) -> JobGraph:
    """The job."""
    build = GraphBuilder(parallelism=parallelism, max_parallelism=16)
    numbers = build.source(Numbers(folder / "end"), uid="numbers")
    pairs = build.add(NodeKind.MAP, "pair", numbers, function=Pair())
    timed = build.timestamps(pairs, lambda pair: pair[1])
    keyed = build.key_by(timed, lambda pair: pair[0], Types.LONG())
    many = build.process(keyed, Many(), uid="many")
    build.add(NodeKind.SINK, "sink", many, function=FolderSink(str(folder / out)), uid="sink")
    return build.graph()


def job(folder: Path, log: str, rocksdb: bool) -> TestJob:
    """A driver's job; one epoch in three ends without a checkpoint."""
    settings: dict[str, Any] = {}
    if rocksdb:
        options = {
            "state.backend.rocksdb.localdir": str(folder / "local"),
            "changelog.rocksdb.cache-size": CACHE,
        }
        settings = {"state_backend": "rocksdb", "state_options": options}
    return TestJob(folder / log, Script((40,), (True, False, True)), **settings)


def arm(chance: random.Random) -> None:
    """Let this process die somewhere."""
    if chance.random() < 0.5:
        TRAP.elements = chance.randint(0, 500)
        return
    TRAP.writes = chance.randint(0, 60)
    write = RocksStore.write

    def watched(store: RocksStore, batch: Any) -> None:
        TRAP.write()
        write(store, batch)
        TRAP.write()

    RocksStore.write = watched  # type: ignore[method-assign]


def kill(folder: Path, kills: int, seed: int) -> None:
    """Kill drivers, let one finish, and compare.

    Raises:
        SystemExit: something is not as undisturbed; says what.
    """
    import_the_rest()
    chance = random.Random(seed)
    (folder / "end").write_text(str(COUNT))
    died = 0
    for _ in range(kills):
        parallelism = chance.randint(1, 3)

        def drive(parallelism: int = parallelism) -> None:
            arm(chance)
            job(folder, "log", True).run_driver(graph(folder, parallelism, "out"), restore="latest")

        status = forked(drive)
        chance.random()
        died += status == -signal.SIGKILL
        if status not in (0, -signal.SIGKILL):
            raise SystemExit(f"seed {seed}: a driver ended with {status}")

    def fork() -> None:
        parent = find_job_folder(str(folder / "log"), "job")
        newest = Lineage(parent.open_changelog()).newest_point()
        if newest is not None:
            fork_job(parent, newest, str(folder / "forked" / "job"))

    def last(log: str, rocksdb: bool, out: str, parallelism: int) -> None:
        job(folder, log, rocksdb).run_driver(graph(folder, parallelism, out), restore="latest")

    runs = [
        fork,
        lambda: last("log", True, "out", 2),
        lambda: last("plain", False, "plain-out", 1),
        lambda: last("forked", True, "forked-out", 3),
        lambda: compare(folder, seed),
    ]
    for run in runs:
        if forked(run):
            raise SystemExit(f"seed {seed}: not as undisturbed after {died} kills")
    print(f"{died} of {kills} died")


def compare(folder: Path, seed: int) -> None:
    """What the killed job, its fork and the undisturbed one gave and left."""
    lines = [
        sorted(
            line for file in (folder / out).iterdir() if not file.name.startswith(".") for line in file.open()
        )
        for out in ("out", "plain-out")
    ]
    assert lines[0] == lines[1], f"seed {seed}: other output"
    assert len(lines[1]) > 2 * COUNT - 300
    found = {}
    for log in ("plain", "log", "forked"):
        at = find_job_folder(str(folder / log), "job")
        newest = Lineage(at.open_changelog()).newest_point()
        assert newest is not None, log
        assert newest.finished, log
        states = state_at(at.changelog.root, newest.id).states
        found[log] = {name: states["many", name] for name in STATES}
    assert found["log"] == found["plain"], f"seed {seed}: other state"
    assert found["forked"] == found["plain"], f"seed {seed}: other state of the fork"
    left = [path for path in (folder / "local").rglob("*") if path.is_file()]
    assert not left, f"seed {seed}: killed drivers' databases are still there: {left[:3]}"


if __name__ == "__main__":
    kill(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
