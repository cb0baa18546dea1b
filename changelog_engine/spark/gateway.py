"""How PySpark comes to its JVM: the one that was started early, else a new one, with little waiting."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any, cast

import pyspark.java_gateway

from changelog_engine.java import find_java
from changelog_engine.spark import early_jvm
from changelog_engine.spark.class_archive import spark_home
from changelog_engine.spark.jvm_options import OF_THE_USER, ONE_PROCESS, left_out

java_gateway: Any = pyspark.java_gateway
_LAUNCHER = ("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
_PLAIN = re.compile(r"[\w./@+-]+", re.ASCII)  # what the shell leaves as it is, and is one path for Java
_LOOK_S = 0.005
_HOME = Path(__file__).with_name("jvm")


@contextlib.contextmanager
def fast_gateway() -> Iterator[None]:
    """Within it, PySpark takes the JVM that was started early, or starts one with little waiting.

    Spark's launcher, a JVM that only writes the command line of the next one, compiles little, and finds its classes without
    a look into all of Spark's jars. PySpark looks for the file that says where the JVM listens every 5 ms, not every 100.
    """
    name, options = _LAUNCHER
    own = not any(os.environ.get(other) for other in (name, *OF_THE_USER))
    if own:
        os.environ[name] = options + _launchers_jar()
    before = java_gateway.time, java_gateway.Popen
    with contextlib.ExitStack() as opened:

        def start(command: list[str], **how: Any) -> Popen[bytes]:
            """What PySpark calls to start a JVM."""
            begun = early_jvm.take(command, {each: of for each, of in how["env"].items() if each != name})
            if begun is None:
                return cast("Popen[bytes]", before[1](command, **how))
            opened.callback(begun.forget)
            return begun.process

        java_gateway.time, java_gateway.Popen = _Impatient(), start
        try:
            yield
        finally:
            java_gateway.time, java_gateway.Popen = before
            if own:
                os.environ.pop(name, None)


@contextlib.contextmanager
def without_warnings(master: str, options: str) -> Iterator[None]:
    """Within it, PySpark starts the JVM of a local master without those of Spark's own options of which Java warns.

    No option of Java takes another one back, so Spark's scripts find a Java that leaves these out.
    """
    java = _HOME / "bin" / "java"
    start = java_gateway.Popen
    unwanted = left_out(options) if ONE_PROCESS.fullmatch(master) and os.access(java, os.X_OK) else ()
    if unwanted:

        def popen(command: list[str], *, env: dict[str, str], **rest: Any) -> Any:
            env |= {
                "JAVA_HOME": str(_HOME),
                "CHANGELOG_ENGINE_JAVA": find_java()[0],
                "CHANGELOG_ENGINE_JAVA_HOME": env.get("JAVA_HOME", ""),
                "CHANGELOG_ENGINE_LEFT_OUT": " ".join(unwanted),
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
