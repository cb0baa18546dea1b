"""``changelog-engine class-archive``: make the archive of Spark's classes from which drivers start sooner.

1. **A1** Take the lock of the cache folder. A process that does not get it waits; one in the background leaves the work to
   the other.
2. **A2** A small job runs in a process of its own; its JVM writes a temporary file when it ends.
3. **A3** The file is made durable and takes its name; archives that were not used for a month are removed.

A crash leaves a temporary file, which the next maker removes.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from changelog_engine.clock import wall_ms
from changelog_engine.config.observing_options import PROGRESS
from changelog_engine.config.options import BASE_PATH
from changelog_engine.errors import EnvironmentNotReadyError
from changelog_engine.launcher.standard_streams import tell
from changelog_engine.spark.class_archive import (
    AFTER_STDIN,
    CACHE_VARIABLE,
    archive_name,
    archive_stem,
    failure_note,
    find_archive,
    is_private,
    recording_options,
)
from changelog_engine.storage.locks import LockTakenError, lock_file

_WAIT_S = 60.0
_LONGEST_S = 600.0
_UNUSED_MS = 30 * 86_400_000
_UNFINISHED = ".unfinished"
# Both kinds of stage, a checkpoint, a restore's checks, and output by the program: what most jobs load.
_JOB = """
import sys
from changelog_engine.api.common import Configuration, Types
from changelog_engine.api.datastream import StreamExecutionEnvironment

configuration = Configuration()
for entry in sys.argv[1:]:
    configuration.set_string(*entry.split("=", 1))
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(2)
env.enable_checkpointing(100).enable_changelog_state_backend(True)
numbers = env.from_collection(list(range(100_000)), Types.LONG()).key_by(lambda n: n % 10, Types.LONG())
numbers.reduce(lambda a, b: a + b).key_by(lambda n: n % 10, Types.LONG()).reduce(max).print()
env.execute("classes")
"""


@click.command("class-archive")
@click.option(
    AFTER_STDIN, "waits", is_flag=True, hidden=True, help="Begin when standard input ends, or in a minute."
)
def class_archive(waits: bool) -> None:
    """Store Spark's classes as a JVM has them in memory, so that jobs start in two thirds of the time.

    The first job does this by itself, in the background. Where each run is a machine's first one, as in a container,
    run it when the image is built. The archive, 80 MB, lies in the cache folder: CHANGELOG_ENGINE_CACHE, else
    XDG_CACHE_HOME/changelog-engine.
    """
    if waits:
        os.nice(19)
        select.select([sys.stdin], [], [], _WAIT_S)
    stem = archive_stem()
    if stem is None:
        raise EnvironmentNotReadyError(
            "the archive of Spark's classes has no folder that it can be written to, or Java is missing",
            f"Set {CACHE_VARIABLE} to a folder whose path has letters, digits and ._-+@/ only, and install Java",
        )
    stem.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(stem.parent):
        raise EnvironmentNotReadyError(
            f"no archive of Spark's classes is kept in {stem.parent}: others than you can write to it",
            f"Take that right away from them (chmod go-w), or set {CACHE_VARIABLE} to a folder of your own",
        )
    lock_path = str(stem.parent / "class-archive.lock")
    try:
        lock = lock_file(lock_path, mode=0o600)
    except LockTakenError:
        if waits:
            return
        # An image must not be finished without the archive: the other process would end with its build.
        tell("another process is making it: waiting for that one")
        lock = lock_file(lock_path, mode=0o600, wait=True)
    try:
        click.echo(f"{find_archive(stem) or _make(stem)} is ready")
    finally:
        lock.release()


def _make(stem: Path) -> Path:
    unfinished = stem.with_name(f"{stem.name}{_UNFINISHED}")
    for left in (*stem.parent.glob(f"*{_UNFINISHED}"), *stem.parent.glob(f"{stem.name}-*.jsa")):
        left.unlink()
    try:
        said = _run_a_job(unfinished)
        if not unfinished.is_file():
            failure_note(stem).write_text(said, encoding="utf-8")
            raise EnvironmentNotReadyError(
                f"Java wrote no archive of Spark's classes; what it said is in {failure_note(stem)}",
                "Jobs start without it. Remove that file to have it tried again",
            )
        unfinished.chmod(0o600)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        archive = archive_name(stem, unfinished.stat().st_size)
        unfinished.rename(archive)
    finally:
        unfinished.unlink(missing_ok=True)
    failure_note(stem).unlink(missing_ok=True)
    for other in stem.parent.glob("spark-*"):
        if other.stat().st_mtime * 1000 < wall_ms() - _UNUSED_MS:
            other.unlink(missing_ok=True)
    return archive


def _run_a_job(unfinished: Path) -> str:
    """What the job and its JVM said; the JVM holds the output until it has written."""
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *recording_options(unfinished)]
    with tempfile.TemporaryDirectory(prefix="changelog-engine-") as scratch:
        settings = {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": " ".join(options),
            "spark.local.dir": scratch,
            BASE_PATH.key: scratch,
            PROGRESS.key: "never",
        }
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", _JOB, *(f"{key}={value}" for key, value in settings.items())],
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=_LONGEST_S,
            )
        except subprocess.TimeoutExpired:
            return f"a job took longer than {_LONGEST_S:.0f} s"
    return f"exit status {done.returncode}\n{done.stdout}"
