"""Reliability: cases 9 and 10. One driver at a time, and what dead ones left is never read."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest
from support.functions import Count, by_key, counted, rounds
from support.graphs import GraphBuilder, keyed_job
from support.jobs import NO_RESTART, TestJob
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import MapFunction
from changelog_engine.changelog.log_files import parse_part
from changelog_engine.changelog.model import Part
from changelog_engine.changelog.part_selection import part_files
from changelog_engine.changelog.part_writer import PartWriter
from changelog_engine.connectors import (
    CommittingSink,
    CommittingWriter,
    Prepared,
    Sink,
    SinkContext,
    SinkWriter,
)
from changelog_engine.driver.journal import JobJournal
from changelog_engine.errors import FencedError, JobExecutionError
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.ledger import committer
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.ownership import DriverLock
from changelog_engine.operators import standing_still
from changelog_engine.operators.stage import StageRuntime
from changelog_engine.spark.runtimes import Runtimes
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.protocol import Storage
from materializer.fold import state_at

ELEMENTS = rounds(3, 30)
COUNTS = {0: 10, 1: 10, 2: 10}
EXPECTED = by_key(counted(ELEMENTS))


def graph() -> Any:
    return keyed_job(ELEMENTS, Count(), key_type=Types.LONG())


def final_counts(job: TestJob) -> dict[Any, Any]:
    return state_at(job.table()).states["process", "count"]


def committed_parts(job: TestJob) -> list[Any]:
    return part_files(find_job_folder(job.settings.base_path, "job").open_changelog().files())


def test_case_9_parts_of_a_dead_attempt_are_ignored(tmp_path: Path) -> None:
    """A part that was durable before the crash, and one that arrives after it, are never read."""
    late: list[Any] = []
    inner = PartWriter.finish

    def finish(writer: PartWriter) -> Any:
        part = inner(writer)
        late.append((writer, part))
        return part

    job = TestJob(tmp_path, Script(sizes=(4,), failures=(Failure(3, Fault.PARTS),)))
    with mock.patch.object(PartWriter, "finish", finish):
        with pytest.raises(DriverKilled):
            job.run_driver(graph())
        dead = {part.path for _, part in late}
        job.run_driver(graph(), epoch_max_records=None)
    orphans = dead - {part.path for part in committed_parts(job)}
    assert orphans, "the crash left no part behind"
    folder = find_job_folder(str(tmp_path), "job").changelog
    for writer, part in late:
        if part.path in orphans:
            assert folder.size(part.path)
            writer.finish()  # the zombie writes once more, after the job has ended
    assert by_key(job.output) == EXPECTED
    assert final_counts(job) == COUNTS
    named = [parse_part(part.path) for part in committed_parts(job)]
    lineage = job.commits[-1].lineage
    assert {name.attempt for name in named if name} == {segment.attempt for segment in lineage}


class Zombie(TestJob):
    """A driver that another one takes the job over from, on a machine where the file lock does not reach."""

    def __init__(self, base: Path, script: Script, at_checkpoint: int, rival: Any) -> None:
        super().__init__(base, script)
        self.at_checkpoint = at_checkpoint
        self.rival = rival

    def on_commit(self, checkpoint: Any) -> None:
        if checkpoint.id == self.at_checkpoint:
            self.rival()


@contextlib.contextmanager
def no_locks() -> Iterator[None]:
    with mock.patch.object(DriverLock, "acquire"):
        yield


def test_case_9_a_zombies_commit_is_refused(tmp_path: Path) -> None:
    rival = TestJob(tmp_path, Script(sizes=(7,)))
    zombie = Zombie(tmp_path, Script(sizes=(4,)), 2, lambda: rival.run_driver(graph()))
    with no_locks(), pytest.raises(JobExecutionError, match="took the job") as raised:
        zombie.run_driver(graph())
    assert isinstance(raised.value.__cause__, FencedError)
    # The outside world: what the zombie handed out before its end, then the rival's, is everything once. The zombie's
    # newest checkpoint was committed, so its output is the zombie's to hand out.
    assert by_key(zombie.output + rival.output) == EXPECTED
    assert final_counts(rival) == COUNTS


@pytest.mark.parametrize("fault", [Fault.WORKER, Fault.COMMIT_FAILS])
def test_case_9_a_zombie_that_restarts_does_not_take_the_job_back(tmp_path: Path, fault: Fault) -> None:
    """Its workers fail before it learns that it was replaced: the restart must find out, not begin a new attempt."""
    rival = TestJob(tmp_path, Script(sizes=(7,), failures=(Failure(3, Fault.HANDED_OUT),)))

    def take_over() -> None:
        with pytest.raises(DriverKilled):
            rival.run_driver(graph())

    zombie = Zombie(tmp_path, Script(sizes=(4,), failures=(Failure(3, fault),)), 2, take_over)
    with no_locks(), pytest.raises(JobExecutionError) as raised:
        zombie.run_driver(graph())
    assert isinstance(raised.value.__cause__, FencedError)
    rival.run(graph())
    assert by_key(zombie.output + rival.output) == EXPECTED
    assert final_counts(rival) == COUNTS


def test_case_9_a_zombie_whose_parts_were_swept_is_told_who_took_the_job(tmp_path: Path) -> None:
    """Its commit finds first that parts are missing: to the driver that took the job over they were a dead driver's."""
    rival = TestJob(tmp_path, Script(sizes=(7,)))
    zombie = TestJob(tmp_path, Script(sizes=(4,)))
    verify_parts = committer.verify_parts
    begun: list[TestJob] = []

    def replaced_before(storage: Storage, parts: Sequence[Part]) -> list[AddFile]:
        if len(zombie.commits) == 2 and not begun:
            begun.append(rival)
            rival.run_driver(graph())
            for part in parts:
                storage.delete(part.path)
        return verify_parts(storage, parts)

    with (
        no_locks(),
        mock.patch.object(committer, "verify_parts", replaced_before),
        pytest.raises(JobExecutionError, match="took the job") as raised,
    ):
        zombie.run_driver(graph())
    assert isinstance(raised.value.__cause__, FencedError)
    assert "is missing" in str(raised.value.__cause__.__cause__)
    assert by_key(zombie.output + rival.output) == EXPECTED


