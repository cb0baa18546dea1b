"""One driver at a time (reliability 9, 10)."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from test_commit_helpers import Driver, state_at

from changelog_engine.driver.journal import JobJournal
from changelog_engine.errors import FencedError, LostCommitError, StorageError
from changelog_engine.graph.descriptions import DescribedOperator
from changelog_engine.ledger import ownership
from changelog_engine.ledger.job_folder import open_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import DriverLock, attempt_row, begin_attempt
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.storage import delta_checkpoints, local_disk
from changelog_engine.storage.delta_checkpoints import shorten
from changelog_engine.storage.delta_log import COMMIT_TRIES, CommitConflictError, DeltaLog
from changelog_engine.storage.locks import Lock, LockTakenError, lock_file
from materializer.materialize import materialize


@contextlib.contextmanager
def forked_child() -> Iterator[None]:
    """A fork of this process that does nothing, killed at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: that there are threads
        child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    try:
        time.sleep(0.2)
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_zombie_is_refused_for_good(tmp_path: Path) -> None:
    zombie = Driver.start(tmp_path)
    zombie.checkpoint({"a": 1})
    late = zombie.part({"a": 99})
    row = zombie.row([late])
    owner = Driver.start(tmp_path)
    for _ in range(2):
        with pytest.raises(FencedError, match=f"attempt 2, host .*, pid {os.getpid()}"):
            zombie.committer.commit(row, [late])
    owner.checkpoint({"a": 2})
    with pytest.raises(FencedError):
        zombie.committer.commit(row, [late])
    with pytest.raises(FencedError):
        zombie.committer.retire_snapshots({1})
    assert state_at(owner.folder, owner.last) == {"a": 2}


