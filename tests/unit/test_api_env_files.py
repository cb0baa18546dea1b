"""What a program brings along: named in code or options, put into one archive."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from api.common import Configuration
from api.datastream import StreamExecutionEnvironment
from changelog_engine.errors import (
    ConfigurationError,
    EnvironmentNotReadyError,
    NotSupportedError,
    StorageError,
)
from changelog_engine.graph.files import Archive, CachedFile, JobFiles, Requirements
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.spark import files
from changelog_engine.testing import without_spark


@pytest.fixture
def env(monkeypatch, tmp_path):
    monkeypatch.delenv("CHANGELOG_ENGINE_CONF", raising=False)
    monkeypatch.chdir(tmp_path)
    return StreamExecutionEnvironment.get_execution_environment()


def job_files(env) -> JobFiles:
    return env._settings.job_settings().files


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def zipped(path: Path, **entries: str) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in entries.items():
            packed.writestr(name.replace("__", "/"), text)
    return path


def wheel(folder: Path, name: str) -> Path:
    """A wheel that pip can install without an index."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as packed:
        packed.writestr(f"{name}.py", "WORD = 'from a wheel'\n")
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        packed.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(
            f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    return folder


def unpacked(staged: files.StagedFiles, target: Path) -> Path:
    with zipfile.ZipFile(staged.archive) as packed:
        packed.extractall(target)
    return target


def test_a_job_without_files_has_none(env):
    assert job_files(env) == JobFiles()
    assert files.stage(JobFiles()) == files.StagedFiles()
    assert files.with_jars(JobSettings(spark={"spark.a": "1"})) == {"spark.a": "1"}


def test_what_calls_name_reaches_the_job(env, tmp_path):
    module, jar = write(tmp_path / "m.py"), write(tmp_path / "a.jar")
    archive, listed = zipped(tmp_path / "d.zip", x="1"), write(tmp_path / "req.txt")
    env.add_python_file("m.py")
    env.add_python_file(module.as_uri())
    env.add_python_archive("d.zip")
    env.add_python_archive(str(archive), "data")
    env.set_python_requirements("req.txt", str(tmp_path))
    env.set_python_executable("data/bin/python")
    env.add_jars("a.jar")
    env.add_classpaths(jar.as_uri())
    env.register_cached_file("m.py", "script", True)
    assert job_files(env) == JobFiles(
        python_files=(str(module),),
        archives=(Archive(str(archive), "d.zip"), Archive(str(archive), "data")),
        requirements=Requirements(str(listed), str(tmp_path)),
        python_executable="data/bin/python",
        cached=(CachedFile(str(module), "script", True),),
        jars=(str(jar),),
    )
    assert env.get_cached_files() == [("script", str(module), True)]


def test_what_options_name_reaches_the_job(env, tmp_path):
    for name in ("m.py", "n.py", "a.jar", "req.txt"):
        write(tmp_path / name)
    zipped(tmp_path / "d.zip", x="1")
    env.configure(
        Configuration(
            {
                "python.files": "m.py, n.py",
                "python.archives": "d.zip#data,d.zip",
                "python.requirements": f"req.txt#{tmp_path}",
                "python.executable": "/usr/bin/python3",
                "pipeline.jars": "file:" + str(tmp_path / "a.jar"),
            }
        )
    )
    made = job_files(env)
    assert [os.path.basename(path) for path in made.python_files] == ["m.py", "n.py"]
    assert [archive.target for archive in made.archives] == ["data", "d.zip"]
    assert made.requirements == Requirements(str(tmp_path / "req.txt"), str(tmp_path))
    assert (made.python_executable, made.jars) == ("/usr/bin/python3", (str(tmp_path / "a.jar"),))


def test_arguments_that_are_refused(env, tmp_path):
    write(tmp_path / "m.py")
    zipped(tmp_path / "a.zip", x="1")
    zipped(tmp_path / "b.zip", x="2")
    cases = [
        (lambda: env.add_python_file("missing.py"), ConfigurationError, r"add_python_file: .*missing\.py"),
        (lambda: env.add_python_file(""), ConfigurationError, "add_python_file"),
        (lambda: env.add_python_file("s3://b/m.py"), NotSupportedError, "another file system"),
        (lambda: env.add_python_archive("m.py"), ConfigurationError, "not an archive"),
        (lambda: env.add_python_archive("a.zip", "../x"), ConfigurationError, "target_dir"),
        (lambda: env.add_python_archive("a.zip", ".."), ConfigurationError, "target_dir"),
        (lambda: env.set_python_requirements("no.txt"), ConfigurationError, "set_python_requirements"),
        (lambda: env.set_python_requirements("m.py", "no"), ConfigurationError, "set_python_requirements"),
        (lambda: env.set_python_executable(None), ConfigurationError, "set_python_executable"),
        (lambda: env.add_jars("m.py", "no.jar"), ConfigurationError, r"add_jars: .*no\.jar"),
        (lambda: env.add_classpaths(str(tmp_path)), ConfigurationError, "name the jar files"),
        (lambda: env.register_cached_file("m.py", "a/b"), ConfigurationError, "plain file name"),
        (lambda: env.register_cached_file(".", "x"), NotSupportedError, "folder"),
        (lambda: env.register_cached_file("m.py", "x", "yes"), ConfigurationError, "executable"),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
    env.register_cached_file("m.py", "x")
    with pytest.raises(ConfigurationError, match="already"):
        env.register_cached_file("m.py", "x")
    env.add_python_archive("a.zip", "same")
    env.add_python_archive("b.zip", "same")
    with pytest.raises(ConfigurationError, match="'same'"):
        job_files(env)


def test_an_option_that_names_nothing_is_refused_before_the_job(env):
    env.configure(Configuration({"python.files": "missing.py"}))
    with pytest.raises(ConfigurationError, match=r"'python\.files'.*missing\.py"):
        job_files(env)


def test_one_archive_holds_everything(tmp_path):
    module = write(tmp_path / "m.py", "A = 1")
    write(tmp_path / "folder" / "package" / "__init__.py", "B = 2")
    write(tmp_path / "folder" / "__pycache__" / "x.pyc", "old")
    library = zipped(tmp_path / "lib.egg", inner__c="3")
    tool = write(tmp_path / "bin" / "tool", "#!/bin/sh\n")
    tool.chmod(0o755)
    subprocess.run(["tar", "czf", "t.tar.gz", "bin"], cwd=tmp_path, check=True)
    staged = files.stage(
        JobFiles(
            python_files=(str(module), str(tmp_path / "folder"), str(library)),
            archives=(Archive(str(tmp_path / "t.tar.gz"), "tools"), Archive(str(library), "lib")),
            cached=(CachedFile(str(module), "settings", False),),
            python_executable="tools/bin/tool",
        )
    )
    root = unpacked(staged, tmp_path / "out")
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert found == {
        "python/0/m.py",
        "python/1/package/__init__.py",
        "python/2/inner/c",
        "work/tools/bin/tool",
        "work/lib/inner/c",
        "work/settings",
    }
    with zipfile.ZipFile(staged.archive) as packed:
        assert packed.getinfo("work/tools/bin/tool").external_attr >> 16 & 0o111
    assert staged.python == "tools/bin/tool"


def test_the_name_follows_the_contents(tmp_path):
    module = write(tmp_path / "m.py", "A = 1")
    first = files.stage(JobFiles(python_files=(str(module),)))
    os.utime(module, (1, 1))
    assert files.stage(JobFiles(python_files=(str(module),))) == first
    write(module, "A = 2")
    assert files.stage(JobFiles(python_files=(str(module),))).name != first.name


def test_files_of_no_use_are_refused(tmp_path):
    text, broken = write(tmp_path / "notes.txt"), write(tmp_path / "broken.zip", "no zip")
    with pytest.raises(ConfigurationError, match="cannot be imported"):
        files.stage(JobFiles(python_files=(str(text),)))
    with pytest.raises(ConfigurationError, match="cannot be unpacked"):
        files.stage(JobFiles(archives=(Archive(str(broken), "x"),)))
    with pytest.raises(ConfigurationError, match="no interpreter"):
        files.stage(JobFiles(python_executable=str(tmp_path / "python")))
    archive = zipped(tmp_path / "a.zip", x="1")
    with pytest.raises(ConfigurationError, match="no archive of the job"):
        files.stage(JobFiles(archives=(Archive(str(archive), "a"),), python_executable="b/bin/python"))
    with pytest.raises(ConfigurationError, match="unpacked to 'a'"):
        files.stage(
            JobFiles(archives=(Archive(str(archive), "a"),), cached=(CachedFile(str(text), "a", False),))
        )


def test_an_archive_stays_in_its_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as packed:
        packed.writestr("../../outside", "x")
    staged = files.stage(JobFiles(archives=(Archive(str(tmp_path / "evil.zip"), "a"),)))
    with zipfile.ZipFile(staged.archive) as packed:
        assert [name for name in packed.namelist() if not name.endswith("/")] == ["work/a/outside"]


def test_requirements_are_installed_from_a_folder(tmp_path):
    cache = wheel(tmp_path / "cache", "changelog_wheel")
    listed = write(tmp_path / "requirements.txt", "changelog_wheel==1.0\n")
    staged = files.stage(JobFiles(requirements=Requirements(str(listed), str(cache))))
    root = unpacked(staged, tmp_path / "out")
    assert (root / "python/0/changelog_wheel.py").read_text() == "WORD = 'from a wheel'\n"
    missing = write(tmp_path / "more.txt", "changelog_other==1.0\n")
    with pytest.raises(EnvironmentNotReadyError, match=r"changelog_other(.|\n)*pip download"):
        files.stage(JobFiles(requirements=Requirements(str(missing), str(cache))))


class Active:
    """A Spark context with jars."""

    def __init__(self, jars: str) -> None:
        self._jars = jars

    def getConf(self) -> dict[str, str]:
        return {"spark.jars": self._jars}


@pytest.mark.parametrize(
    "name",
    [
        "flink-sql-connector-kafka-3.2.0-1.19.jar",
        "flink-python-1.20.1.jar",
        "kafka-clients-3.4.0.jar",
        "pyflink-dependencies.jar",
        "postgresql-42.7.1.jar",
        "mysql-connector-j-8.0.33.jar",
        "mysql-connector-java.jar",
        "ojdbc8.jar",
        "ojdbc11-23.2.jar",
        "sqlite-jdbc-3.45.jar",
        "h2-2.1.jar",
    ],
)
@pytest.mark.parametrize(
    "folder", ["/not/there/", "file:///opt/flink/lib/", "hdfs://nn/jars/", "", "C:\\jars\\"]
)
def test_a_jar_that_the_engine_does_not_need_may_be_missing(env, caplog, folder, name):
    with caplog.at_level("WARNING", logger="changelog_engine"):
        env.add_jars(folder + name)
        env.get_config()
        assert job_files(env).jars == ()
    assert name in caplog.text
    assert "the engine needs none" in caplog.text
    caplog.clear()
    listed = StreamExecutionEnvironment(Configuration().set_string("pipeline.jars", folder + name))
    assert job_files(listed).jars == ()
    assert "option 'pipeline.jars': there is no file" in caplog.text


@pytest.mark.parametrize("name", ["my-udf.jar", "flinkless.jar", "h2o.jar", "flink-udf.zip"])
def test_another_jar_that_is_missing_is_an_error(env, name):
    with pytest.raises(ConfigurationError, match="there is no file"):
        env.add_jars(f"/not/there/{name}")


def test_a_second_execution_does_not_warn_of_jars_that_are_loaded(monkeypatch, caplog):
    settings = JobSettings(files=JobFiles(jars=("/a.jar", "/b c.jar")))
    monkeypatch.setattr(files, "active_context", lambda: Active("file:///a.jar,/x.jar,file:/b%20c.jar"))
    with caplog.at_level("WARNING", logger="changelog_engine"):
        files.with_jars(settings)
        assert not caplog.text
        monkeypatch.setattr(files, "active_context", lambda: Active("/a.jar"))
        files.with_jars(settings)
    assert "/b c.jar cannot be added" in caplog.text


def test_jars_go_to_a_session_that_is_not_there_yet(monkeypatch, caplog):
    settings = JobSettings(spark={"spark.jars": "/x.jar"}, files=JobFiles(jars=("/a.jar", "/b.jar")))
    monkeypatch.setattr(files, "active_context", lambda: None)
    assert files.with_jars(settings) == {"spark.jars": "/x.jar,/a.jar,/b.jar"}
    monkeypatch.setattr(files, "active_context", lambda: Active(""))
    with caplog.at_level("WARNING", logger="changelog_engine"):
        assert files.with_jars(settings) == {"spark.jars": "/x.jar"}
    assert "/a.jar" in caplog.text


@pytest.mark.parametrize("gone", [False, True], ids=["", "the folder that it began in was deleted"])
def test_a_worker_enters_its_files(tmp_path, gone):
    module = write(tmp_path / "m.py", "A = 1")
    staged = files.stage(
        JobFiles(python_files=(str(module),), cached=(CachedFile(str(module), "data", False),))
    )
    unpacked(staged, tmp_path / "root" / staged.name)
    began = tmp_path / "root"
    if gone:
        began = tmp_path / "gone"
        began.mkdir()
    program = (
        "import os, sys; from pyspark import SparkFiles\n"
        f"SparkFiles._root_directory = {str(tmp_path / 'root') if gone else '.'!r}\n"
        "SparkFiles._is_running_on_worker = True\n"
        "from changelog_engine.spark import files\n"
        f"sys.path.append('relative'); {'os.rmdir(os.getcwd())' if gone else 'pass'}\n"
        "files.enter(); files.enter(); files.work_in('/'); import m; print(m.A, open('data').read())\n"
    )
    repository = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=began,
        env={**os.environ, files.FILES_VARIABLE: staged.name, "PYTHONPATH": repository},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("1 A = 1\n", 0), done.stderr


@pytest.mark.parametrize("kind", ["python_files", "cached"])
def test_case_12_files_that_a_cleaner_removed_are_told_as_such(tmp_path, monkeypatch, kind):
    """Not as a module that was never shipped, or a function's file that is missing."""
    module = write(tmp_path / "m.py", "A = 1")
    given = {"python_files": (str(module),), "cached": (CachedFile(str(module), "data", False),)}
    staged = files.stage(JobFiles(**{kind: given[kind]}))
    root = tmp_path / "root" / staged.name
    unpacked(staged, root)
    for path in root.rglob("*.py") if kind == "python_files" else [root / "work" / "data"]:
        path.unlink()
    monkeypatch.setenv(files.FILES_VARIABLE, staged.name)
    monkeypatch.setattr(files.SparkFiles, "getRootDirectory", lambda: str(root.parent))
    with pytest.raises(
        EnvironmentNotReadyError, match=f"the files that the job ships are gone from .*{root}"
    ):
        files.enter()


def test_a_worker_of_a_job_without_files_goes_where_the_program_works(tmp_path, monkeypatch):
    for name in ("began", "one"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "began")
    files.work_in(None)
    assert Path.cwd() == tmp_path / "began"
    files.work_in(str(tmp_path / "one"))
    assert Path.cwd() == tmp_path / "one"
    with pytest.raises(StorageError, match="two, in which the program started the job, cannot be entered"):
        files.work_in(str(tmp_path / "two"))


def test_without_spark_a_jar_is_in_nobodys_way_and_a_module_is_refused(env, tmp_path):
    jar, module = tmp_path / "my-udf.jar", tmp_path / "mine.py"
    jar.write_bytes(b"")
    module.write_text("")
    env.add_jars(str(jar))
    with without_spark(), env.from_collection([1, 2]).execute_and_collect() as found:
        assert list(found) == [1, 2]
    env.add_python_file(str(module))
    with without_spark(), pytest.raises(NotSupportedError, match="this job ships files to workers"):
        env.from_collection([1]).execute_and_collect()
