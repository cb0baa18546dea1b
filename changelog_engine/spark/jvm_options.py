"""What the JVM of a driver is started with: the engine's options, where the user has none."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark.java_gateway

from changelog_engine.java import check_java, find_java
from changelog_engine.spark.class_archive import archive_options, spark_home

log = logging.getLogger("changelog_engine")

java_gateway: Any = pyspark.java_gateway
_LOGGING = Path(__file__).with_name("log4j2.properties")
EXTRA = "spark.driver.extraJavaOptions"
_DEFAULT = "spark.driver.defaultJavaOptions"
_OF_THE_USER = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_CLASS_PATH = "spark.driver.extraClassPath"
_TO_SUBMIT = re.compile(r"--driver-java-options|--properties-file|JavaOptions")
_TO_SCRIPTS = re.compile(rf"^[^#\n]*\b({'|'.join(_OF_THE_USER)})=", re.MULTILINE)
_ONE_PROCESS = re.compile(r"local(\[.*\])?")
_LAUNCHER = ("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
_VECTOR = "jdk.incubator.vector"
_GONE, _GONE_SINCE = ("--add-opens=java.base/sun.security.action=ALL-UNNAMED",), 25
_HOME = Path(__file__).with_name("jvm")
_PLAIN = re.compile(r"[\w./@+-]+", re.ASCII)  # what the shell leaves as it is, and is one path for Java
_LOOK_S = 0.005


@dataclass(frozen=True)
class JvmSettings:
    """How a job wants the JVM that it starts.

    Args:
        options: of Java, separated by blanks, for a local master.
        class_archive: whether it keeps Spark's classes in an archive from run to run.
    """

    options: str = ""
    class_archive: bool = False


def driver_options(master: str, spark: Mapping[str, str], wanted: JvmSettings) -> str | None:
    """The options of the driver's JVM; None where those of the user's Spark configuration stay alone.

    Args:
        spark: the options of the session.
        wanted: by the job. It counts for a local master, and where the user gives Java no options by Spark's or Java's own
            means: two sets of them need not fit each other.
    """
    if EXTRA in spark or in_defaults(EXTRA) is not None:
        return None
    options = [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
    given = (
        _DEFAULT in spark
        or in_defaults(_DEFAULT) is not None
        or any(os.environ.get(name) for name in _OF_THE_USER)
        or _TO_SUBMIT.search(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
        or _TO_SCRIPTS.search(_of_the_installation("spark-env.sh"))
    )
    if _ONE_PROCESS.fullmatch(master) and not given:
        options += wanted.options.split()
        if wanted.class_archive:
            first = _before_the_jars(spark)
            if first is None:
                options += archive_options()
            else:
                log.info(
                    "Spark's classes are loaded anew, not from their archive: %s comes before Spark's jars in the class "
                    "path, and Java takes classes from an archive only where it begins as that did",
                    first,
                )
    return " ".join(options)


def _before_the_jars(spark: Mapping[str, str]) -> str | None:
    """What Spark's launcher puts before its jars in the class path, in words; None for nothing that is there."""
    given = spark.get(_CLASS_PATH) or in_defaults(_CLASS_PATH)
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if given or "--driver-class-path" in arguments or _CLASS_PATH in arguments:
        return f"what {_CLASS_PATH} names"
    folder = _conf_folder()
    return f"the folder {folder}" if os.path.isdir(folder) else None


@contextlib.contextmanager
def fast_launcher() -> Iterator[None]:
    """Within it, PySpark starts a JVM with little waiting.

    Spark's launcher, a JVM that only writes the command line of the next one, compiles little, and finds its classes without
    a look into all of Spark's jars. PySpark looks for the file that says where the JVM listens every 5 ms, not every 100.
    """
    name, options = _LAUNCHER
    own = not any(os.environ.get(other) for other in (name, *_OF_THE_USER))
    if own:
        os.environ[name] = options + _launchers_jar()
    before, java_gateway.time = java_gateway.time, _Impatient()
    try:
        yield
    finally:
        java_gateway.time = before
        if own:
            os.environ.pop(name, None)


@contextlib.contextmanager
def without_warnings(master: str, options: str) -> Iterator[None]:
    """Within it, PySpark starts the JVM of a local master without those of Spark's own options of which Java warns.

    ``jdk.incubator.vector`` is used by nothing but MLlib's linear algebra, and a package that is no more cannot be opened.
    No option of Java takes another one back, so Spark's scripts find a Java that leaves these out.

    Args:
        options: of the driver's JVM; where they name the module it stays.
    """
    java = _HOME / "bin" / "java"
    start = java_gateway.Popen
    if _ONE_PROCESS.fullmatch(master) and _VECTOR not in options and os.access(java, os.X_OK):
        left_out = [f"--add-modules={_VECTOR}", *(_GONE if check_java(runs=False) >= _GONE_SINCE else ())]

        def popen(command: list[str], *, env: dict[str, str], **rest: Any) -> Any:
            env |= {
                "JAVA_HOME": str(_HOME),
                "CHANGELOG_ENGINE_JAVA": find_java()[0],
                "CHANGELOG_ENGINE_JAVA_HOME": env.get("JAVA_HOME", ""),
                "CHANGELOG_ENGINE_LEFT_OUT": " ".join(left_out),
            }
            return start(command, env=env, **rest)

        java_gateway.Popen = popen
    try:
        yield
    finally:
        java_gateway.Popen = start


class _Impatient:
    """What `pyspark.java_gateway` uses of ``time``."""

    @staticmethod
    def sleep(seconds: float) -> None:
        time.sleep(min(seconds, _LOOK_S))


def _launchers_jar() -> str:
    """The option with which Java finds the launcher's classes ahead of its class path; empty where they can't be named so.

    The script hands its options to Java as words, whatever is in them.
    """
    jars = glob.glob(os.path.join(glob.escape(spark_home()), "jars", "spark-launcher_*.jar"))
    return f" -Xbootclasspath/a:{jars[0]}" if len(jars) == 1 and _PLAIN.fullmatch(jars[0]) else ""


def in_defaults(key: str) -> str | None:
    """What the Spark installation's own file of options says of a key; None when it says nothing."""
    text = _of_the_installation("spark-defaults.conf")
    found: list[str] = re.findall(
        rf"^[ \t]*{re.escape(key)}(?:[ \t]*[=:][ \t]*|[ \t]+)(.*?)[ \t]*$", text, re.MULTILINE
    )
    return found[-1] if found else None


def _conf_folder() -> str:
    return os.environ.get("SPARK_CONF_DIR") or os.path.join(spark_home(), "conf")


def _of_the_installation(name: str) -> str:
    """The text of a file in Spark's folder of settings; empty when there is none."""
    try:
        return Path(_conf_folder(), name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
