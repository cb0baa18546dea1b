"""Which Java Spark will be started with. Imports nothing of Spark, so that a missing Java is said at once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

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


def check_java() -> int:
    """Make sure that Spark will find a Java it can use.

    Returns:
        Its version.

    Raises:
        EnvironmentNotReadyError: it is missing or older than 17.
    """
    java, remedy = find_java()
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if found is None:
        raise EnvironmentNotReadyError(
            f"{java} -version gave no version: {answer.stderr.strip()[:200]}", remedy
        )
    version = int(found.group(2) or 0) if found.group(1) == "1" else int(found.group(1))
    if version < LEAST_JAVA:
        raise EnvironmentNotReadyError(
            f"Spark needs Java {LEAST_JAVA} or newer, and {java} is Java {version}", remedy
        )
    return version
