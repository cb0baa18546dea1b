"""Reliability 67: the power goes at any call to the disk, and what was not fsynced is gone: any part of it, names included.

The job runs once on a memory disk (support/memory_disk.py) with checkpoints, materialization, truncation, merging and Delta
checkpoints of both logs. What a cut leaves is laid down in the job's place, and read as a start of the job would.

Invariants:
    * The newest checkpoint that is found was acknowledged last, or was being committed; its state is exactly the model's.
    * The job goes on from what is there to its end, and a sink of files has each element once.
    * A disk that lies or tears gives an exact state or an error, never another state.
    * The cuts can find a missing fsync: on disks that leave out one kind of it, they do.
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from deltalake import DeltaTable
from support.functions import Count, CountAlone, counted, rounds
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.live import logged_state
from support.materialized import AT_ONCE, merging_few
from support.memory_disk import Call, MemoryDisk, lay
from support.part_files import bucket_of, hidden, lines, sink_to
from support.same import exact
from support.script import Script

from api.common.typeinfo import Types
from changelog_engine.connectors import NumberSequenceSource
from changelog_engine.connectors.delta.sink import DeltaSink
from changelog_engine.connectors.files import ON_CHECKPOINT, ElementBuckets, Rolling
from changelog_engine.errors import (
    ChangelogEngineError,
    CorruptChangelogError,
    ForeignPathError,
    JobExecutionError,
    RestoreError,
)
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.savepoints.folder import open_savepoint
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.storage import delta_checkpoints, delta_log
from changelog_engine.verification.verify import verify
from materializer import truncation
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

ELEMENTS = rounds(4, 40)
_MAINTAIN = delta_log.DeltaLog.maintain
NUMBERS = 60
SAMPLE = 40  # cuts at which any part is lost; all of them: SAMPLE = None, some minutes
KEEPS = Retention(history_ms=10**15, retained=1, grace_ms=0)  # merges what it keeps
TRUNCATED = {5: KEEPS, 7: KEEPS, 9: AT_ONCE}
Choice = random.Random | bool


def graph() -> Any:
    """Two keyed stages: where sources read ahead, so does the first of them run."""
    build = GraphBuilder(parallelism=2, max_parallelism=16)
    keyed = build.key_by(build.source(ELEMENTS, uid="source"), lambda element: element[0], Types.LONG())
    counted = build.process(keyed, Count(), uid="process")
    again = build.key_by(counted, lambda counted: counted[1], Types.LONG())
    build.collect(build.process(again, CountAlone(), uid="again"))
    return build.graph()


def counts(elements: int) -> dict[Any, Any]:
    """The plain model: the state when so many elements were processed."""
    return dict(Counter(exact(key) for key, _ in ELEMENTS[:elements]))


@pytest.fixture(autouse=True)
def _short_logs() -> Iterator[None]:
    """Delta checkpoints of the logs every few commits, and nothing kept behind them."""
    with short_logs():
        yield


@contextlib.contextmanager
def short_logs() -> Iterator[None]:
    with (
        mock.patch.object(delta_log.DeltaLog, "maintain", partialmethod(_MAINTAIN, every=4)),
        mock.patch.object(delta_checkpoints, "KEPT_S", 0.0),
        mock.patch.object(truncation, "_PAUSE_S", 0),
    ):
        yield


class Upkept(TestJob):
    """Notes when each checkpoint was acknowledged; materializes, truncates and merges after some."""

    def __init__(self, disk: MemoryDisk, **settings: Any) -> None:
        super().__init__(f"{disk.folder}/jobs", Script(sizes=(4,)), restart=NO_RESTART, **settings)
        self.disk = disk
        self.acknowledged: list[tuple[int, int]] = []  # the moment, the checkpoint
        self.models: dict[int, dict[Any, Any]] = {}

    def on_commit(self, checkpoint: Any) -> None:
        """See TestJob."""
        self.acknowledged.append((self.disk.now, checkpoint.id))
        self.models[checkpoint.id] = counts(sum(self.committed_epochs))
        folder = find_job_folder(self.settings.base_path, "job")
        if checkpoint.id % 2 == 0:
            materialize(folder)
        if checkpoint.id in TRUNCATED:
            with merging_few():
                truncate(folder, TRUNCATED[checkpoint.id], lambda: checkpoint.time_ms / 1000)


class Cuts:
    """A run that is over, and what cuts leave of it."""

    def __init__(
        self, folder: Path, lies: Callable[[Upkept, Call], bool] | None = None, **settings: Any
    ) -> None:
        self.disk = MemoryDisk(str(folder))
        self.job = Upkept(self.disk, **settings)
        if lies is not None:
            self.disk.lies = lambda call: lies(self.job, call)
        with self.disk.mounted(), short_logs():
            self.job.run(graph())
        self.laid: dict[str, bytes | None] | None = None
        self.compared: int | None = None

    def lay(self, moment: int, choose: Choice) -> bool:
        """Have on the disk what is left, and write only what differs; False when it is as the time before."""
        left = self.disk.left(moment, choose)
        if left == self.laid:
            return False
        before, self.laid, self.compared = self.laid, left, None
        if before is None:  # something else wrote there
            shutil.rmtree(self.disk.folder)
            before = {}
        differs = {path: data for path, data in left.items() if path not in before or before[path] != data}
        for path in sorted(before.keys() - left.keys() | before.keys() & differs.keys(), reverse=True):
            full = Path(self.disk.folder, path)
            full.rmdir() if before[path] is None else full.unlink()
        lay(differs, self.disk.folder)
        return True

    def acknowledged(self, moment: int) -> int:
        """The last checkpoint that was acknowledged before; 0 for none."""
        return max((checkpoint for at, checkpoint in self.job.acknowledged if at <= moment), default=0)

    def found(self) -> int:
        """The newest checkpoint that is there, whose state was compared; 0 for none."""
        folder = find_job_folder(self.job.settings.base_path, "job")
        if not delta_log.DeltaLog.exists(folder.changelog):
            return 0
        newest = Lineage(folder.open_changelog()).newest_checkpoint()
        if newest is None:
            return 0
        state, model = logged_state(self.job.settings.base_path), self.job.models[newest.id]
        assert state["process", "count"] == model
        assert sum(state["again", "count"].values()) == sum(model.values())
        return newest.id

    def check(self, moment: int, choose: Choice) -> None:
        """Cut, and look for the last checkpoint that was acknowledged."""
        shown = f"cut before call {moment} of {self.disk.calls[:moment][-3:]}"
        try:
            if self.lay(moment, choose) or self.compared is None:
                self.compared = self.found()
        except (ChangelogEngineError, AssertionError) as error:
            raise AssertionError(shown) from error
        acknowledged = self.acknowledged(moment)
        assert acknowledged <= self.compared <= acknowledged + 1, shown

    def moments(self, seed: int, count: int | None) -> list[int]:
        """Some moments, or all."""
        every = range(self.disk.now + 1)
        return list(every) if count is None else sorted(random.Random(seed).sample(every, count))


AHEAD = {"read_ahead": True, "local_recovery": True}


@pytest.fixture(
    scope="module", params=[{}, {"changelog": False}, AHEAD], ids=["changelog", "snapshots", "ahead"]
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cuts:
    return Cuts(tmp_path_factory.mktemp("power") / "disk", **request.param)


def test_case_67_all_that_was_not_fsynced_is_lost(run: Cuts) -> None:
    """At each call of the run."""
    names = {call.name for call in run.disk.calls}
    assert {"create", "write", "fsync", "rename", "link", "unlink", "mkdir", "sync"} <= names
    files = " ".join(call.path for call in run.disk.calls if call.name == "rename")
    wanted = ["changelog/_delta_log/[0-9]+.checkpoint", "changelog/checkpoint-", "snapshots/"]
    if run.job.settings.changelog:
        wanted += ["changelog/part-", "changelog/merged-"]
    for path in wanted:
        assert re.search(path, files), f"the run has nothing of {path}"
    written = [call.path.rpartition("/")[2] for call in run.disk.calls if call.name in ("rename", "link")]
    row, part = (
        next((place for place, name in enumerate(written) if re.match(pattern, name)), len(written))
        for pattern in ("checkpoint-0*5-", "part-0*6-")
    )
    assert (part < row) is run.job.settings.read_ahead, "a stage that runs ahead writes before the commit"
    for moment in run.moments(0, None):
        run.check(moment, False)


def test_case_67_any_part_of_it_is_lost(run: Cuts) -> None:
    """Links, renames, deletions and folders whose folder was not fsynced, in any combination; files torn or empty."""
    for moment in run.moments(1, SAMPLE):
        run.check(moment, random.Random(moment))


def test_case_67_the_job_goes_on(run: Cuts) -> None:
    """From whatever was left, to the same end; and nothing that the log refers to is missing or damaged."""
    for moment in run.moments(2, SAMPLE and SAMPLE // 8):
        run.lay(moment, random.Random(moment))
        settings = run.job.settings
        TestJob(
            settings.base_path,
            Script(sizes=(9,)),
            changelog=settings.changelog,
            read_ahead=settings.read_ahead,
        ).run(graph())
        assert logged_state(run.job.settings.base_path)["process", "count"] == counts(len(ELEMENTS)), moment
        assert verify(find_job_folder(run.job.settings.base_path, "job")).faults == [], moment
        run.laid = None


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("fsync", r"changelog/\.tmp-"),
        ("fsync", r"_delta_log/\.tmp-"),
        ("sync", r"/changelog$"),
        ("sync", r"/changelog/_delta_log$"),
        ("sync", r"/job$"),
    ],
)
def test_case_67_a_missing_fsync_is_found(tmp_path: Path, name: str, path: str) -> None:
    """On a disk that leaves out one kind of fsync, some cut loses what was acknowledged, or there is an error."""
    run = Cuts(tmp_path / "disk", lambda _, call: call.name == name and bool(re.search(path, call.path)))

    def cut_anywhere() -> None:
        for moment in range(run.disk.now + 1):
            run.check(moment, False)

    with pytest.raises(AssertionError, match="cut before call"):
        cut_anywhere()


def test_case_67_a_disk_that_lies_gives_no_other_state(tmp_path: Path) -> None:
    """What it lost is said, unless all behind a checkpoint is gone: that one is then restored exactly."""
    run = Cuts(tmp_path / "disk", lambda job, _: len(job.acknowledged) >= 3)
    told, exactly = [], set()
    for seed in range(60):
        run.lay(run.disk.now, random.Random(seed))
        try:
            exactly.add(run.found())
        except ChangelogEngineError as error:
            told.append(str(error))
    assert len(told) > 20
    assert [
        message for message in told if run.disk.folder not in message
    ] == []  # each names a file or a folder
    assert min(exactly, default=3) >= 3


def test_case_67_a_torn_file_gives_no_other_state(run: Cuts) -> None:
    """A disk that tore a file that was fsynced: the checksums, the footers and the log's numbers refuse it."""
    whole = run.disk.left(run.disk.now, False)
    told = {}
    for path in sorted(path for path, data in whole.items() if data):
        run.lay(run.disk.now, False)
        run.disk.tear(path)
        run.laid = {**whole, path: b""}  # it is written anew
        try:
            found = run.found()
        except CorruptChangelogError as error:
            told[path] = str(error)
        else:
            assert found == run.acknowledged(run.disk.now), path
    assert len(told) > 3
    assert [path for path, message in told.items() if Path(path).name not in message] == []


