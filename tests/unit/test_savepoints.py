"""Savepoint folders: what is accepted, what is refused and why; protections; settings that name savepoints."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support.functions import Count, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.memory_disk import MemoryDisk
from support.script import Script

from api.common import Configuration
from api.common.typeinfo import Types
from api.datastream import StreamExecutionEnvironment
from changelog_engine.errors import (
    ChangelogEngineError,
    ConfigurationError,
    CorruptChangelogError,
    ForeignPathError,
    FormatVersionError,
    JobExecutionError,
    RestoreError,
    StorageError,
)
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder, open_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.process_notes import LONGEST_HOURS
from changelog_engine.ledger.protection import (
    protect,
    protected_checkpoints,
    protected_snapshots,
    protecting,
)
from changelog_engine.savepoints.folder import (
    is_savepoint_path,
    list_savepoints,
    new_savepoint,
    open_savepoint,
)
from changelog_engine.savepoints.requests import SavepointRequests
from changelog_engine.savepoints.writer import SnapshotWriter, create_savepoint
from materializer.fold import state_at


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("base")
    TestJob(base, Script(sizes=(10,))).run(keyed_job(rounds(4, 30), Count(), key_type=Types.LONG()))
    return base


@pytest.fixture
def path(base: Path, tmp_path: Path) -> Path:
    """A savepoint of checkpoint 2."""
    folder = find_job_folder(str(base), "job")
    checkpoint = Lineage(folder.open_changelog()).checkpoint(2)
    return Path(create_savepoint(folder, checkpoint, str(tmp_path)).path)


def test_what_a_savepoint_holds(path: Path) -> None:
    savepoint = open_savepoint(str(path))
    assert (savepoint.path, savepoint.folder.name, savepoint.rows) == (str(path), "job", 4)
    row = savepoint.checkpoint
    assert (row.id, row.attempt, row.parent, row.snapshot) == (2, 1, None, 2)
    assert row.sources == {"source": {"collection": (20, False)}}
    assert savepoint.bytes == sum(file.stat().st_size for file in (path / "snapshots").glob("part-*"))
    marker = json.loads((path / "savepoint.json").read_text())
    assert len(marker.pop("id")) == 32
    assert marker == {"format": 1, "job": "job"}
    savepoint.verify()


def test_any_delta_reader_opens_it(path: Path) -> None:
    files = DeltaTable(path / "snapshots").file_uris()
    assert len(files) == 2
    assert DeltaTable(path / "changelog").protocol().min_reader_version == 1


def test_no_job_runs_in_its_folder(path: Path) -> None:
    with pytest.raises(ForeignPathError, match="savepoint"):
        open_job_folder(str(path.parent), path.name)


def unmarked(path: Path) -> None:
    (path / "savepoint.json").unlink()


def marked_by_others(path: Path) -> None:
    (path / "savepoint.json").write_text("[]")


def newer(path: Path) -> None:
    (path / "savepoint.json").write_text('{"format": 2}')


def newer_table(path: Path) -> None:
    DeltaTable(path / "changelog").alter.set_table_properties(
        {"changelog.format.version": "2"}, raise_if_not_exists=False
    )


def foreign_table(path: Path) -> None:
    shutil.rmtree(path / "changelog")
    write_deltalake(path / "changelog", pa.table({"a": [1]}))


def no_changelog(path: Path) -> None:
    shutil.rmtree(path / "changelog")


def no_snapshots(path: Path) -> None:
    shutil.rmtree(path / "snapshots")


def last_commit_missing(path: Path) -> None:
    (path / "changelog" / "_delta_log" / f"{1:020d}.json").unlink()


def snapshot_not_committed(path: Path) -> None:
    (path / "snapshots" / "_delta_log" / f"{1:020d}.json").unlink()


def cut(path: Path) -> None:
    part = next((path / "snapshots").glob("part-*"))
    part.write_bytes(part.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("harm", "error", "message"),
    [
        (shutil.rmtree, RestoreError, "no such folder"),
        (unmarked, ForeignPathError, "is the folder of a job, not a savepoint"),
        (marked_by_others, CorruptChangelogError, "savepoint.json was changed"),
        (newer, FormatVersionError, "format 2, this engine reads up to 1"),
        (newer_table, FormatVersionError, "format 2, this engine reads up to 1"),
        (foreign_table, ForeignPathError, "is a Delta table, but no changelog"),
        (no_changelog, RestoreError, "never finished"),
        (no_snapshots, RestoreError, "never finished"),
        (last_commit_missing, RestoreError, "never finished"),
        (snapshot_not_committed, CorruptChangelogError, "no complete snapshot of checkpoint 2"),
        (cut, CorruptChangelogError, "bytes, it was written with"),
    ],
)
def test_damaged_and_foreign_folders(
    path: Path, harm: Callable[[Path], None], error: type[ChangelogEngineError], message: str
) -> None:
    harm(path)
    with pytest.raises(error, match=message) as raised:
        open_savepoint(str(path))
    assert str(path) in str(raised.value)


def test_paths_that_are_no_savepoint(path: Path, tmp_path: Path, base: Path) -> None:
    with pytest.raises(RestoreError, match=f"it holds {path.name}: name one of them"):
        open_savepoint(str(tmp_path))
    with pytest.raises(ForeignPathError, match="is a file"):
        open_savepoint(str(path / "savepoint.json"))
    with pytest.raises(ForeignPathError, match="is not a savepoint: it has no"):
        open_savepoint(str(base))


def test_half_written(base: Path, tmp_path: Path) -> None:
    """The writer was killed right after it made the folder."""
    folder = new_savepoint(str(tmp_path), "abcdef", "job")
    [(name, fault)] = list_savepoints(str(tmp_path))
    assert name == folder.slug
    assert isinstance(fault, RestoreError)
    assert "never finished" in str(fault)


def test_an_empty_state(tmp_path: Path) -> None:
    """A job that keeps nothing has savepoints, too."""
    TestJob(tmp_path / "base", Script(sizes=(10,))).run(keyed_job([], Count()))
    folder = find_job_folder(str(tmp_path / "base"), "job")
    savepoint = create_savepoint(folder, Lineage(folder.open_changelog()).checkpoint(1), str(tmp_path))
    assert (savepoint.rows, savepoint.parts) == (0, ())


def test_large_states_are_cut_into_parts(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changelog_engine.savepoints.writer.ROW_GROUP_ROWS", 2)
    monkeypatch.setattr("changelog_engine.savepoints.writer._PART_BYTES", 1)
    folder = find_job_folder(str(base), "job")
    savepoint = create_savepoint(folder, Lineage(folder.open_changelog()).checkpoint(3), str(tmp_path))
    assert [part.rows for part in savepoint.parts] == [2, 2]
    savepoint.verify()
    counts = state_at(savepoint.folder.changelog.root).states["process", "count"]
    assert counts == {0: 8, 1: 8, 2: 7, 3: 7}
    assert SnapshotWriter(folder.snapshots, 1, 1, 0, 0, range(1)).finish() == []


def test_requests_end_with_the_job(base: Path, tmp_path: Path) -> None:
    requests = SavepointRequests(find_job_folder(str(base), "job"))
    with pytest.raises(ConfigurationError, match=r"state\.savepoints\.dir"):
        requests.take(None, "abcdef")
    stopped: list[bool] = []

    def stop() -> None:
        stopped.append(True)
        assert not requests.waiting, "only the last checkpoint will do"
        requests.end(None, None)

    with pytest.raises(JobExecutionError, match="ended without a checkpoint"):
        requests.take(str(tmp_path), "abcdef", stop)
    with pytest.raises(JobExecutionError, match="savepoint create"):
        requests.take(str(tmp_path), "abcdef", stop)
    assert stopped == [True]
    assert list(tmp_path.iterdir()) == []


def test_protections(base: Path, tmp_path: Path) -> None:
    folder = find_job_folder(str(shutil.copytree(base, tmp_path / "base")), "job")
    assert protected_checkpoints(folder) == set()
    with (
        protecting(folder, 3, 2, "test"),
        protecting(folder, 3, None, "test"),
        protecting(folder, 1, None, "x"),
    ):
        assert protected_checkpoints(folder) == {1, 3}
        assert protected_snapshots(folder, lambda: [1, 2]) == {2}
        (folder_file,) = (tmp_path / "base" / "job" / "protected").glob("1-*.json")
        folder_file.write_text("half")
        assert protected_checkpoints(folder) == {1, 3}, "one that can't be read stands"
    assert protected_checkpoints(folder) == set()
    made = protect(folder, 2, None, "test", lambda: 1_000.0)
    assert protected_checkpoints(folder, lambda: 1_000.0 + LONGEST_HOURS * 3600) == {2}
    assert protected_checkpoints(folder, lambda: 1_001.0 + LONGEST_HOURS * 3600) == set()
    (tmp_path / "base" / "job" / made.path).unlink()
    (tmp_path / "base" / "job" / "protected" / "notes.txt").write_text("mine")
    assert protected_checkpoints(folder) == set()
    assert open_job_folder(str(tmp_path / "base"), "job").name == "job"


def test_a_damaged_protection_stands(base: Path, tmp_path: Path) -> None:
    """Whichever bit of it flips: with another pid its owner seemed dead, with another time it seemed old."""
    folder = find_job_folder(str(shutil.copytree(base, tmp_path / "base")), "job")
    there = [1, 2, 3]
    with protecting(folder, 2, 1, "test"):
        (path,) = (tmp_path / "base" / "job" / "protected").iterdir()
        whole = path.read_bytes()
        for place in range(8 * len(whole)):
            damaged = bytearray(whole)
            damaged[place // 8] ^= 1 << place % 8
            path.write_bytes(damaged)
            assert protected_checkpoints(folder) == {2}, bytes(damaged)
            assert 1 in protected_snapshots(folder, lambda: there), bytes(damaged)
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            assert protected_snapshots(folder, lambda: there) == {1, 2}, "3 is newer than the checkpoint"
        later = time.time() + LONGEST_HOURS * 3600 + 60
        assert protected_checkpoints(folder, lambda: later) == set(), "it would stand for ever"
        path.write_bytes(whole)
        assert protected_snapshots(folder, lambda: there) == {1}


def test_a_protection_of_an_earlier_version_is_believed(base: Path, tmp_path: Path) -> None:
    folder = find_job_folder(str(shutil.copytree(base, tmp_path / "base")), "job")
    with protecting(folder, 2, 1, "test"):
        (path,) = (tmp_path / "base" / "job" / "protected").iterdir()
        document = json.loads(path.read_text())
        del document["checksum"]
        path.write_text(json.dumps(document))
        assert protected_snapshots(folder, lambda: [1, 2]) == {1}
        path.write_text(json.dumps({**document, "pid": 2**22 + 1}))
        assert protected_checkpoints(folder) == set()


def test_a_protection_ends_with_its_process(base: Path, tmp_path: Path) -> None:
    root = str(shutil.copytree(base, tmp_path / "base"))
    code = (
        "import sys\n"
        "from changelog_engine.ledger.job_folder import find_job_folder\n"
        "from changelog_engine.ledger.protection import protect, protected_checkpoints\n"
        "folder = find_job_folder(sys.argv[1], 'job')\n"
        "protect(folder, 2, None, 'test')\n"
        "assert protected_checkpoints(folder) == {2}\n"
    )
    path = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    subprocess.run([sys.executable, "-c", code, root], check=True, env={**os.environ, "PYTHONPATH": path})
    assert len(list((tmp_path / "base" / "job" / "protected").iterdir())) == 1
    assert protected_checkpoints(find_job_folder(root, "job")) == set()


@pytest.mark.parametrize(
    "restore", ["auto", "none", "latest", "12", "as-of:2026-01-01T00:00:00+00:00", " auto "]
)
def test_restores_that_name_no_savepoint(restore: str) -> None:
    assert not is_savepoint_path(restore)


@pytest.mark.parametrize(
    "restore", ["/a/b", "./b", "b/c", "file:/a/b", "s3://a/b", "savepoint-abcdef-0123456789ab"]
)
def test_restores_that_name_a_savepoint(restore: str) -> None:
    assert is_savepoint_path(restore)
    env = StreamExecutionEnvironment(Configuration({"changelog.restore": restore}))
    assert env._settings.job_settings().restore == restore


def test_settings() -> None:
    def made(**entries: str) -> tuple[str, bool, bool, str | None]:
        env = StreamExecutionEnvironment(Configuration({k.replace("__", "."): v for k, v in entries.items()}))
        settings = env._settings.job_settings()
        return (
            settings.restore,
            settings.claim_savepoint,
            settings.ignore_unclaimed_state,
            settings.savepoint_dir,
        )

    assert made() == ("auto", False, False, None)
    assert made(execution__savepoint__path="/sp/x") == ("/sp/x", False, False, None)
    newer = {
        "execution.state-recovery.path": "here",
        "execution.state-recovery.claim-mode": "claim",
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "state.savepoints.dir": "/sp",
    }
    assert made(**newer) == ("./here", True, True, "/sp")
    with pytest.raises(ConfigurationError, match="both say where"):
        made(execution__savepoint__path="/sp/x", changelog__restore="12")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_who_may_not_write_into_the_job_s_folder_learns_how_to_copy_it(tmp_path: Path, number: int) -> None:
    disk = MemoryDisk(str(tmp_path))
    disk.fail("create", number, times=99)
    with pytest.raises(
        StorageError, match=r"Have protected/ made writable for it, or copy the job's folder"
    ) as said:
        protect(JobFolder("job", "job", disk.storage()), 3, None, "fork")
    assert os.strerror(number) in str(said.value)
    assert said.value.path == f"{tmp_path}/protected"
    assert not disk.storage().list("protected")
    disk.heal()
    disk.fail("create", errno.ENOSPC, times=99)
    with pytest.raises(StorageError, match="disk full"):
        protect(JobFolder("job", "job", disk.storage()), 3, None, "fork")
