"""Drivers that are killed, stopped or out of reach: others notice by the signs of life that do not come.

Reliability case 63: of drivers that stand still.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from servers.s3 import S3Server

from changelog_engine.cli import main
from changelog_engine.cli import rescale as asking
from changelog_engine.clock import wall_s
from changelog_engine.driver.signs_of_life import SignsOfLife
from changelog_engine.errors import StorageError
from changelog_engine.graph.nodes import JobGraph, JobSettings
from changelog_engine.ledger import ownership
from changelog_engine.ledger.job_folder import LOCK_FILE, JobFolder, open_job_folder
from changelog_engine.ledger.ownership import SILENT_S, DriverIdentity, DriverLock, driver_of
from changelog_engine.ledger.requests import take_requests
from changelog_engine.observing import Observers
from changelog_engine.storage.file_systems import options_in_use, use_options
from changelog_engine.storage.object_store import ObjectStore

HOLDS = """
import sys, time
from changelog_engine.ledger.job_folder import open_job_folder
from changelog_engine.ledger.ownership import DriverLock
DriverLock(open_job_folder(sys.argv[1], "job")).acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def far(s3: S3Server) -> Iterator[JobFolder]:
    """A job's folder on an object store, where nothing is locked."""
    before = options_in_use()
    use_options({"s3.endpoint": s3.endpoint, "s3.access-key": s3.access_key, "s3.secret-key": s3.secret_key})
    yield open_job_folder(f"s3://{s3.create_bucket()}/jobs", "job")
    use_options(before)


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SILENT_S", 0.4)
    monkeypatch.setattr(asking, "_LOOK_FAR_S", 0.05)


def asked(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(words))
    return done.exit_code, " ".join(done.output.split())


def test_case_63_a_stopped_driver_is_called_so(tmp_path: Path) -> None:
    path = str(tmp_path / "job")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            assert "stopped" not in asked("status", path)[1]
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            assert (
                f"that process is stopped: let it go on (kill -CONT {process.pid})"
                in asked("status", path)[1]
            )
            status, said = asked("rescale", path, "2")
            assert status == 1
            assert f"is stopped, and answers nothing: let it go on (kill -CONT {process.pid})" in said
            assert not (tmp_path / "job" / "requests").exists()
        finally:
            process.kill()


def test_case_63_a_driver_that_gives_no_sign_is_told_although_its_lock_is_there(
    tmp_path: Path, short_silence: None
) -> None:
    long_ago = wall_s() - 90
    with DriverLock(open_job_folder(str(tmp_path), "job"), clock=lambda: long_ago):
        path = str(tmp_path / "job")
        assert "; no sign of life for 1.5 min" in asked("status", path)[1]
        status, said = asked("rescale", path, "2")
        assert status == 1
        assert f"its driver (process {os.getpid()} on " in said
        assert "gave no sign of life in 0.4 s: it was killed, is stopped" in said
        assert said.endswith("the request is withdrawn")


def test_case_63_on_object_stores_signs_tell_who_runs_a_job(far: JobFolder) -> None:
    now = wall_s()
    assert driver_of(far).running is None
    first, second = DriverLock(far, lambda: now - 7), DriverLock(far, lambda: now)
    first.acquire()
    assert driver_of(far, lambda: now)[:4] == (True, *first.identity)
    assert driver_of(far, lambda: now + SILENT_S).running is None
    assert driver_of(far, lambda: now - 7 - SILENT_S - 1).running is None, "a clock that differs"
    second.acquire()
    assert driver_of(far).identity == second.identity
    first.release()
    assert driver_of(far).identity == second.identity, "it took the job over"
    assert "state running:" in asked("status", far.storage.root)[1]
    assert "is not tried" in " ".join(asked("doctor", far.storage.root.rpartition("/")[0])[1].split())
    second.release()
    assert driver_of(far).identity == DriverIdentity()
    second.sign()
    assert not far.storage.exists(LOCK_FILE), "no sign after the end"


@pytest.mark.parametrize("ahead_s", [-7, 300])
def test_case_63_status_says_how_old_the_last_sign_is(tmp_path: Path, ahead_s: int) -> None:
    """Where no lock tells it, as of a driver on another machine."""
    lock = tmp_path / "job" / LOCK_FILE
    with DriverLock(open_job_folder(str(tmp_path), "job")):
        noted = json.loads(lock.read_bytes())
    signed = {**noted, "host": "elsewhere", "signed_ms": int((wall_s() + ahead_s) * 1000)}
    lock.write_text(json.dumps(signed))
    said = asked("status", str(tmp_path / "job"))[1]
    if ahead_s < 0:
        assert "running: process" in said
        assert "its last sign of life, of which one comes each 10 s, is 7" in said
        assert "no process here" not in said
    else:
        assert "or running elsewhere (the last driver known here: process" in said
        assert "its last sign of life is 5.0 min ahead of the clock here: set the clocks" in said


