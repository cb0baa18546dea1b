"""A job's files on real workers: modules, packages of pip, archives, named files, an interpreter."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from api.datastream import MapFunction, StreamExecutionEnvironment

pytestmark = pytest.mark.slow


class Look(MapFunction):
    """What a function sees of the job's files."""

    def open(self, runtime_context):
        import changelog_env_module  # on the workers only

        self.word = changelog_env_module.WORD
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value):
        self.seen.inc()
        data, named = Path("data/inner/text").read_text(), Path("named").read_text()
        return self.word, data, named, self.seen.get_count()


def run(tmp_path: Path) -> list:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.add_python_file(str(tmp_path / "changelog_env_module.py"))
    env.add_python_archive(str(tmp_path / "d.zip"), "data")
    env.register_cached_file(str(tmp_path / "n.txt"), "named")
    with env.from_collection(["a", "b"]).map(Look()).execute_and_collect() as results:
        return list(results)


def test_files_reach_the_workers_and_are_never_stale(spark, tmp_path):
    module = tmp_path / "changelog_env_module.py"
    module.write_text("WORD = 'first'\n")
    (tmp_path / "n.txt").write_text("a name")
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as packed:
        packed.writestr("inner/text", "in an archive")
    assert run(tmp_path) == [("first", "in an archive", "a name", 1), ("first", "in an archive", "a name", 2)]
    module.write_text("WORD = 'second'\n")
    assert [row[0] for row in run(tmp_path)] == ["second", "second"]

    # An interpreter of an archive: a script that starts this one, to see that it is what runs.
    with zipfile.ZipFile(tmp_path / "py.zip", "w") as packed:
        script = zipfile.ZipInfo("bin/python")
        script.external_attr = 0o755 << 16
        packed.writestr(script, f'#!/bin/sh\nCHANGELOG_TEST=yes exec "{sys.executable}" "$@"\n')
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.add_python_archive(str(tmp_path / "py.zip"), "venv")
    env.set_python_executable("venv/bin/python")

    def who(_: str) -> str | None:
        import os

        return os.environ.get("CHANGELOG_TEST")

    with env.from_collection(["a"]).map(who).execute_and_collect() as results:
        assert list(results) == ["yes"]


def test_a_module_alone_reaches_the_workers(spark, tmp_path):
    (tmp_path / "changelog_env_alone.py").write_text("WORD = 'alone'\n")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.add_python_file(str(tmp_path / "changelog_env_alone.py"))
    with env.from_collection([1]).map(imported).execute_and_collect() as results:
        assert list(results) == [("alone", [])]


def imported(value):
    import changelog_env_alone

    return changelog_env_alone.WORD, [path.name for path in Path().iterdir()]


def test_required_packages_alone_reach_the_workers(spark, tmp_path):
    package = tmp_path / "made"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        '[project]\nname = "changelog-env-made"\nversion = "1"\n[tool.setuptools]\npy-modules = ["changelog_env_made"]\n'
    )
    (package / "changelog_env_made.py").write_text("WORD = 'made'\n")
    (tmp_path / "requirements.txt").write_text(f"{package}\n")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.set_python_requirements(str(tmp_path / "requirements.txt"))

    def required(value):
        import changelog_env_made

        return changelog_env_made.WORD

    with env.from_collection([1]).map(required).execute_and_collect() as results:
        assert list(results) == ["made"]
