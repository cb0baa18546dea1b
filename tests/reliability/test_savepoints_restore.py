"""Reliability of savepoints: taken beside a running job, moved, restored in other shapes; cases 23 to 31 for them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.epochs import EpochStats
from support.functions import Count, Keep, by_key, counted, rounds
from support.graphs import GraphBuilder, keyed_job
from support.jobs import NO_RESTART, TestJob
from support.live import logged_state
from support.materialized import damage
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.errors import (
    ConfigurationError,
    CorruptChangelogError,
    JobExecutionError,
    RestoreError,
    StorageError,
)
from changelog_engine.ledger import committer as commit
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.protection import protections
from changelog_engine.savepoints import restore as savepoint_restore
from changelog_engine.savepoints import writer as savepoint_writer
from changelog_engine.savepoints.folder import open_savepoint
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage
from materializer.fold import state_at

ELEMENTS = rounds(5, 40)


def graph(parallelism: int = 1, **more: Any) -> Any:
    return keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), parallelism=parallelism, **more)


class Asking(TestJob):
    """Asks for a savepoint while it runs, in another thread, and waits until the request stands.

    Args:
        at: the checkpoint after whose epoch it asks.
        stop: stop with the savepoint.
        drain: let event time end first.
    """

    def __init__(
        self,
        *given: Any,
        at: int = 2,
        stop: bool = False,
        drain: bool = False,
        directory: str = "",
        **more: Any,
    ) -> None:
        super().__init__(*given, **more)
        self.at, self.stop, self.drain = at, stop, drain
        self.directory = directory or f"{self.settings.base_path}-savepoints"
        self.path: str | None = None
        self.failure: Exception | None = None
        self.asking: threading.Thread | None = None

    def _observe(self, stats: EpochStats) -> None:
        super()._observe(stats)
        if stats.checkpoint == self.at and self.asking is None:
            self.ask()

    def ask(self) -> None:
        """Ask now; returns when the request stands or has failed."""
        requests = self.coordinator.control.savepoints
        self.asking = threading.Thread(target=self._ask, daemon=True)
        self.asking.start()
        while self.asking.is_alive() and not requests._waiting:
            threading.Event().wait(0.001)
        while self.asking.is_alive() and self.stop and not self.coordinator.control.stopping:
            threading.Event().wait(0.001)

    def _ask(self) -> None:
        stop = (lambda: self.coordinator.control.stop_for_savepoint(self.drain)) if self.stop else None
        try:
            self.path = self.coordinator.control.savepoints.take(self.directory, "abcdef", stop)
        except Exception as failure:
            self.failure = failure

    def answer(self) -> str:
        """The savepoint's path."""
        assert self.asking is not None
        self.asking.join(60)
        if self.failure is not None:
            raise self.failure
        assert self.path is not None
        return self.path


def stopped_savepoint(tmp_path: Path, job_graph: Any = None, **settings: Any) -> tuple[TestJob, str]:
    """A job that was stopped with a savepoint after 15 of its elements."""
    job = Asking(tmp_path / "first", Script(sizes=(5,)), at=3, stop=True, **settings)
    outcome = job.run_driver(job_graph or graph())
    assert not outcome.cancelled
    assert job.coordinator.status == "FINISHED"
    path = job.answer()
    assert len(job.output) == 15
    return job, path


class Waiting(Asking):
    """Goes on after the checkpoint that follows the savepoint's only when the savepoint is written."""

    def _observe(self, stats: EpochStats) -> None:
        super()._observe(stats)
        if self.asking is not None and stats.checkpoint is not None and stats.checkpoint > self.at + 1:
            self.asking.join(60)


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
def test_the_job_goes_on_beside_its_savepoint(tmp_path: Path, changelog: bool) -> None:
    """Epochs without barriers of their own: the request makes one. Nothing that the copy needs is retired meanwhile."""
    job = Waiting(tmp_path / "job", Script(sizes=(5,), barriers=(True, True, False)), changelog=changelog)
    job.run(graph())
    savepoint = open_savepoint(job.answer())
    assert savepoint.checkpoint.id == 3
    assert savepoint.folder.slug.startswith("savepoint-abcdef-")
    assert state_at(savepoint.folder.changelog.root).states["process", "count"] == dict.fromkeys(range(5), 3)
    assert by_key(job.output) == by_key(counted(ELEMENTS))
    assert protections(find_job_folder(str(tmp_path / "job"), "job")) == []
    folder = find_job_folder(str(tmp_path / "job"), "job")
    if not changelog:  # the protection has ended: only the last snapshot is left
        listed = DeltaLog(folder.snapshots).files()["path"].to_pylist()
        assert len([path for path in listed if path.startswith("snapshot-")]) == 1


