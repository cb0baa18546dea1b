"""The extensions in C, built of their sources as they are now: what is installed may be older, or not be there."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from changelog_engine.state.cursor import Cursor
from changelog_engine.state.timer_table import HeapTimers

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all extensions; who asks for it first builds them for all processes of the run.

    Tests that want it are skipped where they cannot be built.
    """
    if shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is None:
        pytest.skip("no C compiler")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():  # then they are left out of the build
        pytest.skip("no Python.h")
    of_process = tmp_path_factory.getbasetemp()
    run = of_process.parent if "PYTEST_XDIST_WORKER" in os.environ else of_process
    folder, is_whole = run / "extensions", run / "extensions" / "is-whole"
    build = ["build_ext", "--build-lib", str(folder), "--build-temp", str(folder / "objects")]
    with (run / "extensions.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_whole.exists():
            subprocess.run(
                [sys.executable, "setup.py", "-q", *build], cwd=ROOT, check=True, capture_output=True
            )
            is_whole.touch()
    return folder


def loaded(name: str, folder: Path) -> ModuleType:
    """An extension, not bound to any classes yet.

    Args:
        name: of its module.
        folder: of `extensions`.
    """
    *package, last = name.split(".")
    found = next(folder.joinpath(*package).glob(f"{last}*"))
    spec = importlib.util.spec_from_file_location(name, found)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def calls(extensions: Path) -> ModuleType:
    """The calls of states and timers in C."""
    module = loaded("changelog_engine.state._handles", extensions)
    module.bind(Cursor, HeapTimers)
    return module
