"""Forks whose process is killed at any step: what is left starts no job, is told, and the next fork takes it away.

Reliability case 57: what a user meets after it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from servers.s3 import S3Server
from support.functions import Count, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import logged_state
from support.script import DriverKilled, Fault, Script

from api.common.typeinfo import Types
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.cli import main
from changelog_engine.clock import wall_s
from changelog_engine.errors import StorageError
from changelog_engine.ledger import process_notes
from changelog_engine.ledger.job_folder import (
    CHANGELOG,
    UNFINISHED_FORK,
    is_unfinished_fork,
    open_job_folder,
    table_properties,
)
from changelog_engine.ledger.process_notes import LONGEST_HOURS
from changelog_engine.savepoints import forks
from changelog_engine.savepoints import unfinished_forks as unfinished
from changelog_engine.savepoints.unfinished_forks import begin_fork, give_up_fork, make_room, unfinished_forks
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.file_systems import options_in_use, use_options
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.object_store import ObjectStore
from changelog_engine.storage.opening import open_storage

_CALLS = ("write_durable", "put_if_absent", "delete", "delete_tree", "move", "share", "make_dirs", "persist")


@pytest.fixture
def far_base(s3: S3Server) -> Iterator[str]:
    """A base path on an object store, with a job."""
    before = options_in_use()
    use_options({"s3.endpoint": s3.endpoint, "s3.access-key": s3.access_key, "s3.secret-key": s3.secret_key})
    base = f"s3://{s3.create_bucket()}/jobs"
    job(base)
    yield base
    use_options(before)


def job(base: str) -> None:
    graph = keyed_job(rounds(3, 20), Count(), key_type=Types.LONG(), uid="process", name="job")
    TestJob(base, Script(sizes=(20,)), file_systems=options_in_use()).run(graph)


def fork(base: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["fork", f"{base}/job", f"{base}/other"])
    return done.exit_code, " ".join(done.output.split())


def killed_after(steps: int, base: str, storage: type) -> bool:
    """Has a process make a fork that is gone after so many calls which change something; whether it died."""
    left, died = [steps], False

    def dying(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any) -> Any:
            if left[0] == 0:  # what a process does in its `except` and `finally`, one that is killed does not
                raise DriverKilled(Fault.DRIVER)
            left[0] -= 1
            return inner(self, *arguments)

        return call

    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process_notes.os, "getpid", lambda: gone.pid)
        for name in _CALLS:
            patched.setattr(storage, name, dying(getattr(storage, name)))
        try:
            assert fork(base)[0] == 0
        except DriverKilled:
            died = True
    return died


def each_step(base: str, storage: type, remove: Callable[[], None], stride: int = 1) -> None:
    """At every step, or at every so many'th: requests take long."""
    steps = 0
    while killed_after(steps, base, storage):
        folder = open_storage(f"{base}/other")
        left = [each for each in unfinished_forks(open_storage(base)) if each.ended]
        said = " ".join(CliRunner().invoke(main, ["jobs", base]).output.split())
        assert ("that was not finished; the next fork here takes it away" in said) == bool(left)
        if left and folder.exists():
            with pytest.raises(StorageError, match=r"a job would begin empty there\. Make it again"):
                open_job_folder(base, "other")
        status, said = fork(base)
        if status:  # it was killed when it was complete
            assert "is there already" in said
            assert not left
        assert logged_state(base, "other") == logged_state(base, "job")
        open_job_folder(base, "other")
        assert unfinished_forks(open_storage(base)) == []
        remove()
        steps += stride
    assert steps > 8


def test_case_57_killed_at_each_step(tmp_path: Path) -> None:
    base = open_storage(str(tmp_path))
    job(str(tmp_path))
    each_step(str(tmp_path), LocalDisk, lambda: base.delete_tree("other"))
    assert sorted(entry.name for entry in base.list()) == ["job", "other"]


def test_case_57_killed_at_each_step_on_an_object_store(far_base: str) -> None:
    each_step(far_base, ObjectStore, lambda: open_storage(far_base).delete_tree("other"), 3)


def test_case_57_a_fork_that_is_being_made_stays(tmp_path: Path) -> None:
    base = open_storage(str(tmp_path))
    mine = begin_fork(base, "other", lambda: 1000.0)
    elsewhere = base.child(".tmp-fork-a")
    elsewhere.make_dirs()
    note = {"host": "elsewhere", "pid": os.getpid(), "time": 1000.0}
    base.write_durable(".tmp-fork-a.json", json.dumps(note).encode())
    base.child(".tmp-fork-b").make_dirs()
    for _ in range(2):
        make_room(base, "other", lambda: 1001.0)
        found = {each.folder.root: each.ended for each in unfinished_forks(base, lambda: 1001.0)}
        assert found == dict.fromkeys((mine.root, elsewhere.root), False)
    make_room(base, "other", lambda: 1001.0 + LONGEST_HOURS * 3600)
    assert [entry.name for entry in base.list()] == [".tmp-fork-b"], "of it nothing is known"


