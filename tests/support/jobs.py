"""Jobs in this process, on real files, with every driver, worker and commit that can fail doing so on demand.

``TestJob`` stands for one job over all its drivers: it keeps what the outside world has seen (the collected output), and
the sizes of the epochs whose effects were committed, which is all that a model needs to know of the run.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from changelog_engine.changelog.model import Checkpoint, Part
from changelog_engine.clock import Clock, MonotonicMs, SystemClock, WallMs
from changelog_engine.driver import pace as pace_module
from changelog_engine.driver.coordinator import Coordinator
from changelog_engine.driver.job import Job
from changelog_engine.driver.journal import JobJournal
from changelog_engine.driver.protocols import Following, JobOutcome, Orders
from changelog_engine.driver.starting import prepare_start
from changelog_engine.errors import EpochFailedError, FencedError, JobExecutionError, StorageError
from changelog_engine.graph.nodes import JobGraph, JobSettings, RestartKind, RestartSettings
from changelog_engine.graph.plan import plan_job
from changelog_engine.in_process.runner import InProcessRunner
from changelog_engine.operators.messages import EpochReport
from changelog_engine.spark.shipping import ShippedJob, ship
from changelog_engine.storage import delta_log
from changelog_engine.storage.new_table import first_commit
from support.epochs import EpochStats, ObservedEpochs
from support.script import (
    KILLS_DRIVER,
    DriverKilled,
    Fault,
    Progress,
    Script,
    ScriptedBarriers,
    ScriptedSizer,
)

NO_DELAY = RestartSettings(RestartKind.FIXED_DELAY, attempts=50, delay_ms=0)
NO_RESTART = RestartSettings(RestartKind.NONE)
_NO_END_MS = 86_400_000


def _first_commit(schema: pa.Schema, properties: Mapping[str, str]) -> bytes:
    """The engine's first commit of a table, with an id of its own; delta-rs makes one of each kind in a process.

    It takes 2 ms, as long as two checkpoints of a small job, and there are thousands of jobs.
    """
    made = _made_by_delta_rs(schema.serialize().to_pybytes(), tuple(properties.items()))
    (identity,) = re.findall(rb'^{"metaData":{"id":"([0-9a-f-]{36})"', made, re.MULTILINE)
    return made.replace(identity, str(uuid.uuid4()).encode())


@functools.cache
def _made_by_delta_rs(schema: bytes, properties: tuple[tuple[str, str], ...]) -> bytes:
    return first_commit(pa.ipc.read_schema(pa.py_buffer(schema)), dict(properties))


class TestJob:
    """One job, run by one driver after the other until its input ends.

    Args:
        base: folder under which the job's folder lies.
        script: how it goes; None leaves epochs, barriers and failures to the engine.
        tells: sinks are told between epochs what is durable; without, in the next epoch.
        settings: restart strategy, changelog on or off, and so on.
        clock: of driver and workers, or the ms that both of its clocks show; None for the real one.
    """

    __test__ = False

    def __init__(
        self,
        base: Path | str,
        script: Script | None = None,
        clock: Clock | Callable[[], int] | None = None,
        tells: bool = True,
        **settings: Any,
    ) -> None:
        given = {"checkpoint_interval_ms": 1000, "changelog": True, "restart": NO_DELAY, **settings}
        self.settings = JobSettings(base_path=str(base), **given)
        self.progress = Progress(script) if script is not None else None
        self.clock = OneClock(clock) if callable(clock) else clock
        self.outputs: dict[int, list[Any]] = {}
        self.lines: list[str] = []
        self.stats: list[EpochStats] = []
        self.reports: list[list[EpochReport]] = []
        self.committed_epochs: list[int] = []
        self.uncommitted_epochs: list[int] = []
        self.commits: list[Checkpoint] = []
        self.epochs_at: dict[int, int] = {}
        self.drivers = 0
        self.tells = tells

    @property
    def output(self) -> list[Any]:
        """Output of all collect sinks, as the outside world saw it."""
        return [element for elements in self.outputs.values() for element in elements]

    def table(self, name: str = "job") -> str:
        """The changelog table's folder."""
        return f"{self.settings.base_path}/{name}/changelog"

    def run(self, graph: JobGraph | Callable[[int], JobGraph], **settings: Any) -> None:
        """Run drivers until the job ends, a new one whenever one is killed or fenced (by its own commit that lied).

        Args:
            graph: the job, or driver number (from 0) -> the job, to change it between drivers.
            settings: of every driver; a callable is asked with the driver's number.
        """
        while True:
            number = self.drivers
            changed = {name: value(number) if callable(value) else value for name, value in settings.items()}
            try:
                self.run_driver(graph(number) if callable(graph) else graph, **changed)
                return
            except (DriverKilled, JobExecutionError) as failure:
                if not isinstance(failure, DriverKilled) and not isinstance(failure.__cause__, FencedError):
                    raise
                if self.commits and self.commits[-1].finished:
                    return

    def run_driver(self, graph: JobGraph, **changed: Any) -> JobOutcome:
        """Run one driver.

        Args:
            graph: the job.
            changed: settings of this driver that differ from the job's.

        Raises:
            DriverKilled: as the script said.
            JobExecutionError: the job failed.
        """
        settings = replace(self.settings, **changed)
        self.drivers += 1
        run, plan = uuid.uuid4().hex, plan_job(graph)
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(delta_log, "first_commit", _first_commit))
            journal: Any = None
            folder = None
            plan, opened, start = prepare_start(plan, settings)
            if opened is not None:
                stack.callback(opened.close)
                journal, folder = _Journal(opened, self), opened.parts_folder
            runner = _Runner(ship(run, plan, settings, folder), self)
            stack.callback(runner.runtimes.clear)
            stack.enter_context(self._scripted())
            clock = SystemClock() if self.clock is None else self.clock
            self.monitor = ObservedEpochs(self._observe)
            self.coordinator = Coordinator(
                Job(run, plan, settings, runner, journal, self, clock, self.monitor)
            )
            return self.coordinator.run(start)

    @contextlib.contextmanager
    def _scripted(self) -> Iterator[None]:
        if self.progress is None:
            yield
            return
        progress = self.progress
        with (
            mock.patch.object(pace_module, "EpochSizer", partial(ScriptedSizer, progress)),
            mock.patch.object(pace_module, "BarrierClock", partial(ScriptedBarriers, progress)),
            mock.patch.object(pace_module, "_IDLE_MS", (1, 2)),
            # However slow the machine is: random tests choose by how many epochs and checkpoints there were.
            mock.patch.object(pace_module, "_LEAST_TARGET_MS", _NO_END_MS),
            mock.patch.object(pace_module, "_SOURCE_BUDGET_MS", _NO_END_MS),
        ):
            yield

    def printed(self, lines: list[str]) -> None:
        """See Outputs."""
        self.lines.extend(lines)

    def collected(self, node: int, elements: list[Any]) -> None:
        """See Outputs."""
        self.outputs.setdefault(node, []).extend(elements)

    def on_commit(self, checkpoint: Checkpoint) -> None:
        """Called after each commit; tests override it."""

    def _observe(self, stats: EpochStats) -> None:
        self.stats.append(stats)
        self.strike(Fault.HANDED_OUT)

    def strike(self, *faults: Fault, stage: int | None = None, subtask: int | None = None) -> Fault | None:
        """The failure that the script has here; one that kills the driver does so."""
        fault = None if self.progress is None else self.progress.strikes(set(faults), stage, subtask)
        if fault in KILLS_DRIVER:
            raise DriverKilled(fault)
        return fault