@pytest.mark.parametrize(("name", "shortened"), [("stat", False), ("open", False), ("scandir", True)])
def test_a_driver_that_could_not_look_for_others_looks_again(
    tmp_path: Path, name: str, shortened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk failed while the other one's commits were read, they were taken for known from then on.

    The driver committed past the other one then, or began an attempt with the number of the other's: nobody could read that.
    """
    failing: Iterator[bool] = iter(())
    for module in (local_disk, os):
        if module is os or name == "open":
            works = getattr(module, name, open)

            def fails(path: Any, *more: Any, works: Any = works, **named: Any) -> Any:
                if str(path).startswith(str(tmp_path)) and next(failing, False):
                    raise OSError(errno.EIO, os.strerror(errno.EIO), path)
                return works(path, *more, **named)

            monkeypatch.setattr(module, name, fails, raising=False)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    told = set()
    for place in range(6):
        base = tmp_path / str(place)
        zombie = Driver.start(base)
        zombie.checkpoint({"a": 1})
        late = zombie.part({"a": 99})
        row = zombie.row([late])
        owner = Driver.start(base)
        owner.checkpoint({"a": 2})
        if shortened:
            with mock.patch.object(delta_checkpoints, "KEPT_S", 0.0):
                for _ in range(2):
                    shorten(owner.folder.changelog, 1)
                    owner.checkpoint({"a": 2})
        for _ in range(2):
            failing = iter([False] * place + [True] * 4)
            with pytest.raises((StorageError, FencedError)) as error:
                zombie.committer.commit(row, [late])
            told.add(error.type)
            failing = iter([False] * place + [True] * 4)
            with pytest.raises((StorageError, FencedError)):
                begin_attempt(zombie.log, 1, 1)
        failing = iter(())
        with pytest.raises(FencedError):
            zombie.committer.commit(row, [late])
        with pytest.raises((FencedError, CommitConflictError)):  # the latter: long ago
            begin_attempt(zombie.log, 1, 1)
        assert state_at(owner.folder, owner.last) == {"a": 2}
    assert FencedError in told
    assert len(told) > 1, "the disk failed nowhere"


def test_a_zombies_snapshot_is_refused(tmp_path: Path) -> None:
    zombie = Driver.start(tmp_path)
    zombie.snapshot({"a": 1})
    owner = Driver.start(tmp_path)
    with pytest.raises(FencedError):
        zombie.snapshot({"a": 99})
    assert complete_snapshots(owner.folder) == {1: {1}}
    owner.snapshot({"a": 2})
    assert state_at(owner.folder, owner.last) == {"a": 2}


def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    folder = open_job_folder(str(tmp_path), "job")
    with DriverLock(folder, clock=lambda: 0.0):
        with pytest.raises(FencedError, match=rf"host .*, pid {os.getpid()}, since 1970-01-01T00:00:00"):
            DriverLock(folder).acquire()
        DriverLock(open_job_folder(str(tmp_path), "another")).acquire()
    DriverLock(folder).acquire()


def test_a_lock_whose_holder_cannot_be_written_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = open_job_folder(str(tmp_path), "job")

    def full(*given: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(StorageError, match=r"disk full: could not write .*lock"):
            DriverLock(folder).acquire()
    with DriverLock(folder):
        pass


def test_a_holder_that_is_stopped_is_called_so_and_kill_9_frees_the_lock(tmp_path: Path) -> None:
    folder = open_job_folder(str(tmp_path), "job")
    code = (
        "import sys, time\n"
        "from changelog_engine.ledger.job_folder import open_job_folder\n"
        "from changelog_engine.ledger.ownership import DriverLock\n"
        "DriverLock(open_job_folder(sys.argv[1], 'job')).acquire()\n"
        "print('held', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(FencedError, match=rf"pid {process.pid}, since [^;]*\)"):
        DriverLock(folder).acquire()
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    with pytest.raises(
        FencedError, match=rf"pid {process.pid}, .*that process is stopped: .*kill -CONT {process.pid}"
    ):
        DriverLock(folder).acquire()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    lock = DriverLock(folder)
    lock.acquire()
    with pytest.raises(FencedError, match=rf"pid {os.getpid()}, .*that is this process: call cancel\(\)"):
        DriverLock(folder).acquire()
    lock.release()


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    lock = lock_file(path)
    with forked_child():
        with pytest.raises(LockTakenError):  # nor does it give it back
            lock_file(path)
        lock.forget()  # closes it only, as when the process dies
        lock_file(path).release()


def test_a_lock_is_given_back_while_a_program_that_is_started_still_has_its_descriptor(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lock"
    lock = lock_file(str(path))
    (ours,) = [
        each for each in Path("/proc/self/fd").iterdir() if each.is_symlink() and each.resolve() == path
    ]
    copy = os.dup(int(ours.name))  # as between fork() and exec()
    lock.release()
    lock_file(str(path)).release()
    os.close(copy)


def test_a_child_that_is_forked_while_a_lock_is_waited_for_does_not_keep_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first, found = lock_file(path), list[Lock]()
    waiting = threading.Thread(target=lambda: found.append(lock_file(path, wait=True)))
    waiting.start()
    while not (tmp_path / "lock").exists() or " -> FLOCK" not in Path("/proc/locks").read_text():
        time.sleep(0.01)
    with forked_child():
        first.release()
        waiting.join()
        found[0].forget()  # as when the process dies
        lock_file(path).release()


def test_two_drivers_race_to_begin(tmp_path: Path) -> None:
    """Both decided from the same version: one attempt is committed, the other driver stops."""
    for turn in range(20):
        folder = open_job_folder(str(tmp_path), "job")
        results: list[object] = []
        barrier = threading.Barrier(2)

        def begin(folder=folder, results=results, barrier=barrier) -> None:  # type: ignore[no-untyped-def]
            log = folder.open_changelog()
            newest = Lineage(log).newest_attempt_id
            barrier.wait()
            try:
                results.append(begin_attempt(log, newest, None))
            except FencedError as error:
                results.append(error)

        threads = [threading.Thread(target=begin) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(isinstance(result, FencedError) for result in results) == [False, True], results
        assert "reported as failed" not in str(results)
        assert Lineage(folder.open_changelog()).newest_attempt_id == turn + 1


def _drive(base: str, turns: int, barrier: Any, outcome: Any) -> None:
    """For each job: commit checkpoints until fenced or 10 are done; every acknowledged one is reported."""
    for turn in range(turns):
        acknowledged = []
        barrier.wait()
        try:
            driver = Driver.start(f"{base}/{turn}")
            for i in range(10):
                acknowledged.append((driver.attempt.id, driver.checkpoint({"n": i}).id))
            end = "done"
        except FencedError:
            end = "fenced"
        outcome.put((turn, end, acknowledged))


def test_two_processes_without_a_lock_race(tmp_path: Path) -> None:
    """As on an object store: whoever took the job over last goes on; nothing acknowledged is lost or doubled."""
    turns = 20
    for turn in range(turns):
        open_job_folder(f"{tmp_path}/{turn}", "job")
    context = multiprocessing.get_context("spawn")  # delta-rs does not survive a fork
    barrier, outcome = context.Barrier(2), context.Queue()
    drivers = [
        context.Process(target=_drive, args=(str(tmp_path), turns, barrier, outcome), daemon=True)
        for _ in range(2)
    ]
    for driver in drivers:
        driver.start()
    results: dict[int, list[tuple[str, list[tuple[int, int]]]]] = {}
    for _ in range(2 * turns):
        turn, end, acknowledged = outcome.get(timeout=60)
        results.setdefault(turn, []).append((end, acknowledged))
    for driver in drivers:
        driver.join()
    for turn, both in results.items():
        assert "done" in [end for end, _ in both], both
        made = [who for _, acknowledged in both for who in acknowledged]
        lineage = Lineage(open_job_folder(f"{tmp_path}/{turn}", "job").open_changelog())
        assert len({identity for _, identity in made}) == len(made)
        assert {identity for _, identity in made} <= set(lineage.checkpoints)
        newest = lineage.newest_checkpoint()
        assert newest is not None
        assert newest.attempt == lineage.newest_attempt_id


@pytest.mark.parametrize("restore", ["auto", "none", "latest"])
def test_case_10_who_begins_after_the_other_has_begun_is_refused(tmp_path: Path, restore: str) -> None:
    """Whatever it looks at before its attempt: two rows of one attempt would be damage for good."""
    with mock.patch.object(DriverLock, "acquire"):
        first, second = (JobJournal.open(str(tmp_path), "job") for _ in range(2))
    for journal in (first, second):
        assert journal.start_point(restore) is None
    assert first.begin_attempt(None) == 1
    assert second.finished_before() is None
    assert second.identity == first.identity
    with pytest.raises(FencedError, match="attempt 1, host"):
        second.begin_attempt(None)
    assert Lineage(first.folder.open_changelog()).newest_attempt_id == 1


def test_messages_say_what_to_do(tmp_path: Path) -> None:
    zombie = Driver.start(tmp_path)
    Driver.start(tmp_path)
    with pytest.raises(FencedError) as caught:
        zombie.checkpoint({"a": 1})
    assert re.search(r"This driver stops; nothing that was acknowledged is lost", str(caught.value))


def test_a_commit_that_others_overtake_each_time_fails(tmp_path: Path) -> None:
    """It is never taken for one that was made."""
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    part = driver.part({"a": 2})
    with mock.patch.object(
        DeltaLog, "commit", side_effect=CommitConflictError("another was faster")
    ) as tried:
        with pytest.raises(StorageError, match="others committed 20 times in between; try again"):
            driver.committer.commit(driver.row([part]), [part])
        with pytest.raises(StorageError, match="others committed 20 times"):
            begin_attempt(driver.log, 1, 1)
    assert tried.call_count == 2 * COMMIT_TRIES
    assert sorted(Lineage(driver.folder.open_changelog()).checkpoints) == [1]
    driver.committer.commit(driver.row([part]), [part])


def test_an_attempt_does_not_take_the_number_of_one_whose_snapshots_are_there(tmp_path: Path) -> None:
    """The changelog is an older copy: the snapshots of the attempt that it lacks would pass for the new one's."""
    Driver.start(tmp_path).checkpoint({"a": 1})
    changelog = tmp_path / "job" / "changelog"
    shutil.copytree(changelog, tmp_path / "copy")
    lost = Driver.start(tmp_path)
    lost.operators = [DescribedOperator("count", "count", "process", 1, 8, True)]
    lost.checkpoint({"a": 99})
    assert materialize(lost.folder) is not None
    shutil.rmtree(changelog)
    (tmp_path / "copy").rename(changelog)
    driver = Driver.start(tmp_path)
    assert driver.attempt.id == 3
    assert state_at(driver.folder, driver.checkpoint({"bb": 2})) == {"a": 1, "bb": 2}


def test_an_attempt_is_begun_on_the_log_that_it_was_decided_from(tmp_path: Path) -> None:
    """An older copy takes the folder's place while the row is written, and somebody's upkeep goes on with that."""
    first = Driver.start(tmp_path)
    first.checkpoint({"a": 1})
    changelog = tmp_path / "job" / "changelog"
    shutil.copytree(changelog, tmp_path / "copy")
    first.checkpoint({"a": 2})
    log = first.folder.open_changelog()

    def replaced(*given: Any) -> Any:
        shutil.rmtree(changelog)
        (tmp_path / "copy").rename(changelog)
        for _ in range(2):
            first.folder.open_changelog().commit([], [], {"truncated": 0})
        return attempt_row(*given)

    with (
        mock.patch.object(ownership, "attempt_row", replaced),
        pytest.raises(LostCommitError, match="is not the commit that this process wrote or saw"),
    ):
        begin_attempt(log, 1, 2)
    assert Lineage(first.folder.open_changelog()).newest_attempt_id == 1
