"""A JVM that starts before PySpark asks for one: with what, for whom, and that a refused job leaves none."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError

from changelog_engine.java import find_java
from changelog_engine.spark import early_jvm
from changelog_engine.spark.early_jvm import started_early, take
from changelog_engine.spark.gateway import own_gateway
from changelog_engine.spark.jvm_options import JvmSettings
from changelog_engine.spark.session_options import session_environment, session_options

PLAIN = {"spark.master": "local[2]"}
WANTED = JvmSettings("-Xss4m -XX:+UseSerialGC")
# Runs Spark's launcher; in place of Spark it tells what that would be, and waits until its input ends.
JAVA = """#!{python}
import json, os, signal, sys
if "org.apache.spark.launcher.Main" in sys.argv:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
told = os.path.join({folder!r}, "told.json")
with open(told + ".part", "w") as file:
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    json.dump([os.getpid(), sys.argv[1:], dict(os.environ), ignored], file)
os.rename(told + ".part", told)
if not {waits}:
    sys.exit(3)
sys.stdin.read()
"""
REFUSED = """
import json, os, sys, time
from changelog_engine.api.common import Types
from changelog_engine.api.datastream import StreamExecutionEnvironment

class Refused:
    def __reduce__(self):
        if "changelog_engine.launch" in sys.modules:  # execute() was called
            deadline = time.monotonic() + 30
            while not os.path.exists("told.json") and time.monotonic() < deadline:
                time.sleep(0.01)
        raise ValueError("no such function")
    def __call__(self, value):
        return value

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1], Types.LONG()).map(Refused()).print()
try:
    env.execute("refused")
except Exception as error:
    print("no such function" in str(error))
    try:
        os.kill(json.load(open("told.json"))[0], 0)
        print("it lives")
    except ProcessLookupError:
        print("it has ended")
"""


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user who says nothing about Spark or Java, and a process that has no PySpark."""
    for name in os.environ:
        if name.startswith(("SPARK_", "PYSPARK_", "JAVA_", "JDK_", "_JAVA_", "HADOOP_", "YARN_")):
            monkeypatch.delenv(name)
    yield
    early_jvm.end()


def put_java(folder: Path, waits: bool) -> Path:
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    text = JAVA.format(
        python=sys.executable, real=os.path.realpath(find_java()[0]), folder=str(folder), waits=waits
    )
    java.write_text(text)
    java.chmod(0o755)
    (java.parents[1] / "release").write_text('JAVA_VERSION="17.0.1"\n')
    return java.parents[1]


def told(folder: Path) -> list[Any]:
    found: list[Any] = json.loads((folder / "told.json").read_text())
    return found


