"""Forks: independent of their parent from the first moment, whatever either of them does; case 18 for them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.backends import BackendCase
from support.functions import Count, by_key, counted, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import logged_state
from support.memory_disk import MemoryDisk
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli import main
from changelog_engine.inspection.jobs import job_status
from changelog_engine.inspection.timeline import Timeline
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.verification.verify import verify
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

ELEMENTS = rounds(5, 40)


def graph(name: str = "job", elements: Any = None, **more: Any) -> Any:
    return keyed_job(elements or ELEMENTS, Count(), key_type=Types.LONG(), name=name, **more)


class Materialized(TestJob):
    """Makes a snapshot of checkpoint 2."""

    def on_commit(self, checkpoint: Checkpoint) -> None:
        if checkpoint.id == 3:
            materialize(find_job_folder(self.settings.base_path, "job"), 2)


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A finished job with checkpoints 1 to 8, five elements each, and a snapshot of 2."""
    base = tmp_path / "base"
    Materialized(base, Script(sizes=(5,))).run(graph())
    return base / "job"


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["fork", *map(str, arguments)])


def refused(result: Result) -> str:
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("Error: ")
    return result.stderr


def look(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("at", [1, 2, 4, 8])
def test_a_fork_goes_on_from_its_checkpoint(parent: Path, tmp_path: Path, at: int) -> None:
    """The finished checkpoint, too: the fork starts there, not empty. The parent is not changed."""
    before = look(parent)
    result = cli(parent, tmp_path / "base" / "other", "--at", at)
    assert result.exit_code == 0, result.output
    assert f"other starts from checkpoint {at}; " in result.output
    assert ", 0 copied (0 bytes)" in result.output
    assert look(parent) == before
    assert logged_state(str(tmp_path / "base"), "other") == logged_state(
        str(tmp_path / "base"), checkpoint=at
    )
    other = str(tmp_path / "base" / "other")
    assert job_status(other).summary.state == "not run yet"
    ends = [each.end for each in Timeline(other).attempts]
    assert ends == ["finished" if at == 8 else "forked", "not run yet"]
    job = TestJob(tmp_path / "base", Script(sizes=(5,), failures=(Failure(2, Fault.WORKER),)))
    job.run_driver(graph("other"))
    assert Timeline(other).attempts[1].end == "forked"  # and not killed: it ran nothing
    assert by_key(job.output) == {key: list(range(at + 1, 9)) for key in range(5) if at < 8}
    for name in ("job", "other"):
        found = verify(find_job_folder(str(tmp_path / "base"), name))
        assert found.faults == []
        assert found.lost == []
    assert look(parent) == before


def test_files_are_shared_until_they_are_truncated(parent: Path, tmp_path: Path) -> None:
    """One copy of the bytes on the disk. The parent truncates, then goes altogether; the fork keeps what it has."""
    fork = tmp_path / "base" / "other"
    assert cli(parent, fork, "--at", 4).exit_code == 0
    parts = [path.name for path in (fork / "changelog").glob("part-*")]
    assert parts
    assert all((fork / "changelog" / part).samefile(parent / "changelog" / part) for part in parts)
    states = {n: logged_state(str(tmp_path / "base"), "other", n) for n in (1, 2, 3, 4)}
    folder = find_job_folder(str(tmp_path / "base"), "job")
    materialize(folder, 8)
    truncated = truncate(folder, Retention(history_ms=0, grace_ms=0))
    assert truncated.deleted > 0
    assert not any((parent / "changelog" / part).exists() for part in parts)
    assert verify(find_job_folder(str(tmp_path / "base"), "other")).faults == []
    shutil.rmtree(parent)
    assert {n: logged_state(str(tmp_path / "base"), "other", n) for n in (1, 2, 3, 4)} == states


def test_what_the_fork_does_does_not_reach_the_parent(parent: Path, tmp_path: Path) -> None:
    before = look(parent)
    assert cli(parent, tmp_path / "base" / "other", "--at", 6).exit_code == 0
    TestJob(tmp_path / "base", Script(sizes=(5,))).run_driver(graph("other"))
    folder = find_job_folder(str(tmp_path / "base"), "other")
    materialize(folder)
    truncate(folder, Retention(history_ms=0, grace_ms=0))
    shutil.rmtree(tmp_path / "base" / "other")
    assert look(parent) == before
    assert verify(find_job_folder(str(tmp_path / "base"), "job")).faults == []


def test_of_a_branch(parent: Path, tmp_path: Path) -> None:
    """The lineage is taken along, and nothing else."""
    TestJob(tmp_path / "base", Script(sizes=(7,))).run_driver(graph(elements=rounds(3, 40)), restore="3")
    newest = Lineage(find_job_folder(str(tmp_path / "base"), "job").open_changelog()).newest_checkpoint_id
    assert cli(parent, tmp_path / "base" / "other").exit_code == 0
    fork = Lineage(find_job_folder(str(tmp_path / "base"), "other").open_changelog())
    assert sorted(fork.checkpoints) == [1, 2, 3, *range(9, newest + 1)]
    assert fork.attempt(fork.newest_attempt_id).parent == newest
    assert logged_state(str(tmp_path / "base"), "other") == logged_state(str(tmp_path / "base"))


def test_of_a_running_job_and_of_snapshots(tmp_path: Path, every_backend: BackendCase) -> None:
    class Forked(TestJob):
        def on_commit(self, checkpoint: Checkpoint) -> None:
            if checkpoint.id == 4:
                assert cli(tmp_path / "job", tmp_path / "other").exit_code == 0

    given = every_backend.settings(tmp_path / "local")
    job = Forked(tmp_path, Script(sizes=(5,)), **given)
    job.run(graph())
    assert by_key(job.output) == by_key(counted(ELEMENTS))
    other = TestJob(tmp_path, Script(sizes=(5,)), **{**given, "changelog": not every_backend.changelog})
    other.run_driver(graph("other", parallelism=2))
    assert by_key(other.output) == {key: list(range(5, 9)) for key in range(5)}


def test_on_another_file_system(parent: Path, tmp_path: Path) -> None:
    """Where links are not possible the files are copied."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    with MemoryDisk(str(other)).mounted():
        result = cli(parent, other / "job", "--at", 5)
    assert result.exit_code == 0, result.output
    assert "; 0 files shared (0 bytes), " in result.output
    expected = logged_state(str(tmp_path / "base"), checkpoint=5)
    shutil.rmtree(parent)
    assert logged_state(str(tmp_path / "elsewhere")) == expected


def test_of_a_savepoint(parent: Path, tmp_path: Path) -> None:
    folder = find_job_folder(str(tmp_path / "base"), "job")
    savepoint = create_savepoint(folder, Lineage(folder.open_changelog()).checkpoint(3), str(tmp_path))
    assert cli(savepoint.path, tmp_path / "base" / "other").exit_code == 0
    job = TestJob(tmp_path / "base", Script(sizes=(5,)))
    job.run_driver(graph("other"))
    assert by_key(job.output) == {key: list(range(4, 9)) for key in range(5)}


def test_refusals(parent: Path, tmp_path: Path) -> None:
    (tmp_path / "base" / "taken").mkdir()
    before = sorted(path.name for path in (tmp_path / "base").iterdir())
    assert "is there already" in refused(cli(parent, tmp_path / "base" / "taken"))
    assert "is there already" in refused(cli(parent, parent))
    assert "is the folder of a job" in refused(cli(parent, parent / "x"))
    assert "there is no checkpoint 99" in refused(cli(parent, tmp_path / "base" / "x", "--at", 99))
    assert "has its tables in a folder named" in refused(cli(parent, tmp_path / "base" / "a b"))
    assert "has its tables in a folder named" in refused(cli(parent, tmp_path / "base" / "x", "--name", "y"))
    assert "there is no changelog" in refused(cli(tmp_path / "base" / "taken", tmp_path / "base" / "x"))
    (tmp_path / "file").touch()
    assert "is a file: name a folder for the fork" in refused(cli(parent, tmp_path / "file" / "x"))
    assert sorted(path.name for path in (tmp_path / "base").iterdir()) == before


def test_a_retired_snapshot_is_refused(tmp_path: Path) -> None:
    TestJob(tmp_path, Script(sizes=(5,)), changelog=False).run(graph())
    assert "which was retired" in refused(cli(tmp_path / "job", tmp_path / "other", "--at", 2))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("harm", ["gone", "cut"])
def test_a_damaged_file_is_named_and_nothing_is_left(parent: Path, tmp_path: Path, harm: str) -> None:
    part = sorted((parent / "changelog").glob("part-4-*"))[0]
    if harm == "gone":
        part.unlink()
    else:
        part.write_bytes(part.read_bytes()[:100])
    assert part.name in refused(cli(parent, tmp_path / "base" / "other"))
    assert [path.name for path in (tmp_path / "base").iterdir()] == ["job"]
    assert list((parent / "protected").iterdir()) == []
    assert cli(parent, tmp_path / "base" / "other", "--at", 3).exit_code == 0


def test_killed_before_the_folder_has_its_name(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hidden folder is no job; the fork can be made again."""

    def killed(*given: Any) -> None:
        raise DriverKilled(Fault.DRIVER)

    with monkeypatch.context() as patched:
        patched.setattr(LocalDisk, "move", killed)
        patched.setattr(LocalDisk, "delete_tree", lambda self, path="": None)
        with pytest.raises(DriverKilled):
            cli(parent, tmp_path / "base" / "other")
    left = {path.name for path in (tmp_path / "base").iterdir()} - {"job"}
    assert len(left) == 1
    assert left.pop().startswith(".tmp-fork-")
    assert cli(parent, tmp_path / "base" / "other").exit_code == 0