@pytest.mark.parametrize("parallelisms", [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("changelog", [(True, True), (True, False), (False, True)])
def test_cases_23_25_restored_elsewhere(
    tmp_path: Path, parallelisms: tuple[int, int], changelog: tuple[bool, bool]
) -> None:
    """Moved, with another parallelism, changelog on and off; the first job's folder is gone."""
    first, path = stopped_savepoint(tmp_path, graph(parallelisms[0]), changelog=changelog[0])
    moved = shutil.move(path, tmp_path / "moved" / "under another name")
    shutil.rmtree(tmp_path / "first")
    script = Script(sizes=(5,), failures=(Failure(1, Fault.WORKER), Failure(3, Fault.HANDED_OUT)))
    job = TestJob(tmp_path / "second", script, changelog=changelog[1])
    restores = [str(moved), "auto"]
    job.run(graph(parallelisms[1]), restore=lambda driver: restores[driver])
    assert job.drivers == 2
    assert by_key(first.output + job.output) == by_key(counted(ELEMENTS))
    assert state_at(job.table()).states["process", "count"] == dict.fromkeys(range(5), 8)
    assert open_savepoint(str(moved)).checkpoint.id == 4


@pytest.mark.parametrize("backends", [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_restored_into_another_backend(tmp_path: Path, backends: tuple[str, str]) -> None:
    first, path = stopped_savepoint(tmp_path, state_backend=backends[0])
    job = TestJob(tmp_path / "second", Script(sizes=(5,)), state_backend=backends[1])
    job.run_driver(graph(), restore=path)
    assert by_key(first.output + job.output) == by_key(counted(ELEMENTS))


def test_no_claim_needs_the_savepoint_no_more(tmp_path: Path) -> None:
    """Gone as soon as the job has started: workers are lost, the driver is lost, the job goes on."""
    first, path = stopped_savepoint(tmp_path)

    class Removing(TestJob):
        def on_commit(self, checkpoint: Checkpoint) -> None:
            shutil.rmtree(path, ignore_errors=True)

    job = Removing(tmp_path / "second", Script(sizes=(5,), failures=(Failure(2, Fault.WORKER),)))
    job.run_driver(graph(), restore=path)
    assert not Path(path).exists()
    assert by_key(first.output + job.output) == by_key(counted(ELEMENTS))


@pytest.mark.parametrize("claim", [True, False])
def test_claim_disposes_after_the_first_checkpoint(tmp_path: Path, claim: bool) -> None:
    first, path = stopped_savepoint(tmp_path)
    there: list[bool] = []

    class Looking(TestJob):
        def on_commit(self, checkpoint: Checkpoint) -> None:
            there.append(Path(path).exists())

    job = Looking(tmp_path / "second", Script(sizes=(5,), failures=(Failure(1, Fault.PARTS),)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph(), restore=path, claim_savepoint=claim)
    assert Path(path).exists(), "no checkpoint of the job's own yet"
    job.run_driver(graph(), restore=path, claim_savepoint=claim)
    assert there == [True] + [not claim] * (len(there) - 1)
    assert Path(path).exists() is not claim
    assert by_key(first.output + job.output) == by_key(counted(ELEMENTS))


def test_a_claimed_savepoint_that_somebody_removed(tmp_path: Path) -> None:
    first, path = stopped_savepoint(tmp_path)

    class Removing(TestJob):
        def on_commit(self, checkpoint: Checkpoint) -> None:
            shutil.rmtree(path, ignore_errors=True)

    job = Removing(tmp_path / "second", Script(sizes=(5,)), restart=NO_RESTART)
    job.run_driver(graph(), restore=path, claim_savepoint=True)
    assert by_key(first.output + job.output) == by_key(counted(ELEMENTS))


def test_case_31_into_a_job_with_a_history(tmp_path: Path) -> None:
    """The savepoint begins a branch; what was there stays as it was, and ids go on."""
    job = TestJob(tmp_path / "job", Script(sizes=(5,), failures=(Failure(3, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph())
    folder = find_job_folder(str(tmp_path / "job"), "job")
    savepoint = create_savepoint(folder, Lineage(folder.open_changelog()).checkpoint(2), str(tmp_path))
    before = {number: logged_state(str(tmp_path / "job"), checkpoint=number) for number in (1, 2, 3)}
    del job.output[:]
    job.outputs.clear()
    job.run_driver(graph(), restore=savepoint.path)
    rows = Lineage(folder.open_changelog())
    assert rows.checkpoint(4).parent is None
    assert rows.checkpoint(4).lineage == ((2, 4, 4),)
    assert rows.checkpoint(5).lineage == ((2, 4, 4), (3, 5, 5))
    assert rows.attempt(2).parent == 3
    after = {number: logged_state(str(tmp_path / "job"), checkpoint=number) for number in (1, 2, 3, 4)}
    assert after == {**before, 4: before[2]}
    assert by_key(job.output) == {key: list(range(3, 9)) for key in range(5)}


@pytest.mark.parametrize("step", ["attempt", "snapshot"])
def test_killed_while_importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """What is left over is never read: the next run imports again, or starts without the savepoint as it would have."""
    _, path = stopped_savepoint(tmp_path)

    def killed(*given: Any) -> Any:
        raise DriverKilled(Fault.DRIVER)

    job = TestJob(tmp_path / "second", Script(sizes=(5,)))
    with monkeypatch.context() as patched:
        if step == "attempt":
            patched.setattr(savepoint_restore, "_copy", killed)
        else:
            patched.setattr(commit.CheckpointCommitter, "_commit_row", killed)
        with pytest.raises(DriverKilled):
            job.run_driver(graph(), restore=path)
    rows = Lineage(DeltaLog(open_storage(job.table())))
    assert (list(rows.attempts), list(rows.checkpoints)) == ([1], [])
    job.run_driver(graph(), restore=path)
    assert by_key(job.output) == {key: list(range(4, 9)) for key in range(5)}
    assert Lineage(DeltaLog(open_storage(job.table()))).checkpoint(1).attempt == 2

    other = TestJob(tmp_path / "second", Script(sizes=(5,)))
    other.run_driver(graph(), restore="none")
    assert by_key(other.output) == by_key(counted(ELEMENTS))


def parts_of(path: str) -> list[Path]:
    return sorted(Path(path, "snapshots").glob("part-*.parquet"))


@pytest.mark.parametrize(
    "harm", [damage, Path.unlink, lambda file: file.write_bytes(b"")], ids=["bit", "gone", "empty"]
)
@pytest.mark.parametrize("which", ["part-*", "snapshot-*", "checkpoint-*"])
def test_cases_29_30_a_damaged_savepoint_changes_nothing(
    tmp_path: Path, harm: Callable[[Path], None], which: str
) -> None:
    _, path = stopped_savepoint(tmp_path)
    [damaged] = Path(path).glob(f"*/{which}.parquet")
    harm(damaged)
    job = TestJob(tmp_path / "second")
    with pytest.raises(CorruptChangelogError, match=damaged.name.removesuffix(".parquet")):
        job.run_driver(graph(), restore=path)
    assert not (tmp_path / "second").exists()


def test_a_restore_that_cannot_work_changes_nothing(tmp_path: Path) -> None:
    _, path = stopped_savepoint(tmp_path, graph(max_parallelism=16))
    job = TestJob(tmp_path / "second")
    with pytest.raises(RestoreError, match=r"max parallelism 32.*made with 16"):
        job.run_driver(graph(max_parallelism=32), restore=path)
    with pytest.raises(RestoreError, match="uid 'process'"):
        job.run_driver(graph(uid="other"), restore=path)
    with pytest.raises(RestoreError, match="no such folder"):
        job.run_driver(graph(), restore=f"{path}x")
    with pytest.raises(ConfigurationError, match="makes no checkpoints"):
        job.run_driver(graph(), restore=path, checkpoint_interval_ms=None, changelog=False)
    assert not (tmp_path / "second").exists()


def test_unclaimed_state_is_left_behind(tmp_path: Path) -> None:
    """An operator is gone. The job starts when told to ignore that; the operator comes back empty later."""
    _, path = stopped_savepoint(tmp_path)
    job = TestJob(tmp_path / "second", Script(sizes=(5,), failures=(Failure(2, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph(uid="other"), restore=path, ignore_unclaimed_state=True)
    assert by_key(job.output) == {key: [1, 2] for key in range(5)}
    assert {uid for uid, _ in logged_state(str(tmp_path / "second"))} == {"other"}


class Alarm(KeyedProcessFunction):
    """An event-time timer for each element, and a state that says how often it fired."""

    def open(self, runtime_context: Any) -> None:
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1_000 + value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.fired.update((self.fired.value() or 0) + 1)
        yield ctx.get_current_key(), timestamp


def alarms() -> Any:
    return keyed_job(ELEMENTS, Alarm(), key_type=Types.LONG(), timestamp=lambda element: element[1])


@pytest.mark.parametrize("drain", [False, True])
def test_case_28_timers(tmp_path: Path, drain: bool) -> None:
    """Without draining, timers wait in the savepoint and fire once, after it; with draining they fire before it."""
    first = Asking(tmp_path / "first", Script(sizes=(5,)), at=3, stop=True, drain=drain)
    first.run_driver(alarms())
    path = first.answer()
    due = [1_000 + number for _, number in ELEMENTS]
    assert sorted(timestamp for _, timestamp in first.output) == (due[:15] if drain else [])
    folded = state_at(open_savepoint(path).folder.changelog.root)
    assert len(folded.timers.get(("process", "event time"), [])) == (0 if drain else 15)
    assert folded.checkpoint.sources == {"source": {"collection": (15, False)}}
    second = TestJob(tmp_path / "second", Script(sizes=(5,)))
    second.run_driver(alarms(), restore=path)
    assert sorted(timestamp for _, timestamp in first.output + second.output) == due


def test_two_stages_of_different_parallelism(tmp_path: Path) -> None:
    def job_graph() -> Any:
        build = GraphBuilder(parallelism=2)
        stream = build.source([(key % 7, key % 3, key) for key in range(60)], uid="source")
        keyed = build.key_by(stream, lambda element: element[0], Types.LONG())
        first = build.process(keyed, Keep(), "first", uid="first", parallelism=3, max_parallelism=8)
        again = build.key_by(first, lambda element: element[0] % 2, Types.LONG())
        build.collect(build.process(again, Count(), "second", uid="second", parallelism=1))
        return build.graph()

    undisturbed = TestJob(tmp_path / "undisturbed", Script(sizes=(5,)))
    undisturbed.run(job_graph())
    job = Asking(tmp_path / "first", Script(sizes=(5,)), at=3, stop=True)
    job.run_driver(job_graph())
    base = str(tmp_path / "first")
    path = job.answer()
    shutil.copytree(path, tmp_path / "copies" / "job")
    assert logged_state(str(tmp_path / "copies")) == logged_state(base)
    second = TestJob(tmp_path / "second", Script(sizes=(5,)))
    second.run_driver(job_graph(), restore=path)
    assert logged_state(str(tmp_path / "second")) == logged_state(str(tmp_path / "undisturbed"))


def test_the_end_of_the_input_answers_too(tmp_path: Path) -> None:
    """The input ends with the request still waiting for a checkpoint."""
    job = Asking(tmp_path / "job", Script(sizes=(40,)), at=1)
    job.run(graph())
    savepoint = open_savepoint(job.answer())
    assert state_at(savepoint.folder.changelog.root).states["process", "count"] == dict.fromkeys(range(5), 8)
    again = TestJob(tmp_path / "again", Script(sizes=(5,)))
    again.run_driver(graph(), restore=savepoint.path)
    assert again.output == []


def test_a_failed_job_says_so(tmp_path: Path) -> None:
    failures = (Failure(3, Fault.COMMIT_FAILS), Failure(4, Fault.COMMIT_FAILS))
    job = Asking(tmp_path / "job", Script(sizes=(5,), failures=failures))
    with pytest.raises(JobExecutionError):
        job.run_driver(graph(), restart=NO_RESTART)
    with pytest.raises(JobExecutionError, match="failed before the savepoint"):
        job.answer()
    assert list(Path(job.directory).iterdir()) == []
    with pytest.raises(JobExecutionError, match="savepoint create"):
        job.coordinator.control.savepoints.take(job.directory, "abcdef")


def test_a_directory_that_cannot_be_used_leaves_the_job_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    job = Asking(tmp_path / "job", Script(sizes=(5,)), stop=True, directory=str(tmp_path / "file" / "below"))
    job.run(graph())
    with pytest.raises(StorageError, match="file"):
        job.answer()
    assert by_key(job.output) == by_key(counted(ELEMENTS))
    assert (tmp_path / "file").read_text() == "mine"


def test_a_copy_that_fails_leaves_nothing_and_names_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> Any:
        raise StorageError("no space left")

    monkeypatch.setattr(savepoint_writer, "verify_parts", full)
    job = Asking(tmp_path / "job", Script(sizes=(5,)), at=3, stop=True)
    job.run_driver(graph())
    with pytest.raises(StorageError, match="no space left") as raised:
        job.answer()
    assert "--at 4" in raised.value.__notes__[0]
    assert list(Path(job.directory).iterdir()) == []
    monkeypatch.undo()
    folder = find_job_folder(str(tmp_path / "job"), "job")
    assert protections(folder) == []
    made = create_savepoint(folder, Lineage(folder.open_changelog()).checkpoint(4), job.directory)
    assert made.rows == 5


def test_a_job_without_checkpoints_has_no_savepoints(tmp_path: Path) -> None:
    job = TestJob(tmp_path, checkpoint_interval_ms=None, changelog=False)
    job.run_driver(graph())
    with pytest.raises(ConfigurationError, match="enable_checkpointing"):
        job.coordinator.control.savepoints.take(str(tmp_path), "abcdef")
