"""A start: Spark's classes are archived in the background by the first job and used by the JVM of the next one, and each
subtask has one daemon, whether it was started ahead or by its first task. No pandas is imported. Which options the JVM gets,
and that no archive that is cut off is among them: tests/unit. The JVM is the one that was started before PySpark was
imported. No socket is left behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
MAKE_S = 600
BEGIN = """
import sys
import time
from pathlib import Path

from changelog_engine.api.common import Types
from changelog_engine.api.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(1000).enable_changelog_state_backend(True)
env.from_collection([1, 2], Types.LONG()).key_by(lambda v: v, Types.LONG()).map(lambda v: v * 2, Types.LONG()).print()


def archived(jvm):
    return "archived" if ".jsa" in Path(f"/proc/{jvm}/maps").read_text().replace("/classes.jsa", "") else "plain"
"""
JOB = """
env.execute("doubled")
from pyspark import SparkContext

jvm = SparkContext._active_spark_context._gateway.proc.pid


def is_daemon(process):
    try:
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == jvm and b"changelog_engine.spark.daemon" in (process / "cmdline").read_bytes()
    except OSError:  # it has ended
        return False


print(sum(is_daemon(process) for process in Path("/proc").glob("[0-9]*")))
print(archived(jvm))
print("pandas" in sys.modules)
print("launched" if "jdk.incubator" in Path(f"/proc/{jvm}/cmdline").read_text() else "early")
print(SparkContext._active_spark_context._accumulatorServer.server_address)
"""
# Its JVM as execute() starts it, with no job behind it.
JVM = """
from changelog_engine.api.datastream.stream_execution_environment import _launch
from changelog_engine.spark import early_jvm

with _launch(env._take_job("doubled")[1]):
    [begun] = early_jvm._begun
    while not Path(begun.told).exists():
        assert begun.process.poll() is None
        time.sleep(0.05)
    print(archived(begun.process.pid))
"""


def run(program: str, cache: Path) -> list[str]:
    """What the program prints, with this cache and no options for Java in its environment."""
    environment = {**os.environ, "CHANGELOG_ENGINE_CACHE": str(cache)}
    for name in [name for name in environment if name.startswith("SPARK_")]:
        del environment[name]
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        cwd=cache.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=MAKE_S,
        check=True,
    )
    return done.stdout.split()


def test_the_first_job_has_an_archive_made_and_the_next_one_uses_it(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    *told, socket = run(JOB, cache)
    assert told == ["2", "4", "2", "plain", "False", "early"]
    assert socket.endswith(".sock")
    assert not Path(socket).exists()
    deadline = time.monotonic() + MAKE_S
    while not (made := list(cache.glob("*.jsa"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(made) == 1
    assert not list(cache.glob("*.failed"))
    assert run(JVM, cache) == ["archived"]
