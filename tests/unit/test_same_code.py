"""A program's modules mean the same in Spark's workers as in the driver."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import SparkFiles

from changelog_engine.spark import same_code
from changelog_engine.spark.daemon_messages import INT, PIN_VARIABLE
from changelog_engine.spark.same_code import ImportPath, forget_changed, path_here, worker_environment
from changelog_engine.whose_code import is_users

LIBRARY = sysconfig.get_path("stdlib")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process passes for one of Spark's workers."""
    monkeypatch.setattr(SparkFiles, "_root_directory", "/spark/files")
    monkeypatch.setattr(same_code, "_loaded", ("", 0, frozenset()))
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.usefixtures("worker")
def test_what_the_driver_has_before_pythons_library_a_worker_has_too_behind_the_jobs_files() -> None:
    sys.path[:] = ["/spark/files", "/spark/files/job/python/0", "/spark/py4j.zip", "/shop", LIBRARY, "/site"]
    driver = ImportPath(("/shop/jobs", "/spark/files", "/shop"), (LIBRARY, "/site", "/appended"))
    for _ in range(2):
        driver.use()
        assert sys.path == [
            "/spark/files/job/python/0",
            *("/shop/jobs", "/spark/files", "/shop"),
            "/spark/py4j.zip",
            *(LIBRARY, "/site", "/appended"),
        ]


@pytest.mark.usefixtures("worker")
def test_another_installations_library_stays_behind_the_workers_own() -> None:
    sys.path[:] = ["/spark/py4j.zip", "/usr/python", "/usr/site"]
    ImportPath(("/shop/jobs",), ("/opt/python", "/opt/site")).use()
    assert sys.path == [
        "/shop/jobs",
        "/spark/py4j.zip",
        "/usr/python",
        "/usr/site",
        "/opt/python",
        "/opt/site",
    ]


def test_in_the_drivers_own_process_the_path_stays_as_it_is() -> None:
    before = list(sys.path)
    ImportPath(("/shop/jobs",), ("/appended",)).use()
    assert sys.path == before


def test_a_relative_entry_means_what_it_meant_when_the_job_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "lib", LIBRARY, "a hook of a finder's"])
    assert path_here() == ((str(tmp_path), str(tmp_path / "lib")), (LIBRARY, "a hook of a finder's"))


@pytest.mark.usefixtures("worker")
def test_the_folder_where_a_worker_started_is_last_and_what_it_starts_knows_nothing_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", worker_environment({})["PYTHONSAFEPATH"])
    ImportPath((), ()).use()
    assert sys.path[-1] == str(tmp_path)
    assert "PYTHONSAFEPATH" not in os.environ
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # the program's own
    ImportPath((), ()).use()
    assert os.environ["PYTHONSAFEPATH"] == "1"
    assert "PYTHONSAFEPATH" not in worker_environment({})


@pytest.mark.usefixtures("worker")
def test_a_worker_whose_folder_was_removed_imports_as_the_driver_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's workers begin where its JVM did, and programs of one session may work in one folder after the other."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("PYTHONSAFEPATH", worker_environment({})["PYTHONSAFEPATH"])
    ImportPath(("/shop/jobs",), ("/site",)).use()
    assert (sys.path[0], sys.path[-1]) == ("/shop/jobs", "/site")
    assert "PYTHONSAFEPATH" not in os.environ


def test_modules_in_the_working_directory_do_not_keep_workers_from_starting(tmp_path: Path) -> None:
    for name in ("select", "queue", "types"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('this is the program's own')\n")
    daemon = subprocess.Popen(
        [sys.executable, "-m", "changelog_engine.spark.daemon"],
        cwd=tmp_path,
        env={**os.environ, **worker_environment({}), PIN_VARIABLE: "0/0", "PYTHON_WORKER_FACTORY_SECRET": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    out, _ = daemon.communicate()  # and its input ends
    assert len(out) == INT.size  # a port
    assert daemon.returncode == 0


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the program's, which imports another one."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(same_code, "_COARSE_MS", 0)
    for name in ("env_rules", "env_factors"):
        monkeypatch.setitem(sys.modules, name, sys)  # and so they are gone behind the test
        del sys.modules[name]
    (tmp_path / "env_factors.py").write_text("FACTOR = 1\n")
    (tmp_path / "env_rules.py").write_text("from env_factors import FACTOR\n")
    return importlib.import_module("env_rules")


@pytest.mark.usefixtures("worker")
def test_the_next_job_imports_anew_what_was_changed_and_what_imports_it(
    tmp_path: Path, rules: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(same_code, "is_users", lambda path: path.startswith(str(tmp_path)))
    changed_ms = max(file.stat().st_ctime * 1000 for file in tmp_path.glob("*.py"))  # maybe ms apart
    monkeypatch.setattr(same_code, "_loaded", ("before", int(changed_ms) + 1, frozenset()))
    for run, now_ms in (("one", changed_ms + 1), ("two", changed_ms + 2)):
        monkeypatch.setattr(same_code, "wall_ms", lambda now_ms=now_ms: now_ms)
        forget_changed(run)
    assert importlib.import_module("env_rules") is rules

    monkeypatch.setattr(same_code, "_loaded", ("two", changed_ms - 1, frozenset()))
    (tmp_path / "env_factors.py").write_text("FACTOR = 1000\n")
    forget_changed("two")
    assert importlib.import_module("env_rules") is rules  # one job has one version
    forget_changed("three")
    assert importlib.import_module("env_rules").FACTOR == 1000
    assert sys.modules["changelog_engine.spark.same_code"] is same_code


@pytest.mark.usefixtures("worker")
def test_what_a_worker_has_before_its_first_job_is_never_imported_anew(
    tmp_path: Path, rules: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark, numpy and others may be installed in a folder that looks like one of the program's."""
    monkeypatch.setattr(same_code, "is_users", lambda path: path.startswith(str(tmp_path)))
    monkeypatch.setattr(same_code, "wall_ms", lambda: 0)  # so that all was changed since
    forget_changed("one")
    (tmp_path / "env_late.py").write_text("")
    late = importlib.import_module("env_late")
    monkeypatch.delitem(sys.modules, "env_late")
    monkeypatch.setitem(sys.modules, "env_late", late)
    forget_changed("two")
    assert sys.modules["env_rules"] is rules
    assert "env_late" not in sys.modules


@pytest.mark.usefixtures("rules")
def test_in_the_drivers_own_process_nothing_is_forgotten(tmp_path: Path) -> None:
    forget_changed("one")
    (tmp_path / "env_rules.py").write_text("FACTOR = 1000\n")
    forget_changed("two")
    assert sys.modules["env_rules"].FACTOR == 1


@pytest.mark.parametrize(
    ("path", "theirs"),
    [
        ("/shop/jobs/visits.py", True),
        ("/shop/.venv/lib/python3.11/site-packages/numpy/core.py", False),
        ("/usr/lib/python3/dist-packages/numpy/core.py", False),
        (f"{LIBRARY}/json/decoder.py", False),
        (same_code.__file__, False),
    ],
)
def test_whose_a_file_is(path: str, theirs: bool) -> None:
    assert is_users(path) == theirs