@pytest.fixture
def without_pyspark(plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark")


def pairs(arguments: list[str]) -> set[tuple[str, str]]:
    return {(key, value) for key, value in itertools.pairwise(arguments) if key == "--conf"}


def test_the_command_is_that_of_spark_s_launcher(
    plain: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for a module that only MLlib has a use for, and which warns at each start."""
    monkeypatch.setenv("JAVA_HOME", str(put_java(tmp_path, waits=False)))
    options = session_options({"spark.a": "b c", **PLAIN}, WANTED, makes=False)
    conf = SparkConf(loadDefaults=False)
    for key, value in options.items():
        conf.set(key, value)
    for key, value in session_environment(options, os.environ).items():
        monkeypatch.setenv(key, value)
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(
        java_gateway,
        "Popen",
        lambda *given, **how: started.append(subprocess.Popen(*given, **how)) or started[0],
    )
    with pytest.raises(PySparkRuntimeError, match="JAVA_GATEWAY_EXITED"):
        java_gateway.launch_gateway(conf)
    started[0].stdin.close()
    _, launched, environment, ignored = told(tmp_path)
    assert ignored
    spark = launched.index("org.apache.spark.deploy.SparkSubmit")
    assert [word for word in launched[: spark + 1] if word != "--add-modules=jdk.incubator.vector"] == (
        early_jvm.java_command(options)[1:]
    )

    (tmp_path / "told.json").unlink()
    begun = early_jvm._started(options)
    begun.process.wait()
    begun.end()
    _, ours, ours_environment, ignored = told(tmp_path)
    assert ignored
    assert pairs(ours) == pairs(launched[spark:])
    assert ours[-1] == launched[-1] == "pyspark-shell"
    for each in (environment, ours_environment):
        each.pop("_PYSPARK_DRIVER_CONN_INFO_PATH")
        for name in ("_", "SHLVL", "PWD", "OLDPWD", "SPARK_BEELINE_OPTS"):  # of shells
            each.pop(name, None)
    assert ours_environment == environment


def test_pyspark_takes_the_one_that_it_would_start_and_no_other(
    without_pyspark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(put_java(tmp_path, waits=True)))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    options = session_options(PLAIN, WANTED, makes=False)
    variables = session_environment(options, os.environ)
    command = [
        "spark-submit",
        *[word for pair in options.items() for word in ("--conf", "=".join(pair))],
        "pyspark-shell",
    ]
    (tmp_path / "pyspark").mkdir()
    where = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(tmp_path / "pyspark" / "told")}
    asked = {**os.environ, **variables, "SPARK_CONNECT_MODE": "0"}
    others = [
        ([*command[:-1], "--verbose", command[-1]], asked),
        (command, {**asked, "SPARK_MEM": "1g"}),
    ]
    for other, environment in others:
        with started_early(PLAIN, False, WANTED):
            [begun] = early_jvm._begun
            assert take(other, {**environment, **where}) is None
            assert begun.process.poll() is not None
            assert not Path(begun.scratch).exists()
    with started_early(PLAIN, False, WANTED):
        [begun] = early_jvm._begun
        assert take(command, {**asked, **where}) is begun
        assert take(command, {**asked, **where}) is None
    assert begun.process.poll() is None
    Path(begun.told).write_bytes(b"port")
    assert (tmp_path / "pyspark" / "told").read_bytes() == b"port"
    begun.end()


def test_one_that_nobody_takes_ends_with_its_job(
    without_pyspark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(put_java(tmp_path, waits=True)))
    with started_early(PLAIN, False, WANTED):
        [begun] = early_jvm._begun
    assert begun.process.poll() is not None
    assert not Path(begun.scratch).exists()
    assert not early_jvm._begun


@pytest.mark.parametrize(
    ("spark", "options", "variables", "jars"),
    [
        ({"spark.master": "spark://host:7077"}, "", {}, False),
        ({"spark.master": "local-cluster[1,1,1024]"}, "", {}, False),
        ({"spark.driver.extraClassPath": "a.jar"}, "", {}, False),
        ({"spark.driver.extraJavaOptions": "-Xss4m"}, "", {}, False),
        ({"spark.submit.deployMode": "cluster"}, "", {}, False),
        ({}, "-Da='b c'", {}, False),
        ({}, "-Xmx2g", {}, False),
        ({}, "", {"SPARK_HOME": "/opt/spark"}, False),
        ({}, "", {"SPARK_CONF_DIR": "/etc/spark"}, False),
        ({}, "", {"PYSPARK_SUBMIT_ARGS": "--verbose pyspark-shell"}, False),
        ({}, "", {"PYSPARK_GATEWAY_PORT": "1"}, False),
        ({}, "", {"JAVA_TOOL_OPTIONS": "-Xss4m"}, False),
        ({}, "", {"HADOOP_CONF_DIR": "/etc/hadoop"}, False),
        ({}, "", {}, True),
    ],
)
def test_where_something_is_not_plain_pyspark_starts_it(
    without_pyspark: None,
    monkeypatch: pytest.MonkeyPatch,
    spark: dict[str, str],
    options: str,
    variables: dict[str, str],
    jars: bool,
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(early_jvm, "_started", started.append)
    with started_early(
        {"spark.app.name": "a b", "spark.driver.memory": "1g", "spark.executor.cores": "2"}, False, WANTED
    ):
        assert len(started) == 1
        early_jvm._begun.clear()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with started_early({**PLAIN, **spark}, jars, JvmSettings(options)):
        assert len(started) == 1


def test_a_process_that_has_pyspark_already_starts_none(plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_jvm, "_started", lambda options: pytest.fail("it was started"))
    assert "pyspark" in sys.modules
    with started_early(PLAIN, False, WANTED):
        pass


def test_a_refused_job_leaves_no_jvm(plain: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(put_java(tmp_path, waits=True)))
    monkeypatch.setenv("PYTHONPATH", str(Path(early_jvm.__file__).parents[2]))
    done = subprocess.run(
        [sys.executable, "-c", REFUSED], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split("\n")[:2] == ["True", "it has ended"], done.stderr
    assert "jdk.incubator" not in done.stderr


def test_without_one_pyspark_starts_its_own(plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_gateway, "Popen", lambda command, **how: (command, how["env"]))
    with own_gateway("yarn", ""):
        assert java_gateway.Popen(["script"], env={"A": "b"}) == (["script"], {"A": "b"})


@pytest.mark.parametrize("reached", [False, True])
def test_a_jvm_ends_with_an_interrupt_unless_pyspark_has_come_to_it(
    plain: None, monkeypatch: pytest.MonkeyPatch, reached: bool
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", object() if reached else None)
    opened = own_gateway("yarn", "")
    opened.__enter__()
    with java_gateway.Popen(["cat"], env={**os.environ}, stdin=subprocess.PIPE) as jvm:
        assert not opened.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert (jvm.returncode is None) is reached


def test_a_java_that_spark_cannot_use_or_that_starts_another_is_left_to_pyspark(
    without_pyspark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_jvm, "_started", lambda options: pytest.fail("it was started"))
    home = put_java(tmp_path, waits=True)
    (home / "release").write_text('JAVA_VERSION="11.0.1"\n')
    with monkeypatch.context() as patch:
        for place in ("/nowhere", str(home)):
            patch.setenv("JAVA_HOME", place)
            with started_early(PLAIN, False, WANTED):
                pass
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with started_early(PLAIN, False, WANTED):
        pass
