"""What plain Python says of operators that no execution took; the launcher's note is in test_launcher.py."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
    import sys
    from changelog_engine.api.datastream import StreamExecutionEnvironment

    def build():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1]).map(lambda value: value).name("First")
        return env

    {}
"""
NOTE = "note: the script ended and did not run {}: nothing runs before env.execute()\n"


def ended(folder: Path, end: str) -> subprocess.CompletedProcess[str]:
    """What became of the program with this end."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(PROGRAM).format(end))
    return subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        check=False,
    )


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("env = build()", NOTE.format("First")),
        ("build()", NOTE.format("First")),  # an environment that is gone
        ("build(); envs = [build()]", NOTE.format("First, First")),
        ("env = build(); env._graph._waiting.clear()", ""),  # as an execution leaves it
        ("env = build(); import changelog_engine.cli", ""),  # which tells it itself
        ("sys.stderr.close(); env = build()", ""),
    ],
)
def test_a_program_that_forgot_to_execute_is_told(tmp_path: Path, end: str, said: str) -> None:
    done = ended(tmp_path, end)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", said)


def test_a_program_that_failed_is_told_its_error_alone(tmp_path: Path) -> None:
    done = ended(tmp_path, "env = build(); 1 / 0")
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "note" not in done.stderr
