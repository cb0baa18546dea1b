"""Random lives of jobs below one folder, and a model that keeps what was held at each of their checkpoints."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

from deltalake import DeltaTable
from hypothesis import strategies as st

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.errors import StorageError
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.verification.verify import verify
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import LiveStates, logged_state
from support.materialized import perhaps_killed
from support.model import pictured
from support.operations import Operations
from support.profiles import PROFILES
from support.script import DriverKilled, Failure, Fault, Script

FAULTS = (Fault.WORKER, Fault.SUBTASK, Fault.GONE, Fault.PARTS, Fault.COMMIT_LIES, Fault.COMMITTED)


class World:
    """All jobs below one folder, and what was held at each of their checkpoints."""

    def __init__(self, base: str, profile: str, elements: list[Any], draw: Any, checks: bool = True) -> None:
        self.checks = checks
        self.base = base
        self.profile = profile
        self.elements = elements
        self.draw = draw
        self.held: dict[str, dict[tuple[int, int], Any]] = {
            "job": {}
        }  # job -> (attempt, checkpoint) -> state
        self.time_ms = 0

    def step(self, what: str) -> None:
        """Do something to one of the jobs, then look at all of them."""
        name = self.draw(st.sampled_from(sorted(self.held)), "job")
        there = [] if not self.held[name] else self.checkpoints(name)
        if what == "run" or not there:
            self.run(name, "latest")
        elif what == "rewind":
            self.run(name, str(self.pick(there).id))
        else:
            getattr(self, what)(name, self.pick(there))
        if self.checks:
            self.check()

    def pick(self, there: list[Checkpoint]) -> Checkpoint:
        """One of the checkpoints."""
        identity = self.draw(st.sampled_from([row.id for row in there]), "checkpoint")
        return next(row for row in there if row.id == identity)

    def run(self, name: str, restore: str) -> None:
        """One driver, which is killed after some epochs unless the input ends before."""
        epochs = self.draw(st.integers(1, 5), "epochs")
        drawn = st.builds(Failure, st.integers(1, 5), st.sampled_from(FAULTS), st.just(1), st.integers(0, 2))
        failures = self.draw(st.lists(drawn, max_size=2), "failures")
        script = Script(
            (self.draw(st.integers(1, 6), "records"),),
            tuple(self.draw(st.lists(st.booleans(), min_size=1, max_size=3), "barriers")),
            (*failures, Failure(epochs, Fault.HANDED_OUT)),
        )
        job = TestJob(self.base, script)
        graph = keyed_job(
            self.elements,
            Operations(self.profile),
            key_type=PROFILES[self.profile].key_type,
            parallelism=self.draw(st.integers(1, 3), "parallelism"),
            max_parallelism=16,
            timestamp=lambda element: element[1],
            lag_ms=10,
            name=name,
        )
        live = LiveStates()
        with live.watched(), contextlib.suppress(DriverKilled):
            job.run_driver(graph, restore=restore)
        for attempt, checkpoint in live.at:
            self.held[name][attempt, checkpoint] = pictured(live.of(attempt, checkpoint))

    def materialize(self, name: str, checkpoint: Checkpoint) -> None:
        """A snapshot of any checkpoint."""
        with self.killed():
            materialize(
                self.folder(name), checkpoint.id, piece_bytes=self.draw(st.sampled_from([64, 1 << 20]))
            )

    def truncate(self, name: str, checkpoint: Checkpoint) -> None:
        """A truncation after a random time, which may have passed for the history or not."""
        retention = Retention(
            history_ms=self.draw(st.sampled_from([0, 1_000, 3_600_000])),
            retained=self.draw(st.integers(1, 3)),
            grace_ms=self.draw(st.sampled_from([0, 60_000])),
        )
        ahead_ms = self.draw(st.sampled_from([0, 2_000, 100_000]))
        with self.killed():
            truncate(self.folder(name), retention, lambda: (checkpoint.time_ms + ahead_ms) / 1000)

    def optimize(self, name: str, checkpoint: Checkpoint) -> None:
        """Somebody puts the rows of the changelog into other files."""
        DeltaTable(self.folder(name).changelog.root).optimize.compact()

    def fork(self, name: str, checkpoint: Checkpoint) -> None:
        """A new job out of any checkpoint."""
        new = f"fork-{len(self.held)}"
        with self.killed() as died:
            fork_job(self.folder(name), checkpoint, f"{self.base}/{new}")
        if not died:
            ancestors = {(row.attempt, row.id) for row in self.checkpoints(new)}
            assert (checkpoint.attempt, checkpoint.id) in ancestors
            self.held[new] = {key: self.held[name][key] for key in ancestors}

    def savepoint(self, name: str, checkpoint: Checkpoint) -> None:
        """A savepoint of any checkpoint, and a new job that starts from it."""
        with self.killed() as died:
            made = create_savepoint(self.folder(name), checkpoint, f"{self.base}-savepoints")
        if not died:
            new = f"restored-{len(self.held)}"
            self.held[new] = {}
            state = self.held[name][checkpoint.attempt, checkpoint.id]
            self.run(new, made.path)
            imported = min(self.checkpoints(new), key=lambda row: row.id)
            self.held[new][imported.attempt, imported.id] = state

    def killed(self) -> AbstractContextManager[list[bool]]:
        """Die after some changes of the disk, or not; gives a list that isn't empty then."""
        steps = self.draw(st.none() | st.integers(0, 15), "killed after")
        return perhaps_killed(steps)

    def folder(self, name: str) -> JobFolder:
        return find_job_folder(self.base, name)

    def checkpoints(self, name: str) -> list[Checkpoint]:
        try:
            lineage = Lineage(self.folder(name).open_changelog())
        except StorageError:
            return []
        return [lineage.checkpoint(identity) for identity in sorted(lineage.checkpoints)]

    def check(self) -> None:
        """Look at everything."""
        for name, held in self.held.items():
            rows = self.checkpoints(name) if held else []
            for row in rows:
                found = pictured(logged_state(self.base, name, row.id))
                assert found == held[row.attempt, row.id], f"{name}, checkpoint {row.id}"
            if rows:
                found = verify(self.folder(name))
                assert found.faults == [], name
                assert set(found.restorable) == {row.id for row in rows}, name
