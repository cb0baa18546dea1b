"""What the JVM of a driver is started with: the engine's options, where the user has none."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from changelog_engine.java import check_java
from changelog_engine.spark.class_archive import archive_options, spark_home

log = logging.getLogger("changelog_engine")

_LOGGING = Path(__file__).with_name("log4j2.properties")
EXTRA = "spark.driver.extraJavaOptions"
_DEFAULT = "spark.driver.defaultJavaOptions"
_OF_THE_USER = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_CLASS_PATH = "spark.driver.extraClassPath"
_TO_SUBMIT = re.compile(r"--driver-java-options|--properties-file|JavaOptions")
_TO_SCRIPTS = re.compile(rf"^[^#\n]*\b({'|'.join(_OF_THE_USER)})=", re.MULTILINE)
ONE_PROCESS = re.compile(r"local(\[.*\])?")
_VECTOR = "jdk.incubator.vector"
_GONE, _GONE_SINCE = ("--add-opens=java.base/sun.security.action=ALL-UNNAMED",), 25


@dataclass(frozen=True)
class JvmSettings:
    """How a job wants the JVM that it starts."""

    options: str = ""  # of Java, separated by blanks, for a local master
    class_archive: bool = False  # whether it keeps Spark's classes in an archive from run to run


def driver_options(
    master: str, spark: Mapping[str, str], wanted: JvmSettings, makes: bool = True
) -> str | None:
    """The options of the driver's JVM; None where those of the user's Spark configuration stay alone.

    Args:
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
    if ONE_PROCESS.fullmatch(master) and not given:
        options += wanted.options.split()
        if wanted.class_archive:
            first = _before_the_jars(spark)
            if first is None:
                options += archive_options(makes)
            else:
                log.info(
                    "Spark's classes are loaded anew, not from their archive: %s comes before Spark's jars in the class "
                    "path, and Java takes classes from an archive only where it begins as that did",
                    first,
                )
    return " ".join(options)


def left_out(options: str) -> tuple[str, ...]:
    """Those of Spark's own options of Java that are left out for a local master, since Java would warn of them.

    ``jdk.incubator.vector`` is used by MLlib's linear algebra alone, and of a package that Java has removed it warns.

    Args:
        options: of the driver's JVM; where they name the module, nothing is left out.
    """
    if _VECTOR in options:
        return ()
    return (f"--add-modules={_VECTOR}", *(_GONE if check_java(runs=False) >= _GONE_SINCE else ()))


def _before_the_jars(spark: Mapping[str, str]) -> str | None:
    """What Spark's launcher puts before its jars in the class path, in words; None for nothing that is there."""
    given = spark.get(_CLASS_PATH) or in_defaults(_CLASS_PATH)
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if given or "--driver-class-path" in arguments or _CLASS_PATH in arguments:
        return f"what {_CLASS_PATH} names"
    folder = conf_folder()
    return f"the folder {folder}" if os.path.isdir(folder) else None


def in_defaults(key: str) -> str | None:
    """What the Spark installation's own file of options says of a key; None when it says nothing."""
    text = _of_the_installation("spark-defaults.conf")
    found: list[str] = re.findall(
        rf"^[ \t]*{re.escape(key)}(?:[ \t]*[=:][ \t]*|[ \t]+)(.*?)[ \t]*$", text, re.MULTILINE
    )
    return found[-1] if found else None


def conf_folder() -> str:
    """Spark's folder of settings, which need not be there."""
    return os.environ.get("SPARK_CONF_DIR") or os.path.join(spark_home(), "conf")


def _of_the_installation(name: str) -> str:
    """The text of a file in Spark's folder of settings; empty when there is none."""
    try:
        return Path(conf_folder(), name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
