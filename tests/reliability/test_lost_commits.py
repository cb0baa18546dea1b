"""Reliability 47: a driver whose folder was replaced, or lost its newest commit, stops before it acknowledges into a hole.

Invariants:
    * After the harm nothing is committed and nothing is published, whatever was read.
    * The error is final, names the commit's file, and says how to go on.
    * What --repair makes of the folder is restored exactly: the last checkpoint that every reader can find.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from support.functions import Count, rounds
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.memory_disk import MemoryDisk
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli import main
from changelog_engine.errors import CorruptChangelogError, JobExecutionError, LostCommitError, RestoreError
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage
from changelog_engine.verification.log_repair import plan_repair, repair_logs
from materializer import state_at
from materializer.materialize import materialize

ELEMENTS = [(key, number) for key, number in rounds(5, 100)]
AT = 4  # the checkpoint after which the harm is done


def job_graph() -> Any:
    build = GraphBuilder(parallelism=1)
    keyed = build.key_by(build.source(ELEMENTS, uid="source"), lambda element: element[0], Types.LONG())
    build.collect(build.process(keyed, Count(), "count", uid="count"))
    return build.graph()


def newest_commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


def without_the_newest_commit(job: Path, older: Path) -> None:
    newest_commit(job / "changelog").unlink()


def with_an_empty_newest_commit(job: Path, older: Path) -> None:
    newest_commit(job / "changelog").write_bytes(b"")


def with_a_flipped_bit(job: Path, older: Path) -> None:
    path = newest_commit(job / "changelog")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replaced_by_an_older_copy(job: Path, older: Path) -> None:
    shutil.rmtree(job)
    shutil.copytree(older, job)


def synchronised_with_an_older_copy(job: Path, older: Path) -> None:
    """As ``rsync --delete`` does: what the copy has is written over what is there, and what it has not goes."""
    for path in sorted(job.rglob("*"), reverse=True):
        if path.is_file() and not (older / path.relative_to(job)).exists():
            path.unlink()
    shutil.copytree(older, job, dirs_exist_ok=True)


def without_its_folder(job: Path, older: Path) -> None:
    shutil.rmtree(job)


HARMS = [
    without_the_newest_commit,
    with_an_empty_newest_commit,
    with_a_flipped_bit,
    replaced_by_an_older_copy,
    synchronised_with_an_older_copy,
    without_its_folder,
]


class Harmed(TestJob):
    """Copies the folder after the second checkpoint and harms it after the fourth."""

    def __init__(self, base: Path, harm: Callable[[Path, Path], None], **settings: Any) -> None:
        super().__init__(base, Script(sizes=(10,)), **settings)
        self.harm = harm
        self.handed_out = 0

    def on_commit(self, checkpoint: Checkpoint) -> None:
        job, older = Path(self.settings.base_path, "job"), Path(self.settings.base_path, "..", "older")
        if checkpoint.id == 2:
            shutil.copytree(job, older)
        if checkpoint.id == AT:
            self.harm(job, older)


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
def test_case_47_a_running_driver_stops(
    tmp_path: Path, harm: Callable[[Path, Path], None], changelog: bool
) -> None:
    job = Harmed(tmp_path / "base", harm, changelog=changelog)
    with pytest.raises(JobExecutionError) as caught:
        job.run(job_graph())
    lost = caught.value.__cause__
    assert isinstance(lost, LostCommitError)
    assert "_delta_log" in lost.path
    assert "--repair" in str(lost)
    assert job.drivers == 1
    assert [checkpoint.id for checkpoint in job.commits] == [1, 2, 3, 4]
    assert len(job.output) == 40  # of the four checkpoints: nothing that came after was handed out


def cli(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["verify", *map(str, arguments)])


def of_the_log(job: Path) -> list[str]:
    return sorted(path.name for path in (job / "changelog" / "_delta_log").glob("*.json"))


def commit_of(job: Path, version: int) -> Path:
    return job / "changelog" / "_delta_log" / f"{version:020d}.json"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of ten checkpoints that did not end."""
    base = tmp_path_factory.mktemp("stopped")
    job = TestJob(base, Script(sizes=(10,), failures=(Failure(10, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(job_graph())
    return base / "job"


DAMAGES: dict[str, Callable[[Path], None]] = {
    "gone in the middle": lambda job: commit_of(job, 7).unlink(),
    "empty in the middle": lambda job: commit_of(job, 7).write_bytes(b""),
    "garbage in the middle": lambda job: commit_of(job, 7).write_bytes(b"{\x00"),
    "empty at the end": lambda job: newest_commit(job / "changelog").write_bytes(b""),
    "cut at the end": lambda job: os.truncate(newest_commit(job / "changelog"), 700),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_case_47_readers_name_the_file_and_repair_gives_the_last_good_checkpoint(
    stopped: Path, tmp_path: Path, damage: str
) -> None:
    base = tmp_path / "base"
    job = shutil.copytree(stopped, base / "job")
    states = {n: state_at(str(job / "changelog"), n) for n in range(1, 11)}
    harmed = newest_commit(job / "changelog") if "end" in damage else commit_of(job, 7)
    DAMAGES[damage](job)
    with pytest.raises(CorruptChangelogError) as caught:
        state_at(str(job / "changelog"))
    assert Path(caught.value.path) == harmed
    with pytest.raises(CorruptChangelogError, match=harmed.name):
        TestJob(base).run_driver(job_graph())
    plain = cli(job)
    assert plain.exit_code == 1, plain.output
    assert harmed.name in plain.output.replace("\n", "")
    before = sorted(str(path) for path in job.rglob("*"))
    told = cli(job, "--repair")
    assert (told.exit_code, "Nothing was changed" in told.output) == (1, True)
    assert sorted(str(path) for path in job.rglob("*")) == before
    expected = 9 if "end" in damage else 5  # commit 1 is the attempt's, commit n + 1 checkpoint n's
    assert f"from checkpoint {expected}" in told.output
    done = cli(job, "--repair", "--yes")
    assert done.exit_code == 0, done.output
    assert f"from checkpoint {expected}" in done.output
    [aside] = job.glob("set-aside-*")
    assert {path.name for path in aside.rglob("*.json")} | set(of_the_log(job)) == {
        f"{version:020d}.json" for version in range(12)
    } - ({harmed.name} if "gone" in damage else set())
    assert state_at(str(job / "changelog")) == states[expected]
    again = TestJob(base, Script(sizes=(10,)))
    again.run(job_graph())
    assert again.commits[-1].finished
    assert cli(job).exit_code == 0


def test_case_47_a_damaged_delta_checkpoint_costs_nothing(stopped: Path, tmp_path: Path) -> None:
    job = shutil.copytree(stopped, tmp_path / "job")
    whole = state_at(str(job / "changelog"))
    DeltaLog(open_storage(str(job / "changelog"))).maintain(every=1)
    [checkpoint] = (job / "changelog" / "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    with pytest.raises(CorruptChangelogError, match=r"verify .* --repair") as caught:
        state_at(str(job / "changelog"))
    assert Path(caught.value.path) == checkpoint
    assert "from checkpoint 10" in cli(job, "--repair", "--yes").output
    assert state_at(str(job / "changelog")) == whole


@pytest.mark.parametrize("cut", [False, True], ids=["alone", "and the newest is cut"])
def test_case_47_an_empty_commit_that_a_delta_checkpoint_stands_for_costs_no_checkpoint(
    stopped: Path, tmp_path: Path, cut: bool
) -> None:
    base = tmp_path / "base"
    job = shutil.copytree(stopped, base / "job")
    storage = open_storage(str(job))
    assert DeltaLog(storage.child("changelog")).maintain(every=3)
    empty = [commit_of(job, 4)]
    if cut:
        empty.append(commit_of(job, int(newest_commit(job / "changelog").stem) + 1))
    for path in empty:
        path.write_bytes(b"")
    plan = plan_repair(storage)
    assert plan is not None
    assert [Path(name).name for name in plan.aside if name.endswith(".json")] == [path.name for path in empty]
    assert plan.checkpoint == 10
    repair_logs(storage, plan)
    assert plan_repair(storage) is None


def test_case_47_nothing_to_repair(stopped: Path, tmp_path: Path) -> None:
    job = shutil.copytree(stopped, tmp_path / "job")
    assert "nothing to set aside" in cli(job, "--repair", "--yes").output
    assert cli(job, "--yes").exit_code == 2
    assert cli(tmp_path, "--repair").exit_code == 1


@pytest.mark.parametrize("commit_too", [False, True], ids=["a part alone", "a part and a commit"])
def test_case_47_a_damaged_part_is_said_to_be_left(stopped: Path, tmp_path: Path, commit_too: bool) -> None:
    job = shutil.copytree(stopped, tmp_path / "job")
    part = min((job / "changelog").glob("part-5-*"))
    part.write_bytes(part.read_bytes()[:-5])
    if commit_too:
        newest_commit(job / "changelog").write_bytes(b"")
    told = cli(job, "--repair", "--yes")
    assert told.exit_code == 1
    assert f"WRONG {part}" in told.output
    assert (
        "With changelog.restore: 4 a run begins at the newest checkpoint that can be restored" in told.output
    )
    assert ("set aside in" in told.output) == commit_too
    assert "The next run goes on" not in told.output


def test_case_47_what_cannot_be_tried_is_said_and_leaves_nothing(stopped: Path, tmp_path: Path) -> None:
    """As root every folder can be written to, so links are refused, as on a disk mounted read-only or without links."""
    job = shutil.copytree(stopped, tmp_path / "job")
    newest_commit(job / "changelog").write_bytes(b"")
    killed, running = job / ".tmp-repair-killed", job / ".tmp-repair-running"
    for left in (killed, running):
        (left / "changelog").mkdir(parents=True)
    os.utime(killed, (0, 0))
    before = sorted(str(path) for path in job.rglob("*") if killed not in (path, *path.parents))
    with MemoryDisk(str(tmp_path)).mounted() as disk:
        disk.fail("link", errno.EROFS, times=100)
        told = cli(job, "--repair")
    assert told.exit_code == 1
    assert "Read-only file system" in told.output
    assert "copy the job's folder" in told.output.replace("\n", " ")
    assert sorted(str(path) for path in job.rglob("*")) == before


def of_four_checkpoints(base: Path, size: int) -> TestJob:
    """A driver that dies after four checkpoints of so many elements each."""
    job = TestJob(base, Script(sizes=(size,), failures=(Failure(4, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(job_graph())
    return job


def elements_in(job: Path, checkpoint: int | None = None) -> int:
    """How many elements a checkpoint's state counts."""
    return sum(state_at(str(job / "changelog"), checkpoint).states["count", "count"].values())


def goes_on_with_its_own_state(base: Path, elements: int, newest: int) -> None:
    """Another branch takes the checkpoint's number, of which there is a snapshot, and is restored from its own state."""
    branch = of_four_checkpoints(base, 3)
    assert [checkpoint.id for checkpoint in branch.commits] == list(range(newest - 3, newest + 1))
    assert {checkpoint.attempt for checkpoint in branch.commits} == {3}, "2 is taken by the snapshot"
    assert elements_in(base / "job", newest) == elements
    TestJob(base, Script(sizes=(50,))).run_driver(job_graph())
    assert elements_in(base / "job") == len(ELEMENTS)
    assert cli(base / "job").exit_code == 0


def test_case_47_snapshots_of_what_was_set_aside_are_nobodys(tmp_path: Path) -> None:
    """Attempt 2 and its checkpoints 5 to 8 leave the changelog; the snapshot of checkpoint 7 stays where it is."""
    base = tmp_path / "base"
    of_four_checkpoints(base, 10)
    of_four_checkpoints(base, 10)
    materialize(find_job_folder(str(base), "job"), 7)
    commit_of(base / "job", 5).write_bytes(b"")  # checkpoint 4's
    assert "from checkpoint 3" in cli(base / "job", "--repair", "--yes").output
    goes_on_with_its_own_state(base, 30 + 4 * 3, 7)


def test_case_47_snapshots_newer_than_the_changelog_are_nobodys(tmp_path: Path) -> None:
    """A copy that took the changelog first, and the snapshots when another attempt had made one."""
    base, copy = tmp_path / "base", tmp_path / "copy"
    of_four_checkpoints(base, 10)
    shutil.copytree(base / "job" / "changelog", copy / "job" / "changelog")
    of_four_checkpoints(base, 10)
    materialize(find_job_folder(str(base), "job"))
    shutil.copytree(base / "job" / "snapshots", copy / "job" / "snapshots")
    goes_on_with_its_own_state(copy, 40 + 4 * 3, 8)


def _of_two_attempts(base: Path) -> Path:
    """A job whose second attempt made a snapshot; returns a copy of it without that attempt."""
    of_four_checkpoints(base, 10)
    older = base.with_name("older")
    shutil.copytree(base / "job", older)
    of_four_checkpoints(base, 10)
    materialize(find_job_folder(str(base), "job"))
    return older


def test_case_47_a_changelog_that_was_removed_is_no_first_run(tmp_path: Path) -> None:
    base = tmp_path / "base"
    _of_two_attempts(base)
    shutil.rmtree(base / "job" / "changelog")
    for restore in ("auto", "latest"):
        with pytest.raises(
            RestoreError,
            match=r"/snapshots has files of attempt 2, and .*/changelog has no attempt: .*= none",
        ):
            TestJob(base, Script(sizes=(50,))).run_driver(job_graph(), restore=restore)
    TestJob(base, Script(sizes=(50,))).run_driver(job_graph(), restore="none")
    TestJob(base, Script(sizes=(50,))).run_driver(job_graph())
    assert elements_in(base / "job") == len(ELEMENTS)


def test_case_47_a_changelog_whose_rows_were_deleted_is_no_first_run(tmp_path: Path) -> None:
    """Without a snapshot, too, and where nobody can look at the commit that did it."""
    of_four_checkpoints(tmp_path, 10)
    table = DeltaTable(tmp_path / "job" / "changelog")
    table.delete()
    table.optimize.compact()
    table.create_checkpoint()
    for version in range(table.version() + 1):
        commit_of(tmp_path / "job", version).unlink()
    told = "/changelog has 6 commits and no attempt: its rows were deleted"
    assert f"BUT {tmp_path}/job{told}" in cli(tmp_path / "job").output
    for restore in ("auto", "latest"):
        with pytest.raises(RestoreError, match=f"{told}.*= none"):
            TestJob(tmp_path, Script(sizes=(50,))).run_driver(job_graph(), restore=restore)
    TestJob(tmp_path, Script(sizes=(50,))).run_driver(job_graph(), restore="none")
    TestJob(tmp_path, Script(sizes=(50,))).run_driver(job_graph())
    assert elements_in(tmp_path / "job") == len(ELEMENTS)


def test_case_47_a_changelog_of_an_older_copy_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    base = tmp_path / "base"
    older = _of_two_attempts(base)
    shutil.rmtree(base / "job" / "changelog")
    shutil.copytree(older / "changelog", base / "job" / "changelog")
    told = "/snapshots has files of attempt 2, and "
    shown = CliRunner().invoke(main, ["status", str(base / "job")])
    assert (shown.exit_code, told in "".join(shown.output.split("\n"))) == (1, True), shown.output
    assert f"BUT {base}/job{told}" in cli(base / "job").output
    TestJob(base, Script(sizes=(50,))).run_driver(job_graph())
    assert caplog.text.count(told) == 1
    caplog.clear()
    TestJob(base, Script(sizes=(50,))).run_driver(job_graph())
    assert told not in caplog.text, "the attempt since then is newer"


def test_case_47_a_newest_commit_of_which_there_is_a_snapshot_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Within one attempt, too: a job of one attempt may run for months."""
    base = tmp_path / "base"
    of_four_checkpoints(base, 10)
    materialize(find_job_folder(str(base), "job"))
    assert "BUT" not in cli(base / "job").output
    newest = max((base / "job" / "changelog" / "_delta_log").glob("*.json"))
    newest.unlink()
    told = "/snapshots has files of checkpoint 4 of attempt 1, and "
    assert f"BUT {base}/job{told}" in cli(base / "job").output
    TestJob(base, Script(sizes=(50,))).run_driver(job_graph())
    assert caplog.text.count(told) == 1
    assert elements_in(base / "job") == len(ELEMENTS)
    assert "BUT" not in cli(base / "job").output


def test_case_47_a_damaged_newest_row_hides_nothing_else_from_verify(tmp_path: Path) -> None:
    of_four_checkpoints(tmp_path, 10)
    materialize(find_job_folder(str(tmp_path), "job"))
    (row,) = (tmp_path / "job" / "changelog").glob("checkpoint-4-*")
    row.write_bytes(b"")
    found = cli(tmp_path / "job").output
    assert ("can be restored: 1 to 3" in found, "1 fault\n" in found, "BUT" in found) == (
        True,
        True,
        False,
    ), found
