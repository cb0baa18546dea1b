"""Waiting ends for what makes no progress, never for what is slow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "examples" / "flights"))

from patience import Patience, Session, session
from watch import Progress, progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_case_56_what_moves_on_is_waited_for_however_slow_it_is() -> None:
    clock = Clock()
    patience = Patience(300, clock)
    for step in range(100):
        clock.now += 299
        assert not patience.has_run_out(step // 2, "the same" if step % 2 else "another")


def test_case_56_what_stands_still_is_not() -> None:
    clock = Clock()
    patience = Patience(300, clock)
    assert not patience.has_run_out("a", 1)
    clock.now = 300
    assert not patience.has_run_out("a", 1)
    clock.now = 301
    assert patience.has_run_out("a", 1)
    assert not patience.has_run_out("a", 2)


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    code = "while True: pass"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_case_56_processor_time_is_progress(busy: subprocess.Popen[bytes]) -> None:
    """A job that a loaded machine gives little of its time to works all the same."""
    found = session(busy.pid)
    while not session(busy.pid).cpu_s > found.cpu_s:
        assert busy.poll() is None
    assert found.processes == 1
    assert not found.java
    assert not found.workers
    assert Session(cpu_s=29.9).effort == 2


def test_a_session_that_is_gone_has_no_processes() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    assert session(process.pid).processes == 0


def test_workers_are_the_children_of_daemons(tmp_path: Path) -> None:
    code = "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code + "print(flush=True)\ninput()"],
        env={**os.environ, "CHANGELOG_ENGINE_SUBTASK": "0/1/2"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        while session(process.pid).workers != 1:
            assert process.poll() is None
        assert process.stdin is not None
        process.stdin.close()


def test_a_table_that_has_no_commit_yet_shows_no_progress(tmp_path: Path) -> None:
    assert progress(tmp_path / "changelog") == Progress()
    (tmp_path / "changelog" / "_delta_log").mkdir(parents=True)
    assert progress(tmp_path / "changelog") == Progress()