class StoppedJob(TestJob):
    """A job without an end, which is stopped when it has given enough elements, or at a deadline.

    Args:
        base: see TestJob.
        count: how many elements are enough.
        script: see TestJob.
        steps: what happens on the way: when it has given this many elements, that is called.
        settings: see TestJob.
    """

    def __init__(
        self,
        base: Path,
        count: int,
        script: Script | None = None,
        steps: Iterable[tuple[int, Callable[[], object]]] = (),
        **settings: Any,
    ) -> None:
        super().__init__(base, script or Script((7,), (True, False)), **settings)
        self.count = count
        self.steps = list(steps)
        self.deadline = time.monotonic() + 90

    def _observe(self, stats: EpochStats) -> None:
        if time.monotonic() > self.deadline:
            self.coordinator.control.stop()
        super()._observe(stats)

    def collected(self, node: int, elements: list[Any]) -> None:
        """See Outputs."""
        super().collected(node, elements)
        while self.steps and len(self.output) >= self.steps[0][0]:
            self.steps.pop(0)[1]()
        if len(self.output) >= self.count:
            self.coordinator.control.stop()


class OneClock:
    """Both clocks show the same."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> WallMs:
        """See Clock."""
        return WallMs(self.now_ms())

    def monotonic_ms(self) -> MonotonicMs:
        """See Clock."""
        return MonotonicMs(self.now_ms())


class _Runner(InProcessRunner):
    """Loses workers as the script says, and keeps the reports."""

    def __init__(self, job: ShippedJob, outside: TestJob) -> None:
        if outside.clock is None:
            super().__init__(job, crash=self._crash)
        else:
            super().__init__(job, outside.clock.wall_ms, self._crash)
        self.outside = outside
        self.tells = outside.tells

    def run(self, orders: Orders, timeout_s: float, following: Following | None = None) -> list[EpochReport]:
        if self.outside.progress is not None:
            self.outside.progress.epoch += 1
        reports = super().run(orders, timeout_s, following)
        self.outside.reports.append(reports)
        self.outside.uncommitted_epochs.append(sum(r.records_in for r in reports if r.sources))
        if self.outside.strike(Fault.GONE):
            self.runtimes.clear()
        self.outside.strike(Fault.PARTS)
        return reports

    def _crash(self, epoch: int, stage: int, subtask: int) -> bool:
        fault = self.outside.strike(Fault.WORKER, Fault.SUBTASK, Fault.DRIVER, stage=stage, subtask=subtask)
        if fault is Fault.SUBTASK:
            self.runtimes.held.pop((stage, subtask), None)
            raise EpochFailedError(f"worker of stage {stage}, subtask {subtask} was lost")
        return fault is Fault.WORKER


class _Journal:
    """A JobJournal whose commits fail as the script says."""

    def __init__(self, inner: JobJournal, outside: TestJob) -> None:
        self.inner = inner
        self.outside = outside

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def begin_attempt(self, parent: Checkpoint | None) -> int:
        attempt = self.inner.begin_attempt(parent)
        self.outside.uncommitted_epochs.clear()
        return attempt

    def commit(self, checkpoint: Checkpoint, parts: list[Part]) -> None:
        if self.outside.strike(Fault.COMMIT_FAILS):
            raise StorageError("the commit failed")
        self.inner.commit(checkpoint, parts)
        self.outside.commits.append(checkpoint)
        self.outside.committed_epochs.extend(self.outside.uncommitted_epochs)
        self.outside.uncommitted_epochs.clear()
        self.outside.on_commit(checkpoint)
        self.outside.epochs_at[checkpoint.id] = len(self.outside.committed_epochs)
        self.outside.strike(Fault.COMMITTED)
        if self.outside.strike(Fault.COMMIT_LIES):
            raise StorageError("the answer to the commit was lost")
