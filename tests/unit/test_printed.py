"""What functions print finds the driver's standard output: whole, in order, and never as a failure of the job."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from changelog_engine.spark.printed import PrintedOutput, show_text

ROOT = Path(__file__).resolve().parents[2]
WORKER = """
import os, sys
from changelog_engine.spark.printed import flush_printed, print_to
print_to(sys.argv[1])
print_to(None)
"""


def worker(path: str, body: str, **options: object) -> subprocess.Popen[bytes]:
    """A process that prints as a worker does."""
    arguments = [sys.executable, "-c", WORKER + body, path]
    return subprocess.Popen(arguments, cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": "ascii"}, **options)


@pytest.fixture
def shown():
    return []


@pytest.fixture
def output(tmp_path, shown):
    output = PrintedOutput(str(tmp_path / "printed"), shown.append)
    yield output
    output.close()


def test_all_that_a_worker_printed_is_there_after_its_end(output, shown):
    body = (
        "print('one', 'ä', '\\ud800')\nos.system('echo two')\nos.write(1, b'three\\n')\n"
        "print('no line', end='')\nflush_printed()"
    )
    with worker(output.path, body, stdout=subprocess.PIPE) as process:
        assert process.stdout.read() == b""
    output.show()
    assert "".join(shown) == "one ä \\ud800\ntwo\nthree\nno line"


def test_it_shows_while_the_function_runs(output, shown):
    with worker(output.path, "print('begun')\nsys.stdin.read()", stdin=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while "".join(shown) != "begun\n":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.stdin.close()


def test_lines_of_several_workers_stay_whole_and_in_order(output, shown):
    body = "for i in range(500): print(sys.argv[0], os.getpid(), i, 'x' * 200)"
    workers = [worker(output.path, body) for _ in range(4)]
    for process in workers:
        assert process.wait() == 0
    output.show()
    lines = "".join(shown).splitlines()
    assert len(lines) == 2000
    for process in workers:
        mine = [line for line in lines if line.split()[1] == str(process.pid)]
        assert mine == [f"-c {process.pid} {i} {'x' * 200}" for i in range(500)]


@pytest.mark.parametrize("path", ["nowhere", "printed"])
def test_without_a_reader_a_worker_prints_where_it_did(tmp_path, path):
    os.mkfifo(tmp_path / "printed")
    with worker(str(tmp_path / path), "print('here')", stdout=subprocess.PIPE) as process:
        assert process.stdout.read() == b"here\n"
    assert process.returncode == 0


def test_a_reader_that_ended_fails_no_worker(tmp_path):
    reader = (
        "import sys, time\nfrom changelog_engine.spark.printed import PrintedOutput\n"
        "PrintedOutput(sys.argv[1])\nprint('ready', flush=True)\nsys.stdin.read()"
    )
    path = str(tmp_path / "printed")
    arguments = [sys.executable, "-c", reader, path]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, cwd=ROOT, stdin=pipe, stdout=pipe) as driver:
        assert driver.stdout.readline() == b"ready\n"
        body = "print('one')\nsys.stdin.readline()\nprint('two')\nos.write(2, b'went on')"
        with worker(path, body, stdin=pipe, stderr=pipe) as process:
            assert driver.stdout.readline() == b"one\n"
            driver.kill()
            driver.wait()
            process.stdin.write(b"\n")
            process.stdin.close()
            assert process.stderr.read() == b"went on"
    assert process.returncode == 0


def test_closing_shows_the_rest_and_ends_the_thread(tmp_path, shown):
    before = set(threading.enumerate())
    output = PrintedOutput(str(tmp_path / "printed"), shown.append)
    (thread,) = set(threading.enumerate()) - before
    assert worker(output.path, "print('last')").wait() == 0
    output.close()
    assert shown == ["last\n"]
    thread.join(30)
    assert not thread.is_alive()
    output.close()
    output.show()
    assert shown == ["last\n"]


class Broken(io.StringIO):
    def flush(self) -> None:
        raise BrokenPipeError


def test_standard_output_is_looked_up_when_something_is_shown(capsys, monkeypatch, caplog):
    show_text("to the test\n")
    with redirect_stdout(io.StringIO()) as notebook:
        show_text("to a notebook\n")
    assert notebook.getvalue() == "to a notebook\n"
    assert capsys.readouterr().out == "to the test\n"
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed, Broken()):
        monkeypatch.setattr(sys, "stdout", stream)
        show_text("to nobody\n")
    monkeypatch.undo()
    (told,) = [record.getMessage() for record in caplog.records]
    assert (
        "(sys.stdout is None: the program or a function has set it so): what print() gives does not show"
        in told
    )


def test_a_full_disk_is_said_once(monkeypatch, caplog):
    with (
        open("/dev/full", "wb", buffering=0) as full,
        io.TextIOWrapper(full, write_through=True) as stream,
    ):
        monkeypatch.setattr(sys, "stdout", stream)
        show_text("lost\n")
        show_text("lost, too\n")
        monkeypatch.undo()
    assert [record.getMessage() for record in caplog.records] == [
        "standard output cannot be written ([Errno 28] No space left on device): what print() gives does not show; "
        "the job goes on"
    ]


def test_what_standard_output_cannot_show_is_escaped(monkeypatch):
    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(held, "ascii", write_through=True))
    show_text("ä\n")
    assert held.getvalue() == b"\\xe4\n"