def test_case_67_forks_and_savepoints(tmp_path: Path) -> None:
    """Each is whole, or not there, or says that it was never finished; once it was made it is there."""
    disk = MemoryDisk(str(tmp_path / "disk"))
    final = dict(Counter(key for key, _ in ELEMENTS))
    with disk.mounted():
        job = Upkept(disk)
        job.run(graph())
        folder = find_job_folder(job.settings.base_path, "job")
        row = Lineage(folder.open_changelog()).checkpoint(job.acknowledged[-1][1])
        began = disk.now
        savepoint = Path(create_savepoint(folder, row, f"{disk.folder}/savepoints").path)
        saved, fork = disk.now, Path(disk.folder, "forks", "copy")
        fork_job(folder, row, str(fork))
    whole = 0
    for moment in [*range(began, saved, 3), *range(saved, disk.now, 3), disk.now]:
        shutil.rmtree(disk.folder)
        disk.cut(moment, [False, random.Random(moment)][moment % 2], disk.folder)
        assert state_at(job.table()).states["process", "count"] == final
        found = is_finished(savepoint)
        assert found or moment < saved, moment
        if found:
            assert state_at(f"{savepoint}/changelog").states["process", "count"] == final
        whole += found
        if moment == disk.now or fork.exists():
            assert state_at(f"{fork}/changelog").states["process", "count"] == final, moment
    assert whole > (disk.now - saved) // 3


