"""Spark's classes as a JVM has them in memory (class-data sharing): with them a driver starts in two thirds of the time.

An archive is a file of some 80 MB in the user's cache folder, named by the Java and the jars that it was made of. The first
job that finds none starts a process that makes one when the job has ended, or runs for a minute
(``changelog-engine class-archive``).

Invariants:
    * An archive is used only where nobody but its owner, this user, can write: what is in it is code.
    * Java compares an archive with itself and with the jars, and passes over one that does not fit.
    * Nothing here fails a job: without an archive, or a folder to keep it in, a JVM starts as always.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from changelog_engine.errors import EnvironmentNotReadyError
from changelog_engine.java import find_java

log = logging.getLogger("changelog_engine")

CACHE_VARIABLE = "CHANGELOG_ENGINE_CACHE"
NO_CACHE = "off"
AFTER_STDIN = "--after-stdin"
_KEPT_AS_IT_IS = re.compile(r"[\w./@+-]+", re.ASCII)  # in a list of options of Java, and of classes' places
# Java tells on standard output, which is the program's, why it does not use an archive; newer ones on standard error, too,
# in each run, that Java's own archive knows nothing of Spark's options.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr", "-Xlog:cds*=off:stderr")
_OF_THE_PROGRAM = (
    "CHANGELOG_ENGINE_",
    "PYSPARK_",
    "SPARK_",
    "_JAVA_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
)
_STAYS = (CACHE_VARIABLE, "SPARK_HOME")
_makers: list[subprocess.Popen[bytes]] = []  # at most one


def cache_folder() -> Path | None:
    """Where archives lie; None when there is no such place, or the user wants none."""
    given = os.environ.get(CACHE_VARIABLE)
    if given == NO_CACHE:
        return None
    if given:
        return Path(os.path.abspath(given))
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "changelog-engine") if os.path.isabs(base) else None


def spark_home() -> str:
    """The folder of the Spark whose JVM a driver starts: as SPARK_HOME says, else PySpark's own."""
    found = find_spec("pyspark")
    own = "" if found is None or found.origin is None else os.path.dirname(found.origin)
    return os.environ.get("SPARK_HOME") or own


def archive_stem() -> Path | None:
    """How the path of the archive for this Java and this Spark begins; None when there can be none."""
    folder = cache_folder()
    if folder is None or not _KEPT_AS_IT_IS.fullmatch(str(folder)):
        return None
    try:
        kept = hashlib.sha256("\n".join(_made_of()).encode()).hexdigest()
    except (OSError, EnvironmentNotReadyError):
        return None
    return folder / f"spark-{kept[:16]}"


def archive_name(stem: Path, size: int) -> Path:
    """The path of an archive, with its size in bytes: Java crashes on a file that is cut off."""
    return stem.with_name(f"{stem.name}-{size}.jsa")


def find_archive(stem: Path) -> Path | None:
    """The archive, when there is one that is whole and that nobody else can have written."""
    try:
        for archive in stem.parent.glob(f"{stem.name}-*.jsa"):
            found = archive.lstat()
            if (
                archive == archive_name(stem, found.st_size)
                and is_private(stem.parent)
                and _ours(found, stat.S_ISREG)
            ):
                return archive
    except OSError:
        return None
    return None


def is_private(folder: Path) -> bool:
    """Whether nobody but this user can write to a folder."""
    return _ours(folder.stat(), stat.S_ISDIR)


def _ours(found: os.stat_result, has_kind: Callable[[int], bool]) -> bool:
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return has_kind(found.st_mode) and found.st_uid == os.geteuid() and not others_write


def _made_of() -> list[str]:
    java = Path(os.path.realpath(find_java()[0]))
    parts = [java, java.parents[1] / "lib" / "modules", java.parents[1] / "lib" / "server" / "classes.jsa"]
    facts = [_fact(str(part), os.stat(part)) for part in parts]
    jars = os.path.join(spark_home(), "jars")
    with os.scandir(jars) as entries:
        facts += sorted(_fact(entry.path, entry.stat()) for entry in entries)
    return facts


def _fact(path: str, found: os.stat_result) -> str:
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def failure_note(stem: Path) -> Path:
    """The file that says why an archive could not be made: it is not tried again while it is there."""
    return stem.with_name(f"{stem.name}.failed")


def archive_options(makes: bool = True) -> tuple[str, ...]:
    """What a JVM is started with to use the archive; nothing when there is none.

    Args:
        makes: let one that is not there be made in the background.
    """
    stem = archive_stem()
    if stem is None:
        return ()
    archive = find_archive(stem)
    if archive is None:
        if makes:
            _make_later(stem)
        return ()
    with contextlib.suppress(OSError):
        os.utime(archive)  # those that nobody uses are removed
    return using_options(archive)


def using_options(archive: Path) -> tuple[str, ...]:
    """What a JVM is started with to use an archive."""
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_QUIET)


def recording_options(archive: Path) -> tuple[str, ...]:
    """What a JVM is started with to write an archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={archive}", *_QUIET)


def _make_later(stem: Path) -> None:
    """Start the process that makes an archive: when its input ends, and so when this process does, or in a minute."""
    if _makers:
        return
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _STAYS or not name.startswith(_OF_THE_PROGRAM)
    }
    try:
        if failure_note(stem).exists():  # raises where the way there is closed to this user
            return
        stem.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(stem.parent):
            return
        # In this session: Linux shares a core among sessions first, and what a niceness says counts within one only.
        maker = subprocess.Popen(
            [sys.executable, "-P", "-m", "changelog_engine", "class-archive", AFTER_STDIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=stem.parent,
            env=environment,
            process_group=0,
        )
    except OSError as error:
        log.debug("no archive of Spark's classes is made: %s", error)
        return
    _makers.append(maker)
