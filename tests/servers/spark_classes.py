"""Spark's classes as a JVM has them in memory, for the JVMs of tests: those of jobs and those of Spark SQL.

The engine's own archive has what jobs load. A test that queries loads as much again: with this archive its JVM takes 5.2 CPU
seconds for a session and two queries and not 7.4. `servers.spark_work` is the work whose classes are kept.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from changelog_engine.config.program_options import JVM_OPTIONS
from changelog_engine.spark import class_archive

_WORK = Path(__file__).with_name("spark_work.py")
_TIMEOUT_S = 600
# Without C2 Java has 48 MB for compiled code: a session of many queries fills them, and throws away what it compiles again.
_ROOM_FOR_CODE = "-XX:ReservedCodeCacheSize=160m"


def for_sessions() -> dict[str, str]:
    """Variables for who starts sessions of Spark itself; a job chooses Java's options, and starts it early, without them."""
    return {"SPARK_SUBMIT_OPTS": java_options(), "SPARK_LAUNCHER_OPTS": JVM_OPTIONS.default}


@contextlib.contextmanager
def session_is_made() -> Iterator[None]:
    """Within it, this process has these variables."""
    before = {name: os.environ.get(name) for name in for_sessions()}
    os.environ.update(for_sessions())
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def java_options() -> str:
    """The options of Java for sessions of Spark, masters, workers and executors."""
    return " ".join((JVM_OPTIONS.default, _ROOM_FOR_CODE, *_archive_options()))


def _archive_options() -> tuple[str, ...]:
    """With which a JVM uses this archive, else the engine's own, else none."""
    stem = _stem()
    archive = stem and class_archive.find_archive(stem)
    if archive is None:
        return class_archive.archive_options(makes=False)
    return class_archive.using_options(archive)


def make(folder: Path) -> None:
    """Make the archive, unless it is there; without it tests take longer.

    Args:
        folder: for what the work writes.
    """
    stem = _stem()
    if stem is None or class_archive.find_archive(stem):
        return
    unfinished = stem.with_name(f"{stem.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    options = [JVM_OPTIONS.default, *class_archive.recording_options(unfinished)]
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": " ".join(options), "SPARK_LOCAL_IP": "127.0.0.1"}
    root = str(Path(__file__).resolve().parents[2])
    try:
        work = subprocess.run(
            [sys.executable, str(_WORK), str(folder)],
            cwd=folder,
            env={**environment, "PYTHONPATH": root, "SPARK_LOCAL_DIRS": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # the JVM holds it until it has written
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
        failed, said = work.returncode != 0, work.stdout
    except subprocess.TimeoutExpired:
        failed, said = True, f"the work took longer than {_TIMEOUT_S} s"
    if failed or not unfinished.is_file():
        print(f"No archive of Spark SQL's classes; tests do without:\n{said}", file=sys.stderr)
        unfinished.unlink(missing_ok=True)
        return
    unfinished.chmod(0o600)
    unfinished.rename(class_archive.archive_name(stem, unfinished.stat().st_size))


def _stem() -> Path | None:
    own = class_archive.archive_stem()
    return own and own.with_name(f"tests-{own.name}")
