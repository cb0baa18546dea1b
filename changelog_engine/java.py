"""Which Java Spark will be started with. Imports nothing of Spark, so that a missing Java is said at once."""

from __future__ import annotations

import os
import shutil

from changelog_engine.errors import EnvironmentNotReadyError

LEAST_JAVA = 17


def find_java() -> tuple[str, str]:
    """The path of Java, and what to do where it cannot be used.

    Raises:
        EnvironmentNotReadyError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    remedy = (
        f"Install Java {LEAST_JAVA} or newer (Debian and Ubuntu: openjdk-{LEAST_JAVA}-jre-headless; macOS: "
        f"`brew install openjdk@{LEAST_JAVA}`) and put it on PATH, or set JAVA_HOME to its folder"
    )
    if java is None or not os.path.exists(java):
        where = f"JAVA_HOME is {home!r}, but there is no {java}" if home else "there is no 'java' on PATH"
        raise EnvironmentNotReadyError(f"Spark needs Java, and {where}. {remedy}")
    return java, remedy
