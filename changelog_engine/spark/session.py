"""The SparkContext a job runs on: the active one where there is one, else one made for it."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import resource
import signal
import threading
from collections.abc import Callable
from typing import Any

import py4j.java_gateway
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError

from changelog_engine import errors
from changelog_engine.java import check_java
from changelog_engine.spark.gateway import own_gateway
from changelog_engine.spark.jvm import LOST, answers, jvm_ended, spark_ended, without_frames
from changelog_engine.spark.jvm_options import EXTRA, JvmSettings
from changelog_engine.spark.numpy_values import tell_numpy_values_without_pandas
from changelog_engine.spark.session_options import session_environment, session_options

log = logging.getLogger("changelog_engine")

_AS_JAVA_IS = JvmSettings()

BACKGROUND_SLOTS = "spark.changelog.background.slots"
"""Of a session with a local master: how many more slots it has than were asked for, for tasks beside the epochs."""

_FILES = 1024  # most machines give that or more; 300 are too few, and 400 do for two cores
_PROCESSES = 256  # a small job with two cores needs 100; with 98 it stood still
_PIDS_MAX = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?")

# What py4j logs it raises too, and then it is told once, by this engine. Some of it, such as where a Ctrl-C met it, it logs
# by the root's logger, which thereby gets a handler: the program's own lines would look otherwise from then on.
logging.getLogger("py4j").setLevel(logging.CRITICAL)
py4j_gateway: Any = py4j.java_gateway
py4j_gateway.logging = logging.getLogger("py4j")


def spark_context(
    options: dict[str, str], jvm: JvmSettings = _AS_JAVA_IS, background: bool = False
) -> SparkContext:
    """The active SparkContext, else a new one.

    Args:
        background: whether a new one with a local master has a slot more than asked for, for tasks beside the epochs.

    Raises:
        ConfigurationError: PySpark's threads are not pinned to those of the JVM.
        EnvironmentNotReadyError: Java is missing or too old, or Spark does not start with these options.
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
    # spark-submit runs this process, and its JVM is there: it has --master and --conf.
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
    conf = SparkConf()
    chosen = session_options(options, jvm, dict(conf.getAll()))
    os.environ.update(session_environment(chosen, os.environ))
    for key, value in chosen.items():
        conf.set(key, value)
    return _started(conf, background)


def _started(conf: SparkConf, background: bool) -> SparkContext:
    """A new SparkContext that leaves Ctrl-C as it is: PySpark's handler cancels the epoch that a clean stop waits for."""
    before = signal.getsignal(signal.SIGINT)
    tell_numpy_values_without_pandas()
    if _LOCAL.fullmatch(conf.get("spark.master") or ""):
        _tell_of_few_processes()
    with own_gateway(conf.get("spark.master") or "", conf.get(EXTRA) or "") as jvms:
        try:
            SparkContext._ensure_initialized(conf=conf)
            if background:
                _add_slot(conf)
            context = SparkContext.getOrCreate(conf)
        except Py4JJavaError as error:
            raise _not_started(conf, f"Spark says: {without_frames(str(error))}") from error
        except (PySparkRuntimeError, *LOST) as error:  # the JVM has ended
            ended = jvm_ended(jvms[-1], error) if jvms else spark_ended(SparkContext, error)
            if ended is None:
                raise
            if ended.status is None or ended.status < 0:  # nothing that it was given did that
                raise ended from None
            said = f"What its JVM said is on this program's standard error{_without_hadoop(conf)}"
            raise _not_started(conf, said) from error
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    atexit.register(_remove_socket, context._accumulatorServer.server_address, os.getpid())
    return context


def _remove_socket(address: object, process: int) -> None:
    """PySpark removes that of its accumulators where the program stops Spark, not where it ends."""
    if isinstance(address, str) and os.getpid() == process:
        with contextlib.suppress(OSError):
            os.unlink(address)


def _not_started(conf: SparkConf, said: str) -> errors.EnvironmentNotReadyError:
    return errors.EnvironmentNotReadyError(
        f"Spark did not start with master {conf.get('spark.master')!r}. {said}{_with_few_files()}",
        "Mend the spark.* option that this is about, in the program, on the command line or in the file of options. A "
        "master is written as local[4], spark://host:7077, yarn or k8s://https://host:6443",
    )


def _without_hadoop(conf: SparkConf) -> str:
    """What a JVM for YARN ends of, where that may be it."""
    yarn = (conf.get("spark.master") or "").startswith("yarn")
    if not yarn or os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR"):
        return ""
    return ". HADOOP_CONF_DIR is not set: it names the folder of yarn-site.xml and core-site.xml, which say where YARN is"


def _with_few_files() -> str:
    """What a JVM may end of that cannot open its jars and sockets: Java raises its limit to the hard one, and no further."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most == resource.RLIM_INFINITY or most >= _FILES:
        return ""
    return f". It may open {most} files at once, and needs some hundreds: raise the limit (ulimit -Hn) to {_FILES}"


def _tell_of_few_processes() -> None:
    """Tell ahead: a library whose threads the machine refuses may wait for them for good, and then nothing can be told."""
    limits = []
    if os.geteuid():  # root has no such limit
        limits.append((resource.getrlimit(resource.RLIMIT_NPROC)[0], "ulimit -u"))
    for path in _PIDS_MAX:
        with contextlib.suppress(OSError, ValueError), open(path) as file:  # "max" for none
            limits.append((int(file.read()), path))
    most, name = min(((most, name) for most, name in limits if most >= 0), default=(_PROCESSES, ""))
    if most < _PROCESSES:
        log.warning(
            "only %d processes and threads are allowed at once (%s), and a job on Spark with a local master needs some "
            "hundreds: it may fail or stand still. Raise that limit",
            most,
            name,
        )


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

    Raises:
        ConfigurationError: they are not a number.
    """
    given = (setting("spark.task.cpus") or "1").strip()
    if not given.isdecimal() or int(given) == 0:
        raise errors.ConfigurationError(
            f"option 'spark.task.cpus': expected a whole number from 1 on, got {given!r}"
        )
    return int(given)


def local_slots(context: SparkContext) -> int | None:
    """How many tasks a local master runs at once, epochs' and others; None for other masters."""
    given = local_cores(context.master)
    return None if given is None else (given or cores(context)) // task_cpus(context.getConf().get)


def epoch_slots(context: SparkContext) -> int | None:
    """How many tasks of epochs a local master runs at once; None for other masters."""
    slots = local_slots(context)
    return None if slots is None else slots - int(context.getConf().get(BACKGROUND_SLOTS) or 0)


def context_folder(context: SparkContext) -> str | None:
    """Where this process keeps files of a SparkContext; made again where somebody removed it. None where there is none."""
    folder: str | None = context._temp_dir
    if folder:
        os.makedirs(folder, 0o700, exist_ok=True)
    return folder


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
