"""The options of a session that the engine starts, and what its JVM finds in the environment.

Imports nothing of Spark: a JVM may be started before PySpark is imported (``early_jvm.py``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from changelog_engine import errors
from changelog_engine.spark.class_archive import spark_home
from changelog_engine.spark.jvm_options import EXTRA, JvmSettings, driver_options, in_defaults

SOCKETS = "spark.python.unix.domain.socket.dir"
_DEFAULTS = {
    "spark.master": "local[*]",
    "spark.app.name": "changelog-engine",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # One bad task fails the epoch at once: it must never run again on state that it half changed.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    # Workers start side by side, and keep their state while they wait for each other.
    "spark.python.daemon.module": "changelog_engine.spark.daemon",
    # A TCP socket costs two delayed acknowledgements (2 x 40 ms) a task.
    "spark.python.unix.domain.socket.enabled": "true",
    # Blocks are small and read back at once.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # With more partitions a task writes one file, sorted by partition, in place of a file for each.
    "spark.shuffle.sort.bypassMergeThreshold": "16",
    # A subtask's state is in one executor: its task waits for that one though others are free. Spark waits as long for one
    # that was lost after the stage began, so it must end.
    "spark.locality.wait.process": "30s",
    # An epoch a second leaves many jobs behind; keep few.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
}

# What an installation's spark-defaults.conf may say otherwise; the rest of the above is what an epoch needs.
_OF_THE_INSTALLATION = (
    "spark.master",
    "spark.app.name",
    "spark.ui.enabled",
    "spark.driver.memory",
    "spark.pyspark.python",
    SOCKETS,
)


def session_options(
    options: Mapping[str, str], jvm: JvmSettings, known: Mapping[str, str] | None = None, makes: bool = True
) -> dict[str, str]:
    """The job's options over those of spark-submit and of the installation, and these over the engine's."""
    chosen = {**(known or {}), **options}
    # PySpark reads them when the JVM starts, too late to say what is missing.
    for key in _OF_THE_INSTALLATION:
        if key not in chosen and (given := in_defaults(key)) is not None:
            chosen[key] = given
    for key, value in _DEFAULTS.items():
        chosen.setdefault(key, value)
    if chosen["spark.master"].startswith("yarn"):
        # Java's temporary folder is the container's there, whose path is longer than that of a socket may be.
        chosen.setdefault(SOCKETS, "/tmp")
    chosen.setdefault("spark.driver.memory", _driver_memory())
    java_options = driver_options(chosen["spark.master"], options, jvm, makes)
    if java_options is not None:
        chosen[EXTRA] = java_options
    for variable, value in engine_path(
        {"PYTHONPATH": chosen.get("spark.executorEnv.PYTHONPATH") or ""}
    ).items():
        # The session's other functions ask for our daemon as well.
        chosen[f"spark.executorEnv.{variable}"] = value
    return chosen


def session_environment(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with which a session's JVM is started that are others, or that the environment has not."""
    # Workers run the driver's interpreter, not whatever "python3" is first on PATH. The key is known to spark-submit alone.
    python = options.get("spark.pyspark.python") or environment.get("PYSPARK_PYTHON", sys.executable)
    local = _on_this_machine(options["spark.master"])
    return {
        "PYSPARK_PYTHON": python,
        **{name: value for name, value in local.items() if name not in environment},
    }


def _driver_memory() -> str:
    """A quarter of the machine's memory, 1 to 4 GiB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return "1g"
    return f"{max(1024, min(4096, total // 4 // 2**20))}m"


def _on_this_machine(master: str) -> dict[str, str]:
    """What masters on this machine alone need in the environment."""
    if not master.startswith("local"):
        return {}
    variables = {"SPARK_LOCAL_IP": "127.0.0.1"}  # nothing listens beyond this machine
    if master.startswith("local-cluster"):  # starts executors with the scripts of a Spark installation
        variables |= {"SPARK_HOME": spark_home(), "SPARK_SCALA_VERSION": "2.13"}
    return variables


def engine_path(environment: Mapping[str, str]) -> dict[str, str]:
    """What workers need in their environment to find an engine that runs from its sources, as this process does.

    An installed engine needs nothing: PYTHONPATH comes before Python's own library, where site-packages must not be.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(errors.__file__)))
    if os.path.basename(root) in ("site-packages", "dist-packages"):
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))}
