"""``make test`` says so when tests failed, and when they have not run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# In place of python and of java: ends as the case says for the slow tests, for the others, and for what is run once more.
PROGRAM = """#!/bin/bash
case "$*" in
    *-version*) echo 'version "17.0.1"' >&2 ;;
    *--last-failed*) exit "$AGAIN" ;;
    *"not slow"*) echo "the fast tests"; exit "$FAST" ;;
    *) exit "$SLOW" ;;
esac
"""


@pytest.mark.parametrize(
    ("slow", "fast", "again", "succeeds"),
    [
        (0, 0, 5, True),
        (1, 0, 0, True),
        (1, 0, 1, False),
        (1, 0, 5, False),  # what failed is not known
        (0, 1, 0, False),
        (1, 1, 0, False),
        (0, 5, 0, False),
        (2, 0, 0, False),  # interrupted: there was more than what failed
        (3, 0, 0, False),
        (5, 0, 0, False),
        (137, 0, 0, False),  # what failed is that of an earlier run
    ],
)
def test_make_test_fails_when_tests_fail_or_have_not_run(
    slow: int, fast: int, again: int, succeeds: bool, tmp_path: Path
) -> None:
    made = _make_test(tmp_path, slow, fast, again)
    assert (made.returncode == 0) == succeeds, made.stdout + made.stderr


def test_a_tail_that_follows_nothing_fails_no_test(tmp_path: Path) -> None:
    """As that of a Mac: what failed is run once more all the same, and what was said is shown."""
    tail = tmp_path / ".venv" / "bin" / "tail"
    tail.parent.mkdir(parents=True)
    tail.write_text("#!/bin/bash\nexit 1\n")
    tail.chmod(0o755)
    made = _make_test(tmp_path, 1, 0, 0)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "the fast tests" in made.stdout


def _make_test(tmp_path: Path, slow: int, fast: int, again: int) -> subprocess.CompletedProcess[str]:
    (made_of,) = re.findall(r"^\$\(STAMP\): (.+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for name in made_of.split():  # older than what is made of them
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    cases = {"SLOW": str(slow), "FAST": str(fast), "AGAIN": str(again), "JAVA_HOME": str(tmp_path)}
    return subprocess.run(
        ["make", "-f", str(ROOT / "Makefile"), "test", f"PY={program}", f"STAMP={program}"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
        | cases,
        capture_output=True,
        text=True,
        check=False,
    )


def test_tests_that_no_worker_was_left_to_run_are_no_success(request: pytest.FixtureRequest) -> None:
    plugins = request.config.pluginmanager.get_plugins()
    conftest: Any = next(each for each in plugins if hasattr(each, "_Together"))

    def ended(done: dict[str, bool], waiting: dict[str, bool]) -> int:
        scheduler = object.__new__(conftest._Together)
        scheduler.assigned_work = {"gw0": {"a.py": done}}
        scheduler.workqueue = {"b.py": waiting} if waiting else {}
        plugin = SimpleNamespace(getplugin=lambda name: SimpleNamespace(sched=scheduler))
        session = SimpleNamespace(config=SimpleNamespace(pluginmanager=plugin), exitstatus=1)
        conftest.pytest_sessionfinish(session)
        return int(session.exitstatus)

    assert ended({"a.py::test_1": True}, {}) == 1
    assert ended({"a.py::test_1": True}, {"b.py::test_1": False}) == 2
    assert ended({"a.py::test_1": True, "a.py::test_2": False}, {}) == 2