def test_case_57_of_two_forks_to_one_place_on_an_object_store_one_is_made(far_base: str) -> None:
    note = {"host": "elsewhere", "pid": 1, "time": wall_s()}
    open_storage(far_base).write_durable(f"other/{UNFINISHED_FORK}", json.dumps(note).encode())
    status, said = fork(far_base)
    assert status == 1
    assert "is there already: process 1 on elsewhere, since " in said
    assert "is making a fork there. If that one was killed, delete the folder" in said


def test_case_57_two_forks_that_find_one_place_free_at_once(
    far_base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that comes second must not take away, by giving up, what the first has made."""
    planned, others = forks.plan_restore, ["complete", "begun"]

    def overtaken(*arguments: Any) -> Any:
        """Meanwhile another process makes the same fork."""
        other = others.pop() if others else ""
        if other == "begun":
            begin_fork(open_storage(far_base), "other", wall_s)
        elif other == "complete":
            assert fork(far_base)[0] == 0
        return planned(*arguments)

    monkeypatch.setattr(forks, "plan_restore", overtaken)
    base = open_storage(far_base)
    status, said = fork(far_base)
    assert status == 1
    assert "is there already: another process made it just now" in said
    assert is_unfinished_fork(base.child("other")), "the other one goes on"
    base.delete_tree("other")
    status, said = fork(far_base)
    assert status == 1
    assert "is there already: another process made it just now" in said
    assert logged_state(far_base, "other") == logged_state(far_base, "job")
    assert not base.exists(f"other/{UNFINISHED_FORK}")
    open_job_folder(far_base, "other")


def left_by(base: str, note: dict[str, Any]) -> None:
    """What an unfinished fork by a process has left."""
    open_storage(base).write_durable(f"other/{UNFINISHED_FORK}", json.dumps(note).encode())
    open_storage(base).write_durable(f"other/{CHANGELOG}/part", b"half")


def ended() -> dict[str, Any]:
    return {"host": "elsewhere", "pid": 1, "time": wall_s() - 3601 * LONGEST_HOURS}


def test_case_57_two_that_find_one_dead_fork_on_an_object_store(
    far_base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one must not take away what the other has made in its place."""
    left_by(far_base, ended())
    judge, others = unfinished.has_ended, [fork]

    def overtaken(*arguments: Any) -> bool:
        if others:
            assert others.pop()(far_base)[0] == 0
        return judge(*arguments)

    monkeypatch.setattr(unfinished, "has_ended", overtaken)
    status, said = fork(far_base)
    assert (status, others) == (1, [])
    assert "is there already" in said
    assert logged_state(far_base, "other") == logged_state(far_base, "job")
    assert [entry.name for entry in open_storage(far_base).list()] == ["job", "other"]


def test_case_57_who_takes_a_dead_fork_away_claims_it(far_base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left_by(far_base, ended())
    base, removed = open_storage(far_base), unfinished._remove

    def killed(base: Any, found: Any) -> None:
        raise DriverKilled(Fault.DRIVER)

    monkeypatch.setattr(unfinished, "_remove", killed)
    with pytest.raises(DriverKilled):
        fork(far_base)
    monkeypatch.setattr(unfinished, "_remove", removed)
    status, said = fork(far_base)  # this process is the one that claimed it, and lives
    assert status == 1
    assert f"is there already: process {os.getpid()} on " in said
    assert base.exists(f"other/{CHANGELOG}/part")
    make_room(base, "other", lambda: wall_s() + 3601 * LONGEST_HOURS)
    assert [entry.name for entry in base.list()] == ["job"]
    assert fork(far_base)[0] == 0


def test_case_57_the_note_of_who_begins_there_at_once_stays(
    far_base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by(far_base, ended())
    base, deleted = open_storage(far_base), ObjectStore.delete_tree

    def overtaken(storage: ObjectStore, path: str = "") -> None:
        deleted(storage, path)
        if not path:
            begin_fork(base, "other", wall_s)

    monkeypatch.setattr(ObjectStore, "delete_tree", overtaken)
    for leave in (lambda: make_room(base, "other"), lambda: give_up_fork(base, base.child("other"))):
        leave()
        assert base.read_document(f"other/{UNFINISHED_FORK}")["pid"] == os.getpid()


def test_case_57_a_fork_whose_folder_is_removed_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(str(tmp_path))
    finish = forks.finish_fork

    def robbed(base: Any, folder: Any, slug: str) -> None:
        folder.delete_tree()
        finish(base, folder, slug)

    monkeypatch.setattr(forks, "finish_fork", robbed)
    status, said = fork(str(tmp_path))
    assert status == 1
    assert "is gone: somebody removed it, so the fork was not made" in said
    assert [entry.name for entry in open_storage(str(tmp_path)).list()] == ["job"]


def test_case_57_a_job_that_began_where_a_fork_is_made_keeps_its_folder(
    far_base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(base: Any, slug: str, clock: Any) -> Any:
        folder = begin_fork(base, slug, clock)
        DeltaLog.create(folder.child(CHANGELOG), SCHEMA, table_properties("other"))
        return folder

    monkeypatch.setattr(forks, "begin_fork", overtaken)
    status, said = fork(far_base)
    assert status == 1
    assert "is a Delta table already" in said
    assert DeltaLog.exists(open_storage(f"{far_base}/other/{CHANGELOG}"))
    open_job_folder(far_base, "other")
