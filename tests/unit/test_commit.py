"""The acknowledgement (reliability 3, 7, 8, 12): one commit, verified, all or nothing."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from support.memory_disk import MemoryDisk
from test_commit_helpers import Driver, state_at

from changelog_engine.errors import CorruptChangelogError, StorageError
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import (
    CommittedAfterAllError,
    attempt_of_this_process,
    attempt_row,
    begin_attempt,
    checkpoint_row,
)
from changelog_engine.ledger.snapshots import snapshot_of
from changelog_engine.storage.damaged import reading
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_checkpoints import shorten
from changelog_engine.storage.delta_log import CommitConflictError, DeltaLog
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.retry import storage_error
from materializer.materialize import materialize
from materializer.sweep import sweep


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[MemoryDisk]:
    """The disk of the test's folder."""
    with MemoryDisk(str(tmp_path)).mounted() as mounted:
        yield mounted


def test_a_checkpoint_is_one_commit(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    before = driver.log.version
    parts = [driver.part({"a": 1}), driver.part({"b": 2}), driver.part({"c": 3}, subtask=1)]
    row = driver.row(parts)
    driver.committer.commit(row, parts)
    assert driver.log.version == before + 1
    assert Lineage(driver.log).checkpoint(1) == row
    assert state_at(driver.folder, row) == {"a": 1, "b": 2, "c": 3}
    files = driver.log.files()
    own = next(file for file in files.to_pylist() if file["path"] == parts[0].path)
    assert (own["num_records"], own["min.operation"], own["max.operation"]) == (1, "put", "put")
    assert (own["min.checkpoint_id"], own["min.attempt"], own["min.key_group"]) == (1, 1, 1)
    assert own["min.operator"] == "count"


def test_the_table_reads_as_plain_delta(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    table = deltalake.DeltaTable(str(tmp_path / "job" / "changelog")).to_pyarrow_table().sort_by("operation")
    assert table["operation"].to_pylist() == ["attempt", "checkpoint", "put"]


def test_parts_are_verified(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    part = driver.part({"a": 1, "b": 2})
    row = driver.row([part])
    version = driver.log.version
    for wrong, words in (
        (part._replace(path=part.path.replace("part-1", "part-9")), "is missing"),
        (part._replace(size=part.size + 1), "has .* bytes"),
        (part._replace(rows=3), "has 2 rows, its subtask wrote 3"),
        (part._replace(rows=1), "has 2 rows, its subtask wrote 1"),
        (part._replace(first_sequence=1), "0 is due"),
        (part._replace(attempt=7), "belongs to"),
        (part._replace(checkpoint_id=7), "belongs to"),
    ):
        with pytest.raises(CorruptChangelogError, match=words):
            driver.committer.commit(row, [wrong])
    with pytest.raises(CorruptChangelogError, match="says 1 parts, 2 came"):
        driver.committer.commit(row, [part, part])
    assert driver.log.refresh() == version
    driver.committer.commit(row, [part])
    driver.last = row
    gap = driver.part({"c": 3})._replace(first_sequence=5)
    with pytest.raises(CorruptChangelogError, match="begins at sequence number 5, 2 is due"):
        driver.committer.commit(driver.row([gap]), [gap])
    again = driver.part({"d": 4})._replace(first_sequence=0)
    with pytest.raises(CorruptChangelogError, match="begins at sequence number 0, 2 is due"):
        driver.committer.commit(driver.row([again]), [again])


def test_ids_follow_on(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    part = driver.part({"a": 2})
    row = driver.row([part])
    for wrong in ({"id": 5}, {"parent": None}, {"attempt": 9}):
        with pytest.raises(StorageError, match="is not the next one"):
            driver.committer.commit(type(row)(**{**row.__dict__, **wrong}), [part])
    driver.committer.commit(row, [part])


def test_commit_succeeded_but_was_reported_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver.start(tmp_path)
    real = DeltaLog.commit

    def lies(self: DeltaLog, adds: list[AddFile], *args: object, **more: object) -> int:
        real(self, adds, *args, **more)
        self.version -= 1
        raise StorageError("connection lost")

    monkeypatch.setattr(DeltaLog, "commit", lies)
    row = driver.checkpoint({"a": 1})
    monkeypatch.setattr(DeltaLog, "commit", real)
    driver.checkpoint({"b": 2})
    assert state_at(driver.folder, driver.last) == {"a": 1, "b": 2}
    assert Lineage(driver.log).checkpoint(1) == row


def test_commit_succeeded_but_was_reported_as_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver.start(tmp_path)
    real = DeltaLog.commit
    lied = []

    def lies(self: DeltaLog, adds: list[AddFile], *args: object, **more: object) -> int:
        version = real(self, adds, *args, **more)
        if not lied:
            lied.append(1)
            self.version -= 1
            raise CommitConflictError("retried by the client")
        return version

    monkeypatch.setattr(DeltaLog, "commit", lies)
    driver.checkpoint({"a": 1})
    driver.checkpoint({"b": 2})
    assert driver.log.version == 3
    assert state_at(driver.folder, driver.last) == {"a": 1, "b": 2}


def test_commit_failed_and_is_tried_again_with_more_parts(tmp_path: Path, disk: MemoryDisk) -> None:
    driver = Driver.start(tmp_path)
    first = driver.part({"a": 1})
    disk.fail("link", errno.ENOSPC)
    with pytest.raises(StorageError, match="disk full"):
        driver.committer.commit(driver.row([first]), [first])
    assert Lineage(driver.log).newest_checkpoint() is None
    parts = [first, driver.part({"a": 2})]  # changes of the failed checkpoint are in the next one
    row = driver.row(parts)
    driver.committer.commit(row, parts)
    assert state_at(driver.folder, row) == {"a": 2}


@pytest.mark.parametrize("call", ["create", "write", "fsync", "rename", "link", "sync"])
def test_disk_full_at_every_step(tmp_path: Path, disk: MemoryDisk, call: str) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    failed = 0
    for failing_call in range(1, 5):
        part = driver.part({"a": failing_call + 1})
        row = driver.row([part])
        disk.fail(call, errno.ENOSPC, after=failing_call - 1)
        try:
            driver.committer.commit(row, [part])
        except StorageError:
            failed += 1
            disk.heal()
            assert state_at(driver.folder, driver.last) == {"a": failing_call}
            driver.committer.commit(row, [part])
        disk.heal()
        driver.last = row
        assert state_at(driver.folder, row) == {"a": failing_call + 1}
    assert failed
    assert Driver.start(tmp_path).last == row


def test_an_older_commit_in_the_place_of_the_newest_is_damage(tmp_path: Path) -> None:
    """Behind a Delta checkpoint it passed for one checkpoint less."""
    driver = Driver.start(tmp_path)
    for number in range(4):
        driver.checkpoint({"a": number})
    commits = tmp_path / "job" / "changelog" / "_delta_log"
    older = (commits / f"{driver.log.version - 1:020}.json").read_bytes()
    shorten(driver.folder.changelog, 1)
    driver.checkpoint({"a": 5})
    newest = commits / f"{driver.log.version:020}.json"
    newest.write_bytes(older)
    with pytest.raises(CorruptChangelogError, match="an older commit in the place of a newer one") as raised:
        Lineage(driver.folder.open_changelog())
    assert raised.value.path == str(newest)


def test_an_older_commit_of_an_attempt_in_the_place_of_the_newest_is_damage(tmp_path: Path) -> None:
    """Behind a Delta checkpoint it passed for one attempt less, with whose number another driver could go on."""
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    log = driver.folder.open_changelog()
    begin_attempt(log, 1, 1)
    commits = tmp_path / "job" / "changelog" / "_delta_log"
    older = (commits / f"{log.version:020}.json").read_bytes()
    begin_attempt(log, 2, 1)
    shorten(driver.folder.changelog, 1)
    begin_attempt(log, 3, 1)
    newest = commits / f"{log.version:020}.json"
    Lineage(driver.folder.open_changelog())
    newest.write_bytes(older)
    with pytest.raises(CorruptChangelogError, match="an older commit in the place of a newer one") as raised:
        Lineage(driver.folder.open_changelog())
    assert raised.value.path == str(newest)


class Lying(MemoryDisk):
    """A disk that links a file as it is asked to, and then cannot make that durable for a while."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.lying = self.silent = False

    def link(self, source: str, target: str) -> None:
        """See DiskCalls."""
        super().link(source, target)
        self.lying, self.silent = False, self.lying

    def sync_path(self, path: str) -> None:
        """See DiskCalls."""
        if self.silent:
            raise OSError(errno.EIO, "still lost", path)
        super().sync_path(path)


@pytest.fixture
def lying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lying]:
    """The disk of the test's folder."""
    disk = Lying(str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with disk.mounted():
        yield disk


def no_looks(lying: Lying, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a commit is there cannot be seen either."""
    looks = DeltaLog.refresh

    def refresh(log: DeltaLog) -> int:
        if lying.silent:
            raise StorageError("still lost")
        return looks(log)

    monkeypatch.setattr(DeltaLog, "refresh", refresh)


@pytest.mark.parametrize("seen", [True, False])
def test_unknown_outcome_then_another_checkpoint_is_refused(
    tmp_path: Path, lying: Lying, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row was seen but not made durable, or could not be looked for: no second one is committed."""
    driver = Driver.start(tmp_path)
    part = driver.part({"a": 1})
    row = driver.row([part])
    lying.lying = True
    with monkeypatch.context() as patch:
        if not seen:
            no_looks(lying, patch)
        with pytest.raises(StorageError, match="still lost"):
            driver.committer.commit(row, [part])
    lying.silent = False
    again = [part, driver.part({"a": 2})]
    for _ in range(2):
        with pytest.raises(
            CommittedAfterAllError, match=r"checkpoint 1 of this driver .* reported as failed"
        ):
            driver.committer.commit(driver.row(again), again)
        with pytest.raises(CommittedAfterAllError, match="checkpoint 1 of this driver"):
            begin_attempt(driver.log, 1, None)
    driver.committer.commit(row, [part])  # the same checkpoint is found to be there
    assert Driver.start(tmp_path).last == row == Lineage(driver.log).checkpoint(1)


@pytest.mark.parametrize("seen", [True, False])
def test_an_attempt_that_began_after_all_is_nobody_elses(
    tmp_path: Path, lying: Lying, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver took the row of its own for another driver's, or began a second attempt of the same number."""
    driver = Driver.start(tmp_path)
    row = driver.checkpoint({"a": 1})
    lying.lying = True
    with monkeypatch.context() as patch:
        if not seen:
            no_looks(lying, patch)
        with pytest.raises(StorageError, match="still lost"):
            begin_attempt(driver.log, 1, 1)
    lying.silent = False
    attempt = begin_attempt(driver.log, 1, 1)
    assert attempt.id == 3
    assert sorted(Lineage(driver.log).attempts) == [1, 2, 3]
    assert Driver.start(tmp_path).last == row


def test_the_materializer_may_commit_in_between(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    other = DeltaLog(open_storage(str(tmp_path / "job" / "changelog")))
    other.commit([AddFile("merged-1.parquet", 1, 0, {"numRecords": 0})])
    other.commit([], ["merged-1.parquet"])
    driver.checkpoint({"b": 2})
    assert state_at(driver.folder, driver.last) == {"a": 1, "b": 2}


def test_snapshots_replace_the_log_when_it_is_off(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.snapshot({"a": 1})
    driver.snapshot({"a": 2, "b": 1})
    last = driver.snapshot({"b": 5})
    assert state_at(driver.folder, last) == {"b": 5}
    assert state_at(driver.folder, Lineage(driver.log).checkpoint(2)) == {"a": 2, "b": 1}
    gone = driver.committer.retire_snapshots({3})
    assert len(gone) == 4  # two parts and two rows
    assert state_at(driver.folder, last) == {"b": 5}
    assert driver.committer.retire_snapshots({3}) == []
    names = [name for name in os.listdir(tmp_path / "job" / "snapshots") if name.endswith(".parquet")]
    assert len(names) == 2


def test_snapshots_that_were_made_from_the_log_are_not_retired(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    of_the_log = driver.checkpoint({"a": 1})
    materialize(driver.folder)
    driver.snapshot({"a": 2})
    last = driver.snapshot({"a": 3})
    assert len(driver.committer.retire_snapshots({last.id})) == 2
    snapshots = driver.folder.open_snapshots()
    listed = set(snapshots.files()["path"].to_pylist())
    assert listed <= {entry.name for entry in snapshots.storage.list()}
    assert {snapshot_of(path) for path in listed} == {(of_the_log.id, 1), (last.id, 1)}


def test_the_list_of_snapshots_is_read_again_when_others_have_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, read, files = Driver.start(tmp_path), [], DeltaLog.files

    def noted(log: DeltaLog) -> pa.Table:
        read.append(log)
        return files(log)

    monkeypatch.setattr(DeltaLog, "files", noted)
    gone: list[str] = []
    for value in range(5):
        gone += driver.committer.retire_snapshots({driver.snapshot({"a": value}).id})
    assert (len(gone), len(read)) == (8, 1)
    other = driver.folder.open_snapshots()
    other.commit([AddFile(gone[0], 1, 0, {"numRecords": 0})])  # of a snapshot that is older than what is kept
    last = driver.snapshot({"a": 5})
    assert gone[0] in files(other)["path"].to_pylist()
    driver.committer.retire_snapshots({last.id})
    assert len(read) == 2
    assert {snapshot_of(path) for path in files(other)["path"].to_pylist()} == {(last.id, 1)}
    assert state_at(driver.folder, last) == {"a": 5}


def test_snapshots_whose_removal_is_not_committed_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver.start(tmp_path)
    first = driver.snapshot({"a": 1})
    driver.snapshot({"a": 2})

    def overtaken(*given: object, **named: object) -> int:
        raise CommitConflictError("another was faster")

    monkeypatch.setattr(DeltaLog, "commit", overtaken)
    with pytest.raises(StorageError, match="others committed 20 times in between"):
        driver.committer.retire_snapshots({2})
    assert state_at(driver.folder, first) == {"a": 1}


def test_a_snapshot_whose_commit_was_seen_is_durable_before_its_checkpoint(
    tmp_path: Path, disk: MemoryDisk
) -> None:
    driver = Driver.start(tmp_path)
    driver.snapshot({"a": 1})
    disk.fail("sync", errno.EIO, times=4, path="snapshots/_delta_log$")
    row = driver.snapshot({"a": 2})  # the name is there; that it is not durable is made up for
    for seed in range(8):
        cut = tmp_path.parent / f"{tmp_path.name}-cut-{seed}"
        disk.cut(disk.now, random.Random(seed), str(cut))
        assert state_at(find_job_folder(str(cut), "job"), row) == {"a": 2}


def test_no_snapshot_is_deleted_before_its_removal_is_durable(tmp_path: Path, disk: MemoryDisk) -> None:
    driver = Driver.start(tmp_path)
    driver.snapshot({"a": 1})
    driver.snapshot({"a": 2})
    for _ in range(2):  # the second call finds the commit of the first, whose name is not durable
        disk.fail("sync", errno.EIO, times=4, path="snapshots/_delta_log$")
        with pytest.raises(StorageError, match="_delta_log"):
            driver.committer.retire_snapshots({2})
    assert len(driver.committer.retire_snapshots({2})) == 2
    assert _listed_are_there(disk, tmp_path)


def test_no_file_is_swept_before_its_removal_is_durable(tmp_path: Path, disk: MemoryDisk) -> None:
    driver = Driver.start(tmp_path)
    driver.snapshot({"a": 1})
    driver.snapshot({"a": 2})
    snapshots = driver.folder.open_snapshots()
    old = [str(path) for path in snapshots.files()["path"].to_pylist() if snapshot_of(path) == (1, 1)]
    disk.fail("sync", errno.EIO, times=4, path="snapshots/_delta_log$")
    with pytest.raises(StorageError, match="_delta_log"):
        snapshots.commit([], old)
    assert sweep((driver.folder.open_snapshots(),), driver.log, 0, lambda: 0.0) == len(old) == 2
    assert _listed_are_there(disk, tmp_path)


def _listed_are_there(disk: MemoryDisk, tmp_path: Path) -> bool:
    """Whether all files that the snapshots table lists are there, whatever a power cut leaves."""
    for seed in range(8):
        cut = tmp_path.parent / f"{tmp_path.name}-cut-{seed}"
        disk.cut(disk.now, random.Random(seed), str(cut))
        table = cut / "job" / "snapshots"
        paths = DeltaLog(open_storage(str(table))).files()["path"].to_pylist()
        if not all((table / path).exists() for path in paths):
            return False
    return True


def test_what_may_still_be_committed_is_not_swept(tmp_path: Path) -> None:
    """However long its driver stood still: a commit would list files that are gone."""
    first = Driver.start(tmp_path)
    first.checkpoint({"a": 1})
    late = first.part({"a": 99})
    driver = Driver.start(tmp_path)
    part = driver.part({"a": 2})
    changelog, row = driver.folder.changelog, driver.row([part])
    begins = attempt_row(changelog, attempt_of_this_process(3, 1, 0))
    may_be = {part.path, checkpoint_row(changelog, row).path, begins.path}
    dead = {
        late.path,
        attempt_row(changelog, attempt_of_this_process(2, 1, 0)).path,
        "merged-1-1-00000000.parquet",
    }
    changelog.write_durable("merged-1-1-00000000.parquet", b"")
    assert sweep((DeltaLog(changelog),), driver.folder.open_changelog(), 0, lambda: 0.0) == len(dead)
    there = {entry.name for entry in changelog.list()}
    assert may_be <= there
    assert not dead & there
    driver.committer.commit(row, [part])
    assert state_at(driver.folder, row) == {"a": 2}


def test_crash_between_snapshot_and_checkpoint_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver.start(tmp_path)
    first = driver.snapshot({"a": 1})
    monkeypatch.setattr(driver.committer, "_commit_row", _raiser(errno.EIO))
    with pytest.raises(OSError, match="injected"):
        driver.snapshot({"a": 2})
    assert Lineage(driver.log).newest_checkpoint() == first
    assert state_at(driver.folder, first) == {"a": 1}
    monkeypatch.undo()
    driver.snapshot({"a": 3})  # the same attempt tries again, with other content
    assert state_at(driver.folder, driver.last) == {"a": 3}
    restarted = Driver.start(tmp_path)
    assert restarted.last == driver.last
    monkeypatch.setattr(restarted.committer, "_commit_row", _raiser(errno.EIO))
    with pytest.raises(OSError, match="injected"):
        restarted.snapshot({"a": 4})
    monkeypatch.undo()
    third = Driver.start(tmp_path)
    third.snapshot({"a": 5})  # a dead attempt left a snapshot with this id
    assert state_at(third.folder, third.last) == {"a": 5}
    fourth = third.snapshot({"a": 6})
    third.committer.retire_snapshots({fourth.id})
    assert state_at(third.folder, fourth) == {"a": 6}


def test_log_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.snapshot({"a": 1, "bb": 1})
    logged = Driver.start(tmp_path)
    part = logged.part({"a": 2})
    row = logged.row([part], snapshot=1)
    logged.committer.commit(row, [part])
    assert state_at(logged.folder, row) == {"a": 2, "bb": 1}


def _raiser(number: int):  # type: ignore[no-untyped-def]
    def fail(*args: object, **more: object) -> None:
        raise OSError(number, "injected")

    return fail


def test_a_disk_that_fails_for_a_moment_does_not_make_a_part_damaged() -> None:
    """A damaged file ends the job for good; an outage does not."""
    for error, damaged in ((OSError(errno.EIO, "Input/output error"), False), (OSError("no footer"), True)):
        with pytest.raises(StorageError, match="could not read") as raised, reading("part"):
            raise storage_error(error, "read", "part", 4) from error
        assert isinstance(raised.value, CorruptChangelogError) == damaged
