"""``changelog-engine savepoint``: makes, lists, disposes of, refuses."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.functions import Count, Keep, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script

from api.common.typeinfo import Types
from changelog_engine import bootstrap
from changelog_engine.cli import main
from changelog_engine.savepoints.folder import open_savepoint
from changelog_engine.storage import local_disk
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage
from materializer.fold import state_at

ELEMENTS = rounds(3, 20)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("base")
    TestJob(base, Script(sizes=(5,))).run(
        keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), name="words/of mine")
    )
    [folder] = base.iterdir()
    return folder


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def made(job: Path, directory: Path, *options: object) -> Path:
    result = cli("savepoint", "create", job, directory, *options)
    assert result.exit_code == 0, result.output
    return Path(result.output.strip())


def refused(result: Result) -> str:
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("Error: ")
    return result.stderr


@pytest.mark.parametrize("folder", ["", "changelog"])
def test_create(job: Path, tmp_path: Path, folder: str) -> None:
    newest = made(job / folder, tmp_path / "deep" / "savepoints")
    assert newest.parent == tmp_path / "deep" / "savepoints"
    assert state_at(str(newest / "changelog")).states["process", "count"] == {0: 7, 1: 7, 2: 6}
    first = made(job / folder, tmp_path, "--at", 1)
    assert state_at(str(first / "changelog")).states["process", "count"] == {0: 2, 1: 2, 2: 1}
    assert sorted(path.name for path in first.iterdir()) == ["changelog", "savepoint.json", "snapshots"]


def test_other_commands_read_it(job: Path, tmp_path: Path) -> None:
    path = made(job, tmp_path, "--at", 2)
    assert "process" in cli("state", path).output
    assert repr(open_savepoint(str(path))).splitlines()[0] == f"savepoint {path}"
    assert "\n  2        1       - " in cli("checkpoints", path).output
    assert cli("timeline", path).output.endswith("  began empty, savepoint, snapshot\n\n")


def test_the_timeline_of_a_job_that_took_a_savepoint_in_tells_of_no_failure(tmp_path: Path) -> None:
    counts = {"process": {"count": {"key": ["a", "b"], "value": [1, 2]}}}
    made = bootstrap(
        str(tmp_path / "made"),
        counts,
        key_types={"process": Types.STRING()},
        types={"process": {"count": Types.LONG()}},
    )
    graph = keyed_job(["a", "b"], Count(), key_type=Types.STRING())
    TestJob(tmp_path / "base", Script((2,))).run_driver(graph, restore=made.path)
    for path in (made.path, tmp_path / "base" / "job"):
        shown = cli("timeline", path).output
        assert "imported from a savepoint, snapshot\n" in shown
        assert "killed" not in shown


def test_list(job: Path, tmp_path: Path) -> None:
    assert cli("savepoint", "list", tmp_path).output == f"no savepoints below {tmp_path}\n"
    first, second = made(job, tmp_path, "--at", 1), made(job, tmp_path)
    broken, unfinished = made(job, tmp_path), made(job, tmp_path)
    next((broken / "snapshots").glob("part-*")).unlink()
    shutil.rmtree(unfinished / "changelog")
    moved = tmp_path / "moved [bold]ä"
    second.rename(moved)
    (tmp_path / "something else").mkdir()
    shutil.copytree(job, tmp_path / "a job")
    header, _, *rows = (
        line for line in cli("savepoint", "list", tmp_path).output.splitlines() if line.strip()
    )
    assert header.split() == ["rows", "size", "checkpoint", "time", "(UTC)", "job", "savepoint"]
    assert len(rows) == 4
    shown = [row.split() for row in rows if "words/of mine" in row]
    assert sorted((cells[0], cells[3]) for cells in shown) == [("3", "1"), ("3", "4")]
    text = "\n".join(rows)
    assert first.name in text
    assert "moved [bold]ä" in text
    assert "words/of mine" in text
    assert f"{broken.name}: " in text
    assert f"{unfinished.name}: the savepoint {unfinished} was never finished" in text
    answer = cli("savepoint", "list", tmp_path, "--json")
    assert answer.exit_code == 1  # two of them can't be used
    found = {each["savepoint"]: each for each in json.loads(answer.output)}
    assert found[first.name]["path"] == str(first)
    assert (found[first.name]["checkpoint"], found[first.name]["rows"]) == (1, 3)
    assert (found[first.name]["fault"], "never finished" in found[unfinished.name]["fault"]) == (None, True)
    assert "is not a folder" in refused(cli("savepoint", "list", tmp_path / "nowhere"))


def test_dispose(job: Path, tmp_path: Path) -> None:
    first, second = made(job, tmp_path), made(job, tmp_path)
    shutil.rmtree(second / "changelog")  # never finished
    assert cli("savepoint", "dispose", first).exit_code == 2
    assert first.exists()
    result = cli("savepoint", "dispose", first, second, "--yes")
    assert result.exit_code == 0, result.output
    assert list(tmp_path.iterdir()) == []
    assert "no such folder" in refused(cli("savepoint", "dispose", first, "--yes"))


def test_dispose_refuses_what_is_not_a_savepoint(job: Path, tmp_path: Path) -> None:
    assert "is the folder of a job, not a savepoint" in refused(cli("savepoint", "dispose", job, "--yes"))
    path = made(job, tmp_path)
    assert f"it holds {path.name}: name one" in refused(cli("savepoint", "dispose", tmp_path, "--yes"))
    (tmp_path / "file").write_text("mine")
    assert "is a file" in refused(cli("savepoint", "dispose", tmp_path / "file", "--yes"))
    (tmp_path / "folder").mkdir()
    assert "has no savepoint.json" in refused(cli("savepoint", "dispose", tmp_path / "folder", "--yes"))
    (path / "notes.txt").write_text("mine")
    assert "holds 'notes.txt'" in refused(cli("savepoint", "dispose", path, "--yes"))
    assert (path / "notes.txt").read_text() == "mine"
    assert cli("state", path).exit_code == 0


def test_create_says_what_makes_checkpoints(tmp_path: Path) -> None:
    """A job without them has no folder."""
    told = refused(cli("savepoint", "create", tmp_path / "none", tmp_path / "x"))
    assert f"there is no changelog in {tmp_path / 'none'}: no such folder" in told
    assert "env.enable_checkpointing(interval)" in told
    assert not (tmp_path / "x").exists()


def test_create_refuses(job: Path, tmp_path: Path) -> None:
    assert "there is no checkpoint 99" in refused(cli("savepoint", "create", job, tmp_path / "x", "--at", 99))
    assert "there is no changelog" in refused(cli("savepoint", "create", tmp_path, tmp_path / "x"))
    for inside in (job, job / "changelog"):
        assert "is the folder of a job" in refused(cli("savepoint", "create", job, inside))
    (tmp_path / "file").write_text("mine")
    assert "is a file: name a folder" in refused(cli("savepoint", "create", job, tmp_path / "file"))
    copy = shutil.copytree(job, tmp_path / "copy")
    part = sorted((copy / "changelog").glob("part-*"))[0]
    part.unlink()
    assert part.name in refused(cli("savepoint", "create", copy, tmp_path / "y"))
    assert list((tmp_path / "y").iterdir()) == [], "half a savepoint was left"
    assert list((copy / "protected").iterdir()) == []
    assert not (tmp_path / "x").exists()


def test_a_retired_snapshot_is_refused(tmp_path: Path) -> None:
    TestJob(tmp_path / "base", Script(sizes=(5,)), changelog=False).run(keyed_job(ELEMENTS, Count()))
    message = refused(cli("savepoint", "create", tmp_path / "base" / "job", tmp_path / "x", "--at", 1))
    assert "needs the snapshot of checkpoint 1, which was retired" in message
    assert not (tmp_path / "x").exists()


def test_the_job_is_not_changed(job: Path, tmp_path: Path) -> None:
    def look() -> dict[str, int]:
        return {str(p): p.stat().st_size for p in job.rglob("*") if p.name != "protected"}

    before = look()
    made(job, tmp_path)
    cli("savepoint", "create", job, tmp_path, "--at", 99)
    assert look() == before


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elements = [((number % 2, "a"), {number}) for number in range(6)]
    TestJob(tmp_path / "base", Script(sizes=(2,))).run(keyed_job(elements, Keep()))
    monkeypatch.setattr("pickle.loads", lambda data: pytest.fail("unpickled"))
    path = made(tmp_path / "base" / "job", tmp_path)
    assert cli("savepoint", "list", tmp_path).exit_code == 0
    monkeypatch.undo()
    table = str(path / "changelog")
    kept = state_at(table, allow_pickle=True).states["process", "kept"]
    assert kept == {(0, "a"): [elements[i] for i in (0, 2, 4)], (1, "a"): [elements[i] for i in (1, 3, 5)]}


def test_a_folder_of_a_newer_engine(job: Path, tmp_path: Path) -> None:
    path = made(job, tmp_path)
    marker = path / "savepoint.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "format": 2}))
    assert "has changelog format 2" in cli("savepoint", "list", tmp_path).output
    assert os.path.exists(path)


def test_deletion_that_crashed_is_finished(job: Path, tmp_path: Path) -> None:
    path = made(job, tmp_path)
    shutil.rmtree(path / "changelog")
    shutil.rmtree(path / "snapshots")
    assert not DeltaLog.exists(open_storage(str(path / "changelog")))
    assert cli("savepoint", "dispose", path, "--yes").exit_code == 0
    assert not path.exists()


def test_a_job_that_cannot_be_read_now_is_not_said_to_make_no_checkpoints(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entries_of(path: str) -> list[Any]:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(local_disk, "_entries_of", entries_of)
    done = cli("savepoint", "create", job, tmp_path)
    assert done.exit_code == 1
    assert done.output.endswith("Give this user the right to read it\n"), done.output
