"""Spark's classes as a JVM has them in memory: a driver of a test starts in two thirds of the time.

The archive holds for one Java and one folder of jars, which its name stands for. Without one, drivers start as always.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from changelog_engine.java import find_java

from .process import CACHE

# Most drivers of tests live for seconds, in which the JVM's second compiler costs more than it gains.
_SOON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_JOB = """
from changelog_engine.api.common import Types
from changelog_engine.api.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.enable_checkpointing(100).enable_changelog_state_backend(True)
numbers = env.from_collection(list(range(100_000)), Types.LONG()).key_by(lambda n: n % 10, Types.LONG())
numbers.reduce(lambda a, b: a + b).key_by(lambda n: n % 10, Types.LONG()).reduce(max).print()
env.execute("classes")
"""


def archive() -> Path | None:
    """Where the archive for this Java and this Spark lies, or will; None without either."""
    java = Path(find_java()[0]).resolve()
    spark = find_spec("pyspark")
    if not java.is_file() or spark is None or spark.origin is None:
        return None
    jars = Path(spark.origin).parent / "jars"
    kept = hashlib.sha256(f"{java} {java.stat().st_mtime_ns} {jars} {jars.stat().st_mtime_ns}".encode())
    return CACHE / f"spark-{kept.hexdigest()[:12]}.jsa"


def jvm_options() -> str:
    """What the JVMs of tests are started with."""
    found = archive()
    if found is None or not found.is_file():
        return _SOON
    return f"{_SOON} -XX:SharedArchiveFile={found} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def install() -> None:
    """Run a job once, and let its JVM keep what it loaded."""
    wanted = archive()
    if wanted is None or wanted.is_file():
        return
    unfinished = wanted.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    folder = CACHE / "spark-classes"
    folder.mkdir(exist_ok=True)
    # The JVM writes after Python has ended; it holds the same output, whose end is its own.
    subprocess.run(
        [sys.executable, "-c", _JOB],
        cwd=folder,
        env={**os.environ, "SPARK_SUBMIT_OPTS": f"{_SOON} -XX:ArchiveClassesAtExit={unfinished}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=300,
    )
    if unfinished.is_file():
        unfinished.rename(wanted)
