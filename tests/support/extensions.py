"""The extensions in C, built of their sources as they are now: what is installed may be older, or not be there."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def built(name: str, folder: Path) -> ModuleType:
    """An extension, not bound to any classes yet; the test is skipped where it cannot be built.

    Args:
        name: of its module.
        folder: for what is built.
    """
    if shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is None:
        pytest.skip("no C compiler")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():  # then it is left out of the build
        pytest.skip("no Python.h")
    build = ["build_ext", "--build-lib", str(folder), "--build-temp", str(folder / "objects")]
    subprocess.run([sys.executable, "setup.py", "-q", *build], cwd=ROOT, check=True, capture_output=True)
    *package, last = name.split(".")
    found = next(folder.joinpath(*package).glob(f"{last}*"))
    spec = importlib.util.spec_from_file_location(name, found)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
