"""Which options the JVM of a driver gets, and when an archive of Spark's classes is used (the JVM itself: tests/spark)."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark import java_gateway

from changelog_engine.cli import main
from changelog_engine.config import ConfigLayers, canonical
from changelog_engine.config.program_options import JVM_CLASS_ARCHIVE, JVM_OPTIONS
from changelog_engine.spark import class_archive
from changelog_engine.spark.gateway import own_gateway
from changelog_engine.spark.jvm_options import EXTRA, JvmSettings, driver_options
from changelog_engine.storage.locks import lock_file

WANTED = JvmSettings("-XX:TieredStopAtLevel=1", class_archive=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark installation with one jar, an empty cache, and a user who gives Java no options."""
    for name in (
        "SPARK_SUBMIT_OPTS",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "_JAVA_OPTIONS",
        "SPARK_CONF_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "a.jar").write_bytes(b"a")
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv(class_archive.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "spark"


def put_archive() -> Path:
    stem = class_archive.archive_stem()
    assert stem is not None
    archive = class_archive.archive_name(stem, 1)
    archive.write_bytes(b"a")
    archive.chmod(0o600)
    assert class_archive.find_archive(stem) == archive
    return archive


def test_the_user_s_own_options_of_java_win(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_archive()
    ours = driver_options("local[2]", {}, WANTED)
    assert ours is not None
    assert "-XX:TieredStopAtLevel=1 -XX:SharedArchiveFile=" in ours
    assert driver_options("local[2]", {EXTRA: "-Xss4m"}, WANTED) is None

    only_logging = driver_options("yarn", {}, WANTED)
    assert only_logging is not None
    assert only_logging.startswith("-Dlog4j2")
    assert " " not in only_logging
    for master in ("local-cluster[2,1,1024]", "spark://host:7077"):
        assert driver_options(master, {}, WANTED) == only_logging
    assert (
        driver_options("local[2]", {"spark.driver.defaultJavaOptions": "-XX:+UseG1GC"}, WANTED)
        == only_logging
    )
    for variable in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "-XX:+UseG1GC")
            assert driver_options("local[2]", {}, WANTED) == only_logging

    with monkeypatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 1g pyspark-shell")
        assert driver_options("local[2]", {}, WANTED) == ours
        for argument in ("--driver-java-options -Xss4m", "--conf spark.driver.defaultJavaOptions=-Xss4m"):
            patch.setenv("PYSPARK_SUBMIT_ARGS", f"{argument} pyspark-shell")
            assert driver_options("local[2]", {}, WANTED) == only_logging

    (home / "conf").mkdir()
    scripts = home / "conf" / "spark-env.sh"
    scripts.write_text("# SPARK_SUBMIT_OPTS=-XX:+UseG1GC\nSPARK_PUBLIC_DNS=x\n")
    assert driver_options("local[2]", {}, WANTED) == f"{only_logging} -XX:TieredStopAtLevel=1"
    scripts.write_text("export SPARK_SUBMIT_OPTS=-XX:+UseG1GC\n")
    assert driver_options("local[2]", {}, WANTED) == only_logging
    (home / "conf" / "spark-defaults.conf").write_text(
        "# none\nspark.driver.extraJavaOptions  -XX:+UseG1GC\n"
    )
    assert driver_options("local[2]", {}, WANTED) is None


@pytest.mark.parametrize(("release", "gone"), [("17.0.9", False), ("25", True)])
@pytest.mark.parametrize("by_home", [False, True], ids=["PATH", "JAVA_HOME"])
def test_java_is_started_without_what_it_warns_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, gone: bool, by_home: bool
) -> None:
    """Spark's scripts run the Java of JAVA_HOME twice, for the launcher and for Spark; only Spark's has such options."""
    home = tmp_path / "a java"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text('#!/bin/sh\nenv | grep ^JAVA\nprintf "<%s>" "$@"\n')
    java.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{release}"\n')
    if by_home:
        monkeypatch.setenv("JAVA_HOME", str(home))
        as_before = f"JAVA_HOME={home}\n"
    else:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", f"{java.parent}:{os.environ['PATH']}")
        as_before = ""
    scripts = (
        '"$JAVA_HOME/bin/java" launcher "a b" && echo && '
        '"$JAVA_HOME/bin/java" -Xmx1g --add-modules=jdk.incubator.vector "-Dx=a b" '
        "--add-opens=java.base/sun.security.action=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED -Dempty= ''"
    )

    def said(master: str, options: str) -> str:
        with own_gateway(master, options):
            started = java_gateway.Popen(
                ["sh", "-c", scripts], env=dict(os.environ), stdout=subprocess.PIPE, text=True
            )
        return str(started.communicate()[0])

    launcher, _, spark = said("local[2]", "").partition("\n<-Xmx1g>")
    assert launcher.partition("<")[2] == "launcher><a b>" + ("\n" + as_before).rstrip()
    opened = "" if gone else "<--add-opens=java.base/sun.security.action=ALL-UNNAMED>"
    assert spark == f"<-Dx=a b>{opened}<--add-opens=java.base/java.nio=ALL-UNNAMED><-Dempty=><>"
    if by_home:
        for master, options in (
            ("spark://host:7077", ""),
            ("local[2]", "--add-modules=jdk.incubator.vector"),
        ):
            assert "<--add-modules=jdk.incubator.vector>" in said(master, options)
    assert java_gateway.Popen is subprocess.Popen


def test_what_comes_before_spark_s_jars_in_the_class_path_is_told_as_the_archive_is_of_no_use_then(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Java says so with -Xlog:class+path=info alone; a folder that is there, even an empty one, is enough."""
    put_archive()
    caplog.set_level(logging.INFO, "changelog_engine")
    monkeypatch.setenv("SPARK_CONF_DIR", str(home / "nowhere"))
    assert "SharedArchiveFile" in str(driver_options("local[2]", {}, WANTED))
    assert not caplog.records
    folder = home / "settings"
    folder.mkdir()
    for variable, value, spark, said in (
        ("SPARK_CONF_DIR", str(folder), {}, f"the folder {folder} comes before"),
        ("PYSPARK_SUBMIT_ARGS", "--driver-class-path x.jar pyspark-shell", {}, "spark.driver.extraClassPath"),
        ("A", "", {"spark.driver.extraClassPath": "x.jar"}, "what spark.driver.extraClassPath names comes"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            options = str(driver_options("local[2]", spark, WANTED))
        assert options.endswith("-XX:TieredStopAtLevel=1")
        assert said in caplog.records[-1].getMessage()
    assert len(caplog.records) == 3


def test_an_archive_is_of_one_java_and_one_set_of_jars(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = class_archive.archive_stem()
    assert first is not None
    assert first == class_archive.archive_stem()
    (home / "jars" / "b.jar").write_bytes(b"b")
    assert class_archive.archive_stem() not in (first, None)
    monkeypatch.setenv(class_archive.CACHE_VARIABLE, str(home / "a folder"))
    assert class_archive.archive_stem() is None  # Java takes its options apart at blanks
    monkeypatch.setenv(class_archive.CACHE_VARIABLE, class_archive.NO_CACHE)
    assert class_archive.archive_stem() is None
    assert class_archive.archive_options() == ()
    done = CliRunner().invoke(main, ["class-archive"])
    assert done.exit_code == 1
    assert class_archive.CACHE_VARIABLE in done.output
    monkeypatch.setenv(class_archive.CACHE_VARIABLE, str(home / ("x" * 300)))  # asking for it is an error
    assert class_archive.archive_options() == ()
    assert "Traceback" not in done.output


def test_an_archive_that_is_cut_off_or_that_others_can_write_is_not_used(home: Path) -> None:
    archive, stem = put_archive(), class_archive.archive_stem()
    assert stem is not None
    for path, mode in ((archive, 0o620), (archive.parent, 0o777)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert class_archive.find_archive(stem) is None
        assert class_archive.archive_options(makes=False) == ()
        path.chmod(before)
    archive.parent.chmod(0o777)
    done = CliRunner().invoke(main, ["class-archive"])
    assert done.exit_code == 1
    assert "chmod go-w" in done.output
    assert class_archive.archive_options() == ()
    assert class_archive._makers == []
    archive.parent.chmod(0o700)

    archive.write_bytes(b"")
    assert class_archive.find_archive(stem) is None
    assert class_archive.archive_options(makes=False) == ()
    archive.rename(archive.with_suffix(".other"))
    archive.symlink_to(archive.with_suffix(".other"))
    assert class_archive.find_archive(stem) is None


def test_what_could_not_be_made_is_not_tried_again_by_each_job(home: Path) -> None:
    archive, stem = put_archive(), class_archive.archive_stem()
    assert stem is not None
    archive.write_bytes(b"")
    done = CliRunner().invoke(main, ["class-archive"])  # this Spark is none
    assert done.exit_code == 1
    assert str(class_archive.failure_note(stem)) in done.output
    assert "exit status" in class_archive.failure_note(stem).read_text()
    assert sorted(path.name for path in stem.parent.iterdir()) == [
        "class-archive.lock",
        f"{stem.name}.failed",
    ]
    assert class_archive.archive_options() == ()
    assert class_archive._makers == []


def test_the_program_and_the_file_choose_java_s_options() -> None:
    chosen = canonical({JVM_OPTIONS.key: "", JVM_CLASS_ARCHIVE.key: "false"}, "the test")
    layers = ConfigLayers(file=chosen)
    assert (layers.get(JVM_OPTIONS), layers.get(JVM_CLASS_ARCHIVE)) == ("", False)


def test_who_asks_for_an_archive_waits_for_the_process_that_makes_it(home: Path) -> None:
    lock = lock_file(str(home.parent / "cache" / "class-archive.lock"))

    def made_by_another() -> None:
        put_archive()
        lock.release()

    maker = threading.Timer(0.2, made_by_another)
    maker.start()
    done = CliRunner().invoke(main, ["class-archive"])
    maker.join()
    assert done.exit_code == 0
    assert done.output.splitlines()[-1].endswith(".jsa is ready")
