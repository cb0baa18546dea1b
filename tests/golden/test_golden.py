"""The programs beside this file, with what real PyFlink 1.20.1 printed for them.

``NAME.expected`` was written by real PyFlink, run twice with the same result; never by this engine. A line that was
put right by hand is named in its program. ``record.py --check`` compares them with PyFlink, where that is at hand. Lines
are compared sorted, unless the program's first line is ``# ordered``. All programs run in one process, on one Spark session.
One that sleeps measures itself against the clock: where its output differs, the machine may have been busy, and it is run
again by itself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from record import lines_of

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PROGRAMS = {path.stem: path for path in sorted(HERE.glob("[0-9]*.py"))}
_TIMEOUT_S = 900


@pytest.fixture(scope="module")
def printed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the output of all programs that were selected."""
    wanted = {
        item.callspec.params["name"]
        for item in request.session.items
        if "printed" in getattr(item, "fixturenames", ())
    }
    names = [name for name in PROGRAMS if name in wanted]
    folder = tmp_path_factory.mktemp("golden")
    run(names, folder, tmp_path_factory)
    return folder


def sleeps(name: str) -> bool:
    """Whether a program waits for time to pass."""
    return "time.sleep(" in PROGRAMS[name].read_text(encoding="utf-8")


def run(names: list[str], folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Run programs, one after the other in a process of their own."""
    own = tmp_path_factory.mktemp("child")
    environment = dict(os.environ, TZ="UTC", TMPDIR=str(own), PYTHONPATH=str(HERE.parents[1]))
    command = [sys.executable, str(HERE / "golden_child.py"), str(folder)]
    command += [str(PROGRAMS[name]) for name in names]
    with open(folder / "stderr", "w") as errors, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command,
            cwd=own,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            check=False,
            timeout=_TIMEOUT_S,
        )


def differences(name: str, folder: Path) -> tuple[list[str], list[str]] | None:
    """Lines printed and lines expected, where they differ."""
    error, out = folder / f"{name}.err", folder / f"{name}.out"
    assert not error.exists(), error.read_text(encoding="utf-8")
    assert out.exists(), f"{name} was not reached"
    ordered = PROGRAMS[name].read_text(encoding="utf-8").startswith("# ordered")
    printed = lines_of(out.read_text(encoding="utf-8"), ordered)
    expected = lines_of((HERE / f"{name}.expected").read_text(encoding="utf-8"), ordered)
    return None if printed == expected else (printed, expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_what_pyflink_prints(
    printed: Path, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    differing = differences(name, printed)
    if differing is not None and sleeps(name):
        alone = tmp_path_factory.mktemp("alone")
        run([name], alone, tmp_path_factory)
        differing = differences(name, alone)
    if differing is not None:
        assert differing[0] == differing[1]