def test_case_9_a_driver_that_starts_slowly_does_not_take_the_job_back(tmp_path: Path) -> None:
    """Between the decision where to start and the first attempt, another driver ran: the decision is out of date."""
    first = TestJob(tmp_path, Script(sizes=(4,), failures=(Failure(3, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        first.run_driver(graph())
    with no_locks():
        slow = JobJournal.open(str(tmp_path), "job")
        start = slow.start_point("auto")
        assert start is not None
        other = TestJob(tmp_path, Script(sizes=(4,), failures=(Failure(2, Fault.HANDED_OUT),)))
        with pytest.raises(DriverKilled):
            other.run_driver(graph())
        with pytest.raises(FencedError):
            slow.begin_attempt(start)
        slow.close()
    other.run(graph())
    assert by_key(first.output + other.output) == EXPECTED


class Upserts(Sink, SinkWriter):
    """The newest value of each key."""

    table: ClassVar[dict[int, int]] = {}

    def writer(self, subtask: int, parallelism: int) -> Upserts:
        return self

    def write(self, values: Sequence[Any]) -> None:
        self.table.update({value % 5: value for value in values})

    def flush(self) -> None:
        pass


class Stands(MapFunction):
    """Stands still at an element, while something else happens."""

    meanwhile: Callable[[], None] | None = None

    def map(self, value: int) -> int:
        if value == 13 and Stands.meanwhile is not None:
            happens, Stands.meanwhile = Stands.meanwhile, None
            happens()
        return value


def upserts() -> Any:
    build = GraphBuilder()
    mapped = build.add(NodeKind.MAP, "stands", build.source(range(100)), function=Stands())
    build.add(NodeKind.SINK, "table", mapped, function=Upserts())
    return build.graph()


def test_case_9_what_stood_still_does_not_write_over_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upsert that comes late puts old values back; the checkpoint that would be refused is later."""
    now_s = [0.0]
    monkeypatch.setattr(standing_still, "monotonic_s", lambda: now_s[0])

    def take_over() -> None:
        job().run_driver(upserts())
        now_s[0] += 60

    def job() -> TestJob:
        return TestJob(tmp_path, Script(sizes=(10,), barriers=(False, True)), restart=NO_RESTART)

    with mock.patch.object(DriverLock, "acquire"):
        Stands.meanwhile = take_over
        with pytest.raises(JobExecutionError) as raised:
            job().run_driver(upserts())
    assert isinstance(raised.value.__cause__, FencedError)
    assert "stood still for 60 s" in str(raised.value)
    assert Upserts.table == {number % 5: number for number in range(95, 100)}


class Shown(CommittingSink, CommittingWriter):
    """Fences the writers that are there, as Kafka's does, when its own writer is opened."""

    opened: ClassVar[list[int]] = []

    def committing_writer(self, context: SinkContext) -> Shown:
        self.opened.append(context.attempt)
        return self

    def write(self, values: Sequence[Any]) -> None:
        pass

    def prepare(self, final: bool) -> Prepared:
        return Prepared()

    def commit(self, committables: Sequence[Any]) -> None:
        pass


class StandsInOpen(MapFunction):
    """Stands still when it is opened, which comes before a sink's writer is."""

    meanwhile: Callable[[], None] | None = None

    def open(self, runtime_context: Any) -> None:
        if StandsInOpen.meanwhile is not None:
            happens, StandsInOpen.meanwhile = StandsInOpen.meanwhile, None
            happens()

    def map(self, value: int) -> int:
        return value


def test_case_9_what_stood_still_opens_no_sink_after_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that is opened late would abort what its successor has prepared."""
    now_s = [0.0]
    monkeypatch.setattr(standing_still, "monotonic_s", lambda: now_s[0])

    def graph() -> Any:
        build = GraphBuilder()
        mapped = build.add(NodeKind.MAP, "stands", build.source(range(100)), function=StandsInOpen())
        build.add(NodeKind.SINK, "shown", mapped, function=Shown(), uid="shown")
        return build.graph()

    def take_over() -> None:
        TestJob(tmp_path, Script(sizes=(10,)), restart=NO_RESTART).run_driver(graph())
        now_s[0] += 60

    Shown.opened.clear()
    with mock.patch.object(DriverLock, "acquire"):
        StandsInOpen.meanwhile = take_over
        with pytest.raises(JobExecutionError) as raised:
            TestJob(tmp_path, Script(sizes=(10,)), restart=NO_RESTART).run_driver(graph())
    assert isinstance(raised.value.__cause__, FencedError)
    assert len(set(Shown.opened)) == 1, "the first driver opened it, too"


def test_case_10_another_driver_on_this_machine_is_refused(tmp_path: Path) -> None:
    """In another process, as two in one process share what the lock protects."""
    code = (
        "import sys\n"
        "from changelog_engine.driver.journal import JobJournal\n"
        "JobJournal.open(sys.argv[1], 'job')\n"
    )
    journal = JobJournal.open(str(tmp_path), "job")
    try:
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    finally:
        journal.close()
    assert done.returncode != 0
    assert "FencedError" in done.stderr
    assert "another driver" in done.stderr
    assert "another name or base path" in done.stderr


@pytest.mark.parametrize("stage", [0, 1])
def test_a_subtask_that_spark_runs_again_in_its_own_process_is_noticed(tmp_path: Path, stage: int) -> None:
    """When Spark cannot fetch what a stage sent, it runs the stage again; its tasks pass for first ones.

    The epoch before was committed, so that a process without state could restore it: whoever took the first blocks would
    have others than whoever took the second ones.
    """
    inner, runs = Runtimes.run, []

    def run_twice(runtimes: Runtimes, load: Any, order: Any, at: int, subtask: int, *more: Any) -> Any:
        sent = inner(runtimes, load, order, at, subtask, *more)
        if (order.epoch, at, runs) == (4, stage, []):
            runs.append(order.epoch)
            return inner(runtimes, load, order, at, subtask, *more)
        return sent

    job = TestJob(tmp_path, Script(sizes=(4,)))
    with mock.patch.object(Runtimes, "run", run_twice):
        job.run(graph())
    assert runs == [4]
    assert job.coordinator.restarts.count == 1
    assert by_key(job.output) == EXPECTED
    assert final_counts(job) == COUNTS


@pytest.mark.parametrize("stage", [0, 1])
def test_a_subtask_whose_epoch_failed_at_its_end_does_not_go_on_when_spark_runs_it_again(
    tmp_path: Path, stage: int
) -> None:
    """Its failure may be what Spark could not fetch: the second run would do the epoch's work on what the first one left."""
    inner, collect, runs = Runtimes.run, StageRuntime._collect_blocks, []

    def fail_once(runtime: StageRuntime) -> Any:
        if runs == [4] and runtime.stage == stage:
            runs.append(0)
            raise OSError("no room for what is sent")
        return collect(runtime)

    def run_again(runtimes: Runtimes, load: Any, order: Any, at: int, subtask: int, *more: Any) -> Any:
        if (order.epoch, at, runs) == (4, stage, []):
            runs.append(order.epoch)
            with pytest.raises(OSError, match="no room"):
                inner(runtimes, load, order, at, subtask, *more)
        return inner(runtimes, load, order, at, subtask, *more)

    job = TestJob(tmp_path, Script(sizes=(4,)))
    with (
        mock.patch.object(Runtimes, "run", run_again),
        mock.patch.object(StageRuntime, "_collect_blocks", fail_once),
    ):
        job.run(graph())
    assert runs == [4, 0]
    assert job.coordinator.restarts.count == 1
    assert by_key(job.output) == EXPECTED
    assert final_counts(job) == COUNTS
