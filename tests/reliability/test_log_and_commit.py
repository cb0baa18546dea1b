"""Reliability, log and commit: cases 1, 2, 3, 5, 7 and 8, on real files, with the engine's own loop.

Step numbers are those of driver/attempt.py and ledger/committer.py.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.functions import Count, Keep, by_key, counted, rounds
from support.graphs import GraphBuilder, keyed_job
from support.jobs import NO_RESTART, TestJob
from support.memory_disk import Call, MemoryDisk
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.changelog.model import Part
from changelog_engine.changelog.part_selection import part_files
from changelog_engine.changelog.part_writer import PartWriter
from changelog_engine.connectors import NumberSequenceSource, Range, Split
from changelog_engine.connectors.number_sequence import NumberSequenceReader
from changelog_engine.errors import JobExecutionError, StorageError
from changelog_engine.ledger import committer as commit_module
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.operators import part_stream
from changelog_engine.operators.part_stream import PartStream
from changelog_engine.operators.store import KeyedStore
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage
from materializer.fold import state_at

ELEMENTS = rounds(3, 30)
COUNTS = {0: 10, 1: 10, 2: 10}


class KeepLarge(KeyedProcessFunction):
    """Keeps a large string with each element."""

    def open(self, runtime_context: Any) -> None:
        self.large = runtime_context.get_state(ValueStateDescriptor("large", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.large.update(large(value[1]))
        yield value


def large(number: int) -> str:
    """2,000 characters that do not compress to less than half."""
    return random.Random(number).randbytes(1_000).hex()


def graph(elements: list[Any] = ELEMENTS, parallelism: int = 1, function: Any = None) -> Any:
    return keyed_job(elements, function or Count(), key_type=Types.LONG(), parallelism=parallelism)


EXPECTED = by_key(counted(ELEMENTS))


def final_counts(job: TestJob) -> dict[Any, Any]:
    return state_at(job.table()).states["process", "count"]


def committed_parts(job: TestJob) -> list[Any]:
    log = find_job_folder(job.settings.base_path, "job").open_changelog()
    return part_files(log.files())


@contextlib.contextmanager
def small_buffers(rows: int) -> Iterator[None]:
    with mock.patch.object(part_stream, "FLUSH_ROWS", rows):
        yield


def test_case_1_uploads_ahead_and_only_once(tmp_path: Path) -> None:
    """At the threshold mutations are uploaded ahead of the barrier; what is durable is never uploaded again."""
    job = TestJob(tmp_path, Script(sizes=(10,), barriers=(False, False, True)), part_max_bytes=1)
    written: list[str] = []
    finish = PartWriter.finish

    def noted(writer: PartWriter) -> Any:
        part = finish(writer)
        written.append(part.path)
        return part

    with small_buffers(4), mock.patch.object(PartWriter, "finish", noted):
        job.run(graph())
    ahead = [part for reports in job.reports[:2] for report in reports for part in report.parts]
    assert ahead, "nothing was uploaded before the barrier"
    assert len(written) == len(set(written))
    committed = [part for part in committed_parts(job) if part.name is not None]
    assert sorted(part.path for part in committed) == sorted(written)
    assert sum(part.rows for part in committed) == len(ELEMENTS)
    assert final_counts(job) == COUNTS


def test_case_1_large_values_are_encoded_ahead_by_their_bytes(tmp_path: Path) -> None:
    """Once it is known how large mutations are, the barrier finds few of them, however many elements there are."""
    job = TestJob(tmp_path, Script(sizes=(15, 15), barriers=(True, True)))
    waiting: list[int] = []
    flush = PartStream._flush

    def noted(parts: PartStream) -> None:
        waiting.append(parts._buffer.rows())
        flush(parts)

    with (
        mock.patch.object(part_stream, "FLUSH_BYTES", 100),
        mock.patch.object(part_stream, "_FIRST_ROWS", 6),
        mock.patch.object(PartStream, "_flush", noted),
    ):
        job.run(graph())
    assert waiting[0] == 6
    assert len(waiting) > 6
    assert max(waiting[3:]) < 5  # a block of 15 is cut when it comes
    assert final_counts(job) == COUNTS


def test_case_1_what_waits_is_encoded_and_compressed_before_the_last_elements(tmp_path: Path) -> None:
    """So that little is left to do between barrier and acknowledgement, however much an epoch changed."""
    elements = [(number % 1_000, number) for number in range(60_000)]
    job = TestJob(tmp_path, Script(sizes=(60_000,)))
    waiting: list[tuple[int, int]] = []
    end_epoch = KeyedStore.end_epoch

    def noted(store: Any, order: Any) -> Any:
        writer = store.parts._writer
        waiting.append((store.buffer.rows(), 0 if writer is None else writer._waiting_rows))
        return end_epoch(store, order)

    with mock.patch.object(KeyedStore, "end_epoch", noted):
        job.run(graph(elements))
    assert 0 < max(waiting)[0] <= 16_384
    assert max(ahead for _, ahead in waiting) == 0
    assert final_counts(job) == dict.fromkeys(range(1_000), 60)


def test_case_1_of_large_values_the_barrier_finds_a_megabyte(tmp_path: Path) -> None:
    """Their last elements are fewer, and the step before them is cut; a part that is half full by then is durable."""
    elements = [(number % 1_000, number) for number in range(12_000)]
    job = TestJob(tmp_path, Script(sizes=(6_000,)))
    waiting: list[tuple[int, int, int]] = []
    end_epoch = KeyedStore.end_epoch

    def noted(store: Any, order: Any) -> Any:
        writer = store.parts._writer
        open_part = (0, 0) if writer is None else (writer._waiting_bytes, writer.size)
        waiting.append((store.buffer.rows(), *open_part))
        return end_epoch(store, order)

    with mock.patch.object(KeyedStore, "end_epoch", noted):
        job.run(keyed_job(elements, KeepLarge(), key_type=Types.LONG()))
    rows, compressed, size = waiting[1]  # the first epoch does not know yet how large they are
    assert 0 < rows * 2_000 <= 1 << 20
    assert compressed == 0
    assert size < 4 << 20
    assert sum(part.size for report in job.reports[1] for part in report.parts) > 4 << 20
    assert state_at(job.table()).states["process", "large"] == {
        key: large(11_000 + key) for key in range(1_000)
    }


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
def test_case_1_only_a_log_shortens_steps(tmp_path: Path, changelog: bool) -> None:
    """Until it is known how large mutations are; where none are logged, nothing has to be known."""
    job = TestJob(tmp_path, Script(sizes=(15,)), changelog=changelog)
    steps: list[int] = []
    step = PartStream.step

    def noted(parts: PartStream, most: int, left: int | None) -> int:
        steps.append(step(parts, most, left))
        return steps[-1]

    with mock.patch.object(PartStream, "step", noted):
        job.run(graph())
    assert steps[0] == (1_024 if changelog else 16_384)
    assert set(steps[1:]) == {16_384}
    assert final_counts(job) == COUNTS


def test_case_1_parts_stay_small_and_in_order(tmp_path: Path) -> None:
    job = TestJob(tmp_path, Script(sizes=(30,)), part_max_bytes=1)
    with small_buffers(1):
        job.run(graph())
    sequences = sorted(
        (part.first_sequence, part.rows) for reports in job.reports for r in reports for part in r.parts
    )
    for (first, rows), (following, _) in itertools.pairwise(sequences):
        assert first + rows == following


@pytest.mark.parametrize("parallelism", [1, 2])
def test_case_2_a_failed_upload_fails_that_range_only(tmp_path: Path, parallelism: int) -> None:
    """The epoch of the upload goes back to its checkpoint; earlier ranges stay, later ones work."""
    job = TestJob(tmp_path, Script(sizes=(5,)))
    inner, calls = LocalDisk.write_durable, []

    def write_durable(storage: Storage, path: str, data: Any, background: bool = False) -> Any:
        if path.startswith("part-"):
            calls.append(path)
            if len(calls) == 3:
                raise StorageError("the upload failed")
        return inner(storage, path, data, background)

    with mock.patch.object(LocalDisk, "write_durable", write_durable):
        job.run(graph(parallelism=parallelism))
    assert job.coordinator.restarts.count == 1
    assert by_key(job.output) == EXPECTED
    assert final_counts(job) == COUNTS
    assert sum(part.rows for part in committed_parts(job)) == len(ELEMENTS)


@pytest.mark.parametrize("changelog", [True, False])
def test_case_3_changes_of_an_aborted_checkpoint_are_in_the_next(tmp_path: Path, changelog: bool) -> None:
    script = Script(sizes=(5,), failures=(Failure(2, Fault.COMMIT_FAILS), Failure(4, Fault.COMMIT_FAILS)))
    job = TestJob(tmp_path, script, tolerable_failures=1, changelog=changelog)
    job.run(graph(function=Keep()))
    assert job.coordinator.restarts.count == 0
    assert [stats.checkpoint for stats in job.stats][:5] == [1, None, 2, None, 3]
    kept = state_at(job.table(), allow_pickle=True).states["process", "kept"]
    assert kept == {key: [element for element in ELEMENTS if element[0] == key] for key in range(3)}
    assert by_key(job.output) == EXPECTED


class ClearedByTimer(Keep):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 5)
        return super().process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.kept.clear()
        yield from ()


def test_case_3_what_only_a_timer_changed_waits_for_a_checkpoint_too(tmp_path: Path) -> None:
    """Also where no log says that anything has changed."""
    job = TestJob(
        tmp_path,
        Script(sizes=(1,), barriers=(False,)),
        lambda: 1_000 + 10 * job.progress.epoch,
        changelog=False,
    )  # type: ignore[union-attr]
    job.run(graph(function=ClearedByTimer()))
    moved = [any(report.moved for report in reports if report.stage) for reports in job.reports[:4]]
    assert moved == [False, True, True, True]


def test_case_3_output_of_an_aborted_checkpoint_waits_for_the_next(tmp_path: Path) -> None:
    script = Script(sizes=(5,), failures=(Failure(2, Fault.COMMIT_FAILS), Failure(3, Fault.PARTS)))
    job = TestJob(tmp_path, script, tolerable_failures=1)
    with pytest.raises(DriverKilled):
        job.run_driver(graph())
    assert len(job.output) == 5
    job.run(graph())
    assert by_key(job.output) == EXPECTED


def test_case_5_transient_storage_errors_are_retried(tmp_path: Path) -> None:
    """Two I/O errors in a row are nothing that the job notices."""
    with failing_fsync(tmp_path, iter([errno.EIO, errno.EIO, 0, errno.ETIMEDOUT, 0])) as (job, tried):
        job.run(graph())
    assert tried
    assert final_counts(job) == COUNTS


def test_case_5_retries_are_bounded(tmp_path: Path) -> None:
    with failing_fsync(tmp_path, iter([errno.EIO] * 1000)) as (job, tried):
        with pytest.raises(JobExecutionError, match=r"after 4 tries"):
            job.run(graph())
        assert len(tried) <= 8


def test_case_5_other_errors_are_not_retried(tmp_path: Path) -> None:
    with failing_fsync(tmp_path, iter([errno.ENOSPC] * 1000)) as (job, tried):
        with pytest.raises(JobExecutionError, match="disk full"):
            job.run(graph())
        assert len(tried) == 1


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
@pytest.mark.parametrize(
    ("harm", "told"), [(os.remove, "is missing"), (lambda path: os.truncate(path, 0), "can't be read")]
)
@pytest.mark.parametrize("times", [1, 9])
def test_case_5_a_part_that_is_gone_before_its_commit_is_written_again(
    tmp_path: Path, changelog: bool, harm: Callable[[str], None], told: str, times: int
) -> None:
    """It was not acknowledged, so nothing is lost. Where somebody goes on removing them, that is not done for ever."""
    verify_parts, harmed = commit_module.verify_parts, []

    def too_late(storage: Storage, parts: Sequence[Part]) -> list[AddFile]:
        if parts and len(job.commits) == 2 and len(harmed) < times:
            harmed.append(storage.place(parts[0].path))
            harm(harmed[-1])
        return verify_parts(storage, parts)

    job = TestJob(tmp_path, Script(sizes=(4,)), changelog=changelog, tolerable_failures=5)
    with mock.patch.object(commit_module, "verify_parts", too_late):
        if times > 1:
            with pytest.raises(JobExecutionError, match=f"{told}.*\n.*seen 3 times"):
                job.run(graph())
            harmed += [""] * times
        job.run(graph())
        assert times > 1 or job.coordinator.restarts.count == 1
    assert by_key(job.output) == EXPECTED
    assert final_counts(job) == COUNTS


@contextlib.contextmanager
def failing_fsync(folder: Path, codes: Iterator[int]) -> Iterator[tuple[TestJob, list[int]]]:
    """A job whose folder is there, and whose disk fails so at the next fsyncs; 0 does not."""
    job, tried = TestJob(folder, Script(sizes=(10,)), restart=NO_RESTART), []
    job.run(graph(ELEMENTS[:0]))

    def strike(call: Call) -> None:
        code = next(codes, 0)
        if code:
            tried.append(code)
            raise OSError(code, os.strerror(code))

    with MemoryDisk(str(folder)).mounted() as disk, mock.patch("time.sleep"):
        disk.on("fsync|sync", strike, times=10_000)
        yield job, tried


STEPS = {
    "coordinator 1: while a subtask runs": Failure(3, Fault.DRIVER, 1, 0),
    "coordinator 2: parts, no commit": Failure(3, Fault.PARTS),
    "coordinator 4: output handed out": Failure(3, Fault.HANDED_OUT),
}


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
@pytest.mark.parametrize("step", STEPS)
def test_case_7_crash_at_an_edge_of_the_epoch(tmp_path: Path, step: str, changelog: bool) -> None:
    job = TestJob(tmp_path, Script(sizes=(4,), failures=(STEPS[step],)), changelog=changelog)
    job.run(graph(parallelism=2))
    assert job.drivers == 2
    assert by_key(job.output) == EXPECTED
    assert final_counts(job) == COUNTS


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
def test_case_7_crash_between_commit_and_output(tmp_path: Path, changelog: bool) -> None:
    """Collected output dies with the driver that held it; it never comes twice, and the state is exact."""
    job = TestJob(tmp_path, Script(sizes=(4,), failures=(Failure(3, Fault.COMMITTED),)), changelog=changelog)
    job.run(graph())
    lost = counted(ELEMENTS)[8:12]
    assert job.output == [out for out in counted(ELEMENTS) if out not in lost]
    assert final_counts(job) == COUNTS


COMMIT_STEPS = {
    "commit 1: before the parts are verified": (commit_module, "verify_parts", "before"),
    "commit 1: after the parts are verified": (commit_module, "verify_parts", "after"),
    "commit 2: before the row is written": (commit_module, "checkpoint_row", "before"),
    "commit 2: after the row is written": (commit_module, "checkpoint_row", "after"),
    "commit 3 and 4: before the commit": (commit_module, "commit_fenced", "before"),
    "commit 4: before the compare-and-swap": (DeltaLog, "commit", "before"),
    "commit 4: after the compare-and-swap": (DeltaLog, "commit", "after"),
    "commit 4: after the commit": (commit_module, "commit_fenced", "after"),
}


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
@pytest.mark.parametrize("step", COMMIT_STEPS)
def test_case_7_crash_at_a_step_of_the_commit(tmp_path: Path, step: str, changelog: bool) -> None:
    """The checkpoint is whole or absent; what was handed out never comes again."""
    owner, name, when = COMMIT_STEPS[step]
    job = TestJob(tmp_path, Script(sizes=(4,)), changelog=changelog)
    inner, calls = getattr(owner, name), []
    due = 8 if owner is DeltaLog else 3  # the attempt and other commits go through DeltaLog too

    def dying(*arguments: Any, **more: Any) -> Any:
        calls.append(name)
        if len(calls) == due and when == "before":
            raise DriverKilled(step)
        result = inner(*arguments, **more)
        if len(calls) == due and when == "after":
            raise DriverKilled(step)
        return result

    with mock.patch.object(owner, name, dying):
        job.run(graph())
    assert job.drivers == 2
    assert len(set(job.output)) == len(job.output), "output came twice"
    assert set(counted(ELEMENTS)) - set(job.output) <= set(counted(ELEMENTS)[8:40]), "output was lost"
    assert len(job.output) >= len(ELEMENTS) - 4
    assert final_counts(job) == COUNTS


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
@pytest.mark.parametrize("tolerable", [0, 3])
def test_case_8_commit_succeeded_but_was_reported_as_failed(
    tmp_path: Path, changelog: bool, tolerable: int
) -> None:
    script = Script(sizes=(4,), failures=(Failure(2, Fault.COMMIT_LIES), Failure(5, Fault.COMMIT_LIES)))
    job = TestJob(tmp_path, script, changelog=changelog, tolerable_failures=tolerable)
    job.run(graph(function=Keep()))
    assert by_key(job.output) == EXPECTED
    kept = state_at(job.table(), allow_pickle=True).states["process", "kept"]
    assert kept == {key: [element for element in ELEMENTS if element[0] == key] for key in range(3)}
    assert len({checkpoint.id for checkpoint in job.commits}) == len(job.commits)


def test_case_8_the_storage_lies(tmp_path: Path) -> None:
    """The error comes from under the commit: it is found to have succeeded, and the job does not even restart."""
    inner, calls = DeltaLog.commit, []

    def commit(log: DeltaLog, *arguments: Any, **more: Any) -> Any:
        result = inner(log, *arguments, **more)
        calls.append(result)
        if len(calls) in (3, 5):
            raise StorageError("timed out")
        return result

    job = TestJob(tmp_path, Script(sizes=(4,)), restart=NO_RESTART)
    with mock.patch.object(DeltaLog, "commit", commit):
        job.run(graph())
    assert by_key(job.output) == EXPECTED
    assert final_counts(job) == COUNTS


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
@pytest.mark.parametrize("tolerable", [0, 2])
def test_case_8_the_storage_lies_and_does_not_answer_for_a_while(
    tmp_path: Path, changelog: bool, tolerable: int
) -> None:
    """Whichever commit it is, and however many looks fail: the driver goes on from what is in the log, by itself."""
    put, refresh, begin = LocalDisk.put_if_absent, DeltaLog.refresh, Lineage.__init__
    calls, silent = itertools.count(), iter(())

    def lies(disk: LocalDisk, path: str, data: Any) -> bool:
        nonlocal silent
        done = put(disk, path, data)
        if "changelog" in disk.root and next(calls) == at:
            silent = iter(range(looks))
            raise StorageError("timed out")
        return done

    def fails(look: Callable[..., Any]) -> Callable[..., Any]:
        def may_fail(*arguments: Any) -> Any:
            if next(silent, None) is not None:
                raise StorageError("does not answer")
            return look(*arguments)

        return may_fail

    for at, looks in itertools.product(range(1, 4), (0, 1, 3)):
        calls, silent = itertools.count(), iter(())
        job = TestJob(tmp_path / f"{at} {looks}", Script(sizes=(4,)), changelog=changelog)
        with (
            mock.patch.object(LocalDisk, "put_if_absent", lies),
            mock.patch.object(DeltaLog, "refresh", fails(refresh)),
            mock.patch.object(Lineage, "__init__", fails(begin)),
        ):
            job.run_driver(graph(), tolerable_failures=tolerable)
        assert by_key(job.output) == EXPECTED
        assert final_counts(job) == COUNTS


def test_no_checkpoint_id_is_used_twice(tmp_path: Path) -> None:
    failures = tuple(Failure(epoch, Fault.PARTS) for epoch in (2, 4, 6))
    job = TestJob(tmp_path, Script(sizes=(3,), failures=failures))
    job.run(graph())
    lineage = Lineage(find_job_folder(str(tmp_path), "job").open_changelog())
    assert sorted(lineage.checkpoints) == [checkpoint.id for checkpoint in job.commits]


NOTED: list[tuple[str, str, Any]] = []  # what, split, position or flag


def number(position: Any) -> int:
    """The next number: of a position as checkpoints keep it, or as ``read`` gives it."""
    found: int = position[0] if isinstance(position, list) else position
    return found


class ToldReader(NumberSequenceReader):
    """Notes what it is told."""

    def __init__(self, split: str) -> None:
        super().__init__(int(split.partition("..")[2]))
        self.split = split

    def begin_epoch(self, durable: bool) -> None:
        NOTED.append(("begins", self.split, durable))

    def read(self, position: Any, max_records: int) -> Range:
        return super().read(number(position), max_records)

    def at_barrier(self, position: Any) -> Any:
        return [number(position)]

    def acknowledged(self, position: Any) -> None:
        NOTED.append(("told", self.split, number(position)))


class Told(NumberSequenceSource):
    """Numbers, from a source that is told what is durable."""

    acknowledges = True

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("0..9", 0), Split("10..99", 10)]

    def reader(self, split: Split) -> ToldReader:
        return ToldReader(split.id)


class Noting(TestJob):
    """Notes where each checkpoint has the splits."""

    def on_commit(self, checkpoint: Any) -> None:
        (splits,) = checkpoint.sources.values()
        for split, (position, finished) in splits.items():
            assert finished or type(position) is list
            NOTED.append(("durable", split, number(position)))


def told(base: Path, script: Script, **settings: Any) -> None:
    """Run a job whose source is told."""
    NOTED.clear()
    build = GraphBuilder()
    build.collect(build.source(Told(0, 99)))
    job = Noting(base, script, **settings)
    job.run(build.graph())
    assert sorted(job.output) == list(range(100))


@pytest.mark.parametrize("barriers", [(True,), (False, True), (False, False, True)])
def test_case_3_a_source_is_told_once_of_what_a_checkpoint_has(
    tmp_path: Path, barriers: tuple[bool, ...]
) -> None:
    """What is acknowledged is gone from the system that it came from: not before it is durable."""
    fails = (Failure(6, Fault.COMMIT_FAILS),)
    told(tmp_path, Script((7,), barriers, fails), tolerable_failures=1)
    durable: dict[str, int] = {}
    acknowledged: dict[str, list[int]] = {"0..9": [], "10..99": []}
    for what, split, position in NOTED:
        if what == "durable":
            durable[split] = position
        elif what == "told":
            assert position == durable[split]
            acknowledged[split].append(position)
    for split, positions in acknowledged.items():
        assert positions == sorted(set(positions))
        assert positions[-1] == durable[split]
    assert {flag for what, _, flag in NOTED if what == "begins"} == set(barriers)


def test_without_checkpoints_each_epoch_is_as_durable_as_it_will_be(tmp_path: Path) -> None:
    told(tmp_path, Script((7,), (False,)), checkpoint_interval_ms=None, changelog=False)
    assert {flag for what, _, flag in NOTED if what == "begins"} == {True}


class EndsLaterReader(NumberSequenceReader):
    """Says that it has come to the end when it is asked for more."""

    def read(self, position: Any, max_records: int) -> Range:
        found = super().read(position, max_records)
        return found._replace(finished=not found.values)


class EndsLater(NumberSequenceSource):
    """Numbers, whose end comes without any."""

    def reader(self, split: Split) -> EndsLaterReader:
        return EndsLaterReader(int(split.id.split("..")[1]))


def test_case_3_an_end_that_comes_without_elements_is_in_the_last_checkpoint(tmp_path: Path) -> None:
    build = GraphBuilder()
    build.collect(build.source(EndsLater(0, 9)))
    job = TestJob(tmp_path, Script((5,), (True,)))
    job.run(build.graph())
    assert job.output == list(range(10))
    assert job.commits[-1].finished
