"""The SparkContext a job runs on: the active one where there is one, else one made for it."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext

from changelog_engine import errors
from changelog_engine.java import check_java
from changelog_engine.spark.jvm import answers
from changelog_engine.spark.jvm_options import (
    EXTRA,
    JvmSettings,
    driver_options,
    fast_launcher,
    in_defaults,
    without_warnings,
)
from changelog_engine.spark.numpy_values import tell_numpy_values_without_pandas

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
)
_AS_JAVA_IS = JvmSettings()

BACKGROUND_SLOTS = "spark.changelog.background.slots"
"""Of a session with a local master: so many slots are more than was asked for, for tasks beside the epochs."""

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?")

# What py4j logs it raises too, and then it is told once, by this engine.
logging.getLogger("py4j").setLevel(logging.CRITICAL)


def spark_context(
    options: dict[str, str], jvm: JvmSettings = _AS_JAVA_IS, background: bool = False
) -> SparkContext:
    """The active SparkContext, else a new one.

    Args:
        options: ``spark.*`` keys for a new one.
        jvm: how its JVM is started.
        background: whether a new one with a local master has a slot more than asked for, for tasks beside the epochs.

    Raises:
        ConfigurationError: PySpark's threads are not pinned to those of the JVM.
        EnvironmentNotReadyError: Java is missing or too old.
    """
    active = active_context()
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":  # as PySpark reads it
        raise errors.ConfigurationError(
            "PYSPARK_PIN_THREAD is not true: the jobs that this program runs in Spark would have each other's groups, and "
            "what is cancelled could be another one's. Unset the variable before Spark is started, or set it to true"
        )
    if active is not None:
        return active
    check_java(runs=False)
    # Workers run the driver's interpreter, not whatever "python3" is first on PATH. The key is known to spark-submit alone.
    conf = _configured(options)
    os.environ["PYSPARK_PYTHON"] = conf.get("spark.pyspark.python") or os.environ.get(
        "PYSPARK_PYTHON", sys.executable
    )
    java_options = driver_options(conf.get("spark.master") or "", options, jvm)
    if java_options is not None:
        conf.set(EXTRA, java_options)
    for variable, value in engine_path(
        {"PYTHONPATH": conf.get("spark.executorEnv.PYTHONPATH") or ""}
    ).items():
        # The session's other functions ask for our daemon as well.
        conf.set(f"spark.executorEnv.{variable}", value)
    for variable, value in _environment(conf.get("spark.master") or "").items():
        os.environ.setdefault(variable, value)
    return _started(conf, background)


def _configured(options: dict[str, str]) -> SparkConf:
    """The job's options over those of spark-submit and of the installation, and these over the engine's."""
    # spark-submit runs this process, and its JVM is there: it has --master and --conf.
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
    conf = SparkConf()
    for key, value in options.items():
        conf.set(key, value)
    # PySpark reads them when the JVM starts, too late to say what is missing.
    for key in _OF_THE_INSTALLATION:
        if (given := in_defaults(key)) is not None:
            conf.setIfMissing(key, given)
    for key, value in _DEFAULTS.items():
        conf.setIfMissing(key, value)
    conf.setIfMissing("spark.driver.memory", _driver_memory())
    return conf


def _started(conf: SparkConf, background: bool) -> SparkContext:
    """A new SparkContext that leaves Ctrl-C as it is: PySpark's handler cancels the epoch that a clean stop waits for."""
    before = signal.getsignal(signal.SIGINT)
    tell_numpy_values_without_pandas()
    with fast_launcher(), without_warnings(conf.get("spark.master") or "", conf.get(EXTRA) or ""):
        SparkContext._ensure_initialized(conf=conf)
        if background:
            _add_slot(conf)
        context = SparkContext.getOrCreate(conf)
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    return context


def _add_slot(conf: SparkConf) -> None:
    """One slot more for a local master; what Spark cuts its own work into stays as it was."""
    master = conf.get("spark.master") or ""
    given = local_cores(master)
    if given is None:
        return
    given = given or cores(SparkContext)
    tries = _LOCAL.fullmatch(master)
    conf.set("spark.master", f"local[{given + task_cpus(conf.get)}{tries[2] or '' if tries else ''}]")
    conf.setIfMissing("spark.default.parallelism", str(given))
    conf.set(BACKGROUND_SLOTS, "1")


def local_cores(master: str) -> int | None:
    """The cores that a local master was given, 0 for all of the machine's; None for other masters."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    return 0 if found[1] == "*" else int(found[1] or 1)


def task_cpus(setting: Callable[[str], str | None]) -> int:
    """The cores that a task takes.

    Args:
        setting: gives the value of a ``spark.*`` key; None for one that is not set.
    """
    return int(setting("spark.task.cpus") or 1)


def local_slots(context: SparkContext) -> int | None:
    """How many tasks a local master runs at once, epochs' and others; None for other masters."""
    given = local_cores(context.master)
    return None if given is None else (given or cores(context)) // task_cpus(context.getConf().get)


def epoch_slots(context: SparkContext) -> int | None:
    """How many tasks of epochs a local master runs at once; None for other masters."""
    slots = local_slots(context)
    return None if slots is None else slots - int(context.getConf().get(BACKGROUND_SLOTS) or 0)


def cores(context: SparkContext | type[SparkContext]) -> int:
    """The cores of the JVM: what a container lets it have."""
    jvm: Any = context._jvm
    return int(jvm.java.lang.Runtime.getRuntime().availableProcessors())


def active_context() -> SparkContext | None:
    """The SparkContext of this process that runs, if there is one."""
    active = SparkContext._active_spark_context
    if active is not None and active._jsc is not None and answers(active):
        return active
    return None


def _driver_memory() -> str:
    """A quarter of the machine's memory, 1 to 4 GiB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return "1g"
    return f"{max(1024, min(4096, total // 4 // 2**20))}m"


def _environment(master: str) -> dict[str, str]:
    """What masters on this machine alone need in the environment."""
    if not master.startswith("local"):
        return {}
    variables = {"SPARK_LOCAL_IP": "127.0.0.1"}  # nothing listens beyond this machine
    if master.startswith("local-cluster"):  # starts executors with the scripts of a Spark installation
        variables |= {"SPARK_HOME": os.path.dirname(pyspark.__file__), "SPARK_SCALA_VERSION": "2.13"}
    return variables


def engine_path(environment: dict[str, str]) -> dict[str, str]:
    """What workers need in their environment to find an engine that runs from its sources, as this process does.

    An installed engine needs nothing: PYTHONPATH comes before Python's own library, where site-packages must not be.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(errors.__file__)))
    if os.path.basename(root) in ("site-packages", "dist-packages"):
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))}
