"""``print()`` in functions goes to the program's standard output, as in Flink's local mode, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).with_name("printing_job.py")
MAPPED = "opened 0\nmapped 1 ä\nINFO:mine:logged\nmapped 2 ä\nfrom a shell\nmapped 3 ä\n"
NO_THREAD = (
    "from changelog_engine.spark.printed import PrintedOutput\nPrintedOutput._follow = lambda self: None\n"
)
PRINTED = MAPPED + "sink> 1\nsink> 2\nsink> 3\nclosed "


def run(tmp_path: Path, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program of two sessions of logging and printing."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
        timeout=600,
    )


def test_functions_print_on_standard_output_and_py4j_does_not(tmp_path: Path) -> None:
    """Without the thread that shows what comes: at the end of an epoch all of it is shown."""
    job = JOB.read_text(encoding="utf-8").replace("from pyflink", "from changelog_engine.api")
    program = tmp_path / "job.py"
    program.write_text(NO_THREAD + job)
    ended = run(tmp_path, program)
    assert ended.returncode == 0, ended.stderr.decode()
    assert ended.stdout.decode() == f"before\n{PRINTED}after\n{PRINTED}{PRINTED}\n"
    assert b"mapped" not in ended.stderr
    assert b"from a shell" not in ended.stderr
    assert b"WARNING" not in ended.stderr  # of Java, of the options that Spark gives it


def test_what_was_printed_before_a_failure_is_there(tmp_path: Path) -> None:
    """And the launcher prints as Python does."""
    ended = run(tmp_path, "-m", "changelog_engine", "run", JOB, PRINTING_JOB_FAILS="yes")
    assert ended.returncode == 1
    assert ended.stdout.decode() == f"before\n{MAPPED}no line"
    assert b"ValueError: three" in ended.stderr
    assert b"mapped" not in ended.stderr
    assert b"from a shell" not in ended.stderr


def test_a_closed_standard_output_fails_no_job(tmp_path: Path) -> None:
    program = 'exec "$0" -m changelog_engine run "$1" >&-'
    ended = subprocess.run(
        ["sh", "-c", program, sys.executable, JOB],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=600,
    )
    assert b"Error" not in ended.stderr, ended.stderr.decode()
    assert ended.returncode == 0