def is_finished(savepoint: Path) -> bool:
    try:
        open_savepoint(str(savepoint)).verify()
    except (ForeignPathError, RestoreError):
        return False
    return True


def test_case_12_a_disk_that_fills_up_while_the_job_runs(tmp_path: Path) -> None:
    """The error says so; with room again, the job goes on from its last checkpoint."""
    disk = MemoryDisk(str(tmp_path / "disk"), capacity_bytes=60_000)
    with disk.mounted():
        job = Upkept(disk)
        with pytest.raises(JobExecutionError, match="disk full: could not"):
            job.run_driver(graph())
        stopped_at = len(job.commits)
        assert stopped_at > 0
        assert logged_state(job.settings.base_path)["process", "count"] == job.models[stopped_at]
        disk.heal()
        job.run_driver(graph())
        assert logged_state(job.settings.base_path)["process", "count"] == counts(len(ELEMENTS))


# Writers of processes that are lost are never closed.
@pytest.mark.filterwarnings("ignore:.*inprogress:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("bytes_of_a_file", [None, 20], ids=["one_file", "many_files"])
def test_case_67_a_sink_of_files(tmp_path: Path, bytes_of_a_file: int | None) -> None:
    """Folders of buckets that are made on the way, files in progress that a checkpoint counts a part of."""
    disk = MemoryDisk(str(tmp_path / "disk"))
    out = Path(disk.folder, "out")

    def job() -> TestJob:
        return TestJob(f"{disk.folder}/jobs", Script((6,), (True, True, False)), restart=NO_RESTART)

    def sinking() -> Any:
        build = GraphBuilder(parallelism=2, max_parallelism=16)
        stream = build.source(NumberSequenceSource(1, NUMBERS))
        rolling = None if bytes_of_a_file is None else Rolling(bytes_of_a_file)
        sink = sink_to(out, rolling, buckets=ElementBuckets(bucket_of))
        build.add(NodeKind.SINK, "sink", stream, function=sink, uid="sink")
        return build.graph()

    expected = Counter(str(number) for number in range(1, NUMBERS + 1))
    with disk.mounted():
        job().run(sinking())
    assert lines(out) == expected
    assert {"mkdir", "create", "fsync", "rename"} <= {c.name for c in disk.calls if c.path.startswith("out")}
    rng = random.Random(bytes_of_a_file)
    for moment in [*sorted(rng.sample(range(disk.now), 12)), disk.now]:
        shutil.rmtree(disk.folder)
        disk.cut(moment, rng.choice([False, random.Random(moment)]), disk.folder)
        job().run_driver(sinking(), restore="latest")
        assert lines(out) == expected, f"cut before call {moment} of {disk.calls[:moment][-3:]}"


def test_case_67_no_restart_shows_what_a_disk_has_torn(tmp_path: Path) -> None:
    """Of a sink's hidden files, which a checkpoint counts, as many bytes as were fsynced are there: other ones."""
    disk = MemoryDisk(str(tmp_path / "disk"))
    out, moments = Path(disk.folder, "out"), list[int]()

    def job() -> TestJob:
        job = TestJob(f"{disk.folder}/jobs", Script((20,)), restart=NO_RESTART)
        job.on_commit = lambda _: moments.append(disk.now)
        return job

    def sinking() -> Any:
        build = GraphBuilder()
        stream = build.source(NumberSequenceSource(1, 40))
        build.add(NodeKind.SINK, "sink", stream, function=sink_to(out, ON_CHECKPOINT), uid="sink")
        return build.graph()

    with disk.mounted():
        job().run(sinking())
    shutil.rmtree(disk.folder)
    disk.cut(moments[0], False, disk.folder)
    (path,) = hidden(out)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(JobExecutionError, match=rf"{re.escape(str(path))} is not what was written"):
        job().run_driver(sinking(), restore="latest")
    assert lines(out) == Counter()


def test_case_67_a_delta_sink(tmp_path: Path) -> None:
    """What the table had when a commit of the sink returned is there after a cut, and the rest comes with the next run."""
    disk = MemoryDisk(str(tmp_path / "disk"))
    table, row = Path(disk.folder, "table"), Types.ROW_NAMED(["k", "c"], [Types.LONG(), Types.LONG()])
    noted: list[tuple[int, list[tuple[Any, ...]]]] = []
    inner = DeltaSink.commit

    def commit(sink: DeltaSink, committables: Any, anew: bool = False) -> None:
        inner(sink, committables, anew)
        noted.append((disk.now, table_rows(table)))

    def job() -> TestJob:
        return TestJob(f"{disk.folder}/jobs", Script(sizes=(8,)), restart=NO_RESTART)

    def sinking() -> Any:
        build = GraphBuilder(parallelism=2)
        keyed = build.key_by(build.source(ELEMENTS, uid="source"), lambda element: element[0], Types.LONG())
        counts_ = build.process(keyed, Count(), uid="count")
        build.add(NodeKind.SINK, "sink", counts_, function=DeltaSink(str(table), row), uid="sink")
        return build.graph()

    with disk.mounted(), mock.patch.object(DeltaSink, "commit", commit):
        job().run(sinking())
    expected = sorted(counted(ELEMENTS))
    assert noted[-1][1] == expected
    for moment, rows in [one for one in noted if one[1]]:
        shutil.rmtree(disk.folder)
        disk.cut(moment, False, disk.folder)
        assert table_rows(table) == rows
        job().run_driver(sinking(), restore="latest")
        assert table_rows(table) == expected


def table_rows(path: Path) -> list[tuple[Any, ...]]:
    if not (path / "_delta_log").exists():
        return []
    return sorted(tuple(row.values()) for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist())