def test_case_63_status_tells_a_killed_driver_of_this_machine(far: JobFolder) -> None:
    lock = DriverLock(far)
    lock.acquire()
    assert "no process here" not in asked("status", far.storage.root)[1]
    dead = subprocess.Popen(["true"])
    dead.wait()
    far.storage.write_durable(
        LOCK_FILE,
        json.dumps({**lock.identity._asdict(), "pid": dead.pid, "signed_ms": int(wall_s() * 1000)}).encode(),
    )
    said = asked("status", far.storage.root)[1]
    assert f"running: process {dead.pid} on " in said
    assert (
        "no process here has that number: it was killed, unless it is in a container; its last sign of life"
        in said
    )


@pytest.mark.parametrize("taken", [False, True])
def test_case_63_a_request_to_a_driver_that_was_killed_ends_soon(
    far: JobFolder, short_silence: None, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = DriverLock(far)
    lock.acquire()
    looked = asking.driver_of

    def look(folder: JobFolder) -> Any:
        if taken:
            take_requests(far, lock.identity, set())
        return looked(folder)

    monkeypatch.setattr(asking, "driver_of", look)
    status, said = asked("rescale", far.storage.root, "2")
    assert status == 1
    assert "gave no sign of life in 0.4 s" in said
    assert ("it had taken the request" in said) is taken
    assert far.storage.list("requests") == []
    lock.release()
    status, said = asked("rescale", far.storage.root, "2")
    assert "no driver gave a sign of life in 0.4 s" in said


def test_case_63_a_driver_that_lives_is_waited_for(far: JobFolder, short_silence: None) -> None:
    lock = DriverLock(far)
    lock.acquire()
    signs = SignsOfLife(lock, every_s=0.05)
    signs.start()
    assert "no driver took the request in 1 s" in asked("rescale", far.storage.root, "2", "--timeout", "1")[1]
    signs.stop()


def test_signs_of_life_tell_what_the_job_does(tmp_path: Path, far: JobFolder) -> None:
    """Those who have no terminal of the driver's see that it restarts, and why, also where a full disk takes no notes."""
    near = open_job_folder(str(tmp_path), "job")
    monitor_of = Observers(JobGraph("job", (), 1), JobSettings())
    monitor_of.monitor.failure = "disk full: could not write x"
    monitor_of.monitor.status("RESTARTING", restarts=3)
    for folder in (near, far):
        with DriverLock(folder) as lock:
            assert "does" not in asked("status", folder.storage.root)[1].split()
            signs = SignsOfLife(lock, monitor_of.doing, every_s=0.001)
            signs.start()
            while driver_of(folder).doing is None:
                threading.Event().wait(0.001)
            signs.stop()
            said = " ".join(asked("status", folder.storage.root)[1].split())
            assert "does waiting to restart, restart 3 (" in said
            assert " s); the attempt before failed: disk full: could not write x [" in said
            assert "ago]" in said
        assert "waiting to restart" not in asked("status", folder.storage.root)[1], "it has ended"


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600", '"', "\n"])
def test_what_a_sign_tells_keeps_the_note_as_long_as_it_is(tmp_path: Path, letter: str) -> None:
    folder = open_job_folder(str(tmp_path), "job")
    with DriverLock(folder) as lock:
        sizes = set()
        for count in (0, 1, 10_000):
            lock.sign(letter * count)
            sizes.add((tmp_path / "job" / LOCK_FILE).stat().st_size)
            assert (driver_of(folder).doing or "") == (letter * count)[: len(driver_of(folder).doing or "")]
            assert driver_of(folder).identity == lock.identity
        assert len(sizes) == 1
        assert sizes.pop() <= 4_096, "whom the lock refuses reads so much"


def test_case_63_signs_go_on_after_one_that_could_not_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = DriverLock(open_job_folder(str(tmp_path), "job"))
    lock.acquire()
    tried, sign = threading.Semaphore(0), lock.sign

    def failing(doing: str) -> None:
        tried.release()
        raise StorageError("the disk is away", "lock")

    monkeypatch.setattr(lock, "sign", failing)
    signs = SignsOfLife(lock, every_s=0.001)
    with caplog.at_level(logging.WARNING, "changelog_engine"):
        signs.start()
        for _ in range(3):
            assert tried.acquire(timeout=10)
    assert [record.message for record in caplog.records] == [
        "others cannot see that this driver runs: the disk is away"
    ]
    path = tmp_path / "job" / LOCK_FILE
    path.write_text("{}")
    monkeypatch.setattr(lock, "sign", lambda doing: (sign(doing), tried.release()))
    while not path.read_text().startswith('{"host"'):
        assert tried.acquire(timeout=10)
    signs.stop()
    assert json.loads(path.read_text())["pid"] == os.getpid()
    lock.release()


@pytest.mark.parametrize("silent", ["write_durable", "read_document"])
def test_case_63_the_end_does_not_wait_for_a_store_that_is_silent(
    far: JobFolder, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_PATIENCE_S", 0.05)
    answers, asked_for = threading.Event(), threading.Event()
    call = getattr(ObjectStore, silent)

    def waits(*given: Any) -> Any:
        asked_for.set()
        assert answers.wait(20)
        return call(*given)

    lock = DriverLock(far)
    lock.acquire()
    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, silent, waits)
        signing = threading.Thread(target=lock.sign)
        if silent == "write_durable":
            signing.start()
            assert asked_for.wait(10)
        lock.release()
        assert asked_for.is_set()
        assert not answers.is_set()
        answers.set()
        if signing.ident is not None:
            signing.join()
