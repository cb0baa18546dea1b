"""Which Java Spark will be started with. Imports nothing of Spark, so that a missing Java is said at once."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

from changelog_engine.errors import EnvironmentNotReadyError

LEAST_JAVA = 17


def find_java() -> tuple[str, str]:
    """The path of Java, and what to do where it cannot be used.

    Raises:
        EnvironmentNotReadyError: no Java was found.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    remedy = (
        f"Install Java {LEAST_JAVA} or newer (Debian and Ubuntu: openjdk-{LEAST_JAVA}-jre-headless; macOS: "
        f"`brew install openjdk@{LEAST_JAVA}`) and put it on PATH, or set JAVA_HOME to its folder"
    )
    if java is None or not os.path.exists(java):
        where = f"JAVA_HOME is {home!r}, but there is no {java}" if home else "there is no 'java' on PATH"
        raise EnvironmentNotReadyError(f"Spark needs Java, and {where}", remedy)
    return java, remedy


def check_java(runs: bool = True) -> int:
    """Make sure that Spark will find a Java it can use; returns its version.

    Args:
        runs: ask Java itself, which takes it 40 ms. Else the file that Java's makers put beside it is believed, if there is
            one: what is not as it says then fails when Spark is started.

    Raises:
        EnvironmentNotReadyError: it is missing or older than 17, or this user has no name.
    """
    java, remedy = find_java()
    _check_user()
    if not runs and (written := _written_version(java)) >= LEAST_JAVA:
        return written
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if found is None:
        raise EnvironmentNotReadyError(
            f"{java} -version gave no version: {(answer.stderr or answer.stdout).strip()[:200]}", remedy
        )
    version = int(found.group(2) or 0) if found.group(1) == "1" else int(found.group(1))
    if version < LEAST_JAVA:
        raise EnvironmentNotReadyError(
            f"Spark needs Java {LEAST_JAVA} or newer, and {java} is Java {version}", remedy
        )
    return version


def _check_user() -> None:
    """Java reads the user's name and home where the system keeps them, whatever USER, HOME and HADOOP_USER_NAME say."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        user = os.geteuid()
        raise EnvironmentNotReadyError(
            f"Spark does not start as user id {user}, which has no entry in /etc/passwd: Java finds no name for it",
            "Run as a user that has one; or add one, as a container's entry point can: "
            f"echo spark:x:{user}:0::/tmp:/bin/sh >> /etc/passwd. `changelog-engine run --without-spark` does without",
        ) from None


def _written_version(java: str) -> int:
    """What the file ``release`` of Java's folder says; 0 for nothing."""
    try:
        text = Path(os.path.realpath(java)).parents[1].joinpath("release").read_text(encoding="utf-8")
    except (OSError, ValueError, IndexError):
        return 0
    found = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
    return 0 if found is None else int(found[1])
